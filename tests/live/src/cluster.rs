//! Clusters of a real Citus, for tests/citus.

use crate::run;
use crate::server::{Server, pg_config_says};
use std::path::Path;

/// A coordinator and its workers, with the extension in the database `postgres` of each.
pub struct Cluster {
    /// The coordinator first. Its group is 0; the workers' are 1, 2 and so on.
    pub nodes: Vec<Server>,
}

/// Settings of every node.
const SETTINGS: &[(&str, &str)] = &[
    ("shared_preload_libraries", "citus"),
    ("wal_level", "logical"),
    ("fsync", "off"),
    ("max_worker_processes", "32"),
    ("max_prepared_transactions", "100"),
    // The nodes connect by sockets.
    ("citus.node_conninfo", "sslmode=disable"),
    ("citus.enable_statistics_collection", "off"),
    // The shards left by a move would block the next move to the same node.
    ("citus.defer_shard_delete_interval", "100ms"),
];

impl Cluster {
    pub fn start(workers: usize) -> Cluster {
        Cluster::start_of(workers, || Server::start(SETTINGS))
    }

    /// The same with a clock of its own on each node.
    pub fn start_with_clocks_of_their_own(workers: usize) -> Cluster {
        Cluster::start_of(workers, || Server::start_with_a_clock_of_its_own(SETTINGS))
    }

    fn start_of(workers: usize, start: impl Fn() -> Server) -> Cluster {
        let control = Path::new(&pg_config_says("--sharedir")).join("extension/citus.control");
        assert!(control.exists(), "Citus is missing: this PostgreSQL has no {}", control.display());
        let cluster = Cluster { nodes: (0..=workers).map(|_| start()).collect() };
        for node in &cluster.nodes {
            prepare(node);
        }
        let mut client = cluster.nodes[0].connect();
        cluster.call("citus_set_coordinator_host", 0).unwrap();
        for worker in 1..=workers {
            cluster.add(worker);
        }
        run(&mut client, "CREATE EXTENSION instagram_id");
        let version = crate::texts(
            &mut client,
            "SELECT extversion FROM pg_extension WHERE extname = 'citus'",
        );
        println!("Citus {}", version[0]);
        cluster
    }

    /// Adds a server to the cluster.
    pub fn add(&self, node: usize) {
        self.call("citus_add_node", node).unwrap();
    }

    /// Calls a function with the address of a node, on the coordinator.
    pub fn call(&self, function: &str, node: usize) -> Result<(), postgres::Error> {
        let (host, port) = self.address(node);
        let call = format!("SELECT {function}($1, $2)");
        self.nodes[0].connect().execute(&call, &[&host, &port]).map(|_| ())
    }

    /// Disables a node, which may be down.
    pub fn disable(&self, node: usize) {
        // The first worker is disabled only synchronously.
        let (host, port) = self.address(node);
        let disable = format!("SELECT citus_disable_node('{host}', {port}, true)");
        run(&mut self.nodes[0].connect(), &disable);
    }

    /// The same, and removes the node when another one has received this.
    pub fn disable_and_remove(&self, node: usize, other: usize) {
        self.disable(node);
        let (host, _) = self.address(node);
        let disabled = format!("SELECT NOT isactive FROM pg_dist_node WHERE nodename = '{host}'");
        self.nodes[other].wait_until(&disabled);
        self.call("citus_remove_node", node).unwrap();
    }

    /// The address of a node in messages.
    pub fn name(&self, node: usize) -> String {
        let (host, port) = self.address(node);
        format!("{host}:{port}")
    }

    /// Starts one more worker.
    pub fn grow(&mut self) {
        let worker = Server::start(SETTINGS);
        prepare(&worker);
        self.nodes.push(worker);
        self.add(self.nodes.len() - 1);
    }

    /// The address that the other nodes use: libpq accepts a socket's folder as a host.
    pub fn address(&self, node: usize) -> (String, i32) {
        (self.nodes[node].path().display().to_string(), 5432)
    }

    /// The node that owns a distributed schema.
    pub fn node_of(&self, schema: &str) -> usize {
        let query = format!(
            "SELECT DISTINCT nodename FROM citus_shards WHERE table_name::text LIKE '{schema}.%'"
        );
        let hosts = crate::texts(&mut self.nodes[0].connect(), &query);
        assert_eq!(hosts.len(), 1, "{schema} is on {hosts:?}");
        self.nodes.iter().position(|node| node.path().display().to_string() == hosts[0]).unwrap()
    }

    /// Moves a distributed schema; mode `block_writes`, or `force_logical`, which does not block
    /// writes.
    pub fn move_schema(&self, schema: &str, to: usize, mode: &str) {
        let (host, port) = self.address(to);
        self.make_move(&format!(
            "SELECT citus_schema_move('{schema}', '{host}', {port}, '{mode}')"
        ));
    }

    /// Moves all tables of a node to others, and then allows it to have tables again.
    pub fn drain(&self, node: usize) {
        let (host, port) = self.address(node);
        self.make_move(&format!("SELECT citus_drain_node('{host}', {port})"));
        let again =
            format!("SELECT citus_set_node_property('{host}', {port}, 'shouldhaveshards', true)");
        run(&mut self.nodes[0].connect(), &again);
    }

    fn make_move(&self, statement: &str) {
        self.nodes[0].wait_for(statement, || {
            match self.nodes[0].connect().batch_execute(statement) {
                Ok(()) => true,
                // Objects left by the last move are still in use.
                Err(error) if said(&error).contains("leftover from the previous move") => false,
                Err(error) => panic!("{statement}: {}", crate::why(&error)),
            }
        });
    }
}

fn said(error: &postgres::Error) -> String {
    error.as_db_error().map(|error| error.message().to_owned()).unwrap_or_default()
}

fn prepare(node: &Server) {
    let mut client = node.connect();
    // The address that a node uses to connect to itself.
    run(
        &mut client,
        &format!("ALTER SYSTEM SET citus.local_hostname = '{}'", node.path().display()),
    );
    run(&mut client, "SELECT pg_reload_conf()");
    run(&mut client, "CREATE EXTENSION citus");
}

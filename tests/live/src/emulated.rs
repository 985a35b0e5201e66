//! An emulated Citus cluster for every PostgreSQL: servers whose catalogs have the tables of Citus,
//! filled by the tests. The tables of a schema are plain tables on every node, so a client inserts
//! on the node that would store the row.

use crate::commands::Commands;
use crate::run;
use crate::server::Server;
use postgres::Client;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A coordinator and its workers, with the extension in the database `postgres` of each.
pub struct Emulated {
    /// The coordinator first.
    pub nodes: Vec<Server>,
    /// The commands that each node runs on others.
    commands: Vec<Commands>,
    /// A session on each node: see [`Emulated::session`].
    sessions: Vec<Mutex<Client>>,
    state: Mutex<State>,
}

/// The contents of Citus's catalogs after they have reached all nodes.
#[derive(Default)]
struct State {
    /// For each server its group, and whether it is active; `None` if it is not in the cluster.
    members: Vec<Option<(i32, bool)>>,
    /// The last group; groups are never reused.
    groups: i32,
    /// Statements that nodes run when they join, and how many of them each node has run.
    statements: Vec<String>,
    ran: Vec<usize>,
    schemas: Vec<Schema>,
}

struct Schema {
    name: String,
    /// The node with its tables; `None` after the schema was undistributed, which keeps the copies
    /// of the sequence.
    placed_on: Option<usize>,
}

/// Settings of every node.
const SETTINGS: &[(&str, &str)] = &[
    ("allow_system_table_mods", "on"),
    ("fsync", "off"),
    ("citus.cluster_name", "default"),
    ("citus.enable_unsafe_triggers", "off"),
    ("citus.node_connection_timeout", "30000"),
];

/// Shard 5 with a table whose ids a trigger generates.
pub const SHARD_WITH_TRIGGER: &str = "SELECT create_shard(5);
    CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), batch bigint);
    SELECT convert_defaults_to_triggers(5)";
pub const NEXT_ID: &str = "SELECT insta5.next_id()";
/// Each way to use the sequence of shard 5 by a query.
pub const WAYS: [&str; 5] = [
    NEXT_ID,
    "SELECT next_id(5)",
    "SELECT next_id(5, 'insta5.table_id_seq')",
    "SELECT next_ids(5, 10)",
    AN_HOUR_AHEAD,
];
pub const AN_HOUR_AHEAD: &str = "SELECT advance_shard(5, make_id(now() + interval '1 hour', 5, 0))";

/// A fault when one node runs a command on another.
#[derive(Clone, Copy)]
pub enum Fault {
    /// The node cannot be reached.
    Refuse,
    /// The command is run, but its result is lost.
    Lose,
}

impl Emulated {
    pub fn start(workers: usize) -> Emulated {
        Emulated::start_of(workers, || Server::start_with_one_database(SETTINGS))
    }

    /// The same with a clock of its own on each node.
    pub fn start_with_clocks_of_their_own(workers: usize) -> Emulated {
        Emulated::start_of(workers, || Server::start_with_a_clock_of_its_own(SETTINGS))
    }

    /// With shard 5, placed on node 1.
    pub fn start_with_shard(workers: usize) -> Emulated {
        Emulated::start(workers).with_shard()
    }

    pub fn with_shard(self) -> Emulated {
        self.create(SHARD_WITH_TRIGGER);
        self.distribute("insta5", 1);
        self
    }

    pub fn connect_as(&self, node: usize, role: &str) -> Client {
        self.nodes[node].connect_as(role)
    }

    /// Ids of shard 5 from its node, an hour ahead of the clock.
    pub fn ids_an_hour_ahead(&self, node: usize) -> Vec<i64> {
        let mut client = self.nodes[node].connect();
        [AN_HOUR_AHEAD, NEXT_ID].map(|query| crate::one(&mut client, query)).into()
    }

    fn start_of(workers: usize, start: impl Fn() -> Server + Sync) -> Emulated {
        let emulated = crate::in_parallel(workers + 1, |_| emulate(start()));
        let groups = i32::try_from(emulated.len()).unwrap();
        let members = (0..groups).map(|group| Some((group, true))).collect();
        let state = State { members, groups, ran: vec![0; emulated.len()], ..State::default() };
        let (nodes, commands, sessions) = (vec![], vec![], vec![]);
        let mut cluster = Emulated { nodes, commands, sessions, state: state.into() };
        emulated.into_iter().for_each(|node| cluster.push(node));
        cluster.announce_everywhere();
        cluster
    }

    fn push(&mut self, (node, commands, session): (Server, Commands, Client)) {
        self.nodes.push(node);
        self.commands.push(commands);
        self.sessions.push(session.into());
    }

    /// The session in which the cluster itself works on a node, for what needs no session of its
    /// own. A new one after the node was down.
    pub fn session(&self, node: usize) -> MutexGuard<'_, Client> {
        let mut session = self.sessions[node].lock().unwrap_or_else(PoisonError::into_inner);
        if session.is_valid(Duration::from_secs(60)).is_err() {
            *session = self.nodes[node].connect();
        }
        session
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts one more worker.
    pub fn grow(&mut self) {
        self.push(emulate(Server::start_with_one_database(SETTINGS)));
        let mut state = self.state();
        state.members.push(None);
        state.ran.push(0);
        drop(state);
        self.add(self.nodes.len() - 1);
    }

    /// Adds a server to the cluster, in a group that no other one has had.
    pub fn add(&self, node: usize) {
        let mut state = self.state();
        state.members[node] = Some((state.groups, true));
        state.groups += 1;
        drop(state);
        self.catch_up(node);
        self.announce_everywhere();
    }

    /// Removes a node, unchanged; it may be down.
    pub fn remove(&self, node: usize) {
        self.state().members[node] = None;
        self.announce_everywhere();
    }

    /// Disables a node, which stays in the cluster.
    pub fn disable(&self, node: usize) {
        self.set_active(node, false);
    }

    pub fn activate(&self, node: usize) {
        self.set_active(node, true);
    }

    fn set_active(&self, node: usize, is_active: bool) {
        let mut state = self.state();
        state.members[node].as_mut().expect("a part of the cluster").1 = is_active;
        drop(state);
        self.announce_everywhere();
    }

    /// The address that the other nodes use: libpq accepts a socket's folder as a host.
    pub fn address(&self, node: usize) -> (String, i32) {
        (self.nodes[node].path().display().to_string(), 5432)
    }

    /// The current group of a node, or `None` if it is not in the cluster.
    pub fn group(&self, node: usize) -> Option<i32> {
        self.state().members[node].map(|(group, _)| group)
    }

    /// Runs statements on the coordinator; the other nodes run them at their next catch-up.
    pub fn create(&self, statements: &str) {
        self.state().statements.push(statements.into());
        self.catch_up(0);
    }

    /// Runs statements on every node, and later on nodes that join.
    pub fn everywhere(&self, statements: &str) {
        self.state().statements.push(statements.into());
        self.members().for_each(|node| self.catch_up(node));
    }

    /// Distributes a schema, with its tables on this node.
    pub fn distribute(&self, schema: &str, placed_on: usize) {
        self.distribute_together([schema], placed_on);
    }

    pub fn distribute_together<S: AsRef<str>>(
        &self,
        schemas: impl IntoIterator<Item = S>,
        placed_on: usize,
    ) {
        self.decide_moves(schemas, placed_on);
        self.members().for_each(|node| self.catch_up(node));
        self.announce_everywhere();
    }

    /// Makes it a local schema of the coordinator.
    pub fn undistribute(&self, schema: &str) {
        self.decide_move(schema, None);
        self.announce_everywhere();
    }

    /// Moves a distributed schema; every node that is not down has received the move when this
    /// returns.
    pub fn move_schema(&self, schema: &str, to: usize) {
        self.move_together([schema], to);
    }

    pub fn move_together<S: AsRef<str>>(&self, schemas: impl IntoIterator<Item = S>, to: usize) {
        self.decide_moves(schemas, to);
        self.announce_everywhere();
    }

    fn decide_moves<S: AsRef<str>>(&self, schemas: impl IntoIterator<Item = S>, to: usize) {
        schemas.into_iter().for_each(|schema| self.decide_move(schema.as_ref(), Some(to)));
    }

    /// The first half of a move. The nodes receive it one by one, with [`Emulated::announce`]:
    /// Citus commits the parts of a transaction on several nodes one after another.
    pub fn decide_move(&self, schema: &str, to: Option<usize>) {
        let mut state = self.state();
        match state.schemas.iter_mut().find(|known| known.name == schema) {
            Some(known) => known.placed_on = to,
            None => state.schemas.push(Schema { name: schema.into(), placed_on: to }),
        }
    }

    /// The node that owns a distributed schema.
    pub fn node_of(&self, schema: &str) -> usize {
        let state = self.state();
        let known = state.schemas.iter().find(|known| known.name == schema);
        known.and_then(|known| known.placed_on).expect("a distributed schema")
    }

    /// The nodes in the cluster.
    fn members(&self) -> impl Iterator<Item = usize> + use<> {
        let members = self.state().members.clone();
        (0..members.len())
            .filter(move |&node| members[node].is_some_and(|(_, is_active)| is_active))
    }

    /// A node that is down does not receive the change.
    fn announce_everywhere(&self) {
        let are_up = self.members().filter(|&node| self.nodes[node].is_running());
        are_up.for_each(|node| self.announce(node));
    }

    /// Writes the current contents of the catalogs to one node, in one transaction.
    pub fn announce(&self, node: usize) {
        let sql = self.metadata(node);
        run(&mut *self.session(node), &sql);
    }

    fn metadata(&self, node: usize) -> String {
        let state = self.state();
        let group_of = |node: usize| state.members[node].map_or(-1, |(group, _)| group);
        let mut sql = String::from(
            "BEGIN; SET LOCAL search_path = pg_catalog; DELETE FROM pg_dist_placement; DELETE FROM pg_dist_shard;
             DELETE FROM pg_dist_partition; DELETE FROM pg_dist_schema; DELETE FROM pg_dist_node;",
        );
        for (member, entry) in state.members.iter().enumerate() {
            let Some((group, is_active)) = entry else { continue };
            let (host, port) = self.address(member);
            let _ = write!(
                sql,
                "INSERT INTO pg_dist_node (nodeid, groupid, nodename, nodeport, isactive)
                 VALUES ({group}, {group}, '{host}', {port}, {is_active});"
            );
        }
        let group = group_of(node);
        let _ = write!(
            sql,
            "DELETE FROM pg_dist_local_group WHERE groupid <> {group};
             INSERT INTO pg_dist_local_group VALUES ({group}) ON CONFLICT DO NOTHING;"
        );
        for (number, Schema { name, placed_on }) in state.schemas.iter().enumerate() {
            let schema =
                format!("(SELECT oid FROM pg_namespace WHERE nspname = {})", literal(name));
            let _ = write!(
                sql,
                "INSERT INTO pg_dist_object (classid, objid, objsubid)
                 SELECT 'pg_class'::regclass, oid, 0 FROM pg_class WHERE relnamespace = {schema} AND relkind = 'S'
                 UNION ALL SELECT 'pg_proc'::regclass, oid, 0 FROM pg_proc WHERE pronamespace = {schema}
                 UNION ALL SELECT 'pg_namespace'::regclass, {schema}, 0 ON CONFLICT DO NOTHING;"
            );
            let Some(placed_on) = placed_on else { continue };
            let (placed_on, first) = (group_of(*placed_on), 102_000 + 1000 * number);
            let _ = write!(
                sql,
                "INSERT INTO pg_dist_schema VALUES ({schema}, {number} + 1);
                 INSERT INTO pg_dist_partition SELECT oid, 'n', NULL, {number} + 1, 's', false
                 FROM pg_class WHERE relnamespace = {schema} AND relkind IN ('r', 'p');
                 INSERT INTO pg_dist_shard SELECT logicalrelid, {first} + row_number() OVER (ORDER BY logicalrelid::text), 't'
                 FROM pg_dist_partition WHERE colocationid = {number} + 1;
                 INSERT INTO pg_dist_placement SELECT shardid, shardid, 1, 0, {placed_on}
                 FROM pg_dist_shard WHERE shardid > {first} AND shardid <= {first} + 1000;"
            );
        }
        sql + "COMMIT"
    }

    /// Runs the statements that a node has not run yet, and sets the ranges of its copies.
    pub fn catch_up(&self, node: usize) {
        let mut state = self.state();
        let State { statements, ran, .. } = &mut *state;
        let mut session = self.session(node);
        for sql in &statements[ran[node]..] {
            run(&mut *session, sql);
            // Some set the role.
            run(&mut *session, "DISCARD ALL");
        }
        ran[node] = statements.len();
        drop(state);
        self.give_ranges(node, &mut session);
    }

    /// Sets the range of a worker's copies, if it differs, to the one that Citus sets whenever it
    /// sends its metadata to the node; see `AlterSequenceMinMax` in its
    /// `worker_data_fetch_protocol.c`.
    fn give_ranges(&self, node: usize, client: &mut Client) {
        let state = self.state();
        let group = i64::from(state.members[node].map_or(0, |(group, _)| group));
        if group == 0 {
            return;
        }
        let (first, last) = ((group << 48) + 1, (group << 48) + 1 + (1 << 48));
        for Schema { name, .. } in &state.schemas {
            let query = format!(
                "SELECT format('%I.%I', schemaname, sequencename) FROM pg_sequences
                 WHERE schemaname = {} AND (min_value, max_value) <> ({first}, {last})",
                literal(name)
            );
            for sequence in crate::texts(client, &query) {
                let alter = format!(
                    "ALTER SEQUENCE {sequence} MINVALUE {first} MAXVALUE {last} START {first} RESTART {first}"
                );
                run(client, &alter);
            }
        }
    }

    /// From now on `fault` occurs when `asker` runs a command on a node that is LIKE `command`.
    pub fn break_commands(&self, asker: usize, node: usize, command: &str, fault: Fault) {
        let kind = match fault {
            Fault::Refuse => "refuse",
            Fault::Lose => "lose",
        };
        self.note_fault(asker, node, command, kind);
    }

    fn note_fault(&self, asker: usize, node: usize, command: &str, kind: &str) {
        let insert = "INSERT INTO pg_catalog.emulated_faults VALUES ($1, $2, $3)";
        self.session(asker).execute(insert, &[&self.address(node).0, &command, &kind]).unwrap();
    }

    pub fn restore_commands(&self, asker: usize) {
        run(&mut *self.session(asker), "DELETE FROM pg_catalog.emulated_faults");
    }

    /// The number of commands that a node has run on other nodes.
    pub fn commands(&self, asker: usize) -> i64 {
        self.commands[asker].count()
    }

    /// Makes `asker` wait before it runs commands that are LIKE `command` on a node, until the
    /// returned client is dropped.
    pub fn pause_commands(&self, asker: usize, node: usize, command: &str) -> Client {
        self.pause(asker, node, command, "pause")
    }

    /// Same, after the node has run them.
    pub fn pause_after_commands(&self, asker: usize, node: usize, command: &str) -> Client {
        self.pause(asker, node, command, "pause after")
    }

    fn pause(&self, asker: usize, node: usize, command: &str, kind: &str) -> Client {
        let mut lock = self.nodes[asker].connect();
        run(&mut lock, "SELECT pg_advisory_lock(4815)");
        self.note_fault(asker, node, command, kind);
        lock
    }

    /// Waits until a session of `asker` waits in such a pause.
    pub fn wait_for_pause(&self, asker: usize) {
        let query = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 4815 AND NOT granted)";
        self.nodes[asker].wait_for(query, || crate::one(&mut self.session(asker), query));
    }
}

/// Makes a server a node, with the extension.
fn emulate(node: Server) -> (Server, Commands, Client) {
    let commands = Commands::new(node.path());
    let pipe = commands.pipe().display().to_string();
    let sql = include_str!("emulated.sql").replace("PIPE", &pipe);
    let mut session = node.connect();
    run(&mut session, &format!("{sql} CREATE EXTENSION instagram_id"));
    (node, commands, session)
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

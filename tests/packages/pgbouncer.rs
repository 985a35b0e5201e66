//! docs/run/poolers.md through PgBouncer, and a server that fails below it.

use instagram_id_live::*;
use postgres::types::Type;
use postgres::{Client, NoTls};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

/// A PgBouncer in transaction mode, in front of a server.
struct PgBouncer<'a> {
    server: &'a Server,
    process: Child,
}

impl PgBouncer<'_> {
    fn start(server: &Server, pool_size: usize) -> PgBouncer<'_> {
        let installed = CACHE.join("pgbouncer");
        let is_there = installed.join("complete").exists();
        assert!(is_there, "PgBouncer is missing; to install it: scripts/setup.sh partners");
        let folder = server.path().display();
        let settings = format!(
            "[databases]
             * = host={folder} port=5432
             [pgbouncer]
             unix_socket_dir = {folder}
             listen_port = 6432
             auth_type = trust
             auth_file = {folder}/users
             admin_users = postgres
             pool_mode = transaction
             default_pool_size = {pool_size}
             max_client_conn = 100
             server_login_retry = 0.1
             ignore_startup_parameters = extra_float_digits, options
             logfile = {folder}/pgbouncer.log
             verbose = 0\n"
        );
        fs::write(server.path().join("users"), "\"postgres\" \"\"\n\"app\" \"\"\n").unwrap();
        let config = server.path().join("pgbouncer.ini");
        fs::write(&config, settings.replace("\n             ", "\n")).unwrap();
        let libraries = fs::read_to_string(installed.join("complete")).unwrap();
        let mut command = Command::new(installed.join("usr/sbin/pgbouncer"));
        command.arg("--quiet").arg(&config).env("LD_LIBRARY_PATH", libraries.trim());
        if let Some((user, group)) = server.owner() {
            command.uid(user).gid(group);
        }
        let pooler = PgBouncer { server, process: command.spawn().unwrap() };
        server.wait_for("PgBouncer", || pooler.try_connect("postgres", "postgres").is_ok());
        pooler
    }

    fn try_connect(&self, user: &str, database: &str) -> Result<Client, postgres::Error> {
        self.server.config(database).port(6432).user(user).connect(NoTls)
    }
}

impl Drop for PgBouncer<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn page_examples_run_through_pgbouncer() {
    let server = Server::start(&[("fsync", "off")]);
    let pooler = PgBouncer::start(&server, 1);
    run(&mut server.connect(), "CREATE ROLE app LOGIN");
    let connect = |user, database| pooler.try_connect(user, database).unwrap();
    let clients = &mut [
        ("A", connect("postgres", "postgres")),
        ("B", connect("postgres", "postgres")),
        ("app", connect("app", "postgres")),
        ("console", connect("postgres", "pgbouncer")),
    ];
    run_page(include_str!("../../docs/run/poolers.md"), 11, clients);
    // A prepared statement without a name, which PgBouncer supports in each version.
    let mut client = connect("postgres", "postgres");
    for shard in [5, 6] {
        let rows =
            client.query_typed("SELECT id_shard(next_id($1))", &[(&shard, Type::INT4)]).unwrap();
        assert_eq!(rows[0].get::<_, i32>(0), shard);
    }
}

/// The lock of a shard would be that of another session.
#[test]
fn map_through_pgbouncer_is_refused() {
    let server = Server::start(&[("fsync", "off")]);
    let _pooler = PgBouncer::start(&server, 1);
    let map = format!("host={} user=postgres port=6432 dbname=postgres", server.path().display());
    let output = server.shards_command(&["init"]).env("INSTAGRAM_ID_MAP", map).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the map cannot be reached: the server ignores the settings"), "{said}");
}

/// Fifty clients share ten server connections while the server is killed.
#[test]
fn server_killed_below_pgbouncer_repeats_no_id() {
    let server = Server::start(&[]);
    setup_photos(&mut server.connect());
    let pooler = PgBouncer::start(&server, 10);
    let crashes = length(3, 30);
    // After a crash a sequence is a second ahead of the clock, or 50 ms ahead of its own value if
    // that is more.
    let clock = Clock::Within { behind: 0, ahead: 1000 + 50 * crashes as i64 };
    let mut journal = Journal::new("fifty clients of PgBouncer and a server that is killed", clock);
    let work = [query("INSERT INTO insta5.photos DEFAULT VALUES RETURNING id")];
    let (sessions, ()) = under_load(
        || pooler.try_connect("postgres", "postgres"),
        50,
        &work,
        || {
            for _ in 0..crashes {
                thread::sleep(Duration::from_millis(700));
                server.crash();
                server.launch();
                journal.faults += 1;
            }
            thread::sleep(Duration::from_millis(700));
        },
    );
    let acknowledged: Vec<i64> = sessions.iter().flat_map(|session| session.ids.clone()).collect();
    assert!(sessions.iter().all(|session| !session.ids.is_empty()));
    journal.add(sessions);
    journal.check();
    check_no_row_is_lost(&mut server.connect(), &acknowledged);
}

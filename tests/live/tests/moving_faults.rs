//! Faults during a move: servers that crash, disks that are full, connections that are refused; and passwords, which
//! must not be shown.

use crate::moving::{HAS_TRIGGERS, IS_CLOSED, MOVES, NOTHING, Servers, fill, kill_group, leftovers, outcome};
use instagram_id_live::*;
use postgres::Client;
use postgres::{Config, NoTls};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Inserts photos on whichever server has the shard, and survives the loss of any server. Returns the ids that were
/// acknowledged, in their order.
fn insert_until(servers: &Servers, stop: &AtomicBool) -> Vec<i64> {
    let mut acknowledged = Vec::new();
    let mut client: Option<Client> = None;
    while !stop.load(Ordering::Relaxed) {
        let connected =
            client.take().filter(|client| !client.is_closed()).or_else(|| connect_by_map(servers));
        if let Some(mut connected) = connected
            && let Ok(row) = connected.query_one("INSERT INTO insta5.photos DEFAULT VALUES RETURNING id", &[])
        {
            acknowledged.push(row.get(0));
            client = Some(connected);
        }
        thread::sleep(Duration::from_millis(2));
    }
    acknowledged
}

fn connect_by_map(servers: &Servers) -> Option<Client> {
    let query = "SELECT conninfo FROM shard_map.shards JOIN shard_map.servers USING (server) WHERE shard = 5";
    let mut map = servers.b.config("map").connect(NoTls).ok()?;
    let conninfo: String = map.query_one(query, &[]).ok()?.get(0);
    conninfo.parse::<Config>().unwrap().connect(NoTls).ok()
}

/// Servers crash at random moments of a move, the one with the map among them. The move is resumed until it is done.
#[test]
fn crashing_servers_lose_nothing() {
    let servers = Servers::start();
    let before = fill(&servers, 20_000);
    let mut random = random("servers that crash during moves");
    let stop = AtomicBool::new(false);
    let (mut crashes, mut failed) = (0, 0);
    let sessions: Vec<Vec<i64>> = thread::scope(|scope| {
        let stop_at_end = StopAtEnd(&stop);
        let sessions: Vec<_> = (0..2).map(|_| scope.spawn(|| insert_until(&servers, &stop))).collect();
        for _ in 0..length(4, 40) {
            let to = if servers.placement() == "a" { "b" } else { "a" };
            loop {
                let command = servers.start_command(&["move", "5", "--to", to, "--stop", "20"]);
                // Later commands are left alone more often, so that one completes.
                if failed == 0 || random.u64(0..3) > 0 {
                    thread::sleep(Duration::from_millis(random.u64(20..1200)));
                    let server = if random.bool() { &servers.a } else { &servers.b };
                    server.crash();
                    server.launch();
                    crashes += 1;
                }
                match outcome(command) {
                    Ok(_) => break,
                    // Nothing else is refused.
                    Err(said) => assert!(said.contains("error: "), "{said}"),
                }
                failed += 1;
                // Its server sessions may have to notice that it is gone.
                let query = "SELECT EXISTS (SELECT FROM shard_map.moves WHERE finished IS NOT NULL)";
                if one(&mut servers.map(), query) {
                    break;
                }
            }
            assert_eq!(servers.placement(), to);
            servers.command(&["clean", "5"]);
            failed = 0;
        }
        drop(stop_at_end);
        sessions.into_iter().map(|session| session.join().unwrap()).collect()
    });
    println!("{crashes} crashes, {} acknowledged ids", sessions.iter().map(Vec::len).sum::<usize>());
    check_unique_and_increasing(&sessions);
    let mut client = servers.connect_to_shard();
    let rows: BTreeSet<i64> = column(&mut client, "SELECT id FROM insta5.photos").into_iter().collect();
    let lost = sessions.iter().flatten().chain(&before).filter(|id| !rows.contains(id)).count();
    assert_eq!(lost, 0, "rows lost");
    assert!(!one::<bool>(&mut client, HAS_TRIGGERS) && !one::<bool>(&mut client, IS_CLOSED));
    for server in [&servers.a, &servers.b] {
        assert_eq!(leftovers(server), NOTHING);
    }
    assert_eq!(one::<i64>(&mut servers.map(), MOVES), 0);
}

/// If a server cannot be reached the command says which one, and the move can be resumed.
#[test]
fn unreachable_server_is_named() {
    let servers = Servers::start();
    fill(&servers, 100);
    servers.a.stop();
    let said = servers.refusal(&["move", "5", "--to", "b"]);
    assert!(said.contains("server a cannot be reached"), "{said}");
    servers.a.launch();
    servers.command(&["move", "5", "--to", "b"]);
    servers.b.stop();
    let said = servers.refusal(&["clean", "5"]);
    assert!(said.contains("the map cannot be reached"), "{said}");
    servers.b.launch();
    servers.command(&["clean", "5"]);
}

/// A target whose disk is full reports errors; cancelling removes what is there, and writes were never stopped.
#[test]
fn full_disk_of_the_target_can_be_cancelled() {
    let servers = Servers::start();
    let disk = servers.b.path().join("small");
    std::fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"]).arg(&disk).output();
    if !mounted.is_ok_and(|mounted| mounted.status.success()) {
        println!("skipped: no file system can be mounted here");
        return;
    }
    let _unmount = Unmount(&disk);
    let folder = disk.join("tablespace");
    std::fs::create_dir(&folder).unwrap();
    let owner =
        std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(servers.b.path().join("data")).unwrap());
    std::os::unix::fs::chown(&folder, Some(owner), None).unwrap();
    let mut b = servers.b.connect();
    b.batch_execute(&format!("CREATE TABLESPACE small LOCATION '{}'", folder.display())).unwrap();
    b.batch_execute("CREATE DATABASE app TABLESPACE small").unwrap();
    servers.b.connect_to("app").batch_execute("CREATE EXTENSION instagram_id").unwrap();
    let conninfo = format!("host={} user=postgres dbname=app", servers.b.path().display());
    servers.command(&["server", "b", &conninfo]);
    fill(&servers, 500_000);
    let command = servers.start_command(&["move", "5", "--to", "b"]);
    servers.b.wait_for("an error", || servers.b.log().contains("No space left on device"));
    servers.a.connect().batch_execute("INSERT INTO insta5.photos DEFAULT VALUES").unwrap();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(command.id() as i32).unwrap(),
        rustix::process::Signal::INT,
    )
    .unwrap();
    let output = command.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    servers.command(&["cancel", "5"]);
    for server in [&servers.a, &servers.b] {
        assert_eq!(leftovers(server), NOTHING);
    }
    assert!(!one::<bool>(&mut servers.a.connect(), IS_CLOSED));
    assert_eq!(one::<i64>(&mut servers.map(), MOVES), 0);
}

struct Unmount<'a>(&'a std::path::Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        // Lazily: the server may still have files open there.
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

/// The password of a conninfo is neither in the arguments of a program nor in a server's log, even where servers log
/// every statement.
#[test]
fn passwords_are_not_shown() {
    const SECRET: &str = "pass'word\\of a secret";
    let servers = Servers::start_with(&[("log_min_messages", "debug1")]);
    fill(&servers, 20_000);
    for (name, server) in [("a", &servers.a), ("b", &servers.b)] {
        let quoted = SECRET.replace('\\', "\\\\").replace('\'', "\\'");
        let conninfo =
            format!("host={} user=postgres dbname=postgres password='{quoted}'", server.path().display());
        servers.command(&["server", name, &conninfo]);
    }
    for server in [&servers.a, &servers.b] {
        let all = "ALTER SYSTEM SET log_statement = 'all'; ALTER SYSTEM SET log_min_duration_statement = 0;
            ALTER SYSTEM SET log_error_verbosity = verbose; SELECT pg_reload_conf()";
        for statement in all.split(';') {
            server.connect().batch_execute(statement).unwrap();
        }
    }
    let stop = AtomicBool::new(false);
    let arguments = thread::scope(|scope| {
        let stop_at_end = StopAtEnd(&stop);
        let watching = scope.spawn(|| {
            let mut seen = BTreeSet::new();
            while !stop.load(Ordering::Relaxed) {
                seen.extend(arguments_of_all_processes());
            }
            seen
        });
        let command = servers
            .b
            .shards_command(&["move", "5", "--to", "b"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        outcome(command).unwrap();
        drop(stop_at_end);
        watching.join().unwrap()
    });
    // The part that no quoting changes.
    let part = "of a secret";
    assert!(arguments.iter().any(|arguments| arguments.contains("pg_dump")), "the watch has missed pg_dump");
    assert!(!arguments.iter().any(|arguments| arguments.contains(part)), "{arguments:?}");
    for server in [&servers.a, &servers.b] {
        let log = server.log();
        assert!(
            log.contains("CREATE PUBLICATION") || log.contains("ALTER SUBSCRIPTION"),
            "statements are logged"
        );
        let lines: Vec<_> = log.lines().filter(|line| line.contains(part)).collect();
        // The command asks the map, in another database of b, for the connection strings; it gets them as rows.
        assert!(lines.is_empty(), "{lines:?}");
    }
}

fn arguments_of_all_processes() -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap();
    let arguments = processes.filter_map(|process| std::fs::read(process.ok()?.path().join("cmdline")).ok());
    arguments.map(|arguments| String::from_utf8_lossy(&arguments).replace('\0', " ")).collect()
}

/// Killed between the opening of the copy and the change of the map, a move can only be finished: clients may have
/// written to the copy.
#[test]
fn move_killed_before_the_map_changed_can_only_be_finished() {
    let servers = Servers::start();
    let before = fill(&servers, 100);
    let mut map = servers.map();
    map.batch_execute("BEGIN; SELECT FROM shard_map.last FOR UPDATE").unwrap();
    let command = servers.start_command(&["move", "5", "--to", "b"]);
    let waiting =
        "FROM pg_stat_activity WHERE application_name = 'instagram_id_shards' AND wait_event_type = 'Lock'";
    servers.b.wait_until(&format!("SELECT EXISTS (SELECT {waiting})"));
    assert!(!kill_group(command));
    let ended = format!("SELECT count(pg_terminate_backend(pid, 10000)) {waiting}");
    assert_eq!(one::<i64>(&mut servers.b.connect(), &ended), 1);
    map.batch_execute("COMMIT").unwrap();
    assert_eq!(servers.placement(), "a");
    let insert = "INSERT INTO insta5.photos DEFAULT VALUES RETURNING id";
    assert_eq!(error_of(&mut servers.a.connect(), insert).0, "25006");
    assert!(one::<i64>(&mut servers.b.connect(), insert) > *before.last().unwrap());
    assert!(servers.refusal(&["cancel", "5"]).contains("shard 5 is open on b already"));
    servers.command(&["move", "5", "--to", "b"]);
    assert_eq!(servers.placement(), "b");
    assert_eq!(error_of(&mut servers.a.connect(), insert).0, "25006");
    assert_eq!(one::<i64>(&mut servers.connect_to_shard(), "SELECT count(*) FROM insta5.photos"), 101);
    servers.command(&["clean", "5"]);
}

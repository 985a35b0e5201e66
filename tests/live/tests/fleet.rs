//! `instagram_id_shards plan` and `apply`: many shards on several servers.

use crate::moving::{fails, outcome};
use instagram_id_live::*;
use postgres::Client;
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Instant;

const SERVERS: [&str; 4] = ["a", "b", "c", "d"];

struct Fleet {
    servers: Vec<Server>,
}

impl Fleet {
    /// Starts servers with these numbers of shards, all of the same size. The first one has the
    /// map.
    fn start<const N: usize>(shards: [i64; N]) -> Fleet {
        let servers = in_parallel(N, |_| Server::start(&LOGICAL));
        run(&mut servers[0].connect(), "CREATE DATABASE map");
        let fleet = Fleet { servers };
        fleet.command(&["init"]);
        thread::scope(|scope| {
            let mut first = 0;
            for (server, count) in fleet.servers.iter().zip(shards) {
                let range = first..first + count;
                first += count;
                scope.spawn(move || fill(&mut server.connect(), range));
            }
        });
        let mut first = 0;
        for ((name, server), count) in SERVERS.iter().zip(&fleet.servers).zip(shards) {
            let end = first + count;
            let record = format!(
                "INSERT INTO shard_map.servers VALUES ('{name}', '{}');
                 INSERT INTO shard_map.shards (shard, server)
                 SELECT shard, '{name}' FROM generate_series({first}, {end} - 1) AS shard",
                conninfo(server, "postgres")
            );
            run(&mut fleet.servers[0].connect_to("map"), &record);
            first = end;
        }
        fleet
    }

    #[track_caller]
    fn command(&self, arguments: &[&str]) -> String {
        let result = outcome(self.start_command(arguments));
        result.unwrap_or_else(|said| panic!("{arguments:?}: {said}"))
    }

    #[track_caller]
    fn refuses(&self, arguments: &[&str], reason: &str) -> String {
        fails(self.start_command(arguments), reason)
    }

    fn start_command(&self, arguments: &[&str]) -> Child {
        let mut command = self.servers[0].shards_command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The number of shards that the map places on each server.
    fn shards(&self) -> Vec<i64> {
        let query =
            "SELECT (SELECT count(*) FROM shard_map.shards AS s WHERE s.server = servers.server)
            FROM shard_map.servers ORDER BY server";
        column(&mut self.servers[0].connect_to("map"), query)
    }

    /// Writes a plan into a file; returns the file's name and the number of moves.
    fn plan(&self, options: &[&str]) -> (String, usize) {
        let plan = self.command(&[&["--json", "plan"], options].concat());
        let file = self.servers[0].path().join("plan.json").display().to_string();
        std::fs::write(&file, &plan).unwrap();
        (file, plan.matches("\"shard\":").count())
    }

    /// Checks that each shard is on the server that the map names, open, with all its rows.
    fn check_rows(&self, shards: i64) {
        let mut map = self.servers[0].connect_to("map");
        let mut seen = 0;
        for (name, server) in SERVERS.iter().zip(&self.servers) {
            let query = format!(
                "SELECT shard FROM shard_map.shards WHERE server = '{name}' ORDER BY shard"
            );
            let mut client = server.connect();
            let there = column(
                &mut client,
                "SELECT shard::int8 FROM id_shards WHERE can_generate ORDER BY shard",
            );
            let by_the_map: Vec<i64> = map
                .query(&query, &[])
                .unwrap()
                .iter()
                .map(|row| row.get::<_, i32>(0).into())
                .collect();
            assert_eq!(there, by_the_map, "{name}");
            for shard in &there {
                let rows = format!("SELECT count(*) FROM insta{shard}.photos");
                assert_eq!(one::<i64>(&mut client, &rows), ROWS, "shard {shard} on {name}");
            }
            seen += there.len() as i64;
        }
        assert_eq!(seen, shards);
    }
}

const ROWS: i64 = 200;

/// Shards with these numbers, each with a photo every five minutes.
fn fill(client: &mut Client, shards: std::ops::Range<i64>) {
    run(client, "CREATE EXTENSION instagram_id");
    for shard in shards {
        run(client, &format!(
                "SELECT create_shard({shard});
                 CREATE TABLE insta{shard}.photos (id bigint PRIMARY KEY DEFAULT insta{shard}.next_id(), title text);
                 INSERT INTO insta{shard}.photos (id, title)
                 SELECT make_id(now() - n * interval '5 minutes', {shard}, 0), 'photo' FROM generate_series(1, {ROWS}) AS n;
                 ANALYZE insta{shard}.photos"
            ));
    }
}

/// A plan that balances the servers is applied, interrupted and resumed. Then another plan empties
/// a server.
#[test]
fn plan_is_applied_and_resumed() {
    let counts = length([4, 4, 4, 0], [275, 275, 275, 175]);
    let shards: i64 = counts.iter().sum();
    let fleet = Fleet::start(counts);
    let started = Instant::now();
    fleet.command(&["status"]);
    println!("status of {shards} shards: {:.1?}", started.elapsed());
    let started = Instant::now();
    let (file, moves) = fleet.plan(&[]);
    println!("plan for {shards} shards, {moves} moves: {:.1?}", started.elapsed());
    let expected: i64 = counts.iter().map(|count| (count - shards / 4).max(0)).sum();
    // The plan may leave a difference of ten percent of the mean.
    assert!(
        moves > 0 && moves as i64 <= expected,
        "{moves} moves, of {expected} for the exact mean"
    );

    let started = Instant::now();
    let apply = fleet.start_command(&["apply", &file]);
    let mut map = fleet.servers[0].connect_to("map");
    fleet.servers[0]
        .wait_for("a move", || one::<i64>(&mut map, "SELECT count(*) FROM shard_map.moves") > 0);
    kill_process(Pid::from_raw(apply.id() as i32).unwrap(), Signal::TERM).unwrap();
    fails(apply, "exit status 143");
    let said = fleet.command(&["apply", &file]);
    assert!(said.contains("to drop the old copies: instagram_id_shards clean --all"), "{said}");
    println!("{moves} moves, interrupted once: {:.1?}", started.elapsed());
    let stopped: Vec<f64> = said
        .lines()
        .filter_map(|line| {
            line.split_once("writes were stopped for ")?.1.strip_suffix(" ms")?.parse().ok()
        })
        .collect();
    println!("writes were stopped for {} ms in the median", middle(stopped));
    fleet.check_rows(shards);
    // Applying the plan again changes nothing.
    fleet.command(&["apply", &file]);
    lost_server_is_forgotten(&fleet);
    assert_eq!(fleet.plan(&[]).1, 0);
    fleet.check_rows(shards);

    let (file, moves) = fleet.plan(&["--drain", "d"]);
    assert_eq!(moves as i64, fleet.shards()[3]);
    if shards < 100 {
        fleet.command(&["apply", &file, "--jobs", "3"]);
        assert_eq!(fleet.shards()[3], 0);
        fleet.check_rows(shards);
    }
}

/// An old server is lost before `clean`. The old copies on other servers are dropped, and the map
/// forgets that of this server as moving.md says.
fn lost_server_is_forgotten(fleet: &Fleet) {
    let mut map = fleet.servers[0].connect_to("map");
    let shard: i64 = one(&mut map, "SELECT min(shard)::int8 FROM shard_map.moves");
    let server: String =
        one(&mut map, &format!("SELECT source FROM shard_map.moves WHERE shard = {shard}"));
    let at = SERVERS.iter().position(|name| *name == server).unwrap();
    let lost = format!("host={}", fleet.servers[0].path().join("lost").display());
    fleet.command(&["server", "lost", &lost]);
    run(&mut map, &format!("UPDATE shard_map.moves SET source = 'lost' WHERE shard = {shard}"));
    for (arguments, reason) in [
        (&["clean", "--all"], "server lost cannot be reached"),
        (&["remove", "lost"], "old copies of shards"),
    ] {
        fleet.refuses(arguments, reason);
        assert_eq!(column(&mut map, "SELECT shard::int8 FROM shard_map.moves"), [shard]);
    }
    run(&mut map, &format!("DELETE FROM shard_map.moves WHERE shard = {shard}"));
    fleet.command(&["remove", "lost"]);
    run(&mut fleet.servers[at].connect(), &format!("DROP SCHEMA insta{shard} CASCADE"));
    fleet.command(&["clean", "--all"]);
}

/// More moves at a time than the servers have room for wait for each other.
#[test]
fn moves_wait_for_room_on_the_servers() {
    let shards = length(5, 64);
    let fleet = Fleet::start([shards, 0]);
    // A move that is refused does not stop the others.
    let mut a = fleet.servers[0].connect();
    run(&mut a, "CREATE UNLOGGED TABLE insta3.light (id bigint PRIMARY KEY)");
    let moves: Vec<_> = (0..shards)
        .map(|shard| format!(r#"{{"shard": {shard}, "from": "a", "to": "b"}}"#))
        .collect();
    let file = fleet.servers[0].path().join("plan.json").display().to_string();
    std::fs::write(&file, format!(r#"{{"moves": [{}]}}"#, moves.join(","))).unwrap();
    let started = Instant::now();
    let said = fleet.refuses(&["apply", &file, "--jobs", "64"], "error: ");
    println!("{shards} moves: {:.1?}", started.elapsed());
    let waiting = "Waiting for running moves: server b has 4 of 4 max_logical_replication_workers left, \
        but more moves at a time need 6: increase max_logical_replication_workers";
    assert!(said.contains(waiting), "{said}");
    let failed = format!(
        "error: 1 of {shards} moves failed, for these shards: 3; fix the causes, and run apply again"
    );
    assert!(said.contains(&failed), "{said}");
    assert!(said.contains("table insta3.light is unlogged"), "{said}");
    assert_eq!(fleet.shards()[1], shards - 1);
    run(&mut a, "DROP TABLE insta3.light");
    let said = fleet.command(&["--json", "apply", &file]);
    assert!(said.contains(r#""message":"Publishing schema insta3 on a","shard":3"#), "{said}");
    assert_eq!(fleet.shards()[1], shards);
    fleet.check_rows(shards);
}

/// Another role defines many shards in one schema with many tables. Each table for each shard would
/// exceed the limit for temporary files.
fn define_many_shards(client: &mut Client) {
    run(
        client,
        "CREATE ROLE idler; CREATE SCHEMA idle AUTHORIZATION idler; SET ROLE idler; CREATE SEQUENCE idle.s;
         DO $$ BEGIN
             FOR n IN 2..2000 LOOP
                 EXECUTE format('CREATE FUNCTION idle.shard_%s(OUT sequence regclass, OUT epoch timestamptz, OUT home text)
                     BEGIN ATOMIC SELECT ''idle.s''::regclass, ''2020-01-01 00:00+00''::timestamptz, ''''::text; END', n);
             END LOOP;
             FOR n IN 1..100 LOOP EXECUTE format('CREATE TABLE idle.t%s (id bigint PRIMARY KEY)', n); END LOOP;
         END $$; RESET ROLE",
    );
    run(client, "ALTER SYSTEM SET temp_file_limit = '1MB'");
    run(client, "SELECT pg_reload_conf()");
}

/// A plan that does not match the map is refused before anything is moved.
#[test]
fn outdated_plan_is_refused() {
    let fleet = Fleet::start([2, 0]);
    define_many_shards(&mut fleet.servers[0].connect());
    let (file, moves) = fleet.plan(&[]);
    assert_eq!(moves, 1);
    let has_rate = |file: &str| {
        let plan = std::fs::read_to_string(file).unwrap();
        let (_, from) = plan.split_once("ids_per_second\":").unwrap();
        let (rate, _) = from.split_once('}').unwrap();
        rate.parse::<f64>().unwrap() > 0.0
    };
    assert!(has_rate(&file));
    if major() >= 18 {
        // The owner of a table stores a histogram that is larger than those of ANALYZE.
        for (bounds, is_read) in [(10_001, true), (10_002, false)] {
            run(&mut fleet.servers[0].connect(), &format!(
                "SELECT pg_restore_attribute_stats('schemaname', 'insta' || shard, 'relname', 'photos', 'attname', 'id', 'inherited', false,
                    'version', 180000, 'null_frac', 0::real, 'avg_width', 8, 'n_distinct', -1::real, 'histogram_bounds',
                    (SELECT array_agg(make_id(now() - n * interval '1 s', shard, 0) ORDER BY n DESC)::text FROM generate_series(1, {bounds}) AS n))
                 FROM generate_series(0, 1) AS shard"));
            assert_eq!(has_rate(&fleet.plan(&[]).0), is_read, "{bounds}");
        }
    }
    fleet.command(&["server", "c", "host=/nowhere"]);
    fleet.command(&["place", "c", "0", "1"]);
    fleet.refuses(&["apply", &file], "make a new plan");
    let planned = std::fs::read_to_string(&file).unwrap();
    let (_, from) = planned.split_once('[').unwrap();
    let (planned, _) = from.split_once(']').unwrap();
    let twice = fleet.servers[0].path().join("twice.json").display().to_string();
    std::fs::write(&twice, format!(r#"{{"moves": [{planned}, {planned}]}}"#)).unwrap();
    for (arguments, reason) in [
        (&["apply", "/nonexistent"][..], "cannot be read"),
        (&["apply", &twice], "more than once"),
        (&["plan", "--drain", "x"], "there is no server x in the map"),
        (&["plan", "--drain", "a", "--drain", "b", "--drain", "c"], "no server left"),
        (&["clean"], "required"),
    ] {
        fleet.refuses(arguments, reason);
    }
}

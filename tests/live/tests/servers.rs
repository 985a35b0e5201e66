//! The map of docs/run/servers.md. Its clients are tested in tests/clients.

use instagram_id_live::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Runs the command with a map on server a. Returns its exit status, and what it said.
fn run(place: &Place, database: &str, arguments: &[&str]) -> (i32, String) {
    let mut command = place.a.shards_command(arguments);
    let output = command.env("INSTAGRAM_ID_MAP", conninfo(&place.a, database)).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

/// A placement is not overwritten silently, and servers without shards can be removed.
#[test]
fn map_is_changed_and_shown() {
    let place = Place::with_a_map();
    for (arguments, status, said) in [
        (&["server", "a", "host=/tmp"][..], 0, "==> Recorded server a\n"),
        (&["place", "a", "5", "6"], 0, "==> Recorded on a: 5 6\n"),
        (&["server", "b", "host=/tmp"], 0, "==> Recorded server b\n"),
        (
            &["place", "b", "5"],
            0,
            "==> Recorded on b: 5\nwarning: the map has placed shard 5 on a until now\n",
        ),
        (
            &["remove", "b"],
            1,
            "error: server b has shards in the map, or old copies of shards: move or clean them first\n",
        ),
        (
            &["status", "--shards-of", "a"],
            0,
            "==> Shards by server\nserver  shards  version  trusts\na       1       2\nb       1       4\n==> Moves\n\
             shard  source  target  started  state\n==> Shards of a: 6\n",
        ),
        (&["server", "c", "host=/tmp"], 0, "==> Recorded server c\n"),
        (&["remove", "c"], 0, "==> Removed server c\n"),
        (
            &["remove", "c"],
            1,
            "error: there is no server c in the map; to add it: instagram_id_shards server c CONNINFO\n",
        ),
    ] {
        assert_eq!(run(&place, "map", arguments), (status, said.into()), "{arguments:?}");
    }
}

/// The map's own errors name the way out.
#[test]
fn misuse_of_the_map_is_explained() {
    let place = Place::with_a_map();
    place.a.connect().batch_execute("CREATE DATABASE empty").unwrap();
    let run = |database: &str, arguments: &[&str]| run(&place, database, arguments);
    const NO_MAP: &str =
        "error: this database has no map; to create one: instagram_id_shards init\n";
    for arguments in [
        &["status"][..],
        &["server", "a", "host=/tmp"],
        &["place", "a", "5"],
        &["move", "5", "--to", "b"],
    ] {
        assert_eq!(run("empty", arguments), (1, NO_MAP.into()), "{arguments:?}");
    }
    for (arguments, status, said) in [
        (&["init"][..], 1, "error: this database has a map already\n"),
        (
            &["place", "a", "5"],
            1,
            "error: there is no server a in the map; to add it: instagram_id_shards server a CONNINFO\n",
        ),
        (
            &["server", "a", "nonsense"],
            1,
            "error: the connection string is invalid: missing \"=\" after \"nonsense\" in connection info string\n",
        ),
        (&["server", "a", "postgresql:///app?host=/tmp"], 0, "==> Recorded server a\n"),
        (
            &["place", "a", "8192"],
            2,
            "error: invalid value '8192' for '<SHARD>...': expected the number of a shard, 0 to 8191\n\nFor more information, try '--help'.\n",
        ),
    ] {
        assert_eq!(run("map", arguments), (status, said.into()), "{arguments:?}");
    }
    assert!(run("map", &["move", "5", "b"]).1.contains("--to <SERVER> <SHARD>"));
    assert!(run("map", &["help"]).1.contains("Commands:"));
}

/// Writers change placements at random; some take their time, some roll back. A reader that queries
/// the rows with a version above the highest one it has seen misses no change.
#[test]
fn readers_of_the_map_miss_no_change() {
    let place = Place::with_a_map();
    place
        .map()
        .batch_execute(
            "INSERT INTO shard_map.servers VALUES ('0', ''), ('1', ''), ('2', '');
             INSERT INTO shard_map.shards (shard, server) SELECT n, '0' FROM generate_series(0, 99) AS n",
        )
        .unwrap();
    let end = Instant::now() + Duration::from_millis(length(2_000, 60_000));
    let mut random = random("map");
    let seeds: [u64; 4] = std::array::from_fn(|_| random.u64(..));
    let write = |n: usize| {
        let mut random = fastrand::Rng::with_seed(seeds[n]);
        let mut client = place.map();
        let mut changes = 0;
        while Instant::now() < end {
            let mut transaction = client.transaction().unwrap();
            let (shard, server) = (random.i32(0..100), random.i32(0..3).to_string());
            let change = "UPDATE shard_map.shards SET server = $1 WHERE shard = $2";
            transaction.execute(change, &[&server, &shard]).unwrap();
            thread::sleep(Duration::from_micros(random.u64(0..2000)));
            if random.u8(..) < 200 {
                transaction.commit().unwrap();
                changes += 1;
            }
        }
        changes
    };
    let is_over = AtomicBool::new(false);
    let read = || {
        let mut client = place.map();
        let (mut copy, mut seen, mut reads) = (vec![String::new(); 100], 0_i64, 0);
        loop {
            let is_last = is_over.load(Ordering::SeqCst);
            let newer = "SELECT shard, server, version FROM shard_map.shards WHERE version > $1 ORDER BY version";
            for row in client.query(newer, &[&seen]).unwrap() {
                let (shard, version): (i32, i64) = (row.get(0), row.get(2));
                assert!(version > seen, "{version} twice");
                copy[shard as usize] = row.get(1);
                seen = version;
            }
            reads += 1;
            if is_last {
                return (copy, seen, reads);
            }
        }
    };
    let (changes, (copy, seen, reads)) = thread::scope(|scope| {
        let reader = scope.spawn(read);
        let changes: i64 = in_parallel(4, write).iter().sum();
        is_over.store(true, Ordering::SeqCst);
        (changes, reader.join().unwrap())
    });
    let truth = "SELECT server FROM shard_map.shards ORDER BY shard";
    assert_eq!(copy, rows(&mut place.map(), truth));
    println!("{changes} changes, up to version {seen}, in {reads} reads");
    assert!(changes > 100 && seen == 100 + changes && reads > 100);
    assert_eq!(one::<i64>(&mut place.map(), "SELECT version FROM shard_map.last"), seen);
}

//! Imports a history as a user does, with a CSV file, COPY, and ids at the rows' own times, while
//! other sessions write.

use fastrand::Rng;
use instagram_id_live::*;
use postgres::Client;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Instant;

/// Unix milliseconds of the first row.
const BEGIN: i64 = 1_577_836_800_000;
const SHARDS: [i64; 3] = [5, 6, 7];
const PER_MS: usize = 1024;

/// The file for COPY: a number, the time, and the shard of each row, in random order.
fn csv(rng: &mut Rng, count: usize) -> String {
    let mut rows: Vec<(i64, i64)> = vec![];
    let mut ms = BEGIN;
    while rows.len() < count {
        let shard = *rng.choice(&SHARDS).expect("some");
        match rng.u8(..100) {
            // A burst within a millisecond, up to its capacity, of one shard or of each.
            0 => {
                let count = if rng.bool() { PER_MS } else { rng.usize(1..=PER_MS) };
                let shards = if rng.bool() { &SHARDS[..] } else { &[shard] };
                rows.extend(shards.iter().flat_map(|shard| vec![(ms, *shard); count]));
            }
            // Some thousand rows of a shard within a second, at most 1,024 in each millisecond.
            1 => {
                rows.extend((0..rng.usize(1000..5000)).map(|n| (ms + (n as i64 * 7) % 1000, shard)))
            }
            _ => rows.push((ms, shard)),
        }
        // After all rows above.
        ms += rng.i64(1000..5000);
    }
    rows.truncate(count);
    rng.shuffle(&mut rows);
    let mut file = String::new();
    for (n, (ms, shard)) in rows.iter().enumerate() {
        let (seconds, fraction) = (ms / 1000, ms % 1000);
        let [days, of_day] = [seconds / 86_400, seconds % 86_400];
        let [hour, minute, second] = [of_day / 3600, of_day / 60 % 60, of_day % 60];
        // PostgreSQL reads the day as a Julian date; 1970-01-01 is day 2,440,588.
        let day = days + 2_440_588;
        writeln!(file, "{n},J{day} {hour:02}:{minute:02}:{second:02}.{fraction:03}+00,{shard}")
            .unwrap();
    }
    file
}

fn setup_import(client: &mut Client) {
    setup(client);
    run(
        client,
        "SELECT create_shard(6), create_shard(7);
             CREATE TABLE staging (n bigint, time timestamptz, shard int);
             CREATE TABLE posts (id bigint PRIMARY KEY DEFAULT next_id(5), n bigint)",
    );
}

fn load(client: &mut Client, file: &str) -> u64 {
    let mut copy = client.copy_in("COPY staging FROM STDIN (FORMAT csv)").unwrap();
    copy.write_all(file.as_bytes()).unwrap();
    copy.finish().unwrap()
}

const IMPORT: &str =
    "INSERT INTO posts SELECT backfill_id(time, shard) OVER (ORDER BY time, n), n FROM staging";

#[test]
fn import_during_writes_gives_each_row_its_time() {
    let server = Server::start(&[("fsync", "off"), ("jit", "off"), ("max_wal_size", "4GB")]);
    let mut client = server.connect();
    setup_import(&mut client);
    let count = length(50_000, 5_000_000);
    let file = csv(&mut random("import"), count);
    assert_eq!(load(&mut client, &file), count as u64);
    run(&mut client, "ANALYZE staging");

    let new = [
        query("INSERT INTO posts DEFAULT VALUES RETURNING id"),
        query("INSERT INTO posts SELECT next_ids(5, 50) RETURNING id"),
    ];
    let before = memory(&mut client);
    let (sessions, took) = under_load(
        || server.try_connect(),
        2,
        &new,
        || {
            let started = Instant::now();
            assert_eq!(client.execute(IMPORT, &[]).unwrap(), count as u64);
            started.elapsed()
        },
    );
    let after = memory(&mut client);
    println!(
        "{count} rows in {took:.1?}, {:.0} a second; {} bytes more",
        count as f64 / took.as_secs_f64(),
        after - before
    );
    let mut journal = Journal::new("writers beside an import", Clock::IN_STEP);
    journal.add(sessions);
    journal.check();

    // The primary key ensures that no id is repeated.
    let wrong = "SELECT count(*) FILTER (WHERE id_time(id) <> time OR id_shard(id) <> shard), count(*) FROM posts JOIN staging USING (n)";
    let row = client.query_one(wrong, &[]).unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (0, count as i64));
    let disorder = "SELECT count(*) FROM (SELECT time, lag(time) OVER (ORDER BY id) AS before FROM posts JOIN staging USING (n)) AS pairs
        WHERE before > time";
    assert_eq!(one::<i64>(&mut client, disorder), 0, "ORDER BY id is not ORDER BY time");
    let disorder = "SELECT count(*) FROM (SELECT n, time, lag((time, n)) OVER (PARTITION BY shard ORDER BY id) AS before FROM posts JOIN staging USING (n))
        AS pairs WHERE before > (time, n)";
    assert_eq!(
        one::<i64>(&mut client, disorder),
        0,
        "rows of a millisecond are not in the window's order"
    );

    // A second import finds all its rows and inserts none.
    let again = client.execute(&format!("{IMPORT} ON CONFLICT DO NOTHING"), &[]).unwrap();
    assert_eq!(again, 0);

    // With one row too many in a millisecond none is imported.
    let rows: i64 = one(&mut client, "SELECT count(*) FROM posts");
    run(&mut client, "UPDATE staging SET time = time + interval '1 year';
             INSERT INTO staging SELECT -n, '2023-01-01 00:00:00.5+00', 5 FROM generate_series(1, 1025) AS n");
    let (state, message, _) = error_of(&mut client, IMPORT);
    assert_eq!(state, "2200H", "{message}");
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM posts"), rows);
    run(&mut client, "DELETE FROM staging WHERE n = -1");
    assert_eq!(client.execute(IMPORT, &[]).unwrap(), count as u64 + 1024);
}

/// The peak memory of the backend, in bytes.
fn memory(client: &mut Client) -> i64 {
    let pid: i32 = one(client, "SELECT pg_backend_pid()");
    memory_of(pid, "VmHWM")
}

/// A hundred times as many rows need no more memory, nor do rows whose arguments are expensive to
/// compute, however many of them share a millisecond.
#[test]
fn import_needs_constant_memory() {
    let server = Server::start(&[("fsync", "off"), ("jit", "off")]);
    let mut client = server.connect();
    setup(&mut client);
    let time = "timestamptz '2020-01-01+00' + g / 1000 * interval '1 ms'";
    // generate_series in the target list returns its rows one by one.
    let mut run = |rows: usize, shard: &str| {
        let ids = format!(
            "SELECT count(id) FROM (SELECT backfill_id({time}, {shard}) OVER () AS id FROM (SELECT generate_series(0, {rows} - 1) AS g) AS s) AS ids"
        );
        assert_eq!(one::<i64>(&mut client, &ids), rows as i64);
        memory(&mut client)
    };
    let before = run(10_000, "5");
    let after = run(length(300_000, 50_000_000), "5");
    println!("{} bytes more for many more rows", after - before);
    assert!(after - before < 1 << 20, "{before} {after}");
    let before = after;
    let after = run(2_000, "length(repeat('x', 100000 + g)) % 2");
    println!("{} bytes more with arguments of 100 kB", after - before);
    assert!(after - before < 4 << 20, "{before} {after}");
}

/// The statement of docs/use/querying.md for a late row, executed by sessions that compete for few
/// milliseconds of the last second, while others insert rows by the default.
#[test]
fn late_rows_get_unused_ids_of_their_time() {
    const ROWS: usize = 100;
    const SESSIONS: usize = 6;
    let (server, mut client) = with_shard();
    let table = "CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), user_id bigint, title text)";
    run(&mut client, table);
    let page = include_str!("../../../docs/use/querying.md");
    let block =
        blocks(page, "sql").into_iter().find(|block| block.contains("PREPARE late_photo")).unwrap();
    let (prepare, _) = block.split_once(";\n").unwrap();
    let late = in_parallel(SESSIONS, |session| {
        let mut client = server.connect();
        let mut made = 0;
        if session % 2 == 0 {
            for _ in 0..ROWS * 10 {
                run(&mut client, "INSERT INTO insta5.photos (title) VALUES ('new')");
            }
            return made;
        }
        run(&mut client, prepare);
        while made < ROWS {
            // A multiple of 50 ms in the last second, in which ids are or were generated.
            let clock = "SELECT floor(extract(epoch FROM clock_timestamp()) * 20 - random() * 20)::bigint * 50";
            let ms: i64 = one(&mut client, clock);
            let execute = format!("EXECUTE late_photo(to_timestamp({ms} / 1000.0), {ms}, 'late')");
            made += rows(&mut client, &execute).len();
        }
        made
    });
    let count = |title: &str| {
        format!("SELECT count(*) FROM insta5.photos WHERE title = '{title}' AND id_shard(id) = 5")
    };
    assert_eq!(one::<i64>(&mut client, &count("late")) as usize, late.iter().sum::<usize>());
    assert_eq!(one::<i64>(&mut client, &count("new")) as usize, SESSIONS / 2 * ROWS * 10);
    let untimely = "SELECT count(*) FROM insta5.photos WHERE extract(epoch FROM id_time(id)) * 1000 <> user_id";
    assert_eq!(one::<i64>(&mut client, untimely), 0);
}

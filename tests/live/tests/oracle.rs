//! Compares this extension with the PL/pgSQL original: both encode ids to the same bits. And shows
//! that the original, or the same two calls without PL/pgSQL, repeat ids under a load under which
//! next_id repeats none.

use instagram_id_live::*;
use postgres::Client;
use std::sync::Barrier;

/// Shards and epochs in Unix milliseconds: the original epoch and others.
const SHARDS: [(i32, i64); 6] = [
    (5, 1_314_220_021_721),
    (0, 1_293_840_000_000),
    (8191, 1_577_836_800_000),
    (1341, 1_704_067_200_000),
    (31, 788_918_400_000),
    (4096, 1_790_000_000_001),
];

/// Milliseconds of the time field.
const FIELD_MS: i64 = 1 << 41;

/// The original function as published, with its two inputs, the sequence value and the clock,
/// turned into arguments.
fn with_arguments(original: &str) -> String {
    let replaced = |text: String, part: &str, instead: &str| {
        assert!(text.contains(part), "{part} in {text}");
        text.replace(part, instead)
    };
    let text = replaced(
        original.to_owned(),
        "next_id(OUT",
        "encode(next_value bigint, clock timestamptz, OUT",
    );
    let text = replaced(text, "nextval('given.table_id_seq')", "next_value");
    replaced(text, "clock_timestamp()", "clock")
}

/// The same counter and clock give the same id, bit for bit, over the whole time field.
#[test]
fn original_encodes_to_the_same_bits() {
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    let mut rng = random("encoding");
    run(&mut client, "CREATE EXTENSION instagram_id; CREATE SCHEMA given");
    let count = length(5_000, 100_000);
    for (shard, epoch_ms) in SHARDS {
        run(&mut client, &with_arguments(&original_function("given", shard, epoch_ms)));
        let edges = [0, 1, 999, 1000, FIELD_MS * 500 - 1, FIELD_MS * 500, FIELD_MS * 1000 - 1];
        let row = |n: usize| {
            let elapsed = edges.get(n).copied().unwrap_or_else(|| rng.i64(0..FIELD_MS * 1000));
            (1 + (rng.i64(0..i64::MAX) >> rng.u8(..63)), elapsed)
        };
        let (values, elapsed): (Vec<i64>, Vec<i64>) = (0..count).map(row).unzip();
        // A day has few enough microseconds for an interval, whose factor is a float8.
        let query = format!(
            "SELECT count(*), count(DISTINCT original),
                 count(*) FILTER (WHERE original = make_id(clock, {shard}, (value % 1024)::int, epoch)),
                 count(*) FILTER (WHERE original < 0)
             FROM (SELECT timestamptz 'epoch' + {epoch_ms} * interval '1 ms' AS epoch) AS e, unnest($1::bigint[], $2::bigint[]) AS t(value, us),
                  LATERAL (SELECT epoch + us / 86400000000 * interval '24 h' + us % 86400000000 * interval '1 us' AS clock) AS c,
                  given.encode(value, clock) AS original"
        );
        let row = client.query_one(&query, &[&values, &elapsed]).unwrap();
        let [all, distinct, same, negative] = [0, 1, 2, 3].map(|n| row.get::<_, i64>(n));
        println!(
            "shard {shard}, epoch {epoch_ms}: {same} of {all} ids the same, {distinct} different, {negative} negative"
        );
        assert_eq!((all, same), (count as i64, count as i64));
        assert!(distinct * 10 > all * 9 && negative * 3 > all);
    }
}

/// Creates a schema with the original, and one with a shard of the extension, with the same number
/// and epoch.
fn both(client: &mut Client, shard: i32, epoch_ms: i64) {
    let schema = format!("original{shard}");
    run(client, &format!("CREATE SCHEMA {schema}; CREATE SEQUENCE {schema}.table_id_seq"));
    run(client, &original_function(&schema, shard, epoch_ms));
    let epoch = format!("timestamptz 'epoch' + {epoch_ms} * interval '1 millisecond'");
    run(client, &format!("SELECT create_shard({shard}, epoch => {epoch})"));
    let is_exact = format!("SELECT extract(epoch FROM insta{shard}.epoch()) * 1000 = {epoch_ms}");
    assert!(one::<bool>(client, &is_exact));
}

/// The extension decodes what the original has put into an id, and the shifts and masks in the code
/// of the original's users decode ids of the extension.
#[test]
fn original_and_extension_decode_each_others_ids() {
    let (_server, mut client) = with_extension();
    let count = length(5_000, 200_000);
    for (shard, epoch_ms) in
        SHARDS.into_iter().filter(|(_, epoch_ms)| *epoch_ms < 1_780_000_000_000)
    {
        both(&mut client, shard, epoch_ms);
        // So that not all ids are generated at the limit, where the clock is not read.
        let pauses = "LATERAL (SELECT pg_sleep(0.002) WHERE n % 500 = 0 UNION ALL SELECT NULL WHERE n % 500 <> 0) AS pause";
        // The n-th id of the original contains counter n, and was generated between two readings of
        // the clock.
        let originals = format!(
            "WITH made AS MATERIALIZED (
                 SELECT n, clock_timestamp() AS before, original{shard}.next_id() AS id, clock_timestamp() AS after
                 FROM generate_series(1, {count}) AS n, {pauses})
             SELECT count(*) FILTER (WHERE id_shard(id) = {shard} AND id_seq(id) = n % 1024
                 AND id_time(id, e) BETWEEN date_trunc('milliseconds', before) AND after
                 AND (created_at, shard, seq) = (id_time(id, e), id_shard(id), id_seq(id)))
             FROM made, (SELECT insta{shard}.epoch() AS e) AS epoch, id_parts(id, e)"
        );
        assert_eq!(one::<i64>(&mut client, &originals), count, "shard {shard}");
        // A new shard also counts from 1. Its ids may be ahead of the clock by their lead.
        let ours = format!(
            "WITH made AS MATERIALIZED (
                 SELECT n, clock_timestamp() AS before, insta{shard}.next_id() AS id, clock_timestamp() AS after
                 FROM generate_series(1, {count}) AS n, {pauses})
             SELECT count(*) FILTER (WHERE (id >> 10) & 8191 = {shard} AND id & 1023 = n % 1024
                 AND timestamptz 'epoch' + ((id >> 23) + {epoch_ms}) * interval '1 millisecond'
                     BETWEEN date_trunc('milliseconds', before) AND after + interval '1 millisecond')
             FROM made"
        );
        assert_eq!(one::<i64>(&mut client, &ours), count, "shard {shard}");
        println!("shard {shard}, epoch {epoch_ms}: {count} ids each way");
    }
}

const SESSIONS: usize = 4;
const STATEMENTS: i32 = 10;

/// Generates ids in concurrent sessions, and records what they receive.
fn load(server: &Server, statement: &str, scenario: &str, clock: Clock) -> Journal {
    let barrier = Barrier::new(SESSIONS);
    let sessions = in_parallel(SESSIONS, |_| {
        let mut client = server.connect();
        let mut received = Received::default();
        barrier.wait();
        for _ in 0..STATEMENTS {
            received.run(&mut client, statement).unwrap();
        }
        received
    });
    let mut journal = Journal::new(scenario, clock);
    journal.is_complete = true;
    journal.add(sessions);
    journal
}

/// The purpose of this extension. The original repeats ids when a session is suspended between its
/// nextval and its clock; PL/pgSQL is so slow that this is rare, so there are several rounds. The
/// same two calls without PL/pgSQL repeat ids all the time. For next_id, alternating with them
/// under the same load, the same check finds none.
#[test]
fn original_repeats_ids_and_next_id_does_not() {
    let (server, mut client) = with_extension();
    run(&mut client, "CREATE SEQUENCE plain");
    run(&mut client, "SELECT create_shard(5, 'ours')");
    run(&mut client, &original_of_shard(5));
    let ids = length(10_000, 50_000);
    let times = format!("FROM generate_series(1, {ids})");
    let original = format!("SELECT insta5.next_id() {times}");
    let port = format!(
        "SELECT (floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1314220021721) << 23
             | (5 << 10) | nextval('plain') % 1024 {times}"
    );
    let ours = format!("SELECT next_id(5) {times}");
    let mut duplicates = [0; 2];
    let mut made = 0;
    for round in 1..=20 {
        let ways = [("the original, PL/pgSQL", &original), ("nextval and the clock, SQL", &port)];
        for ((scenario, statement), duplicates) in ways.into_iter().zip(&mut duplicates) {
            *duplicates += load(&server, statement, scenario, Clock::Set).figures().duplicates;
        }
        let journal = load(&server, &ours, "next_id", Clock::IN_STEP);
        made += journal.check().ids;
        if duplicates.iter().all(|&count| count > 0) {
            println!(
                "{made} ids each from {SESSIONS} sessions in {round} rounds; duplicates: {} of the original's, {} of \
                 nextval and the clock, 0 of next_id",
                duplicates[0], duplicates[1]
            );
            return;
        }
    }
    panic!("no duplicates in {made} ids: {duplicates:?}");
}

//! The PL/pgSQL original is taken over, and given back, under writers that never pause.

use instagram_id_live::*;
use postgres::Client;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const ORIGINAL: &str = "
    CREATE SCHEMA insta5;
    CREATE SEQUENCE insta5.table_id_seq;
    CREATE FUNCTION insta5.next_id(OUT result bigint) AS $$
    DECLARE
        our_epoch bigint := 1314220021721;
        seq_id bigint;
        now_millis bigint;
        shard_id int := 5;
    BEGIN
        SELECT nextval('insta5.table_id_seq') % 1024 INTO seq_id;
        SELECT FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) INTO now_millis;
        result := (now_millis - our_epoch) << 23;
        result := result | (shard_id << 10);
        result := result | (seq_id);
    END $$ LANGUAGE plpgsql;
    CREATE TABLE insta5.photos (id bigint DEFAULT insta5.next_id(), n int);
    CREATE TABLE insta5.likes (id bigint DEFAULT insta5.next_id(), n int);
    CREATE INDEX ON insta5.photos (id);
    CREATE INDEX ON insta5.likes (id)";

const PLANNED: &str = "
    SET plan_cache_mode = force_generic_plan;
    PREPARE planned AS INSERT INTO insta5.photos DEFAULT VALUES RETURNING id";

/// A writer's statement: when it began and ended, and the ids it received.
struct Statement {
    way: usize,
    began: Instant,
    ended: Instant,
    ids: Vec<i64>,
}

/// The way whose ids are in no table.
const BY_ITSELF: usize = 4;

/// Writes something, and returns the ids that it received.
type Way = fn(&mut Client) -> Result<Vec<i64>, postgres::Error>;

const WAYS: [Way; 6] = [
    // By the default, planned once for the whole session.
    |client| ids(client, "EXECUTE planned"),
    |client| ids(client, "INSERT INTO insta5.likes (n) VALUES (1), (2), (3) RETURNING id"),
    // Long enough for the switch to fall into it.
    |client| {
        ids(client, "INSERT INTO insta5.photos (n) SELECT n FROM generate_series(1, 500) AS n RETURNING id")
    },
    |client| {
        let mut rows = client.copy_in("COPY insta5.likes (n) FROM stdin")?;
        rows.write_all("1\n".repeat(200).as_bytes()).unwrap();
        rows.finish()?;
        Ok(vec![]) // their ids are in the table
    },
    // By itself.
    |client| ids(client, "SELECT insta5.next_id()"),
    // By itself first, and in the same transaction into the table: the order in which an adoption wants its locks,
    // turned round.
    |client| {
        let mut transaction = client.transaction()?;
        let id: i64 = transaction.query_one("SELECT insta5.next_id()", &[])?.get(0);
        thread::sleep(Duration::from_millis(2));
        transaction.execute("INSERT INTO insta5.photos (id) VALUES ($1)", &[&id])?;
        transaction.commit()?;
        Ok(vec![id])
    },
];

fn ids(client: &mut Client, statement: &str) -> Result<Vec<i64>, postgres::Error> {
    Ok(client.query(statement, &[])?.iter().map(|row| row.get(0)).collect())
}

fn write(client: &mut Client, way: usize, until: &AtomicBool) -> Vec<Statement> {
    client.batch_execute(PLANNED).unwrap();
    let mut statements = vec![];
    while !until.load(Ordering::Relaxed) {
        let began = Instant::now();
        let ids = WAYS[way](client).unwrap_or_else(|error| panic!("writer {way}: {error}"));
        statements.push(Statement { way, began, ended: Instant::now(), ids });
    }
    statements
}

/// An adoption, and the ids that are ours from there until it was undone.
struct Adoption {
    began: Instant,
    ended: Instant,
    above: i64,
    last: i64,
}

/// Every statement succeeds; what began after an adoption makes ids above all that was there before it; and none of
/// the new ids is there twice. (The original's own duplicates, which it makes when a session is suspended between its
/// nextval and its clock, are counted and shown.)
#[test]
fn a_switch_under_load_loses_nothing_and_repeats_nothing() {
    const ROUNDS: usize = 4;
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    client.batch_execute("CREATE EXTENSION instagram_id").unwrap();
    client.batch_execute(ORIGINAL).unwrap();
    let stop = AtomicBool::new(false);
    let mut adoptions: Vec<Adoption> = vec![];
    let statements: Vec<Statement> = thread::scope(|scope| {
        let writers: Vec<_> = (0..WAYS.len())
            .map(|way| {
                let (server, stop) = (&server, &stop);
                scope.spawn(move || write(&mut server.connect(), way, stop))
            })
            .collect();
        for round in 0..ROUNDS {
            thread::sleep(Duration::from_millis(300 + 37 * round as u64));
            let began = Instant::now();
            let above: i64 = one(&mut client, "SELECT starts_above FROM adopt_shard(5)");
            adoptions.push(Adoption { began, ended: Instant::now(), above, last: i64::MAX });
            thread::sleep(Duration::from_millis(300));
            if round + 1 < ROUNDS {
                let mut transaction = client.transaction().unwrap();
                transaction.query_one("SELECT unadopt_shard(5)", &[]).unwrap();
                let last = "SELECT last_value >> 10 << 23 | 8388607 FROM insta5.table_id_seq";
                adoptions[round].last = transaction.query_one(last, &[]).unwrap().get(0);
                transaction.commit().unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });

    for (round, adoption) in adoptions.iter().enumerate() {
        let ids_of = |belongs: &dyn Fn(&Statement) -> bool| -> Vec<i64> {
            statements.iter().filter(|it| belongs(it)).flat_map(|it| it.ids.iter().copied()).collect()
        };
        let old = ids_of(&|statement| statement.ended < adoption.began);
        let new = ids_of(&|statement| statement.began > adoption.ended);
        let (newest, first) = (*old.iter().max().unwrap(), *new.iter().min().unwrap());
        let above = adoption.above;
        assert!(
            newest < above && above < first,
            "round {round}: {newest} before, above {above}, then {first}"
        );
    }
    // What the clients received by themselves is nowhere else; the rest is in the tables.
    let received = statements.iter().filter(|it| it.way == BY_ITSELF).flat_map(|it| it.ids.iter().copied());
    let mut all: Vec<i64> = received.collect();
    all.extend(column(&mut client, "SELECT id FROM insta5.photos UNION ALL SELECT id FROM insta5.likes"));
    all.sort();
    assert!(all.iter().all(|id| id >> 10 & 8191 == 5), "an id of another shard");
    let twice: Vec<i64> = all.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    for id in &twice {
        let is_new = adoptions.iter().position(|adoption| adoption.above < *id && *id <= adoption.last);
        assert_eq!(is_new, None, "{id}, made after this adoption, is there twice");
    }
    let of_ours = |id: &&i64| adoptions.iter().any(|adoption| adoption.above < **id && **id <= adoption.last);
    let longest = statements.iter().map(|statement| statement.ended - statement.began).max().unwrap();
    let longest_switch = adoptions.iter().map(|adoption| adoption.ended - adoption.began).max().unwrap();
    println!(
        "{} ids in {} statements of {} writers, {} of them ours; {ROUNDS} adoptions, the longest {longest_switch:?}; the \
         longest statement {longest:?}; duplicates: {} of the original's, none of ours",
        all.len(),
        statements.len(),
        WAYS.len(),
        all.iter().filter(of_ours).count(),
        twice.len(),
    );
}

/// A writer that holds its locks longer than an adoption tries for them keeps it from happening, and it says so;
/// meanwhile the other writers go on.
#[test]
fn a_writer_that_does_not_let_go_keeps_the_others_from_nothing() {
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    client.batch_execute("CREATE EXTENSION instagram_id").unwrap();
    client.batch_execute(ORIGINAL).unwrap();
    let mut idle = server.connect();
    let mut idle = idle.transaction().unwrap();
    idle.batch_execute("INSERT INTO insta5.photos DEFAULT VALUES").unwrap();
    let stop = AtomicBool::new(false);
    let (error, statements) = thread::scope(|scope| {
        let writer = scope.spawn(|| write(&mut server.connect(), 0, &stop));
        let started = Instant::now();
        let error = error_of(&mut client, "SELECT adopt_shard(5)");
        assert!(started.elapsed() < Duration::from_secs(15));
        stop.store(true, Ordering::Relaxed);
        (error, writer.join().unwrap())
    });
    assert_eq!(error.0, "55P03");
    assert_eq!(error.1, "could not lock out the writers of shard 5");
    assert!(error.2.contains("insta5.table_id_seq"), "{}", error.2);
    let longest = statements.iter().map(|statement| statement.ended - statement.began).max().unwrap();
    println!("{} statements meanwhile, the longest {longest:?}", statements.len());
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    idle.commit().unwrap();
    one::<i64>(&mut client, "SELECT starts_above FROM adopt_shard(5)");
}

//! COPY with the default `next_id()`: it inserts in batches, as with `nextval`.
//! tests/regress/sql/copy.sql checks the ids.

use crate::replication::{catch_up, subscribe};
use instagram_id_live::*;
use postgres::Client;

const ROWS: i64 = 20_000;

/// The WAL of a COPY into a table with this default, in bytes.
fn wal_of_copy(client: &mut Client, default: &str) -> i64 {
    run(
        client,
        &format!("CREATE TABLE loaded (id bigint DEFAULT {default}, n bigint); CHECKPOINT"),
    );
    let position = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
    let before: i64 = one(client, position);
    run(client, &format!("COPY loaded (n) FROM PROGRAM 'seq {ROWS}'"));
    let wal = one::<i64>(client, position) - before;
    assert_eq!(one::<i64>(client, "SELECT count(DISTINCT id) FROM loaded"), ROWS, "{default}");
    run(client, "DROP TABLE loaded");
    wal
}

/// A batch is one WAL record. A row of its own has one too, with a head that is larger than the
/// row.
#[test]
fn copy_inserts_in_batches() {
    let server = Server::start(&[("fsync", "off"), ("autovacuum", "off")]);
    let mut client = server.connect();
    setup(&mut client);
    run(
        &mut client,
        "CREATE SEQUENCE plain; CREATE SEQUENCE own; SET instagram_id.shard = 5;
             CREATE FUNCTION around(bigint) RETURNS bigint LANGUAGE sql RETURN $1 + 0",
    );
    let batches = wal_of_copy(&mut client, "nextval('plain')");
    let single = wal_of_copy(&mut client, "nextval('plain') + (clock_timestamp() IS NULL)::int");
    assert!(single > batches * 2, "{single} bytes row by row, {batches} in batches");
    let forms = [
        "insta5.next_id()",
        "next_id()",
        "next_id(5)",
        "next_id(5, 'own')",
        "next_id(5, 'own', insta5.epoch())",
        "around(insta5.next_id())",
    ];
    for form in forms {
        let wal = wal_of_copy(&mut client, form);
        assert!(wal < batches * 11 / 10, "{form}: {wal} bytes, {batches} with nextval");
    }
}

/// The subscriber's table has a column more, for which the apply worker evaluates the default in
/// each row.
#[test]
fn subscription_fills_a_column_with_ids() {
    let settings = [("fsync", "off"), ("wal_level", "logical")];
    let [publisher, subscriber] = [(); 2].map(|()| Server::start(&settings));
    let (mut source, mut target) = (publisher.connect(), subscriber.connect());
    run(
        &mut source,
        "CREATE TABLE photos (n int PRIMARY KEY); CREATE PUBLICATION photos FOR TABLE photos;
             INSERT INTO photos SELECT generate_series(1, 500)",
    );
    setup(&mut target);
    run(&mut target, "CREATE TABLE photos (id bigint DEFAULT insta5.next_id(), n int PRIMARY KEY)");
    subscribe(&subscriber, "photos", &publisher);
    catch_up(&publisher, &subscriber, "photos");
    assert_eq!(one::<i64>(&mut target, "SELECT count(*) FROM photos"), 500);
    run(&mut source, "INSERT INTO photos SELECT generate_series(501, 1000)");
    catch_up(&publisher, &subscriber, "photos");
    let ids = column(&mut target, "SELECT id FROM photos ORDER BY n");
    assert_eq!(ids.len(), 1000);
    check_unique_and_increasing(&[ids]);
}

//! Pins on the page of a sequence, as pg_buffercache counts them.

use instagram_id_live::*;
use postgres::Client;

fn pins(client: &mut Client) -> i64 {
    one(
        client,
        "SELECT coalesce(sum(pinning_backends), 0)::bigint FROM pg_buffercache
         WHERE relfilenode = pg_relation_filenode('insta5.table_id_seq')",
    )
}

/// Sessions that are cut off in their waits, and continue, keep no pin; a session that is
/// terminated there neither.
#[test]
fn sessions_cut_off_in_their_waits_keep_no_pin() {
    let (server, mut watch) = with_shard();
    run(&mut watch, "CREATE EXTENSION pg_buffercache");
    // The view counts pins: that of a cursor.
    let mut reader = server.connect();
    run(&mut reader, "BEGIN; DECLARE page CURSOR FOR SELECT FROM insta5.table_id_seq; FETCH page");
    assert_eq!(pins(&mut watch), 1, "the pin of a cursor");
    run(&mut reader, "COMMIT");
    assert_eq!(pins(&mut watch), 0, "after the cursor");

    let mut client = server.connect();
    let pid: i32 = one(&mut client, "SELECT pg_backend_pid()");
    let calls =
        ["next_ids(5, 50000)", "count(next_id(5)) FROM (SELECT generate_series(1, 50000)) AS many"]
            .map(|call| format!("SET statement_timeout = '2ms'; SELECT {call}"));
    for statement in calls.iter().cycle().take(length(200, 5000)) {
        assert_eq!(error_of(&mut client, statement).0, "57014", "{statement}");
    }
    server.wait_until(&format!("SELECT state = 'idle' FROM pg_stat_activity WHERE pid = {pid}"));
    assert_eq!(pins(&mut watch), 0, "a session that was cut off");
    // In an open transaction, too.
    run(&mut client, "BEGIN; SELECT next_id(5); SAVEPOINT s");
    assert_eq!(error_of(&mut client, &calls[0].replace("SET s", "SET LOCAL s")).0, "57014");
    run(&mut client, "ROLLBACK TO s");
    assert_eq!(pins(&mut watch), 0, "an open transaction");
    assert!(one::<bool>(&mut watch, &format!("SELECT pg_terminate_backend({pid}, 10000)")));
    assert_eq!(pins(&mut watch), 0, "a session that was terminated");
}

//! All 8,192 shards in one database, on a server with PostgreSQL's default settings for locks and
//! memory.

use instagram_id_live::*;
use postgres::Client;
use std::thread;
use std::time::{Duration, Instant};

const SHARDS: i64 = 8192;

/// One server for all checks, since creating the shards takes a while.
#[test]
fn all_8192_shards_work_in_one_database() {
    let (server, mut client) = with_extension();
    let standby = Server::start_standby_of(&server);
    creates_all_in_one_statement(&mut client);
    standby_replays_the_statement(&mut client, standby);
    checks_all_objects(&mut client);
    generates_ids_of_each_shard(&mut client);
    shows_all_in_the_view(&mut client);
    claims_a_part(&mut client);
    session_using_all_stays_small(&server);
}

fn creates_all_in_one_statement(client: &mut Client) {
    let started = Instant::now();
    let made: i64 = one(client, "SELECT count(create_shard(n)) FROM generate_series(0, 8191) AS n");
    println!("{made} shards made in {:.1?}", started.elapsed());
    assert_eq!(made, SHARDS);
}

/// Replay holds a lock on every sequence that the statement created, until it reaches the commit
/// record.
fn standby_replays_the_statement(client: &mut Client, standby: Server) {
    let position: String = one(client, "SELECT pg_current_wal_lsn()::text");
    let mut following = standby.connect();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !one::<bool>(&mut following, &format!("SELECT pg_last_wal_replay_lsn() >= '{position}'"))
    {
        assert!(Instant::now() < deadline, "{}", standby.log());
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(one::<i64>(&mut following, "SELECT count(*) FROM id_shards"), SHARDS);
}

fn checks_all_objects(client: &mut Client) {
    let whole = "
        WITH functions AS (
            SELECT pronamespace, array_agg(proname::text ORDER BY proname) AS names FROM pg_proc GROUP BY 1
        )
        SELECT count(*) FROM generate_series(0, 8191) AS n
            JOIN pg_namespace AS schema ON nspname = 'insta' || n
            JOIN pg_class ON relnamespace = schema.oid AND relname = 'table_id_seq' AND relkind = 'S'
            JOIN functions ON pronamespace = schema.oid
                AND names = ARRAY['epoch', 'id_time', 'next_id', 'shard_' || n]";
    assert_eq!(one::<i64>(client, whole), SHARDS);
}

fn generates_ids_of_each_shard(client: &mut Client) {
    let mut of_shard: Vec<Vec<i64>> = vec![vec![]; SHARDS as usize];
    for _ in 0..2 {
        // In parts: a transaction keeps a lock on each sequence that it has used, as with nextval.
        for part in 0..8 {
            let shards = format!("generate_series({}, {})", part * 1024, part * 1024 + 1023);
            let ids = column(client, &format!("SELECT next_id(n) FROM {shards} AS n"));
            for (shard, id) in (part * 1024..).zip(ids) {
                assert_eq!((id >> 10) & 8191, shard);
                of_shard[shard as usize].push(id);
            }
        }
    }
    for shard in [0, 4095, 8191] {
        of_shard[shard].push(one(client, &format!("SELECT insta{shard}.next_id()")));
    }
    assert_eq!(of_shard.iter().map(Vec::len).sum::<usize>(), 2 * 8192 + 3);
    check_unique_and_increasing(&of_shard);
}

fn shows_all_in_the_view(client: &mut Client) {
    let started = Instant::now();
    let row = client
        .query_one(
            "SELECT count(*), count(last_id), count(DISTINCT shard), bool_and(can_generate) FROM id_shards",
            &[],
        )
        .unwrap();
    println!("the view id_shards, all of it: {:.1?}", started.elapsed());
    assert_eq!([0, 1, 2].map(|n| row.get::<_, i64>(n)), [SHARDS; 3]);
    assert!(row.get::<_, bool>(3));
}

/// Claiming a shard keeps its locks until the end of the transaction, unlike creating one: other
/// sessions can see the objects that it changes.
fn claims_a_part(client: &mut Client) {
    let claim = "SELECT count(claim_shard(n)) FROM generate_series(0, 1023) AS n";
    assert_eq!(one::<i64>(client, claim), 1024);
}

/// A session generates an id of each shard, each in its own transaction. It calls a function that
/// was parsed in another session, as a column's default is: when a statement names a function, the
/// parser looks up all functions of that name, here one in each shard, and PostgreSQL's caches keep
/// them.
fn session_using_all_stays_small(server: &Server) {
    run(
        &mut server.connect(),
        "CREATE FUNCTION parsed(shard int) RETURNS bigint RETURN next_id(shard)",
    );
    let mut client = server.connect();
    memory(&mut client); // the memory for measuring is allocated before
    let before = memory(&mut client);
    let next = client.prepare("SELECT parsed($1)").unwrap();
    for shard in 0..SHARDS as i32 {
        let id: i64 = client.query_one(&next, &[&shard]).unwrap().get(0);
        assert_eq!((id >> 10) & 8191, shard.into());
    }
    let after = memory(&mut client);
    let growth = [0, 1].map(|n| (after[n] - before[n]) as f64 / f64::from(1 << 20));
    println!(
        "a session that has used {SHARDS} shards: {:.1} MB more in PostgreSQL's contexts, \
         {:.1} MB more in all",
        growth[0], growth[1]
    );
    assert!(growth[0] < 4.5 && growth[1] < 8.0, "{growth:?}");
}

/// Bytes in a session's memory contexts, and private bytes of its process.
fn memory(client: &mut Client) -> [i64; 2] {
    let contexts = one(client, "SELECT sum(total_bytes)::bigint FROM pg_backend_memory_contexts");
    let pid: i32 = one(client, "SELECT pg_backend_pid()");
    [contexts, memory_of(pid, "RssAnon")]
}

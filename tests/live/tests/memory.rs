//! Where the server has little memory left, a call gets an error or needs no more of it. A failed
//! allocation in Rust would end the server process, and the postmaster would restart all others.

use instagram_id_live::*;
use postgres::Client;

const MB: i64 = 1 << 20;

/// A server with these tables, and a session of a role without privileges. The session has used the
/// extension, and can allocate this many bytes more than it has by then.
fn with_little_memory(tables: &str, warm_up: &[&str], more: i64) -> (Server, Client) {
    let settings = [
        ("fsync", "off"),
        ("jit", "off"),
        ("shared_buffers", "1MB"),
        ("restart_after_crash", "off"),
    ];
    let server = Server::start(&settings);
    let mut client = server.connect();
    setup(&mut client);
    run(&mut client, "CREATE ROLE stranger LOGIN; GRANT CREATE ON SCHEMA public TO stranger");
    let connect = || {
        let mut client =
            server.config("postgres").user("stranger").connect(postgres::NoTls).unwrap();
        run(&mut client, "SET work_mem = '1MB'; SET client_min_messages = error");
        client
    };
    run(&mut connect(), tables);
    let warm_up = |client: &mut Client| {
        for statement in ["SELECT backfill_id('2020-01-01+00', 5) OVER ()"].iter().chain(warm_up) {
            let _ = client.batch_execute(statement);
        }
    };
    warm_up(&mut client);
    let pid: i32 = one(&mut client, "SELECT pg_backend_pid()");
    let needed = memory_of(pid, "VmSize");
    drop(client);
    server.restart_after(&format!("ulimit -v {}", (needed + more) / 1024));
    let mut client = connect();
    warm_up(&mut client);
    (server, client)
}

/// The rows of one millisecond are millions, with and without a shard.
#[test]
fn backfill_of_one_millisecond_needs_constant_memory() {
    const ROWS: i64 = 1_000_000;
    let (_server, mut client) = with_little_memory("", &[], 16 * MB);
    let ids = format!(
        "SELECT count(*), count(id), count(DISTINCT id), max(id_time(id)) = min(id_time(id)) FROM (
             SELECT backfill_id('2020-01-01+00', CASE WHEN n % 2 = 0 THEN n / 2 % 8192 END) OVER () AS id
             FROM generate_series(1, {ROWS}) AS n) AS ids"
    );
    let row = client.query_one(&ids, &[]).unwrap();
    let counts: [i64; 3] = [row.get(0), row.get(1), row.get(2)];
    assert_eq!((counts, row.get(3)), ([ROWS, ROWS / 2, ROWS / 2], true));
}

/// A text of 20 MB is refused as an argument without a copy of it, and the error quotes only its
/// beginning.
#[test]
fn long_arguments_are_refused() {
    const LONG: &str = "repeat('x', 20000000)";
    let tables = format!(
        "CREATE TABLE t (id bigserial PRIMARY KEY);
         CREATE TABLE parts (id bigint) PARTITION BY RANGE (id);
         CREATE TABLE long_column (id bigint);
         CREATE TABLE long_shard (id bigint);
         DO $$ BEGIN
             EXECUTE format('CREATE TRIGGER long BEFORE INSERT ON long_column FOR EACH ROW EXECUTE FUNCTION next_id_trigger(5, %L)', {LONG});
             EXECUTE format('CREATE TRIGGER long BEFORE INSERT ON long_shard FOR EACH ROW EXECUTE FUNCTION next_id_trigger(%L, ''id'')', {LONG});
         END $$;
         CREATE TABLE texts (compressed text, plain text);
         ALTER TABLE texts ALTER plain SET STORAGE EXTERNAL;
         INSERT INTO texts VALUES ({LONG}, {LONG})"
    );
    let inserts = ["INSERT INTO long_column VALUES (NULL)", "INSERT INTO long_shard VALUES (NULL)"];
    let (_server, mut client) = with_little_memory(&tables, &inserts, 30 * MB);
    for (statement, state) in [
        (format!("SELECT create_shard(7, schema => {LONG})"), "42622"),
        ("SELECT create_shard(7, schema => compressed) FROM texts".into(), "42622"),
        ("SELECT create_shard(7, schema => plain) FROM texts".into(), "42622"),
        (format!("SELECT adopt_shard(7, schema => {LONG})"), "42622"),
        (format!("SELECT adopt_table(5, 't', \"column\" => {LONG})"), "42622"),
        (format!("SELECT create_id_partitions('parts', every => {LONG})"), "22023"),
        ("SELECT shortcode_to_id(repeat('.', 20000000))".into(), "22P02"),
        (inserts[0].into(), "42703"),
        (inserts[1].into(), "39P01"),
    ] {
        let (found, message, hint) = error_of(&mut client, &statement);
        println!("{statement}: {found} {message}");
        assert_eq!(found, state, "{statement}: {message}");
        assert!(message.len() < 300 && hint.len() < 600, "{statement}: {message} {hint}");
    }
}

/// A role decides how many functions a schema of its own has, and how long their bodies are.
#[test]
fn many_functions_need_constant_memory() {
    const FUNCTIONS: usize = 3000;
    // A parsed body of nearly 16 kB.
    let body = format!("1::bigint{}", " + 1::bigint".repeat(38));
    let tables = format!(
        "DO $$ BEGIN
             FOR n IN 1..{FUNCTIONS} LOOP
                 EXECUTE format('CREATE FUNCTION f%s() RETURNS bigint LANGUAGE sql RETURN {body}', n);
             END LOOP;
         END $$"
    );
    let adopt = "SELECT adopt_shard(7, 'public')";
    let (_server, mut client) = with_little_memory(&tables, &[], 24 * MB);
    let len = "SELECT sum(length(prosqlbody::text)) FROM pg_proc WHERE proname ~ '^f[0-9]+$'";
    let len: i64 = one(&mut client, len);
    assert!(len > 32 * MB, "{len} bytes");
    let (state, message, _) = error_of(&mut client, adopt);
    assert_eq!(state, "42883", "{message}");
}

/// An error of PostgreSQL with a text of any length, raised by a function of any role: in an
/// argument, and in an index of the table. It leaves with a short text, or as "out of memory", and
/// does not end the server.
#[test]
fn errors_of_any_length_leave_shortened() {
    let tables = "CREATE FUNCTION shout(bigint) RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE AS $$
         BEGIN
             IF current_setting('my.size', true) <> '' THEN
                 RAISE EXCEPTION USING MESSAGE = repeat('ä', current_setting('my.size')::int / 2), HINT = 'Shout less.',
                     ERRCODE = current_setting('my.state');
             END IF;
             RETURN '2020-01-01+00';
         END $$;
         CREATE TABLE shouting (id bigint) PARTITION BY RANGE (id);
         CREATE INDEX ON shouting (shout(1))";
    let (_server, mut client) = with_little_memory(tables, &["SELECT shout(1)"], 400 * MB);
    let backfill = "SELECT backfill_id(shout(n), 5) OVER () FROM generate_series(1, 2) AS n";
    let partitions = "SELECT create_id_partitions('shouting')";
    for (statement, raised) in [(backfill, "P0001"), (partitions, "P0001"), (partitions, "53200")] {
        let mut states = vec![];
        for size in [4, 32, 64, 96, 128] {
            run(&mut client, &format!("SET my.size = {}; SET my.state = '{raised}'", size * MB));
            let (state, message, hint) = error_of(&mut client, statement);
            assert!(message.len() <= 1 << 14, "{statement}: {} bytes of {state}", message.len());
            if state == "P0001" {
                assert!(message.starts_with("ää") && message.ends_with("ä..."), "{message}");
                assert_eq!(hint, "Shout less.");
            }
            states.push(state);
        }
        println!("{statement}: {states:?}");
        assert_eq!(states[0], raised);
        assert!(states.iter().all(|state| state == "P0001" || state == "53200"), "{states:?}");
    }
}

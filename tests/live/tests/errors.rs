//! Errors reach the client as they were raised.

use instagram_id_live::*;
use postgres::Client;
use postgres::error::DbError;

fn db_error(client: &mut Client, statement: &str) -> DbError {
    let error = attempt(client, statement).expect_err(statement);
    error.as_db_error().unwrap_or_else(|| panic!("{statement}: {error}")).clone()
}

/// An event trigger that refuses a new function with an error of all fields.
const REFUSES: &str = r#"
    CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
        BEGIN
            PERFORM 1 / 0;
        EXCEPTION WHEN division_by_zero THEN
            RAISE NOTICE 'division by zero';
        END;
        IF current_setting('my.refuses', true) = 'on' THEN
            RAISE 'not so' USING ERRCODE = 'ZZ001', DETAIL = 'All of it.', HINT = 'Ask.', SCHEMA = 'a schema',
                TABLE = 'a table', COLUMN = 'a column', CONSTRAINT = 'a constraint', DATATYPE = 'a type';
        END IF;
    END $$;
    CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('CREATE FUNCTION') EXECUTE FUNCTION refuse()"#;

#[test]
fn errors_of_statements_keep_all_fields() {
    let (_server, mut client) = with_shard();
    run(&mut client, REFUSES);
    run(&mut client, "SET my.refuses = on");
    // Called alone, and by a function, which adds its context.
    let calls = [
        ("SELECT create_shard(7)", "SQL statement \"CREATE FUNCTION"),
        (
            "DO $$ BEGIN PERFORM create_shard(7); END $$",
            "PL/pgSQL function inline_code_block line 1 at PERFORM",
        ),
    ];
    for (call, outer) in calls {
        let error = db_error(&mut client, call);
        assert_eq!((error.code().code(), error.message()), ("ZZ001", "not so"), "{call}");
        assert_eq!((error.detail(), error.hint()), (Some("All of it."), Some("Ask.")), "{call}");
        let names =
            [error.schema(), error.table(), error.column(), error.constraint(), error.datatype()];
        assert_eq!(
            names,
            ["a schema", "a table", "a column", "a constraint", "a type"].map(Some),
            "{call}"
        );
        let context = error.where_().unwrap();
        println!("{context}\n");
        assert!(context.starts_with("PL/pgSQL function refuse() line 8 at RAISE\n"), "{context}");
        for line in ["PL/pgSQL function refuse()", "SQL statement \"CREATE FUNCTION", outer] {
            assert_eq!(context.matches(line).count(), 1, "{line} in {context}");
        }
    }
    // An error of the extension itself, after others that were caught.
    run(&mut client, "SET my.refuses = off");
    let error = db_error(&mut client, "SELECT create_shard(7), next_id(8192)");
    assert_eq!((error.code().code(), error.message()), ("22023", "shard 8192 is out of range"));
    assert_eq!((error.where_(), error.schema()), (None, None));
    // The statement of an extension's function that another one of its functions calls.
    run(&mut client, "SET my.refuses = on");
    run(&mut client, "CREATE TABLE parts (id bigint CHECK (id IS NULL OR create_shard(8) IS NULL)) PARTITION BY RANGE (id);
             CREATE TABLE whole PARTITION OF parts DEFAULT");
    run(&mut client, "ALTER TABLE parts ADD CONSTRAINT none CHECK (id > 0)");
    let error = db_error(&mut client, "INSERT INTO parts VALUES (7)");
    assert_eq!((error.code().code(), error.table()), ("ZZ001", Some("a table")));
}

/// RUST_BACKTRACE is a setting for programs in Rust, and a service's environment can have it.
#[test]
fn errors_contain_no_backtrace() {
    let (server, mut client) = with_shard();
    run(&mut client, REFUSES);
    let statements = [
        "SELECT next_id(8192)",
        "SELECT next_id(6)",
        "SELECT create_shard(5)",
        "SET my.refuses = on; SELECT create_shard(7)",
        "SELECT next_id(5, 'nowhere')",
        "SET statement_timeout = '20ms'; SELECT count(next_id(5)) FROM generate_series(1, 100000000)",
        "ROLLBACK; SET statement_timeout = 0; START TRANSACTION READ ONLY; SELECT create_shard(9)",
        "ROLLBACK; SELECT create_id_partitions('pg_class')",
        "SELECT adopt_shard(9)",
    ];
    let errors = |client: &mut Client| -> Vec<String> {
        statements
            .iter()
            .map(|statement| {
                let error = db_error(client, statement);
                let texts = [error.detail(), error.hint(), error.where_()];
                format!("{}: {} {texts:?}", error.code().code(), error.message())
            })
            .collect()
    };
    let without = errors(&mut server.connect());
    server.restart_after("export RUST_BACKTRACE=1");
    let with = errors(&mut server.connect());
    assert_eq!(with, without);
}

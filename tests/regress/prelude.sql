\set ECHO none
-- Included by each test. Results have no frames of tables, so that a longer value changes one line. Times do not depend on the
-- environment. The output begins where a test has prepared its roles and helpers, with \set ECHO all.
\pset format unaligned
\pset tuples_only on
\set SHOW_CONTEXT never
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
-- raises(statement): the SQLSTATE, message, detail and hint that a statement fails with.
CREATE OR REPLACE FUNCTION raises(statement text, OUT state text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    message := 'no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
        hint = PG_EXCEPTION_HINT;
END $$;
-- original(schema, shard): a function like the published one. It can be called again, like a migration. Creates the schema and its
-- sequence if they do not exist.
CREATE OR REPLACE PROCEDURE original(schema text, shard text, name text DEFAULT 'next_id', sequence text DEFAULT NULL, epoch text DEFAULT '1577836800000')
LANGUAGE plpgsql AS $$
BEGIN
    sequence := coalesce(sequence, format('%I.table_id_seq', schema));
    IF to_regnamespace(quote_ident(schema)) IS NULL THEN EXECUTE format('CREATE SCHEMA %I', schema); END IF;
    IF to_regclass(sequence) IS NULL THEN EXECUTE 'CREATE SEQUENCE ' || sequence; END IF;
    EXECUTE format('CREATE OR REPLACE FUNCTION %I.%I() RETURNS bigint LANGUAGE plpgsql AS %L', schema, name, format(
        'BEGIN RETURN ((floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - %s) << 23) | (%s << 10) | (nextval(%L) %% 1024); END',
        epoch, shard, sequence));
END $$;
-- define(schema, shard, sequence): a definition of a shard in this schema.
CREATE OR REPLACE PROCEDURE define(schema text, shard int, sequence text, epoch text DEFAULT '2020-01-01 00:00+00') LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE OR REPLACE FUNCTION %I.shard_%s(OUT sequence regclass, OUT epoch timestamptz, OUT home text)
        BEGIN ATOMIC SELECT %L::regclass, %L::timestamptz, ''here''::text; END', schema, shard, sequence, epoch);
END $$;
-- Drops what a run that was aborted has left.
SELECT format('DROP DATABASE %I', datname) FROM pg_database WHERE datname LIKE 'regress\_id%' AND datname <> current_database()
UNION ALL SELECT format('DROP ROLE %I', rolname) FROM pg_roles WHERE rolname LIKE 'regress\_id%' \gexec

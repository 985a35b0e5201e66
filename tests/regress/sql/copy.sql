-- Outside of queries PostgreSQL evaluates _next_id(..., nextval(...)) in place of next_id(...). It does so for each row,
-- as for any volatile expression, wherever the expression stands.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
SET client_min_messages = warning;
-- Number of rows, and of different values.
CREATE FUNCTION counts(from_table regclass, OUT n bigint, OUT different bigint) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SELECT count(*), count(DISTINCT id) FROM %s', from_table) INTO n, different;
END $$;
\set ECHO all

SELECT create_shard(5);
CREATE SCHEMA copying;
SET search_path = copying, public;
SET instagram_id.shard = 5;
CREATE SEQUENCE own;
CREATE FUNCTION inlined(bigint) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT $1 + 0';
CREATE FUNCTION not_inlined(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END';
CREATE FUNCTION of_own() RETURNS bigint LANGUAGE sql AS 'SELECT next_id(5, ''copying.own'')';

-- COPY, with each form of next_id, and with the call inside other calls.
CREATE TABLE forms (form text);
INSERT INTO forms VALUES ('insta5.next_id()'), ('next_id(5)'), ('next_id()'), ('next_id(5, ''own'')'),
    ('next_id(5, ''own'', insta5.epoch())'), ('shard_next_id(5, ''own'', insta5.epoch())'),
    ('inlined(insta5.next_id())'), ('not_inlined(insta5.next_id())'), ('not_inlined(inlined(insta5.next_id()))'),
    ('coalesce(NULL, insta5.next_id())'), ('CASE WHEN random() < 2 THEN next_id(5) END'), ('of_own()');
CREATE TABLE results (form text, place text, n bigint, different bigint);
DO $$
DECLARE
    form text;
    program text := 'printf "1\n2\n3\n"';
BEGIN
    FOR form IN TABLE forms LOOP
        EXECUTE format('CREATE TABLE loaded (id bigint DEFAULT %s, n int)', form);
        EXECUTE format('COPY loaded (n) FROM PROGRAM %L', program);
        INSERT INTO results SELECT form, 'COPY', * FROM counts('loaded');
        EXECUTE format('ALTER TABLE loaded ALTER id TYPE bigint USING %s', form);
        INSERT INTO results SELECT form, 'ALTER TYPE', * FROM counts('loaded');
        EXECUTE format('ALTER TABLE loaded DROP id, ADD id bigint DEFAULT %s', form);
        INSERT INTO results SELECT form, 'ADD COLUMN', * FROM counts('loaded');
        DROP TABLE loaded;
        EXECUTE format('CREATE DOMAIN key AS bigint DEFAULT %s', form);
        CREATE TABLE loaded (id key, n int);
        EXECUTE format('COPY loaded (n) FROM PROGRAM %L', program);
        INSERT INTO results SELECT form, 'default of a domain', * FROM counts('loaded');
        DROP TABLE loaded;
        DROP DOMAIN key;
        EXECUTE format('CREATE TABLE loaded (id bigint DEFAULT %s, n int) PARTITION BY LIST (n)', form);
        CREATE TABLE odd PARTITION OF loaded FOR VALUES IN (1, 3);
        EXECUTE format('CREATE TABLE even PARTITION OF loaded (id DEFAULT %s) FOR VALUES IN (2)', form);
        EXECUTE format('COPY loaded (n) FROM PROGRAM %L', program);
        INSERT INTO results SELECT form, 'partitions', * FROM counts('loaded');
        DROP TABLE loaded;
        CREATE TABLE loaded (id bigint, n int);
        EXECUTE format('INSERT INTO loaded SELECT %s, n FROM generate_series(1, 3) AS n', form);
        INSERT INTO results SELECT form, 'INSERT ... SELECT', * FROM counts('loaded');
        DROP TABLE loaded;
    END LOOP;
END $$;
SELECT place, count(*) AS forms, min(n) AS least, max(n) AS most, bool_and(n = different) AS all_different
FROM results GROUP BY place ORDER BY place;
SELECT * FROM results WHERE n IS DISTINCT FROM different;

-- Ids of one COPY increase, with those before and after it.
CREATE TABLE loaded (id bigint PRIMARY KEY DEFAULT insta5.next_id(), n int);
SELECT next_id(5) AS before \gset
COPY loaded (n) FROM PROGRAM 'seq 5000';
SELECT count(*), bool_and(id > previous) AS in_order, min(id) > :before AS after, max(id) < next_id(5) AS before
FROM (SELECT id, lag(id, 1, :before) OVER (ORDER BY n) AS previous FROM loaded) AS steps;

-- Where PostgreSQL evaluates an expression once, it draws one id; an estimate draws none.
CREATE PROCEDURE keep(id bigint) LANGUAGE sql AS 'INSERT INTO loaded VALUES (id, 0)';
CALL keep(insta5.next_id());
PREPARE kept(bigint) AS INSERT INTO loaded VALUES ($1, 0);
EXECUTE kept(insta5.next_id());
SELECT count(DISTINCT id) FROM loaded WHERE n = 0;
CREATE FUNCTION drawn() RETURNS bigint LANGUAGE sql AS
    'SELECT last_value - pg_catalog.current_setting(''copying.last'')::bigint FROM insta5.table_id_seq';
SELECT set_config('copying.last', last_value::text, false) IS NOT NULL AS noted FROM insta5.table_id_seq;
EXPLAIN (COSTS OFF) SELECT * FROM loaded WHERE n < insta5.next_id() AND n > inlined(insta5.next_id()) LIMIT insta5.next_id();
SELECT drawn();

-- A plan calls next_id itself.
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO loaded (n) VALUES (1);
SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'loaded'::regclass;

-- _next_id is nothing to call.
SELECT _next_id(5, 1);
SELECT _next_id(5, NULL);
SELECT _next_id(NULL::bigint);
SELECT _next_id(5, 'own', 1);
SELECT _next_id(5, 'own', insta5.epoch(), 1);
SELECT _next_id(5, n) FROM generate_series(1, 2) AS n;
-- No role can call the support function. How PostgreSQL refuses it differs between minor releases.
DO $$
BEGIN
    PERFORM _next_id_support(NULL);
    RAISE 'it can be called';
EXCEPTION WHEN undefined_function OR feature_not_supported THEN
    NULL;
END $$;

-- The errors are those of next_id, and a failed COPY leaves no row.
ALTER TABLE loaded ALTER id SET DEFAULT next_id(9999);
COPY loaded (n) FROM PROGRAM 'seq 3';
ALTER TABLE loaded ALTER id SET DEFAULT next_id(NULL::int);
COPY loaded (n) FROM PROGRAM 'seq 3';
RESET instagram_id.shard;
ALTER TABLE loaded ALTER id SET DEFAULT next_id();
COPY loaded (n) FROM PROGRAM 'seq 3';
SELECT count(*) FROM loaded;

-- A role needs the right to call next_id, and that to use the sequence; nobody grants it that to call _next_id.
CREATE ROLE regress_id_loader;
GRANT pg_execute_server_program TO regress_id_loader;
GRANT USAGE ON SCHEMA copying, insta5 TO regress_id_loader;
GRANT SELECT, INSERT ON loaded TO regress_id_loader;
ALTER TABLE loaded ALTER id SET DEFAULT insta5.next_id();
SET ROLE regress_id_loader;
COPY loaded (n) FROM PROGRAM 'seq 3';
RESET ROLE;
GRANT USAGE ON SEQUENCE insta5.table_id_seq TO regress_id_loader;
BEGIN;
REVOKE EXECUTE ON FUNCTION public.shard_next_id FROM PUBLIC;
SET ROLE regress_id_loader;
COPY loaded (n) FROM PROGRAM 'seq 3';
ROLLBACK;
BEGIN;
REVOKE EXECUTE ON FUNCTION public._next_id(int, regclass, timestamptz, bigint), nextval FROM PUBLIC;
SET ROLE regress_id_loader;
COPY loaded (n) FROM PROGRAM 'seq 3';
ROLLBACK;
SET ROLE regress_id_loader;
COPY loaded (n) FROM PROGRAM 'seq 3';
RESET ROLE;
-- Nor can it call _next_id with a nextval of its own where it may not call next_id.
GRANT USAGE ON SEQUENCE own TO regress_id_loader;
REVOKE EXECUTE ON FUNCTION public.next_id(int) FROM PUBLIC;
SET ROLE regress_id_loader;
SELECT next_id(5);
SELECT _next_id(5, nextval('own'));
RESET ROLE;
GRANT EXECUTE ON FUNCTION public.next_id(int) TO PUBLIC;
SET ROLE regress_id_loader;
SELECT id_shard(_next_id(5, nextval('own')));
RESET ROLE;

SET client_min_messages = error;
DROP SCHEMA copying, insta5 CASCADE;
DROP ROLE regress_id_loader;

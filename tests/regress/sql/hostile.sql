-- Roles that attack others, and hostile names.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
CREATE ROLE regress_id_mallory;
CREATE ROLE regress_id_victim;
CREATE ROLE regress_id_app;
DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO regress_id_mallory, regress_id_victim', current_database()); END $$;
\set ECHO all

-- A definition by another role: it does not apply to a sequence of another owner, nor beside one by the database owner.
SELECT create_shard(600), create_shard(601, 'photos_eu');
SET ROLE regress_id_victim;
SELECT create_shard(602, 'victims');
RESET ROLE;
SET ROLE regress_id_mallory;
CREATE SCHEMA insta601 CREATE SEQUENCE seq;
CALL define('insta601', 600, 'insta601.seq');
CALL define('insta601', 601, 'insta601.seq');
DO $$ BEGIN EXECUTE format('CREATE FUNCTION insta601.shard_602(OUT sequence regclass, OUT epoch timestamptz, OUT home text)
    BEGIN ATOMIC SELECT %L::regclass, ''1992-02-01 00:00+00''::timestamptz, ''''::text; END',
    (SELECT c.oid FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace WHERE nspname = 'victims' AND relkind = 'S')); END $$;
RESET ROLE;
SELECT id_shard(next_id(600)), id_shard(next_id(601)), id_shard(next_id(602)), NOT is_called AS decoy_not_used FROM insta601.seq;
SELECT shard, schema FROM id_shards WHERE shard BETWEEN 600 AND 602 ORDER BY shard, schema;
-- Two definitions by roles that lack each other's privileges are ambiguous; the schema's own next_id() is not affected.
SET ROLE regress_id_mallory;
CALL define('insta601', 602, 'insta601.seq');
RESET ROLE;
SELECT * FROM raises('SELECT next_id(602)');
SELECT id_shard(victims.next_id());
-- A definition in a schema on which its owner only has CREATE makes the number ambiguous as well.
SET ROLE regress_id_mallory;
DROP FUNCTION insta601.shard_602();
RESET ROLE;
CREATE SCHEMA open;
GRANT ALL ON SCHEMA open TO regress_id_mallory;
SET ROLE regress_id_mallory;
CALL define('open', 602, 'insta601.seq');
RESET ROLE;
SELECT state, detail FROM raises('SELECT next_id(602)');
SELECT id_shard(victims.next_id()), NOT is_called AS decoy_not_used FROM insta601.seq;
DROP FUNCTION open.shard_602();

-- The database owner's definition comes first in a schema of any owner. create_shard() does not accept another role's instead, unless its schema is named.
ALTER SCHEMA insta600 OWNER TO regress_id_victim;
SELECT id_shard(next_id(600)), NOT is_called AS decoy_not_used FROM insta601.seq;
SELECT state, message, hint FROM raises('SELECT create_shard(602, if_not_exists => true)');
SET ROLE regress_id_victim;
SELECT create_shard(602, if_not_exists => true);
RESET ROLE;

-- Function bodies that are nested too deeply to be parsed, or very long, do no harm.
CREATE FUNCTION open.shard_601() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$;
DO $$ BEGIN EXECUTE format('CREATE OR REPLACE FUNCTION open.shard_601() RETURNS int LANGUAGE plpgsql AS %L', 'BEGIN RETURN 1; END --' || repeat('x', 1000000)); END $$;
SELECT id_shard(next_id(601));
SET ROLE regress_id_mallory;
DO $$ BEGIN
    EXECUTE format('CREATE FUNCTION open.shard_600(a int) RETURNS int RETURN a %s', repeat('+a', 3000));
    EXECUTE format('CREATE FUNCTION insta601.shard_603() RETURNS int RETURN random() %s', repeat('+1', 3000));
END $$;
RESET ROLE;
SELECT id_shard(next_id(600));
SELECT * FROM raises('SELECT next_id(603)');
SELECT shard FROM id_shards WHERE shard = 603;

-- So do the defaults of tables in the schema of a shard.
SELECT create_shard(612);
CREATE TABLE insta612.photos (id bigint DEFAULT insta612.next_id());
GRANT ALL ON SCHEMA insta612 TO regress_id_mallory;
SET ROLE regress_id_mallory;
DO $$ BEGIN
    EXECUTE format('CREATE TABLE insta612.deep (id bigint DEFAULT %s random()::int %s)', repeat('abs(', 2000), repeat(')', 2000));
    EXECUTE format('CREATE TABLE insta612.long (id text DEFAULT %L)', repeat('x', 1000000));
END $$;
RESET ROLE;
SELECT c.next_value IS NOT NULL AS closed FROM _close_sequence('insta612.table_id_seq', 7, 1) AS c;
SELECT _record_sequence_holder('insta612.table_id_seq', 7, 1, 0) AS recorded;
SET max_stack_depth = '200kB';
SELECT id_shard(recover_shard(612));
SELECT table_name, column_name FROM convert_defaults_to_triggers(612);
RESET max_stack_depth;

-- Names with quotes and backslashes, with standard_conforming_strings on and off.
-- PostgreSQL 19 does not allow turning it off.
SELECT current_setting('server_version_num')::int < 190000 AS other_strings \gset
\if :other_strings
    SET standard_conforming_strings = off;
    SET escape_string_warning = off;
\endif
SELECT create_shard(604, E'\\'';x');
SELECT id_shard(next_id(604)), claim_shard(604);
CREATE SCHEMA "\';SELECT 1;--";
CREATE SEQUENCE "\';SELECT 1;--".table_id_seq;
SELECT create_shard(605, E'\\\';SELECT 1;--', if_not_exists => true);
SELECT id_shard(next_id(605)), claim_shard(605);
\if :other_strings
    RESET standard_conforming_strings;
    RESET escape_string_warning;
\endif
SELECT schema, sequence FROM id_shards WHERE shard IN (604, 605) ORDER BY shard;

-- Functions that resemble those that create_shard() creates, but do more.
CREATE SCHEMA insta606;
CREATE FUNCTION evil() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE 'run as %', current_user; END $$;
CREATE SEQUENCE insta606.table_id_seq;
CREATE FUNCTION insta606.next_id() RETURNS bigint LANGUAGE sql
    BEGIN ATOMIC SELECT shard_next_id(606, 'insta606.table_id_seq', '2011-08-24 21:07:01.721+00') FROM evil(); END;
SELECT state FROM raises('SELECT create_shard(606, if_not_exists => true)');
CREATE OR REPLACE FUNCTION insta606.next_id() RETURNS bigint LANGUAGE sql IMMUTABLE
    RETURN shard_next_id(606, 'insta606.table_id_seq', '2011-08-24 21:07:01.721+00');
SELECT state FROM raises('SELECT create_shard(606, if_not_exists => true)');
ALTER FUNCTION insta606.next_id() VOLATILE;
CREATE OR REPLACE FUNCTION insta606.next_id() RETURNS bigint LANGUAGE sql
    BEGIN ATOMIC SELECT shard_next_id(606, 'insta606.table_id_seq', '2011-08-24 21:07:01.721+00') HAVING evil() = 1; END;
SELECT state FROM raises('SELECT create_shard(606, if_not_exists => true)');
DROP FUNCTION insta606.next_id();
CREATE FUNCTION insta606.next_id() RETURNS SETOF bigint LANGUAGE sql
    RETURN shard_next_id(606, 'insta606.table_id_seq', '2011-08-24 21:07:01.721+00');
SELECT state FROM raises('SELECT create_shard(606, if_not_exists => true)');
DROP FUNCTION insta606.next_id();
CREATE FUNCTION insta606.epoch() RETURNS SETOF timestamptz LANGUAGE sql IMMUTABLE RETURN '2011-08-24 21:07:01.721+00'::timestamptz;
SELECT state FROM raises('SELECT create_shard(606, if_not_exists => true)');
CREATE OR REPLACE FUNCTION insta607_epoch() RETURNS timestamptz LANGUAGE sql IMMUTABLE RETURN '2999-01-01 00:00+00'::timestamptz;
DROP FUNCTION insta606.epoch();
ALTER FUNCTION insta607_epoch() SET SCHEMA insta606;
ALTER FUNCTION insta606.insta607_epoch() RENAME TO epoch;
SELECT state, message, detail FROM raises('SELECT create_shard(606, if_not_exists => true)');
DROP FUNCTION insta606.epoch();
CREATE FUNCTION insta606.next_id() RETURNS bigint LANGUAGE sql
    RETURN shard_next_id(606, 'insta606.table_id_seq', '2011-08-24 21:07:01.721+00');
CREATE SCHEMA insta608 CREATE SEQUENCE table_id_seq;
GRANT ALL ON SCHEMA insta608 TO regress_id_victim;
GRANT USAGE ON SEQUENCE insta608.table_id_seq TO regress_id_victim;
SET ROLE regress_id_victim;
SELECT state, message, detail FROM raises('SELECT create_shard(608, if_not_exists => true)');
RESET ROLE;
CREATE FUNCTION insta606.id_time(id bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE RETURN shard_id_time(evil(), '2011-08-24 21:07:01.721+00');
SELECT message, detail FROM raises('SELECT create_shard(606, if_not_exists => true)');
DROP FUNCTION insta606.id_time(bigint);
SELECT create_shard(606, if_not_exists => true);
DROP FUNCTION insta606.next_id();
CREATE FUNCTION insta606.next_id() RETURNS bigint LANGUAGE sql RETURN evil();
CREATE TABLE serials (id bigserial PRIMARY KEY);
SELECT state FROM raises('SELECT adopt_table(606, ''serials'')');
DROP FUNCTION insta606.next_id();
SELECT * FROM raises('SELECT adopt_table(606, ''serials'')');

-- A function named like a kept original, which adoption did not create.
GRANT USAGE, CREATE ON SCHEMA victims TO regress_id_mallory;
SET ROLE regress_id_mallory;
CALL original('victims', '602', 'original_next_id', 'insta601.seq');
RESET ROLE;
SELECT state, message, detail FROM raises('SELECT unadopt_shard(602)');
SET ROLE regress_id_victim;
SELECT state, message, detail FROM raises('SELECT unadopt_shard(602)');
RESET ROLE;

-- Sequences that adoption must not change: another role's, shared, a shard's, temporary; and a table instead of a sequence.
SET ROLE regress_id_mallory;
CALL original('insta610', '610', sequence => 'public.serials_id_seq');
RESET ROLE;
SELECT * FROM raises('SELECT adopt_shard(610)');
CALL original('insta611', '611', sequence => 'public.serials_id_seq');
SELECT * FROM raises('SELECT adopt_shard(611, dry_run => true)');
CREATE TABLE identities (id bigint GENERATED ALWAYS AS IDENTITY);
CALL original('insta611', '611', sequence => 'public.identities_id_seq');
SELECT message FROM raises('SELECT adopt_shard(611, dry_run => true)');
DROP TABLE identities;
CALL original('insta611', '611', sequence => 'insta600.table_id_seq');
SELECT * FROM raises('SELECT adopt_shard(611, dry_run => true)');
CREATE TEMP SEQUENCE passing;
CALL original('insta611', '611', sequence => 'pg_temp.passing');
SELECT state, regexp_replace(message, 'pg_temp_\d+', 'pg_temp') AS message, detail FROM raises('SELECT adopt_shard(611, sequence => ''passing'')');
SELECT state, message, detail FROM raises('SELECT adopt_shard(611, sequence => ''serials'')');
CALL original('insta611', '611');
SELECT * FROM raises('SELECT adopt_shard(611, ''elsewhere'', ''insta611.next_id()'')');
ALTER FUNCTION insta611.next_id() RENAME TO a_name_so_long_that_there_is_no_room_to_keep_its_origin;
SELECT state, message, detail FROM raises('SELECT adopt_shard(611, dry_run => true)');
ALTER FUNCTION insta611.a_name_so_long_that_there_is_no_room_to_keep_its_origin() RENAME TO next_id;

-- A table whose owner may not read another table: no code runs with more privileges than its owner has.
CREATE TABLE insta611.t (id bigint PRIMARY KEY DEFAULT insta611.next_id());
ALTER FUNCTION insta611.next_id() OWNER TO regress_id_victim;
ALTER SEQUENCE insta611.table_id_seq OWNER TO regress_id_victim;
GRANT ALL ON SCHEMA insta611 TO regress_id_victim;
SET ROLE regress_id_victim;
SELECT * FROM raises('SELECT adopt_shard(611, dry_run => true)');
-- After a caught error the session is no longer in the transaction, and its settings and role are as before.
SELECT state, message, detail FROM raises('SELECT adopt_shard(611)');
SELECT now() = statement_timestamp() AS outside, current_setting('search_path') AS search_path, current_user;
RESET ROLE;
GRANT SELECT ON insta611.t TO regress_id_victim;
SET ROLE regress_id_victim;
SELECT state, message, detail FROM raises('SELECT adopt_shard(611, dry_run => true)');
SELECT state, message, detail FROM raises('SELECT adopt_shard(611)');
SELECT now() = statement_timestamp() AS outside, current_setting('search_path') AS search_path, current_user;
RESET ROLE;
-- The kept original generates no ids while the shard is adopted, nor does any other function, whatever its name: nextval() fails.
SELECT starts_above IS NOT NULL AS adopted FROM adopt_shard(611, function => 'insta611.next_id()');
SELECT state, message FROM raises('SELECT insta611.original_next_id()');
SELECT state, message FROM raises('SELECT nextval(''insta611.table_id_seq'')');
SELECT id_shard(insta611.next_id());
SELECT unadopt_shard(611);
SELECT id_shard(insta611.next_id());

-- Roles with INSERT on a table must be able to generate its ids after the adoption.
SELECT create_shard(607);
-- With a view that has the rights of its invoker, a role inserts only as on the table.
CREATE VIEW of_invoker WITH (security_invoker = on) AS SELECT * FROM serials;
GRANT INSERT ON of_invoker TO regress_id_app;
SELECT adopted FROM adopt_table(607, 'serials', dry_run => true);
DROP VIEW of_invoker;
GRANT INSERT (id) ON serials TO regress_id_app;
SELECT * FROM raises('SELECT adopt_table(607, ''serials'')');
GRANT USAGE ON SCHEMA insta607 TO regress_id_app;
GRANT USAGE ON SEQUENCE insta607.table_id_seq TO regress_id_app;
SELECT adopted FROM adopt_table(607, 'serials');
GRANT INSERT ON serials TO regress_id_app;
SET ROLE regress_id_app;
INSERT INTO serials DEFAULT VALUES;
RESET ROLE;

-- An object can be named by its OID without a privilege on it. Such dependencies do not prevent an adoption, nor make a table one
-- of the shard; and they do not give a schema an epoch.
CALL original('insta614', '614');
SELECT 'insta614.table_id_seq'::regclass::oid AS sequence, 'insta614.next_id()'::regprocedure::oid AS function,
    'insta614'::regnamespace::oid AS schema \gset
SET ROLE regress_id_mallory;
CREATE FUNCTION pg_temp.f() RETURNS bigint RETURN nextval(:'sequence'::regclass);
CREATE TABLE insta601.depends (id bigint DEFAULT (:'function'::regprocedure)::oid::bigint);
INSERT INTO insta601.depends VALUES (make_id(now() + interval '50 seconds', 614, 0));
CREATE TABLE insta601.constants (a bigint DEFAULT (:'sequence'::regclass)::oid::bigint, b bigint DEFAULT nextval(:'sequence'::regclass));
CREATE FUNCTION insta601.shard_9(a regnamespace DEFAULT :'schema'::regnamespace, OUT sequence regclass, OUT epoch timestamptz, OUT home text)
    BEGIN ATOMIC SELECT 'insta601.seq'::regclass, '2020-01-01 00:00+00'::timestamptz, ''::text; END;
RESET ROLE;
BEGIN;
SELECT starts_above < make_id(now() + interval '20 seconds', 614, 0) FROM adopt_shard(614);
ROLLBACK;
BEGIN;
GRANT UPDATE ON SEQUENCE insta614.table_id_seq TO regress_id_mallory;
SELECT state, message FROM raises('SELECT adopt_shard(614)');
ROLLBACK;
DROP TABLE insta601.constants;
CREATE TABLE insta614.t (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT count(*) FROM create_id_partitions('insta614.t', 'month', 0);

-- A default of another role with a constant whose type has changed, which PostgreSQL cannot show. Newer minor releases refuse that.
SELECT create_shard(616);
CREATE TABLE insta616.t (id bigint DEFAULT insta616.next_id());
GRANT USAGE, CREATE ON SCHEMA insta616 TO regress_id_mallory;
SET ROLE regress_id_mallory;
CREATE TYPE insta601.changed AS (a int);
CREATE FUNCTION insta601.of_changed(insta601.changed) RETURNS bigint RETURN 1;
CREATE TABLE insta616.hostile (id bigint DEFAULT insta601.of_changed('(4609)'));
DO $$ BEGIN
    ALTER TYPE insta601.changed ALTER ATTRIBUTE a TYPE text;
EXCEPTION WHEN feature_not_supported THEN
END $$;
RESET ROLE;
SELECT * FROM convert_defaults_to_triggers(616);

-- Other roles can create any number of functions that name the sequence of a shard, or that are named as kept originals. Their
-- bodies are not read, nor functions with parameters. Counted in pages that a statement reads after a change of the catalogs,
-- which any role can cause.
CALL original('insta613', '613');
SELECT shard FROM adopt_shard(613);
GRANT USAGE, CREATE ON SCHEMA insta613, insta614 TO regress_id_mallory;
CREATE FUNCTION pages(statement text, role text) RETURNS int LANGUAGE plpgsql SET client_min_messages = warning AS $$
DECLARE
    plan json;
BEGIN
    ALTER ROLE regress_id_mallory CONNECTION LIMIT 5;
    PERFORM set_config('role', role, true);
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ' || statement INTO plan;
    RAISE EXCEPTION USING MESSAGE = plan->0->'Plan'->>'Shared Hit Blocks';
EXCEPTION WHEN raise_exception THEN
    RETURN sqlerrm;
END $$;
CREATE VIEW costs AS SELECT pages('SELECT insta607.next_id()', 'regress_id_app') AS default_pages,
    pages('SELECT next_id(607)', 'regress_id_app') AS call_pages, pages('SELECT unadopt_shard(613)', current_user) AS unadopt_pages,
    pages('SELECT next_id(607, ''insta615.counter'')', 'regress_id_app') AS beside_pages,
    pages('SELECT FROM adopt_shard(614, dry_run => true)', current_user) AS adopt_pages;
CREATE SCHEMA insta615 CREATE SEQUENCE counter;
GRANT USAGE ON SCHEMA insta615 TO regress_id_app;
GRANT USAGE ON SEQUENCE insta615.counter TO regress_id_app;
-- The first time they also fill caches.
SELECT * FROM costs \gset first_
SELECT * FROM costs \gset
SET ROLE regress_id_mallory;
DO $$
DECLARE
    sequence CONSTANT oid := (SELECT oid FROM pg_class WHERE relname = 'table_id_seq' AND relnamespace = 'insta607'::regnamespace::oid);
    beside CONSTANT oid := (SELECT oid FROM pg_class WHERE relname = 'counter' AND relkind = 'S');
    body CONSTANT text := (SELECT prosrc FROM pg_proc WHERE oid = 'insta613.original_next_id'::regproc);
    long CONSTANT text := (SELECT string_agg(md5(m::text), '') FROM generate_series(1, 450) AS m);
BEGIN
    FOR n IN 1..300 LOOP
        EXECUTE format('CREATE FUNCTION pg_temp.shard_%s() RETURNS regclass RETURN %L::regclass', n, sequence);
        EXECUTE format('CREATE FUNCTION pg_temp.shard_%s() RETURNS regclass RETURN %L::regclass', n + 1000, beside);
        EXECUTE format('CREATE FUNCTION insta601.shard_%s() RETURNS regclass RETURN %L::regclass', n + 1000, sequence);
        EXECUTE format('CREATE FUNCTION insta613.original_x%s() RETURNS bigint LANGUAGE plpgsql AS %L', n, body || ' --' || long);
    END LOOP;
    FOR n IN 0..399 LOOP
        EXECUTE format('CREATE FUNCTION insta601.shard_607(%s%s) RETURNS int RETURN 1', repeat('text,', n / 5 + 1),
            ('{int,oid,name,bool,date}'::text[])[n % 5 + 1]);
    END LOOP;
END $$;
RESET ROLE;
SELECT * FROM costs \gset first_
SELECT default_pages - :default_pages < 50, call_pages - :call_pages < 50, unadopt_pages - :unadopt_pages < 300 * 15,
    beside_pages - :beside_pages < 50 FROM costs;
-- A shard of this number in each of their schemas. They could make next_id(607) ambiguous anyway, but not the default.
DO $$
BEGIN
    FOR n IN 1..100 LOOP
        EXECUTE format('CREATE SCHEMA hostile_%s AUTHORIZATION regress_id_mallory', n);
        EXECUTE format('CREATE FUNCTION hostile_%s.shard_607() RETURNS regclass RETURN ''insta607.table_id_seq''::regclass', n);
        EXECUTE format('ALTER FUNCTION hostile_%s.shard_607() OWNER TO regress_id_mallory', n);
    END LOOP;
END $$;
SELECT * FROM costs \gset first_
SELECT default_pages - :default_pages < 50, beside_pages - :beside_pages < 50 FROM costs;
-- Long defaults that name the function of a shard, and long bodies. To read either takes over 700 pages; autovacuum adds up to 150.
SELECT * FROM costs \gset
SET ROLE regress_id_mallory;
DO $$
DECLARE
    called CONSTANT oid := 'insta613.next_id()'::regprocedure;
    long CONSTANT text := (SELECT string_agg(md5(m::text), '') FROM generate_series(1, 20000) AS m);
BEGIN
    FOR n IN 1..10 LOOP
        EXECUTE format('CREATE TABLE insta601.long_%s (id bigint DEFAULT (%L::regprocedure)::oid::bigint + length(%L))', n, called, long);
        EXECUTE format('CREATE FUNCTION pg_temp.long_%s() RETURNS void LANGUAGE plpgsql AS %L', n, 'BEGIN END --' || long);
        EXECUTE format('CREATE FUNCTION insta614.long_%s() RETURNS bigint LANGUAGE plpgsql AS %L', n, 'BEGIN RETURN 1; END --' || long);
    END LOOP;
END $$;
RESET ROLE;
SELECT * FROM costs \gset first_
SELECT unadopt_pages - :unadopt_pages < 300, adopt_pages - :adopt_pages < 300 FROM costs;

\set VERBOSITY terse
SET client_min_messages = warning;
DROP TABLE serials;
DROP SCHEMA insta600, insta601, insta606, insta607, insta608, insta610, insta611, insta612, insta613, insta614, insta615, insta616, photos_eu, victims, open, "\';x", "\';SELECT 1;--" CASCADE;
DROP VIEW costs;
DROP FUNCTION evil, pages;
DROP OWNED BY regress_id_mallory, regress_id_victim;
DROP ROLE regress_id_mallory, regress_id_victim, regress_id_app;

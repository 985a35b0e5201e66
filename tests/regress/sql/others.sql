-- Objects of another role, and their limits: counters, functions that change settings, views, many names, texts.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
SET client_min_messages = warning;
CREATE ROLE regress_id_evil;
CREATE ROLE regress_id_app;
CREATE ROLE regress_id_super SUPERUSER;
SELECT current_database() AS database \gset
GRANT CREATE ON DATABASE :"database" TO regress_id_evil, regress_id_app;
\set ECHO all

-- A role with USAGE on a counter cannot make a clock of it, be it in a shard's schema or elsewhere. The first call looks up
-- its privileges; by its epoch the counter's value is one of the present.
SET ROLE regress_id_app;
SELECT create_shard(9);
CREATE SCHEMA apart;
CREATE TABLE apart.photos (id bigserial PRIMARY KEY);
CREATE SEQUENCE insta9.beside;
CREATE SEQUENCE insta9.unused;
CREATE SEQUENCE apart.unused START 1000;
INSERT INTO apart.photos SELECT FROM generate_series(1, 3);
SELECT nextval('insta9.beside') FROM generate_series(1, 3);
GRANT USAGE ON SCHEMA insta9, apart TO regress_id_evil;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA insta9, apart TO regress_id_evil;
SET ROLE regress_id_evil;
SELECT statement, r.* FROM unnest(ARRAY['next_id(6, ''apart.photos_id_seq'', now() - interval ''1 ms'')', 'next_id(6, ''apart.photos_id_seq'')',
    'next_id(6, ''apart.photos_id_seq'', now() - interval ''30 years'')', 'node_next_id(''apart.photos_id_seq'')', 'next_id(9, ''insta9.beside'')',
    'shard_next_id(9, ''insta9.beside'', insta9.epoch())', 'node_next_id(''insta9.beside'')']) AS statement, raises('SELECT ' || statement) AS r;
SELECT nextval('apart.photos_id_seq'), nextval('insta9.beside');
-- A sequence that was never used becomes a clock. So does a counter if its owner calls next_id().
SELECT id_shard(next_id(6, seq)) FROM unnest('{insta9.unused,apart.unused}'::regclass[]) AS seq;
RESET ROLE;
SET ROLE regress_id_app;
SELECT id_shard(next_id(6, 'insta9.beside'));
SET ROLE regress_id_evil;
SELECT id_shard(next_id(6, seq)) FROM unnest('{insta9.unused,apart.unused,insta9.beside}'::regclass[]) AS seq;
-- Set back to its minimum, it follows the clock again. Set to another small number it is a counter, in a session that has used it, too.
RESET ROLE;
SELECT setval('insta9.beside', 1), setval('apart.unused', 7);
SET ROLE regress_id_evil;
SELECT id_shard(next_id(6, 'insta9.beside'));
SELECT state, detail FROM raises('SELECT next_id(6, ''apart.unused'')');
-- A counter whose values have reached those of a clock counts as one.
RESET ROLE;
SELECT setval('apart.unused', 88473600000), setval('apart.photos_id_seq', 88473599999);
SET ROLE regress_id_evil;
SELECT id_shard(next_id(6, 'apart.unused'));
SELECT state, detail FROM raises('SELECT next_id(6, ''apart.photos_id_seq'')');
-- The sequence of a shard can have been a counter before: then its owner has made it the clock of the shard.
RESET ROLE;
SELECT setval('insta9.table_id_seq', 7);
SET ROLE regress_id_evil;
SELECT id_shard(insta9.next_id());
RESET ROLE;

-- A function of another role changes settings when an index or a constraint calls it. The settings end with that call.
SET ROLE regress_id_evil;
CREATE SCHEMA evil;
CREATE SEQUENCE evil.calls;
CREATE FUNCTION evil.sets(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM set_config('search_path', 'evil', false), set_config('instagram_id.shard', '666', false), set_config('evil.was_here', 'yes', false),
        nextval('evil.calls');
    RETURN 1;
END $$;
CREATE TABLE evil.events (id bigint) PARTITION BY RANGE (id);
CREATE TABLE evil.serials (id bigserial PRIMARY KEY, n bigint);
CREATE INDEX ON evil.events ((id + evil.sets(1)));
INSERT INTO evil.serials VALUES (7);
CREATE INDEX ON evil.serials ((n + evil.sets(1)));
GRANT USAGE ON SCHEMA evil TO PUBLIC;
RESET ROLE;
SELECT setval('evil.calls', 1, false);
CREATE FUNCTION settings() RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', current_setting('search_path'), current_setting('instagram_id.shard', true), nullif(current_setting('evil.was_here', true), ''), current_user)
$$;
\c -
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
SET client_min_messages = warning;
SET ROLE regress_id_evil;
SELECT id_shard(1), settings() AS before \gset
SELECT count(*) FROM create_id_partitions('evil.events', ahead => 1, from_time => now() - interval '3 months');
SELECT settings() = :'before' AS same, is_called FROM evil.calls;
SELECT setval('evil.calls', 1, false);
SELECT count(*) > 0 AS dropped FROM drop_old_id_partitions('evil.events', now() - interval '1 month', detach => true);
SELECT settings() = :'before' AS same FROM evil.calls;
SET ROLE regress_id_super;
SELECT setval('evil.calls', 1, false), settings() AS before \gset
SELECT adopted FROM adopt_table(9, 'evil.serials', schema => 'insta9');
SELECT settings() = :'before' AS same, is_called FROM evil.calls;
-- An adoption reads the newest id under locks that other sessions wait for. It calls no such function.
CALL original('insta3', '3', epoch => '1314220021721');
ALTER TABLE evil.serials ALTER id SET DEFAULT insta3.next_id();
SELECT newest_id FROM adopt_shard(3);
SELECT settings() = :'before' AS same, is_called FROM evil.calls;
DROP SCHEMA insta3 CASCADE;
RESET ROLE;
DROP SCHEMA evil CASCADE;

-- With all names quoted, defaults and the names in them are compared all the same.
SET quote_all_identifiers = on;
BEGIN;
CREATE TABLE insta9.serials (id bigserial PRIMARY KEY);
CREATE TABLE insta9.ids (id bigint PRIMARY KEY DEFAULT insta9.next_id());
SELECT adopted, script, way_back FROM adopt_table(9, 'insta9.serials');
SELECT adopted, script, way_back FROM adopt_table(9, 'insta9.serials', dry_run => true);
SELECT column_name FROM convert_defaults_to_triggers(9) ORDER BY table_name::text;
SELECT can_generate, reason FROM id_shards WHERE shard = 9;
ROLLBACK;
BEGIN;
CALL original('insta8', '8', sequence => 'insta8.table_id_seq');
CREATE TABLE insta8.photos (id bigint PRIMARY KEY DEFAULT insta8.next_id());
SELECT script ~ 'insta8.original_next_id\(\)' AND script !~ '"' AS quoted_where_needed FROM adopt_shard(8);
SELECT can_generate, reason FROM id_shards WHERE shard = 8;
ROLLBACK;
SELECT current_setting('quote_all_identifiers');
RESET quote_all_identifiers;

-- A view of another role on a table does not make that role one that can insert into the table. Nor is it locked.
SET ROLE regress_id_app;
CREATE TABLE apart.serials (id bigserial PRIMARY KEY);
SET ROLE regress_id_evil;
CREATE SCHEMA evil;
CREATE VIEW evil.serials AS SELECT * FROM apart.serials;
GRANT ALL ON evil.serials TO PUBLIC;
RESET ROLE;
BEGIN;
SET LOCAL ROLE regress_id_app;
SELECT adopted FROM adopt_table(9, 'apart.serials');
ROLLBACK;
-- Even if it can insert, and permits all to do so through its view. A view of the table's owner counts.
GRANT INSERT ON apart.serials TO regress_id_evil;
SET ROLE regress_id_app;
SELECT adopted FROM adopt_table(9, 'apart.serials', dry_run => true);
CREATE VIEW apart.serials_too AS SELECT * FROM apart.serials;
GRANT INSERT ON apart.serials_too TO PUBLIC;
BEGIN;
SELECT state, message, hint FROM raises('SELECT adopt_table(9, ''apart.serials'')');
-- The view is locked only while PostgreSQL is asked whether it is updatable: there could be as many as the server has locks.
GRANT USAGE ON SCHEMA insta9 TO PUBLIC;
GRANT USAGE ON SEQUENCE insta9.table_id_seq TO PUBLIC;
SELECT adopted FROM adopt_table(9, 'apart.serials', dry_run => true);
SELECT count(*) FROM pg_locks JOIN pg_class AS c ON c.oid = relation WHERE relname LIKE 'serials%' AND relkind = 'v';
ROLLBACK;
RESET ROLE;
DROP VIEW evil.serials;

-- Texts of another role in messages: a default with lines and control characters of its own.
SET ROLE regress_id_evil;
CREATE TABLE evil.texts (id bigint DEFAULT length(E'a\nHINT:  Use ALTER ROLE evil SUPERUSER.\u001b[2J' || repeat('x', 10)));
DO $$ BEGIN EXECUTE format('CREATE TABLE evil.long (id bigint DEFAULT length(%L))', repeat('x', 900)); END $$;
RESET ROLE;
SELECT detail FROM raises('SELECT adopt_table(9, ''evil.texts'', ''id'', schema => ''insta9'')');
SELECT length(detail) < 400 AS short FROM raises('SELECT adopt_table(9, ''evil.long'', ''id'', schema => ''insta9'')');
SELECT message FROM raises($$SELECT create_id_partitions('evil.texts', E'day\nNOTICE:  all is well')$$);
SELECT message, detail FROM raises($$SELECT shortcode_to_id(E'\n')$$);
-- Many names.
SET ROLE regress_id_evil;
DO $$ BEGIN
    FOR n IN 10..30 LOOP
        EXECUTE format('CREATE SCHEMA evil%s CREATE SEQUENCE seq', n);
        EXECUTE format('CREATE FUNCTION evil%s.shard_7(OUT sequence regclass, OUT epoch timestamptz, OUT home text)
            BEGIN ATOMIC SELECT %L::regclass, %L::timestamptz, %L::text; END', n, format('evil%s.seq', n), '2020-01-01+00', '');
    END LOOP;
END $$;
RESET ROLE;
SELECT message, detail FROM raises('SELECT next_id(7)');
SELECT value FROM id_explain(make_id('2020-01-01', 7, 0), '2011-01-01') WHERE field = 'schema';

-- Functions of another role beside an original: of any length, and with a body that names a table which is locked.
SET ROLE regress_id_app;
CALL original('insta8', '8');
GRANT CREATE, USAGE ON SCHEMA insta8 TO regress_id_evil;
SET ROLE regress_id_evil;
DO $$ BEGIN EXECUTE format('CREATE FUNCTION insta8.long() RETURNS bigint LANGUAGE plpgsql AS %L', 'BEGIN RETURN 1; END --' || repeat('x', 1000000)); END $$;
SET ROLE regress_id_app;
SELECT shard FROM adopt_shard(8, dry_run => true);
SET ROLE regress_id_evil;
DROP FUNCTION insta8.long();
CREATE FUNCTION insta8.uses() RETURNS bigint LANGUAGE sql RETURN nextval('insta8.table_id_seq');
SET ROLE regress_id_app;
SELECT state, detail FROM raises('SELECT adopt_shard(8, dry_run => true)');
RESET ROLE;

-- COPY evaluates next_id() in another form. The form is in no default, view or rule.
CREATE VIEW apart.defaults AS SELECT next_id(9) AS id, insta9.next_id() AS own;
CREATE TABLE apart.copied (a bigint DEFAULT next_id(9), b bigint DEFAULT insta9.next_id(), c bigint DEFAULT next_id(9, 'insta9.unused'),
    n int, CHECK (next_id(9) > 0));
CREATE RULE copied AS ON DELETE TO apart.copied DO ALSO INSERT INTO apart.copied (a) VALUES (next_id(9));
COPY apart.copied (n) FROM PROGRAM 'seq 3';
ALTER TABLE apart.copied ADD d bigint DEFAULT next_id(9), ALTER c TYPE bigint USING next_id(9);
SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'apart.copied'::regclass ORDER BY adnum;
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'apart.copied'::regclass;
SELECT pg_get_viewdef('apart.defaults'), pg_get_ruledef(oid) FROM pg_rewrite WHERE rulename = 'copied';
SELECT count(DISTINCT a), count(DISTINCT b), count(DISTINCT c), count(DISTINCT d) FROM apart.copied;
SELECT count(*) AS stored FROM pg_depend WHERE refclassid = 'pg_proc'::regclass AND refobjid IN (SELECT oid FROM pg_proc WHERE proname = '_next_id') AND deptype = 'n';

-- A role with many shards and many kept originals in one schema. A query about all shards reads each function once.
SET ROLE regress_id_evil;
DO $$ BEGIN
    CREATE SCHEMA many CREATE SEQUENCE seq;
    FOR n IN 2000..2019 LOOP
        EXECUTE format('CREATE FUNCTION many.shard_%s(OUT sequence regclass, OUT epoch timestamptz, OUT home text)
            BEGIN ATOMIC SELECT ''many.seq''::regclass, ''2011-08-24 21:07:01.721+00''::timestamptz, ''''::text; END', n);
    END LOOP;
    FOR n IN 100..149 LOOP
        EXECUTE format('CREATE FUNCTION many.original_id_%s() RETURNS bigint LANGUAGE plpgsql AS %L', n,
            'BEGIN RETURN ((floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1314220021721) << 23) | (current_setting(''app.shard'')::int << 10) | (nextval(''many.seq'') % 1024); END');
    END LOOP;
END $$;
RESET ROLE;
BEGIN;
SELECT idx_scan AS scans FROM pg_stat_xact_sys_tables WHERE relid = 'pg_proc'::regclass \gset
SELECT count(*), bool_and(reason LIKE '%many.id\_100() is missing; many.id\_101() is missing; %') AS named FROM id_shards WHERE shard BETWEEN 2000 AND 2019;
SELECT idx_scan - :scans < 600 AS once FROM pg_stat_xact_sys_tables WHERE relid = 'pg_proc'::regclass;
COMMIT;
DROP SCHEMA many CASCADE;

-- The sequence field goes on.
SET ROLE regress_id_app;
CALL original('insta4', '4');
SELECT setval('insta4.table_id_seq', 77);
RESET ROLE;
SELECT shard FROM adopt_shard(4, 'insta4');
SELECT last_value % 1024 AS seq FROM insta4.table_id_seq;

-- An adopted next_id() and its original can name any relation in their bodies. unadopt_shard() locks only a sequence of their owner.
SET ROLE regress_id_evil;
SELECT create_shard(6);
CREATE TABLE evil.own (id bigint);
CREATE FUNCTION evil.unadopts(role text, names text, OUT state text, OUT message text, OUT hint text, OUT locked bool) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE OR REPLACE FUNCTION insta6.next_id() RETURNS bigint LANGUAGE sql RETURN public.shard_next_id(6, %L, %L)',
        names, '2011-08-24 21:07:01.721+00');
    EXECUTE format('CREATE OR REPLACE FUNCTION insta6.original_next_id() RETURNS bigint LANGUAGE plpgsql AS %L', format('BEGIN
        RETURN ((floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1314220021721) << 23) | (6 << 10) | (nextval(%L) %% 1024);
    END', names));
    PERFORM set_config('role', role, true);
    SELECT r.state, r.message, r.hint INTO state, message, hint FROM raises('SELECT unadopt_shard(6)') AS r;
    locked := EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND relation = names::regclass AND mode = 'ShareRowExclusiveLock');
    PERFORM set_config('role', 'regress_id_evil', true);
END $$;
SELECT role, names, r.* FROM unnest('{regress_id_evil,regress_id_super}'::text[]) AS role,
    unnest('{pg_authid,apart.photos,evil.own,apart.photos_id_seq}'::text[]) AS names, evil.unadopts(role, names) AS r;
SELECT setval('insta6.table_id_seq', (extract(epoch FROM now() - '2011-08-25+00') * 1000)::bigint << 10) > 0 AS is_clock;
SELECT * FROM evil.unadopts('regress_id_evil', 'insta6.table_id_seq');
RESET ROLE;

-- The owner of a shard does not own its schema. A definition in a schema of its owner's own does not take the number.
CREATE SCHEMA shared;
GRANT ALL ON SCHEMA shared TO regress_id_app;
SET ROLE regress_id_app;
SELECT create_shard(5, 'shared', if_not_exists => true);
SELECT id_shard(next_id(5));
SET ROLE regress_id_evil;
CREATE SCHEMA insta5 CREATE SEQUENCE table_id_seq;
CALL define('insta5', 5, 'insta5.table_id_seq', '2011-08-24 21:07:01.721+00');
GRANT USAGE ON SCHEMA insta5 TO PUBLIC;
GRANT USAGE ON SEQUENCE insta5.table_id_seq TO PUBLIC;
SET ROLE regress_id_app;
SELECT statement, r.* FROM unnest('{next_id(5),"next_ids(5, 1)","advance_shard(5, make_id(now(), 5, 1))",claim_shard(5)}'::text[]) AS statement,
    raises('SELECT ' || statement) AS r;
SELECT id_shard(shared.next_id());
SET ROLE regress_id_evil;
SELECT is_called FROM insta5.table_id_seq;
RESET ROLE;
-- The owner of the database decides.
ALTER FUNCTION shared.shard_5() OWNER TO CURRENT_USER;
SET ROLE regress_id_app;
SELECT id_shard(next_id(5));
RESET ROLE;

DROP SCHEMA insta4, insta5, insta6, insta8, insta9, shared, apart, evil CASCADE;
DO $$ BEGIN FOR n IN 10..30 LOOP EXECUTE format('DROP SCHEMA evil%s CASCADE', n); END LOOP; END $$;

-- PostgreSQL evaluates the constants of a partition key when a trigger is created: with the rights of the table's owner.
SELECT create_shard(7);
GRANT USAGE, CREATE ON SCHEMA insta7 TO regress_id_evil;
SET ROLE regress_id_evil;
CREATE SCHEMA evil;
CREATE FUNCTION evil.act() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        ALTER ROLE regress_id_evil SUPERUSER;
    END IF;
    RETURN 1;
END $$;
CREATE FUNCTION evil.one(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN evil.act(); END';
CREATE TABLE insta7.photos (id bigint DEFAULT insta7.next_id(), n bigint) PARTITION BY RANGE ((n + evil.one(1)));
RESET ROLE;
\c -
SET client_min_messages = warning;
SELECT * FROM convert_defaults_to_triggers(7);
SELECT rolsuper FROM pg_roles WHERE rolname = 'regress_id_evil';
-- The owner can, as the WARNING says. The caller's own expression is evaluated.
SET ROLE regress_id_evil;
SELECT * FROM convert_defaults_to_triggers(7);
CREATE TABLE insta7.videos (id bigint DEFAULT insta7.next_id(), kind int, n bigint) PARTITION BY LIST (kind);
CREATE TABLE insta7.kind_1 PARTITION OF insta7.videos FOR VALUES IN (1) PARTITION BY RANGE ((n + 1));
CREATE TABLE insta7.text (id text DEFAULT insta7.next_id());
CREATE TABLE insta7.plain (id bigint DEFAULT insta7.next_id(), n bigint) PARTITION BY RANGE (n);
RESET ROLE;
CREATE TABLE insta7.own (id bigint DEFAULT insta7.next_id(), n bigint) PARTITION BY RANGE ((n + 1));
SET client_min_messages = warning;
SELECT * FROM convert_defaults_to_triggers(7);
DROP TABLE insta7.videos, insta7.text;
-- Nothing else of a table is evaluated then.
SET ROLE regress_id_evil;
CREATE SEQUENCE evil.calls;
CREATE FUNCTION evil.count(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN nextval(''evil.calls''); END';
CREATE TABLE insta7.trapped (id bigint DEFAULT insta7.next_id(), n bigint CHECK (n > evil.count(1)), m bigint DEFAULT evil.count(1),
    total bigint GENERATED ALWAYS AS (n + evil.count(1)) STORED);
CREATE INDEX ON insta7.trapped ((n + evil.count(1))) WHERE n > evil.count(1);
CREATE STATISTICS insta7.pairs ON (n + evil.count(1)), m FROM insta7.trapped;
CREATE POLICY counted ON insta7.trapped USING (n > evil.count(1));
ALTER TABLE insta7.trapped ENABLE ROW LEVEL SECURITY;
RESET ROLE;
SELECT setval('evil.calls', 1, false);
\c -
SET client_min_messages = warning;
SELECT * FROM convert_defaults_to_triggers(7);
SELECT is_called FROM evil.calls;
-- Also those of a partition that is partitioned itself. It can belong to another role.
CREATE TABLE insta7.visits (id bigint DEFAULT insta7.next_id(), n bigint) PARTITION BY RANGE (n);
SET ROLE regress_id_evil;
CREATE TABLE insta7.visits_1 (id bigint DEFAULT insta7.next_id(), n bigint) PARTITION BY RANGE ((n + evil.one(1)));
RESET ROLE;
ALTER TABLE insta7.visits ATTACH PARTITION insta7.visits_1 FOR VALUES FROM (0) TO (10);
ALTER ROLE regress_id_evil NOSUPERUSER;
\c -
SET client_min_messages = warning;
SELECT state, message FROM raises('SELECT convert_defaults_to_triggers(7)');
SELECT rolsuper FROM pg_roles WHERE rolname = 'regress_id_evil';
DROP SCHEMA insta7, evil CASCADE;

-- Other roles cannot prevent that the other defaults are converted, as with a trigger of the same name.
SELECT create_shard(7);
CREATE SCHEMA evil AUTHORIZATION regress_id_evil;
GRANT USAGE, CREATE ON SCHEMA insta7 TO regress_id_evil;
CREATE TABLE insta7.photos (id bigint DEFAULT insta7.next_id());
GRANT TRIGGER ON insta7.photos TO regress_id_evil;
SET ROLE regress_id_evil;
CREATE TRIGGER "0_assign_id" BEFORE UPDATE ON insta7.photos FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
RESET ROLE;
SELECT * FROM convert_defaults_to_triggers(7);
SELECT tgname FROM pg_trigger WHERE tgrelid = 'insta7.photos'::regclass ORDER BY tgname;
INSERT INTO insta7.photos DEFAULT VALUES;
SELECT id_shard(id) FROM insta7.photos;
-- A trigger that had no effect beside the default does not get one.
CREATE TABLE insta7.taken (id bigint DEFAULT insta7.next_id());
GRANT TRIGGER ON insta7.taken TO regress_id_evil;
SET ROLE regress_id_evil;
CREATE TRIGGER "0" BEFORE INSERT ON insta7.taken FOR EACH ROW WHEN (NEW.id IS NULL) EXECUTE FUNCTION next_id_trigger('9', 'id');
RESET ROLE;
SELECT * FROM convert_defaults_to_triggers(7);
DROP TRIGGER "0" ON insta7.taken;
SELECT * FROM convert_defaults_to_triggers(7);
-- While the sequence has another owner, the trigger does not take ids of a shard of a superuser with the same number.
CREATE SCHEMA rival;
CREATE SEQUENCE rival.s;
CALL define('rival', 7, 'rival.s', '2011-08-24 21:07:01.721+00');
BEGIN;
ALTER FUNCTION insta7.shard_7() OWNER TO regress_id_app;
ALTER TABLE insta7.taken OWNER TO regress_id_app;
SELECT * FROM raises('INSERT INTO insta7.taken DEFAULT VALUES');
ROLLBACK;
DROP SCHEMA rival CASCADE;
-- A call converts the tables of one role, first those of the shard's owner, whatever others have. Others wait for no more.
SET ROLE regress_id_evil;
CREATE TABLE insta7.wide (a bigint DEFAULT insta7.next_id(), b bigint DEFAULT insta7.next_id());
RESET ROLE;
CREATE TABLE insta7.last (id bigint DEFAULT insta7.next_id());
SELECT * FROM convert_defaults_to_triggers(7);
SELECT * FROM convert_defaults_to_triggers(7);
SELECT * FROM convert_defaults_to_triggers(7);
SET client_min_messages = warning;
DROP SCHEMA insta7, evil CASCADE;

-- In a database with another encoding, a shard with a name that the extension cannot read does not hide the others.
CREATE DATABASE regress_id_latin1 TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C';
\c regress_id_latin1
SET client_min_messages = warning;
CREATE EXTENSION instagram_id;
SELECT create_shard(5);
DO $$ BEGIN
    EXECUTE format('CREATE SCHEMA %I CREATE SEQUENCE seq', chr(233));
    EXECUTE format('CREATE FUNCTION %I.shard_6(OUT sequence regclass, OUT epoch timestamptz, OUT home text)
        BEGIN ATOMIC SELECT %L::regclass, %L::timestamptz, %L::text; END', chr(233), chr(233) || '.seq', '2020-01-01+00', '');
END $$;
SELECT shard, can_generate, reason LIKE 'text % is not in UTF-8' AS is_named FROM id_shards ORDER BY shard;
-- Nor is a text that is not UTF-8 an internal error, or shown in another encoding.
SELECT shortcode_to_id('a' || chr(233));
\set VERBOSITY sqlstate
SELECT shortcode_to_id('B' || chr(233));
SELECT create_shard(7, chr(233));
-- Columns and tables with such names. Beside them the trigger assigns ids, and the event trigger does not reject a table.
DO $$ BEGIN
    EXECUTE format('CREATE TABLE insta5.a (%I bigserial PRIMARY KEY)', chr(233));
    EXECUTE format('CREATE TABLE insta5.b (%I int, id bigint)', chr(233));
    EXECUTE format('CREATE TABLE insta5.c (%I bigint)', chr(233));
    CREATE TRIGGER assign_id BEFORE INSERT ON insta5.b FOR EACH ROW EXECUTE FUNCTION next_id_trigger('5', 'id');
    EXECUTE format('CREATE TRIGGER assign_id BEFORE INSERT ON insta5.c FOR EACH ROW EXECUTE FUNCTION next_id_trigger(%L, %L)', '5', chr(233));
END $$;
SELECT adopt_table(5, 'insta5.a');
INSERT INTO insta5.b DEFAULT VALUES RETURNING id_shard(id);
INSERT INTO insta5.c DEFAULT VALUES;
CREATE EVENT TRIGGER adopt_new_tables ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION adopt_new_tables();
DO $$ BEGIN EXECUTE format('CREATE TABLE insta5.d (%I bigserial PRIMARY KEY)', chr(233)); END $$;
DO $$ BEGIN EXECUTE format('CREATE TABLE insta5.%I (id bigserial PRIMARY KEY)', chr(233)); END $$;
SELECT count(*) FROM pg_class WHERE relnamespace = 'insta5'::regnamespace AND relkind = 'r';
\set VERBOSITY default
DROP EXTENSION instagram_id CASCADE;
-- A role with CREATE on the database can create the extension, whose script runs as a superuser. For these argument types its
-- function matches better than that of PostgreSQL. With functions and mutexes as in the portable edition it prevents an
-- installation. The message names it.
GRANT CREATE ON DATABASE regress_id_latin1 TO regress_id_evil;
SET ROLE regress_id_evil;
CREATE SCHEMA evil;
CREATE FUNCTION evil.format(text, name, name) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    ALTER ROLE regress_id_evil SUPERUSER;
    RETURN NULL;
END $$;
CREATE SCHEMA ids;
CREATE SCHEMA ids_mutexes CREATE TABLE _mutex_0 ();
CREATE FUNCTION ids._shard_next_id() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE EXTENSION instagram_id SCHEMA evil;
DROP FUNCTION ids._shard_next_id;
CREATE EXTENSION instagram_id SCHEMA evil;
RESET ROLE;
SELECT rolsuper FROM pg_roles WHERE rolname = 'regress_id_evil';
\c contrib_regression
SET client_min_messages = warning;
DROP DATABASE regress_id_latin1;
DROP FUNCTION settings;
DROP OWNED BY regress_id_evil, regress_id_app, regress_id_super;
DROP ROLE regress_id_evil, regress_id_app, regress_id_super;

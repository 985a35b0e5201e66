-- Adoption: privileges, functions that are replaced afterwards, several functions, and checks against the newest id.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
CREATE ROLE regress_id_app;
CREATE ROLE "regress_id app";
CREATE ROLE regress_id_group;
CREATE ROLE regress_id_owner;
SET client_min_messages = warning;
\set ECHO all

-- A role that could insert before adoption can insert afterwards, or adoption names the missing privileges.
CALL original('insta520', '520');
CREATE TABLE insta520.photos (id bigint PRIMARY KEY DEFAULT insta520.next_id(), title text);
REVOKE EXECUTE ON FUNCTION insta520.next_id() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION insta520.next_id() TO "regress_id app", regress_id_group;
GRANT regress_id_group TO regress_id_app;
GRANT USAGE ON SCHEMA insta520 TO PUBLIC;
GRANT USAGE ON SEQUENCE insta520.table_id_seq TO PUBLIC;
GRANT INSERT ON insta520.photos TO PUBLIC;
GRANT SELECT ON insta520.photos TO PUBLIC;
-- Default privileges can have this effect: EXECUTE is revoked from PUBLIC.
BEGIN;
REVOKE EXECUTE ON FUNCTION shard_next_id(integer, regclass, timestamptz) FROM PUBLIC;
SET LOCAL ROLE regress_id_app;
INSERT INTO insta520.photos (title) VALUES ('old') RETURNING id_shard(id);
RESET ROLE;
SELECT * FROM raises('SELECT adopt_shard(520)');
SELECT * FROM raises('SELECT adopt_shard(520, dry_run => true)');
GRANT EXECUTE ON FUNCTION public.shard_next_id(integer,regclass,timestamp with time zone) TO "regress_id app", regress_id_group;
SELECT shard FROM adopt_shard(520);
SET LOCAL ROLE regress_id_app;
INSERT INTO insta520.photos (title) VALUES ('new') RETURNING id_shard(id);
SET LOCAL ROLE "regress_id app";
INSERT INTO insta520.photos (title) VALUES ('new') RETURNING id_shard(id);
ROLLBACK;
-- If PUBLIC may execute next_id(), the roles with USAGE on the sequence need EXECUTE; if PUBLIC has that too, PUBLIC does.
BEGIN;
REVOKE EXECUTE ON FUNCTION shard_next_id(integer, regclass, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION insta520.next_id() TO PUBLIC;
SAVEPOINT a;
SELECT hint FROM raises('SELECT adopt_shard(520)');
REVOKE USAGE ON SEQUENCE insta520.table_id_seq FROM PUBLIC;
GRANT USAGE ON SEQUENCE insta520.table_id_seq TO regress_id_app;
SELECT hint FROM raises('SELECT adopt_shard(520)');
GRANT pg_write_all_data TO "regress_id app";
SELECT hint FROM raises('SELECT adopt_shard(520)');
-- SECURITY DEFINER: only the owner needs it, and the owner may lack other privileges.
ALTER FUNCTION insta520.next_id() SECURITY DEFINER;
SELECT shard FROM adopt_shard(520);
SET LOCAL ROLE "regress_id app";
SELECT insta520.next_id() > 0 AS generated;
ROLLBACK;
BEGIN;
ALTER FUNCTION insta520.next_id() SECURITY DEFINER;
ALTER FUNCTION insta520.next_id() OWNER TO regress_id_owner;
ALTER SEQUENCE insta520.table_id_seq OWNER TO regress_id_owner;
SELECT message, detail, hint FROM raises('SELECT adopt_shard(520, function => ''insta520.next_id()'')');
GRANT CREATE ON SCHEMA insta520 TO regress_id_owner;
REVOKE EXECUTE ON FUNCTION shard_next_id(integer, regclass, timestamptz) FROM PUBLIC;
SELECT message, detail, hint FROM raises('SELECT adopt_shard(520, function => ''insta520.next_id()'')');
ROLLBACK;
-- A default needs no USAGE on the extension's schema; the owner needs it to create functions that refer to it.
BEGIN;
CREATE SCHEMA hidden_ids;
ALTER EXTENSION instagram_id SET SCHEMA hidden_ids;
ALTER FUNCTION insta520.next_id() OWNER TO regress_id_owner;
ALTER SEQUENCE insta520.table_id_seq OWNER TO regress_id_owner;
GRANT CREATE ON SCHEMA insta520 TO regress_id_owner;
SELECT message, detail, hint FROM raises('SELECT hidden_ids.adopt_shard(520, function => ''insta520.next_id()'')');
GRANT USAGE ON SCHEMA hidden_ids TO regress_id_owner;
SELECT shard FROM hidden_ids.adopt_shard(520, function => 'insta520.next_id()');
SET LOCAL ROLE "regress_id app";
INSERT INTO insta520.photos (title) VALUES ('new') RETURNING id IS NOT NULL AS inserted;
ROLLBACK;
-- The same for a table: the roles with INSERT on it, and on a view of it.
SELECT create_shard(521);
CREATE TABLE insta521.t (id bigserial, n int) PARTITION BY RANGE (n);
CREATE TABLE insta521.part PARTITION OF insta521.t FOR VALUES FROM (0) TO (10);
CREATE VIEW insta521.v AS SELECT * FROM insta521.t;
CREATE VIEW insta521.sum AS SELECT sum(n) FROM insta521.t;
GRANT USAGE ON SCHEMA insta521 TO regress_id_group;
GRANT INSERT ON insta521.t TO regress_id_group;
GRANT INSERT (n) ON insta521.v TO "regress_id app";
GRANT ALL ON insta521.sum TO regress_id_owner;
REVOKE EXECUTE ON FUNCTION insta521.next_id() FROM PUBLIC;
SELECT * FROM raises('SELECT adopt_table(521, ''insta521.t'', ''id'')');
GRANT USAGE ON SCHEMA insta521 TO "regress_id app"; GRANT USAGE ON SEQUENCE insta521.table_id_seq TO "regress_id app", regress_id_group; GRANT EXECUTE ON FUNCTION insta521.next_id() TO "regress_id app", regress_id_group;
BEGIN;
GRANT pg_write_all_data TO regress_id_owner;
SELECT hint FROM raises('SELECT adopt_table(521, ''insta521.t'', ''id'')');
ROLLBACK;
SELECT adopted FROM adopt_table(521, 'insta521.t', 'id');
SET ROLE regress_id_app;
INSERT INTO insta521.t (n) VALUES (1);
SET ROLE "regress_id app";
INSERT INTO insta521.v (n) VALUES (2);
RESET ROLE;
SELECT n, id_shard(id) FROM insta521.t ORDER BY n;

-- A migration that runs again restores the original function.
SELECT shard FROM adopt_shard(520);
SELECT reason FROM id_shards WHERE shard = 520;
SELECT advance_shard(520, make_id(clock_timestamp() + interval '1 s', 520, 0, '2020-01-01')) > 0 AS advanced;
INSERT INTO insta520.photos (title) VALUES ('ours') RETURNING id AS ours \gset
DO $$ BEGIN CALL original('insta520', '520'); PERFORM setval('insta520.table_id_seq', 1, false); END $$;
INSERT INTO insta520.photos (title) VALUES ('theirs') RETURNING id < :ours AS below;
SELECT reason FROM id_shards WHERE shard = 520;
-- The function can be adopted again, above all ids so far, which are in any table. So the clock must not have been reset, also not
-- to the value that it has next, nor to a key.
SELECT state, message, detail, regexp_replace(hint, '\d{9,}', 'N') AS hint FROM raises('SELECT adopt_shard(520)');
SELECT message FROM raises('SELECT adopt_shard(520, dry_run => true)');
BEGIN;
ALTER SEQUENCE insta520.table_id_seq MAXVALUE 1023 CYCLE;
SELECT regexp_replace(hint, '\d{9,}', 'N') AS hint FROM raises('SELECT adopt_shard(520)');
ROLLBACK;
SELECT setval('insta520.table_id_seq', :ours >> 23 << 10, false) = :ours >> 23 << 10 AS is_set;
SELECT message FROM raises('SELECT adopt_shard(520)');
SELECT setval('insta520.table_id_seq', max(id)) = max(id) AS is_set FROM insta520.photos;
SELECT message FROM raises('SELECT adopt_shard(520)');
SELECT setval('insta520.table_id_seq', max(id) >> 23 << 10 | 1023) > 0 AS is_set FROM insta520.photos;
SELECT function, newest_id = :ours AS newest, starts_above > :ours AS above FROM adopt_shard(520);
INSERT INTO insta520.photos (title) VALUES ('ours again') RETURNING id > :ours AS above;
SELECT reason FROM id_shards WHERE shard = 520;
SELECT * FROM raises('SELECT adopt_shard(520)');
SELECT * FROM raises('SELECT adopt_shard(520, function => ''insta520.next_id()'')');
SELECT proname FROM pg_proc WHERE pronamespace = 'insta520'::regnamespace ORDER BY 1;
-- The adoption can be reverted after that, and not before: nothing shows that the migration has put back what was adopted.
CALL original('insta520', '520');
SELECT * FROM raises('SELECT unadopt_shard(520)');
BEGIN;
SELECT function FROM adopt_shard(520, function => 'insta520.next_id()');
SELECT unadopt_shard(520);
SELECT proname FROM pg_proc WHERE pronamespace = 'insta520'::regnamespace ORDER BY 1;
SELECT count(*) FROM id_shards WHERE shard = 520;
SELECT shard FROM adopt_shard(520);
ROLLBACK;
-- Also if the kept original is missing, and if the function was dropped.
BEGIN;
DROP FUNCTION insta520.original_next_id();
SELECT message FROM raises('SELECT unadopt_shard(520)');
SELECT shard FROM adopt_shard(520);
SELECT unadopt_shard(520);
ROLLBACK;
BEGIN;
DROP FUNCTION insta520.next_id() CASCADE;
SELECT reason FROM id_shards WHERE shard = 520;
CALL original('insta520', '520');
SELECT shard FROM adopt_shard(520);
SELECT reason FROM id_shards WHERE shard = 520;
ROLLBACK;
-- It waits until the clock has passed the newest id, unless that is far ahead, or the value does not show it.
CALL original('insta528', '528');
CREATE TABLE insta528.photos (id bigint PRIMARY KEY DEFAULT insta528.next_id());
SELECT shard FROM adopt_shard(528);
SELECT advance_shard(528, make_id(clock_timestamp() + interval '0.5 s', 528, 0, '2020-01-01')) > 0 AS advanced;
INSERT INTO insta528.photos DEFAULT VALUES RETURNING id AS newest \gset
SELECT unadopt_shard(528);
SELECT insta528.next_id() > :newest AS next_is_above;
BEGIN;
SELECT shard FROM adopt_shard(528);
SELECT advance_shard(528, make_id(clock_timestamp() + interval '50 s', 528, 0, '2020-01-01')) > 0 AS advanced;
SELECT state, regexp_replace(message, '\d+ s', 'N s') AS message FROM raises('SELECT unadopt_shard(528)');
ALTER SEQUENCE insta528.table_id_seq RESTART;
SELECT state, message FROM raises('SELECT unadopt_shard(528)');
ROLLBACK;
-- Adopted again after a migration while it is ahead of the clock, it does not go back: its last ids may be in no table.
BEGIN;
SET LOCAL client_min_messages = error;
SELECT shard FROM adopt_shard(528);
SELECT advance_shard(528, make_id(now() + interval '1 hour', 528, 0, '2020-01-01')) AS ahead \gset
CALL original('insta528', '528');
SELECT starts_above > :ahead AS is_above FROM adopt_shard(528);
SELECT insta528.next_id() > :ahead AS goes_on;
-- Also from a time that is too far away for a key.
SELECT setval('insta528.table_id_seq', last_value + (interval_ms << 10)) > 0 AS is_set FROM insta528.table_id_seq, (VALUES (25 * 3600000::bigint)) AS it (interval_ms);
SELECT insta528.next_id() AS ahead \gset
CALL original('insta528', '528');
-- Whatever the increment is since.
ALTER SEQUENCE insta528.table_id_seq INCREMENT 1;
DROP FUNCTION insta528.original_next_id();
SELECT starts_above > :ahead AS is_above FROM adopt_shard(528);
-- At the end of ids there is nothing to continue with.
SELECT setval('insta528.table_id_seq', 1125899906842623) > 0 AS is_set;
CALL original('insta528', '528');
SELECT state, message FROM raises('SELECT adopt_shard(528)');
ROLLBACK;
-- The ids of an earlier adoption may also be those of a trigger, or of a default with the number. Neither depends on the functions
-- of the shard, so the original is not restored as long as they need it.
BEGIN;
SELECT shard FROM adopt_shard(528);
CREATE TABLE insta528.by_number (id bigint PRIMARY KEY DEFAULT next_id(528), note text);
CREATE TABLE insta528.by_trigger (id bigint PRIMARY KEY, note text);
CREATE TRIGGER ids BEFORE INSERT ON insta528.by_trigger FOR EACH ROW EXECUTE FUNCTION next_id_trigger('528', 'id');
SELECT message, detail, hint FROM raises('SELECT unadopt_shard(528)');
-- That of a role that may not set the sequence does not keep it from being restored.
CREATE TABLE insta528.of_other (id bigint DEFAULT next_id(528));
ALTER TABLE insta528.of_other OWNER TO regress_id_app;
ALTER TABLE insta528.by_number ALTER id SET DEFAULT insta528.next_id();
SELECT message, detail, hint FROM raises('SELECT unadopt_shard(528)');
ALTER TABLE insta528.by_trigger ALTER id SET DEFAULT insta528.next_id();
DROP TRIGGER ids ON insta528.by_trigger;
CREATE TABLE insta528.parted (id bigint) PARTITION BY RANGE (id);
CREATE TABLE insta528.part PARTITION OF insta528.parted (id DEFAULT next_id(528)) DEFAULT;
SELECT message FROM raises('SELECT unadopt_shard(528)');
DROP TABLE insta528.parted;
-- A default or a function that names the sequence would go on generating ids by another rule. That of a role that may not use the
-- sequence does not count.
CREATE TABLE albums (id bigint DEFAULT next_id(528, 'insta528.table_id_seq', '2020-01-01'));
SELECT state, message, detail, hint FROM raises('SELECT unadopt_shard(528)');
ALTER TABLE albums OWNER TO regress_id_app;
CREATE FUNCTION album() RETURNS bigint LANGUAGE sql RETURN next_id(528, 'insta528.table_id_seq', '2020-01-01');
SELECT message FROM raises('SELECT unadopt_shard(528)');
ALTER FUNCTION album() OWNER TO regress_id_app;
CREATE FUNCTION of_529() RETURNS bigint LANGUAGE sql RETURN shard_next_id(529, 'insta528.table_id_seq', '2020-01-01');
SELECT message FROM raises('SELECT unadopt_shard(528)');
DROP FUNCTION of_529();
CREATE FUNCTION last() RETURNS bigint BEGIN ATOMIC SELECT last_value FROM insta528.table_id_seq; END;
SELECT unadopt_shard(528);
INSERT INTO insta528.by_trigger VALUES (DEFAULT) RETURNING id_shard(id);
-- The sequence of a serial does not become the clock of a shard.
CREATE SCHEMA insta599;
CREATE TABLE insta599."table" (id bigserial);
SELECT state, message FROM raises('SELECT create_shard(599, if_not_exists => true)');
ALTER SEQUENCE insta599.table_id_seq OWNED BY NONE;
SELECT message FROM raises('SELECT create_shard(599, if_not_exists => true)');
ALTER TABLE insta599."table" ALTER id DROP DEFAULT;
SELECT create_shard(599, if_not_exists => true);
-- A shard that has lost its definition is completed also if defaults name its sequence.
ALTER TABLE insta599."table" ALTER id SET DEFAULT next_id(599, 'insta599.table_id_seq');
DROP FUNCTION insta599.shard_599();
SELECT create_shard(599, if_not_exists => true);
ROLLBACK;
-- Nor does it overlook a view.
BEGIN;
SELECT shard FROM adopt_shard(528);
CREATE TABLE insta528.by_schema (id bigint DEFAULT insta528.next_id());
CREATE VIEW insta528.seen AS SELECT * FROM insta528.by_schema;
ALTER VIEW insta528.seen ALTER id SET DEFAULT next_id(528);
SELECT message FROM raises('SELECT unadopt_shard(528)');
-- A view is neither read nor locked when the shard is adopted again.
CALL original('insta528', '528');
SELECT shard FROM adopt_shard(528);
-- If the adopted function is dropped, its original is not adopted under the name that it is kept by.
DROP FUNCTION insta528.next_id() CASCADE;
SELECT * FROM raises('SELECT adopt_shard(528)');
SELECT state, message FROM raises('SELECT unadopt_shard(528)');
-- Also if another role has created one of that name since.
CREATE FUNCTION insta528.next_id() RETURNS bigint LANGUAGE sql RETURN 1;
ALTER FUNCTION insta528.next_id() OWNER TO regress_id_app;
SELECT state, message FROM raises('SELECT adopt_shard(528)');
SELECT * FROM raises('SELECT unadopt_shard(528)');
DROP FUNCTION insta528.next_id();
ALTER FUNCTION insta528.original_next_id() RENAME TO next_id;
SELECT function FROM adopt_shard(528);
ROLLBACK;
-- The kept original is only for its owner, also if default privileges grant new functions to others.
BEGIN;
ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO "regress_id app";
SELECT shard FROM adopt_shard(528);
SELECT has_function_privilege('regress_id app', 'insta528.original_next_id()', 'EXECUTE') AS may_call_original,
    has_function_privilege('regress_id app', 'insta528.next_id()', 'EXECUTE') AS may_call;
ROLLBACK;
-- A body that is not like the original.
BEGIN;
CREATE OR REPLACE FUNCTION insta520.next_id() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
SELECT reason FROM id_shards WHERE shard = 520;
SELECT state, message, detail FROM raises('SELECT adopt_shard(520, function => ''insta520.next_id()'')');
ROLLBACK;
-- New ids are also above those that the shard's own next_id() has generated beside an adopted function of another name.
BEGIN;
CALL original('insta527', '527', 'photo_id');
SELECT function FROM adopt_shard(527);
SELECT advance_shard(527, make_id(clock_timestamp() + interval '50 s', 527, 0, '2020-01-01')) > 0 AS advanced;
SELECT insta527.next_id() AS ours \gset
CALL original('insta527', '527', 'photo_id');
SELECT reason FROM id_shards WHERE shard = 527;
SELECT function, starts_above > :ours AS above FROM adopt_shard(527);
-- A sequence that was closed for a move stays closed.
DO $$ BEGIN
    CALL original('insta527', '527', 'photo_id');
    EXECUTE (SELECT format('ALTER SEQUENCE insta527.table_id_seq MAXVALUE %s', last_value) FROM insta527.table_id_seq);
END $$;
SELECT state, message, regexp_replace(detail, '\d{12,}', 'N') AS detail FROM raises('SELECT adopt_shard(527)');
DO $$ BEGIN PERFORM setval('insta527.table_id_seq', 1, false); END $$;
SELECT state, message, regexp_replace(detail, '\d{12,}', 'N') AS detail FROM raises('SELECT adopt_shard(527)');
ROLLBACK;
-- So does one that was closed before it was used, or on the first day after its epoch.
BEGIN;
SELECT create_shard(591, epoch => date_trunc('day', now()));
ALTER SEQUENCE insta591.table_id_seq MINVALUE -1 MAXVALUE 0 START 0 RESTART 0;
SELECT setval('insta591.table_id_seq', 0);
SELECT reason FROM id_shards WHERE shard = 591;
CREATE OR REPLACE FUNCTION insta591.next_id() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN ((floor(extract(epoch FROM now()) * 1000)::bigint - insta591.epoch()) << 23) | (591 << 10) | (nextval('insta591.table_id_seq') % 1024);
END $$;
SELECT state, message FROM raises(format('SELECT adopt_shard(591, epoch => %L)', date_trunc('day', now())));
ROLLBACK;
-- Neither does unadopt_shard() open one, nor an adoption after the shard was dropped.
BEGIN;
CALL original('insta527', '527');
SELECT function FROM adopt_shard(527);
DO $$ BEGIN EXECUTE (SELECT format('ALTER SEQUENCE insta527.table_id_seq MAXVALUE %s', last_value) FROM insta527.table_id_seq); END $$;
SELECT state, message FROM raises('SELECT unadopt_shard(527)');
DROP FUNCTION insta527.shard_527(), insta527.original_next_id();
CALL original('insta527', '527');
SELECT state, message FROM raises('SELECT adopt_shard(527)');
SELECT state, message FROM raises('SELECT adopt_shard(527, dry_run => true)');
ROLLBACK;
-- A plain counter may have any MAXVALUE, which a counter that cycles may have reached.
BEGIN;
CALL original('insta527', '527');
ALTER SEQUENCE insta527.table_id_seq MAXVALUE 999999999999 CYCLE;
SELECT setval('insta527.table_id_seq', 999999999999);
SELECT function FROM adopt_shard(527);
ROLLBACK;
-- Ids in a column of a domain over bigint count, and a WARNING names a column of another type.
BEGIN;
CALL original('insta529', '529');
CREATE DOMAIN insta529.big AS bigint;
CREATE DOMAIN insta529.id AS insta529.big CHECK (VALUE > 0);
CREATE TABLE insta529.t (id insta529.id PRIMARY KEY DEFAULT insta529.next_id());
INSERT INTO insta529.t VALUES (make_id(clock_timestamp() + interval '50 s', 529, 0, '2020-01-01')) RETURNING id AS ours \gset
CREATE TABLE insta529.u (id numeric DEFAULT insta529.next_id());
SELECT newest_id = :ours AS newest, starts_above > :ours AS above FROM adopt_shard(529);
DROP TABLE insta529.u;
-- A view of another role on the kept original does not keep a shard from being adopted again.
GRANT USAGE ON SCHEMA insta529 TO regress_id_owner;
SET LOCAL ROLE regress_id_owner;
CREATE TEMP VIEW v AS SELECT insta529.original_next_id();
RESET ROLE;
CALL original('insta529', '529');
SELECT shard FROM adopt_shard(529);
SELECT has_function_privilege('regress_id_owner', 'insta529.original_next_id()', 'EXECUTE');
ROLLBACK;
-- A function that another role creates beside it is not the shard's, and does not block the owner.
BEGIN;
GRANT USAGE, CREATE ON SCHEMA insta520 TO regress_id_owner;
SET LOCAL ROLE regress_id_owner;
CREATE FUNCTION insta520.a() RETURNS bigint LANGUAGE sql RETURN public.shard_next_id(520, 'insta520.table_id_seq', '2020-01-01 00:00+00');
CREATE FUNCTION insta520.original_a() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN ((floor(extract(epoch FROM now()) * 1000)::bigint - 1577836800000) << 23) | (520 << 10) | (nextval('a..b') % 1024);
END $$;
CALL original('insta520', '520', 'original_missing');
RESET ROLE;
SELECT reason FROM id_shards WHERE shard = 520;
DROP FUNCTION insta520.original_missing();
SELECT function, newest_id IS NOT NULL AS newest FROM adopt_shard(520);
SELECT reason FROM id_shards WHERE shard = 520;
SELECT message FROM raises('SELECT unadopt_shard(520)');
DROP FUNCTION insta520.a();
SELECT unadopt_shard(520);
SELECT 'insta520.original_a()'::regprocedure AS still_there;
ROLLBACK;
-- A function of another role with the name of the copy is not replaced.
BEGIN;
GRANT USAGE, CREATE ON SCHEMA insta520 TO regress_id_owner;
CALL original('insta520', '520', 'photo_id', 'insta520.second');
SET LOCAL ROLE regress_id_owner;
CALL original('insta520', '520', 'original_photo_id', 'insta520.second');
RESET ROLE;
SELECT state, message FROM raises('SELECT adopt_shard(520, function => ''insta520.photo_id()'')');
ROLLBACK;
-- A second function that was adopted and now counts from another epoch is left as it is, if its original is not needed.
BEGIN;
CALL original('insta520', '520', 'second_id', 'insta520.second');
SELECT function FROM adopt_shard(520, function => 'insta520.next_id()');
SELECT function FROM adopt_shard(520, function => 'insta520.second_id()');
CREATE OR REPLACE FUNCTION insta520.second_id() RETURNS bigint LANGUAGE sql RETURN public.shard_next_id(520, 'insta520.second', '2021-01-01 00:00+00');
SELECT message FROM raises('SELECT unadopt_shard(520)');
DROP FUNCTION insta520.original_second_id();
SELECT unadopt_shard(520);
SELECT pg_get_functiondef('insta520.second_id()'::regprocedure) ~ '2021-01-01' AS left_as_it_is;
ROLLBACK;
-- The original of another shard or epoch, or on another sequence.
BEGIN;
CALL original('insta520', '520', epoch => '1577836800001');
SELECT * FROM raises('SELECT adopt_shard(520)');
CALL original('insta520', '520', sequence => 'insta520.second');
SELECT state, message, detail FROM raises('SELECT adopt_shard(520)');
ROLLBACK;
-- Missing functions.
DROP FUNCTION insta521.id_time(bigint), insta521.epoch();
SELECT reason FROM id_shards WHERE shard = 521;
SELECT create_shard(521, if_not_exists => true);
SELECT reason FROM id_shards WHERE shard = 521;
SET ROLE regress_id_app;
SELECT shard, reason FROM id_shards WHERE shard IN (520, 521) ORDER BY shard;
RESET ROLE;

-- A schema that is a shard already cannot be adopted.
SELECT * FROM raises('SELECT adopt_shard(521)');
CALL original('insta522', '521');
SELECT * FROM raises('SELECT adopt_shard(521, ''insta522'')');
ALTER SEQUENCE insta522.table_id_seq AS bigint INCREMENT 1 NO MAXVALUE NO CYCLE;
SELECT id_shard(next_id(521, 'insta522.table_id_seq', '2020-01-01 00:00:00+00')), id_time(next_id(521, 'insta522.table_id_seq', '2020-01-01 00:00:00+00'), '2020-01-01') - clock_timestamp() < '1 s' AS now;
-- Functions that cannot be adopted, without naming one.
CREATE SCHEMA insta523;
CREATE SEQUENCE insta523.table_id_seq;
CREATE FUNCTION insta523.helper() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
CREATE FUNCTION insta523.next_id() RETURNS bigint LANGUAGE sql AS $$
    SELECT (((extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1577836800000) << 23) | (523 << 10) | (nextval('insta523.table_id_seq') % 1024) LIMIT 1 $$;
SELECT * FROM raises('SELECT adopt_shard(523)');
CREATE FUNCTION insta523.wide() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN ((floor(extract(epoch FROM now()) * 1000)::bigint - 1577836800000) << 22) | (7 << 12) | (nextval('other') % 4096);
END $$;
SELECT message, detail FROM raises('SELECT adopt_shard(523)');
DROP SCHEMA insta523 CASCADE;
CREATE SCHEMA insta523;
CREATE SEQUENCE insta523.table_id_seq;
CREATE FUNCTION insta523.next_id() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN ((floor(extract(epoch FROM now()) * 1000)::bigint - 1577836800000) << 23) | (523 << 10)
        | MOD(1024 + MOD(nextval('insta523.table_id_seq'), 1024), 1024);
END $$;
SELECT shard FROM adopt_shard(523, dry_run => true);

-- Two functions on one sequence.
CALL original('insta524', '524'); CALL original('insta524', '524', 'other_id');
SELECT * FROM raises('SELECT adopt_shard(524, function => ''insta524.next_id()'')');
DROP FUNCTION insta524.other_id();
SET check_function_bodies = off;
CREATE FUNCTION insta524.by_name(n int) RETURNS bigint LANGUAGE sql AS 'SELECT nextval(''"table_id_seq"'') + n';
SELECT message, detail FROM raises('SELECT adopt_shard(524)');
DROP FUNCTION insta524.by_name(int);
-- A procedure, which DROP FUNCTION would not drop.
CREATE PROCEDURE insta524.in_procedure(INOUT x bigint) LANGUAGE plpgsql AS $$ BEGIN x := nextval('insta524.table_id_seq'); END $$;
SELECT message, hint FROM raises('SELECT adopt_shard(524)');
DROP ROUTINE insta524.in_procedure(bigint);
CREATE FUNCTION public.parsed() RETURNS bigint LANGUAGE sql RETURN nextval('insta524.table_id_seq');
SELECT message, detail FROM raises('SELECT adopt_shard(524)');
DROP FUNCTION public.parsed();
-- Also with a name that other schemas have as well, and in a text that is run.
CREATE SCHEMA insta529 CREATE SEQUENCE table_id_seq;
CREATE FUNCTION public.bare() RETURNS bigint LANGUAGE sql SET search_path = insta524, pg_catalog AS 'SELECT nextval(/* clock */ ''table_id_seq'')';
SELECT message, detail FROM raises('SELECT adopt_shard(524)');
DROP FUNCTION public.bare();
CREATE FUNCTION public.dynamic() RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'SELECT nextval(''insta524.table_id_seq'')'; END $$;
SELECT message, detail FROM raises('SELECT adopt_shard(524)');
DROP FUNCTION public.dynamic();
-- A sequence of this name in the schema of the function need not be the one that it uses.
CREATE FUNCTION insta529.next_id() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    s regclass := 'table_id_seq';
BEGIN
    RETURN nextval(s);
END $$;
SELECT message, detail FROM raises('SELECT adopt_shard(524)');
DROP FUNCTION insta529.next_id();
DO $$ BEGIN
    EXECUTE format('CREATE FUNCTION public.long() RETURNS bigint LANGUAGE sql AS %L', 'SELECT nextval(''insta524.table_id_seq'') --' || repeat('x', 50000));
END $$;
SELECT message, detail FROM raises('SELECT adopt_shard(524)');
DROP FUNCTION public.long();
-- Functions of roles that cannot use the sequence do not count, nor functions that only read it or use another sequence of
-- this name.
CREATE SCHEMA regress_id_owner AUTHORIZATION regress_id_owner;
SET ROLE regress_id_owner;
CREATE FUNCTION regress_id_owner.useless() RETURNS bigint LANGUAGE sql AS 'SELECT nextval(''insta524.table_id_seq'') + nextval(''a..b'')';
RESET ROLE;
CREATE FUNCTION insta529.other_id() RETURNS bigint LANGUAGE sql AS 'SELECT nextval(''insta529.table_id_seq'')';
CREATE FUNCTION insta524.looks() RETURNS bigint LANGUAGE sql RETURN (SELECT last_value FROM insta524.table_id_seq);
CREATE FUNCTION insta524.elsewhere() RETURNS bigint LANGUAGE sql AS 'SELECT nextval(''table_id_seq2'')';
RESET check_function_bodies;
SELECT shard FROM adopt_shard(524);

-- Several functions of one shard, each with its own sequence, adopted one after the other.
DO $$ BEGIN
    CALL original('insta525', '525', 'photos_next_id', 'insta525.photos_id_seq');
    CALL original('insta525', '525', 'likes_next_id', 'insta525.likes_id_seq');
END $$;
CREATE TABLE insta525.photos (id bigint PRIMARY KEY DEFAULT insta525.photos_next_id(), n int);
CREATE TABLE insta525.likes (id bigint PRIMARY KEY DEFAULT insta525.likes_next_id(), n int);
INSERT INTO insta525.photos (n) SELECT generate_series(1, 3);
INSERT INTO insta525.likes (n) SELECT generate_series(1, 5);
SELECT * FROM raises('SELECT adopt_shard(525)');
SELECT function, sequence FROM adopt_shard(525, function => 'insta525.photos_next_id()');
SELECT function, sequence, newest_id = (SELECT max(id) FROM insta525.likes) AS newest, starts_above > newest_id AS above FROM adopt_shard(525);
INSERT INTO insta525.likes (n) VALUES (6) RETURNING id_shard(id), id > (SELECT max(id) FROM insta525.likes) AS above, id_seq(id);
SELECT * FROM raises('SELECT adopt_shard(525)');
SELECT shard, sequence, reason FROM id_shards WHERE shard = 525;
-- The original of one of them is restored.
CALL original('insta525', '525', 'likes_next_id', 'insta525.likes_id_seq');
SELECT reason FROM id_shards WHERE shard = 525;
SELECT function FROM adopt_shard(525);
SELECT reason FROM id_shards WHERE shard = 525;
-- It gets another epoch.
BEGIN;
CREATE OR REPLACE FUNCTION insta525.likes_next_id() RETURNS bigint LANGUAGE sql RETURN shard_next_id(525, 'insta525.likes_id_seq', '2021-01-01 00:00+00');
SELECT reason FROM id_shards WHERE shard = 525;
ROLLBACK;
DROP FUNCTION insta525.likes_next_id() CASCADE;
SELECT reason FROM id_shards WHERE shard = 525;
CALL original('insta525', '525', 'likes_next_id', 'insta525.likes_id_seq');
SELECT function FROM adopt_shard(525);
SELECT unadopt_shard(525);
SELECT p.oid::regprocedure, lanname FROM pg_proc AS p JOIN pg_language AS l ON l.oid = prolang WHERE pronamespace = 'insta525'::regnamespace ORDER BY proname;
-- The function called next_id must be adopted first, since the shard needs that name.
CALL original('insta525', '525');
SELECT * FROM raises('SELECT adopt_shard(525, function => ''insta525.photos_next_id()'')');
SELECT function FROM adopt_shard(525, function => 'insta525.next_id()');
SELECT function FROM adopt_shard(525, function => 'insta525.photos_next_id()');
SELECT function FROM adopt_shard(525);
SELECT unadopt_shard(525);
SELECT count(*) FROM pg_proc WHERE pronamespace = 'insta525'::regnamespace;
-- A shard that create_shard() has created before stays, with its epoch: no original was on its sequence.
SELECT create_shard(530, epoch => '2020-01-01 00:00+00');
SELECT next_id(530) > 0 AS generated;
CALL original('insta530', '530', 'photo_id', 'insta530.photo_seq');
SELECT function, sequence FROM adopt_shard(530, function => 'insta530.photo_id()');
SELECT unadopt_shard(530);
SELECT p.oid::regprocedure, lanname FROM pg_proc AS p JOIN pg_language AS l ON l.oid = prolang WHERE pronamespace = 'insta530'::regnamespace ORDER BY proname;
-- Also if the original names its sequence without a schema.
DO $$ BEGIN EXECUTE replace(pg_get_functiondef('insta530.photo_id()'::regprocedure), 'insta530.photo_seq', 'photo_seq'); END $$;
SELECT function, sequence FROM adopt_shard(530, function => 'insta530.photo_id()');
SELECT unadopt_shard(530);
SELECT count(*) FROM pg_proc WHERE pronamespace = 'insta530'::regnamespace AND proname IN ('next_id', 'epoch', 'shard_530');
SELECT next_id(530) > 0 AS generated, reason FROM id_shards WHERE shard = 530;
SELECT * FROM raises('SELECT unadopt_shard(530)');
-- Without epoch(), create_shard() does not guess the epoch of a sequence that has generated ids.
DROP FUNCTION insta530.shard_530(), insta530.epoch(), insta530.next_id(), insta530.id_time(bigint);
SELECT * FROM raises('SELECT create_shard(530, if_not_exists => true)');
SELECT create_shard(530, if_not_exists => true, epoch => '2020-01-01 00:00+00');
SELECT id_time(next_id(530), insta530.epoch()) - clock_timestamp() < '1 s' AS now;

-- The sequence of a serial no longer belongs to its column, so TRUNCATE and DROP of this table leave the clock alone.
CREATE SCHEMA insta531 CREATE TABLE photos (id bigserial PRIMARY KEY, n int);
CALL original('insta531', '531', sequence => 'insta531.photos_id_seq');
ALTER TABLE insta531.photos ALTER id SET DEFAULT insta531.next_id();
SELECT sequence FROM adopt_shard(531);
INSERT INTO insta531.photos (n) VALUES (1) RETURNING id AS ours \gset
TRUNCATE insta531.photos RESTART IDENTITY;
SELECT insta531.next_id() > :ours AS above;
DROP TABLE insta531.photos;
SELECT insta531.next_id() > :ours AS above;

-- An original is not restored if the sequence that it names has another name now, or another schema.
CALL original('insta532', '532');
SELECT sequence FROM adopt_shard(532);
ALTER SCHEMA insta532 RENAME TO insta533;
SELECT * FROM raises('SELECT unadopt_shard(532)');
SELECT reason, insta533.next_id() > 0 AS generated FROM id_shards WHERE shard = 532;
ALTER SCHEMA insta533 RENAME TO insta532;
ALTER SEQUENCE insta532.table_id_seq RENAME TO "Clock";
SELECT state, detail FROM raises('SELECT unadopt_shard(532)');
DO $$ BEGIN EXECUTE replace(pg_get_functiondef('insta532.original_next_id()'::regprocedure), 'table_id_seq', '"Clock"'); END $$;
SELECT unadopt_shard(532);
SELECT insta532.next_id() > 0 AS generated;
-- Without the adopted function, nothing is restored.
CALL original('insta535', '535');
SELECT count(*) FROM adopt_shard(535);
ALTER FUNCTION insta535.next_id() RENAME TO new_id;
SELECT state, message FROM raises('SELECT unadopt_shard(535)');
ALTER FUNCTION insta535.new_id() RENAME TO next_id;
SELECT unadopt_shard(535);
DROP SCHEMA insta535 CASCADE;

-- Values that only the caller gives are compared with the newest id.
CALL original('insta526', 'current_setting(''app.shard'')::int', epoch => 'current_setting(''app.epoch'')::bigint');
CREATE TABLE insta526.photos (id bigint PRIMARY KEY DEFAULT insta526.next_id());
SET app.shard = 526;
SET app.epoch = '1577836800000';
INSERT INTO insta526.photos VALUES (7);
SELECT shard FROM adopt_shard(527, 'insta526', epoch => '2019-01-01', dry_run => true); -- no id to compare with
INSERT INTO insta526.photos DEFAULT VALUES;
SELECT state, regexp_replace(message, '\d{12,}', 'N') AS message, detail, hint FROM raises('SELECT adopt_shard(527, ''insta526'', epoch => ''2020-01-01'')');
SELECT state, regexp_replace(message, '\d{12,}', 'N') AS message, regexp_replace(detail, '20\d\d-.*,', '(time),') AS detail, hint
FROM raises('SELECT adopt_shard(526, epoch => ''2019-01-01'')');
SELECT state FROM raises('SELECT adopt_shard(526, epoch => ''2020-01-01 01:00'', dry_run => true)');
SELECT state FROM raises('SELECT adopt_shard(526, epoch => ''2019-12-31 23:00'', dry_run => true)');
SELECT state FROM raises('SELECT adopt_shard(526, epoch => ''2021-01-01'', dry_run => true)');
SELECT shard, epoch FROM adopt_shard(526, epoch => '2020-01-01', dry_run => true);
-- Values in the body are not: a table may have ids of other shards, and ids that are years old.
DELETE FROM insta526.photos;
INSERT INTO insta526.photos VALUES (make_id('2022-01-01', 9, 0, '2020-01-01'));
SELECT state FROM raises('SELECT adopt_shard(526, epoch => ''2020-01-01'', dry_run => true)');
CALL original('insta526', '526');
SELECT shard, epoch FROM adopt_shard(526);
-- Any role can create the schema with the name of the shard.
SELECT create_shard(534, 'own534');
CREATE SCHEMA insta534;
SELECT state, message FROM raises('SELECT adopt_shard(534)');
-- What it puts there decides nothing, and neither does an original that it puts into the schema of a shard.
CALL original('insta534', '534', 'photo_id');
CALL original('own534', '534', 'photo_id', 'own534.seq');
ALTER FUNCTION insta534.photo_id() OWNER TO regress_id_app;
ALTER FUNCTION own534.photo_id() OWNER TO regress_id_app;
SELECT * FROM raises('SELECT adopt_shard(534)');
SELECT * FROM raises('SELECT adopt_shard(534, ''insta534'')');
-- A temporary function.
CREATE FUNCTION pg_temp.next_id() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN ((floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1577836800000) << 23)
        | (527 << 10) | (nextval('insta526.table_id_seq') % 1024);
END $$;
SELECT state, regexp_replace(message, 'pg_temp_\d+', 'pg_temp') AS message, detail, hint FROM raises('SELECT adopt_shard(527, function => ''pg_temp.next_id()'', dry_run => true)');

-- Names like those of kept originals are no mark: such a function counts as another user, and is not dropped.
CALL original('insta592', '592');
CALL original('insta592', '592', 'original_gen', 'insta592.table_id_seq');
CREATE FUNCTION insta592.gen() RETURNS bigint LANGUAGE sql AS 'SELECT insta592.original_gen()';
SELECT message FROM raises('SELECT adopt_shard(592, function => ''insta592.next_id()'')');
SELECT create_shard(593);
CALL original('insta593', '593', 'original_code', 'insta593.own_seq');
CREATE FUNCTION insta593.code() RETURNS bigint LANGUAGE sql AS 'SELECT insta593.original_code()';
SELECT message FROM raises('SELECT unadopt_shard(593)');
SELECT count(*) FROM pg_proc WHERE proname = 'original_code';
-- Nor are those of two originals: neither is replaced, nor dropped.
DROP FUNCTION insta593.code(), insta593.original_code();
DO $$ BEGIN
    CALL original('insta593', '593', 'photo_id', 'insta593.photo_seq', '1314220021721');
    CALL original('insta593', '593', 'original_photo_id', 'insta593.likes_seq', '1314220021721');
END $$;
SELECT * FROM raises('SELECT adopt_shard(593, function => ''insta593.photo_id()'')');
SELECT message FROM raises('SELECT unadopt_shard(593)');
-- Of another shard they say nothing about this one.
DO $$ BEGIN
    CALL original('insta593', '7', 'photo_id', 'insta593.photo_seq');
    CALL original('insta593', '7', 'original_photo_id', 'insta593.likes_seq');
END $$;
SELECT message FROM raises('SELECT unadopt_shard(593)');
SELECT can_generate, reason FROM id_shards WHERE shard = 593;
SELECT message FROM raises('SELECT adopt_shard(7, function => ''insta593.photo_id()'')');
-- Also if the sequence that they name is closed to nextval(). Nor is a function of another role or another shard replaced then.
ALTER SEQUENCE insta593.likes_seq INCREMENT 9223372036854775807;
SELECT message FROM raises('SELECT unadopt_shard(593)');
ALTER FUNCTION insta593.original_photo_id() OWNER TO regress_id_app;
SELECT message FROM raises('SELECT adopt_shard(7, function => ''insta593.photo_id()'')');
ALTER FUNCTION insta593.original_photo_id() OWNER TO CURRENT_USER;
CALL original('insta593', '593', 'original_photo_id', 'insta593.likes_seq');
SELECT message FROM raises('SELECT adopt_shard(7, function => ''insta593.photo_id()'')');
DROP FUNCTION insta593.photo_id(), insta593.original_photo_id();

-- All columns of a table count that two functions of the shard fill.
CREATE SCHEMA insta594 AUTHORIZATION regress_id_owner;
SET ROLE regress_id_owner;
DO $$ BEGIN
    CALL original('insta594', '594', 'one_id', 'insta594.one_seq');
    CALL original('insta594', '594', 'two_id', 'insta594.two_seq');
END $$;
SELECT function FROM adopt_shard(594, function => 'insta594.one_id()');
SELECT function FROM adopt_shard(594);
GRANT USAGE ON SCHEMA insta594 TO regress_id_app;
RESET ROLE;
CREATE SCHEMA of_app AUTHORIZATION regress_id_app;
GRANT USAGE ON SCHEMA of_app TO regress_id_owner;
SET ROLE regress_id_app;
SELECT format('CREATE TABLE of_app.wide (%s)', string_agg(format('c%s bigint DEFAULT insta594.%s_id()', n, CASE WHEN n < 6 THEN 'one' ELSE 'two' END), ', '))
FROM generate_series(1, 9) AS n \gexec
CREATE TABLE of_app.other (id bigint DEFAULT insta594.one_id());
GRANT UPDATE ON of_app.wide, of_app.other TO regress_id_owner;
SET ROLE regress_id_owner;
SELECT * FROM raises('SELECT unadopt_shard(594)');
RESET ROLE;

-- Whatever the options of the sequence were, it is closed to nextval() after the first value, and generates ids.
CREATE SCHEMA insta595 CREATE SEQUENCE low_seq MINVALUE 0 MAXVALUE 1023 CYCLE CREATE SEQUENCE high_seq MINVALUE 1000000000000000;
DO $$ BEGIN
    CALL original('insta595', '595', 'low_id', 'insta595.low_seq');
    CALL original('insta595', '595', 'high_id', 'insta595.high_seq');
END $$;
SELECT function FROM adopt_shard(595, function => 'insta595.low_id()');
SELECT function FROM adopt_shard(595);
SELECT id_shard(insta595.low_id()), id_shard(insta595.high_id());
SELECT sequencename, min_value, max_value, start_value, increment_by, cycle FROM pg_sequences WHERE schemaname = 'insta595';
ALTER SEQUENCE insta595.low_seq RESTART;
SELECT nextval('insta595.low_seq');
SELECT r.* FROM (VALUES (1), (2)) AS v(n), raises('SELECT nextval(''insta595.low_seq''), ' || n) AS r;
SELECT reason FROM id_shards WHERE shard = 595;
-- Opened by hand, as for another increment.
ALTER SEQUENCE insta595.low_seq INCREMENT 1;
SELECT reason FROM id_shards WHERE shard = 595;
-- The originals continue with the sequence field of the last id. The sequence keeps its value, which a later adoption follows.
SELECT advance_shard(595, make_id(clock_timestamp() + '1 s', 595, 1022, '2020-01-01')) > 0 AS advanced;
SELECT id_seq(insta595.low_id());
SELECT unadopt_shard(595);
SELECT id_seq(insta595.low_id()), id_seq(insta595.low_id());
SELECT sequencename, last_value > 1::bigint << 47 AS keeps_its_value, increment_by FROM pg_sequences WHERE schemaname = 'insta595' AND sequencename = 'low_seq';

-- A migration has restored the original with another name of its sequence.
SELECT create_shard(596, epoch => '2020-01-01 00:00:00+00');
CALL original('insta596', '596', 'photo_id', 'insta596.photos_seq');
SELECT function FROM adopt_shard(596, function => 'insta596.photo_id()');
ALTER SEQUENCE insta596.photos_seq RENAME TO images_seq;
SELECT * FROM raises('SELECT unadopt_shard(596)');
CALL original('insta596', '596', 'photo_id', 'insta596.images_seq');
SELECT message FROM raises('SELECT unadopt_shard(596)');
SELECT * FROM raises('SELECT adopt_shard(596, function => ''insta596.photo_id()'')');
DROP FUNCTION insta596.original_photo_id();
SELECT function FROM adopt_shard(596, function => 'insta596.photo_id()');
SELECT unadopt_shard(596);
SELECT sequencename, increment_by FROM pg_sequences WHERE schemaname = 'insta596' ORDER BY 1;
SELECT id_shard(insta596.photo_id()), id_shard(next_id(596));
-- A role without UPDATE on the sequence, whose value it could not read.
SELECT function FROM adopt_shard(596, function => 'insta596.photo_id()');
ALTER SCHEMA insta596 OWNER TO regress_id_owner;
DO $$ DECLARE routine regprocedure; BEGIN
    FOR routine IN SELECT oid FROM pg_proc WHERE pronamespace = 'insta596'::regnamespace LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO regress_id_owner', routine);
    END LOOP;
END $$;
ALTER SEQUENCE insta596.table_id_seq OWNER TO regress_id_owner;
ALTER SEQUENCE insta596.images_seq OWNER TO regress_id_owner;
REVOKE ALL ON SEQUENCE insta596.images_seq FROM regress_id_owner;
SET ROLE regress_id_owner;
SELECT * FROM raises('SELECT unadopt_shard(596)');
RESET ROLE;

-- A migration has put an original on another sequence in its place, such as that of another shard, which stays closed.
DO $$ BEGIN CALL original('insta598', '598'); CALL original('insta599', '599'); END $$;
SELECT function FROM adopt_shard(598);
SELECT function FROM adopt_shard(599);
CALL original('insta598', '598', 'next_id', 'insta599.table_id_seq');
SELECT message FROM raises('SELECT unadopt_shard(598)');
SELECT message FROM raises('SELECT adopt_shard(598)');
-- The name can contain the database, or be computed.
SELECT format('%I.insta598.table_id_seq', current_database()) AS in_database \gset
CALL original('insta598', '598', 'next_id', :'in_database');
SELECT * FROM raises('SELECT adopt_shard(598)');
SELECT function FROM adopt_shard(598, sequence => 'insta598.table_id_seq');
SELECT unadopt_shard(598);
CALL original('insta599', '599', 'photo_id', 'insta599.photos_seq');
SELECT replace(pg_get_functiondef('insta599.photo_id()'::regprocedure), $$'insta599.photos_seq'$$, $$lower('insta599.PHOTOS_seq')$$) AS computed \gset
:computed;
SELECT function FROM adopt_shard(599, function => 'insta599.photo_id()', sequence => 'insta599.photos_seq');
:computed;
SELECT message FROM raises('SELECT unadopt_shard(599)');
SELECT function FROM adopt_shard(599, function => 'insta599.photo_id()', sequence => 'insta599.photos_seq');
SELECT unadopt_shard(599);
SELECT schemaname, sequencename, increment_by FROM pg_sequences WHERE schemaname IN ('insta598', 'insta599') ORDER BY 1, 2;
SELECT id_shard(insta598.next_id()), id_shard(insta599.photo_id()), id_shard(insta599.next_id());
-- A name without a schema is not that of any sequence: neither is another one opened, nor is the shard dropped.
CREATE SCHEMA elsewhere CREATE SEQUENCE photos_seq;
SELECT create_shard(590);
CREATE SEQUENCE insta590.photos_seq;
DO $$ BEGIN
    CALL original('insta590', '590', 'photos_id', 'elsewhere.photos_seq', '1314220021721');
    EXECUTE replace(pg_get_functiondef('insta590.photos_id()'::regprocedure), 'elsewhere.', '');
END $$;
SELECT pg_get_functiondef('insta590.photos_id()'::regprocedure) AS original \gset
SELECT function FROM adopt_shard(590, function => 'insta590.photos_id()', sequence => 'elsewhere.photos_seq');
:original;
SELECT message FROM raises('SELECT unadopt_shard(590)');
SELECT function FROM adopt_shard(590, function => 'insta590.photos_id()', sequence => 'elsewhere.photos_seq');
SELECT unadopt_shard(590);
SELECT increment_by FROM pg_sequences WHERE schemaname = 'elsewhere';
SELECT next_id(590) > 0 AS generated, reason FROM id_shards WHERE shard = 590;
DROP SCHEMA elsewhere, insta590 CASCADE;

-- unadopt_shard() does not lock a table that its caller may not lock, and leaves a function that its caller may not drop.
CREATE SCHEMA insta597 AUTHORIZATION regress_id_owner;
SET ROLE regress_id_owner;
CALL original('insta597', '597');
SELECT sequence FROM adopt_shard(597);
CREATE TABLE insta597.photos (id bigint DEFAULT insta597.next_id());
RESET ROLE;
ALTER TABLE insta597.photos OWNER TO regress_id_app;
ALTER FUNCTION insta597.id_time(bigint) OWNER TO CURRENT_USER;
SET ROLE regress_id_owner;
SELECT * FROM raises('SELECT unadopt_shard(597)');
RESET ROLE;
DROP TABLE insta597.photos;
SET ROLE regress_id_owner;
SELECT unadopt_shard(597);
RESET ROLE;
SELECT to_regprocedure('insta597.id_time(bigint)') AS left_there, to_regprocedure('insta597.epoch()') AS dropped;

-- A kept original is not adopted itself. Two functions on one sequence, of which a migration replaces both, continue above the ids
-- of both. A default that generates ids may be on a clock.
CREATE SCHEMA insta536 CREATE SEQUENCE table_id_seq CREATE SEQUENCE other_seq;
CALL original('insta536', '536', epoch => '1314220021721');
SELECT sequence FROM adopt_shard(536);
SELECT message, detail FROM raises($$SELECT adopt_shard(536, function => 'insta536.original_next_id()')$$);
CALL original('insta536', '536', 'photo_id', 'insta536.table_id_seq', '1314220021721');
SELECT sequence FROM adopt_shard(536, function => 'insta536.photo_id()');
CREATE TABLE insta536.parted (id bigint DEFAULT next_id(536, 'insta536.table_id_seq')) PARTITION BY RANGE (id);
CREATE TABLE insta536.part PARTITION OF insta536.parted DEFAULT;
SET client_min_messages = error;
SELECT advance_shard(536, make_id(clock_timestamp() + '50 s', 536, 0)) AS ahead \gset
DO $$ BEGIN
    CALL original('insta536', '536', epoch => '1314220021721');
    CALL original('insta536', '536', 'photo_id', 'insta536.table_id_seq', '1314220021721');
END $$;
SELECT starts_above > :ahead AS is_greater FROM adopt_shard(536, function => 'insta536.next_id()');
SELECT starts_above > :ahead AS is_greater FROM adopt_shard(536, function => 'insta536.photo_id()');
-- The clock of a shard is not adopted after a reset, whatever its increment is, but after the statement in the hint.
CALL original('insta536', '536', epoch => '1314220021721');
ALTER SEQUENCE insta536.table_id_seq RESTART;
SELECT hint FROM raises('SELECT adopt_shard(536)') \gset
SELECT substring(:'hint' FROM 'SELECT [^.]*\.[^.]*') AS statement \gset
:statement \gset
SELECT sequence FROM adopt_shard(536);
BEGIN;
CALL original('insta536', '536', epoch => '1314220021721');
DROP FUNCTION insta536.original_next_id(), insta536.original_photo_id();
DROP TABLE insta536.parted;
ALTER SEQUENCE insta536.table_id_seq INCREMENT 1 RESTART;
SELECT message FROM raises('SELECT adopt_shard(536)');
ROLLBACK;
SET client_min_messages = warning;
-- The kept original is the only record of another closed sequence, so it is not replaced then, nor adopted.
CALL original('insta536', '536', 'photo_id', 'insta536.other_seq', '1314220021721');
SELECT message, detail, hint FROM raises($$SELECT adopt_shard(536, function => 'insta536.photo_id()')$$);
SELECT message FROM raises($$SELECT adopt_shard(536, function => 'insta536.original_photo_id()')$$);
-- Nor may two shards have one clock, also if it is not the one of the definition.
CREATE SCHEMA insta537;
CREATE SEQUENCE insta536.third_seq;
CALL original('insta536', '536', 'other_id', 'insta536.third_seq', '1314220021721');
SELECT sequence FROM adopt_shard(536, function => 'insta536.other_id()');
CALL original('insta537', '537', sequence => 'insta536.third_seq');
SELECT message, detail FROM raises('SELECT adopt_shard(537)');
CALL original('insta536', '536', 'other_id', 'insta536.third_seq', '1314220021721');
SELECT message, detail FROM raises('SELECT adopt_shard(537)');
DROP FUNCTION insta537.next_id();
SELECT sequence FROM adopt_shard(536, function => 'insta536.other_id()');

-- A sequence that counts down and was never used is not closed.
CREATE SCHEMA insta535 CREATE SEQUENCE table_id_seq INCREMENT -1;
CALL original('insta535', '535');
SELECT sequence FROM adopt_shard(535);
SELECT id_shard(insta535.next_id());

\set VERBOSITY terse
DROP SCHEMA insta592, insta593, insta594, insta595, insta596, insta597, insta598, insta599, of_app, insta520, insta521, insta522, insta523, insta524, insta525, insta526, insta528, insta529, insta530, insta531, insta532, insta534, insta535, insta536, insta537, own534, regress_id_owner CASCADE;
DROP ROLE regress_id_app, "regress_id app", regress_id_group, regress_id_owner;

-- Adopting schemas and tables that generate ids already, and reverting that.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
CREATE ROLE regress_id_app;
CREATE ROLE regress_id_owner;
CREATE ROLE regress_id_other;

-- A schema like the published design. Its owner, who is no superuser, adopts it.
CREATE SCHEMA insta500 AUTHORIZATION regress_id_owner;
GRANT USAGE ON SCHEMA insta500 TO regress_id_app;
SET ROLE regress_id_owner;
CREATE SEQUENCE insta500.table_id_seq;
CREATE FUNCTION insta500.next_id(OUT result bigint) AS $$
DECLARE
    our_epoch bigint := 1314220021721;
    seq_id bigint;
    now_millis bigint;
    shard_id int := 500;
BEGIN
    SELECT nextval('insta500.table_id_seq') % 1024 INTO seq_id;
    SELECT FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) INTO now_millis;
    result := (now_millis - our_epoch) << 23;
    result := result | (shard_id << 10);
    result := result | (seq_id);
END;
$$ LANGUAGE plpgsql;
COMMENT ON FUNCTION insta500.next_id() IS 'our ids';
REVOKE EXECUTE ON FUNCTION insta500.next_id() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION insta500.next_id() TO regress_id_app;
GRANT USAGE ON SEQUENCE insta500.table_id_seq TO regress_id_app;
CREATE TABLE insta500.photos (id bigint PRIMARY KEY DEFAULT insta500.next_id(), title text);
CREATE TABLE insta500.likes (id bigint PRIMARY KEY DEFAULT insta500.next_id(), photo bigint);
GRANT INSERT, SELECT ON insta500.photos TO regress_id_app;
INSERT INTO insta500.photos (title) SELECT 'old' FROM generate_series(1, 1500);
INSERT INTO insta500.likes (photo) SELECT id FROM insta500.photos LIMIT 10;
CREATE VIEW pg_temp.state AS
    SELECT oid, proowner::regrole, proacl, obj_description(oid, 'pg_proc'), pg_get_function_arguments(oid), l.lanname
    FROM pg_proc AS p JOIN LATERAL (SELECT lanname FROM pg_language WHERE oid = p.prolang) AS l ON true WHERE proname = 'next_id' AND pronamespace = 'insta500'::regnamespace;
CREATE TEMP TABLE before AS SELECT * FROM pg_temp.state;
\set ECHO all

-- Before adoption it is not a shard, and the error says so.
SELECT * FROM raises('SELECT next_id(500)');
SELECT * FROM raises('SELECT create_shard(500, if_not_exists => true)');
-- Nor under another name.
BEGIN;
ALTER FUNCTION insta500.next_id() RENAME TO generate_id;
SELECT * FROM raises('SELECT create_shard(500, if_not_exists => true)');
ROLLBACK;
-- A dry run returns everything and changes nothing.
SELECT max(id) AS newest FROM (SELECT id FROM insta500.photos UNION ALL SELECT id FROM insta500.likes) AS all_ids \gset
SELECT last_value AS counter FROM insta500.table_id_seq \gset
SELECT shard, schema, function, sequence, epoch, newest_id = :newest AS newest, starts_above > newest_id AS above FROM adopt_shard(500, dry_run => true);
SELECT regexp_replace(script, '\d+/\d+', '(here)') AS script FROM adopt_shard(500, dry_run => true);
SELECT * FROM state EXCEPT SELECT * FROM before;
SELECT last_value = :counter AS untouched FROM insta500.table_id_seq;
SELECT count(*) FROM pg_proc WHERE pronamespace = 'insta500'::regnamespace;
-- The arguments may be omitted or given, but must agree with the function.
SELECT shard FROM adopt_shard(NULL, 'insta500', dry_run => true);
SELECT shard FROM adopt_shard(500, NULL, 'insta500.next_id()', 'insta500.table_id_seq', '2011-08-24 21:07:01.721+00', true);
SELECT * FROM raises('SELECT adopt_shard(501, ''insta500'')');
SELECT * FROM raises('SELECT adopt_shard(500, epoch => ''2011-01-01 00:00+00'')');
SELECT * FROM raises('SELECT adopt_shard(500, sequence => ''insta500.photos'')');
SELECT * FROM raises('SELECT adopt_shard(NULL)');
SELECT * FROM raises('SELECT adopt_shard(502)');
SELECT * FROM raises('SELECT adopt_shard(500, dry_run => NULL)');
-- Other roles cannot adopt it.
RESET ROLE;
SET ROLE regress_id_other;
SELECT * FROM raises('SELECT adopt_shard(500)');
RESET ROLE;
-- A rollback restores everything, including the sequence.
SET ROLE regress_id_owner;
BEGIN;
SELECT starts_above IS NOT NULL AS adopted FROM adopt_shard(500);
INSERT INTO insta500.photos (title) VALUES ('gone');
ROLLBACK;
SELECT * FROM state EXCEPT SELECT * FROM before;
SELECT last_value = :counter AS untouched FROM insta500.table_id_seq;

-- Adoption keeps the function's OID, owner, grants and comment. New ids are above all old ones, and the counter continues.
SELECT shard, schema, function, sequence, epoch, newest_id = :newest AS newest, starts_above > newest_id AS above FROM adopt_shard(500);
SELECT oid, proowner, proacl, obj_description, pg_get_function_arguments FROM state EXCEPT SELECT oid, proowner, proacl, obj_description, pg_get_function_arguments FROM before;
SELECT lanname FROM state;
\sf insta500.next_id()
INSERT INTO insta500.photos (title) VALUES ('new') RETURNING id > :newest AS above, id_shard(id), id_seq(id) - :counter % 1024 AS counted;
SELECT oid::regprocedure AS function, proowner::regrole, proacl FROM pg_proc WHERE pronamespace = 'insta500'::regnamespace ORDER BY proname COLLATE "C";
SELECT shard, schema, can_generate, ahead BETWEEN '0' AND '1 s' AS ahead FROM id_shards WHERE shard = 500;
SELECT id_shard(next_id(500)), insta500.id_time(next_id(500)) - clock_timestamp() < interval '1 s' AS time;
SET ROLE regress_id_app;
INSERT INTO insta500.photos (title) VALUES ('by the application') RETURNING id_shard(id);
SELECT * FROM raises('SELECT insta500.original_next_id()');
RESET ROLE;
SET ROLE regress_id_owner;
SELECT * FROM raises('SELECT adopt_shard(500)');
SELECT count(*) - count(DISTINCT id) AS duplicates FROM insta500.photos;

-- Revert it, and adopt again.
SELECT max(id) AS newest FROM insta500.photos \gset
SELECT unadopt_shard(500);
SELECT * FROM state EXCEPT SELECT * FROM before;
INSERT INTO insta500.photos (title) VALUES ('old again') RETURNING id > :newest AS above, id_shard(id);
SELECT count(*) FROM pg_proc WHERE pronamespace = 'insta500'::regnamespace;
SELECT * FROM raises('SELECT unadopt_shard(500)');
SELECT starts_above IS NOT NULL AS adopted FROM adopt_shard(500);
INSERT INTO insta500.photos (title) VALUES ('new again') RETURNING id > :newest AS above;
-- Reverting fails if an object depends on what adoption created, if the shard is ahead of the clock, and if it was not
-- adopted.
CREATE VIEW insta500.dated AS SELECT insta500.id_time(id) FROM insta500.photos;
SELECT * FROM raises('SELECT unadopt_shard(500)');
SELECT lanname FROM state;
DROP VIEW insta500.dated;
SET client_min_messages = error;
SELECT id_shard(advance_shard(500, make_id(now() + interval '1 hour 30 seconds', 500, 0)));
RESET client_min_messages;
SELECT message, state, detail, hint FROM raises('SELECT unadopt_shard(500)');
RESET ROLE;
SELECT create_shard(503);
SELECT * FROM raises('SELECT unadopt_shard(503)');

-- Variants: RETURNS bigint, %%, another name, other constants, a schema and a sequence that need quotes.
CREATE SCHEMA "Shard ""7""";
CREATE SEQUENCE "Shard ""7"""."Global Ids" AS integer MAXVALUE 100000 CACHE 5;
CREATE FUNCTION "Shard ""7"""."Id Generator"() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_temp COST 7 AS $$
DECLARE
    result bigint;
    start_epoch constant bigint := 1577836800000;
BEGIN
    RETURN ((floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - start_epoch) << 23)
        | (504 << 10)
        | (nextval('"Shard ""7"""."Global Ids"'::regclass) & 1023);
END $$;
CREATE TABLE "Shard ""7"""."T" (id bigint PRIMARY KEY DEFAULT "Shard ""7"""."Id Generator"(), n int);
INSERT INTO "Shard ""7"""."T" (n) SELECT * FROM generate_series(1, 50);
SELECT max(id) AS newest FROM "Shard ""7"""."T" \gset
SELECT shard, function, sequence, epoch, newest_id = :newest AS newest, starts_above > newest_id AS above FROM adopt_shard(504, 'Shard "7"');
INSERT INTO "Shard ""7"""."T" (n) VALUES (0) RETURNING id > :newest AS above;
SELECT id_shard("Shard ""7""".next_id()), "Shard ""7""".id_time("Shard ""7"""."Id Generator"()) - now() < interval '2 s' AS time;
SELECT prosecdef FROM pg_proc WHERE oid = '"Shard ""7"""."Id Generator"()'::regprocedure;
SELECT seqtypid::regtype, seqmax, seqcache FROM pg_sequence WHERE seqrelid = '"Shard ""7"""."Global Ids"'::regclass;
SELECT unadopt_shard(504);
\sf "Shard ""7"""."Id Generator"()
INSERT INTO "Shard ""7"""."T" (n) VALUES (0) RETURNING id > :newest AS above;
SELECT count(*) FROM pg_proc WHERE pronamespace = '"Shard ""7"""'::regnamespace;
-- Values that the body does not contain literally must be given as arguments.
CREATE FUNCTION "Shard ""7""".vague() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    our_epoch bigint := (SELECT setting::bigint FROM pg_settings WHERE name = 'app.epoch');
    shard_id int := current_setting('app.shard')::int;
    now_millis bigint;
BEGIN
    now_millis := floor(extract(epoch FROM now()) * 1000);
    RETURN ((now_millis - our_epoch) << 23) | (shard_id << 10) | nextval(current_schema() || '.table_id_seq') %% 1024;
END $$;
SELECT * FROM raises($$SELECT adopt_shard(NULL, function => '"Shard ""7""".vague()')$$);
SELECT * FROM raises($$SELECT adopt_shard(505, function => '"Shard ""7""".vague()')$$);
SELECT * FROM raises($$SELECT adopt_shard(505, function => '"Shard ""7""".vague()', sequence => '"Shard ""7"""."Global Ids"')$$);
SELECT state, message, detail FROM raises($$SELECT adopt_shard(505, function => '"Shard ""7""".vague()', sequence => '"Shard ""7"""."Global Ids"', epoch => '2050-01-01 00:00+00')$$);
SELECT * FROM raises($$SELECT adopt_shard(505, NULL, '"Shard ""7""".vague()', '"Shard ""7"""."Global Ids"', '2020-01-01 00:00+00', true)$$);
CREATE SEQUENCE "Shard ""7""".free;
SELECT shard, function, sequence, epoch, starts_above FROM adopt_shard(505, NULL, '"Shard ""7""".vague()', '"Shard ""7""".free', '2020-01-01 00:00+00', true);
SELECT * FROM raises($$SELECT adopt_shard(504, 'Shard "7"')$$);
-- An unqualified sequence name is accepted only if exactly one sequence has that name.
CREATE FUNCTION "Shard ""7""".unqualified() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE id bigint;
BEGIN
    id := (floor(extract(epoch FROM now()) * 1000)::bigint - 1577836800000) << 23;
    id := id | (506 << 10) | (nextval('only_one') % 1024);
    RETURN id;
END $$;
SELECT * FROM raises($$SELECT adopt_shard(506, function => '"Shard ""7""".unqualified()', dry_run => true)$$);
CREATE SEQUENCE only_one;
SELECT sequence FROM adopt_shard(506, function => '"Shard ""7""".unqualified()', dry_run => true);
CREATE SEQUENCE "Shard ""7""".only_one;
SELECT * FROM raises($$SELECT adopt_shard(506, function => '"Shard ""7""".unqualified()', dry_run => true)$$);

-- Functions that are not like the published one.
CREATE SCHEMA insta507;
SELECT * FROM raises('SELECT adopt_shard(507)');
CREATE FUNCTION insta507.plain() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
SELECT * FROM raises('SELECT adopt_shard(507, function => ''insta507.plain()'')');
SELECT * FROM raises('SELECT adopt_shard(507, function => 1::regprocedure)');
-- Names that adoption needs are in use: the error leaves nothing half done.
CALL original('insta508', '508');
CREATE FUNCTION insta508.id_time(id bigint) RETURNS timestamptz LANGUAGE sql RETURN now();
SELECT * FROM raises('SELECT adopt_shard(508)');
SELECT lanname FROM pg_proc JOIN pg_language AS l ON l.oid = prolang WHERE pg_proc.oid = 'insta508.next_id()'::regprocedure;
DROP FUNCTION insta508.id_time(bigint);
-- A key far ahead of the clock is refused, as all later ids would start there; one slightly ahead is accepted.
CREATE TABLE insta508.t (id bigint PRIMARY KEY DEFAULT insta508.next_id());
INSERT INTO insta508.t VALUES (make_id('2045-01-01 00:00+00', 508, 0, '2020-01-01 00:00+00'));
SELECT * FROM raises('SELECT adopt_shard(508)');
UPDATE insta508.t SET id = make_id(now() + interval '5 s', 508, 1000, '2020-01-01 00:00+00') RETURNING id AS ahead \gset
SELECT starts_above IS NOT NULL AS adopted FROM adopt_shard(508);
INSERT INTO insta508.t DEFAULT VALUES RETURNING id > :ahead AS above;
-- Negative keys, a partitioned table, and a column that does not hold ids.
CALL original('insta511', '511');
CREATE TABLE insta511.negative (id bigint PRIMARY KEY DEFAULT insta511.next_id());
INSERT INTO insta511.negative VALUES (-1);
CREATE TABLE insta511.texts (id text DEFAULT insta511.next_id());
INSERT INTO insta511.texts VALUES ('not an id');
SELECT newest_id FROM adopt_shard(511, dry_run => true);
BEGIN;
SELECT newest_id, id_time(starts_above, '2020-01-01 00:00+00') BETWEEN clock_timestamp() - interval '2 s' AND clock_timestamp() + interval '1 s' AS near FROM adopt_shard(511);
ROLLBACK;
CREATE TABLE insta511.parts (id bigint DEFAULT insta511.next_id(), day date) PARTITION BY RANGE (id);
CREATE TABLE insta511.part (id bigint, day date);
ALTER TABLE insta511.parts ATTACH PARTITION insta511.part DEFAULT;
INSERT INTO insta511.parts VALUES (make_id(now() + interval '5 s', 511, 1000, '2020-01-01 00:00+00')) RETURNING id AS ahead \gset
-- A shard that exists already in another schema is an error.
SELECT create_shard(511, 'elsewhere');
SELECT * FROM raises('SELECT adopt_shard(511)');
SET client_min_messages = warning;
DROP SCHEMA elsewhere CASCADE;
RESET client_min_messages;
-- A key slightly ahead of the clock in a partition counts.
SELECT newest_id = :ahead AS newest, starts_above > :ahead AS above FROM adopt_shard(511);
INSERT INTO insta511.parts DEFAULT VALUES RETURNING id > :ahead AS above;
-- If row-level security hides rows from the table's owner, adoption is refused.
CREATE SCHEMA insta512;
CREATE SEQUENCE insta512.table_id_seq;
CREATE DOMAIN insta512.big AS bigint;
CREATE FUNCTION insta512.next_id() RETURNS bigint LANGUAGE plpgsql SET search_path = insta512 AS $$
DECLARE
    unused big;
    id bigint;
BEGIN
    id := ((floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1577836800000) << 23) | (512 << 10) | (nextval('insta512.table_id_seq') % 1024);
    RETURN id;
END $$;
ALTER FUNCTION insta512.next_id() RESET search_path;
CREATE TABLE insta512.hidden (id bigint PRIMARY KEY DEFAULT insta512.next_id());
ALTER SCHEMA insta512 OWNER TO regress_id_owner;
ALTER TABLE insta512.hidden OWNER TO regress_id_owner;
ALTER TABLE insta512.hidden ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
-- Row-level security hides no key from an adoption.
BEGIN;
INSERT INTO insta512.hidden VALUES (7);
SELECT newest_id FROM adopt_shard(512, 'insta512');
ROLLBACK;
-- Code that the owner attached to a table does not run.
CREATE TABLE insta512.noted (run_by text, refused text);
GRANT ALL ON insta512.noted TO PUBLIC;
CREATE FUNCTION insta512.note(text, text) RETURNS void LANGUAGE plpgsql AS 'BEGIN INSERT INTO insta512.noted VALUES ($1, $2); END';
CREATE FUNCTION insta512.trap() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM set_config('role', 'none', false);
    RETURN true;
EXCEPTION WHEN OTHERS THEN
    PERFORM insta512.note(current_user, SQLERRM);
    RETURN true;
END $$;
CREATE INDEX ON insta512.hidden (id) WHERE insta512.trap();
DELETE FROM insta512.noted;
-- The body of the function is moved without a check, as its names may be valid only with its own settings.
BEGIN;
SELECT starts_above IS NOT NULL AS adopted FROM adopt_shard(512, 'insta512');
SELECT DISTINCT * FROM insta512.noted;
-- unadopt_shard() ignores other functions with names like a replaced function and its original.
CREATE FUNCTION insta512.bystander() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
CREATE FUNCTION insta512.original_bystander() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 2; END';
SELECT unadopt_shard(512), insta512.bystander();
ROLLBACK;
-- When a superuser adopts, no code of the owner runs as the superuser, and the owner owns the new functions.
CREATE SCHEMA insta509 AUTHORIZATION regress_id_owner;
SET ROLE regress_id_owner;
CREATE SEQUENCE insta509.table_id_seq;
CREATE FUNCTION insta509.next_id() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    RETURN ((floor(extract(epoch FROM now()) * 1000)::bigint - 1577836800000) << 23) | (509 << 10) | (nextval('insta509.table_id_seq') % 1024);
END $$;
CREATE VIEW insta509.v AS SELECT id, current_user AS reader FROM insta500.photos;
ALTER VIEW insta509.v ALTER id SET DEFAULT insta509.next_id();
RESET ROLE;
SELECT newest_id, starts_above IS NOT NULL AS adopted FROM adopt_shard(509, 'insta509');
SELECT DISTINCT proowner::regrole FROM pg_proc WHERE pronamespace = 'insta509'::regnamespace;
-- Other roles cannot run unadopt_shard() on it.
SET ROLE regress_id_other;
SELECT * FROM raises('SELECT unadopt_shard(509)');
RESET ROLE;

-- A serial and an identity column: new keys are above all old ones, which stay unchanged.
SELECT create_shard(510);
CREATE TABLE serials (id bigserial PRIMARY KEY, n int);
CREATE TABLE identities (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int);
CREATE TABLE "Small Ones" (id serial PRIMARY KEY, "N" bigint DEFAULT 7, name text);
INSERT INTO serials (n) SELECT * FROM generate_series(1, 5);
INSERT INTO identities (n) SELECT * FROM generate_series(1, 5);
SELECT * FROM adopt_table(510, 'serials', dry_run => true);
INSERT INTO serials (n) VALUES (6) RETURNING id;
SELECT * FROM adopt_table(510, 'serials');
SELECT * FROM adopt_table(510, 'identities', 'id');
INSERT INTO serials (n) VALUES (7) RETURNING id_shard(id);
INSERT INTO identities (n) VALUES (7) RETURNING id_shard(id);
-- Read as ids, old keys have a time at the start of the epoch, which distinguishes them.
SELECT n, id_time(id) > '2011-09-01 00:00+00' AS is_id FROM serials ORDER BY id;
SELECT id < id_floor('2011-09-01 00:00+00') AS is_old, count(*) FROM identities GROUP BY 1 ORDER BY 1;
-- The way back, as returned by adopt_table().
ALTER TABLE public.serials ALTER id SET DEFAULT nextval('public.serials_id_seq'::regclass);
CREATE TABLE by_default (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY);
SELECT way_back FROM adopt_table(510, 'by_default', dry_run => true);
-- Negative keys.
CREATE TABLE negatives (id bigserial PRIMARY KEY);
INSERT INTO negatives VALUES (-1);
SELECT newest_key FROM adopt_table(510, 'negatives');
INSERT INTO negatives DEFAULT VALUES RETURNING id_shard(id), id_time(id) - clock_timestamp() < interval '2 s' AS near;
-- Keys that are ids of another generator already; the clock might still be set back behind them.
CREATE TABLE recent (id bigserial PRIMARY KEY);
INSERT INTO recent VALUES (make_id(now() - interval '1 hour', 8191, 1023)) RETURNING id AS recent_id \gset
SELECT create_shard(513);
SELECT newest_key = :recent_id AS newest FROM adopt_table(513, 'recent');
SELECT last_id > :recent_id AS above FROM id_shards WHERE shard = 513;
INSERT INTO serials VALUES (make_id(now() + interval '3 s', 8191, 1023)) RETURNING id AS foreign_id \gset
SELECT newest_key = :foreign_id AS newest FROM adopt_table(510, 'serials');
INSERT INTO serials (n) VALUES (9) RETURNING id > :foreign_id AS above, id_shard(id);
SELECT * FROM raises('SELECT adopt_table(510, ''serials'')');
SELECT * FROM raises('SELECT adopt_table(510, ''"Small Ones"'')');
SELECT * FROM raises('SELECT adopt_table(510, ''"Small Ones"'', ''N'')');
SELECT * FROM raises('SELECT adopt_table(510, ''"Small Ones"'', ''name'')');
SELECT * FROM raises('SELECT adopt_table(510, ''"Small Ones"'', ''none'')');
SELECT * FROM raises('SELECT adopt_table(510, ''insta509.v'', ''id'')');
SELECT * FROM raises('SELECT adopt_table(599, ''serials'')');
CREATE TABLE pairs (id bigserial, n int, PRIMARY KEY (id, n));
SELECT * FROM raises('SELECT adopt_table(510, ''pairs'')');
ALTER TABLE pairs ALTER id SET DEFAULT nextval('pairs_id_seq') + 1;
SELECT * FROM raises('SELECT adopt_table(510, ''pairs'', ''id'')');
ALTER TABLE pairs ALTER id SET DEFAULT nextval('pairs_id_seq'::text);
SELECT * FROM raises('SELECT adopt_table(510, ''pairs'', ''id'')');
ALTER TABLE pairs ALTER id DROP DEFAULT;
SELECT * FROM raises('SELECT adopt_table(510, ''pairs'', ''id'')');
SELECT * FROM raises('SELECT adopt_table(510, NULL)');
SELECT * FROM raises('SELECT adopt_table(NULL, ''serials'')');
SELECT * FROM raises('SELECT adopt_table(510, 1::regclass)');
ALTER TABLE serials ALTER id SET DEFAULT nextval('serials_id_seq');
INSERT INTO serials VALUES (9000000000000000000);
SELECT * FROM raises('SELECT adopt_table(510, ''serials'')');
SET ROLE regress_id_other;
SELECT * FROM raises('SELECT adopt_table(510, ''serials'')');
SELECT * FROM raises('SELECT adopt_table(510, ''serials'', dry_run => true)');
RESET ROLE;

\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA insta500, insta503, insta507, insta508, insta509, insta510, insta511, insta512, insta513, "Shard ""7""" CASCADE;
DROP TABLE serials, identities, "Small Ones", by_default, negatives, recent, pairs;
DROP SEQUENCE only_one;
DROP OWNED BY regress_id_owner;
DROP ROLE regress_id_app, regress_id_owner, regress_id_other;

-- Shards with a schema and an epoch of their own, and everything that must agree on them.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
SET instagram_id.shard = 300;
-- Whether the ids of each function have this shard and the time, as each other function decodes them.
CREATE FUNCTION agree(shard int, schema regnamespace) RETURNS TABLE (way text, right_shard bool, right_time bool) LANGUAGE plpgsql AS $$
DECLARE
    made text;
    id bigint;
    since timestamptz;
    read timestamptz;
BEGIN
    EXECUTE format('SELECT epoch FROM %s.shard_%s()', schema, shard) INTO since;
    FOREACH made IN ARRAY ARRAY[format('%s.next_id()', schema), format('next_id(%s)', shard), format('next_ids(%s, 1)', shard)] LOOP
        EXECUTE format('SELECT %s', made) INTO id;
        EXECUTE format('SELECT %s.id_time($1)', schema) INTO read USING id;
        way := regexp_replace(made, '^.*\.', '');
        right_shard := id_shard(id) = shard;
        right_time := read BETWEEN clock_timestamp() - interval '1 minute' AND clock_timestamp() + interval '1 second'
            AND read = id_time(id, since) AND id >= id_floor(read, since)
            AND id_between(id, read, read + interval '1 ms', since) AND id = make_id(read, shard, id_seq(id), since);
        RETURN NEXT;
    END LOOP;
    way := 'epoch()';
    EXECUTE format('SELECT %s.epoch() = $1', schema) INTO right_time USING since;
    RETURN NEXT;
    way := 'shards';
    SELECT s.epoch = since AND s.last_id = id AND s.last_time = read INTO right_time FROM id_shards AS s WHERE s.shard = agree.shard;
    RETURN NEXT;
END $$;
\set ECHO all

SELECT create_shard(300, epoch => '2020-01-01 00:00:00.123456+00');
SELECT create_shard(301, schema => 'photos of "Anna"; it''s', epoch => '2026-01-01 00:00+00');
SELECT create_shard(302, 'Upper_' || repeat('x', 57));
SELECT create_shard(303, schema => 'ünïcode');

-- All functions that generate ids of a shard agree with all functions that decode them.
SELECT s.shard, a.way, a.right_shard, a.right_time
FROM id_shards AS s, agree(s.shard, quote_ident(s.schema)::regnamespace) WITH ORDINALITY AS a (way, right_shard, right_time, step)
WHERE s.shard BETWEEN 300 AND 303 ORDER BY s.shard, a.step;
SELECT id_shard(next_id()), insta300.id_time(next_id()) BETWEEN now() - interval '1 minute' AND now() + interval '1 minute';

-- TimeZone and DateStyle do not affect the functions that are created.
SET TimeZone = 'Asia/Kathmandu';
SET DateStyle = 'German, DMY';
SELECT create_shard(304, epoch => '2020-02-03 04:05:06.789+00');
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
SELECT sequence, epoch FROM insta304.shard_304();
SELECT * FROM agree(304, 'insta304') AS a;

-- Both forms of the default, and an index scan with the shard's own epoch.
CREATE TABLE insta300.t (id bigint PRIMARY KEY DEFAULT insta300.next_id(), other bigint DEFAULT next_id(300));
INSERT INTO insta300.t SELECT FROM generate_series(1, 1000);
SELECT count(*) FROM insta300.t WHERE abs(extract(epoch FROM insta300.id_time(id) - insta300.id_time(other))) < 1;
EXPLAIN (COSTS OFF) SELECT * FROM insta300.t WHERE id_between(id, '2026-01-01 00:00+00', '2026-02-01 00:00+00', insta300.epoch());
EXPLAIN (VERBOSE, COSTS OFF) SELECT insta300.id_time(id) FROM insta300.t;

-- A renamed schema is the same shard.
ALTER SCHEMA insta300 RENAME TO renamed;
SELECT schema FROM id_shards WHERE shard = 300;
SELECT * FROM agree(300, 'renamed');
ALTER SCHEMA renamed RENAME TO insta300;
SELECT * FROM agree(300, 'insta300');
-- So is a renamed sequence.
ALTER SEQUENCE insta300.table_id_seq RENAME TO "it's ""another""";
SELECT * FROM agree(300, 'insta300');
SELECT sequence FROM id_shards WHERE shard = 300;

-- The shard or schema exists: an error that names it, or with if_not_exists no error if it is as requested.
SELECT * FROM raises('SELECT create_shard(300)');
SELECT * FROM raises('SELECT create_shard(300, ''elsewhere'')');
SELECT * FROM raises('SELECT create_shard(305, ''insta300'')');
SELECT * FROM raises('SELECT create_shard(305, ''photos of "Anna"; it''''s'')');
SELECT * FROM raises('SELECT create_shard(305, ''insta300'', if_not_exists => true)');
SELECT * FROM raises('SELECT create_shard(300, ''elsewhere'', if_not_exists => true)');
SELECT * FROM raises('SELECT create_shard(300, epoch => ''2021-01-01'', if_not_exists => true)');
SELECT create_shard(300, if_not_exists => true);
SELECT create_shard(300, 'insta300', '2020-01-01 00:00:00.123456+00', true);
SELECT * FROM raises('SELECT create_shard(305, ''pg_mine'')');
SELECT * FROM raises('SELECT create_shard(305, '''')');
SELECT * FROM raises('SELECT create_shard(305, repeat(''ü'', 32))');
SELECT * FROM raises('SELECT create_shard(305, if_not_exists => NULL)');
-- An epoch in the place of the schema. The statement in the hint creates the shard.
SELECT * FROM raises('SELECT create_shard(305, ''2020-01-01 00:00+00'')');
SELECT * FROM raises('SELECT create_shard(305, ''2020-01-01'')');
SELECT regexp_replace(hint, '^.* use (.*)\.$', '\1') AS statement FROM raises('SELECT create_shard(305, ''2020-01-01T00:00:00Z'')') \gset
BEGIN;
:statement;
SELECT insta305.epoch() = '2020-01-01 00:00+00';
ROLLBACK;
-- Names that only look like times, and the name of a schema that exists.
BEGIN;
SELECT create_shard(305, '2020-01-01-backup'), create_shard(306, '2020-99-01');
CREATE SCHEMA "2020-01-01";
SELECT create_shard(307, '2020-01-01', if_not_exists => true);
ROLLBACK;
-- Epochs with which no ids can be generated now; the hint says which ones can be used.
SELECT state, regexp_replace(message, '\d{4}-\S* \S*', '(time)') AS message, detail, regexp_replace(hint, '\d{4}-.* to \d{4}-.*', '(then) to (now).') FROM raises('SELECT create_shard(305, epoch => now() + interval ''1 second'')');
SELECT state, message, regexp_replace(hint, '\d{4}-.* to \d{4}-.*', '(then) to (now).') FROM raises('SELECT create_shard(305, epoch => ''1992-01-01 00:00+00'')');
SELECT * FROM raises('SELECT create_shard(305, epoch => ''infinity'')');
DO $$
DECLARE
    e record := raises('SELECT create_shard(305, epoch => ''1970-01-01 00:00+00'')');
    ends text[] := regexp_match(e.hint, 'from (.*) to (.*)\.$');
BEGIN
    PERFORM create_shard(305, epoch => ends[1]::timestamptz + interval '1 minute');
    PERFORM create_shard(306, epoch => ends[2]::timestamptz);
    RAISE NOTICE 'the earliest and the latest work: % %', next_id(305) > 9200000000000000000, next_id(306) BETWEEN 0 AND 60000::bigint << 23;
END $$;
SELECT to_regnamespace('elsewhere');
-- Missing functions of a defined shard are created again according to its definition.
DROP FUNCTION insta304.epoch(), insta304.next_id();
SELECT create_shard(304, if_not_exists => true);
SELECT way, right_shard, right_time FROM agree(304, 'insta304');
CREATE OR REPLACE FUNCTION insta304.epoch() RETURNS timestamptz LANGUAGE sql RETURN '2024-01-01 00:00+00'::timestamptz;
SELECT * FROM raises('SELECT create_shard(304, if_not_exists => true)');
-- Existing functions are kept if they agree with the shard, and are an error if they do not.
CREATE SCHEMA insta307 CREATE TABLE photos (id bigint);
CREATE FUNCTION insta307.epoch() RETURNS timestamptz LANGUAGE sql RETURN '2024-01-01 00:00+00'::timestamptz;
SELECT * FROM raises('SELECT create_shard(307, if_not_exists => true, epoch => ''2025-01-01 00:00+00'')');
SELECT create_shard(307, if_not_exists => true);
SELECT sequence, epoch FROM insta307.shard_307();
DROP FUNCTION insta307.next_id();
CREATE FUNCTION insta307.next_id() RETURNS bigint LANGUAGE sql RETURN 1;
SELECT state FROM raises('SELECT create_shard(307, if_not_exists => true)');
CREATE OR REPLACE FUNCTION insta307.next_id() RETURNS bigint LANGUAGE sql RETURN shard_next_id(308, 'insta307.table_id_seq', '2024-01-01 00:00+00');
SELECT state FROM raises('SELECT create_shard(307, if_not_exists => true)');
CREATE OR REPLACE FUNCTION insta307.next_id() RETURNS bigint LANGUAGE sql RETURN shard_next_id(307, 'insta300."it''s ""another"""', '2024-01-01 00:00+00');
SELECT state FROM raises('SELECT create_shard(307, if_not_exists => true)');
CREATE OR REPLACE FUNCTION insta307.next_id() RETURNS bigint LANGUAGE sql RETURN shard_next_id(307, 'insta307.table_id_seq', '2024-01-02 00:00+00');
SELECT state FROM raises('SELECT create_shard(307, if_not_exists => true)');
-- Another function of that name, and a function of another name.
CREATE FUNCTION insta307.shard_next_id(int, regclass, timestamptz) RETURNS bigint LANGUAGE sql RETURN 1;
CREATE OR REPLACE FUNCTION insta307.next_id() RETURNS bigint LANGUAGE sql RETURN insta307.shard_next_id(307, 'insta307.table_id_seq', '2024-01-01 00:00+00');
SELECT state FROM raises('SELECT create_shard(307, if_not_exists => true)');
CREATE FUNCTION other_next_id(int, regclass, timestamptz) RETURNS bigint LANGUAGE sql RETURN 1;
CREATE OR REPLACE FUNCTION insta307.next_id() RETURNS bigint LANGUAGE sql RETURN other_next_id(307, 'insta307.table_id_seq', '2024-01-01 00:00+00');
SELECT state FROM raises('SELECT create_shard(307, if_not_exists => true)');
DROP FUNCTION insta307.next_id(), insta307.shard_next_id, other_next_id;
CREATE FUNCTION insta307.next_id() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
SELECT state FROM raises('SELECT create_shard(307, if_not_exists => true)');
DROP FUNCTION insta307.next_id(), insta307.id_time(bigint);
CREATE FUNCTION insta307.id_time(bigint) RETURNS timestamptz LANGUAGE sql RETURN id_time($1);
SELECT * FROM raises('SELECT create_shard(307, if_not_exists => true)');
-- Nothing is half done: the error has rolled back the creation of next_id().
SELECT to_regprocedure('insta307.next_id()');
CREATE OR REPLACE FUNCTION insta307.id_time(bigint) RETURNS timestamptz LANGUAGE sql RETURN shard_id_time($1, '2024-01-02 00:00+00');
SELECT state FROM raises('SELECT create_shard(307, if_not_exists => true)');
DROP FUNCTION insta307.id_time(bigint);
ALTER FUNCTION insta307.epoch() RENAME TO its_epoch;
CREATE FUNCTION insta307.epoch() RETURNS timestamptz LANGUAGE sql RETURN now();
SELECT * FROM raises('SELECT create_shard(307, if_not_exists => true)');
DROP FUNCTION insta307.epoch();
SELECT * FROM raises('SELECT create_shard(307, epoch => ''2025-01-01'', if_not_exists => true)');
ALTER FUNCTION insta307.its_epoch() RENAME TO epoch;
ALTER FUNCTION insta307.shard_307() RENAME TO its_definition;
CREATE FUNCTION insta307.shard_307() RETURNS int LANGUAGE sql RETURN 307;
SELECT * FROM raises('SELECT create_shard(307, if_not_exists => true)');
DROP FUNCTION insta307.shard_307();
ALTER FUNCTION insta307.its_definition() RENAME TO shard_307;
SELECT create_shard(307, if_not_exists => true);
SELECT way, right_shard, right_time FROM agree(307, 'insta307');
-- A sequence that cannot be used to generate ids is an error at once.
CREATE SCHEMA insta308 CREATE SEQUENCE table_id_seq AS int CYCLE;
SELECT * FROM raises('SELECT create_shard(308, if_not_exists => true)');
ALTER SEQUENCE insta308.table_id_seq AS bigint NO MAXVALUE NO CYCLE;
-- An existing sequence stays locked to the end of the transaction; one that no other session can see yet is not locked.
BEGIN;
SELECT create_shard(308, if_not_exists => true), create_shard(309);
SELECT locktype, mode FROM pg_locks WHERE pid = pg_backend_pid()
    AND (relation IN ('insta308.table_id_seq'::regclass, 'insta309.table_id_seq'::regclass) OR objid = 'insta309'::regnamespace);
ROLLBACK;
SELECT create_shard(308, if_not_exists => true);

-- Two definitions of the same rank are an error; functions that only resemble a definition are ignored.
CREATE SCHEMA decoy;
CREATE SEQUENCE decoy.seq;
CALL define('decoy', 301, 'decoy.seq');
SELECT * FROM raises('SELECT next_id(301)');
DROP FUNCTION decoy.shard_301();
-- Other languages, other columns, other names, values that are not constants, temporary functions.
DO $do$
DECLARE
    columns text := 'OUT sequence regclass, OUT epoch timestamptz, OUT home text';
    body text := $$SELECT 'decoy.seq'::regclass, '2020-01-01 00:00+00'::timestamptz, ''::text$$;
    decoy text[];
BEGIN
    FOREACH decoy SLICE 1 IN ARRAY ARRAY[
        ['310', columns, $$LANGUAGE plpgsql AS 'BEGIN RAISE ''never run''; END'$$],
        ['311', columns, format('LANGUAGE sql AS %L', body)],
        ['312', 'OUT sequence regclass', $$RETURN 'decoy.seq'::regclass$$],
        ['313', columns, replace(body, $$'2020-01-01 00:00+00'::timestamptz$$, 'now()')],
        ['0314', columns, body],
        ['8192', columns, body],
        ['339', columns, 'RETURNS SETOF record BEGIN ATOMIC ' || body || '; END'],
        ['315', 'n int, ' || columns, body],
        ['316', columns, replace(body, $$'decoy.seq'$$, 'NULL')],
        ['317', columns, replace(body, '2020-01-01 00:00+00', 'infinity')],
        ['331', columns, replace(body, '2020-01-01 00:00+00', '294276-12-31 23:59:59.999999+00')],
        ['332', columns, body || ' FROM pg_class'],
        ['333', columns, body || ' WHERE false'],
        ['334', columns, replace(body, $$'decoy.seq'$$, '1')],
        ['321', columns, body || '; ' || body],
        ['322', replace(columns, 'home text', 'home int'), replace(body, $$''::text$$, '1')],
        ['323', columns || ', OUT more text', body || $$, ''::text$$],
        ['324', replace(columns, 'regclass', 'oid'), replace(body, $$'decoy.seq'::regclass$$, $$'1259'::oid$$)],
        ['325', replace(columns, 'timestamptz', 'timestamp'), replace(body, '+00''::timestamptz', '''::timestamp')]]
    LOOP
        EXECUTE format('CREATE FUNCTION decoy.shard_%s(%s) %s', decoy[1], decoy[2],
            CASE WHEN decoy[3] LIKE 'SELECT%' THEN format('LANGUAGE sql BEGIN ATOMIC %s; END', decoy[3]) ELSE decoy[3] END);
    END LOOP;
END $do$;
CREATE FUNCTION decoy.shard_318() RETURNS void LANGUAGE sql BEGIN ATOMIC END;
CREATE FUNCTION decoy.shard_320() RETURNS void LANGUAGE sql BEGIN ATOMIC SELECT 1; SELECT 2; END;
CALL define('pg_temp', 319, 'decoy.seq');
SELECT shard FROM id_shards WHERE shard >= 310 OR schema = 'decoy' ORDER BY shard;
SELECT state FROM generate_series(310, 334) AS n, raises(format('SELECT next_id(%s)', n)) GROUP BY state;
-- A definition that names another relation than a sequence does not count. A temporary sequence has no last id in the view.
CREATE TABLE decoy.no_sequence ();
CALL define('decoy', 326, 'decoy.no_sequence');
CREATE TEMPORARY SEQUENCE mine;
SET client_min_messages = warning; -- PostgreSQL 19 says that the function is as good as temporary
CALL define('decoy', 327, 'mine');
RESET client_min_messages;
SELECT id_shard(next_id(327)) AS shard;
SELECT shard, last_id FROM id_shards WHERE schema = 'decoy' ORDER BY shard;
SELECT state FROM raises('SELECT next_id(326)');
DROP SEQUENCE mine CASCADE;

\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA decoy, insta300, "photos of ""Anna""; it's", "Upper_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "ünïcode", insta304, insta305, insta306, insta307, insta308 CASCADE;
DROP FUNCTION agree;

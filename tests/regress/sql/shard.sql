-- Shards as schemas.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
\set ECHO all

SELECT create_shard(5);
CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), title text);
CREATE TABLE insta5.likes (id bigint PRIMARY KEY DEFAULT next_id(5), photo bigint REFERENCES insta5.photos);
INSERT INTO insta5.photos (title) VALUES ('hello'), ('world');
INSERT INTO insta5.likes (photo) SELECT id FROM insta5.photos;
COPY insta5.photos (title) FROM stdin;
one
two
\.
SELECT id_shard(id), id_seq(id), title FROM insta5.photos ORDER BY id;
SELECT id_shard(id), id_seq(id) FROM insta5.likes ORDER BY id;

-- The unqualified form, with search_path, as in the original.
SET search_path = insta5, public;
CREATE TABLE comments (id bigint PRIMARY KEY DEFAULT next_id(), text text);
INSERT INTO comments (text) VALUES ('nice') RETURNING id_shard(id);
RESET search_path;
INSERT INTO insta5.comments (text) VALUES ('still there') RETURNING id_shard(id);

-- The objects that create_shard() created.
SELECT obj_description('insta5'::regnamespace, 'pg_namespace'), obj_description('insta5.table_id_seq'::regclass, 'pg_class');
SELECT oid::regprocedure AS function, provolatile, proparallel, proisstrict, prosecdef, obj_description(oid, 'pg_proc')
FROM pg_proc WHERE pronamespace = 'insta5'::regnamespace ORDER BY proname COLLATE "C";
\sf insta5.next_id()
\sf insta5.id_time(bigint)
SELECT sequence, epoch, home = (SELECT system_identifier FROM pg_control_system()) || '/' || (SELECT oid FROM pg_database WHERE datname = current_database()) AS here
FROM insta5.shard_5();
SELECT seqtypid::regtype, seqstart, seqincrement, seqmin, seqmax, seqcache, seqcycle FROM pg_sequence WHERE seqrelid = 'insta5.table_id_seq'::regclass;
-- They belong to the caller, and depend on the extension without being members of it.
SELECT count(*) AS members FROM pg_depend
WHERE deptype = 'e' AND (objid = 'insta5'::regnamespace OR objid = 'insta5.table_id_seq'::regclass
    OR objid IN (SELECT oid FROM pg_proc WHERE pronamespace = 'insta5'::regnamespace));
DROP EXTENSION instagram_id;
DROP SEQUENCE insta5.table_id_seq;

-- All or nothing: create_shard() changes nothing if the schema exists, and a rollback leaves nothing behind.
SELECT create_shard(5);
-- DROP EXTENSION ... CASCADE drops two functions of a shard and the defaults that call them; if_not_exists creates them again.
-- The sequence and the definition with the epoch stay, so the ids continue.
BEGIN;
SELECT max(id) AS last FROM insta5.photos \gset
SET LOCAL client_min_messages = warning;
DROP EXTENSION instagram_id CASCADE;
CREATE EXTENSION instagram_id;
SELECT next_id(5) > :last AS goes_on;
SELECT create_shard(5, if_not_exists => true);
ALTER TABLE insta5.photos ALTER id SET DEFAULT insta5.next_id();
INSERT INTO insta5.photos (title) VALUES ('back') RETURNING id > :last AS goes_on;
ROLLBACK;
BEGIN;
SELECT create_shard(8191);
SELECT id_shard(insta8191.next_id());
ROLLBACK;
SELECT to_regnamespace('insta8191');

-- Many shards in one statement, and the first and last number.
SELECT count(create_shard(n)) FROM generate_series(200, 299) AS n;
SELECT count(DISTINCT id), count(DISTINCT id_shard(id)) FROM (SELECT next_id(200 + n % 100) AS id FROM generate_series(1, 10000) AS n) AS made;
SELECT create_shard(0), create_shard(8191);
SELECT id_shard(next_id(0)), id_shard(next_id(8191)), id_shard(insta8191.next_id());

-- An id_time() that decodes a constant, or runs with the rights of its owner, is not that of the shard.
SELECT create_shard(300);
CREATE OR REPLACE FUNCTION insta300.id_time(id bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE RETURN shard_id_time(5::bigint, '2011-08-24 21:07:01.721+00');
SELECT state FROM raises('SELECT create_shard(300, if_not_exists => true)');
CREATE OR REPLACE FUNCTION insta300.id_time(id bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE SECURITY DEFINER RETURN shard_id_time(id, '2011-08-24 21:07:01.721+00');
SELECT state FROM raises('SELECT create_shard(300, if_not_exists => true)');

-- The extension is moved to another schema, whose name needs quotes: existing shards work, and new ones can be created.
CREATE SCHEMA "it's ""odd""";
ALTER EXTENSION instagram_id SET SCHEMA "it's ""odd""";
INSERT INTO insta5.photos (title) VALUES ('moved');
INSERT INTO insta5.likes (photo) SELECT max(id) FROM insta5.photos;
SELECT "it's ""odd""".create_shard(6);
\sf insta6.next_id()
SELECT shard FROM "it's ""odd""".id_shards WHERE shard IN (5, 6) ORDER BY shard;
SELECT "it's ""odd""".id_shard(insta6.next_id());
SELECT shard FROM "it's ""odd""".id_parts(insta6.next_id());
ALTER EXTENSION instagram_id SET SCHEMA public;
DROP SCHEMA "it's ""odd""";

-- A time zone in which PostgreSQL shows times with an offset that it does not read.
SET TimeZone = 'Foo+25';
SELECT create_shard(7);
SELECT claim_shard(7), id_shard(insta7.next_id());
RESET TimeZone;
SELECT epoch, insta7.epoch() = epoch AND insta7.id_time(0) = epoch AS same FROM id_shards WHERE shard = 7;
DROP SCHEMA insta7 CASCADE;

-- A shard is dropped.
DROP SCHEMA insta6 CASCADE;
SELECT next_id(6);

\set VERBOSITY terse
DROP SCHEMA insta0, insta5, insta8191 CASCADE;
SET client_min_messages = warning;
\set QUIET on
\set ECHO none
SELECT format('DROP SCHEMA insta%s CASCADE', n) FROM generate_series(200, 300) AS n \gexec

-- Another role was there first: it owns a shard's schema, its sequence, its functions, a false definition, and functions in
-- public with the names of the extension's. The errors that other roles get.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
SET client_min_messages = warning;
CREATE ROLE regress_id_squatter;
CREATE ROLE regress_id_victim;
DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO regress_id_squatter, regress_id_victim', current_database()); END $$;
GRANT CREATE ON SCHEMA public TO regress_id_squatter;
\set ECHO all

SELECT create_shard(5);
GRANT USAGE ON SCHEMA insta5 TO regress_id_squatter;
GRANT USAGE ON SEQUENCE insta5.table_id_seq TO regress_id_squatter;
CREATE TABLE stolen (who name);
GRANT INSERT ON stolen TO PUBLIC;

SET ROLE regress_id_squatter;
CREATE FUNCTION public.steals() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.stolen VALUES (current_user); RETURN 666; END $$;
CREATE SCHEMA insta77 CREATE SEQUENCE table_id_seq;
CREATE FUNCTION insta77.next_id() RETURNS bigint LANGUAGE sql AS 'SELECT public.steals()';
CREATE FUNCTION insta77.id_time(bigint) RETURNS timestamptz LANGUAGE sql AS 'SELECT now() FROM public.steals()';
CREATE FUNCTION insta77.epoch() RETURNS timestamptz LANGUAGE sql AS 'SELECT now() FROM public.steals()';
CALL define('public', 77, 'insta77.table_id_seq');
-- Definitions of another sequence and with function calls. They are parsed, not run.
CALL define('public', 78, 'insta5.table_id_seq');
CREATE FUNCTION public.shard_79(OUT sequence regclass, OUT epoch timestamptz, OUT home text)
    BEGIN ATOMIC SELECT 'insta77.table_id_seq'::regclass, '2020-01-01 00:00+00'::timestamptz, public.steals()::text; END;
CALL define('public', 5, 'insta77.table_id_seq');
-- Names of the extension's functions: a signature that is in use is an error for that role, any other one is created.
SELECT state FROM unnest(ARRAY['TABLE id_shards ()', 'TYPE id_shards AS (a int)', 'VIEW id_shards AS SELECT 1', 'FUNCTION next_id(int) RETURNS bigint RETURN 1',
    'OR REPLACE FUNCTION next_id(shard int) RETURNS bigint LANGUAGE sql AS ''SELECT 1::bigint''']) AS thing, raises('CREATE ' || thing);
CREATE SEQUENCE public.table_id_seq;
CREATE FUNCTION public.next_id(smallint) RETURNS bigint LANGUAGE sql AS 'SELECT public.steals()';
CREATE FUNCTION public.next_id(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT public.steals()';
CREATE FUNCTION public.next_id(VARIADIC int[]) RETURNS bigint LANGUAGE sql AS 'SELECT public.steals()';
CREATE FUNCTION public.next_id(int, int DEFAULT 0) RETURNS bigint LANGUAGE sql AS 'SELECT public.steals()';
CREATE FUNCTION public.next_id(int, text) RETURNS bigint LANGUAGE sql AS 'SELECT public.steals()';
CREATE FUNCTION public.id_shard(numeric) RETURNS int LANGUAGE sql AS 'SELECT public.steals()::int';
CREATE FUNCTION public.id_time(anyelement) RETURNS timestamptz LANGUAGE sql AS 'SELECT now() FROM public.steals()';
CREATE FUNCTION public.create_shard(VARIADIC int[]) RETURNS regnamespace LANGUAGE sql AS 'SELECT 0::regnamespace FROM public.steals()';
RESET ROLE;

-- With arguments of the documented types the extension's functions are called.
SELECT id_shard(insta5.next_id()), id_shard(next_id(5, 'insta5.table_id_seq'::regclass)), id_shard(next_ids(5, 1)),
    id_shard(shard_next_id(5, 'insta5.table_id_seq', '2011-08-24 21:07:01.721+00')), id_time(1671372309237077023), id_shard(1671372309237077023);
SELECT count(*) AS stolen FROM stolen;
-- With other types PostgreSQL selects the best match, so revoke CREATE on that schema. A shard's own next_id() is not affected.
SELECT next_id(5::smallint) = 666 AS stolen;
SELECT state, message FROM raises('SELECT next_id(5)');
DROP FUNCTION next_id(int, int);
SELECT id_shard(next_id(5));
TRUNCATE stolen;

-- The number that it has taken: its definition applies if there is no other one, and only to its own sequence.
SELECT shard, schema, can_generate FROM id_shards WHERE shard IN (5, 77, 78, 79) ORDER BY shard, schema;
SELECT id_shard(next_id(77)), id_shard(next_id(5));
SELECT state FROM unnest('{78,79}'::int[]) AS n, raises(format('SELECT next_id(%s)', n));
SELECT * FROM raises('SELECT create_shard(77)');
-- A schema of PostgreSQL is refused before anything is looked for in it.
SELECT * FROM raises('SELECT create_shard(77, ''pg_catalog'')');
SELECT state, message, hint FROM raises('SELECT create_shard(77, if_not_exists => true)');
SELECT * FROM raises('SELECT claim_shard(77)');
CREATE TABLE serials (id bigserial PRIMARY KEY);
SELECT state, message, hint FROM raises('SELECT adopt_table(77, ''serials'')');
-- A definition that does not apply does not take a number.
BEGIN;
SELECT create_shard(78);
ROLLBACK;
-- Follow the hint. Then its schema and the functions in there are in the way; none of them is run.
DROP FUNCTION public.shard_77();
SELECT state, message, detail FROM raises('SELECT create_shard(77)');
SELECT state, message, hint FROM raises('SELECT create_shard(77, if_not_exists => true)');
SELECT state, message, detail FROM raises('SELECT create_shard(77, ''insta77'', if_not_exists => true)');
SET ROLE regress_id_victim;
SELECT create_shard(77, 'mine');
RESET ROLE;
SELECT id_shard(next_id(77)), id_shard(mine.next_id()), schema FROM id_shards WHERE shard = 77;
SELECT count(*) AS stolen FROM stolen;

DROP SCHEMA insta5, insta77, mine CASCADE;
DROP TABLE serials, stolen;
DROP OWNED BY regress_id_squatter, regress_id_victim CASCADE;
DROP ROLE regress_id_squatter, regress_id_victim;

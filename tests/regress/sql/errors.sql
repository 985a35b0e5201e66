-- Every error: SQLSTATE, message, detail and hint.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude

CREATE SCHEMA errors;
\set ECHO all

SELECT create_shard(77);

-- Shard or sequence number out of range.
SELECT * FROM raises('SELECT next_id(-1)');
SELECT * FROM raises('SELECT next_id(8192)');
SELECT * FROM raises('SELECT next_id(8192, ''insta77.table_id_seq'')');
SELECT * FROM raises('SELECT next_ids(2147483647, 5)');
SELECT * FROM raises('SELECT create_shard(8192)');
SELECT * FROM raises('SELECT create_shard(-1)');
SELECT * FROM raises('SELECT make_id(''2026-01-01'', 8192, 0)');
SELECT * FROM raises('SELECT make_id(''2026-01-01'', -1, 0)');
SELECT * FROM raises('SELECT make_id(''2026-01-01'', 0, 1024)');
SELECT * FROM raises('SELECT make_id(''2026-01-01'', 0, -1)');
SELECT * FROM raises('SELECT shard_for(1, 0)');
SELECT * FROM raises('SELECT shard_for(1, -2000)');
SELECT * FROM raises('SELECT shard_for(1, 8193)');
SELECT * FROM raises('SELECT next_ids(77, 0)');
SELECT * FROM raises('SELECT next_ids(77, -2147483648)');

-- NULL.
SELECT * FROM raises('SELECT next_id(NULL)');
SELECT * FROM raises('SELECT next_id(NULL, ''insta77.table_id_seq'')');
SELECT * FROM raises('SELECT next_id(77, NULL)');
SELECT * FROM raises('SELECT next_id(77, NULL, ''2011-01-01'')');
SELECT * FROM raises('SELECT next_id(77, ''insta77.table_id_seq'', NULL)');
SELECT * FROM raises('SELECT next_ids(NULL, 1)');
SELECT * FROM raises('SELECT next_ids(77, NULL)');
SELECT * FROM raises('SELECT create_shard(NULL)');

-- Texts of any length. A message quotes only the beginning of a name or keyword.
SELECT * FROM raises('SELECT create_shard(78, repeat(''long'', 1000000))');
SELECT * FROM raises('SELECT create_id_partitions(''pg_class'', repeat(''ü'', 1000000))');
DO $$ BEGIN EXECUTE format('CREATE TABLE errors.long (id bigint PRIMARY KEY DEFAULT length(%L))', repeat('x', 2000000)); END $$;
SELECT * FROM raises('SELECT adopt_table(77, ''errors.long'')');
DROP TABLE errors.long;

-- A shard without a schema, a schema that is no shard, a sequence that does not exist.
SELECT * FROM raises('SELECT next_id(78)');
SELECT * FROM raises('SELECT next_ids(78, 1)');
SELECT * FROM raises('SELECT advance_shard(78, make_id(now(), 78, 0))');
SELECT * FROM raises('SELECT claim_shard(78)');
CREATE SCHEMA insta78;
CREATE SEQUENCE insta78.table_id_seq;
SELECT * FROM raises('SELECT next_id(78)');
-- The statement in the hint creates the shard.
SELECT create_shard(78, if_not_exists => true);
SELECT id_shard(next_id(78)) AS shard;
DROP SCHEMA insta78 CASCADE;
SELECT * FROM raises('SELECT next_id(77, 1::regclass)');
SELECT * FROM raises('SELECT next_id(77, 0::regclass)');
SELECT * FROM raises('SELECT next_id(77, ''insta77.nowhere'')');
-- The setting that next_id() uses.
SELECT * FROM raises('SELECT next_id()');
SELECT * FROM raises('SET instagram_id.shard = 8192');
SELECT * FROM raises('SET instagram_id.shrad = 5');

-- Not a sequence.
CREATE TABLE errors."My Table" (id int PRIMARY KEY);
CREATE VIEW errors.v AS SELECT 1;
SELECT * FROM raises('SELECT next_id(77, ''errors."My Table"'')');
SELECT * FROM raises('SELECT next_id(77, ''errors."My Table_pkey"'')');
SELECT * FROM raises('SELECT next_id(77, ''errors.v'')');
CREATE SCHEMA insta79 CREATE TABLE table_id_seq ();
SELECT * FROM raises('SELECT create_shard(79, if_not_exists => true)');
DROP SCHEMA insta79 CASCADE;

-- Sequences that cannot be used to generate ids. Each is altered by the statement in the hint.
CREATE SEQUENCE errors.small AS smallint;
CREATE SEQUENCE errors.medium AS integer INCREMENT 5;
CREATE SEQUENCE errors.down INCREMENT -1;
CREATE SEQUENCE errors.round CYCLE;
CREATE SEQUENCE errors.low MAXVALUE 1125899906842622;
CREATE SEQUENCE errors.enough MAXVALUE 1125899906842623;
CREATE SEQUENCE errors.ahead MINVALUE 1125899906842000;
CREATE SEQUENCE errors."it's; ""worse""" AS integer CYCLE INCREMENT 2;
DO $$
DECLARE
    seq regclass;
    e record;
BEGIN
    FOR seq IN SELECT oid FROM pg_class WHERE relnamespace = 'errors'::regnamespace AND relkind = 'S' ORDER BY relname COLLATE "C" LOOP
        e := raises(format('SELECT next_id(77, %L)', seq));
        RAISE NOTICE E'%\n% %\n%\n%', seq, e.state, e.message, e.detail, e.hint;
        IF e.state IS NOT NULL THEN
            EXECUTE regexp_replace(e.hint, '^Use (.*)\.$', '\1');
        END IF;
        e := raises(format('SELECT next_id(77, %L)', seq));
        RAISE NOTICE 'then: %', e.message;
    END LOOP;
END $$;

-- A closed sequence, as after a move of its shard to another server: its MAXVALUE is its last value.
CREATE SEQUENCE errors.closed;
CREATE SEQUENCE errors.unused MINVALUE 0 START 1 MAXVALUE 1;
SELECT next_id(77, 'errors.closed') > 0 AS open;
DO $$ BEGIN EXECUTE (SELECT format('ALTER SEQUENCE errors.closed MAXVALUE %s', last_value) FROM errors.closed); END $$;
SELECT state, message, regexp_replace(detail, '\d{9,}', 'N') AS detail, hint FROM raises('SELECT next_id(77, ''errors.closed'')');
SELECT state, regexp_replace(message, '\d{9,}', 'N') AS message FROM raises('SELECT nextval(''errors.closed'')');
SELECT state, message, detail FROM raises('SELECT next_id(77, ''errors.unused'')');
ALTER SEQUENCE errors.closed NO MAXVALUE;
SELECT next_id(77, 'errors.closed') > 0 AS open;
-- A sequence with values left is not closed, and a closed one with another fault is reported for that.
ALTER SEQUENCE errors.unused MAXVALUE 2;
SELECT state, message, detail FROM raises('SELECT next_id(77, ''errors.unused'')');
ALTER SEQUENCE errors.unused MAXVALUE 1 CYCLE;
SELECT state, message, detail FROM raises('SELECT next_id(77, ''errors.unused'')');

-- Read-only transactions. A temporary sequence can be used in one, as with nextval.
CREATE TEMPORARY SEQUENCE mine;
BEGIN READ ONLY;
SELECT * FROM raises('SELECT next_id(77)');
SELECT * FROM raises('SELECT next_ids(77, 5)');
SELECT * FROM raises('SELECT insta77.next_id()');
SELECT * FROM raises('SELECT next_id(77, ''mine'')');
COMMIT;

-- Times before the epoch, times past the end of the time field, and infinity.
SELECT * FROM raises('SELECT make_id(''2011-08-24 21:07:01.720999+00'', 5, 0)');
SELECT * FROM raises('SELECT make_id(''2081-04-30 12:54:37.273+00'', 5, 0)');
SELECT * FROM raises('SELECT make_id(''infinity'', 5, 0)');
SELECT * FROM raises('SELECT make_id(''2026-01-01'', 5, 0, ''-infinity'')');
SELECT * FROM raises('SELECT make_id(''2026-01-01'', 5, 0, ''2026-01-01 00:00:00.001+00'')');
SELECT * FROM raises('SELECT id_floor(''2011-08-24 21:07:01.720+00'')');
SELECT * FROM raises('SELECT id_floor(''2081-04-30 12:54:37.272001+00'')');
SELECT * FROM raises('SELECT id_floor(''-infinity'')');
SELECT * FROM raises('SELECT id_floor(''4713-01-01 BC'', ''294276-12-31'')');
SELECT * FROM raises('SELECT id_floor(''294276-12-31'', ''4713-01-01 BC'')');
SELECT * FROM raises('SELECT id_between(9223372036854775807, ''2026-01-01'', ''infinity'')');
SELECT * FROM raises('SELECT id_between(9223372036854775807, ''2026-01-01'', ''2050-01-01'')');
SELECT * FROM raises('SELECT id_time(1, ''infinity'')');
SELECT * FROM raises('SELECT id_time(-1, ''294276-12-31'')');
SELECT * FROM raises('SELECT id_parts(-1, ''294276-12-31'')');
SELECT * FROM raises('SELECT next_id(77, ''insta77.table_id_seq'', ''infinity'')');
SELECT message, regexp_replace(detail, 'at [^.]*(\.\d+)?\S*\.', 'at (now).') AS detail, state, hint
FROM raises('CREATE SEQUENCE errors.fresh; SELECT next_id(77, ''errors.fresh'', ''2999-01-01'')');

-- The end of the time field, reached by setval and by an epoch 2^40 ms ago. The statement in the hint resets it.
SELECT setval('insta77.table_id_seq', 1125899906842622);
SET client_min_messages = error; -- it is years ahead of the clock
SELECT id_time(next_id(77)) AS time, id_seq((SELECT last_value FROM insta77.table_id_seq)) AS seq;
RESET client_min_messages;
SELECT * FROM raises('SELECT next_id(77)');
SELECT * FROM raises('SELECT next_ids(77, 2)');
ALTER SEQUENCE insta77.table_id_seq NO MAXVALUE;
SELECT setval('insta77.table_id_seq', 9223372036854775807);
SELECT * FROM raises('SELECT next_id(77)');
SELECT setval('insta77.table_id_seq', 1, false);
SELECT id_time(next_id(77)) BETWEEN now() - interval '1 second' AND now() + interval '1 second';
CREATE SEQUENCE errors.old;
SELECT message, regexp_replace(detail, 'at [^.]*(\.\d+)?\S*\.', 'at (now).') AS detail, state, hint
FROM raises('SELECT next_id(77, ''errors.old'', ''1980-01-01'')');
-- A sequence in use continues: with a clock before the epoch, and once the clock is no longer past the end.
SET client_min_messages = error;
SELECT id_shard(next_id(77, 'insta77.table_id_seq', '2999-01-01'));
RESET client_min_messages;
SELECT state FROM raises('SELECT next_id(77, ''insta77.table_id_seq'', ''1980-01-01'')');
SELECT id_time(next_id(77)) BETWEEN now() - interval '1 second' AND now() + interval '1 second';

-- A shard that exists already.
SELECT * FROM raises('SELECT create_shard(77)');
-- In the schema of the extension.
SELECT * FROM raises('SELECT create_shard(88, ''public'')');

DROP SCHEMA insta77, errors CASCADE;

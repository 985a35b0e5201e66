-- The view id_shards, advance_shard() and claim_shard().
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
CREATE ROLE regress_id_app;
\set ECHO all

SELECT create_shard(400), create_shard(401, epoch => '2020-01-01 00:00+00'), create_shard(8000);

-- Before the first id, after it, and ahead of the clock.
SELECT shard, schema, sequence, epoch, last_id, last_time, ahead, ids_per_second, ends_at, can_generate FROM id_shards WHERE shard IN (400, 401, 8000) ORDER BY shard;
SELECT next_id(400) AS id400, next_id(401) AS id401 \gset
SELECT shard, last_id = CASE shard WHEN 400 THEN :id400 ELSE :id401 END AS last_id, last_time BETWEEN now() - interval '1 minute' AND clock_timestamp() AS last_time, ahead
FROM id_shards WHERE shard IN (400, 401) ORDER BY shard;
SET client_min_messages = error;
SELECT id_shard(advance_shard(401, make_id(now() + interval '1 hour', 401, 7, '2020-01-01 00:00+00')));
RESET client_min_messages;
SELECT ahead BETWEEN interval '59 minutes' AND interval '1 hour' AS ahead, id_seq(last_id), last_time > now() AS last_time FROM id_shards WHERE shard = 401;
-- The view checks the same privileges as pg_sequences; the other columns are visible to everyone.
SET ROLE regress_id_app;
SELECT shard, schema, sequence, epoch, last_id, last_time, ahead, ids_per_second, ends_at, can_generate FROM id_shards WHERE shard IN (400, 401) ORDER BY shard;
RESET ROLE;
GRANT USAGE ON SEQUENCE insta400.table_id_seq TO regress_id_app;
GRANT SELECT ON SEQUENCE insta401.table_id_seq TO regress_id_app;
SET ROLE regress_id_app;
SELECT shard, last_id = CASE shard WHEN 400 THEN :id400 ELSE :id401 END AS last_id, last_id > 0 FROM id_shards WHERE shard IN (400, 401) ORDER BY shard;
RESET ROLE;
-- It holds no lock after it has read, generates no id, and includes ids that are not committed.
BEGIN;
SELECT count(*) FROM id_shards WHERE shard IN (400, 401);
SELECT relation::regclass, mode FROM pg_locks WHERE pid = pg_backend_pid() AND relation::regclass::text LIKE '%table_id_seq' ORDER BY 1;
SELECT next_id(400) = (SELECT last_id FROM id_shards WHERE shard = 400) AS seen, next_id(400) - :id400 > 0 AS goes_on;
ROLLBACK;
-- Ordered by number.
BEGIN;
SELECT create_shard(90);
SELECT shard FROM _shard_states() WHERE shard IN (90, 400, 8000);
ROLLBACK;
-- In a read-only transaction, and with a sequence value that belongs to no id.
BEGIN READ ONLY;
SELECT shard FROM id_shards WHERE shard = 400;
COMMIT;
ALTER SEQUENCE insta8000.table_id_seq NO MAXVALUE;
SELECT setval('insta8000.table_id_seq', 9000000000000000000);
SELECT shard, last_id FROM id_shards WHERE shard = 8000;

-- advance_shard(): moves above the id, never back, and counts on from there.
SELECT create_shard(402);
CREATE TABLE known (id bigint);
INSERT INTO known SELECT make_id(clock_timestamp() + interval '1 second', 402, 1023);
SELECT advance_shard(402, id) = id AS there, next_id(402) > id AS above, id_seq(next_id(402)) FROM known;
SELECT advance_shard(402, make_id('2012-01-01 00:00+00', 402, 5)) > id AS not_back, next_id(402) > id AS above FROM known;
-- A sequence without MAXVALUE can be beyond all ids.
BEGIN;
ALTER SEQUENCE insta402.table_id_seq NO MAXVALUE RESTART 1125899906842624;
SELECT advance_shard(402, id) = id AS there FROM known;
SELECT setval('insta402.table_id_seq', 9223372036854775807);
SELECT r.* FROM known, raises(format('SELECT advance_shard(402, %s)', id)) AS r;
ROLLBACK;
SELECT advance_shard(402, 402 << 10) > id AS not_back FROM known;
-- A sequence that was never called and has another start value, and one with bounds that setval() would enforce.
ALTER SEQUENCE insta402.table_id_seq MINVALUE 1000 MAXVALUE 1125899906842623 START 844424930131969 RESTART;
SELECT advance_shard(402, make_id('2012-01-01 00:00+00', 402, 5)) = make_id('2012-01-01 00:00+00', 402, 5) AS there;
ALTER SEQUENCE insta402.table_id_seq MINVALUE 844424930131969 RESTART;
SELECT * FROM raises('SELECT setval(''insta402.table_id_seq'', 844424930131968)');
SELECT advance_shard(402, id) = id AS there FROM known;
ALTER SEQUENCE insta402.table_id_seq NO MINVALUE;
SELECT next_id(402) > id AS above FROM known;
-- Like setval(), it is not undone by a rollback.
BEGIN;
UPDATE known SET id = advance_shard(402, make_id(clock_timestamp() + interval '3 seconds', 402, 9)) RETURNING id_seq(id);
SELECT id AS ahead FROM known \gset
SELECT mode FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'insta402.table_id_seq'::regclass;
ROLLBACK;
SELECT next_id(402) > :ahead AS above;
-- A shard that is more than a minute ahead causes a warning.
SET client_min_messages = warning;
DO $$ BEGIN PERFORM advance_shard(402, make_id(clock_timestamp() + interval '59 seconds', 402, 0)); END $$;
SELECT id_shard(advance_shard(402, make_id(now() + interval '30 days 12 hours 30 minutes', 402, 0)));
-- The warning is repeated once in each session that generates such ids.
SELECT id_shard(next_id(402));
SELECT id_shard(next_id(402)), id_shard(insta402.next_id()), id_shard(min(id)) FROM next_ids(402, 3) AS id;
RESET client_min_messages;
SELECT state, regexp_replace(message, '\d{10,}', '(id)') AS message, detail, hint FROM raises('SELECT advance_shard(402, make_id(now(), 403, 0))');
SET client_min_messages = error;
SELECT * FROM raises('SELECT advance_shard(402, 411648)');
SELECT * FROM raises('SELECT advance_shard(402, 0)');
SELECT * FROM raises('SELECT advance_shard(402, -1)');
SELECT * FROM raises('SELECT advance_shard(8191, 9223372036854775807)');
SELECT * FROM raises('SELECT advance_shard(8191, 9223372036854775806)');
SELECT * FROM raises('SELECT advance_shard(402, NULL)');
SELECT * FROM raises('SELECT advance_shard(NULL, 1)');
SELECT * FROM raises('SELECT advance_shard(8192, 1)');
BEGIN READ ONLY;
SELECT * FROM raises('SELECT advance_shard(400, 409600)');
SELECT * FROM raises('SELECT create_shard(403)');
SELECT * FROM raises('SELECT claim_shard(400)');
COMMIT;

-- A copy of a shard of another database: how it is shown, and how to claim it.
SELECT '7000000000000000000/' || oid AS elsewhere FROM pg_database WHERE datname = current_database() \gset
CREATE OR REPLACE FUNCTION insta400.shard_400(OUT sequence regclass, OUT epoch timestamptz, OUT home text) LANGUAGE sql IMMUTABLE PARALLEL SAFE
    BEGIN ATOMIC SELECT 'insta400.table_id_seq'::regclass, '2011-08-24 21:07:01.721+00'::timestamptz, (:'elsewhere')::text; END;
SELECT shard, can_generate FROM id_shards WHERE shard IN (400, 401) ORDER BY shard;
SELECT id_shard(next_id(400));
SELECT claim_shard(400);
SELECT shard, can_generate FROM id_shards WHERE shard IN (400, 401) ORDER BY shard;
SELECT sequence, epoch FROM insta400.shard_400();
SELECT next_id(400) > :id400 AS goes_on;

\set VERBOSITY terse
-- The reason why ids cannot be generated, as in the error of next_id().
CREATE FUNCTION why(shard int) RETURNS text LANGUAGE sql AS
    'SELECT concat(can_generate, '' '', regexp_replace(reason, ''[0-9]{6,}'', ''N'', ''g'')) FROM id_shards WHERE id_shards.shard = $1';
SELECT create_shard(410);
SELECT why(410);
ALTER SEQUENCE insta410.table_id_seq INCREMENT 2 CYCLE;
SELECT why(410);
SELECT state, detail FROM raises('SELECT next_id(410)');
ALTER SEQUENCE insta410.table_id_seq INCREMENT 1 NO CYCLE;
SELECT id_shard(next_id(410));
-- Closed as by a move.
DO $$ BEGIN EXECUTE format('ALTER SEQUENCE insta410.table_id_seq MAXVALUE %s', (SELECT last_value FROM insta410.table_id_seq)); END $$;
SELECT why(410);
SELECT state FROM raises('SELECT next_id(410)');
-- A member of pg_monitor sees it without a privilege on the sequence, another role does not.
CREATE ROLE regress_id_watcher IN ROLE pg_monitor;
CREATE ROLE regress_id_other;
SET ROLE regress_id_watcher;
SELECT why(410), last_id IS NOT NULL AS last_id, last_time IS NOT NULL AS last_time, ahead IS NOT NULL AS ahead FROM id_shards WHERE shard = 410;
SELECT state FROM raises('SELECT last_value FROM insta410.table_id_seq');
SELECT state FROM raises('SELECT nextval(''insta410.table_id_seq'')');
SET ROLE regress_id_other;
SELECT why(410), last_id IS NOT NULL AS last_id, last_time IS NOT NULL AS last_time, ahead IS NOT NULL AS ahead FROM id_shards WHERE shard = 410;
RESET ROLE;
DROP ROLE regress_id_watcher, regress_id_other;
ALTER SEQUENCE insta410.table_id_seq NO MAXVALUE;
SELECT why(410);
-- The MAXVALUE of a new shard is the end of its ids.
ALTER SEQUENCE insta410.table_id_seq MAXVALUE 1125899906842623;
SELECT why(410), seqmax - (SELECT seqmax FROM pg_sequence WHERE seqrelid = 'insta400.table_id_seq'::regclass) AS as_new
FROM pg_sequence WHERE seqrelid = 'insta410.table_id_seq'::regclass;
SELECT setval('insta410.table_id_seq', (1::bigint << 50) - 2) > 0 AS set;
SELECT next_id(410) = (9223372036854775807 >> 23 << 23) + (410 << 10) + 1023 AS last;
SELECT why(410);
SELECT state FROM raises('SELECT next_id(410)');
SELECT state FROM raises('SELECT nextval(''insta410.table_id_seq'')');
SELECT setval('insta410.table_id_seq', 1) > 0 AS set;
-- A function is missing.
DROP FUNCTION insta410.id_time(bigint);
SELECT why(410);
SELECT shard FROM id_shards WHERE NOT can_generate AND shard = 410;
-- A dropped sequence takes the definition with it.
DROP SEQUENCE insta410.table_id_seq CASCADE;
SELECT * FROM raises('SELECT next_id(410)');
DROP FUNCTION why;
DROP SCHEMA insta410 CASCADE;

SET client_min_messages = warning;
DROP SCHEMA insta400, insta401, insta402, insta8000 CASCADE;
DROP TABLE known;
DROP ROLE regress_id_app;

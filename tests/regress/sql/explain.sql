-- id_explain() describes an id in readable form.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
CREATE FUNCTION explained(id bigint, epoch timestamptz DEFAULT NULL) RETURNS TABLE (field text, value text) LANGUAGE sql
    AS $$ SELECT * FROM id_explain(id, epoch) WHERE field <> 'age' $$;
\set ECHO all

-- A published id. Its shard does not exist here, so the epoch is the original's. The age changes and is not printed.
SELECT * FROM explained(1671372309237077023);
SELECT value ~ '^\d+ days \d+ h$' AS age FROM id_explain(1671372309237077023) WHERE field = 'age';
SELECT array_agg(field) FROM id_explain(0);
-- Extremes: 0, the greatest positive id, the least negative one, and the last one.
SELECT id, explained FROM unnest('{0,9223372036854775807,-9223372036854775808,-1}'::bigint[]) WITH ORDINALITY AS t(id, n), explained(id) WHERE field IN ('bits', 'milliseconds') ORDER BY n, field COLLATE "C";
SELECT count(*) FROM id_explain(NULL);
SELECT count(*) FROM id_explain(NULL, 'infinity');

-- The epoch is that of the id's shard if the shard exists here, whatever the name of its schema, unless another epoch is given.
SELECT create_shard(5, 'Photos "eu"', '2020-01-01+00');
SELECT * FROM explained(make_id('2026-01-02 03:04:05.678+00', 5, 31, '2020-01-01+00')) WHERE field IN ('time', 'schema', 'epoch', 'shard', 'sequence');
SELECT * FROM explained(make_id('2026-01-02 03:04:05.678+00', 5, 31, '2011-01-01+00'), '2011-01-01+00') WHERE field IN ('time', 'schema', 'epoch');
SELECT * FROM explained(make_id('2026-01-02 03:04:05.678+00', 6, 31)) WHERE field IN ('time', 'schema', 'epoch');
-- An id of now, and ids ahead of the clock.
SELECT value ~ '^\d s$' AS age FROM id_explain(next_id(5)) WHERE field = 'age';
SELECT value ~ '^\d s$' AS age FROM id_explain(id_floor(clock_timestamp()) + (5 << 10), '2011-08-24 21:07:01.721+00') WHERE field = 'age';
SELECT value ~ '^\d+ days \d+ h ahead of the clock$' AS age FROM id_explain(-1) WHERE field = 'age';
SELECT value FROM id_explain(id_floor(now() + interval '50 hours 30 minutes') + (6 << 10)) WHERE field = 'age' AND value IN ('2 days 2 h ahead of the clock');
-- Times are shown in the session's time zone and date style.
SET TimeZone = 'America/New_York';
SET DateStyle = 'SQL, DMY';
SELECT * FROM explained(1671372309237077023, '2011-01-01+00') WHERE field IN ('time', 'epoch');
RESET DateStyle;
SET TimeZone = 'UTC';

-- A shard with two definitions: the epoch must be given, and then both schemas are shown.
CREATE SCHEMA twin;
CREATE SEQUENCE twin.table_id_seq;
CALL define('twin', 5, 'twin.table_id_seq', '2021-01-01+00');
SELECT * FROM raises('SELECT * FROM id_explain(5 << 10)');
SELECT * FROM explained(5 << 10, '2020-01-01+00') WHERE field IN ('time', 'schema', 'epoch');
-- Invalid epochs.
SELECT raises($$SELECT * FROM id_explain(1, 'infinity')$$);
SELECT raises($$SELECT * FROM id_explain(-1, '294270-01-01+00')$$);
-- A role without privileges on the shard sees that it lacks them.
SET client_min_messages = warning;
DROP SCHEMA twin CASCADE;
CREATE ROLE regress_id_reader;
SET ROLE regress_id_reader;
SELECT * FROM id_explain(5 << 10) WHERE field IN ('schema', 'epoch');
BEGIN READ ONLY;
SELECT count(*) FROM id_explain(5 << 10);
COMMIT;
RESET ROLE;
-- With search_path = pg_catalog, and as one line.
SET search_path = pg_catalog;
SELECT string_agg(field || ': ' || value, ', ' ORDER BY field COLLATE "C") FROM public.id_explain(1671372309237077023) WHERE field <> 'age';
RESET search_path;
DROP SCHEMA "Photos ""eu""" CASCADE;
DROP FUNCTION explained;
DROP ROLE regress_id_reader;

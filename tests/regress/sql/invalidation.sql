-- A PostgreSQL built with assertions can discard its caches wherever an invalidation may be processed. Calls work even then.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
SET client_min_messages = warning;
\set ECHO all

SELECT create_shard(470);
CREATE ROLE regress_id_caller;
GRANT USAGE ON SCHEMA insta470 TO regress_id_caller;
GRANT USAGE ON SEQUENCE insta470.table_id_seq TO regress_id_caller;
SET statement_timeout = '5min';
SELECT max_val::int > 0 AS discards FROM pg_settings WHERE name = 'debug_discard_caches' \gset
\if :discards
    SET debug_discard_caches = 1;
\endif
SELECT id_shard(next_id(470)), id_shard(insta470.next_id());
SET ROLE regress_id_caller;
SELECT id_shard(next_id(470));
SELECT id_shard(insta470.next_id());
SELECT id_shard(next_id(470, 'insta470.table_id_seq'));
SELECT count(*) FROM next_ids(470, 3000);
RESET ROLE;
\if :discards
    RESET debug_discard_caches;
\endif
-- A session that does not use the indexes of the catalogs finds the same shards.
\c -reuse-previous=on "options='-c ignore_system_indexes=on'"
SET client_min_messages = error;
SHOW ignore_system_indexes;
SELECT shard, can_generate, id_shard(next_id(470)) FROM id_shards WHERE shard = 470;
DROP SCHEMA insta470 CASCADE;
DROP ROLE regress_id_caller;

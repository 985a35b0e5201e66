-- 0.4.0 gives objects the names of 1.0; see CHANGELOG.md. Objects are renamed, so that objects that depend on them
-- continue to work.
\echo Use "ALTER EXTENSION instagram_id UPDATE" to load this file. \quit

ALTER VIEW shards RENAME TO id_shards;
ALTER VIEW id_shards RENAME COLUMN at_home TO can_generate;
ALTER VIEW id_shards RENAME COLUMN problem TO reason;
ALTER FUNCTION shard_states() RENAME TO _shard_states;
ALTER FUNCTION shard_problem(integer, regnamespace) RENAME TO _shard_reason;
ALTER FUNCTION create_partitions(regclass, text, integer, timestamptz, timestamptz) RENAME TO create_id_partitions;
ALTER FUNCTION drop_partitions(regclass, timestamptz, timestamptz, boolean) RENAME TO drop_old_id_partitions;
ALTER FUNCTION create_id_triggers(integer) RENAME TO convert_defaults_to_triggers;
ALTER FUNCTION assign_id() RENAME TO next_id_trigger;

-- The same functions, now by the C symbols of their new names.
CREATE OR REPLACE FUNCTION _shard_reason(shard integer, schema regnamespace) RETURNS text
STABLE STRICT PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'shard_reason_wrapper';

CREATE OR REPLACE FUNCTION create_id_partitions(
    "table" regclass, every text DEFAULT 'month', ahead integer DEFAULT 3, from_time timestamptz DEFAULT NULL,
    epoch timestamptz DEFAULT NULL)
RETURNS SETOF regclass VOLATILE PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'create_id_partitions_wrapper';

CREATE OR REPLACE FUNCTION drop_old_id_partitions(
    "table" regclass, before timestamptz, epoch timestamptz DEFAULT NULL, detach boolean DEFAULT false)
RETURNS SETOF text VOLATILE PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'drop_old_id_partitions_wrapper';

CREATE OR REPLACE FUNCTION convert_defaults_to_triggers(shard integer) RETURNS TABLE (table_name regclass, column_name text)
VOLATILE PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'convert_defaults_to_triggers_wrapper';

CREATE OR REPLACE FUNCTION next_id_trigger() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'next_id_trigger_wrapper';

-- search_path begins with pg_catalog here; see sql/shards.sql.
CREATE OR REPLACE VIEW id_shards AS
SELECT shard, nspname AS schema, sequence, epoch, last_id,
       id_time(last_id, epoch) AS last_time,
       CASE WHEN last_id IS NOT NULL THEN greatest(id_time(last_id, epoch) - clock_timestamp(), '0') END AS ahead,
       1024000::bigint AS ids_per_second,
       epoch + '1099511627776 milliseconds'::interval AS ends_at, -- 2^40: ids would turn negative
       reason IS NULL AS can_generate,
       reason
FROM _shard_states() JOIN pg_catalog.pg_namespace ON pg_namespace.oid OPERATOR(pg_catalog.=) schema,
     LATERAL (SELECT _shard_reason(shard, schema) OFFSET 0) AS r (reason); -- OFFSET: evaluated once, or not at all

COMMENT ON FUNCTION _shard_states() IS
'every shard of this database, with its last id; a part of the view id_shards';
COMMENT ON FUNCTION _shard_reason(integer, regnamespace) IS
'why ids of the shard of a schema may not be generated here; a part of the view id_shards';
COMMENT ON VIEW id_shards IS
'every shard of this database, its last id, and whether ids may be generated here';
COMMENT ON COLUMN id_shards.last_id IS 'last id; NULL where there is none, or no privilege on the sequence to see it';
COMMENT ON COLUMN id_shards.can_generate IS 'whether ids of the shard may be generated here';
COMMENT ON COLUMN id_shards.reason IS 'why not; NULL where they may';
COMMENT ON FUNCTION claim_shard(integer) IS
'records that this database generates the ids of a shard, after a move or a restore';
COMMENT ON FUNCTION _name_sequence_taker(regclass, integer, integer) IS
'records the Citus node that takes a sequence over; a part of next_id()';

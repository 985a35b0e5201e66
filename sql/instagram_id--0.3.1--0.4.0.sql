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

-- These functions keep their C symbols, because sessions that have loaded the library of 0.3.1 know no others.

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
COMMENT ON COLUMN id_shards.schema IS 'schema of the shard';
COMMENT ON COLUMN id_shards.last_id IS 'last id; NULL if there is none, or the caller may neither read the sequence nor all statistics';
COMMENT ON COLUMN id_shards.ids_per_second IS 'maximum number of ids per second';
COMMENT ON COLUMN id_shards.can_generate IS 'whether ids of the shard may be generated here';
COMMENT ON COLUMN id_shards.reason IS 'why ids may not be generated here; NULL if they may';
COMMENT ON FUNCTION claim_shard(integer) IS
'records that this database generates the ids of a shard, after a move or a restore';
COMMENT ON FUNCTION _name_sequence_taker(regclass, integer, integer) IS
'records the Citus node that takes a sequence over; a part of next_id()';

-- Comments that were reworded.
COMMENT ON FUNCTION id_explain(bigint, timestamptz) IS
'fields of an id, one per row: time, age, shard, sequence field, bits, short code';
COMMENT ON FUNCTION shard_next_id(integer, regclass, timestamptz) IS
'next id of a shard from a sequence, counted from an epoch; called by next_id() in the schema of a shard';
COMMENT ON FUNCTION next_ids(integer, integer) IS
'next ids of a shard, as many as requested, in order';
COMMENT ON FUNCTION node_next_id(regclass, timestamptz) IS
'next id of this Citus node, with its group id as the shard, from its own copy of a sequence';
COMMENT ON FUNCTION shard_id_time(bigint, timestamptz) IS
'time at which an id was generated, counted from the given epoch; called by id_time(id) in the schema of a shard';
COMMENT ON FUNCTION id_time(bigint) IS
'time at which an id was generated, to the millisecond';
COMMENT ON FUNCTION id_time(bigint, timestamptz) IS
'time at which an id was generated, to the millisecond, counted from the given epoch';
COMMENT ON FUNCTION id_shard(bigint) IS
'logical shard that generated an id, 0 to 8191';
COMMENT ON FUNCTION id_parts(bigint, timestamptz) IS
'time, shard and sequence field of an id, counted from the given epoch';
COMMENT ON FUNCTION make_id(timestamptz, integer, integer, timestamptz) IS
'id of a time, shard (0 to 8191) and sequence field (0 to 1023), counted from the given epoch';
COMMENT ON FUNCTION id_floor(timestamptz, timestamptz) IS
'smallest id at or after a time, counted from the given epoch';
COMMENT ON FUNCTION id_between(bigint, timestamptz, timestamptz) IS
'whether an id was generated from from_time up to, but not including, to_time; can use an index on the id';
COMMENT ON FUNCTION id_between(bigint, timestamptz, timestamptz, timestamptz) IS
'whether an id was generated from from_time up to, but not including, to_time, counted from the given epoch; can use an index on the id';
COMMENT ON FUNCTION id_range_end(timestamptz, timestamptz) IS
'first id after the times from from_time up to, but not including, to_time; a part of id_between';
COMMENT ON FUNCTION id_range_end(timestamptz, timestamptz, timestamptz) IS
'first id after the times from from_time up to, but not including, to_time, counted from the given epoch; a part of id_between';
COMMENT ON FUNCTION id_to_shortcode(bigint) IS
'short code of an id, as in links: base 64 (A-Z, a-z, 0-9, -, _), most significant digit first';
COMMENT ON FUNCTION shortcode_to_id(text) IS
'id of a short code';
COMMENT ON FUNCTION backfill_id(timestamptz, integer) IS
'id for an existing row, at its time; OVER (ORDER BY that time), ids of a shard (0 to 8191) are unique';
COMMENT ON FUNCTION backfill_id(timestamptz, integer, timestamptz) IS
'id for an existing row, at its time, counted from the given epoch; OVER (ORDER BY that time), ids of a shard (0 to 8191) are unique';
COMMENT ON FUNCTION create_id_partitions(regclass, text, integer, timestamptz, timestamptz) IS
'creates the missing partitions of a table by the time in its ids, by day, week or month; returns them';
COMMENT ON FUNCTION drop_old_id_partitions(regclass, timestamptz, timestamptz, boolean) IS
'drops or detaches the partitions that contain only ids from before a time; returns their names';
COMMENT ON FUNCTION create_shard(integer, text, timestamptz, boolean) IS
'creates a logical shard (0 to 8191): a schema, insta<shard> by default, with its sequence and functions';
COMMENT ON FUNCTION advance_shard(integer, bigint) IS
'makes the next id of a shard greater than an id, unless it already is; returns the last id';
COMMENT ON FUNCTION adopt_shard(integer, text, regprocedure, regclass, timestamptz, boolean) IS
'takes over a schema that runs the PL/pgSQL original, in place; with dry_run only shows the statements';
COMMENT ON FUNCTION unadopt_shard(integer) IS
'restores the PL/pgSQL original of an adopted shard, in place';
COMMENT ON FUNCTION adopt_table(integer, regclass, text, boolean) IS
'makes ids of a shard the default of a serial or identity column; with dry_run only shows the statements';
COMMENT ON FUNCTION next_id_trigger() IS
'trigger BEFORE INSERT FOR EACH ROW: fills a column with the next id of a shard; arguments: shard, column';
COMMENT ON FUNCTION convert_defaults_to_triggers(integer) IS
'replaces column defaults that generate ids of a shard by triggers, for Citus';

CREATE FUNCTION recover_shard(shard integer) RETURNS bigint
VOLATILE PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'recover_shard_wrapper';
COMMENT ON FUNCTION recover_shard(integer) IS
'continues a shard whose last ids were generated by a lost node of a Citus cluster; returns the last id';

CREATE FUNCTION take_over_shards() RETURNS TABLE (shard integer, sequence regclass, reason text)
STRICT VOLATILE PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'take_over_shards_wrapper';
COMMENT ON FUNCTION take_over_shards() IS
'on a Citus cluster, takes over the sequences of all shards that this node owns since a move; returns the shards';

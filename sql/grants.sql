-- Functions that every role may execute. Part of the extension's script; see src/functions/id_shards.rs.

-- They run with the caller's privileges, and check those on the sequence and the schema. Without these grants, ALTER
-- DEFAULT PRIVILEGES ... REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC, in force when the extension is created, would make
-- inserts fail.

GRANT EXECUTE ON FUNCTION
    next_id(), next_id(integer), next_id(integer, regclass), next_id(integer, regclass, timestamptz),
    shard_next_id(integer, regclass, timestamptz), next_ids(integer, integer), node_next_id(regclass, timestamptz),
    id_time(bigint), id_time(bigint, timestamptz), shard_id_time(bigint, timestamptz), id_shard(bigint), id_seq(bigint),
    id_parts(bigint), id_parts(bigint, timestamptz), make_id(timestamptz, integer, integer),
    make_id(timestamptz, integer, integer, timestamptz), id_floor(timestamptz), id_floor(timestamptz, timestamptz),
    id_range_end(timestamptz, timestamptz), id_range_end(timestamptz, timestamptz, timestamptz),
    id_between(bigint, timestamptz, timestamptz), id_between(bigint, timestamptz, timestamptz, timestamptz),
    backfill_id(timestamptz, integer), backfill_id(timestamptz, integer, timestamptz),
    id_to_shortcode(bigint), shortcode_to_id(text), id_explain(bigint, timestamptz), shard_for(bigint, integer),
    _shard_states(), _shard_reason(integer, regnamespace), instagram_id_version(),
    _close_sequence(regclass, integer, integer), _name_sequence_taker(regclass, integer, integer)
TO PUBLIC;

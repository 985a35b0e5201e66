-- 0.3.1 fixes security problems; see CHANGELOG.md. On a Citus cluster, nodes with 0.3.0 and with 0.3.1 cannot take
-- sequences over from each other, because their protocols differ.
\echo Use "ALTER EXTENSION instagram_id UPDATE" to load this file. \quit

DROP FUNCTION shard_hand_over(regclass, integer);

CREATE FUNCTION _close_sequence(seq regclass, for_group integer, attempt integer)
RETURNS TABLE (next_value bigint, previous_group integer)
VOLATILE PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'close_sequence_wrapper';

CREATE FUNCTION _name_sequence_taker(seq regclass, for_group integer, attempt integer) RETURNS boolean
VOLATILE PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'name_sequence_taker_wrapper';

COMMENT ON FUNCTION _close_sequence(regclass, integer, integer) IS
'closes this Citus node''s copy of a sequence for the node that takes it over; a part of next_id()';
COMMENT ON FUNCTION _name_sequence_taker(regclass, integer, integer) IS
'puts the Citus node on record that takes a sequence over; a part of next_id()';
GRANT EXECUTE ON FUNCTION _close_sequence(regclass, integer, integer), _name_sequence_taker(regclass, integer, integer) TO PUBLIC;

CREATE FUNCTION shard_problem(shard integer, schema regnamespace) RETURNS text
STABLE STRICT PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'shard_problem_wrapper';

-- search_path begins with pg_catalog here; see sql/shards.sql.
CREATE OR REPLACE VIEW shards AS
SELECT shard, nspname AS schema, sequence, epoch, last_id,
       id_time(last_id, epoch) AS last_time,
       CASE WHEN last_id IS NOT NULL THEN greatest(id_time(last_id, epoch) - clock_timestamp(), '0') END AS ahead,
       1024000::bigint AS ids_per_second,
       epoch + '1099511627776 milliseconds'::interval AS ends_at, -- 2^40: ids would turn negative
       at_home,
       shard_problem(shard, schema) AS problem
FROM shard_states() JOIN pg_catalog.pg_namespace ON pg_namespace.oid OPERATOR(pg_catalog.=) schema;

GRANT EXECUTE ON FUNCTION shard_problem(integer, regnamespace) TO PUBLIC;

COMMENT ON FUNCTION shard_problem(integer, regnamespace) IS
'what keeps the shard of a schema from generating its ids as it should; a part of the view shards';
COMMENT ON COLUMN shards.problem IS 'what keeps the functions of the shard from generating its ids as they should; NULL where all is well';

-- A new installation grants these to PUBLIC, whatever the default privileges are. An upgrade grants only those that
-- PUBLIC can execute now, so that a privilege that an administrator has revoked stays revoked. adopt_shard() names it
-- if it is needed.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'next_id()', 'next_id(integer)', 'next_id(integer, regclass)', 'next_id(integer, regclass, timestamptz)',
        'shard_next_id(integer, regclass, timestamptz)', 'next_ids(integer, integer)', 'node_next_id(regclass, timestamptz)',
        'id_time(bigint)', 'id_time(bigint, timestamptz)', 'shard_id_time(bigint, timestamptz)', 'id_shard(bigint)',
        'id_seq(bigint)', 'id_parts(bigint)', 'id_parts(bigint, timestamptz)', 'make_id(timestamptz, integer, integer)',
        'make_id(timestamptz, integer, integer, timestamptz)', 'id_floor(timestamptz)',
        'id_floor(timestamptz, timestamptz)', 'id_range_end(timestamptz, timestamptz)',
        'id_range_end(timestamptz, timestamptz, timestamptz)', 'id_between(bigint, timestamptz, timestamptz)',
        'id_between(bigint, timestamptz, timestamptz, timestamptz)', 'backfill_id(timestamptz, integer)',
        'backfill_id(timestamptz, integer, timestamptz)', 'id_to_shortcode(bigint)', 'shortcode_to_id(text)',
        'id_explain(bigint, timestamptz)', 'shard_for(bigint, integer)', 'shard_states()',
        'instagram_id_version()']::text[]
    LOOP
        IF has_function_privilege('public', name, 'EXECUTE') THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', name);
        END IF;
    END LOOP;
END $$;

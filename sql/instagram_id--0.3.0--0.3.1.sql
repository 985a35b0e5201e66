-- 0.3.1 closes holes; see CHANGELOG.md. A node of a Citus cluster with 0.3.0 gets no sequence from one with 0.3.1, nor the other
-- way round: their hand-overs are not the same.
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

-- 0.3.0 adds support for Citus: ids from triggers, ids of a node, and the hand-over of sequences between nodes.
\echo Use "ALTER EXTENSION instagram_id UPDATE" to load this file. \quit

CREATE FUNCTION node_next_id(seq regclass, epoch timestamp with time zone DEFAULT NULL) RETURNS bigint
VOLATILE PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'node_next_id_wrapper';

CREATE FUNCTION shard_hand_over(seq regclass, new_home integer DEFAULT NULL) RETURNS TABLE (above bigint, last_home integer)
VOLATILE PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'shard_hand_over_wrapper';

CREATE FUNCTION assign_id() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME', 'assign_id_wrapper';

CREATE FUNCTION create_id_triggers(shard integer) RETURNS TABLE (table_name regclass, column_name text)
VOLATILE PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'create_id_triggers_wrapper';

COMMENT ON FUNCTION node_next_id(regclass, timestamptz) IS
'next id of the Citus node that the call runs on, with its group id for a shard, from its own copy of a sequence';
COMMENT ON FUNCTION shard_hand_over(regclass, integer) IS
'shuts this Citus node''s copy of a sequence for the node that becomes its home; a part of next_id()';
COMMENT ON FUNCTION assign_id() IS
'trigger BEFORE INSERT FOR EACH ROW, with a shard and a column for arguments: fills the column with the shard''s next id';
COMMENT ON FUNCTION create_id_triggers(integer) IS
'has the tables of a shard get their ids by a trigger instead of a default, as Citus needs it';

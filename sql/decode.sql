-- Decoders written in SQL. Part of the extension's script; see src/functions/decode.rs.

-- They return one row that is not a set, which pgrx does not support.
CREATE FUNCTION id_parts(id bigint, OUT created_at timestamptz, OUT shard integer, OUT seq integer)
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    BEGIN ATOMIC SELECT id_time(id), id_shard(id), id_seq(id); END;

CREATE FUNCTION id_parts(id bigint, epoch timestamptz, OUT created_at timestamptz, OUT shard integer, OUT seq integer)
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    BEGIN ATOMIC SELECT id_time(id, epoch), id_shard(id), id_seq(id); END;

-- The planner inlines these into two comparisons, for which it can use an index on the id. It would not inline them if
-- they were STRICT, because AND is not strict.
CREATE FUNCTION id_between(id bigint, from_time timestamptz, to_time timestamptz) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN id >= id_floor(from_time) AND id < id_range_end(from_time, to_time);

CREATE FUNCTION id_between(id bigint, from_time timestamptz, to_time timestamptz, epoch timestamptz) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN id >= id_floor(from_time, epoch) AND id < id_range_end(from_time, to_time, epoch);

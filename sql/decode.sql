-- The decoders that are SQL, for what only SQL can do. Part of the extension's script; see src/decode.rs.

-- One row without being a set, which a function in Rust cannot return.
CREATE FUNCTION id_parts(id bigint, OUT created_at timestamptz, OUT shard integer, OUT seq integer)
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    BEGIN ATOMIC SELECT id_time(id), id_shard(id), id_seq(id); END;

CREATE FUNCTION id_parts(id bigint, epoch timestamptz, OUT created_at timestamptz, OUT shard integer, OUT seq integer)
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    BEGIN ATOMIC SELECT id_time(id, epoch), id_shard(id), id_seq(id); END;

-- The planner inlines these into two comparisons that an index on the id serves. That they are not STRICT is the
-- condition for that: AND is not strict.
CREATE FUNCTION id_between(id bigint, from_time timestamptz, to_time timestamptz) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN id >= id_floor(from_time) AND id < id_range_end(from_time, to_time);

CREATE FUNCTION id_between(id bigint, from_time timestamptz, to_time timestamptz, epoch timestamptz) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN id >= id_floor(from_time, epoch) AND id < id_range_end(from_time, to_time, epoch);

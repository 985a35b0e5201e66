SELECT schema, relnamespace = n.oid AS has_sequence, coalesce(reason, '') AS reason FROM {extension}.id_shards
    JOIN pg_class AS c ON c.oid = sequence JOIN pg_namespace AS n ON nspname = schema
WHERE shard = $1::int

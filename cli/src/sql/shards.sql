SELECT schema, relnamespace = n.oid, coalesce(reason, '') FROM {extension}.id_shards
    JOIN pg_class AS c ON c.oid = sequence JOIN pg_namespace AS n ON nspname = schema
WHERE shard = $1::int

SELECT nspname AS schema, relnamespace = n.oid AS has_sequence, coalesce({extension}._shard_reason(shard, schema), '') AS reason
FROM {extension}._shard_states() JOIN pg_class AS c ON c.oid = sequence JOIN pg_namespace AS n ON n.oid = schema
WHERE shard = $1::int

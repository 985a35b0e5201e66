-- The definitions of the shard $1 among which the extension would choose: those of superusers and of
-- the owner of the database come before all others. $2: the role that will own one more, or empty.
SELECT schema, definition, owner, has_sequence, reason FROM (
    SELECT nspname AS schema, format('%I.%I()', nspname, proname) AS definition, rolname AS owner, relnamespace = n.oid AS has_sequence,
        coalesce({extension}._shard_reason(shard, s.schema), '') AS reason, is_first,
        bool_or(is_first) OVER () OR EXISTS (SELECT FROM pg_roles WHERE rolname = $2::text AND pg_has_role(oid, datdba, 'USAGE')) AS has_first
    FROM {extension}._shard_states() AS s JOIN pg_class AS c ON c.oid = sequence JOIN pg_namespace AS n ON n.oid = s.schema
        JOIN pg_proc AS p ON proname = 'shard_' || shard AND pronargs = 0 AND pronamespace = s.schema JOIN pg_roles AS r ON r.oid = proowner
        JOIN pg_database ON datname = current_database()
        CROSS JOIN LATERAL (SELECT proowner = 'pg_database_owner'::regrole OR pg_has_role(proowner, datdba, 'USAGE')) AS f (is_first)
    WHERE shard = $1::int
) AS shards WHERE is_first OR NOT has_first ORDER BY definition

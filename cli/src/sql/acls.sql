-- The privileges on the objects of the schema $1, also those by default. Spliced into other queries
-- after WITH.
acls (owner, object, suffix, acl) AS MATERIALIZED (
    SELECT nspowner, 'SCHEMA ' || oid::regnamespace, '', coalesce(nspacl, acldefault('n', nspowner)) FROM pg_namespace WHERE nspname = $1::text
    UNION ALL
    SELECT relowner, CASE relkind WHEN 'S' THEN 'SEQUENCE ' ELSE 'TABLE ' END || oid::regclass, '',
        coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", relowner))
    FROM pg_class WHERE relnamespace = quote_ident($1::text)::regnamespace AND relkind NOT IN ('i', 'I', 'c')
    UNION ALL
    SELECT relowner, 'TABLE ' || c.oid::regclass, format(' (%I)', attname), attacl
    FROM pg_class AS c JOIN pg_attribute ON attrelid = c.oid WHERE relnamespace = quote_ident($1::text)::regnamespace AND attacl IS NOT NULL AND NOT attisdropped
    UNION ALL
    SELECT proowner, 'ROUTINE ' || oid::regprocedure, '', coalesce(proacl, acldefault('f', proowner))
    FROM pg_proc AS p WHERE pronamespace = quote_ident($1::text)::regnamespace AND NOT (proname = 'shard_is_elsewhere' AND pronargs = 0)
        -- The functions of a range type belong to the superuser of initdb.
        AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'i')
    UNION ALL
    -- In PostgreSQL 15, ALTER TYPE ... OWNER of a range type does not change its multirange type, nor the
    -- array type of that. Nobody can grant anything on an array type.
    SELECT owner, 'TYPE ' || t.oid::regtype, '', coalesce(typacl, acldefault('T', owner))
    FROM pg_type AS t LEFT JOIN pg_range ON t.oid = rngmultitypid
        CROSS JOIN LATERAL (SELECT typowner FROM pg_type AS r WHERE r.oid = coalesce(rngtypid, t.oid)) AS r (owner)
    WHERE typnamespace = quote_ident($1::text)::regnamespace AND NOT EXISTS (SELECT FROM pg_type AS e WHERE e.oid = t.typelem AND e.typarray = t.oid)
)

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
    FROM pg_class AS c JOIN pg_attribute ON attrelid = c.oid WHERE relnamespace = quote_ident($1::text)::regnamespace AND attacl IS NOT NULL
    UNION ALL
    SELECT proowner, 'ROUTINE ' || oid::regprocedure, '', coalesce(proacl, acldefault('f', proowner))
    FROM pg_proc WHERE pronamespace = quote_ident($1::text)::regnamespace AND NOT (proname = 'shard_is_elsewhere' AND pronargs = 0)
    UNION ALL
    SELECT typowner, 'TYPE ' || oid::regtype, '', coalesce(typacl, acldefault('T', typowner))
    FROM pg_type WHERE typnamespace = quote_ident($1::text)::regnamespace
)

-- The owners of the schema and of what is in it. The functions of a range type belong to the superuser
-- of initdb, and its multirange type may have another owner in PostgreSQL 15. An array type has the owner
-- of its elements.
SELECT DISTINCT rolname FROM pg_roles JOIN (
    SELECT nspowner FROM pg_namespace WHERE nspname = $1::text
    UNION SELECT relowner FROM pg_class WHERE relnamespace = quote_ident($1::text)::regnamespace
    UNION SELECT proowner FROM pg_proc AS p WHERE pronamespace = quote_ident($1::text)::regnamespace
        AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'i')
    UNION SELECT typowner FROM pg_type AS t WHERE typnamespace = quote_ident($1::text)::regnamespace
        AND typtype <> 'm' AND NOT EXISTS (SELECT FROM pg_type AS e WHERE e.oid = t.typelem AND e.typarray = t.oid)
) AS owners (owner) ON owner = oid ORDER BY rolname

-- The owners of the schema and of what is in it.
SELECT DISTINCT rolname FROM pg_roles JOIN (
    SELECT nspowner FROM pg_namespace WHERE nspname = $1::text
    UNION SELECT relowner FROM pg_class WHERE relnamespace = quote_ident($1::text)::regnamespace
    UNION SELECT proowner FROM pg_proc WHERE pronamespace = quote_ident($1::text)::regnamespace
    UNION SELECT typowner FROM pg_type WHERE typnamespace = quote_ident($1::text)::regnamespace
) AS owners (owner) ON owner = oid ORDER BY rolname

-- The first queries on the target need statistics for good plans. Each of these statements runs as the owner of its table.
-- A materialized view of a superuser is refreshed only if superusers own all functions, because the refresh would run
-- functions of other owners as superuser.
SELECT format('REFRESH MATERIALIZED VIEW %I.%I', $1::text, relname) FROM (
    SELECT c.oid, relname FROM pg_class AS c JOIN pg_roles AS r ON r.oid = relowner
    WHERE relnamespace = quote_ident($1)::regnamespace AND relkind = 'm' AND (NOT rolsuper OR NOT EXISTS (
        SELECT FROM pg_proc JOIN pg_roles AS p ON p.oid = proowner WHERE NOT p.rolsuper)) ORDER BY c.oid
) AS views
UNION ALL
SELECT format('ANALYZE %I.%I', $1::text, relname) FROM pg_class
WHERE relnamespace = quote_ident($1)::regnamespace AND relkind IN ('r', 'p', 'm') AND NOT relispartition

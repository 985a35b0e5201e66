-- So that the first queries on the target are planned as well as the last ones on the source. Each of these statements
-- changes to the owner of its table. A view that a superuser owns is left as it is: there that would let the owners of
-- its functions run them as superuser.
SELECT format('REFRESH MATERIALIZED VIEW %I.%I', $1::text, relname) FROM (
    SELECT c.oid, relname FROM pg_class AS c JOIN pg_roles AS r ON r.oid = relowner
    WHERE relnamespace = quote_ident($1)::regnamespace AND relkind = 'm' AND (NOT rolsuper OR NOT EXISTS (
        SELECT FROM pg_proc JOIN pg_roles AS p ON p.oid = proowner WHERE NOT p.rolsuper)) ORDER BY c.oid
) AS views
UNION ALL
SELECT format('ANALYZE %I.%I', $1::text, relname) FROM pg_class
WHERE relnamespace = quote_ident($1)::regnamespace AND relkind IN ('r', 'p', 'm') AND NOT relispartition

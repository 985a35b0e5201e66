-- The first queries on the target need statistics for good plans. Each of these statements runs as
-- the owner of its table. $2: the materialized views that are populated on the source.
SELECT format('REFRESH MATERIALIZED VIEW %I.%I', $1::text, relname) FROM (
    SELECT relname FROM pg_class WHERE relnamespace = quote_ident($1)::regnamespace AND relkind = 'm' AND $2::jsonb ? relname ORDER BY oid
) AS views
UNION ALL
SELECT format('ANALYZE %I.%I', $1::text, relname) FROM pg_class
WHERE relnamespace = quote_ident($1)::regnamespace AND relkind IN ('r', 'p', 'm') AND NOT relispartition

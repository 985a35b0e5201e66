SELECT coalesce(sum(pg_table_size(c.oid))::bigint, 0) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
WHERE nspname = $1 AND relkind = 'r'

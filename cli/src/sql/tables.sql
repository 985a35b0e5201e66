SELECT md5(string_agg(said, E'\n' ORDER BY said COLLATE "C")) FROM (
    SELECT concat_ws(' ', relname, relkind, relpersistence, rank() OVER (PARTITION BY c.oid ORDER BY attnum), attname,
                     format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated, pg_get_expr(adbin, adrelid)) AS said
    FROM pg_class AS c JOIN pg_attribute ON attrelid = c.oid LEFT JOIN pg_attrdef ON adrelid = c.oid AND adnum = attnum
    WHERE relnamespace = quote_ident($1::text)::regnamespace AND relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class AS c ON c.oid = indrelid
    WHERE relnamespace = quote_ident($1::text)::regnamespace AND relkind IN ('r', 'p')
    UNION ALL
    SELECT concat_ws(' ', relname, conname, pg_get_constraintdef(n.oid)) FROM pg_constraint AS n JOIN pg_class AS c ON c.oid = conrelid
    WHERE relnamespace = quote_ident($1::text)::regnamespace AND contype IN ('c', 'f', 'p', 'u', 'x')
    UNION ALL
    SELECT concat_ws(' ', tgenabled, pg_get_triggerdef(t.oid)) FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = tgrelid
    WHERE relnamespace = quote_ident($1::text)::regnamespace AND NOT tgisinternal AND tgname <> 'shard_is_elsewhere'
) AS tables;

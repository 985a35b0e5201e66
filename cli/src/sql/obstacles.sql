SELECT format('table %I.%I has no primary key, so its updates and deletes could not follow: add one, or set a REPLICA IDENTITY', $1::text, relname)
FROM pg_class AS c WHERE relnamespace = quote_ident($1::text)::regnamespace AND relkind = 'r'
  AND (relreplident = 'n' OR relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisprimary))
UNION ALL
SELECT format('table %I.%I is %s, which is not replicated', $1::text, relname,
              CASE WHEN relkind = 'f' THEN 'a foreign table' ELSE 'unlogged' END)
FROM pg_class WHERE relnamespace = quote_ident($1::text)::regnamespace AND (relkind = 'f' OR relkind IN ('r', 'p') AND relpersistence = 'u')
UNION ALL
SELECT format('%s and its partition or child %s are not both in schema %I', inhparent::regclass, inhrelid::regclass, $1::text)
FROM pg_inherits JOIN pg_class AS p ON p.oid = inhparent JOIN pg_class AS c ON c.oid = inhrelid
WHERE p.relkind IN ('r', 'p') AND p.relnamespace <> c.relnamespace
  AND quote_ident($1::text)::regnamespace IN (p.relnamespace, c.relnamespace)
UNION ALL
SELECT format('foreign key %I of %s leads out of schema %I or into it', conname, conrelid::regclass, $1::text)
FROM pg_constraint JOIN pg_class AS p ON p.oid = confrelid JOIN pg_class AS c ON c.oid = conrelid
WHERE contype = 'f' AND p.relnamespace <> c.relnamespace AND quote_ident($1::text)::regnamespace IN (p.relnamespace, c.relnamespace)

SELECT format('table %I.%I has no primary key or replica identity that is valid and not deferrable, so its updates and deletes could not follow: add one', $1::text, relname)
FROM pg_class AS c WHERE relnamespace = quote_ident($1::text)::regnamespace AND relkind = 'r' AND relreplident <> 'f' AND NOT EXISTS (
    SELECT FROM pg_index WHERE indrelid = c.oid AND indisvalid AND indimmediate
        AND CASE relreplident WHEN 'd' THEN indisprimary WHEN 'i' THEN indisreplident END)
UNION ALL
SELECT format('table %I.%I has REPLICA IDENTITY FULL, but column %I has a type without equality, so its updates and deletes could not follow: use a key', $1::text, relname, attname)
FROM pg_class AS c JOIN pg_attribute ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped JOIN pg_type AS t ON t.oid = atttypid
WHERE relnamespace = quote_ident($1::text)::regnamespace AND relkind = 'r' AND relreplident = 'f' AND typtype = 'b' AND typcategory <> 'A'
  AND NOT EXISTS (SELECT FROM pg_opclass WHERE opcdefault AND opcmethod IN (403, 405)
                  AND (opcintype = t.oid OR opcintype IN (SELECT casttarget FROM pg_cast WHERE castsource = t.oid AND castmethod = 'b')))
UNION ALL
SELECT format('constraint %I of %I.%I is NOT VALID, so the copy could reject rows: ALTER TABLE %2$I.%3$I VALIDATE CONSTRAINT %1$I', conname, $1::text, relname)
FROM pg_constraint JOIN pg_class AS c ON c.oid = conrelid
WHERE relnamespace = quote_ident($1::text)::regnamespace AND contype = 'c' AND NOT convalidated
UNION ALL
SELECT format('column %I of %s uses %s, which is not in the same schema, so inserts would fail after the move or repeat values: use one in the same schema',
              attname, c.oid::regclass, pg_describe_object(refclassid, refobjid, 0))
FROM pg_depend JOIN pg_attrdef AS d ON classid = 'pg_attrdef'::regclass AND objid = d.oid
    JOIN pg_class AS c ON c.oid = adrelid JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
    LEFT JOIN pg_class AS s ON refclassid = 'pg_class'::regclass AND s.oid = refobjid AND s.relkind = 'S'
    LEFT JOIN pg_proc AS p ON refclassid = 'pg_proc'::regclass AND p.oid = refobjid
WHERE coalesce(s.relnamespace, p.pronamespace) <> c.relnamespace
  AND (s.relnamespace = quote_ident($1::text)::regnamespace OR p.pronamespace = quote_ident($1::text)::regnamespace
       OR s.oid IS NOT NULL AND c.relnamespace = quote_ident($1::text)::regnamespace)
UNION ALL
SELECT format('table %I.%I is %s, which is not replicated', $1::text, relname,
              CASE WHEN relkind = 'f' THEN 'a foreign table' ELSE 'unlogged' END)
FROM pg_class WHERE relnamespace = quote_ident($1::text)::regnamespace AND (relkind = 'f' OR relkind IN ('r', 'p') AND relpersistence = 'u')
UNION ALL
SELECT format('trigger %I of %I.%I fires for the replication, too (ENABLE ALWAYS or REPLICA): ALTER TABLE %2$I.%3$I ENABLE TRIGGER %1$I', tgname, $1::text, relname)
FROM pg_trigger JOIN pg_class AS c ON c.oid = tgrelid
WHERE relnamespace = quote_ident($1::text)::regnamespace AND tgenabled IN ('A', 'R') AND tgname <> 'shard_is_elsewhere'
UNION ALL
SELECT format('rule %I of %I.%I is enabled for the replication, too (ALWAYS or REPLICA): ALTER TABLE %2$I.%3$I ENABLE RULE %1$I', rulename, $1::text, relname)
FROM pg_rewrite JOIN pg_class AS c ON c.oid = ev_class WHERE relnamespace = quote_ident($1::text)::regnamespace AND ev_enabled IN ('A', 'R')
UNION ALL
SELECT format('row-level security of table %I.%I applies to role %I, so the copy could lack rows: ALTER TABLE %1$I.%2$I NO FORCE ROW LEVEL SECURITY',
              $1::text, relname, CASE WHEN row_security_active(c.oid) THEN current_user ELSE rolname END)
FROM pg_class AS c JOIN pg_roles AS r ON r.oid = relowner
WHERE relnamespace = quote_ident($1::text)::regnamespace
  AND (row_security_active(c.oid) OR relrowsecurity AND relforcerowsecurity AND NOT rolsuper AND NOT rolbypassrls)
UNION ALL
SELECT format('table %I.%I receives rows by subscription %I: drop that, or refresh it without this table', $1::text, relname, subname)
FROM pg_subscription_rel JOIN pg_class AS c ON c.oid = srrelid JOIN pg_subscription AS s ON s.oid = srsubid
WHERE relnamespace = quote_ident($1::text)::regnamespace
UNION ALL
SELECT format('role %I lacks a privilege on its own table %I.%I, so it could not write the rows on the new server: GRANT ALL ON %2$I.%3$I TO %1$I', rolname, $1::text, relname)
FROM pg_class AS c JOIN pg_roles AS r ON r.oid = relowner
WHERE relnamespace = quote_ident($1::text)::regnamespace AND relkind = 'r' AND NOT (has_table_privilege(r.oid, c.oid, 'SELECT')
    AND has_table_privilege(r.oid, c.oid, 'INSERT') AND has_table_privilege(r.oid, c.oid, 'UPDATE')
    AND has_table_privilege(r.oid, c.oid, 'DELETE') AND has_table_privilege(r.oid, c.oid, 'TRUNCATE'))
UNION ALL
SELECT format('%s and its partition or child %s are not both in schema %I', inhparent::regclass, inhrelid::regclass, $1::text)
FROM pg_inherits JOIN pg_class AS p ON p.oid = inhparent JOIN pg_class AS c ON c.oid = inhrelid
WHERE p.relkind IN ('r', 'p') AND p.relnamespace <> c.relnamespace
  AND quote_ident($1::text)::regnamespace IN (p.relnamespace, c.relnamespace)
UNION ALL
SELECT format('foreign key %I of %s leads out of schema %I or into it', conname, conrelid::regclass, $1::text)
FROM pg_constraint JOIN pg_class AS p ON p.oid = confrelid JOIN pg_class AS c ON c.oid = conrelid
WHERE contype = 'f' AND p.relnamespace <> c.relnamespace AND quote_ident($1::text)::regnamespace IN (p.relnamespace, c.relnamespace)

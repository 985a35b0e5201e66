-- Owners of tables in the schema $1 that could not write to them. The replication runs with their
-- rights, which they can have by a membership on one of the servers only.
SELECT format('role %I lacks a privilege on its own table %I.%I, so it could not write the rows on the new server: GRANT ALL ON %2$I.%3$I TO %1$I', rolname, $1::text, relname)
FROM pg_class AS c JOIN pg_roles AS r ON r.oid = relowner
WHERE relnamespace = quote_ident($1::text)::regnamespace AND relkind = 'r' AND NOT (has_table_privilege(r.oid, c.oid, 'SELECT')
    AND has_table_privilege(r.oid, c.oid, 'INSERT') AND has_table_privilege(r.oid, c.oid, 'UPDATE')
    AND has_table_privilege(r.oid, c.oid, 'DELETE') AND has_table_privilege(r.oid, c.oid, 'TRUNCATE'))
UNION ALL
SELECT DISTINCT format('role %I owns tables in schema %I, but lacks USAGE on it, so it could not write the rows on the new server: GRANT USAGE ON SCHEMA %2$I TO %1$I', rolname, $1::text)
FROM pg_class AS c JOIN pg_roles AS r ON r.oid = relowner
WHERE relnamespace = quote_ident($1::text)::regnamespace AND relkind = 'r' AND NOT has_schema_privilege(r.oid, relnamespace, 'USAGE')

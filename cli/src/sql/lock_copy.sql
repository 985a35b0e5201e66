DO $do$
DECLARE
    s name := current_setting('move.schema');
    item record;
BEGIN
    EXECUTE format('ALTER SCHEMA %I OWNER TO CURRENT_USER', s);
    FOR item IN SELECT DISTINCT grantee, rolname FROM pg_namespace CROSS JOIN aclexplode(nspacl) LEFT JOIN pg_roles AS r ON r.oid = grantee
                 WHERE nspname = s AND grantee <> nspowner
    LOOP
        EXECUTE format('REVOKE ALL ON SCHEMA %I FROM %s CASCADE', s, coalesce(quote_ident(item.rolname), 'PUBLIC'));
    END LOOP;
END $do$;

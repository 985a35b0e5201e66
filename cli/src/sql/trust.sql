-- The roles that can put code into the schema $1 or into an object that it uses, directly or not,
-- and that the command does not trust. $2: the addresses of further objects that a dump uses. $3:
-- roles whose rights a dump repeats, as this query returns them on the source. $4: the roles that
-- the administrator trusts. Everything is a value: no name is spliced into a statement.
WITH RECURSIVE {own}, used (class, object) AS (
    (SELECT class, object FROM own
     UNION ALL
     SELECT classid, objid FROM jsonb_to_recordset($2::jsonb) AS o (type text, names text, arguments text)
         CROSS JOIN pg_get_object_address(type, names::text[], arguments::text[])
     UNION ALL
     SELECT 'pg_extension'::regclass, oid FROM pg_extension WHERE extname = 'instagram_id'
     UNION ALL
     SELECT classid, objid FROM pg_depend JOIN pg_extension AS e ON refobjid = e.oid
     WHERE refclassid = 'pg_extension'::regclass AND extname = 'instagram_id' AND deptype = 'e')
    UNION
    -- To what an object refers, and its parts: the constraints of a domain, the defaults and
    -- triggers of a table.
    SELECT next.* FROM used CROSS JOIN LATERAL (
        SELECT refclassid, refobjid FROM pg_depend WHERE classid = class AND objid = object
        UNION ALL
        SELECT classid, objid FROM pg_depend WHERE refclassid = class AND refobjid = object AND deptype IN ('a', 'i')) AS next
), rights (role, what, is_dumped) AS (
    SELECT rolname, 'owns ' || pg_describe_object(class, object, 0), (class, object) IN (SELECT class, object FROM own)
    FROM used JOIN pg_shdepend ON classid = class AND objid = object JOIN pg_roles AS r ON r.oid = refobjid
    WHERE deptype = 'o' AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
    UNION
    SELECT coalesce(rolname, 'public'), format('has %s on %s', privilege_type, pg_describe_object(class, object, 0)),
        (class, object) IN (SELECT class, object FROM own)
    FROM used JOIN (
        SELECT 'pg_namespace'::regclass, oid, nspowner, nspacl FROM pg_namespace
        UNION ALL SELECT 'pg_class'::regclass, oid, relowner, relacl FROM pg_class
        UNION ALL SELECT 'pg_class'::regclass, attrelid, NULL, attacl FROM pg_attribute WHERE attacl IS NOT NULL
    ) AS acls (acl_class, acl_object, acl_owner, acl) ON acl_class = class AND acl_object = object
        CROSS JOIN aclexplode(acl) LEFT JOIN pg_roles AS r ON r.oid = grantee
    WHERE privilege_type IN ('CREATE', 'TRIGGER', 'REFERENCES') AND grantee IS DISTINCT FROM acl_owner
    UNION
    SELECT rolname, 'owns the database', false FROM pg_database JOIN pg_roles AS r ON r.oid = datdba WHERE datname = current_database()
    -- PostgreSQL does not record what the superuser of initdb owns.
    UNION
    SELECT rolname, 'owns the system catalogs', false FROM pg_roles WHERE oid = 10
    UNION
    SELECT role, what, false FROM jsonb_to_recordset($3::jsonb) AS r (role text, what text)
), holders (id, role, what) AS MATERIALIZED (
    SELECT r.oid, role, concat((array_agg(what ORDER BY what))[1], ', ' || (array_agg(what ORDER BY what))[2],
                               ' and ' || nullif(greatest(count(*) - 2, 0), 0) || ' more')
    FROM rights LEFT JOIN pg_roles AS r ON rolname = role
    -- The only member of pg_database_owner is the owner of the database.
    WHERE role <> 'pg_database_owner' AND (r.oid IS NOT NULL OR role = 'public') GROUP BY r.oid, role
), candidates (id, role, what) AS (
    SELECT id, role, what FROM holders
    UNION ALL
    SELECT oid, rolname, format('is a member of %I, which %s', role, what)
    FROM holders JOIN pg_roles ON oid <> id AND NOT rolsuper AND pg_has_role(oid, id, 'MEMBER')
    UNION ALL
    SELECT oid, rolname, 'has CREATEROLE, with which it can become any role that is no superuser' FROM pg_roles
    WHERE rolcreaterole AND NOT rolsuper AND current_setting('server_version_num')::int < 160000
        AND EXISTS (SELECT FROM holders JOIN pg_roles AS h ON h.oid = id WHERE NOT h.rolsuper)
)
SELECT (SELECT coalesce(jsonb_agg(jsonb_build_object('role', role, 'what', what)), '[]') FROM rights WHERE is_dumped) AS dumped,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('role', role, 'what', what) ORDER BY role, what), '[]') FROM candidates
     WHERE NOT $4::jsonb ? role AND NOT EXISTS (
         SELECT FROM pg_roles AS s WHERE (s.rolsuper OR s.rolname = current_user)
             AND pg_has_role(id, s.oid, CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END))) AS untrusted

-- The roles that can put code into the schema $1 or into an object that it uses, directly or not,
-- and that the command does not trust. $2: the addresses of further objects that a dump uses. $3:
-- roles whose rights a dump repeats, as this query returns them on the source. $4: the roles that
-- the administrator trusts. $5: whether the schema is moved; then the extension, the owner of the
-- database and roles with CREATEROLE count, too. Everything is a value: no name is spliced into a
-- statement.
WITH RECURSIVE {own}, used (class, object) AS (
    (SELECT class, object FROM own
     UNION ALL
     SELECT classid, objid FROM jsonb_to_recordset($2::jsonb) AS o (type text, names text, arguments text)
         CROSS JOIN pg_get_object_address(type, names::text[], arguments::text[])
     UNION ALL
     SELECT classid, objid FROM pg_depend JOIN pg_extension AS e ON refobjid = e.oid
     WHERE refclassid = 'pg_extension'::regclass AND extname = 'instagram_id' AND deptype = 'e' AND $5::bool)
    UNION
    -- To what an object refers, and its parts: the constraints of a domain, the defaults and
    -- triggers of a table.
    SELECT next.* FROM used CROSS JOIN LATERAL (
        SELECT refclassid, refobjid FROM pg_depend WHERE classid = class AND objid = object
        UNION ALL
        SELECT classid, objid FROM pg_depend WHERE refclassid = class AND refobjid = object AND deptype IN ('a', 'i')
        -- A dump names them in text, for which each server looks among these.
        UNION ALL
        SELECT class, o.oid FROM pg_proc AS f JOIN pg_proc AS o USING (proname, pronamespace) WHERE class = 'pg_proc'::regclass AND f.oid = object
        UNION ALL
        SELECT class, o.oid FROM pg_operator AS f JOIN pg_operator AS o USING (oprname, oprnamespace) WHERE class = 'pg_operator'::regclass AND f.oid = object
        UNION ALL
        SELECT 'pg_proc'::regclass, castfunc FROM pg_cast WHERE class = 'pg_type'::regclass AND object IN (castsource, casttarget) AND castfunc <> 0) AS next
), rights (role, what, is_dumped) AS (
    SELECT rolname, 'owns ' || pg_describe_object(class, object, 0), (class, object) IN (SELECT class, object FROM own)
    FROM used JOIN pg_shdepend ON classid = class AND objid = object JOIN pg_roles AS r ON r.oid = refobjid
    -- Default privileges contain no code, and any role can have some in any schema.
    WHERE deptype = 'o' AND classid <> 'pg_default_acl'::regclass AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
    UNION
    -- That catalog does not contain what the predefined roles own, of which other roles are members.
    SELECT rolname, 'owns ' || pg_describe_object(class, object, 0), (class, object) IN (SELECT class, object FROM own)
    FROM used JOIN (
        SELECT 'pg_namespace'::regclass, oid, nspowner FROM pg_namespace
        UNION ALL SELECT 'pg_class'::regclass, oid, relowner FROM pg_class WHERE relkind NOT IN ('i', 'I', 't')
        UNION ALL SELECT 'pg_proc'::regclass, oid, proowner FROM pg_proc
        UNION ALL SELECT 'pg_type'::regclass, oid, typowner FROM pg_type AS t
            WHERE typrelid = 0 AND NOT EXISTS (SELECT FROM pg_type AS e WHERE e.oid = t.typelem AND e.typarray = t.oid)
        UNION ALL SELECT 'pg_operator'::regclass, oid, oprowner FROM pg_operator
        UNION ALL SELECT 'pg_opclass'::regclass, oid, opcowner FROM pg_opclass
        UNION ALL SELECT 'pg_opfamily'::regclass, oid, opfowner FROM pg_opfamily
        UNION ALL SELECT 'pg_collation'::regclass, oid, collowner FROM pg_collation
        UNION ALL SELECT 'pg_conversion'::regclass, oid, conowner FROM pg_conversion
        UNION ALL SELECT 'pg_statistic_ext'::regclass, oid, stxowner FROM pg_statistic_ext
        UNION ALL SELECT 'pg_ts_config'::regclass, oid, cfgowner FROM pg_ts_config
        UNION ALL SELECT 'pg_ts_dict'::regclass, oid, dictowner FROM pg_ts_dict
        UNION ALL SELECT 'pg_language'::regclass, oid, lanowner FROM pg_language
        UNION ALL SELECT 'pg_foreign_data_wrapper'::regclass, oid, fdwowner FROM pg_foreign_data_wrapper
        UNION ALL SELECT 'pg_foreign_server'::regclass, oid, srvowner FROM pg_foreign_server
        UNION ALL SELECT 'pg_extension'::regclass, oid, extowner FROM pg_extension
    ) AS owned (of_class, of_object, owner) ON of_class = class AND of_object = object JOIN pg_roles AS r ON r.oid = owner
    WHERE r.oid < 16384 AND r.oid <> 10
    UNION
    SELECT CASE grantee WHEN 0 THEN 'public' ELSE rolname END, format('has %s on %s', privilege_type, pg_describe_object(class, object, 0)),
        (class, object) IN (SELECT class, object FROM own)
    FROM used JOIN (
        SELECT 'pg_namespace'::regclass, oid, nspowner, nspacl FROM pg_namespace
        UNION ALL SELECT 'pg_class'::regclass, oid, relowner, relacl FROM pg_class
        UNION ALL SELECT 'pg_class'::regclass, attrelid, NULL, attacl FROM pg_attribute WHERE attacl IS NOT NULL AND NOT attisdropped
    ) AS acls (acl_class, acl_object, acl_owner, acl) ON acl_class = class AND acl_object = object
        CROSS JOIN aclexplode(acl) LEFT JOIN pg_roles AS r ON r.oid = grantee
    WHERE privilege_type IN ('CREATE', 'TRIGGER', 'REFERENCES') AND grantee IS DISTINCT FROM acl_owner
    UNION
    SELECT rolname, 'owns the database', false FROM pg_database JOIN pg_roles AS r ON r.oid = datdba
    WHERE datname = current_database() AND $5::bool
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
    WHERE (role <> 'pg_database_owner' OR NOT $5::bool) AND (r.oid IS NOT NULL OR role = 'public') GROUP BY r.oid, role
), candidates (id, role, what) AS (
    SELECT id, role, what FROM holders
    UNION ALL
    SELECT oid, rolname, format('is a member of %I, which %s', role, what)
    FROM holders JOIN pg_roles ON oid <> id AND NOT rolsuper AND pg_has_role(oid, id, 'MEMBER')
    UNION ALL
    SELECT oid, rolname, 'has CREATEROLE, with which it can become any role that is no superuser' FROM pg_roles
    WHERE rolcreaterole AND NOT rolsuper AND $5::bool AND current_setting('server_version_num')::int < 160000
        AND EXISTS (SELECT FROM holders JOIN pg_roles AS h ON h.oid = id WHERE NOT h.rolsuper)
)
SELECT EXISTS (SELECT FROM own) AS schema_exists,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('role', role, 'what', what)), '[]') FROM rights WHERE is_dumped) AS dumped,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('role', role, 'what', what) ORDER BY role, what), '[]') FROM candidates
     WHERE NOT $4::jsonb ? role AND role <> 'pg_database_owner' AND NOT EXISTS (
         SELECT FROM pg_roles AS s WHERE (s.rolsuper OR s.rolname = current_user)
             AND pg_has_role(id, s.oid, CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END))) AS untrusted

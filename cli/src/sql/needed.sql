-- Objects outside the schema to which its definition refers: the address of each for
-- pg_get_object_address, its description, that of one object that refers to it, and the shape of a
-- type of which values are stored. Those of the extension instagram_id are left out.
WITH RECURSIVE {own}, needed (class, object, used_by) AS (
    SELECT refclassid, refobjid, pg_describe_object(classid, objid, objsubid)
    FROM own JOIN pg_depend ON classid = class AND objid = object AND deptype IN ('n', 'x')
    WHERE refobjid >= 16384 AND refclassid <> 'pg_namespace'::regclass AND (refclassid, refobjid) NOT IN (SELECT class, object FROM own)
    UNION ALL
    SELECT refclassid, refobjid, pg_describe_object(classid, objid, objsubid)
    FROM own JOIN pg_shdepend ON classid = class AND objid = object
    WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
    -- PostgreSQL does not record these: the tablespaces of tables and indexes, and the superuser of
    -- initdb.
    UNION ALL
    SELECT 'pg_tablespace'::regclass, reltablespace, pg_describe_object(class, object, 0)
    FROM own JOIN pg_class ON class = 'pg_class'::regclass AND object = oid
    WHERE reltablespace <> 0 AND relnamespace = quote_ident($1::text)::regnamespace -- and not pg_toast
    UNION ALL
    SELECT 'pg_authid'::regclass, relowner, pg_describe_object(class, object, 0)
    FROM own JOIN pg_class ON class = 'pg_class'::regclass AND object = oid WHERE relowner = 10
), objects AS (
    -- An expression with a column of a composite type refers to its row of pg_class, which has no address.
    SELECT CASE relkind WHEN 'c' THEN 'pg_type'::regclass ELSE class END AS class, CASE relkind WHEN 'c' THEN reltype ELSE object END AS object, used_by
    FROM needed LEFT JOIN pg_class ON class = 'pg_class'::regclass AND oid = object
), stored (type) AS (
    -- The types of the columns of tables, and the types of the schema of which these consist.
    SELECT atttypid FROM pg_class AS c JOIN pg_attribute ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped
    WHERE relnamespace = quote_ident($1::text)::regnamespace AND relkind IN ('r', 'p')
    UNION
    -- The type whose columns a table has: CREATE TABLE ... OF.
    SELECT reloftype FROM pg_class WHERE relnamespace = quote_ident($1::text)::regnamespace AND reloftype <> 0
    UNION
    SELECT refobjid FROM stored JOIN pg_type AS t ON t.oid = type JOIN own ON (class, object) IN (('pg_type'::regclass, type), ('pg_class'::regclass, typrelid))
        JOIN pg_depend ON classid = class AND objid = object AND refclassid = 'pg_type'::regclass
)
SELECT i.type, object_names::text AS names, object_args::text AS arguments,
    concat(pg_describe_object(class, object, 0), ' of extension ' || extname) AS description, min(used_by) AS used_by,
    CASE WHEN class = 'pg_type'::regclass AND object IN (SELECT stored.type FROM stored) THEN {shape} END AS shape
FROM objects CROSS JOIN pg_identify_object_as_address(class, object, 0) AS i
    LEFT JOIN (pg_depend JOIN pg_extension AS e ON refclassid = 'pg_extension'::regclass AND refobjid = e.oid)
        ON classid = class AND objid = object AND deptype = 'e'
WHERE extname IS DISTINCT FROM 'instagram_id'
GROUP BY class, object, i.type, object_names, object_args, extname
ORDER BY 1, 2, 3

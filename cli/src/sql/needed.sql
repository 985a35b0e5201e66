-- Objects outside the schema to which its definition refers: the address of each for
-- pg_get_object_address, its description, that of one object that refers to it, and the shape of a
-- type. Those of the extension instagram_id are left out.
WITH RECURSIVE {own}, needed (class, object, used_by) AS (
    SELECT refclassid, refobjid, pg_describe_object(classid, objid, objsubid)
    FROM own JOIN pg_depend ON classid = class AND objid = object AND deptype = 'n'
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
), types (type, used_by) AS (
    -- An expression with a column of a composite type refers to its row of pg_class, which has no address.
    SELECT coalesce(reltype, object), min(used_by) FROM needed LEFT JOIN pg_class ON class = 'pg_class'::regclass AND oid = object AND relkind = 'c'
    WHERE class = 'pg_type'::regclass OR reltype IS NOT NULL GROUP BY 1
    UNION
    -- The types of which it consists.
    SELECT part, used_by FROM types JOIN pg_type AS t ON t.oid = type LEFT JOIN pg_range ON t.oid = rngmultitypid
        LEFT JOIN pg_range AS r ON t.oid = r.rngtypid LEFT JOIN pg_attribute ON attrelid = typrelid AND attnum > 0
        CROSS JOIN LATERAL unnest(ARRAY[typelem, typbasetype, pg_range.rngtypid, r.rngsubtype, atttypid]) AS part
    WHERE part >= 16384 AND ('pg_type'::regclass, part) NOT IN (SELECT class, object FROM own)
), objects AS (
    SELECT class, object, used_by FROM needed LEFT JOIN pg_class ON class = 'pg_class'::regclass AND oid = object WHERE relkind IS DISTINCT FROM 'c'
    UNION ALL
    SELECT 'pg_type'::regclass, type, used_by FROM types
)
SELECT i.type, object_names::text AS names, object_args::text AS arguments,
    concat(pg_describe_object(class, object, 0), ' of extension ' || extname) AS description, min(used_by) AS used_by, min({shape}) AS shape
FROM objects CROSS JOIN pg_identify_object_as_address(class, object, 0) AS i LEFT JOIN pg_type AS t ON class = 'pg_type'::regclass AND t.oid = object
    LEFT JOIN (pg_depend JOIN pg_extension AS e ON refclassid = 'pg_extension'::regclass AND refobjid = e.oid)
        ON classid = class AND objid = object AND deptype = 'e'
WHERE extname IS DISTINCT FROM 'instagram_id'
GROUP BY class, object, i.type, object_names, object_args, extname
ORDER BY 1, 2, 3

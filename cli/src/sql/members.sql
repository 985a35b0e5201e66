-- The objects of the schema $1 that belong to an extension, each with the statement that changes
-- this. pg_dump leaves them out, and DROP SCHEMA ... CASCADE drops the extension. Spliced into
-- other queries after own.sql.
members (problem) AS (
    SELECT format('extension %I is in schema %I, so a move would leave it behind, and clean would drop it: ', extname, $1::text)
        || format(CASE WHEN extrelocatable THEN 'ALTER EXTENSION %I SET SCHEMA public' ELSE 'DROP EXTENSION %I' END, extname)
    FROM own JOIN pg_extension ON class = 'pg_extension'::regclass AND object = oid
    UNION ALL
    SELECT format('%s belongs to extension %I, so a move would leave it behind, and clean would drop the extension: ALTER EXTENSION %2$I DROP %3$s %4$s',
                  pg_describe_object(class, object, 0), extname, upper(type), identity)
    FROM own JOIN pg_depend ON classid = class AND objid = object AND refclassid = 'pg_extension'::regclass AND deptype = 'e'
        JOIN pg_extension AS e ON e.oid = refobjid CROSS JOIN pg_identify_object(class, object, 0)
    WHERE (refclassid, refobjid) NOT IN (SELECT class, object FROM own)
        -- The types of a table that is a member follow it. Its sequences, and the functions of a range type, do not.
        AND NOT (class = 'pg_type'::regclass AND EXISTS (
            SELECT FROM pg_depend AS i JOIN pg_depend AS m ON m.classid = i.refclassid AND m.objid = i.refobjid
            WHERE i.classid = class AND i.objid = object AND i.deptype = 'i' AND m.refclassid = 'pg_extension'::regclass AND m.refobjid = e.oid AND m.deptype = 'e'))
)

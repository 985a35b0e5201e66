-- All objects of the schema $1, with their parts. Spliced into other queries after WITH RECURSIVE.
-- An object that only names the schema, as with 'insta5'::regnamespace, also depends on it, and so does
-- one with parts in several schemas. So an object counts if PostgreSQL places it in the schema, or the
-- object that it is a part of; a TOAST table is in a schema of its own.
own (class, object) AS (
    SELECT 'pg_namespace'::regclass::oid, oid FROM pg_namespace WHERE nspname = $1::text
    UNION
    SELECT classid, objid FROM own JOIN pg_depend ON refclassid = class AND refobjid = object
        CROSS JOIN LATERAL pg_identify_object(classid, objid, 0)
        LEFT JOIN pg_trigger AS t ON classid = 'pg_trigger'::regclass AND t.oid = objid
        LEFT JOIN pg_amop AS o ON classid = 'pg_amop'::regclass AND o.oid = objid
        LEFT JOIN pg_amproc AS p ON classid = 'pg_amproc'::regclass AND p.oid = objid
        LEFT JOIN pg_class AS of_table ON of_table.oid = tgrelid
        LEFT JOIN pg_opfamily AS f ON f.oid = coalesce(amopfamily, amprocfamily)
        LEFT JOIN pg_namespace AS part_of ON part_of.oid = coalesce(relnamespace, opfnamespace)
    WHERE (deptype IN ('a', 'i') OR deptype = 'n' AND class = 'pg_namespace'::regclass)
        AND (deptype <> 'n' OR schema IS NOT NULL OR classid = 'pg_extension'::regclass)
        AND coalesce(schema IN (quote_ident($1::text), 'pg_toast'), true) AND coalesce(nspname = $1::text, true)
        AND classid NOT IN ('pg_publication_rel'::regclass, 'pg_publication_namespace'::regclass)
)

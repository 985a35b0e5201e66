-- All objects of the schema $1, with their parts. Spliced into other queries after WITH RECURSIVE.
-- What only names the schema, as with 'insta5'::regnamespace, also depends on it.
own (class, object) AS (
    SELECT 'pg_namespace'::regclass::oid, oid FROM pg_namespace WHERE nspname = $1::text
    UNION
    SELECT classid, objid FROM own JOIN pg_depend ON refclassid = class AND refobjid = object
    WHERE (deptype IN ('a', 'i') OR deptype = 'n' AND class = 'pg_namespace'::regclass
            AND (classid = 'pg_extension'::regclass OR (pg_identify_object(classid, objid, 0)).schema = quote_ident($1::text)))
        AND classid NOT IN ('pg_publication_rel'::regclass, 'pg_publication_namespace'::regclass)
)

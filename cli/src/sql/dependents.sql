-- Objects outside the schema that DROP SCHEMA ... CASCADE would drop as well.
WITH RECURSIVE {own}
SELECT string_agg(DISTINCT pg_describe_object(class, object, part), ', ') FROM (
    SELECT classid, objid, objsubid FROM own JOIN pg_depend ON refclassid = class AND refobjid = object
    WHERE deptype = 'n' AND (classid, objid) NOT IN (SELECT class, object FROM own)
        AND classid NOT IN ('pg_publication_rel'::regclass, 'pg_publication_namespace'::regclass)
    -- Partitions and statistics are parts of a table, in whichever schema they are.
    UNION
    SELECT class, object, 0 FROM own JOIN pg_class ON class = 'pg_class'::regclass AND object = oid
    WHERE relkind IN ('r', 'p', 'f') AND relnamespace <> quote_ident($1)::regnamespace
    UNION
    SELECT class, object, 0 FROM own JOIN pg_statistic_ext ON class = 'pg_statistic_ext'::regclass AND object = oid
    WHERE stxnamespace <> quote_ident($1)::regnamespace
) AS dependents (class, object, part)

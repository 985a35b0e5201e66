-- Objects outside the schema that DROP SCHEMA ... CASCADE would drop as well.
WITH RECURSIVE {own}
SELECT string_agg(DISTINCT coalesce('view ' || ev_class::regclass || ' of role ' || relowner::regrole, pg_describe_object(class, object, part)), ', ')
FROM (
    SELECT classid, objid, objsubid FROM own JOIN pg_depend ON refclassid = class AND refobjid = object
    WHERE deptype NOT IN ('e', 'x')
        -- The entries of its own tables leave a publication with them.
        AND NOT (classid = 'pg_publication_namespace'::regclass AND class = 'pg_namespace'::regclass)
        AND NOT (classid = 'pg_publication_rel'::regclass AND EXISTS (
            SELECT FROM pg_publication_rel AS r JOIN own AS o ON o.class = 'pg_class'::regclass AND o.object = prrelid WHERE r.oid = objid))
    -- A multirange type is a part of its range type, in whichever schema that is.
    UNION
    SELECT refclassid, refobjid, 0 FROM own JOIN pg_depend ON classid = class AND objid = object WHERE deptype = 'i'
) AS dependents (class, object, part)
    LEFT JOIN (pg_rewrite AS w JOIN pg_class AS c ON c.oid = ev_class) ON class = 'pg_rewrite'::regclass AND w.oid = object AND rulename = '_RETURN'
WHERE (class, object) NOT IN (SELECT class, object FROM own)

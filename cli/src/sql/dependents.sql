-- Objects of other schemas that DROP SCHEMA ... CASCADE would drop as well.
WITH dropped (class, object) AS (
    SELECT 'pg_class'::regclass, oid FROM pg_class WHERE relnamespace = quote_ident($1)::regnamespace
    UNION ALL SELECT 'pg_proc'::regclass, oid FROM pg_proc WHERE pronamespace = quote_ident($1)::regnamespace
    UNION ALL SELECT 'pg_type'::regclass, oid FROM pg_type WHERE typnamespace = quote_ident($1)::regnamespace
), dependents (class, object, sub, schema) AS (
    SELECT DISTINCT classid, objid, objsubid, CASE classid
        WHEN 'pg_rewrite'::regclass THEN (SELECT relnamespace FROM pg_rewrite AS r JOIN pg_class AS c ON c.oid = ev_class WHERE r.oid = objid)
        WHEN 'pg_attrdef'::regclass THEN (SELECT relnamespace FROM pg_attrdef AS d JOIN pg_class AS c ON c.oid = adrelid WHERE d.oid = objid)
        WHEN 'pg_trigger'::regclass THEN (SELECT relnamespace FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = tgrelid WHERE t.oid = objid)
        WHEN 'pg_policy'::regclass THEN (SELECT relnamespace FROM pg_policy AS p JOIN pg_class AS c ON c.oid = polrelid WHERE p.oid = objid)
        WHEN 'pg_constraint'::regclass THEN (SELECT connamespace FROM pg_constraint WHERE oid = objid)
        WHEN 'pg_class'::regclass THEN (SELECT relnamespace FROM pg_class WHERE oid = objid)
        WHEN 'pg_proc'::regclass THEN (SELECT pronamespace FROM pg_proc WHERE oid = objid)
        WHEN 'pg_type'::regclass THEN (SELECT typnamespace FROM pg_type WHERE oid = objid)
        END
    FROM pg_depend JOIN dropped ON refclassid = class AND refobjid = object WHERE deptype = 'n'
)
SELECT string_agg(pg_describe_object(class, object, sub), ', ') FROM dependents
WHERE schema <> quote_ident($1)::regnamespace

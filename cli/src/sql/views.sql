SELECT string_agg(DISTINCT v.oid::regclass::text, ', ')
FROM pg_depend AS d JOIN pg_rewrite AS r ON r.oid = d.objid JOIN pg_class AS v ON v.oid = r.ev_class
    JOIN pg_class AS t ON t.oid = d.refobjid
WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
  AND t.relnamespace = quote_ident($1)::regnamespace AND v.relnamespace <> t.relnamespace

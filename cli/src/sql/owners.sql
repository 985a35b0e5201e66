SELECT coalesce(jsonb_agg(rolname), '[]') FROM pg_roles WHERE NOT rolsuper AND oid IN (
    SELECT refobjid FROM pg_shdepend WHERE deptype = 'o' AND refclassid = 'pg_authid'::regclass
        AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database()))

DO $do$
DECLARE
    s name := current_setting('move.schema');
    n oid;
BEGIN
    SELECT oid INTO n FROM pg_namespace WHERE nspname = s FOR UPDATE;
    IF n IS NULL THEN
        RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_proc JOIN pg_roles AS r ON r.oid = proowner WHERE proname = 'shard_is_elsewhere' AND pronargs = 0
                   AND prokind = 'f' AND rolsuper AND pronamespace = n AND obj_description(pg_proc.oid, 'pg_proc') IS NOT NULL) THEN
        RAISE EXCEPTION 'schema % is not closed', quote_ident(s);
    END IF;
    IF EXISTS (SELECT FROM pg_extension WHERE extnamespace = n) THEN
        RAISE EXCEPTION 'schema % has an extension in it: ALTER EXTENSION SET SCHEMA', quote_ident(s);
    END IF;
    EXECUTE format('DROP SCHEMA %I CASCADE', s);
END $do$;

DO $do$
DECLARE
    s name := current_setting('move.schema');
    n oid;
    tables text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = s) THEN
        RETURN;
    END IF;
    -- As in close.sql.
    IF current_setting('is_superuser')::boolean THEN
        PERFORM FROM pg_namespace WHERE nspname = s FOR UPDATE;
    ELSE
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO CURRENT_USER', s);
    END IF;
    SELECT oid INTO STRICT n FROM pg_namespace WHERE nspname = s;
    IF NOT EXISTS (SELECT FROM pg_proc JOIN pg_roles AS r ON r.oid = proowner WHERE proname = 'shard_is_elsewhere' AND pronargs = 0
                   AND prokind = 'f' AND (rolsuper OR rolname = current_user) AND pronamespace = n AND obj_description(pg_proc.oid, 'pg_proc') IS NOT NULL) THEN
        RAISE EXCEPTION 'schema % is not closed', quote_ident(s);
    END IF;
    -- Clients may have written rows to such a table of an old copy.
    SELECT string_agg(format('%I.%I', s, relname), ', ') INTO tables FROM pg_class AS c
    WHERE relnamespace = n AND relkind IN ('r', 'p') AND NOT EXISTS (
        SELECT FROM pg_trigger WHERE tgrelid = c.oid AND tgname = 'shard_is_elsewhere' AND tgenabled <> 'D');
    IF tables IS NOT NULL AND current_setting('move.is_old_copy')::boolean THEN
        RAISE EXCEPTION 'tables that the move has not closed: %', tables
            USING HINT = 'If you need nothing in them, drop them.';
    END IF;
    IF EXISTS (SELECT FROM pg_extension WHERE extnamespace = n) THEN
        RAISE EXCEPTION 'schema % has an extension in it: ALTER EXTENSION SET SCHEMA', quote_ident(s);
    END IF;
    EXECUTE format('DROP SCHEMA %I CASCADE', s);
END $do$;

-- Checks and locks a copy that the command then drops.
SET LOCAL row_security = off;
DO $do$
DECLARE
    s name := current_setting('move.schema');
    n oid;
    mark text;
    snapshot pg_snapshot;
    tables text;
    one record;
    is_written bool;
BEGIN
    -- As in lock.sql.
    IF current_setting('is_superuser')::boolean THEN
        PERFORM FROM pg_namespace WHERE nspname = s FOR UPDATE;
    ELSE
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO CURRENT_USER', s);
    END IF;
    SELECT oid INTO STRICT n FROM pg_namespace WHERE nspname = s;
    SELECT obj_description(p.oid, 'pg_proc') INTO mark FROM pg_proc AS p JOIN pg_roles AS r ON r.oid = proowner
    WHERE proname = 'shard_is_elsewhere' AND pronargs = 0 AND prokind = 'f' AND (rolsuper OR rolname = current_user) AND pronamespace = n;
    IF mark IS NULL THEN
        RAISE EXCEPTION 'schema % is not closed', quote_ident(s);
    END IF;
    IF EXISTS (SELECT FROM pg_extension WHERE extnamespace = n) THEN
        RAISE EXCEPTION 'schema % has an extension in it: ALTER EXTENSION SET SCHEMA', quote_ident(s);
    END IF;
    SELECT string_agg(format('%I.%I', s, relname), ', ' ORDER BY relname) INTO tables FROM pg_class WHERE relnamespace = n AND relkind IN ('r', 'p');
    IF tables IS NOT NULL AND current_setting('move.is_old_copy')::boolean THEN
        snapshot := substring(mark FROM 'snapshot (.*)$');
        EXECUTE 'LOCK TABLE ' || tables || ' IN SHARE MODE';
        FOR one IN SELECT c.oid, relname, relkind, tgenabled FROM pg_class AS c
            LEFT JOIN pg_trigger ON tgrelid = c.oid AND tgname = 'shard_is_elsewhere' WHERE relnamespace = n AND relkind IN ('r', 'p')
        LOOP
            -- Each row that is not in the snapshot of the closing was written later. The row has
            -- the lower half of the number of its transaction; the upper half is that of the newest
            -- transaction, or one less.
            is_written := snapshot IS NULL OR one.tgenabled IS DISTINCT FROM 'A';
            IF NOT is_written AND one.relkind = 'r' THEN
                EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %I.%I AS t CROSS JOIN LATERAL (VALUES (t.xmin::text::bigint)) AS r (writer) WHERE writer > 2
                    AND NOT pg_visible_in_snapshot(greatest($2 - ($2 %% 4294967296 - writer + 4294967296) %% 4294967296, 3)::text::xid8, $1))', s, one.relname)
                    INTO is_written USING snapshot, pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
            END IF;
            IF is_written THEN
                RAISE EXCEPTION 'table %.% was not closed by the move, or was written later', quote_ident(s), quote_ident(one.relname)
                    USING HINT = 'Copy the rows that you need to the new server, and drop the table.';
            END IF;
        END LOOP;
    END IF;
    IF tables IS NOT NULL THEN
        EXECUTE 'LOCK TABLE ' || tables || ' IN ACCESS EXCLUSIVE MODE';
    END IF;
END $do$;

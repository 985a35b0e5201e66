/* ALTER EXTENSION instagram_id UPDATE runs this after the library has taken the place of the portable
   edition; see portable/take_over.sql. */
\echo Use "ALTER EXTENSION instagram_id UPDATE" to load this file. \quit

DO $$
DECLARE
    path text := pg_catalog.current_setting('search_path');
    listed text;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    -- A statement or a transaction as old as the take-over may still call the functions that this
    -- script drops, and may have created functions in the schema, which the check below then sees.
    SELECT string_agg(who, ', ') INTO listed FROM (
        SELECT 'process ' || pid,
            greatest(age(backend_xid), CASE WHEN pid <> pg_backend_pid() THEN age(backend_xmin) END)
            FROM pg_stat_activity WHERE datname = current_database()
        UNION ALL SELECT 'prepared transaction ' || quote_literal(gid), age(transaction)
            FROM pg_prepared_xacts WHERE database = current_database()) AS t (who, age)
        WHERE age >= (SELECT age(xmin) FROM pg_proc
            WHERE oid = to_regprocedure('ids.shard_next_id(integer, regclass, timestamptz)'));
    IF listed IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '55006',
            MESSAGE = 'a transaction as old as the take-over is still running',
            DETAIL = listed || '.', HINT = 'Try again when it has ended.';
    END IF;
    -- Only that of the owner of the portable edition, to whom _next_ids() still belongs.
    PERFORM FROM pg_namespace JOIN pg_proc ON proowner = nspowner
        WHERE nspname = 'ids_mutexes' AND pg_proc.oid = to_regprocedure('ids._next_ids(integer, integer)')
        FOR UPDATE OF pg_namespace;
    IF FOUND AND NOT EXISTS (SELECT FROM pg_depend JOIN pg_namespace ON pg_namespace.oid = refobjid
        WHERE refclassid = 'pg_namespace'::regclass AND nspname = 'ids_mutexes')
    THEN
        DROP SCHEMA ids_mutexes;
    END IF;
    DROP FUNCTION ids._shard_next_id(integer, regclass, timestamptz);
    SELECT 'DROP FUNCTION ' || string_agg(p.oid::regprocedure::text, ', ') INTO listed
        FROM pg_proc AS p WHERE pronamespace = 'ids'::regnamespace AND starts_with(proname, '_')
            AND NOT EXISTS (SELECT FROM pg_depend JOIN pg_extension AS x ON x.oid = refobjid
                WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'e'
                    AND extname = 'instagram_id');
    IF listed IS NOT NULL THEN
        EXECUTE listed;
    END IF;
    -- The owner of the portable edition may have made an object a member of another extension.
    SELECT string_agg(pg_describe_object(classid, objid, 0), ', ' ORDER BY objid) INTO listed
        FROM pg_depend AS d
        WHERE refclassid = 'pg_namespace'::regclass AND refobjid = 'ids'::regnamespace
            AND classid <> 'pg_extension'::regclass
            AND NOT EXISTS (SELECT FROM pg_depend AS e JOIN pg_extension AS x ON x.oid = e.refobjid
                WHERE e.classid = d.classid AND e.objid = d.objid AND e.deptype = 'e'
                    AND extname = 'instagram_id');
    IF listed IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '55000',
            MESSAGE = 'schema ids contains objects that are not of the extension',
            DETAIL = listed || '.', HINT = 'Give functions of the portable edition to the owner of the schema. Drop others, or move them to another schema.';
    END IF;
    PERFORM set_config('search_path', path, true);
END $$;

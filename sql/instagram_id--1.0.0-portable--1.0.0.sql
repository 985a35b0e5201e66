/* ALTER EXTENSION instagram_id UPDATE runs this after the library has taken the place of the portable
   edition; see portable/take_over.sql. */
\echo Use "ALTER EXTENSION instagram_id UPDATE" to load this file. \quit

DO $$
DECLARE
    path text := pg_catalog.current_setting('search_path');
    limit_before text := pg_catalog.current_setting('lock_timeout');
    sessions text[]; -- their virtual transaction ids
    gids text[];
    listed text;
    needless text;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    -- A lock by the OID needs no privilege.
    IF current_setting('lock_timeout')::interval NOT BETWEEN '1 ms' AND '2 s' THEN
        PERFORM set_config('lock_timeout', '2s', true);
    END IF;
    -- The take-over releases the lock when it has sent its changes of the catalogs to all sessions.
    IF NOT pg_try_advisory_xact_lock(1314220021721) THEN
        RAISE EXCEPTION USING ERRCODE = '55006', MESSAGE = 'another session installs instagram_id in this database',
            DETAIL = 'It holds the advisory lock 1314220021721.', HINT = 'Try again when the lock is free; pg_locks lists who has it.';
    ELSIF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION USING ERRCODE = '55000',
            MESSAGE = format('cannot update at isolation level %s', current_setting('transaction_isolation')),
            DETAIL = 'The snapshot of the transaction may be older than objects in schema ids.',
            HINT = 'Use BEGIN ISOLATION LEVEL READ COMMITTED.';
    ELSIF (SELECT age(xmin) <= 0 FROM pg_proc WHERE oid = to_regprocedure('ids.shard_next_id(integer, regclass, timestamptz)')) THEN
        RAISE EXCEPTION USING ERRCODE = '55006', MESSAGE = 'the transaction is not newer than the take-over',
            DETAIL = 'Sessions use the functions that this script drops until the take-over is committed.',
            HINT = 'Run ALTER EXTENSION instagram_id UPDATE in a transaction of its own.';
    END IF;
    -- A transaction that is open now may call the functions that this script drops. It may also have
    -- created objects in the schema, or still do so, even if it is idle: a session may not notice
    -- that a privilege was revoked before its next transaction. Any session counts, because any can
    -- run a function of the former owner. A transaction that begins later has the new catalogs.
    PERFORM pg_stat_clear_snapshot(); -- it may be older than sessions
    FOR attempt IN 0..20 LOOP
        PERFORM pg_sleep(CASE attempt WHEN 0 THEN 0 ELSE 0.1 END);
        SELECT array_agg(virtualxid), string_agg('process ' || pid, ', ' ORDER BY pid) INTO sessions, listed
            FROM pg_locks JOIN pg_stat_activity USING (pid)
            WHERE virtualxid = virtualtransaction AND datname = current_database() AND pid <> pg_backend_pid()
                AND (attempt = 0 OR virtualxid = ANY (sessions));
        CONTINUE WHEN listed IS NOT NULL;
        -- After the sessions, because one of them may have prepared its transaction meanwhile.
        SELECT array_agg(gid), string_agg('prepared transaction ' || quote_literal(gid), ', ' ORDER BY gid) INTO gids, listed
            FROM pg_prepared_xacts WHERE database = current_database() AND (gids IS NULL OR gid = ANY (gids));
        EXIT WHEN listed IS NULL;
    END LOOP;
    IF listed IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '55006',
            MESSAGE = 'a transaction that began before this statement is still open',
            DETAIL = listed || '.', HINT = 'Try again when it has ended, or end it with pg_terminate_backend() or ROLLBACK PREPARED.';
    END IF;
    -- The former owner may have made an object a member of another extension.
    SELECT string_agg(pg_describe_object(classid, objid, 0), ', ' ORDER BY objid) FILTER (WHERE p.oid IS NULL),
            'DROP FUNCTION ' || string_agg(p.oid::regprocedure::text, ', ') INTO listed, needless
        FROM pg_depend AS d LEFT JOIN pg_proc AS p
            ON classid = 'pg_proc'::regclass AND p.oid = objid AND prokind = 'f' AND starts_with(proname, '_')
                AND NOT EXISTS (SELECT FROM pg_depend AS e WHERE e.classid = d.classid AND e.objid = d.objid AND e.deptype = 'e')
        WHERE refclassid = 'pg_namespace'::regclass AND refobjid = 'ids'::regnamespace
            AND (pg_identify_object(classid, objid, 0)).schema = 'ids' -- others only name it
            AND NOT EXISTS (SELECT FROM pg_depend AS e JOIN pg_extension AS x ON x.oid = e.refobjid
                WHERE e.classid = d.classid AND e.objid = d.objid AND e.deptype = 'e'
                    AND extname = 'instagram_id');
    IF listed IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '55000',
            MESSAGE = 'schema ids contains objects that are not of the extension',
            DETAIL = listed || '.', HINT = 'Drop them, or move them to another schema.';
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
    IF needless IS NOT NULL THEN
        EXECUTE needless;
    END IF;
    PERFORM set_config('lock_timeout', limit_before, true);
    PERFORM set_config('search_path', path, true);
END $$;

/* What ALTER EXTENSION instagram_id UPDATE runs after the library has taken the place of the portable edition; see
   portable/take_over.sql. */
\echo Use "ALTER EXTENSION instagram_id UPDATE" to load this file. \quit

DO $$
DECLARE
    path text := pg_catalog.current_setting('search_path');
    found text;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    -- Transactions that are older than the take-over may call the functions that this script drops,
    -- and may have created functions in the schema, which the next check then sees.
    SELECT string_agg(who, ', ') INTO found FROM (
        SELECT 'process ' || pid, age(backend_xid) FROM pg_stat_activity
            WHERE datname = current_database()
        UNION ALL SELECT 'prepared transaction ' || quote_literal(gid), age(transaction) FROM pg_prepared_xacts
            WHERE database = current_database()) AS t (who, age)
        WHERE age >= (SELECT age(xmin) FROM pg_proc
            WHERE oid = to_regprocedure('ids._shard_next_id(integer, regclass, timestamptz)'));
    IF found IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '55006', MESSAGE = 'the transaction of the take-over, or an older one, is still running',
            DETAIL = found || '.', HINT = 'Try again when it has ended.';
    END IF;
    SELECT string_agg(pg_describe_object(classid, objid, 0), ', ' ORDER BY objid) INTO found FROM pg_depend AS d
        WHERE refclassid = 'pg_namespace'::regclass AND refobjid = (SELECT oid FROM pg_namespace WHERE nspname = 'ids')
            AND classid <> 'pg_extension'::regclass AND NOT EXISTS (SELECT FROM pg_depend AS e WHERE e.classid = d.classid AND e.objid = d.objid AND e.deptype = 'e');
    IF found IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'schema ids contains objects that are not of the extension',
            DETAIL = found || '.', HINT = 'Drop them, or move them to another schema.';
    END IF;
    DROP FUNCTION ids._shard_next_id(integer, regclass, timestamptz), ids._next_id_of_shard(integer), ids._next_id_of_setting();
    PERFORM set_config('search_path', path, true);
END $$;

-- A transaction that has created a table holds a lock on the schema, and the table is not visible
-- yet. So this waits for those that have a lock now, for a moment: from 18 on a GRANT on the schema
-- has one, too. The pid of a prepared transaction is null.
DO $do$
DECLARE
    s oid := quote_ident(current_setting('move.schema'))::regnamespace;
    started timestamptz := clock_timestamp();
    holders text[];
    found text[];
BEGIN
    LOOP
        found := ARRAY(SELECT virtualtransaction FROM pg_locks
            WHERE locktype = 'object' AND classid = 'pg_namespace'::regclass AND objid = s AND granted AND pid IS DISTINCT FROM pg_backend_pid()
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database()));
        holders := coalesce(holders, found);
        EXIT WHEN NOT holders && found;
        IF clock_timestamp() > started + interval '200 ms' THEN
            RAISE EXCEPTION 'another transaction has created objects in schema %, or changed it', s::regnamespace
                USING ERRCODE = 'lock_not_available', DETAIL = 'Its OID is ' || s;
        END IF;
        PERFORM pg_sleep(0.005);
    END LOOP;
    IF EXISTS (SELECT FROM pg_class WHERE relnamespace = s AND relkind IN ('r', 'p') AND oid <> ALL (current_setting('move.locked')::oid[])) THEN
        RAISE EXCEPTION 'tables were created in schema % meanwhile', s::regnamespace USING ERRCODE = 'lock_not_available';
    END IF;
END $do$;

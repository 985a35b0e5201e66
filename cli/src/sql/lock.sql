DO $do$
DECLARE
    s name := current_setting('move.schema');
    item record;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = s) THEN
        RAISE EXCEPTION 'there is no schema %', quote_ident(s);
    END IF;
    CASE current_setting('move.mark')
        WHEN 'foreign' THEN RAISE EXCEPTION 'schema % has a routine shard_is_elsewhere() of another role: drop it', quote_ident(s);
        WHEN 'closed' THEN RAISE EXCEPTION 'schema % is closed already', quote_ident(s);
        ELSE
    END CASE;
    -- This only locks the sequence: it waits for open transactions that have called nextval() or next_id().
    -- It also writes the row of pg_class, as a GRANT does, so that no other session can write it later. A
    -- lock on the row would not do: a GRANT waits for it while it holds a lock that ALTER SEQUENCE needs.
    FOR item IN
        SELECT relname, CASE WHEN seqcycle THEN 'CYCLE' ELSE 'NO CYCLE' END AS cycle
        FROM pg_sequence JOIN pg_class AS c ON c.oid = seqrelid JOIN pg_namespace AS n ON n.oid = relnamespace
        WHERE nspname = s ORDER BY relname
    LOOP
        FOR try IN 1..1000 LOOP
            BEGIN
                EXECUTE format('ALTER SEQUENCE %I.%I %s', s, item.relname, item.cycle);
                EXIT;
            EXCEPTION WHEN internal_error THEN
                IF try = 1000 OR SQLERRM <> 'tuple concurrently updated' THEN
                    RAISE;
                END IF;
            END;
        END LOOP;
    END LOOP;
END $do$;
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

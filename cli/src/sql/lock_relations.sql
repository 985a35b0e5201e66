-- Locks the tables of the schema as move.mode says, or its sequences if that is empty, and sets
-- move.locked to their OIDs. While a statement waits for a lock, the owner can rename the relation
-- and give its name to a view. LOCK TABLE would lock the tables of that view, with the rights of
-- the command if it is a security_invoker view, and keep them locked while it waits for the next
-- one. So with NOWAIT it releases the locks of each attempt, and retries for ten seconds. In ACCESS
-- EXCLUSIVE MODE it waits, and retries as well: the session has locks on the tables already, so no
-- name can change. Before PostgreSQL 18, NOWAIT would fail as long as others wait for these locks.
-- A block reads from a relation by name only if its OID is in move.locked: as long as the lock is
-- held, its name and its kind cannot change. The two functions read the current catalogs even if
-- the snapshot is older; a view has no file.
DO $do$
DECLARE
    mode text := current_setting('move.mode');
    kinds "char"[] := CASE mode WHEN '' THEN '{S}' ELSE '{r,p}' END;
    started timestamptz := clock_timestamp();
    item record;
    locked oid[];
BEGIN
    LOOP
        BEGIN
            locked := '{}';
            FOR item IN
                SELECT c.oid, relkind, format('%I.%I', nspname, relname) AS name FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
                WHERE nspname = current_setting('move.schema') AND relkind = ANY (kinds)
                ORDER BY relname
            LOOP
                IF mode = 'ACCESS EXCLUSIVE MODE' AND item.oid <> ALL (current_setting('move.locked')::oid[]) THEN
                    RAISE EXCEPTION 'relation % was created meanwhile', item.name;
                ELSIF item.relkind = 'S' THEN
                    PERFORM pg_sequence_last_value(item.oid);
                ELSE
                    EXECUTE format('LOCK TABLE ONLY %s IN %s', item.name, mode);
                END IF;
                IF to_regclass(item.name) IS DISTINCT FROM item.oid OR item.relkind <> 'p' AND pg_relation_filenode(item.oid) IS NULL THEN
                    RAISE EXCEPTION 'relation % was replaced by another one', item.name USING ERRCODE = 'lock_not_available';
                END IF;
                locked := locked || item.oid;
            END LOOP;
            SELECT c.oid, format('%I.%I', nspname, relname) AS name INTO item FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
            WHERE nspname = current_setting('move.schema') AND relkind = ANY (kinds) AND c.oid <> ALL (locked);
            IF FOUND THEN
                RAISE EXCEPTION 'relation % was created meanwhile', item.name USING ERRCODE = 'lock_not_available';
            END IF;
            EXIT;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            -- PostgreSQL ends these for a session that has waited for deadlock_timeout, a second. Without
            -- a new snapshot of the activity, workers that have started meanwhile would not be seen.
            PERFORM pg_stat_clear_snapshot();
            PERFORM pg_cancel_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
            WHERE relation = item.oid AND database = datid AND granted AND backend_type = 'autovacuum worker'
                AND query NOT LIKE '%(to prevent wraparound)'
                AND (current_setting('is_superuser')::boolean OR (SELECT pg_has_role(oid, 'USAGE') FROM pg_roles WHERE rolname = 'pg_signal_autovacuum_worker'));
            IF NOT FOUND AND mode NOT LIKE '%NOWAIT' AND mode <> 'ACCESS EXCLUSIVE MODE' THEN
                RAISE;
            ELSIF clock_timestamp() > started + interval '10 s' THEN
                RAISE EXCEPTION 'table % could not be locked for 10 s: %', item.name, SQLERRM
                    USING ERRCODE = 'lock_not_available', DETAIL = 'Its OID is ' || item.oid, HINT = 'See pg_locks for the locks on it.';
            END IF;
        END;
        PERFORM pg_sleep(0.02);
    END LOOP;
    PERFORM set_config('move.locked', locked::text, true);
END $do$;
SELECT current_setting('move.locked');

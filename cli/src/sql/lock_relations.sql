-- Locks the tables of the schema in the mode move.mode, or its sequences if that is empty, and sets
-- move.locked to their OIDs. While a statement waits for a lock, the owner can rename the relation
-- and give its name to a view. So a block reads from a relation by name only if its OID is in
-- move.locked: as long as the lock is held, its name and its kind cannot change. The two functions
-- read the current catalogs even if the snapshot is older; a view has no file.
DO $do$
DECLARE
    mode text := current_setting('move.mode');
    kinds "char"[] := CASE mode WHEN '' THEN '{S}' ELSE '{r,p}' END;
    item record;
    locked oid[] := '{}';
BEGIN
    FOR item IN
        SELECT c.oid, relkind, format('%I.%I', nspname, relname) AS name FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
        WHERE nspname = current_setting('move.schema') AND relkind = ANY (kinds)
        ORDER BY relname
    LOOP
        IF item.relkind = 'S' THEN
            PERFORM pg_sequence_last_value(item.oid);
        ELSE
            EXECUTE format('LOCK TABLE ONLY %s IN %s MODE', item.name, mode);
        END IF;
        IF to_regclass(item.name) IS DISTINCT FROM item.oid OR item.relkind <> 'p' AND pg_relation_filenode(item.oid) IS NULL THEN
            RAISE EXCEPTION 'relation % was replaced by another one', item.name USING ERRCODE = 'lock_not_available';
        END IF;
        locked := locked || item.oid;
    END LOOP;
    SELECT format('%I.%I', nspname, relname) AS name INTO item FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
    WHERE nspname = current_setting('move.schema') AND relkind = ANY (kinds) AND c.oid <> ALL (locked);
    IF FOUND THEN
        RAISE EXCEPTION 'relation % was created meanwhile', item.name USING ERRCODE = 'lock_not_available';
    END IF;
    PERFORM set_config('move.locked', locked::text, true);
END $do$;
SELECT current_setting('move.locked');

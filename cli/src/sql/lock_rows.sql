-- Locks the catalog rows of the tables in move.locked, if it is set, and of the functions that the
-- statements after this replace or drop. Any role with a privilege on an object can call GRANT,
-- which writes its row without a lock on the object, even if it grants nothing. A statement that
-- changes the row then fails with "tuple concurrently updated". Only a superuser can lock these
-- rows.
DO $do$
BEGIN
    IF current_setting('is_superuser')::boolean THEN
        PERFORM FROM pg_class WHERE oid = ANY (coalesce(nullif(current_setting('move.locked', true), ''), '{}')::oid[]) AND relkind <> 'S' ORDER BY oid FOR NO KEY UPDATE;
        PERFORM FROM pg_proc WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_setting('move.schema'))
            AND proname IN ('shard_is_elsewhere', 'shard_' || current_setting('move.shard')) ORDER BY oid FOR NO KEY UPDATE;
    END IF;
END $do$;

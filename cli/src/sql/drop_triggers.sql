-- Drops the trigger of one table, or, if none has any, the function, and sets move.is_done. DROP
-- FUNCTION ... CASCADE alone would keep tables locked while it waits for others. Do not drop a
-- function of another role: the command has not created it.
DO $do$
DECLARE
    s name := current_setting('move.schema');
    one name;
BEGIN
    PERFORM set_config('move.is_done', 'on', true);
    IF current_setting('move.mark') NOT IN ('closed', 'opened') THEN
        RETURN;
    END IF;
    SELECT relname INTO one FROM pg_trigger JOIN pg_class AS c ON c.oid = tgrelid
    WHERE tgname = 'shard_is_elsewhere' AND tgfoid = format('%I.shard_is_elsewhere()', s)::regprocedure
        AND tgparentid = 0 AND relnamespace = quote_ident(s)::regnamespace AND pg_has_role(relowner, 'USAGE')
    ORDER BY relname LIMIT 1;
    IF FOUND THEN
        -- PostgreSQL ends these only for a session that waits for longer.
        PERFORM pg_cancel_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE relation = format('%I.%I', s, one)::regclass AND database = datid AND granted AND backend_type = 'autovacuum worker'
            AND query NOT LIKE '%(to prevent wraparound)'
            AND (current_setting('is_superuser')::boolean OR (SELECT pg_has_role(oid, 'USAGE') FROM pg_roles WHERE rolname = 'pg_signal_autovacuum_worker'));
        EXECUTE format('DROP TRIGGER shard_is_elsewhere ON %I.%I', s, one);
        PERFORM set_config('move.is_done', 'off', true);
    ELSE
        EXECUTE format('DROP FUNCTION %I.shard_is_elsewhere() CASCADE', s);
    END IF;
END $do$;
SELECT current_setting('move.is_done')::boolean;

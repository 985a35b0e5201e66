-- Closes the shard. lock.sql has acquired all locks, and move.locked has the sequences.
DO $do$
DECLARE
    s name := current_setting('move.schema');
    is_copy bool := current_setting('move.is_copy');
    item record;
    last numeric;
    is_called bool;
BEGIN
    EXECUTE format('CREATE OR REPLACE FUNCTION %I.shard_is_elsewhere() RETURNS trigger LANGUAGE plpgsql AS %L', s, format($f$
BEGIN
    RAISE EXCEPTION 'shard %s is not here: it is moving to another server, or has moved'
        USING ERRCODE = '25006', HINT = 'Read the map again, and write where that says.';
END $f$, current_setting('move.shard')));
    -- No trigger needs EXECUTE to call it. With EXECUTE, any role could create a trigger that calls it,
    -- for whose table DROP FUNCTION would wait, or write its row by GRANT.
    EXECUTE format('REVOKE ALL ON FUNCTION %I.shard_is_elsewhere() FROM PUBLIC', s);
    -- The snapshot sees all rows of the shard, since lock.sql has waited for those who write to it.
    -- `clean` looks for later rows.
    EXECUTE format('COMMENT ON FUNCTION %I.shard_is_elsewhere() IS %L', s, 'closed by instagram_id_shards; snapshot ' || pg_current_snapshot());
    FOR item IN
        SELECT relname, tgname IS NOT NULL AS is_taken
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
            LEFT JOIN (pg_trigger JOIN pg_proc AS p ON p.oid = tgfoid AND (proname <> 'shard_is_elsewhere' OR pronargs <> 0))
                ON tgrelid = c.oid AND tgname = 'shard_is_elsewhere'
        WHERE nspname = s AND relkind IN ('r', 'p')
    LOOP
        IF item.is_taken THEN
            RAISE EXCEPTION 'table %.% has a trigger shard_is_elsewhere of its own: rename it', quote_ident(s), quote_ident(item.relname);
        END IF;
        EXECUTE format('CREATE OR REPLACE TRIGGER shard_is_elsewhere BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %1$I.%2$I
            FOR EACH STATEMENT EXECUTE FUNCTION %1$I.shard_is_elsewhere()', s, item.relname);
        -- The replication writes to the copy. Nobody writes to the source, not even with
        -- session_replication_role = replica.
        EXECUTE format('ALTER TABLE ONLY %I.%I ENABLE %s TRIGGER shard_is_elsewhere', s, item.relname, CASE WHEN NOT is_copy THEN 'ALWAYS' END);
    END LOOP;
    -- The last value becomes the end of the sequence. One that was not used since setval() or RESTART
    -- would still give its last value, so it goes back by one step, or as far as its type allows.
    -- MINVALUE must be less than MAXVALUE, and START must be between them.
    FOR item IN
        SELECT c.oid, relname, seqmin, seqmax, seqstart, seqincrement, seqincrement > 0 AS ascends,
               -round(2::numeric ^ (8 * typlen - 1)) AS lowest, round(2::numeric ^ (8 * typlen - 1)) - 1 AS highest
        FROM pg_sequence JOIN pg_class AS c ON c.oid = seqrelid JOIN pg_type AS t ON t.oid = seqtypid
        WHERE c.oid = ANY (current_setting('move.locked')::oid[])
        ORDER BY relname
    LOOP
        EXECUTE format('SELECT last_value, is_called FROM %I.%I', s, item.relname) INTO STRICT last, is_called;
        last := last - CASE WHEN is_called THEN 0 ELSE item.seqincrement END;
        last := CASE WHEN item.ascends THEN greatest(item.lowest + 1, last) ELSE least(item.highest - 1, last) END;
        EXECUTE format('ALTER SEQUENCE %I.%I NO CYCLE MINVALUE %s MAXVALUE %s START %s RESTART WITH %s', s, item.relname,
            CASE WHEN item.ascends THEN least(item.seqmin, last - 1) ELSE last END,
            CASE WHEN item.ascends THEN last ELSE greatest(item.seqmax, last + 1) END,
            CASE WHEN item.ascends THEN least(item.seqstart, last) ELSE greatest(item.seqstart, last) END, last);
        PERFORM setval(item.oid, last::bigint, true);
    END LOOP;
END $do$;

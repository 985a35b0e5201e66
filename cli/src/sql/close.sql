-- Closes the shard. lock.sql has acquired all locks, and move.locked has the sequences.
DO $do$
DECLARE
    s name := current_setting('move.schema');
    is_copy bool := current_setting('move.is_copy');
    item record;
    last bigint;
    is_called bool;
BEGIN
    EXECUTE format('CREATE OR REPLACE FUNCTION %I.shard_is_elsewhere() RETURNS trigger LANGUAGE plpgsql AS %L', s, format($f$
BEGIN
    RAISE EXCEPTION 'shard %s is not here: it is moving to another server, or has moved'
        USING ERRCODE = '25006', HINT = 'Read the map again, and write where that says.';
END $f$, current_setting('move.shard')));
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
    -- MINVALUE must be less than MAXVALUE, and START must be between them. A sequence that was
    -- never used would still give its last value, so it goes back by one.
    FOR item IN
        SELECT c.oid, relname, seqmin, seqstart
        FROM pg_sequence JOIN pg_class AS c ON c.oid = seqrelid
        WHERE c.oid = ANY (current_setting('move.locked')::oid[]) AND seqtypid = 'bigint'::regtype AND seqincrement = 1 AND seqmax >= 1125899906842623 AND NOT seqcycle
        ORDER BY relname
    LOOP
        EXECUTE format('SELECT last_value, is_called FROM %I.%I', s, item.relname) INTO STRICT last, is_called;
        IF NOT is_called THEN
            last := last - 1;
        END IF;
        EXECUTE format('ALTER SEQUENCE %I.%I MINVALUE %s MAXVALUE %s START %s RESTART WITH %4$s', s, item.relname,
            least(item.seqmin, last - 1), last, least(item.seqstart, last));
        PERFORM setval(item.oid, last, true);
    END LOOP;
END $do$;

DO $do$
DECLARE
    s name := current_setting('move.schema');
    definitions jsonb := current_setting('move.sequences');
    item record;
    last bigint;
    statement text;
BEGIN
    IF current_setting('move.mark') <> 'closed' THEN
        RAISE EXCEPTION 'schema % is not closed', quote_ident(s);
    END IF;
    FOR item IN
        SELECT oid, relname, seqincrement, (numbers ->> 0)::bigint AS lowest, (numbers ->> 1)::bigint AS highest, (numbers ->> 2)::bigint AS start,
               CASE numbers ->> 3 WHEN 'CYCLE' THEN 'CYCLE' ELSE 'NO CYCLE' END AS cycle
        FROM pg_class JOIN pg_sequence ON seqrelid = oid CROSS JOIN LATERAL (SELECT definitions -> relname::text) AS d (numbers)
        WHERE oid = ANY (current_setting('move.locked')::oid[]) AND definitions ? relname::text ORDER BY relname
    LOOP
        last := pg_sequence_last_value(item.oid);
        -- Outside the bounds is a step before the value that the sequence goes on from.
        statement := format('ALTER SEQUENCE %I.%I MINVALUE %s MAXVALUE %s START %s %s', s, item.relname, item.lowest, item.highest, item.start, item.cycle)
            || CASE WHEN last NOT BETWEEN item.lowest AND item.highest
                    THEN format(' RESTART WITH %s', greatest(item.lowest, least(item.highest, last::numeric + item.seqincrement)))
                    ELSE '' END;
        -- As in lock.sql.
        FOR try IN 1..1000 LOOP
            BEGIN
                EXECUTE statement;
                EXIT;
            EXCEPTION WHEN internal_error THEN
                IF try = 1000 OR SQLERRM <> 'tuple concurrently updated' THEN
                    RAISE;
                END IF;
            END;
        END LOOP;
    END LOOP;
    EXECUTE format('CREATE OR REPLACE FUNCTION %I.shard_is_elsewhere() RETURNS trigger LANGUAGE plpgsql AS %L', s, 'BEGIN RETURN NULL; END');
    EXECUTE format('COMMENT ON FUNCTION %I.shard_is_elsewhere() IS NULL', s);
END $do$;

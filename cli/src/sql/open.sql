-- The function of the triggers does nothing from now on. alter_sequences.sql gives the sequences the
-- bounds of before. Outside them is a step before the value that a sequence goes on from, and that of
-- a closed one which TRUNCATE has restarted, or, if it is unlogged, a crash.
DO $do$
DECLARE
    s name := current_setting('move.schema');
    one record;
    last numeric;
    is_called bool;
    statements text[] := '{}';
BEGIN
    IF current_setting('move.mark') <> 'closed' THEN
        RAISE EXCEPTION 'schema % is not closed', quote_ident(s);
    END IF;
    EXECUTE format('CREATE OR REPLACE FUNCTION %I.shard_is_elsewhere() RETURNS trigger LANGUAGE plpgsql AS %L', s, 'BEGIN RETURN NULL; END');
    EXECUTE format('COMMENT ON FUNCTION %I.shard_is_elsewhere() IS NULL', s);
    FOR one IN
        SELECT relname, seqincrement, lowest, highest, format('ALTER SEQUENCE %I.%I MINVALUE %s MAXVALUE %s START %s %s', s, relname,
            lowest, highest, numbers ->> 2, CASE numbers ->> 3 WHEN 'CYCLE' THEN 'CYCLE' ELSE 'NO CYCLE' END) AS statement
        FROM pg_class AS c JOIN pg_sequence ON seqrelid = c.oid
            CROSS JOIN LATERAL (SELECT current_setting('move.sequences')::jsonb -> relname::text) AS d (numbers)
            CROSS JOIN LATERAL (SELECT (numbers ->> 0)::bigint, (numbers ->> 1)::bigint) AS v (lowest, highest)
        WHERE c.oid = ANY (current_setting('move.locked')::oid[]) AND numbers IS NOT NULL
        ORDER BY relname
    LOOP
        EXECUTE format('SELECT last_value, is_called FROM %I.%I', s, one.relname) INTO STRICT last, is_called;
        IF last NOT BETWEEN one.lowest AND one.highest THEN
            last := last + CASE WHEN is_called THEN one.seqincrement ELSE 0 END;
            one.statement := format('%s RESTART WITH %s', one.statement, greatest(one.lowest, least(one.highest, last)));
        END IF;
        statements := statements || one.statement;
    END LOOP;
    PERFORM set_config('move.statements', statements::text, true);
END $do$;

-- The function of the triggers does nothing from now on. alter_sequences.sql gives the sequences the
-- bounds of before. Outside them is a step before the value that a sequence goes on from, and that of
-- a closed one which TRUNCATE has restarted, or, if it is unlogged, a crash. On the source a sequence
-- can have another name by now.
DO $do$
DECLARE
    s name := current_setting('move.schema');
    is_copy bool := current_setting('move.is_copy');
    sequences jsonb := current_setting('move.sequences');
    locked oid[] := current_setting('move.locked');
    one record;
    last numeric;
    is_called bool;
    statements text[] := '{}';
BEGIN
    IF current_setting('move.mark') <> 'closed' THEN
        RAISE EXCEPTION 'schema % is not closed', quote_ident(s);
    END IF;
    -- An owned one moves with its table.
    SELECT c.oid::regclass AS name, coalesce('TABLE ' || refobjid::regclass, 'SEQUENCE ' || c.oid::regclass) AS moves INTO one
    FROM jsonb_array_elements(jsonb_path_query_array(sequences, '$.*')) AS numbers
        JOIN pg_class AS c ON c.oid = (numbers ->> 4)::oid AND relkind = 'S' AND c.oid <> ALL (locked)
        LEFT JOIN pg_depend ON classid = 'pg_class'::regclass AND objid = c.oid AND refclassid = 'pg_class'::regclass AND refobjsubid > 0 AND deptype IN ('a', 'i');
    IF FOUND AND NOT is_copy THEN
        RAISE EXCEPTION 'sequence % was in schema % when writes were stopped', one.name, quote_ident(s)
            USING HINT = format('Move it back with ALTER %s SET SCHEMA %I, and run this again.', one.moves, s);
    END IF;
    EXECUTE format('CREATE OR REPLACE FUNCTION %I.shard_is_elsewhere() RETURNS trigger LANGUAGE plpgsql AS %L', s, 'BEGIN RETURN NULL; END');
    EXECUTE format('COMMENT ON FUNCTION %I.shard_is_elsewhere() IS NULL', s);
    FOR one IN
        SELECT relname, seqincrement, lowest, highest, format('ALTER SEQUENCE %I.%I MINVALUE %s MAXVALUE %s START %s %s', s, relname,
            lowest, highest, numbers ->> 2, CASE numbers ->> 3 WHEN 'CYCLE' THEN 'CYCLE' ELSE 'NO CYCLE' END) AS statement
        FROM pg_class AS c JOIN pg_sequence ON seqrelid = c.oid
            JOIN jsonb_each(sequences) AS d (name, numbers) ON CASE WHEN is_copy THEN name = relname ELSE (numbers ->> 4)::oid = c.oid END
            CROSS JOIN LATERAL (SELECT (numbers ->> 0)::bigint, (numbers ->> 1)::bigint) AS v (lowest, highest)
        WHERE c.oid = ANY (locked)
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

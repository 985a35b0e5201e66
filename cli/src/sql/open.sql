-- The function of the triggers does nothing from now on. alter_sequences.sql gives the sequences the
-- bounds of before. Outside them is a step before the value that a sequence goes on from.
DO $do$
DECLARE
    s name := current_setting('move.schema');
BEGIN
    IF current_setting('move.mark') <> 'closed' THEN
        RAISE EXCEPTION 'schema % is not closed', quote_ident(s);
    END IF;
    EXECUTE format('CREATE OR REPLACE FUNCTION %I.shard_is_elsewhere() RETURNS trigger LANGUAGE plpgsql AS %L', s, 'BEGIN RETURN NULL; END');
    EXECUTE format('COMMENT ON FUNCTION %I.shard_is_elsewhere() IS NULL', s);
    PERFORM set_config('move.statements', ARRAY(
        SELECT format('ALTER SEQUENCE %I.%I MINVALUE %s MAXVALUE %s START %s %s', s, relname, lowest, highest, start,
                CASE numbers ->> 3 WHEN 'CYCLE' THEN 'CYCLE' ELSE 'NO CYCLE' END)
            || CASE WHEN last NOT BETWEEN lowest AND highest
                    THEN format(' RESTART WITH %s', greatest(lowest, least(highest, last::numeric + seqincrement)))
                    ELSE '' END
        FROM pg_class AS c JOIN pg_sequence ON seqrelid = c.oid
            CROSS JOIN LATERAL (SELECT current_setting('move.sequences')::jsonb -> relname::text) AS d (numbers)
            CROSS JOIN LATERAL (SELECT (numbers ->> 0)::bigint, (numbers ->> 1)::bigint, (numbers ->> 2)::bigint, pg_sequence_last_value(c.oid))
                AS v (lowest, highest, start, last)
        WHERE c.oid = ANY (current_setting('move.locked')::oid[]) AND numbers IS NOT NULL
        ORDER BY relname)::text, true);
END $do$;

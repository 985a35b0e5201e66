DO $do$
DECLARE
    s name := current_setting('move.schema');
    item record;
    sequence oid;
    least bigint;
BEGIN
    FOR item IN SELECT * FROM jsonb_each(current_setting('move.states')::jsonb) LOOP
        SELECT c.oid, seqmin INTO sequence, least FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace JOIN pg_sequence ON seqrelid = c.oid
        WHERE nspname = s AND relname = item.key;
        IF sequence IS NULL THEN
            RAISE EXCEPTION 'there is no sequence %.%', quote_ident(s), quote_ident(item.key);
        END IF;
        -- A closed sequence that was never used is one below its first value.
        PERFORM setval(sequence, greatest((item.value ->> 0)::bigint, least), (item.value ->> 1)::boolean AND (item.value ->> 0)::bigint >= least);
    END LOOP;
END $do$;

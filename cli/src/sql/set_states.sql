DO $do$
DECLARE
    item record;
    sequence record;
    last bigint;
BEGIN
    FOR item IN SELECT * FROM jsonb_each(current_setting('move.states')::jsonb) LOOP
        SELECT seqrelid, seqmin, seqmax, seqincrement INTO sequence
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace JOIN pg_sequence ON seqrelid = c.oid
        WHERE nspname = current_setting('move.schema') AND relname = item.key;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no sequence %.%', quote_ident(current_setting('move.schema')), quote_ident(item.key);
        END IF;
        last := item.value ->> 0;
        IF last BETWEEN sequence.seqmin AND sequence.seqmax THEN
            PERFORM setval(sequence.seqrelid, last, (item.value ->> 1)::boolean);
        ELSE
            -- A closed sequence can be one step before the value that it goes on from.
            PERFORM setval(sequence.seqrelid, greatest(sequence.seqmin, least(sequence.seqmax, last::numeric + sequence.seqincrement))::bigint, false);
        END IF;
    END LOOP;
END $do$;

DO $do$
DECLARE
    s name := current_setting('move.schema');
    item record;
    sequence oid;
BEGIN
    FOR item IN SELECT * FROM jsonb_each(current_setting('move.states')::jsonb) LOOP
        SELECT c.oid INTO sequence FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
        WHERE nspname = s AND relname = item.key AND relkind = 'S';
        IF sequence IS NULL THEN
            RAISE EXCEPTION 'there is no sequence %.%', quote_ident(s), quote_ident(item.key);
        END IF;
        PERFORM setval(sequence, (item.value ->> 0)::bigint, (item.value ->> 1)::boolean);
    END LOOP;
END $do$;

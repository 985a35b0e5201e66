-- Checks that the schema is a copy, which the command then drops.
DO $do$
DECLARE
    s name := current_setting('move.schema');
BEGIN
    IF current_setting('move.mark') <> 'closed' THEN
        RAISE EXCEPTION 'schema % is not closed', quote_ident(s);
    END IF;
END $do$;

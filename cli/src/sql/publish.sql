-- Publishes each table by name. PostgreSQL then rejects SET UNLOGGED, whose changes it would not
-- replicate; with FOR TABLES IN SCHEMA it does not. A table that is created later is noticed at the
-- cutover.
DO $do$
DECLARE
    s name := current_setting('move.schema');
    tables text;
BEGIN
    IF NOT current_setting('is_superuser')::boolean THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO CURRENT_USER', s); -- as in lock_schema.sql
    END IF;
    SELECT 'FOR TABLE ' || string_agg(format('ONLY %I.%I', s, relname), ', ' ORDER BY relname) INTO tables
    FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace WHERE nspname = s AND relkind = 'r';
    EXECUTE format('CREATE PUBLICATION %I %s', current_setting('move.name'), tables);
END $do$;

-- To publish a schema takes a superuser. Another role names the tables; one that is created later
-- is noticed at the cutover.
DO $do$
DECLARE
    s name := current_setting('move.schema');
    tables text;
BEGIN
    IF current_setting('is_superuser')::boolean THEN
        EXECUTE format('CREATE PUBLICATION %I FOR TABLES IN SCHEMA %I', current_setting('move.name'), s);
    ELSE
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO CURRENT_USER', s); -- as in lock_schema.sql
        SELECT 'FOR TABLE ' || string_agg(format('%I.%I', s, relname), ', ' ORDER BY relname) INTO tables
        FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace WHERE nspname = s AND relkind = 'r';
        EXECUTE format('CREATE PUBLICATION %I %s', current_setting('move.name'), tables);
    END IF;
END $do$;

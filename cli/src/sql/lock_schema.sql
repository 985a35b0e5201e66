-- Locks the schema until the transaction ends, because its owner could otherwise rename it and
-- create another one. A change of its privileges locks it as well, for a role that is no superuser.
-- Before the other statements that change a schema, which read move.mark. FOR KEY SHARE would not do:
-- PostgreSQL can let a session that has called GRANT rename the row that it has put in place of this one.
DO $do$
DECLARE
    s name := current_setting('move.schema');
BEGIN
    IF current_setting('is_superuser')::boolean THEN
        PERFORM FROM pg_namespace WHERE nspname = s FOR SHARE;
    ELSIF EXISTS (SELECT FROM pg_namespace WHERE nspname = s) THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO CURRENT_USER', s);
    END IF;
END $do$;

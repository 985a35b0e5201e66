-- Do not drop a function whose owner is not a superuser: the command has not created it.
DO $do$
DECLARE
    s name := current_setting('move.schema');
BEGIN
    SET LOCAL lock_timeout = '500ms';
    -- As in lock.sql.
    IF current_setting('is_superuser')::boolean THEN
        PERFORM FROM pg_namespace WHERE nspname = s FOR UPDATE;
    ELSE
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO CURRENT_USER', s);
    END IF;
    IF EXISTS (SELECT FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = pronamespace JOIN pg_roles AS r ON r.oid = proowner
               WHERE proname = 'shard_is_elsewhere' AND pronargs = 0 AND prokind = 'f' AND (rolsuper OR rolname = current_user) AND nspname = s) THEN
        EXECUTE format('DROP FUNCTION %I.shard_is_elsewhere() CASCADE', s);
    END IF;
END $do$;

-- A function that is not a superuser's is not the command's.
DO $do$
DECLARE
    s name := current_setting('move.schema');
BEGIN
    SET LOCAL lock_timeout = '500ms';
    PERFORM FROM pg_namespace WHERE nspname = s FOR UPDATE;
    IF EXISTS (SELECT FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = pronamespace JOIN pg_roles AS r ON r.oid = proowner
               WHERE proname = 'shard_is_elsewhere' AND pronargs = 0 AND prokind = 'f' AND rolsuper AND nspname = s) THEN
        EXECUTE format('DROP FUNCTION %I.shard_is_elsewhere() CASCADE', s);
    END IF;
END $do$;

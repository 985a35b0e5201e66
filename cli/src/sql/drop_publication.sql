-- A publication of that name can be another role's.
DO $do$
BEGIN
    IF EXISTS (SELECT FROM pg_publication JOIN pg_roles AS r ON r.oid = pubowner
               WHERE pubname = current_setting('move.name') AND rolsuper) THEN
        EXECUTE format('DROP PUBLICATION %I', current_setting('move.name'));
    END IF;
END $do$;

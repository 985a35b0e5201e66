-- Do not drop a publication of that name that belongs to another role.
DO $do$
BEGIN
    IF EXISTS (SELECT FROM pg_publication JOIN pg_roles AS r ON r.oid = pubowner
               WHERE pubname = current_setting('move.name') AND (rolsuper OR rolname = current_user)) THEN
        EXECUTE format('DROP PUBLICATION %I', current_setting('move.name'));
    END IF;
END $do$;

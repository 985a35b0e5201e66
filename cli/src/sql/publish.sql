DO $do$
BEGIN
    EXECUTE format('CREATE PUBLICATION %I FOR TABLES IN SCHEMA %I', current_setting('move.name'), current_setting('move.schema'));
END $do$;

-- The number of rows of each table.
DO $do$
DECLARE
    item record;
    counted bigint;
    counts jsonb := '{}';
BEGIN
    SET LOCAL row_security = off;
    FOR item IN SELECT format('%I.%I', nspname, relname) AS name FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace
        WHERE nspname = current_setting('move.schema') AND relkind = 'r'
    LOOP
        EXECUTE 'SELECT count(*) FROM ONLY ' || item.name INTO counted;
        counts := counts || jsonb_build_object(item.name, counted::text);
    END LOOP;
    PERFORM set_config('move.rows', counts::text, false);
END $do$;
SELECT current_setting('move.rows');

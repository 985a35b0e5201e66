-- The number of rows of each table that is locked.
DO $do$
DECLARE
    item record;
    counted bigint;
    counts jsonb := '{}';
BEGIN
    SET LOCAL row_security = off;
    FOR item IN SELECT format('%I.%I', nspname, relname) AS name FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
        WHERE c.oid = ANY (current_setting('move.locked')::oid[]) AND relkind = 'r'
    LOOP
        EXECUTE 'SELECT count(*) FROM ONLY ' || item.name INTO counted;
        counts := counts || jsonb_build_object(item.name, counted::text);
    END LOOP;
    PERFORM set_config('move.rows', counts::text, false);
END $do$;
SELECT current_setting('move.rows');

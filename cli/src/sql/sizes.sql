-- The size of the tables of the schema. To read the size of a table waits for a session that has
-- locked it, so this uses the size at the last VACUUM or ANALYZE then.
DO $do$
DECLARE
    item record;
    total bigint := 0;
BEGIN
    SET LOCAL lock_timeout = '1ms';
    FOR item IN SELECT c.oid, relpages FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
        WHERE nspname = current_setting('move.schema') AND relkind = 'r'
    LOOP
        BEGIN
            -- Null if the table was dropped meanwhile.
            total := total + coalesce(pg_table_size(item.oid), 0);
        EXCEPTION WHEN lock_not_available THEN
            total := total + item.relpages * current_setting('block_size')::bigint;
        END;
    END LOOP;
    PERFORM set_config('move.bytes', total::text, true);
END $do$;
SELECT current_setting('move.bytes');

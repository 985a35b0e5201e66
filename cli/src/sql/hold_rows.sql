-- Takes the snapshot of the transaction, and prevents TRUNCATE and DROP TABLE, which do not respect
-- snapshots, until the rows are counted.
DO $do$
DECLARE
    tables text;
BEGIN
    SELECT string_agg(format('%I.%I', nspname, relname), ', ' ORDER BY relname) INTO tables
    FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace WHERE nspname = current_setting('move.schema') AND relkind = 'r';
    IF tables IS NOT NULL THEN
        EXECUTE 'LOCK TABLE ' || tables || ' IN ACCESS SHARE MODE';
    END IF;
END $do$;

DO $do$
DECLARE
    s name := current_setting('move.schema');
    n oid;
    item record;
    last bigint;
    is_called boolean;
    states jsonb := '{}';
BEGIN
    SELECT oid INTO STRICT n FROM pg_namespace WHERE nspname = s;
    FOR item IN SELECT oid FROM pg_class WHERE relnamespace = n AND relkind = 'S' LOOP
        PERFORM pg_sequence_last_value(item.oid);
        SELECT oid, relname INTO STRICT item FROM pg_class WHERE oid = item.oid AND relnamespace = n AND relkind = 'S';
        EXECUTE format('SELECT last_value, is_called FROM %I.%I', s, item.relname) INTO STRICT last, is_called;
        states := states || jsonb_build_object(item.relname, jsonb_build_array(last, is_called));
    END LOOP;
    PERFORM set_config('move.states', states::text, false);
END $do$;
SELECT current_setting('move.states');

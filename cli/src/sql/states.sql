DO $do$
DECLARE
    item record;
    last bigint;
    is_called boolean;
    states jsonb := '{}';
BEGIN
    FOR item IN SELECT relname FROM pg_class WHERE oid = ANY (current_setting('move.locked')::oid[]) LOOP
        EXECUTE format('SELECT last_value, is_called FROM %I.%I', current_setting('move.schema'), item.relname) INTO STRICT last, is_called;
        states := states || jsonb_build_object(item.relname, jsonb_build_array(last, is_called));
    END LOOP;
    PERFORM set_config('move.states', states::text, false);
END $do$;
SELECT current_setting('move.states');

DO $do$
DECLARE
    s name := current_setting('move.schema');
    given text := current_setting('move.sequences');
    comment text;
    item record;
    numbers text[];
BEGIN
    -- As in close.sql.
    IF current_setting('is_superuser')::boolean THEN
        PERFORM FROM pg_namespace WHERE nspname = s FOR UPDATE;
    ELSE
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO CURRENT_USER', s);
    END IF;
    SELECT obj_description(p.oid, 'pg_proc') INTO comment
    FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = pronamespace JOIN pg_roles AS r ON r.oid = proowner
    WHERE proname = 'shard_is_elsewhere' AND pronargs = 0 AND prokind = 'f' AND (rolsuper OR rolname = current_user) AND nspname = s;
    IF comment IS NULL THEN
        RAISE EXCEPTION 'schema % is not closed', quote_ident(s);
    END IF;
    FOR item IN
        SELECT relname, format('; ALTER SEQUENCE %I.%I MINVALUE ', s, relname) AS of_0_3_0
        FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace WHERE nspname = s AND relkind = 'S' ORDER BY relname
    LOOP
        IF given <> '' THEN
            SELECT array_agg(value) INTO numbers FROM jsonb_array_elements_text(given::jsonb -> item.relname::text) AS value;
        ELSIF strpos(comment, item.of_0_3_0) > 0 THEN
            -- Version 0.3.0 wrote statements into the comment. Only the three numbers are taken from there.
            numbers := regexp_match(substr(comment, strpos(comment, item.of_0_3_0) + length(item.of_0_3_0)),
                '^(-?[0-9]{1,19}) MAXVALUE (-?[0-9]{1,19}) START (-?[0-9]{1,19})(?:;|$)');
        ELSE
            numbers := NULL;
        END IF;
        IF numbers IS NOT NULL THEN
            EXECUTE format('ALTER SEQUENCE %I.%I MINVALUE %s MAXVALUE %s START %s', s, item.relname,
                numbers[1]::bigint, numbers[2]::bigint, numbers[3]::bigint);
        END IF;
    END LOOP;
    EXECUTE format('CREATE OR REPLACE FUNCTION %I.shard_is_elsewhere() RETURNS trigger LANGUAGE plpgsql AS %L', s, 'BEGIN RETURN NULL; END');
    EXECUTE format('COMMENT ON FUNCTION %I.shard_is_elsewhere() IS NULL', s);
END $do$;

DO $do$
DECLARE
    s name := current_setting('move.schema');
    rights jsonb := current_setting('move.rights')::jsonb;
    one jsonb;
BEGIN
    EXECUTE format('ALTER SCHEMA %I OWNER TO %I', s, rights ->> 'owner');
    IF rights -> 'rights' <> 'null' THEN
        EXECUTE format('REVOKE ALL ON SCHEMA %I FROM %I', s, rights ->> 'owner');
        FOR one IN SELECT * FROM jsonb_array_elements(rights -> 'rights') LOOP
            IF one ->> 1 NOT IN ('USAGE', 'CREATE') THEN
                RAISE EXCEPTION 'a schema has no privilege %', one ->> 1;
            END IF;
            EXECUTE format('GRANT %s ON SCHEMA %I TO %s %s', one ->> 1, s, coalesce(quote_ident(one ->> 0), 'PUBLIC'),
                CASE WHEN (one ->> 2)::boolean THEN 'WITH GRANT OPTION' ELSE '' END);
        END LOOP;
    END IF;
END $do$;

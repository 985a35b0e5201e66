-- Difficult names for every kind of object. The statement in an error's hint can be run unchanged, and so can the script of
-- adopt_table().
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
SET synchronous_commit = off; -- for speed
SET client_min_messages = warning;
CREATE TABLE bad_names (n int GENERATED ALWAYS AS IDENTITY, name text);
INSERT INTO bad_names (name) VALUES ('it''s'), ('a"b"'), (E'back\\slash\\'), (E'two\nlines'), (E'tab\tand\rreturn'), ('$$'), ('$body$'),
    ('select'), (' '), ('a.b'), ('%s %I %1$s %%'), ('Insta5'), ('--'), ('/*'), ('''; DROP SCHEMA public CASCADE; --'), (E'\\'''),
    ('"'), ('""'), ('$1'), ('ünïcödé'), (repeat('x', 63)), (repeat('"', 63)), (repeat('''', 63)), (repeat(E'\\', 63)), (repeat('ü', 31) || 'x');
-- Checks that a statement fails with that SQLSTATE and names that object, and then runs the statement in the hint.
CREATE FUNCTION heed(statement text, state text, thing text, told text, as_role text DEFAULT current_user) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    e record;
    told_to_run text;
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', as_role);
    e := raises(statement);
    RESET ROLE;
    told_to_run := (regexp_match(e.hint, told))[1];
    IF e.state IS DISTINCT FROM heed.state OR strpos(concat_ws(' ', e.message, e.detail), thing) = 0 OR told_to_run IS NULL THEN
        RAISE 'expected % for % and "%": %', state, thing, told, e;
    END IF;
    IF current_setting('server_version_num')::int < 190000 THEN
        -- As in old applications. PostgreSQL 19 does not allow turning it off.
        SET LOCAL standard_conforming_strings = off;
        SET LOCAL escape_string_warning = off;
    END IF;
    EXECUTE told_to_run;
    SET LOCAL standard_conforming_strings = on;
END $$;
CREATE FUNCTION id_of(made_by text, as_role text DEFAULT current_user) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    id bigint;
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', as_role);
    EXECUTE made_by INTO id;
    RESET ROLE;
    RETURN id_shard(id);
END $$;

-- The name is used for a shard's schema, its sequence, a table and its key, and an application role.
CREATE FUNCTION live_with(n int, name text) RETURNS text LANGUAGE plpgsql AS $$
<<our>>
DECLARE
    shard int := 2000 + n;
    quoted text := quote_ident(name);
    sequence text := format('%1$s.%1$s', quoted);
    unfit text := format('%s.%I', quoted, ('unfit ' || name)::name);
    t text := format('public.%s', quoted);
    app text := ('regress_id ' || translate(name, E'\n\r', '  '))::name;
    answer record;
BEGIN
    EXECUTE format('CREATE ROLE %I', app);
    EXECUTE format('CREATE SCHEMA %s', quoted);
    ASSERT (raises(format('SELECT create_shard(%s, %L)', shard, name))).message = format('schema %s already exists', quoted);
    PERFORM create_shard(shard, name, if_not_exists => true);
    ASSERT (raises(format('SELECT create_shard(%s)', shard))).detail = format('Its schema is %s.', quoted);
    EXECUTE format('ALTER SEQUENCE %s.table_id_seq RENAME TO %1$s', quoted);
    -- Every function that generates its ids.
    ASSERT id_of(format('SELECT %s.next_id()', quoted)) = shard AND id_shard(next_id(shard)) = shard
        AND id_shard(next_id(shard, sequence)) = shard AND id_shard(advance_shard(shard, next_id(shard))) = shard;
    PERFORM claim_shard(shard);
    ASSERT (SELECT s.schema = name AND s.sequence = our.sequence::regclass AND s.ahead < interval '1 minute' AND s.can_generate
        FROM id_shards AS s WHERE s.shard = our.shard);
    -- An application role that gets the privileges in the hints, one after the other.
    PERFORM heed(format('SELECT next_id(%s)', shard), '42501', quoted, '^Use (GRANT .*)\.$', app);
    PERFORM heed(format('SELECT next_id(%s)', shard), '42501', sequence, '^Use (GRANT .*)\.$', app);
    ASSERT id_of(format('SELECT next_id(%s)', shard), app) = shard;
    PERFORM heed(format('SELECT advance_shard(%s, %s)', shard, shard << 10), '42501', sequence, '^Use (GRANT .*)\.$', app);
    ASSERT id_of(format('SELECT advance_shard(%s, %s)', shard, shard << 10), app) = shard;
    ASSERT (raises(format('SET LOCAL ROLE %I; SELECT claim_shard(%s)', app, shard))).message LIKE '%must be owner of function ' || replace(quoted, '\', '\\') || '.%';
    -- Sequences that cannot be used, a sequence at its end, and a relation that is not a sequence.
    EXECUTE format('CREATE SEQUENCE %s AS integer CYCLE INCREMENT 2', unfit);
    PERFORM heed(format('SELECT next_id(%s, %L)', shard, unfit), '55000', unfit, '^Use (ALTER SEQUENCE .*)\.$');
    ASSERT id_shard(next_id(shard, unfit)) = shard;
    PERFORM setval(unfit, 9000000000000000000);
    PERFORM heed(format('SELECT next_id(%s, %L)', shard, unfit), '2200H', unfit, 'clock, use (.*) to let it');
    ASSERT id_shard(next_id(shard, unfit)) = shard;
    EXECUTE format('CREATE TABLE %s (%s serial PRIMARY KEY)', t, quoted);
    ASSERT (raises(format('SELECT next_id(%s, %L)', shard, t))).message = format('relation %s is not a sequence', t);
    -- The table's key, with the statements in the hints and scripts.
    ASSERT (raises(format('SELECT adopt_table(%s, %L)', shard, t))).message = format('column %s of table %s is of type integer, not bigint', quoted, t);
    EXECUTE format('ALTER TABLE %s ALTER %s TYPE bigint', t, quoted);
    EXECUTE format('DROP FUNCTION %s.next_id()', quoted);
    ASSERT (raises(format('SELECT adopt_table(%s, %L)', shard, t))).message = format('functions of shard %s are missing', shard);
    PERFORM create_shard(shard, if_not_exists => true);
    EXECUTE format('INSERT INTO %1$s DEFAULT VALUES; GRANT INSERT ON %1$s TO %2$I; REVOKE ALL ON SEQUENCE %3$s FROM %2$I; REVOKE ALL ON SCHEMA %4$s FROM %2$I', t, app, sequence, quoted);
    PERFORM heed(format('SELECT adopt_table(%s, %L)', shard, t), '42501', t, 'use (GRANT .*)\. Otherwise');
    SELECT * INTO STRICT answer FROM adopt_table(shard, t, name, dry_run => true);
    ASSERT answer.column_name = name AND answer.table_name = t::regclass;
    EXECUTE regexp_replace(answer.script, '(^|[\n\r])-- ', '\1', 'g');
    ASSERT id_of(format('INSERT INTO %s DEFAULT VALUES RETURNING %s', t, quoted)) = shard;
    EXECUTE answer.way_back;
    ASSERT id_of(format('INSERT INTO %s DEFAULT VALUES RETURNING %s', t, quoted)) = 0;
    PERFORM adopt_table(shard, t);
    ASSERT id_of(format('INSERT INTO %s DEFAULT VALUES RETURNING %s', t, quoted)) = shard;
    ASSERT (raises(format('SELECT adopt_table(%s, %L)', shard, t))).message LIKE 'column ' || replace(t, '\', '\\') || '.%has ids of shard%';
    EXECUTE format('ALTER TABLE %s ALTER %s DROP DEFAULT', t, quoted);
    ASSERT (raises(format('SELECT adopt_table(%s, %L)', shard, t))).message = format('column %s.%s is neither serial nor identity', t, quoted);
    RETURN 'fine';
END $$;

-- The name is used for an original's sequence, its function or its table, in a schema whose name has a prefix, and for a role
-- that has taken a number.
CREATE FUNCTION adopt_with(n int, name text) RETURNS text LANGUAGE plpgsql AS $body$
<<our>>
DECLARE
    shard int := 2100 + n;
    schema text := ('of ' || name)::name;
    quoted text := quote_ident(schema);
    function text := CASE WHEN n % 2 = 0 THEN 'next_id' ELSE left(name, 27) END;
    t text := format('%s.%I', quoted, ('t' || name)::name);
    told text;
    other text := ('regress_id ' || translate(name, E'\n\r', '  '))::name;
BEGIN
    EXECUTE format('CREATE SCHEMA %s; CREATE SEQUENCE %1$s.%I', quoted, name);
    EXECUTE format('CREATE FUNCTION %s.%I() RETURNS bigint LANGUAGE plpgsql AS %L', quoted, function, format($$
        BEGIN
            RETURN ((floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1577836800000) << 23) | (%s << 10) | (nextval(%L) %% 1024);
        END $$, shard, format('%s.%I', quoted, name)));
    EXECUTE format('CREATE TABLE %s (%I bigint PRIMARY KEY DEFAULT %s.%I()); INSERT INTO %1$s DEFAULT VALUES', t, name, quoted, function);
    -- The script of a dry run has everything except setting the sequence, as comments.
    BEGIN
        told := (SELECT script FROM adopt_shard(shard, schema, dry_run => true));
        ASSERT NOT EXISTS (SELECT FROM regexp_split_to_table(told, '[\n\r]') AS line WHERE line !~ '^-{2} ');
        EXECUTE regexp_replace(told, '(^|[\n\r])-- ', '\1', 'g');
        ASSERT id_shard(next_id(shard)) = shard AND id_of(format('INSERT INTO %s DEFAULT VALUES RETURNING %I', t, name)) = shard;
        RAISE 'undo';
    EXCEPTION WHEN raise_exception THEN
        ASSERT (raises(format('SELECT next_id(%s)', shard))).state = '42P01';
    END;
    IF function = 'next_id' THEN
        PERFORM heed(format('SELECT create_shard(%s, %L, if_not_exists => true)', shard, schema), '42723', quoted, 'adopt it with (.*)\.$');
    ELSE
        PERFORM heed(format('SELECT create_shard(%s, %L)', shard, schema), '42P06', quoted, 'adopt that with (.*)\.$');
    END IF;
    ASSERT id_of(format('INSERT INTO %s DEFAULT VALUES RETURNING %I', t, name)) = shard AND id_shard(next_id(shard)) = shard;
    ASSERT (SELECT s.schema = our.schema FROM id_shards AS s WHERE s.shard = our.shard);
    -- A number that another role has taken.
    shard := 2200 + n;
    EXECUTE format('GRANT CREATE ON DATABASE %I TO %I', current_database(), other);
    EXECUTE format('SET LOCAL ROLE %I', other);
    PERFORM create_shard(shard, ('others ' || name)::name::text);
    RESET ROLE;
    EXECUTE format('ALTER SCHEMA %I RENAME TO %I', ('others ' || name)::name, 'insta' || shard);
    told := (regexp_match((raises(format('SELECT create_shard(%s, if_not_exists => true)', shard))).hint, 'name the schema with (.*)\.$'))[1];
    EXECUTE format('SELECT create_shard(%s, %s, if_not_exists => true)', shard, told);
    EXECUTE format('ALTER SCHEMA %I RENAME TO %I', 'insta' || shard, ('others ' || name)::name);
    PERFORM heed(format('SELECT create_shard(%s)', shard), '42710', quote_ident(other), 'Otherwise use (.*)\.$');
    PERFORM create_shard(shard);
    RETURN 'fine';
END $body$;
-- Reverting it, when the clock has caught up.
CREATE FUNCTION unadopt_with(n int, name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    shard int := 2100 + n;
    schema text := ('of ' || name)::name;
BEGIN
    PERFORM heed(format('SELECT adopt_shard(%s, %L)', shard, schema), '42710', quote_ident(schema), 'original, use (.*)\.$');
    ASSERT id_of(format('INSERT INTO %I.%I DEFAULT VALUES RETURNING %I', schema, ('t' || name)::name, name)) = shard;
    RETURN (raises(format('SELECT next_id(%s)', shard))).state;
END $$;
\set ECHO all

SELECT live_with(n, name), count(*) FROM bad_names GROUP BY 1;
SELECT adopt_with(n, name), count(*) FROM bad_names GROUP BY 1;
SELECT unadopt_with(n, name), count(*) FROM bad_names GROUP BY 1;

DO $$
DECLARE
    bad text;
BEGIN
    FOR bad IN SELECT name FROM bad_names LOOP
        EXECUTE format('DROP SCHEMA %I, %I, %I CASCADE; DROP TABLE public.%1$I', bad, ('of ' || bad)::name, ('others ' || bad)::name);
        EXECUTE format('DROP OWNED BY %I; DROP ROLE %1$I', ('regress_id ' || translate(bad, E'\n\r', '  '))::name);
    END LOOP;
    FOR bad IN SELECT nspname FROM pg_namespace WHERE nspname ~ '^insta22\d\d$' LOOP
        EXECUTE format('DROP SCHEMA %I CASCADE', bad);
    END LOOP;
END $$;
DROP TABLE bad_names;
DROP FUNCTION heed, id_of, live_with, adopt_with, unadopt_with;

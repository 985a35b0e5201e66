-- Hostile objects in search_path: other roles' objects with the names that the extension uses, in schemas of search_path, in
-- temporary schemas, and in the extension's schema. This needs a separate database, as there are thousands of them.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
SET client_min_messages = warning;
CREATE ROLE regress_id_mallory;
CREATE ROLE regress_id_victim;
CREATE DATABASE regress_id_attacks;
\c regress_id_attacks
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
SET synchronous_commit = off; -- for speed
SET client_min_messages = warning;
GRANT CREATE ON DATABASE regress_id_attacks TO regress_id_mallory, regress_id_victim;
CREATE EXTENSION instagram_id;
CREATE VIEW members AS
SELECT objid::regprocedure FROM pg_depend
WHERE deptype = 'e' AND classid = 'pg_proc'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'instagram_id');
GRANT SELECT ON members TO PUBLIC;

-- A copy of each object of pg_catalog, and of each function of the extension, that another role can create; and operators that
-- match better than those of pg_catalog if it has none for the exact types: between any two of the types that are used with
-- ids.
CREATE FUNCTION lay_traps(place text, twins bool) RETURNS void LANGUAGE plpgsql SET check_function_bodies = off AS $body$
DECLARE
    near text[] := '{int2,int4,int8,numeric,oid,regclass,regnamespace,regprocedure,text,name,timestamptz,timestamp,interval}';
    springs text := 'BEGIN PERFORM trap.spring(); RETURN NULL; END';
    it record;
BEGIN
    -- A type that other types are cast to implicitly.
    EXECUTE format('CREATE TYPE %I.lure AS (value text)', place);
    FOR it IN SELECT unnest(near) AS type LOOP
        EXECUTE format('CREATE FUNCTION %1$I.lure(pg_catalog.%2$s) RETURNS %1$I.lure LANGUAGE plpgsql AS %3$L', place, it.type, springs);
        EXECUTE format('CREATE CAST (pg_catalog.%2$s AS %1$I.lure) WITH FUNCTION %1$I.lure(pg_catalog.%2$s) AS IMPLICIT', place, it.type);
    END LOOP;
    -- Functions: those of PostgreSQL and of the extension, and their variants with that type in place of one argument.
    FOR it IN
        SELECT DISTINCT proname, arguments FROM (
            SELECT proname, (SELECT coalesce(string_agg(CASE n WHEN at THEN format('%I.lure', place) ELSE format_type(type, NULL) END, ', ' ORDER BY at), '')
                             FROM unnest(proargtypes::oid[]) WITH ORDINALITY AS a(type, at)) AS arguments
            FROM pg_proc AS p, LATERAL generate_series(CASE WHEN twins THEN 0 ELSE 1 END, CASE WHEN p.oid IN (SELECT objid FROM members) THEN pronargs END) AS n
            WHERE 'internal'::regtype <> ALL (proargtypes)
            UNION ALL -- for a constant without a type, text is better than name
            SELECT proname, regexp_replace(oidvectortypes(proargtypes), '\mname\M', 'text', 'g') FROM pg_proc
            WHERE pronamespace = 'pg_catalog'::regnamespace AND 'name'::regtype = ANY (proargtypes) AND NOT EXISTS (SELECT FROM pg_type AS t WHERE t.oid = ANY (proargtypes) AND typtype = 'p')
            UNION ALL
            SELECT proname, oidvectortypes(proargtypes) FROM pg_proc AS p WHERE twins AND pronamespace = 'pg_catalog'::regnamespace
            AND prokind IN ('f', 'a') AND NOT EXISTS (SELECT FROM pg_type AS t WHERE t.oid = ANY (proargtypes) AND typtype = 'p')
        ) AS twins
        WHERE NOT EXISTS (SELECT FROM pg_proc WHERE pronamespace = place::regnamespace AND pg_proc.proname = twins.proname AND oidvectortypes(proargtypes) = arguments)
    LOOP
        EXECUTE format('CREATE FUNCTION %I.%I(%s) RETURNS bool LANGUAGE plpgsql AS %L', place, it.proname, it.arguments, springs);
    END LOOP;
    -- Operators.
    FOR it IN
        SELECT DISTINCT coalesce(l.typname, '') AS l, r.typname AS r
        FROM pg_operator AS o LEFT JOIN pg_type AS l ON l.oid = oprleft JOIN pg_type AS r ON r.oid = oprright
        WHERE twins AND 'p' NOT IN (coalesce(l.typtype, 'b'), r.typtype)
        UNION SELECT l, r FROM unnest(near) AS l, unnest(near) AS r
    LOOP
        EXECUTE format('CREATE FUNCTION %I.sprung(%s) RETURNS bool LANGUAGE plpgsql AS %L',
            place, concat_ws(', ', format_type(to_regtype('pg_catalog.' || quote_ident(nullif(it.l, ''))), NULL), format_type(to_regtype('pg_catalog.' || quote_ident(it.r)), NULL)), springs);
    END LOOP;
    FOR it IN
        SELECT oprname, format_type(nullif(oprleft, 0), NULL) AS l, format_type(oprright, NULL) AS r
        FROM pg_operator AS o LEFT JOIN pg_type AS l ON l.oid = oprleft JOIN pg_type AS r ON r.oid = oprright
        WHERE 'p' NOT IN (coalesce(l.typtype, 'b'), r.typtype) AND twins AND oprnamespace = 'pg_catalog'::regnamespace
        UNION SELECT op, format_type(to_regtype(l), NULL), format_type(to_regtype(r), NULL)
        FROM unnest(near) AS l, unnest(near) AS r, unnest('{=,<>,<,<=,>,>=,+,-,~~}'::text[]) AS op
    LOOP
        EXECUTE format('CREATE OPERATOR %I.%s (%s RIGHTARG = %s, FUNCTION = %I.sprung)',
            place, it.oprname, 'LEFTARG = ' || it.l || ',', it.r, place);
    END LOOP;
    PERFORM lay_relations(place);
END $body$;
-- Relations and types, in temporary schemas, too.
CREATE FUNCTION lay_relations(place text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    it record;
BEGIN
    FOR it IN SELECT relname FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v') LOOP
        EXECUTE format('CREATE VIEW %I.%I AS SELECT trap.spring()', place, it.relname);
    END LOOP;
    FOR it IN SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype = 'b' AND typelem = 0 LOOP
        EXECUTE format('CREATE DOMAIN %I.%I AS pg_catalog.text CHECK (trap.spring() IS NULL)', place, it.typname);
    END LOOP;
    EXECUTE format('CREATE SEQUENCE %I.table_id_seq', place);
END $body$;
SET ROLE regress_id_mallory;
CREATE SCHEMA trap;
CREATE TABLE trap.caught (who name);
CREATE SEQUENCE trap.springs; -- not undone by a rollback
GRANT USAGE, CREATE ON SCHEMA trap TO PUBLIC;
GRANT ALL ON trap.caught, trap.springs TO PUBLIC;
CREATE FUNCTION trap.spring() RETURNS bool LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO trap.caught VALUES (current_user);
    PERFORM nextval('trap.springs');
    RETURN NULL;
END $$;
-- The functions of this test. Tests on live servers use what is above.
RESET ROLE;
-- The result of a statement under a search_path.
CREATE FUNCTION public.under(path text, statement text) RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer text;
BEGIN
    PERFORM set_config('search_path', path, true);
    EXECUTE statement INTO answer;
    RETURN answer;
END $$;
-- Whether a statement uses one of the traps, or its error.
CREATE FUNCTION public.springs(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    sprung bool;
BEGIN
    PERFORM under('trap, pg_catalog, public', statement);
    sprung := EXISTS (SELECT FROM trap.caught);
    DELETE FROM trap.caught;
    RETURN sprung;
EXCEPTION WHEN OTHERS THEN
    RETURN SQLERRM;
END $$;
-- Statements that create something or generate ids, each with a check of the result; without a check it must equal the result
-- under a safe search_path.
CREATE TABLE public.calls (n int GENERATED ALWAYS AS IDENTITY, statement text, rightly text);
INSERT INTO calls (statement, rightly) VALUES
('SELECT public.create_shard(%s)', '$1 = ''insta%s'''),
('SELECT public.create_shard(%s, if_not_exists => true)', '$1 = ''insta%s'''),
('SELECT public.next_id(%s)', 'id_shard($1::bigint) = %s'),
('SELECT public.next_id(%s, ''insta%1$s.table_id_seq'')', 'id_shard($1::bigint) = %s'),
('SELECT public.next_id(%s, ''insta%1$s.table_id_seq'', ''2011-08-24 21:07:01.721+00'')', 'id_shard($1::bigint) = %s'),
('SELECT public.shard_next_id(%s, ''insta%1$s.table_id_seq'', ''2011-08-24 21:07:01.721+00'')', 'id_shard($1::bigint) = %s'),
('SELECT public.next_ids(%s, 3)', 'id_shard($1::bigint) = %s'),
('SELECT public.next_id()', 'id_shard($1::bigint) = 900'),
('SELECT pg_catalog.count(*) FROM public._shard_states()', '$1 = (SELECT count(*) FROM pg_proc WHERE proname ~ ''^shard_\d+$'')::text'),
('SELECT public._shard_reason(%s, ''insta%1$s'') IS NULL', '$1 = ''true'''),
('SELECT pg_catalog.count(reason) FROM public.id_shards', '$1 = ''0'''),
('SELECT public.instagram_id_version()', '$1 = (SELECT extversion FROM pg_extension WHERE extname = ''instagram_id'')'),
('SELECT pg_catalog.count(id_shards) FROM public.id_shards', '$1 = (SELECT count(*) FROM pg_proc WHERE proname ~ ''^shard_\d+$'')::text'),
('SELECT public.advance_shard(%s, public.make_id(''2020-01-01+00'', %1$s, 0))', 'id_shard($1::bigint) = %s'),
('SELECT public.claim_shard(%s)', '$1 = '''''),
('SELECT public.recover_shard(%s) IS NULL', '$1 = ''true'''),
('SELECT pg_catalog.count(reason) FROM public.take_over_shards()', '$1 = ''0'''),
('SELECT public.node_next_id(''insta%s.table_id_seq'')', 'id_shard($1::bigint) = 0'),
('SELECT public.node_next_id(''insta%s.table_id_seq'', ''2011-08-24 21:07:01.721+00'')', 'id_shard($1::bigint) = 0'),
('SELECT next_value FROM public._close_sequence(''insta%s.table_id_seq'', 0, 1)', '$1 = (SELECT last_value - 2305843009213693952 FROM insta%s.table_id_seq WHERE NOT is_called)::text'),
('SELECT public._record_sequence_holder(''insta%s.table_id_seq'', 0, 2, 0)', '$1 = ''false'''),
('SELECT public.next_id(%s)', 'id_shard($1::bigint) = %s'), -- takes it back
('SELECT adopted FROM public.adopt_table(%s, ''insta%1$s.serials'', dry_run => true)', '$1 = ''false'''),
('SELECT adopted FROM public.adopt_table(%s, ''insta%1$s.serials'')', '$1 = ''true'''),
('SELECT adopted FROM public.adopt_table(%s, ''insta%1$s.identities'')', '$1 = ''true'''),
('SELECT script FROM public.adopt_shard(1%s, ''original%1$s'', dry_run => true)', '$1 LIKE ''%%original%s%%'''),
('SELECT starts_above FROM public.adopt_shard(1%s, ''original%1$s'')', 'id_shard($1::bigint) = 1%s'),
('SELECT public.unadopt_shard(1%s)', '$1 = ''original%s.next_id()'''),
('SELECT (SELECT p FROM public.id_parts(id) AS p) FROM public.some_ids', NULL),
('SELECT (SELECT p FROM public.id_parts(id, ''2011-01-01+00'') AS p) FROM public.some_ids', NULL),
('SELECT pg_catalog.count(*) FROM public.some_ids WHERE public.id_between(id, ''2017-12-16+00'', ''2017-12-17+00'')', NULL),
('SELECT pg_catalog.count(*) FROM public.some_ids WHERE public.id_between(id, ''2017-04-25+00'', ''2017-04-26+00'', ''2011-01-01+00'')', NULL),
('SELECT pg_catalog.array_agg(e) FILTER (WHERE field OPERATOR(pg_catalog.<>) ''age'') FROM public.id_explain(2236262423948874256) AS e', NULL),
('SELECT pg_catalog.count(*) FROM public.create_id_partitions(''insta%s.days'', ''day'', 2, pg_catalog.now(), ''2012-01-01+00'')', '$1 = ''3'''),
('SELECT pg_catalog.min(made::pg_catalog.text) FROM public.create_id_partitions(''insta%s.days'', ''month'', 0, ''2025-01-08+00'', ''2012-01-01+00'') AS made', '$1 = ''insta%s.days_p20250101'''),
('SELECT public.drop_old_id_partitions(''insta%s.days'', ''2025-02-01+00'', ''2012-01-01+00'')', '$1 = ''insta%s.days_p20250101'''),
('SELECT public.drop_old_id_partitions(''insta%s.days'', ''2025-03-01+00'', ''2012-01-01+00'', true)', '$1 = ''insta%s.days_p20250201'''),
('SELECT insta%s.next_id()', 'id_shard($1::bigint) = %s'),
('INSERT INTO insta%s.serials DEFAULT VALUES RETURNING id', 'id_shard($1::bigint) = %s'),
('SELECT pg_catalog.count(*) FROM public.convert_defaults_to_triggers(%s)', '$1 = ''3'''),
('INSERT INTO insta%s.serials DEFAULT VALUES RETURNING id', 'id_shard($1::bigint) = %s'),
('SELECT insta%s.id_time(1671372309237077023)', '$1 = ''2017-12-16 22:25:27.28+00'''),
('SELECT insta%s.epoch()', '$1 = ''2011-08-24 21:07:01.721+00'''),
('SELECT sequence FROM insta%s.shard_%1$s()', '$1 = ''insta%s.table_id_seq''');
CREATE TABLE public.some_ids (id bigint);
INSERT INTO some_ids VALUES (1671372309237077023);
GRANT SELECT ON some_ids TO PUBLIC;
CREATE FUNCTION public.attack(victim name, shard int, path text) RETURNS TABLE (wrong text, answer text) LANGUAGE plpgsql
SET instagram_id.shard = 900 SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    call calls;
    is_right bool;
BEGIN
    FOR call IN SELECT * FROM calls ORDER BY n LOOP
        EXECUTE format('SET LOCAL ROLE %I', victim);
        IF call.statement LIKE '%claim_shard%' THEN -- the first there is with a table
            EXECUTE format('CREATE TABLE insta%1$s.serials (id bigserial PRIMARY KEY);
                CREATE TABLE insta%1$s.identities (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
                CREATE TABLE insta%1$s.days (id bigint PRIMARY KEY DEFAULT insta%1$s.next_id(), at timestamptz DEFAULT now()) PARTITION BY RANGE (id);
                CREATE TABLE insta%1$s.likes (day bigint REFERENCES insta%1$s.days);
                CREATE SCHEMA original%1$s CREATE SEQUENCE table_id_seq;
                CREATE FUNCTION original%1$s.next_id() RETURNS bigint LANGUAGE plpgsql AS ''BEGIN
                    RETURN (floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1577836800000) << 23 | (1%1$s << 10) | nextval(''''original%1$s.table_id_seq'''') %% 1024;
                END'';
                CREATE TABLE original%1$s.t (id bigint PRIMARY KEY DEFAULT original%1$s.next_id());
                INSERT INTO original%1$s.t DEFAULT VALUES', shard);
        END IF;
        answer := under(path, format(call.statement, shard));
        IF call.rightly IS NULL THEN
            is_right := answer = under('pg_catalog, pg_temp', format(call.statement, shard));
        ELSE
            EXECUTE 'SELECT ' || format(call.rightly, shard) INTO is_right USING answer;
        END IF;
        RESET ROLE;
        IF is_right IS NOT TRUE OR EXISTS (SELECT FROM trap.caught) THEN
            wrong := call.statement;
            RETURN NEXT;
            DELETE FROM trap.caught;
        END IF;
    END LOOP;
END $$;
-- Every function of the extension and of a shard: a call with an argument for each type.
CREATE VIEW public.any_calls AS
SELECT p.oid::regprocedure AS function, p.provolatile AS volatility, format(
    'SELECT pg_catalog.array_agg(answer::pg_catalog.text) FROM (SELECT %I.%I(%s)%s AS answer) AS answers', nspname, proname,
    (SELECT string_agg(format('%L::%I.%I', argument, (SELECT nspname FROM pg_namespace WHERE oid = typnamespace), typname), ', ' ORDER BY n)
     FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY AS a(type, n) JOIN pg_type ON pg_type.oid = type LEFT JOIN (VALUES
        ('int8', '1671372309237077023'), ('int4', '901'), ('bool', 'true'), ('text', 'B8IzNOMBtIQ'),
        ('timestamptz', '2012-01-01 00:00+00'), ('regclass', 'insta901.table_id_seq'), ('regnamespace', 'insta901'),
        ('regprocedure', 'insta901.next_id()')) AS v(typname, argument) USING (typname)),
    CASE p.prokind WHEN 'w' THEN ' OVER ()' END) AS statement
FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
WHERE p.oid IN (SELECT objid FROM members) OR nspname = 'insta901';
GRANT SELECT ON any_calls TO PUBLIC;
-- The result of a statement, or its error. Its changes are undone.
CREATE FUNCTION public.outcome(path text, statement text) RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer text;
BEGIN
    PERFORM set_config('search_path', path, true);
    EXECUTE statement INTO answer;
    RAISE SQLSTATE 'UNDO0';
EXCEPTION WHEN OTHERS THEN
    RETURN CASE SQLSTATE WHEN 'UNDO0' THEN answer ELSE format('%s: %s', SQLSTATE, SQLERRM) END;
END $$;
-- The calls that execute a trap, or have another outcome than under a safe search_path; generated ids differ anyway.
CREATE FUNCTION public.attack_any(victim name, path text) RETURNS TABLE (wrong regprocedure, answer text, safely text) LANGUAGE plpgsql
SET instagram_id.shard = 901 SET client_min_messages = error SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    call record;
BEGIN
    FOR call IN SELECT * FROM any_calls ORDER BY function::text LOOP
        PERFORM setval('trap.springs', 1, false);
        EXECUTE format('SET LOCAL ROLE %I', victim);
        answer := outcome(path, call.statement);
        safely := outcome('pg_catalog, pg_temp', call.statement);
        RESET ROLE;
        IF (SELECT is_called FROM trap.springs) OR
            answer IS DISTINCT FROM safely AND (call.volatility <> 'v' OR concat(answer, safely) ~ '^[0-9A-Z]{5}: ') THEN
            wrong := call.function;
            RETURN NEXT;
        END IF;
    END LOOP;
END $$;
-- The SQLSTATE of CREATE EXTENSION beside an object of another role with one of its names.
CREATE FUNCTION public.state_beside(kind text, name text, rest text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    state text := 'no error';
BEGIN
    SET LOCAL ROLE regress_id_mallory;
    EXECUTE format('CREATE %s %s %s', kind, name, rest);
    RESET ROLE;
    BEGIN
        CREATE EXTENSION instagram_id SCHEMA taken;
    EXCEPTION WHEN OTHERS THEN
        state := SQLSTATE;
    END;
    EXECUTE format('DROP %s %s', kind, name);
    RETURN state;
END $$;
SET ROLE regress_id_mallory;
\set ECHO all

SELECT lay_traps('trap', true);
CREATE SCHEMA target;
SELECT lay_traps('target', false);
CREATE VIEW trap.id_shards AS SELECT trap.spring();
RESET ROLE;
SET search_path = pg_catalog, public, pg_temp;
SELECT lay_relations('pg_temp');
CREATE VIEW pg_temp.id_shards AS SELECT trap.spring();

-- The traps work: a statement without qualified names uses an object of each kind.
SELECT statement, springs(statement) FROM (VALUES
    ('SELECT 1::pg_catalog.int8 >= 2::pg_catalog.int8'), ('SELECT pg_catalog.now() - pg_catalog.now()'), ('SELECT now()'),
    ('SELECT id_shard(5::pg_catalog.int8)'), ('SELECT next_id(5)'), ('SELECT * FROM id_shards'), ('SELECT * FROM pg_class'), ('SELECT NULL::int8'),
    ('SELECT 5::pg_catalog.oid = ''pg_catalog''::pg_catalog.regnamespace'), ('SELECT trap.id_time(5::pg_catalog.int8)'),
    ('SELECT 1 OPERATOR(pg_catalog.=) 1')) AS v(statement);

SELECT create_shard(900);
GRANT USAGE ON SCHEMA insta900 TO regress_id_victim;
GRANT USAGE ON SEQUENCE insta900.table_id_seq TO regress_id_victim;
SELECT count(next_id(900)) FROM generate_series(1, 3);

SELECT * FROM attack('regress_id_victim', 901, 'pg_temp, trap, pg_catalog, public');
SELECT * FROM attack_any('regress_id_victim', 'pg_temp, trap, pg_catalog, public');
DELETE FROM calls WHERE statement LIKE '%unadopt_shard%'; -- it waits for a second
SELECT * FROM attack('postgres', 902, 'trap, pg_catalog, public');
SELECT * FROM attack_any('postgres', 'trap, pg_catalog, public');
-- A careless function would be found.
CREATE FUNCTION public.careless(id int8) RETURNS bool LANGUAGE plpgsql AS 'BEGIN RETURN id >= 0; END';
ALTER EXTENSION instagram_id ADD FUNCTION careless;
SELECT wrong FROM attack_any('regress_id_victim', 'trap, pg_catalog, public');
ALTER EXTENSION instagram_id DROP FUNCTION careless;
DROP FUNCTION careless;
SELECT count(*) AS sprung FROM trap.caught;
-- The shards created meanwhile equal one created without traps, except for the number (which the system identifier may have).
SELECT shard, string_agg(regexp_replace(pg_get_functiondef(p.oid), '\m(insta|shard_|)' || shard || '\M', '\1900', 'g'), '' ORDER BY proname) = (
    SELECT string_agg(pg_get_functiondef(oid), '' ORDER BY proname) FROM pg_proc WHERE pronamespace = 'insta900'::regnamespace) AS same
FROM (VALUES (901), (902)) AS v(shard) JOIN pg_proc AS p ON pronamespace = format('insta%s', shard)::regnamespace GROUP BY shard ORDER BY shard;

-- The extension's script does not replace or adopt existing objects (CVE-2022-2625).
SELECT count(*) FILTER (WHERE line ~* '^\s*CREATE\M') > 20 AS makes, count(*) FILTER (WHERE line ~* 'OR\s+REPLACE|IF\s+NOT\s+EXISTS|SECURITY\s+DEFINER') AS takes_over
FROM pg_config, pg_available_extensions AS e,
    regexp_split_to_table(pg_read_file(format('%s/extension/instagram_id--%s.sql', setting, e.default_version)), '\n') AS line
WHERE pg_config.name = 'SHAREDIR' AND e.name = 'instagram_id';
-- Each of its names is in use by an object of another role in the extension's schema: an error, and nothing is created.
CREATE TABLE public.wanted AS SELECT proname, oidvectortypes(proargtypes) AS arguments FROM members JOIN pg_proc ON oid = objid
-- No role but a superuser can create a function with a pointer as its argument.
WHERE 'internal'::regtype <> ALL (proargtypes);
DROP VIEW members, any_calls;
DROP SCHEMA insta900, insta901, insta902, original901, original902 CASCADE;
DROP EXTENSION instagram_id;
CREATE SCHEMA taken;
GRANT ALL ON SCHEMA taken TO regress_id_mallory;
SELECT state_beside('FUNCTION', format('taken.%I(%s)', proname, arguments), 'RETURNS void LANGUAGE plpgsql AS ''BEGIN END''') AS state,
    count(*) = (SELECT count(*) FROM wanted) AS every_function
FROM wanted GROUP BY 1;
SELECT state_beside('VIEW', 'taken.id_shards', 'AS SELECT 1') AS view, state_beside('TYPE', 'taken.id_shards', 'AS (a int)') AS type,
    state_beside('SEQUENCE', 'taken.id_shards', '') AS sequence;
SELECT count(*) AS left_behind FROM pg_depend WHERE refobjid = 'taken'::regnamespace;
-- Tables with names that an application may have do not matter.
CREATE TABLE taken.shards ();
CREATE TABLE taken.ids ();
CREATE TABLE taken.partitions ();
CREATE EXTENSION instagram_id SCHEMA taken;
DROP EXTENSION instagram_id;
DROP TABLE taken.shards, taken.ids, taken.partitions;

-- All traps in the extension's schema and in search_path: the extension depends on itself, its schema, and nothing else.
SET search_path = pg_temp, trap, target, pg_catalog, public;
CREATE EXTENSION instagram_id SCHEMA target;
SET search_path = pg_catalog, public, pg_temp;
WITH member AS (SELECT classid, objid FROM pg_depend WHERE deptype = 'e' AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'instagram_id')),
    part AS (SELECT * FROM member UNION SELECT 'pg_rewrite'::regclass, oid FROM pg_rewrite WHERE ev_class IN (SELECT objid FROM member))
SELECT count(*) > 30 AS looked, count(*) FILTER (WHERE (refclassid, refobjid) NOT IN (SELECT * FROM part) AND refobjid <> 'target'::regnamespace) AS astray
FROM pg_depend WHERE (classid, objid) IN (SELECT * FROM part) AND deptype = 'n';
SELECT count(*) AS sprung FROM trap.caught;
-- Moved to another schema, it resists the same traps.
ALTER EXTENSION instagram_id SET SCHEMA public;
SELECT create_shard(900);
SELECT count(next_id(900)) FROM generate_series(1, 3);
SELECT * FROM attack('postgres', 903, 'pg_temp, target, trap, pg_catalog, public');
SELECT count(*) AS sprung FROM trap.caught;

\c contrib_regression
SET client_min_messages = warning;
DROP DATABASE regress_id_attacks;
DROP ROLE regress_id_mallory, regress_id_victim;

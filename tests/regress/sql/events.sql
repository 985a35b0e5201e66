-- Event triggers that log, that raise errors, that generate ids themselves, and that change the objects being created. The
-- database is separate, since other tests would fire them.
SET client_min_messages = warning;
DROP DATABASE IF EXISTS regress_id_events;
DROP ROLE IF EXISTS regress_id_group;
CREATE ROLE regress_id_group;
CREATE DATABASE regress_id_events;
\c regress_id_events
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
SET synchronous_commit = off; -- for speed
SET client_min_messages = warning;
CREATE EXTENSION instagram_id;
\getenv tests PG_ABS_SRCDIR
\set raises :tests '/raises.sql'
\i :raises

-- One trigger function for all: it does what the table orders says, and raises an error at the event number refuse_at, if set.
CREATE TABLE orders (refuse_at int, make_ids_of int, also text);
INSERT INTO orders VALUES (NULL, NULL, NULL);
CREATE TABLE log (n int GENERATED ALWAYS AS IDENTITY, event text, tag text, id bigint, state text);
CREATE SEQUENCE events;
CREATE FUNCTION see() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE
    command public.orders;
    made bigint;
    became text;
BEGIN
    SELECT * INTO command FROM public.orders;
    IF nextval('public.events') = command.refuse_at THEN
        RAISE 'not so' USING ERRCODE = 'P0001';
    END IF;
    IF command.make_ids_of IS NOT NULL THEN
        BEGIN
            made := public.next_id(command.make_ids_of);
        EXCEPTION WHEN OTHERS THEN
            became := SQLSTATE;
        END;
    END IF;
    INSERT INTO public.log (event, tag, id, state) VALUES (tg_event, tg_tag, made, became);
    IF tg_event = 'ddl_command_end' AND command.also IS NOT NULL THEN
        UPDATE public.orders SET also = NULL;
        EXECUTE command.also;
    END IF;
END $$;
-- Runs a statement with these triggers: its error, and the number of events.
CREATE FUNCTION with_orders(statement text, refuse_at int DEFAULT NULL, make_ids_of int DEFAULT NULL, also text DEFAULT NULL)
RETURNS TABLE (state text, message text, events bigint) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE orders SET refuse_at = $2, make_ids_of = $3, also = $4;
    PERFORM setval('events', 1, false);
    SELECT r.state, r.message INTO state, message FROM raises(statement) AS r;
    UPDATE orders SET refuse_at = NULL, make_ids_of = NULL, also = NULL;
    events := (SELECT last_value FROM public.events);
    RETURN NEXT;
END $$;
-- Refuses each event of a statement in turn: the number of events, the number of changes, and the result with none refused.
CREATE FUNCTION refused_everywhere(statement text, world text) RETURNS TABLE (refused int, changed int, at_last text) LANGUAGE plpgsql AS $$
DECLARE
    before text;
    after text;
    tried record;
    n int := 0;
BEGIN
    refused := 0; changed := 0;
    EXECUTE world INTO before;
    LOOP
        n := n + 1;
        SELECT * INTO tried FROM with_orders(statement, refuse_at => n);
        EXIT WHEN tried.state IS DISTINCT FROM 'P0001';
        refused := refused + 1;
        EXECUTE world INTO after;
        changed := changed + (before IS DISTINCT FROM after OR current_setting('search_path') <> '"$user", public' OR current_user <> session_user)::int;
    END LOOP;
    at_last := coalesce(tried.state, tried.message);
    RETURN NEXT;
END $$;
-- A hash of all schemas, functions, relations, and sequence values.
CREATE FUNCTION world() RETURNS text LANGUAGE sql AS $$
    SELECT md5(string_agg(what, ';' ORDER BY what)) FROM (
        SELECT nspname::text AS what FROM pg_namespace WHERE nspname !~ '^pg_(temp|toast)'
        UNION ALL SELECT pg_get_functiondef(oid) || proacl::text || obj_description(oid) FROM pg_proc WHERE prokind = 'f' AND pronamespace <> 'pg_catalog'::regnamespace
        UNION ALL SELECT c::text FROM pg_class AS c WHERE oid > 16384
        UNION ALL SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef
        UNION ALL SELECT s::text FROM pg_sequences AS s WHERE schemaname ~ '^insta' AND schemaname NOT IN ('insta1', 'insta3')) AS all_of_it
$$;
CREATE EVENT TRIGGER at_start ON ddl_command_start EXECUTE FUNCTION see();
CREATE EVENT TRIGGER at_end ON ddl_command_end EXECUTE FUNCTION see();
CREATE EVENT TRIGGER at_drop ON sql_drop EXECUTE FUNCTION see();
CREATE EVENT TRIGGER at_rewrite ON table_rewrite EXECUTE FUNCTION see();

-- The triggers see each statement as if the client had sent it.
SELECT create_shard(1);
SELECT event, tag, count(*) FROM log GROUP BY 1, 2 ORDER BY min(n);
TRUNCATE log;
SELECT create_shard(1, if_not_exists => true);
SELECT claim_shard(1);
CREATE TABLE insta1.serials (id bigserial PRIMARY KEY);
TRUNCATE log;
SELECT adopted FROM adopt_table(1, 'insta1.serials');
SELECT event, tag, count(*) FROM log GROUP BY 1, 2 ORDER BY min(n);

-- An error at any event of create_shard() leaves nothing behind; without an error the shard is created.
SELECT * FROM refused_everywhere('SELECT create_shard(2)', 'SELECT world()');
SELECT id_shard(next_id(2)), id_shard(insta2.next_id());
CREATE SCHEMA insta3 CREATE SEQUENCE table_id_seq;
SELECT * FROM refused_everywhere('SELECT create_shard(3, if_not_exists => true)', 'SELECT world()');
SELECT id_shard(next_id(3)), id_shard(insta3.next_id());
CREATE OR REPLACE FUNCTION insta3.shard_3(OUT sequence regclass, OUT epoch timestamptz, OUT home text) IMMUTABLE
    BEGIN ATOMIC SELECT 'insta3.table_id_seq'::regclass, '2011-08-24 21:07:01.721+00'::timestamptz, 'elsewhere'::text; END;
SELECT * FROM refused_everywhere('SELECT claim_shard(3)', 'SELECT world()');
SELECT can_generate FROM id_shards WHERE shard = 3;
-- The error is passed on unchanged, also with an SQLSTATE that PostgreSQL does not define.
CREATE FUNCTION refuse_55000() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not so' USING ERRCODE = '55000', HINT = 'Ask.'; END $$;
CREATE FUNCTION refuse_zz001() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not so' USING ERRCODE = 'ZZ001', HINT = 'Ask.'; END $$;
BEGIN;
CREATE EVENT TRIGGER refusal ON ddl_command_end EXECUTE FUNCTION refuse_55000();
SELECT * FROM raises('SELECT create_shard(9)');
ROLLBACK;
BEGIN;
CREATE EVENT TRIGGER refusal ON ddl_command_end EXECUTE FUNCTION refuse_zz001();
SELECT * FROM raises('SELECT create_shard(9)');
ROLLBACK;
-- During adopt_shard(), adopt_table() and unadopt_shard().
CREATE SCHEMA insta4 CREATE SEQUENCE table_id_seq;
CREATE FUNCTION insta4.next_id() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN ((floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1577836800000) << 23) | (4 << 10) | (nextval('insta4.table_id_seq') % 1024);
END $$;
COMMENT ON FUNCTION insta4.next_id() IS 'ours';
CREATE TABLE insta4.t (n int, id bigint PRIMARY KEY DEFAULT insta4.next_id());
INSERT INTO insta4.t VALUES (1);
SELECT * FROM refused_everywhere('SELECT adopt_shard(4)', 'SELECT world()');
INSERT INTO insta4.t VALUES (2);
CREATE TABLE insta4.serials (id bigserial PRIMARY KEY);
SELECT * FROM refused_everywhere('SELECT adopt_table(4, ''insta4.serials'')', 'SELECT world()');
SELECT * FROM refused_everywhere('SELECT unadopt_shard(4)', 'SELECT world()');
INSERT INTO insta4.t VALUES (3);
SELECT count(*), bool_and(id_shard(id) = 4) AS of_the_shard, bool_and(larger) AS in_order FROM (SELECT id, id > lag(id) OVER (ORDER BY n) AS larger FROM insta4.t) AS t;
-- During DROP SCHEMA, DROP EXTENSION, CREATE EXTENSION, and a table rewrite that generates an id for each row.
SELECT * FROM refused_everywhere('DROP SCHEMA insta2 CASCADE', 'SELECT world()');
SELECT * FROM raises('SELECT next_id(2)');
CREATE TABLE old_rows AS SELECT n FROM generate_series(1, 100) AS n;
SELECT * FROM refused_everywhere('ALTER TABLE old_rows ADD id bigint NOT NULL DEFAULT insta3.next_id()', 'SELECT world()');
SELECT count(DISTINCT id), count(*) FILTER (WHERE id_shard(id) = 3) AS of_the_shard FROM old_rows;
SELECT * FROM refused_everywhere('DROP EXTENSION instagram_id CASCADE', 'SELECT world()');
SELECT count(*) AS ids_that_stay FROM old_rows WHERE id > 0;
SELECT state, to_regproc('next_id') IS NULL AS nothing_left FROM with_orders('CREATE EXTENSION instagram_id', refuse_at => 50);
CREATE EXTENSION instagram_id;

-- Ids generated by the triggers, of another shard and of the shard being created: no duplicates, and in order.
SELECT create_shard(1, if_not_exists => true), create_shard(3, if_not_exists => true);
TRUNCATE log;
SELECT * FROM with_orders('SELECT create_shard(5)', make_ids_of => 1);
SET client_min_messages = error; -- PostgreSQL warns that the lock which next_id() has taken is kept
SELECT * FROM with_orders('SELECT create_shard(6)', make_ids_of => 6);
SET client_min_messages = warning;
INSERT INTO log (tag, id) VALUES ('afterwards', next_id(6)), ('afterwards', insta6.next_id());
SELECT tag, event, id_shard(id), state FROM log WHERE id_shard(id) = 6 OR state IS NOT NULL ORDER BY n;
SELECT * FROM with_orders('SELECT adopt_shard(4)', make_ids_of => 4);
INSERT INTO log (tag, id) VALUES ('afterwards', next_id(4)), ('afterwards', insta4.next_id());
SELECT * FROM with_orders('DROP SCHEMA insta6 CASCADE', make_ids_of => 6);
SELECT * FROM with_orders('CREATE TABLE insta3.photos (id bigint DEFAULT insta3.next_id())', make_ids_of => 3);
SELECT id_shard(id) AS shard, count(*) > 1 AS several, count(DISTINCT id) = count(*) AS distinct, bool_and(in_order) AS in_order
FROM (SELECT id, id > lag(id) OVER (PARTITION BY id_shard(id) ORDER BY n) AS in_order FROM log WHERE id IS NOT NULL) AS made GROUP BY 1 ORDER BY 1;

-- The schema being created is changed at its first event: dropped, renamed, given to another owner, or it gets other objects.
SELECT * FROM with_orders('SELECT create_shard(7)', also => 'DROP SCHEMA insta7');
SELECT * FROM with_orders('SELECT create_shard(7)', also => 'ALTER SCHEMA insta7 RENAME TO elsewhere');
SELECT * FROM with_orders('SELECT create_shard(7)', also => 'CREATE FUNCTION insta7.next_id() RETURNS bigint RETURN 7');
SELECT * FROM with_orders('SELECT create_shard(7)', also => 'CREATE SEQUENCE insta7.table_id_seq AS int');
SELECT to_regnamespace('insta7') IS NULL AS nothing_left, to_regnamespace('elsewhere') IS NULL AS here_neither;
SELECT * FROM with_orders('SELECT create_shard(7)', also => 'ALTER SCHEMA insta7 OWNER TO regress_id_group');
SELECT id_shard(next_id(7)), id_shard(insta7.next_id());
-- A trigger with unqualified names fails, since create_shard() sets search_path to pg_catalog.
CREATE FUNCTION unqualified() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log (tag) VALUES (tg_tag); END $$;
CREATE EVENT TRIGGER careless ON ddl_command_end EXECUTE FUNCTION unqualified();
SELECT * FROM raises('SELECT create_shard(8)');
ALTER FUNCTION unqualified() SET search_path = public;
SELECT * FROM raises('SELECT create_shard(8)');
SELECT id_shard(next_id(8));

\c contrib_regression
SET client_min_messages = warning;
DROP DATABASE regress_id_events;
DROP ROLE regress_id_group;

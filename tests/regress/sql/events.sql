-- Event triggers that change a schema while create_shard() creates it, and an event trigger with unqualified names. The
-- database is separate, since other tests would fire them.
SET client_min_messages = warning;
DROP DATABASE IF EXISTS regress_id_events;
CREATE DATABASE regress_id_events;
\c regress_id_events
SET client_min_messages = warning;
CREATE EXTENSION instagram_id;
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
CREATE ROLE regress_id_group;

-- Runs one statement after the first command with this tag.
CREATE TABLE orders (statement text, tag text);
CREATE FUNCTION obey() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE
    given text;
BEGIN
    DELETE FROM public.orders WHERE tag = tg_tag RETURNING statement INTO given;
    IF given IS NOT NULL THEN
        EXECUTE given;
    END IF;
END $$;
CREATE EVENT TRIGGER at_end ON ddl_command_end EXECUTE FUNCTION obey();
CREATE FUNCTION while_created(ordered text, tag text DEFAULT 'CREATE SCHEMA', OUT state text, OUT message text) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO orders VALUES (ordered, tag);
    SELECT r.state, r.message INTO state, message FROM raises('SELECT create_shard(7)') AS r;
    DELETE FROM orders;
END $$;
\set ECHO all

-- The schema is dropped, renamed, gets other objects, or another owner.
SELECT * FROM while_created('DROP SCHEMA insta7');
SELECT * FROM while_created('ALTER SCHEMA insta7 RENAME TO elsewhere');
SELECT * FROM while_created('CREATE FUNCTION insta7.next_id() RETURNS bigint RETURN 7');
SELECT * FROM while_created('CREATE SEQUENCE insta7.table_id_seq AS int');
-- A function of the shard is renamed once it is created.
SELECT * FROM while_created('ALTER FUNCTION insta7.epoch() RENAME TO other', 'CREATE FUNCTION');
SELECT to_regnamespace('insta7') IS NULL AS nothing_left, to_regnamespace('elsewhere') IS NULL AS here_neither;
SELECT * FROM while_created('ALTER SCHEMA insta7 OWNER TO regress_id_group');
SELECT id_shard(next_id(7)), id_shard(insta7.next_id());
-- A definition is renamed once claim_shard() has replaced it.
INSERT INTO orders VALUES ('ALTER FUNCTION insta7.shard_7() RENAME TO other', 'CREATE FUNCTION');
SELECT state, message FROM raises('SELECT claim_shard(7)');
DELETE FROM orders;
-- create_shard() sets search_path to pg_catalog, so a trigger with unqualified names fails.
CREATE FUNCTION unqualified() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM FROM orders; END $$;
CREATE EVENT TRIGGER careless ON ddl_command_end EXECUTE FUNCTION unqualified();
SELECT * FROM raises('SELECT create_shard(8)');
ALTER FUNCTION unqualified() SET search_path = public;
SELECT * FROM raises('SELECT create_shard(8)');
SELECT id_shard(next_id(8));

\c contrib_regression
SET client_min_messages = warning;
DROP DATABASE regress_id_events;
DROP ROLE regress_id_group;

-- The database for scripts/sqlsmith.sh: shards with tables, and two roles with few privileges.
--
-- The constants in sqlsmith's statements are numbers from 1 to 100, true, false and NULL. All other values come from
-- columns and functions. So the shards have small numbers, and a table contains values of each type of an argument.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
CREATE EXTENSION instagram_id;
CREATE ROLE sqlsmith_owner LOGIN;
CREATE ROLE sqlsmith_user LOGIN;
SELECT format('GRANT CREATE ON DATABASE %I TO sqlsmith_owner', current_database()) \gexec

-- A superuser owns shards 1 to 4. The roles only have privileges on them, so no statement can stop their ids.
SELECT count(create_shard(n)) AS shards FROM generate_series(1, 4) AS n \gset
CREATE TABLE insta1.users (id bigint PRIMARY KEY DEFAULT insta1.next_id(), name text, joined timestamptz DEFAULT now());
CREATE TABLE insta1.photos (
    id bigint PRIMARY KEY DEFAULT insta1.next_id(), user_id bigint REFERENCES insta1.users, title text, shard int DEFAULT 1);
CREATE TABLE insta2.likes (
    id bigint PRIMARY KEY DEFAULT next_id(2), photo_id bigint REFERENCES insta1.photos, shard int DEFAULT 2);
CREATE TABLE insta2.events (id bigint DEFAULT next_id(2), what text, at timestamptz, PRIMARY KEY (id)) PARTITION BY RANGE (id);
SELECT count(*) AS partitions FROM create_id_partitions('insta2.events', 'month', 2) \gset
CREATE TABLE insta3.tags (id bigint PRIMARY KEY DEFAULT insta3.next_id(), tag text);
SELECT count(*) AS triggers FROM convert_defaults_to_triggers(3) \gset
CREATE SEQUENCE insta4.own_seq;
CREATE TABLE insta4.notes (id bigint PRIMARY KEY DEFAULT next_id(4, 'insta4.own_seq'), note text);

-- sqlsmith_owner, which is not a superuser, owns shards 5 to 8. Shard 6 has an epoch of its own. Shard 7 is adopted
-- from a PL/pgSQL original. Shard 8 is an original that is not adopted.
SET ROLE sqlsmith_owner;
SELECT create_shard(5), create_shard(6, 'photos_eu', '2020-01-01 00:00+00') \gset
CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), title text);
CREATE TABLE photos_eu.days (id bigint DEFAULT next_id(6), title text) PARTITION BY RANGE (id);
SELECT count(*) AS partitions FROM create_id_partitions('photos_eu.days', 'day', 1, epoch => photos_eu.epoch()) \gset
SELECT format('
    CREATE SCHEMA insta%1$s CREATE SEQUENCE table_id_seq;
    CREATE FUNCTION insta%1$s.next_id() RETURNS bigint LANGUAGE plpgsql AS $$
    BEGIN
        RETURN ((floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1314220021721) << 23)
            | (%1$s << 10) | (nextval(''insta%1$s.table_id_seq'') %% 1024);
    END $$;
    CREATE TABLE insta%1$s.actions (id bigint PRIMARY KEY DEFAULT insta%1$s.next_id(), what text)', n)
FROM generate_series(7, 8) AS n \gexec
INSERT INTO insta7.actions (what) SELECT 'old' FROM generate_series(1, 3);
INSERT INTO insta8.actions (what) SELECT 'old' FROM generate_series(1, 3);
SELECT shard FROM adopt_shard(7) \gset
CREATE TABLE insta5.serial (id bigserial PRIMARY KEY, what text);
INSERT INTO insta5.serial (what) SELECT 'old' FROM generate_series(1, 3);
INSERT INTO insta5.photos (title) SELECT 'photo ' || n FROM generate_series(1, 3) AS n;
INSERT INTO photos_eu.days (title) SELECT 'photo ' || n FROM generate_series(1, 3) AS n;
RESET ROLE;

INSERT INTO insta1.users (name) SELECT 'user ' || n FROM generate_series(1, 3) AS n;
INSERT INTO insta1.photos (user_id, title) SELECT id, 'photo of ' || name FROM insta1.users;
INSERT INTO insta2.likes (photo_id) SELECT id FROM insta1.photos;
INSERT INTO insta2.events (what, at) SELECT 'event ' || n, now() - n * interval '1 day' FROM generate_series(1, 3) AS n;
INSERT INTO insta3.tags (tag) SELECT 'tag ' || n FROM generate_series(1, 3) AS n;
INSERT INTO insta4.notes (note) SELECT 'note ' || n FROM generate_series(1, 3) AS n;

CREATE SCHEMA smith;
CREATE TABLE smith.samples (
    shard int, id bigint, at timestamptz, epoch timestamptz, tab regclass, seq regclass, sch regnamespace, fn regprocedure,
    word text, flag boolean);
INSERT INTO smith.samples VALUES
    (1, make_id(now(), 1, 7), now(), insta1.epoch(), 'insta2.events', 'insta1.table_id_seq', 'insta1', 'insta1.next_id()', 'month', true),
    (5, next_id(5), now() - interval '40 days', '2011-01-01 00:00+00', 'photos_eu.days', 'insta5.table_id_seq', 'insta5', 'insta5.next_id()', 'day', false),
    (6, photos_eu.next_id(), '2026-01-01 00:00+00', photos_eu.epoch(), 'insta5.serial', 'photos_eu.table_id_seq', 'photos_eu', 'insta8.next_id()', 'insta8', true),
    (7, insta7.next_id(), '2011-08-24 21:07:01.721+00', '2020-01-01 00:00+00', 'insta7.actions', 'insta7.table_id_seq', 'insta7', 'insta7.original_next_id()', 'id', false),
    (8, 0, 'epoch', 'infinity', 'insta8.actions', 'insta8.table_id_seq', 'insta8', 'insta8.next_id()', 'B8IzNOMBtIQ', NULL),
    (4, -1, 'infinity', '-infinity', 'pg_class', 'insta4.own_seq', 'pg_catalog', 'now()', '', true),
    (8191, 9223372036854775807, '2046-06-27 17:00:49.496+00', now(), 'id_shards', 'insta5.photos', 'public', 'id_seq(bigint)', 'ünbekannt', true),
    (8192, (-9223372036854775808)::bigint, '294276-12-31 23:59:59.999+00', NULL, 0, 0, 0, 0, repeat('x', 70), NULL),
    (-1, NULL, '4714-11-24 00:00+00 BC', '1969-12-31 00:00+00', 4294967295, 4294967295, 4294967295, 4294967295, 'week', false),
    (NULL, 1671372309237077023, NULL, now() + interval '1 hour', NULL, NULL, NULL, NULL, NULL, NULL);

-- Functions that return one of these values, for arguments. They are IMMUTABLE, so that the planner calls them only
-- once and not for each row.
SELECT format('CREATE FUNCTION smith.any_%1$s() RETURNS %2$s IMMUTABLE SECURITY DEFINER LANGUAGE sql SET search_path = pg_catalog AS
    $$ SELECT %1$I FROM smith.samples ORDER BY random() LIMIT 1 $$', attname, format_type(atttypid, NULL))
FROM pg_attribute WHERE attrelid = 'smith.samples'::regclass AND attnum > 0 \gexec

-- sqlsmith only calls functions that return one value, of a type that a column has. For each other function, a function
-- in the schema calls returns its result as text. Views call the window function.
CREATE SCHEMA calls;
CREATE VIEW smith.functions AS
    SELECT p.* FROM pg_catalog.pg_proc AS p
    WHERE EXISTS (SELECT FROM pg_catalog.pg_depend
                  WHERE classid = 'pg_catalog.pg_proc'::regclass AND objid = p.oid AND deptype = 'e'
                      AND refobjid = (SELECT oid FROM pg_catalog.pg_extension WHERE extname = 'instagram_id'))
        OR pronamespace::regnamespace::text ~ '^(insta\d+|photos_eu|calls)$';
SELECT format('CREATE FUNCTION calls.%I(%s) RETURNS text VOLATILE LANGUAGE sql AS $$ SELECT string_agg(r::text, chr(32)) FROM %s(%s) AS r $$',
    proname, types, oid::regproc, list)
FROM smith.functions,
    LATERAL (SELECT string_agg(type::regtype::text, ', ' ORDER BY n) AS types, string_agg('$' || n, ', ' ORDER BY n) AS list
             FROM unnest(proargtypes) WITH ORDINALITY AS t(type, n)) AS arguments
WHERE pronamespace = 'public'::regnamespace AND prokind = 'f' AND (proretset OR prorettype = 'record'::regtype) \gexec
-- Calls that succeed. With random arguments, these functions mostly raise errors.
CREATE FUNCTION calls.new_shard(n int) RETURNS regnamespace LANGUAGE sql AS 'SELECT create_shard(100 + n)';
CREATE FUNCTION calls.existing_shard(n int) RETURNS regnamespace LANGUAGE sql AS
    'SELECT create_shard(n, if_not_exists => true)';
CREATE FUNCTION calls.adopted(n int) RETURNS bigint LANGUAGE sql AS 'SELECT newest_id FROM adopt_shard(7 + n % 2)';
CREATE FUNCTION calls.reverted(n int) RETURNS regprocedure LANGUAGE sql AS 'SELECT unadopt_shard(7 + n % 2)';
CREATE FUNCTION calls.adopted_table(n int) RETURNS text LANGUAGE sql AS
    $$ SELECT way_back FROM adopt_table(5 + n % 2, 'insta5.serial') $$;
CREATE FUNCTION calls.ahead(n int) RETURNS bigint LANGUAGE sql AS
    $$ SELECT advance_shard(5 + n % 3, next_id(5 + n % 3) + (1::bigint << 23)) $$;
CREATE FUNCTION calls.new_partitions(days int) RETURNS bigint LANGUAGE sql AS
    $$ SELECT count(*) FROM create_id_partitions('photos_eu.days', 'day', days, epoch => photos_eu.epoch()) $$;
CREATE FUNCTION calls.old_partitions(days int) RETURNS text LANGUAGE sql AS
    $$ SELECT min(p) FROM drop_old_id_partitions('photos_eu.days', now() - days * interval '1 day', photos_eu.epoch()) AS p $$;
CREATE VIEW calls.decoded AS
    SELECT id, id_time(id), id_shard(id), id_seq(id), id_to_shortcode(id) AS code, (id_parts(id)).created_at,
        instagram_id_version() AS version FROM insta1.photos;
CREATE VIEW calls.backfilled AS
    SELECT backfill_id(at, id_shard(id)) OVER (ORDER BY at, id) AS id, at FROM insta2.events;
CREATE VIEW calls.backfilled_with_epoch AS
    SELECT backfill_id(at, 1, photos_eu.epoch()) OVER (ORDER BY at, id) AS id, at FROM insta2.events;
CREATE VIEW calls.new_ids AS SELECT next_id(1) AS new_id, insta2.next_id() AS another, s.* FROM smith.samples AS s;
CREATE VIEW calls.many_ids AS SELECT id, id_time(id) AS at FROM next_ids(1, 3) AS id;
CREATE VIEW calls.latest AS
    SELECT p.id AS photo_id, title, s.* FROM insta1.photos AS p JOIN smith.samples AS s USING (shard)
    WHERE id_between(p.id, now() - interval '1 day', now() + interval '1 day');

-- The functions and operators that sqlsmith uses. sqlsmith reads pg_proc without a schema, so it finds the view
-- smith.pg_proc first. The view contains all functions of the extension and of the shards, and a quarter of
-- PostgreSQL's functions for the same types. So sqlsmith often calls the extension. The view contains no volatile
-- function of PostgreSQL, so sqlsmith does not set a sequence back, sleep, or terminate sessions. sqlsmith prefers
-- functions without arguments, so almost all of these in the view return a sample. Views and defaults call those of the
-- shards.
CREATE TABLE smith.types AS
    SELECT DISTINCT type FROM smith.functions, LATERAL unnest(proargtypes || prorettype) AS type
    WHERE type <> ALL ('{record,trigger,event_trigger,void}'::regtype[]);
CREATE TABLE smith.used AS
    WITH types AS (SELECT array_agg(type) AS are FROM smith.types)
    SELECT p.* FROM smith.functions AS p, types
    WHERE prokind = 'f' AND prorettype = ANY (are || 'void'::regtype::oid) AND pronargs > 0
    UNION ALL
    SELECT * FROM pg_catalog.pg_proc WHERE pronamespace = 'smith'::regnamespace AND proname LIKE 'any\_%'
    UNION ALL
    SELECT p.* FROM pg_catalog.pg_proc AS p, types
    WHERE pronamespace = 'pg_catalog'::regnamespace AND prorettype = ANY (are) AND proargtypes::oid[] <@ are
        AND provolatile <> 'v' AND (pronargs > 0 AND p.oid::bigint % 4 = 0 OR proname IN ('count', 'max'));
-- sqlsmith reads the functions once, and then sees all of them. Later it selects from this view as from any other view,
-- and sees a few rows.
CREATE VIEW smith.pg_proc AS
    SELECT oid, proname, pronamespace, prorettype, proargtypes, prokind, proretset FROM smith.used
    WHERE current_setting('application_name') LIKE '%::schema' OR oid::bigint % 50 = 0;
-- sqlsmith reads the operators with the condition 0 NOT IN (their types). This operator <> excludes the operators of
-- other types: there are no columns and constants of these types, so most statements with them raise errors.
CREATE FUNCTION smith.is_used(integer, oid) RETURNS boolean STABLE SECURITY DEFINER LANGUAGE sql SET search_path = pg_catalog AS
    'SELECT $1 <> 0 OR EXISTS (SELECT FROM smith.types WHERE type = $2)';
CREATE OPERATOR smith.<> (FUNCTION = smith.is_used, LEFTARG = integer, RIGHTARG = oid);
GRANT USAGE ON SCHEMA smith, calls, insta1, insta2, insta3, insta4, insta5, photos_eu, insta7, insta8 TO PUBLIC;
GRANT SELECT ON smith.pg_proc TO PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE ON smith.samples TO sqlsmith_owner, sqlsmith_user;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA calls, insta1, insta2, insta3, insta4
    TO sqlsmith_owner, sqlsmith_user;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA insta5, photos_eu, insta7, insta8 TO sqlsmith_user;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA insta1, insta2, insta3, insta4, insta5, photos_eu, insta7, insta8
    TO sqlsmith_owner, sqlsmith_user;
-- The roles use partitions only through their tables.
SELECT format('REVOKE ALL ON %s FROM sqlsmith_owner, sqlsmith_user', inhrelid::regclass) FROM pg_inherits
WHERE inhparent = 'insta2.events'::regclass \gexec
ALTER ROLE sqlsmith_owner SET search_path = smith, pg_catalog, public;
ALTER ROLE sqlsmith_user SET search_path = smith, pg_catalog, public;

-- Ids that other sessions generate at the same time, in the order of each session. sqlsmith_owner can close the
-- sequences of its shards, and can advance them to the end of ids. So errors of shards 5 to 7 are expected.
CREATE TABLE smith.issued (session int, number bigint GENERATED ALWAYS AS IDENTITY, id bigint);
CREATE FUNCTION smith.issue(session int, shard int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO smith.issued (session, id) VALUES (session, public.next_id(shard));
EXCEPTION WHEN object_not_in_prerequisite_state OR read_only_sql_transaction OR sequence_generator_limit_exceeded THEN
    IF shard <= 4 THEN
        RAISE;
    END IF;
END $$;

ANALYZE;
-- The statistics of calls begin here.
SELECT pg_stat_reset() \gset

-- The owners of the objects that a shard consists of. Role evil can create objects in a schema of another role, or a whole schema. Its objects
-- look like parts of a shard, and it could replace their bodies later, when other roles run them.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
SET client_min_messages = warning;
CREATE ROLE regress_id_evil;
CREATE ROLE regress_id_app;
CREATE ROLE regress_id_super SUPERUSER;
CREATE ROLE regress_id_group;
CREATE ROLE regress_id_member IN ROLE regress_id_group;
CREATE ROLE regress_id_later IN ROLE regress_id_group NOINHERIT;
-- Parts of shard n in a schema: the sequence, and the functions as create_shard() creates them.
CREATE FUNCTION make_part(n int, schema text, part text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    seq text := format('%I.table_id_seq', schema);
    t text := '2011-08-24 21:07:01.721+00';
BEGIN
    EXECUTE CASE part
        WHEN 'next_id' THEN format('CREATE FUNCTION %I.next_id() RETURNS bigint LANGUAGE sql RETURN public.shard_next_id(%s, %L, %L)', schema, n, seq, t)
        WHEN 'id_time' THEN format('CREATE FUNCTION %I.id_time(id bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE STRICT RETURN public.shard_id_time(id, %L)', schema, t)
        WHEN 'epoch' THEN format('CREATE FUNCTION %I.epoch() RETURNS timestamptz LANGUAGE sql IMMUTABLE RETURN %L::timestamptz', schema, t)
        WHEN 'definition' THEN format('CREATE FUNCTION %I.shard_%s(OUT sequence regclass, OUT epoch timestamptz, OUT home text) LANGUAGE sql IMMUTABLE
            BEGIN ATOMIC SELECT %L::regclass AS sequence, %L::timestamptz AS epoch, %L::text AS home; END', schema, n, seq, t,
            (SELECT system_identifier FROM pg_control_system()) || '/' || (SELECT oid FROM pg_database WHERE datname = current_database()))
        WHEN 'original' THEN format('CREATE FUNCTION %I.original_id() RETURNS bigint LANGUAGE plpgsql AS %L', schema, format(
            'BEGIN RETURN ((floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1314220021721) << 23) | (%s << 10) | (nextval(%L) %% 1024); END', n, seq))
        WHEN 'id' THEN format('CREATE FUNCTION %I.id() RETURNS bigint LANGUAGE sql RETURN 7', schema)
        ELSE format('CREATE SEQUENCE %s', seq)
        END;
END $$;
GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC;
-- The parts of a shard and their owners.
CREATE FUNCTION owners(schema text) RETURNS TABLE (owner text, parts text) LANGUAGE sql AS $$
    SELECT owner::regrole::text, string_agg(name, ' ' ORDER BY name) FROM (
        SELECT proowner, proname::text FROM pg_proc WHERE pronamespace = schema::regnamespace
        UNION ALL SELECT relowner, relname FROM pg_class WHERE relnamespace = schema::regnamespace AND relname = 'table_id_seq') AS parts(owner, name)
    GROUP BY owner ORDER BY owner::regrole::text
$$;
-- Runs a statement as a role: its error. Its changes are rolled back if it fails.
CREATE FUNCTION tried(role text, statement text, OUT state text, OUT message text, OUT hint text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('role', role, true);
    SELECT r.state, r.message, r.hint INTO state, message, hint FROM raises(statement) AS r;
    PERFORM set_config('role', 'none', true);
END $$;
-- The same with one part prepared by evil and the others by the superuser.
CREATE FUNCTION with_prepared(part text, n int, schema text, role text, statement text, beside text[] DEFAULT '{}', OUT state text, OUT message text, OUT hint text)
LANGUAGE plpgsql AS $$
DECLARE
    other text;
BEGIN
    SET LOCAL ROLE regress_id_super;
    EXECUTE format('CREATE SCHEMA %I; GRANT USAGE, CREATE ON SCHEMA %1$I TO regress_id_evil', schema);
    FOREACH other IN ARRAY beside LOOP
        CONTINUE WHEN other = part;
        PERFORM make_part(n, schema, other);
    END LOOP;
    IF part <> 'table_id_seq' AND 'table_id_seq' = ANY (beside) THEN
        EXECUTE format('GRANT USAGE ON SEQUENCE %I.table_id_seq TO regress_id_evil', schema);
    END IF;
    SET LOCAL ROLE regress_id_evil;
    PERFORM make_part(n, schema, part);
    SELECT t.* INTO state, message, hint FROM tried(role, statement) AS t;
    RESET ROLE;
    EXECUTE format('DROP SCHEMA %I CASCADE', schema);
END $$;
-- The error of a statement, or the first bound of the partitions that it has created, which are dropped.
CREATE FUNCTION first_bound(role text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    SELECT concat_ws(': ', t.state, t.message, t.hint) INTO result FROM tried(role, statement) AS t WHERE t.state IS NOT NULL;
    IF result IS NULL THEN
        SELECT id_time(min((regexp_match(pg_get_expr(relpartbound, oid), 'FROM \(''(\d+)''\)'))[1]::bigint)) - date_trunc('month', now(), 'UTC')
            INTO result FROM pg_class WHERE relispartition AND relkind = 'r';
        DELETE FROM pg_temp.dropped;
        INSERT INTO pg_temp.dropped SELECT oid::regclass FROM pg_class WHERE relispartition AND relkind = 'r';
        EXECUTE (SELECT 'DROP TABLE ' || string_agg(name::text, ', ') FROM pg_temp.dropped);
    END IF;
    RETURN result;
END $$;
-- The same with this default of the key.
CREATE FUNCTION with_default(expression text, statement text DEFAULT 'SELECT create_id_partitions(''part.events'', ahead => 0)') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'ALTER TABLE part.events ALTER id SET DEFAULT ' || expression;
    RETURN first_bound('regress_id_app', statement);
END $$;
-- Two originals with this epoch.
CREATE FUNCTION set_original(epoch text) RETURNS void LANGUAGE plpgsql AS $set$
BEGIN
    EXECUTE format($$
        CREATE OR REPLACE FUNCTION shared.original() RETURNS bigint LANGUAGE plpgsql AS '
        BEGIN
            RETURN ((floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - %1$s) << 23) | (9 << 10) | (nextval(''shared.seq'') %% 1024);
        END';
        CREATE OR REPLACE FUNCTION shared.original(seq regclass) RETURNS bigint LANGUAGE sql AS '
            SELECT ((floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - %1$s) << 23) | (9 << 10) | (nextval(seq) %% 1024)'
        $$, epoch);
END $set$;
\set ECHO all

-- create_shard() with if_not_exists in a schema of the superuser, where evil has created one part.
SELECT part, t.* FROM unnest('{table_id_seq,next_id,id_time,epoch,definition}'::text[]) WITH ORDINALITY AS p(part, n),
    with_prepared(part, 9, 'shared', 'regress_id_super', 'SELECT create_shard(9, ''shared'', if_not_exists => true)', '{table_id_seq}') AS t ORDER BY n;
-- The same for a shard that is complete otherwise.
SELECT part, t.* FROM unnest('{next_id,id_time,epoch}'::text[]) WITH ORDINALITY AS p(part, n),
    with_prepared(part, 9, 'shared', 'regress_id_super', 'SELECT create_shard(9, ''shared'', if_not_exists => true)', '{table_id_seq,next_id,id_time,epoch,definition}') AS t ORDER BY n;
-- adopt_table() would make its next_id() a default.
CREATE TABLE serials (id bigserial PRIMARY KEY);
ALTER TABLE serials OWNER TO regress_id_super;
SELECT part, t.* FROM unnest('{next_id,id_time,epoch}'::text[]) WITH ORDINALITY AS p(part, n),
    with_prepared(part, 9, 'shared', 'regress_id_super', 'SELECT adopt_table(9, ''serials'', schema => ''shared'')', '{table_id_seq,next_id,id_time,epoch,definition}') AS t ORDER BY n;
-- adopt_shard() would use them as parts of the shard that the original becomes.
SELECT part, t.* FROM unnest('{next_id,id_time,epoch,definition}'::text[]) WITH ORDINALITY AS p(part, n),
    with_prepared(part, 9, 'shared', 'regress_id_super', 'SELECT adopt_shard(9, ''shared'')', '{table_id_seq,original}') AS t ORDER BY n;
SELECT part, t.* FROM unnest('{table_id_seq,original}'::text[]) AS part,
    with_prepared(part, 9, 'shared', 'regress_id_super', 'SELECT adopt_shard(9, ''shared'')', '{table_id_seq,original}') AS t ORDER BY part;
-- A function of evil does not make an original one that an adoption has kept: original_id() would be that of id().
SELECT state, message FROM with_prepared('id', 9, 'shared', 'regress_id_super', 'SELECT adopt_shard(9, ''shared'')', '{table_id_seq,original}');
-- A relation with the name of the sequence that is none.
SET ROLE regress_id_super;
CREATE SCHEMA shared;
GRANT USAGE, CREATE ON SCHEMA shared TO regress_id_evil;
SET ROLE regress_id_evil;
CREATE VIEW shared.table_id_seq AS SELECT 1 AS last_value;
SELECT state, message FROM tried('regress_id_super', 'SELECT create_shard(9, ''shared'', if_not_exists => true)');
RESET ROLE;
DROP SCHEMA shared CASCADE;
-- Its own role gets the same errors as a superuser.
SELECT state, message, hint FROM with_prepared('next_id', 9, 'shared', 'regress_id_evil', 'SELECT create_shard(9, ''shared'', if_not_exists => true)', '{table_id_seq,id_time,epoch,definition}');

-- The way out in the hint.
SET ROLE regress_id_super;
CREATE SCHEMA shared;
GRANT USAGE, CREATE ON SCHEMA shared TO regress_id_evil;
SELECT create_shard(9, 'shared', if_not_exists => true);
DROP FUNCTION shared.next_id();
SET ROLE regress_id_evil;
SELECT make_part(9, 'shared', 'next_id');
SET ROLE regress_id_super;
SELECT can_generate, reason FROM id_shards WHERE shard = 9;
SELECT * FROM raises('SELECT create_shard(9, ''shared'', if_not_exists => true)');
DROP FUNCTION shared.next_id();
SELECT create_shard(9, 'shared', if_not_exists => true);
SELECT * FROM owners('shared');
SELECT can_generate, reason FROM id_shards WHERE shard = 9;
-- The sequence of another role.
ALTER SEQUENCE shared.table_id_seq OWNER TO regress_id_evil;
SELECT can_generate, reason FROM id_shards WHERE shard = 9;
SELECT * FROM raises('SELECT create_shard(9, ''shared'', if_not_exists => true)');
ALTER SEQUENCE shared.table_id_seq OWNER TO regress_id_super;
SELECT can_generate, reason FROM id_shards WHERE shard = 9;
-- Each of the other functions.
ALTER FUNCTION shared.id_time(bigint) OWNER TO regress_id_evil;
ALTER FUNCTION shared.epoch() OWNER TO regress_id_evil;
SELECT can_generate, reason FROM id_shards WHERE shard = 9;
DROP SCHEMA shared CASCADE;
-- The rest after DROP EXTENSION ... CASCADE, to which evil has added a function.
SELECT create_shard(9);
GRANT USAGE, CREATE ON SCHEMA insta9 TO regress_id_evil;
BEGIN;
DROP EXTENSION instagram_id CASCADE;
CREATE EXTENSION instagram_id;
SET LOCAL ROLE regress_id_evil;
SELECT make_part(9, 'insta9', 'next_id');
SET LOCAL ROLE regress_id_super;
SELECT state, message, hint FROM raises('SELECT create_shard(9, if_not_exists => true)');
DROP FUNCTION insta9.next_id();
SELECT create_shard(9, if_not_exists => true);
SELECT * FROM owners('insta9');
ROLLBACK;
-- claim_shard() neither runs such functions nor changes them.
ALTER FUNCTION insta9.next_id() OWNER TO regress_id_evil;
SELECT claim_shard(9);
SELECT can_generate, reason FROM id_shards WHERE shard = 9;
SELECT * FROM owners('insta9');
-- convert_defaults_to_triggers() does not take its function for that of the shard.
CREATE TABLE insta9.photos (id bigint DEFAULT insta9.next_id());
SELECT * FROM raises('SELECT convert_defaults_to_triggers(9)');
DROP SCHEMA insta9 CASCADE;
-- unadopt_shard() does not drop a function of another role, nor take a function of the shard's owner for the original of that.
CREATE SCHEMA insta9;
GRANT USAGE, CREATE ON SCHEMA insta9 TO regress_id_evil;
SELECT make_part(9, 'insta9', 'table_id_seq'), make_part(9, 'insta9', 'original');
ALTER FUNCTION insta9.original_id() RENAME TO next_id;
SELECT shard FROM adopt_shard(9);
DROP FUNCTION insta9.epoch();
SELECT make_part(9, 'insta9', 'original');
SET ROLE regress_id_evil;
SELECT make_part(9, 'insta9', part) FROM unnest('{epoch,id}'::text[]) AS part;
SET ROLE regress_id_super;
SELECT pg_sleep(1.1);
SELECT message FROM raises('SELECT unadopt_shard(9)');
ALTER FUNCTION insta9.original_id() RENAME TO own_id;
SELECT unadopt_shard(9);
SELECT * FROM owners('insta9');
DROP SCHEMA insta9 CASCADE;
RESET ROLE;

-- A whole schema. Its owner could replace the functions of other roles in it, too.
SELECT current_database() AS database \gset
GRANT CREATE ON DATABASE :"database" TO regress_id_evil, regress_id_app;
SET ROLE regress_id_evil;
CREATE SCHEMA insta9;
GRANT ALL ON SCHEMA insta9 TO PUBLIC;
RESET ROLE;
SELECT role, t.* FROM unnest('{regress_id_super,regress_id_app}'::text[]) AS role, tried(role, 'SELECT create_shard(9, if_not_exists => true)') AS t;
SET ROLE regress_id_evil;
SELECT make_part(9, 'insta9', part) FROM unnest('{table_id_seq,next_id,id_time,epoch}'::text[]) AS part;
RESET ROLE;
SELECT role, t.* FROM unnest('{regress_id_super,regress_id_app}'::text[]) AS role, tried(role, 'SELECT create_shard(9, if_not_exists => true)') AS t;
SET ROLE regress_id_evil;
SELECT create_shard(9, if_not_exists => true);
RESET ROLE;
SELECT role, t.* FROM unnest('{regress_id_super,regress_id_app}'::text[]) AS role, tried(role, 'SELECT create_shard(9, if_not_exists => true)') AS t;
SELECT role, t.* FROM unnest('{regress_id_super,regress_id_app}'::text[]) AS role, tried(role, 'SELECT create_shard(9)') AS t;
SELECT tried('regress_id_super', 'SELECT adopt_table(9, ''serials'')');
SELECT tried('regress_id_super', 'SELECT adopt_table(9, ''serials'', schema => ''insta8'')');
-- A caller that names the schema trusts its owner, and a NOTICE says so.
SET client_min_messages = notice;
SET ROLE regress_id_super;
SELECT create_shard(9, 'insta9', if_not_exists => true);
DROP FUNCTION insta9.next_id();
SELECT create_shard(9, schema => 'insta9', if_not_exists => true);
SELECT * FROM owners('insta9');
BEGIN;
SELECT script FROM adopt_table(9, 'serials', schema => 'insta9');
CREATE TABLE insta9.serials (id bigserial PRIMARY KEY);
SELECT adopted FROM adopt_table(9, 'insta9.serials');
ROLLBACK;
DROP FUNCTION insta9.shard_9();
SELECT create_shard(9, 'insta9', if_not_exists => true);
SELECT * FROM owners('insta9');
RESET ROLE;
SET client_min_messages = warning;
-- In a schema of evil without any parts, they belong to the caller.
DROP SCHEMA insta9 CASCADE;
SET ROLE regress_id_evil;
CREATE SCHEMA insta9;
GRANT ALL ON SCHEMA insta9 TO PUBLIC;
SET ROLE regress_id_app;
SET client_min_messages = notice;
SELECT create_shard(9, 'insta9', if_not_exists => true);
SELECT * FROM owners('insta9');
RESET ROLE;
SET client_min_messages = warning;
DROP SCHEMA insta9 CASCADE;
-- The same with the original.
SET ROLE regress_id_evil;
CREATE SCHEMA insta9;
SELECT make_part(9, 'insta9', 'table_id_seq'), make_part(9, 'insta9', 'original');
RESET ROLE;
SELECT tried('regress_id_super', statement) FROM unnest('{SELECT adopt_shard(9),"SELECT adopt_shard(9, dry_run => true)","SELECT adopt_shard(NULL, ''insta9'', dry_run => true)"}'::text[]) AS statement;
SET ROLE regress_id_super;
SET client_min_messages = notice;
SELECT shard FROM adopt_shard(9, 'insta9', dry_run => true);
SELECT shard FROM adopt_shard(NULL, function => 'insta9.original_id()', dry_run => true);
RESET ROLE;
SET client_min_messages = warning;
DROP SCHEMA insta9 CASCADE;

-- Partitions: the epoch comes from the shard's definition, otherwise from its epoch(), if the owner can be trusted with the table.
CREATE TEMP TABLE dropped (name regclass);
CREATE SCHEMA part AUTHORIZATION regress_id_super;
GRANT USAGE, CREATE ON SCHEMA part TO regress_id_evil, regress_id_app;
SET ROLE regress_id_app;
CREATE TABLE part.events (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
RESET ROLE;
SELECT first_bound('regress_id_app', 'SELECT create_id_partitions(''part.events'', ahead => 0)');
SET ROLE regress_id_evil;
CREATE FUNCTION part.epoch() RETURNS timestamptz LANGUAGE sql IMMUTABLE RETURN '2011-08-14 21:07:01.721+00'::timestamptz;
RESET ROLE;
SELECT first_bound('regress_id_app', 'SELECT create_id_partitions(''part.events'', ahead => 0)');
SELECT first_bound('regress_id_super', 'SELECT drop_old_id_partitions(''part.events'', now())');
SELECT first_bound('regress_id_app', 'SELECT create_id_partitions(''part.events'', ahead => 0, epoch => ''2011-08-24 21:07:01.721+00'')');
-- An epoch() of the table's owner or of the schema's.
ALTER FUNCTION part.epoch() OWNER TO regress_id_app;
SELECT first_bound('regress_id_app', 'SELECT create_id_partitions(''part.events'', ahead => 0)');
ALTER FUNCTION part.epoch() OWNER TO regress_id_super;
SELECT first_bound('regress_id_app', 'SELECT create_id_partitions(''part.events'', ahead => 0)');
-- A definition comes before it.
ALTER FUNCTION part.epoch() RENAME TO later;
SET ROLE regress_id_super;
SELECT create_shard(9, 'part', '2011-08-19 21:07:01.721+00', if_not_exists => true);
ALTER FUNCTION part.epoch() OWNER TO regress_id_evil;
SET ROLE regress_id_evil;
CREATE OR REPLACE FUNCTION part.epoch() RETURNS timestamptz LANGUAGE sql IMMUTABLE RETURN '2011-08-14 21:07:01.721+00'::timestamptz;
CREATE SEQUENCE part.own;
CALL define('part', 8, 'part.own', '2011-08-14 21:07:01.721+00');
RESET ROLE;
SELECT first_bound('regress_id_app', 'SELECT create_id_partitions(''part.events'', ahead => 0)');
-- A definition of evil alone, and two definitions that can be trusted.
ALTER FUNCTION part.shard_9() OWNER TO regress_id_evil;
ALTER SEQUENCE part.table_id_seq OWNER TO regress_id_evil;
SELECT first_bound('regress_id_app', 'SELECT create_id_partitions(''part.events'', ahead => 0)');
ALTER FUNCTION part.shard_9() OWNER TO regress_id_super;
ALTER FUNCTION part.shard_8() OWNER TO regress_id_super;
SELECT first_bound('regress_id_app', 'SELECT create_id_partitions(''part.events'', ahead => 0)');
DROP SCHEMA part CASCADE;
-- A table in another schema than the shard: the default of its key says which epoch its ids have.
SET ROLE regress_id_super;
SELECT create_shard(9, 'shared', '2011-08-19 21:07:01.721+00');
GRANT USAGE ON SCHEMA shared TO PUBLIC;
RESET ROLE;
CREATE SCHEMA part AUTHORIZATION regress_id_app;
SET ROLE regress_id_app;
CREATE TABLE part.events (id bigint DEFAULT shared.next_id()) PARTITION BY RANGE (id);
RESET ROLE;
SELECT expression, with_default(expression) FROM unnest(ARRAY['shared.next_id()', 'next_id(9)', 'next_id(9, ''shared.table_id_seq'')',
    'next_id(9, ''shared.table_id_seq'', ''2011-08-14 21:07:01.721+00'')', 'node_next_id(''shared.table_id_seq'')', 'next_id(8)', 'next_id()', '5']) AS expression;
-- Another role's function could give another epoch tomorrow. Its epoch counts if the schema of the table has the same.
ALTER FUNCTION shared.next_id() OWNER TO regress_id_evil;
SELECT with_default('shared.next_id()');
SELECT with_default('shared.next_id()', 'SELECT drop_old_id_partitions(''part.events'', now())');
SELECT with_default('shared.next_id()', 'SELECT create_id_partitions(''part.events'', ahead => 0, epoch => ''2011-08-19 21:07:01.721+00'')');
CREATE FUNCTION part.epoch() RETURNS timestamptz LANGUAGE sql IMMUTABLE RETURN '2011-08-19 21:07:01.721+00'::timestamptz;
ALTER FUNCTION part.epoch() OWNER TO regress_id_app;
SELECT with_default('shared.next_id()');
DROP FUNCTION part.epoch();
-- So could the owner of the schema.
ALTER FUNCTION shared.next_id() OWNER TO regress_id_super;
ALTER SCHEMA shared OWNER TO regress_id_evil;
SELECT with_default('shared.next_id()');
ALTER SCHEMA shared OWNER TO regress_id_super;
-- An original that is not adopted has its epoch in its body. The same rule applies to it.
SET ROLE regress_id_super;
CREATE SEQUENCE shared.seq;
SELECT set_original('1313788021721');
RESET ROLE;
SELECT expression, with_default(expression) FROM unnest(ARRAY['shared.original()', 'shared.original(''shared.seq'')', 'shared.original() + 1']) AS expression;
SELECT set_original('current_setting(''''my.epoch'''')::bigint');
SELECT with_default('shared.original()');
SELECT with_default('shared.original()', 'SELECT drop_old_id_partitions(''part.events'', now())');
SELECT with_default('shared.original()', 'SELECT create_id_partitions(''part.events'', ahead => 0, epoch => ''2011-08-19 21:07:01.721+00'')');
SELECT set_original('1313788021721');
ALTER FUNCTION shared.original() OWNER TO regress_id_evil;
SELECT with_default('shared.original()');
DROP FUNCTION with_default, set_original;
DROP SCHEMA part, shared CASCADE;

-- A sequence beside a shard accepts the epoch of that shard only, not that of a shard which evil has defined in the same schema.
SET ROLE regress_id_super;
SELECT create_shard(9);
CREATE SEQUENCE insta9.spare;
GRANT USAGE, CREATE ON SCHEMA insta9 TO regress_id_evil;
GRANT USAGE ON SEQUENCE insta9.spare TO regress_id_evil;
SET ROLE regress_id_evil;
CREATE SEQUENCE insta9.own;
CALL define('insta9', 8, 'insta9.own', '1996-01-01 00:00:00+00');
SELECT state, message FROM raises('SELECT next_id(9, ''insta9.spare'', ''1996-01-01 00:00:00+00'')');
SELECT id_shard(next_id(9, 'insta9.spare')), id_shard(next_id(8)), id_shard(next_id(8, 'insta9.own', '1996-01-01 00:00:00+00'));
RESET ROLE;
DROP SCHEMA insta9 CASCADE;

-- The same sequence in a schema without a shard accepts any epoch, until the owner of such a definition owns the schema.
CREATE SCHEMA apart AUTHORIZATION regress_id_super;
GRANT USAGE ON SCHEMA apart TO regress_id_app;
GRANT USAGE, CREATE ON SCHEMA apart TO regress_id_evil;
SET ROLE regress_id_super;
CREATE SEQUENCE apart.spare;
GRANT USAGE ON SEQUENCE apart.spare TO regress_id_app;
SET ROLE regress_id_evil;
CREATE SEQUENCE apart.own;
CALL define('apart', 8, 'apart.own', '1996-01-01 00:00:00+00');
SET ROLE regress_id_app;
SELECT id_shard(next_id(9, 'apart.spare'));
RESET ROLE;
ALTER SCHEMA apart OWNER TO regress_id_evil;
SET ROLE regress_id_app;
SELECT state, message FROM raises('SELECT next_id(9, ''apart.spare'')');
-- A definition whose sequence belongs to another role does not count.
SET ROLE regress_id_evil;
CALL define('apart', 8, 'serials_id_seq', '1996-01-01 00:00:00+00');
SET ROLE regress_id_app;
SELECT id_shard(next_id(9, 'apart.spare'));
RESET ROLE;
DROP SCHEMA apart CASCADE;

-- Healthy shards. A role that only has CREATE on a schema creates a shard in it, and uses it.
CREATE SCHEMA shared AUTHORIZATION regress_id_super;
GRANT USAGE, CREATE ON SCHEMA shared TO regress_id_app;
GRANT CREATE ON SCHEMA public TO regress_id_app;
SET ROLE regress_id_app;
SELECT create_shard(9, 'shared', if_not_exists => true);
SELECT create_shard(9, if_not_exists => true);
SELECT * FROM owners('shared');
SELECT can_generate, reason FROM id_shards WHERE shard = 9;
CREATE TABLE own (id bigserial PRIMARY KEY);
SELECT adopted FROM adopt_table(9, 'own');
DROP FUNCTION shared.id_time(bigint);
SELECT create_shard(9, if_not_exists => true), claim_shard(9);
RESET ROLE;
-- Tables of other roles do not get functions of that role, wherever they are. Those of the role itself do, also if a superuser calls.
SELECT tried('regress_id_super', 'SELECT adopt_table(9, ''serials'', schema => ''shared'')');
CREATE TABLE shared.serials (id bigserial PRIMARY KEY);
SELECT state FROM tried('regress_id_super', 'ALTER TABLE shared.serials OWNER TO regress_id_super; SELECT adopt_table(9, ''shared.serials'')');
SELECT state FROM tried('regress_id_super', 'ALTER TABLE shared.serials OWNER TO regress_id_app; SELECT adopt_table(9, ''shared.serials'')');
-- A superuser completes it as that role, unless the role lacks CREATE by now, and only if it trusts the role.
SET ROLE regress_id_super;
SELECT state, message, hint FROM raises('SELECT create_shard(9, if_not_exists => true)');
ALTER SCHEMA shared OWNER TO regress_id_app;
DROP FUNCTION shared.id_time(bigint);
SELECT state, message FROM raises('SELECT create_shard(9, if_not_exists => true)');
REVOKE CREATE ON SCHEMA shared FROM regress_id_app;
SELECT state, message, detail, hint FROM raises('SELECT create_shard(9, ''shared'', if_not_exists => true)');
GRANT CREATE ON SCHEMA shared TO regress_id_app;
SELECT create_shard(9, 'shared', if_not_exists => true);
SELECT * FROM owners('shared');
RESET ROLE;
-- Another role does not complete it with functions of its own.
DROP FUNCTION shared.id_time(bigint);
GRANT ALL ON SCHEMA shared TO regress_id_evil;
SELECT tried('regress_id_evil', 'SELECT create_shard(9, ''shared'', if_not_exists => true)');
-- The shard is given to another role as a whole.
SELECT state FROM tried('regress_id_super', 'SELECT create_shard(9, ''shared'', if_not_exists => true)');
REASSIGN OWNED BY regress_id_app TO regress_id_group;
SELECT * FROM owners('shared');
SELECT can_generate, reason FROM id_shards WHERE shard = 9;
-- Members of a group that owns it: they name its schema, because other members can replace its functions.
SET client_min_messages = notice;
SET ROLE regress_id_member;
SELECT state, message, hint FROM raises('SELECT create_shard(9, if_not_exists => true)');
SELECT create_shard(9, 'shared', if_not_exists => true);
SELECT claim_shard(9), advance_shard(9, 9 << 10) > 0 AS advanced, id_shard(next_id(9));
DROP FUNCTION shared.id_time(bigint);
SELECT create_shard(9, 'shared', if_not_exists => true);
SET client_min_messages = warning;
RESET ROLE;
SELECT * FROM owners('shared');
-- For a table of the group they do not. A function of a member has the rights of the group.
CREATE TABLE of_group (id bigserial PRIMARY KEY);
ALTER TABLE of_group OWNER TO regress_id_group;
ALTER FUNCTION shared.epoch() OWNER TO regress_id_member;
SELECT can_generate, reason FROM id_shards WHERE shard = 9;
SELECT state FROM tried('regress_id_member', 'SELECT adopt_table(9, ''of_group'')');
-- A member that does not inherit the rights of the group has them only after SET ROLE.
ALTER FUNCTION shared.epoch() OWNER TO regress_id_later;
SELECT can_generate, reason FROM id_shards WHERE shard = 9;
SELECT tried('regress_id_later', 'SELECT claim_shard(9)');
ALTER FUNCTION shared.epoch() OWNER TO regress_id_super;
SELECT can_generate, reason FROM id_shards WHERE shard = 9;
DROP SCHEMA shared CASCADE;

-- A part of a shard gets another owner. The shard of another role that has prepared the number does not take its place.
GRANT CREATE ON DATABASE :"database" TO regress_id_app, regress_id_evil;
SET ROLE regress_id_app;
SELECT create_shard(9);
-- The owner of a table that has revoked its own privileges on the rows.
CREATE TABLE insta9.only_grows (id bigserial PRIMARY KEY);
REVOKE UPDATE, DELETE, TRUNCATE ON insta9.only_grows FROM regress_id_app;
SELECT adopted FROM adopt_table(9, 'insta9.only_grows');
SET ROLE regress_id_evil;
CREATE SCHEMA evils;
DO $$ BEGIN PERFORM make_part(9, 'evils', 'sequence'), make_part(9, 'evils', 'definition'), make_part(10, 'evils', 'definition'); END $$;
GRANT USAGE ON SCHEMA evils TO PUBLIC;
GRANT USAGE ON SEQUENCE evils.table_id_seq TO PUBLIC;
RESET ROLE;
SELECT state, message FROM raises('SELECT next_id(9)');
ALTER SEQUENCE insta9.table_id_seq OWNER TO regress_id_super;
SELECT state, message FROM raises('SELECT next_id(9)');
ALTER FUNCTION insta9.shard_9() OWNER TO regress_id_super;
SELECT id_shard(next_id(9));
SELECT is_called FROM evils.table_id_seq;
-- Nor does a prepared number lead the owner of an original to another sequence.
SET ROLE regress_id_app;
CREATE SCHEMA insta10;
DO $$ BEGIN PERFORM make_part(10, 'insta10', 'sequence'), make_part(10, 'insta10', 'original'); END $$;
SELECT * FROM raises('SELECT adopt_shard(10)');
RESET ROLE;
DROP SCHEMA insta10 CASCADE;
ALTER FUNCTION insta9.shard_9() OWNER TO regress_id_app;
DROP SCHEMA evils CASCADE;
SELECT state, message, hint FROM raises('SELECT next_id(9)');
SELECT schema, can_generate, reason FROM id_shards WHERE shard = 9;
DROP SCHEMA insta9 CASCADE;

-- The number of a shard leads to no function of its owner. So a hint gives a table that function only if those who use the table trust
-- its owner.
CREATE SCHEMA host;
GRANT USAGE, CREATE ON SCHEMA host TO regress_id_evil, regress_id_app;
SET ROLE regress_id_evil;
DO $$ BEGIN PERFORM make_part(11, 'host', 'sequence'), make_part(11, 'host', 'original'); END $$;
SELECT shard FROM adopt_shard(11, 'host');
GRANT USAGE ON SEQUENCE host.table_id_seq TO regress_id_app;
SET ROLE regress_id_app;
CREATE TABLE host.photos (id bigint DEFAULT next_id(11));
RESET ROLE;
SELECT * FROM raises('SELECT unadopt_shard(11)');
-- The rights of a role are checked before a lock that others wait for: it must be able to use the schema in which it creates something,
-- and so must the owner whose functions it replaces.
REVOKE USAGE ON SCHEMA host FROM regress_id_evil;
SELECT * FROM raises('SELECT unadopt_shard(11)');
SET ROLE regress_id_evil;
SELECT state, message, detail FROM unnest('{"create_shard(12, ''host'', if_not_exists => true)",unadopt_shard(11),claim_shard(11)}'::text[]) AS call,
    raises('SELECT ' || call);
RESET ROLE;
GRANT USAGE ON SCHEMA host TO regress_id_evil;
REVOKE CREATE ON SCHEMA host FROM regress_id_evil;
SELECT * FROM raises('SELECT unadopt_shard(11)');
SET ROLE regress_id_evil;
SELECT state, message, detail FROM unnest('{unadopt_shard(11),claim_shard(11)}'::text[]) AS call, raises('SELECT ' || call);
RESET ROLE;
GRANT CREATE ON SCHEMA host TO regress_id_evil;
DROP TABLE host.photos;
SELECT unadopt_shard(11);
REVOKE USAGE ON SCHEMA host FROM regress_id_evil;
SELECT * FROM raises('SELECT adopt_shard(11, function => ''host.original_id()'', dry_run => true)');
DROP SCHEMA host CASCADE;

-- The schema public of pg_database_owner counts as a schema of the owner of this database. The extension is elsewhere.
CREATE SCHEMA regress_id_ids;
ALTER EXTENSION instagram_id SET SCHEMA regress_id_ids;
GRANT USAGE ON SCHEMA regress_id_ids TO PUBLIC;
SELECT nspowner::regrole FROM pg_namespace WHERE nspname = 'public';
SELECT datdba::regrole AS owner_of_database FROM pg_database WHERE datname = current_database() \gset
ALTER DATABASE :"database" OWNER TO regress_id_app;
SET client_min_messages = notice;
SET ROLE regress_id_app;
BEGIN;
SELECT regress_id_ids.create_shard(9, 'public', if_not_exists => true);
SELECT shard, can_generate, reason FROM regress_id_ids.id_shards ORDER BY shard;
ROLLBACK;
SET ROLE regress_id_super;
BEGIN;
SELECT regress_id_ids.create_shard(9, 'public', if_not_exists => true);
SELECT shard, can_generate, reason FROM regress_id_ids.id_shards ORDER BY shard;
ROLLBACK;
RESET ROLE;
SET client_min_messages = warning;
ALTER DATABASE :"database" OWNER TO :"owner_of_database";
ALTER EXTENSION instagram_id SET SCHEMA public;
DROP SCHEMA regress_id_ids;

REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC;
DROP TABLE serials, own, of_group;
DROP FUNCTION make_part, owners, tried, with_prepared, first_bound;
DROP OWNED BY regress_id_evil, regress_id_app, regress_id_super, regress_id_group, regress_id_member, regress_id_later CASCADE;
DROP ROLE regress_id_evil, regress_id_app, regress_id_super, regress_id_group, regress_id_member, regress_id_later;

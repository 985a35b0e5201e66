-- The operations on a shard that each kind of role can perform: the table in "Privileges" of docs/use/guarantees.md, whose cells
-- tidy.rs compares with the output of this test.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
SET client_min_messages = error;
-- The roles of the columns.
CREATE ROLE regress_id_public;
CREATE ROLE regress_id_usage;
CREATE ROLE regress_id_update;
CREATE ROLE regress_id_owner;
CREATE ROLE regress_id_table;
CREATE ROLE regress_id_database;
CREATE ROLE regress_id_super SUPERUSER;
CREATE ROLE regress_id_monitor IN ROLE pg_monitor;
CREATE ROLE regress_id_reader IN ROLE pg_read_all_data;
-- The roles of the footnotes.
CREATE ROLE regress_id_writer IN ROLE pg_write_all_data;
CREATE ROLE regress_id_select;
CREATE ROLE regress_id_schema;
CREATE ROLE regress_id_bare;
SELECT datdba::regrole AS owner_of_database FROM pg_database WHERE datname = current_database() \gset
ALTER DATABASE :"DBNAME" OWNER TO regress_id_database;
GRANT CREATE ON DATABASE :"DBNAME" TO regress_id_owner;
GRANT CREATE ON SCHEMA public TO regress_id_table;

-- Shard 5, its schema, sequences and functions belong to one role; its tables to another one, which has CREATE and USAGE on
-- the schema and USAGE on the sequence, and a table in another schema. All roles have INSERT on photos.
SET ROLE regress_id_owner;
DO 'BEGIN PERFORM create_shard(5); END';
CREATE SEQUENCE insta5.spare;
CREATE SEQUENCE insta5.counter;
DO $$ BEGIN PERFORM setval('insta5.counter', 1000); END $$;
GRANT USAGE ON SCHEMA insta5 TO regress_id_usage, regress_id_update, regress_id_table, regress_id_select, regress_id_schema, regress_id_bare;
GRANT CREATE ON SCHEMA insta5 TO regress_id_table, regress_id_schema;
GRANT USAGE ON SEQUENCE insta5.table_id_seq, insta5.spare, insta5.counter TO regress_id_usage, regress_id_table;
GRANT UPDATE ON SEQUENCE insta5.table_id_seq, insta5.spare, insta5.counter TO regress_id_update;
GRANT SELECT ON SEQUENCE insta5.table_id_seq TO regress_id_select;
SET ROLE regress_id_table;
CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), title text);
GRANT INSERT ON insta5.photos TO PUBLIC;
CREATE TABLE insta5.serials (id bigserial PRIMARY KEY);
CREATE TABLE elsewhere (id bigserial PRIMARY KEY);
CREATE TABLE insta5.events (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
DO $$ BEGIN PERFORM create_id_partitions('insta5.events', from_time => now() - interval '3 months'); END $$;
RESET ROLE;
-- Shard 7 is a schema that runs the PL/pgSQL original; shard 8 one that was adopted.
SET ROLE regress_id_owner;
DO $$ BEGIN
    FOR n IN 7..8 LOOP
        CALL original('insta' || n, n::text, epoch => '1314220021721');
        EXECUTE format('GRANT USAGE ON SCHEMA insta%s TO regress_id_usage, regress_id_update, regress_id_table;
            CREATE TABLE insta%1$s.photos (id bigint PRIMARY KEY DEFAULT insta%1$s.next_id()); INSERT INTO insta%1$s.photos DEFAULT VALUES', n);
    END LOOP;
    PERFORM adopt_shard(8);
END $$;
RESET ROLE;

-- The result of a statement that a role runs: yes, no with the SQLSTATE, or no if a SELECT returns no row. Its changes are rolled
-- back, except those of sequences; next_id() opens a sequence that it has closed, and setval() makes a counter of one again.
CREATE FUNCTION attempt(role text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    rows bigint;
    answer text;
BEGIN
    BEGIN
        PERFORM set_config('role', role, true);
        EXECUTE statement;
        GET DIAGNOSTICS rows = ROW_COUNT;
        RAISE SQLSTATE 'UNDO0' USING MESSAGE = CASE WHEN statement ~ '^SELECT' AND rows = 0 THEN 'no' ELSE 'yes' END;
    EXCEPTION
        WHEN SQLSTATE 'UNDO0' THEN answer := SQLERRM;
        WHEN OTHERS THEN answer := 'no ' || SQLSTATE;
    END;
    PERFORM next_id(5), setval('insta5.counter', 1000);
    RETURN answer;
END $$;

-- The table. seq is insta5.table_id_seq. Three sequences serve no shard: spare and counter, with the same privileges, and own, which
-- the role creates itself.
CREATE TEMP TABLE actions (n int GENERATED ALWAYS AS IDENTITY, action text, statement text);
INSERT INTO actions (action, statement) VALUES
    ('next_id(5)', 'SELECT next_id(5)'),
    ('insta5.next_id()', 'SELECT insta5.next_id()'),
    ('INSERT into a table with that default', 'INSERT INTO insta5.photos (title) VALUES (''a'')'),
    ('next_ids(5, 10)', 'SELECT next_ids(5, 10)'),
    ('next_id(5, seq): the shard''s number and epoch', 'SELECT next_id(5, ''insta5.table_id_seq'')'),
    ('next_id(6, seq): another number', 'SELECT next_id(6, ''insta5.table_id_seq'')'),
    ('next_id(5, seq, t): another epoch', 'SELECT next_id(5, ''insta5.table_id_seq'', ''2015-01-01+00'')'),
    ('node_next_id(seq)', 'SELECT node_next_id(''insta5.table_id_seq'')'),
    ('next_id(6, spare): any number', 'SELECT next_id(6, ''insta5.spare'')'),
    ('next_id(6, spare, t): another epoch', 'SELECT next_id(6, ''insta5.spare'', ''2015-01-01+00'')'),
    ('node_next_id(spare, t)', 'SELECT node_next_id(''insta5.spare'', ''2015-01-01+00'')'),
    ('next_id(6, counter): used as a counter', 'SELECT next_id(6, ''insta5.counter'')'),
    ('next_id(6, own, t): any number and epoch', 'CREATE TEMP SEQUENCE own; SELECT next_id(6, ''pg_temp.own'', ''2015-01-01+00'')'),
    ('node_next_id(own, t)', 'CREATE TEMP SEQUENCE own; SELECT node_next_id(''pg_temp.own'', ''2015-01-01+00'')'),
    ('nextval(seq)', 'SELECT nextval(''insta5.table_id_seq'')'),
    ('setval(seq, n)', 'SELECT setval(''insta5.table_id_seq'', 1)'),
    ('advance_shard(5, id)', 'SELECT advance_shard(5, make_id(''2015-01-01+00'', 5, 0))'),
    ('_close_sequence(seq, ...)', 'SELECT _close_sequence(''insta5.table_id_seq'', 1, 1)'),
    ('_record_sequence_holder(seq, ...)', 'SELECT _record_sequence_holder(''insta5.table_id_seq'', 1, 1, 0)'),
    ('create_shard(6): a free number', 'SELECT create_shard(6)'),
    ('create_shard(5, ''x''): a number that is taken', 'SELECT create_shard(5, ''x'')'),
    ('create_shard(5, if_not_exists => true)', 'SELECT create_shard(5, if_not_exists => true)'),
    ('the same with schema => ''insta5''', 'SELECT create_shard(5, schema => ''insta5'', if_not_exists => true)'),
    ('claim_shard(5)', 'SELECT claim_shard(5)'),
    ('recover_shard(5)', 'SELECT recover_shard(5)'),
    ('ALTER SEQUENCE seq MAXVALUE n', 'ALTER SEQUENCE insta5.table_id_seq MAXVALUE 4611686018427387904'),
    ('ALTER SEQUENCE seq RESTART', 'ALTER SEQUENCE insta5.table_id_seq RESTART'),
    ('DROP SEQUENCE seq CASCADE', 'DROP SEQUENCE insta5.table_id_seq CASCADE'),
    ('adopt_shard(7): the original', 'SELECT * FROM adopt_shard(7)'),
    ('adopt_shard(7, ''insta7''): the same', 'SELECT * FROM adopt_shard(7, ''insta7'')'),
    ('unadopt_shard(8): adopted before', 'SELECT unadopt_shard(8)'),
    ('adopt_table(5, ...): in the schema of the shard', 'SELECT * FROM adopt_table(5, ''insta5.serials'')'),
    ('adopt_table(5, ...): in another schema', 'SELECT * FROM adopt_table(5, ''elsewhere'')'),
    ('the same with schema => ''insta5'': in another schema', 'SELECT * FROM adopt_table(5, ''elsewhere'', schema => ''insta5'')'),
    ('convert_defaults_to_triggers(5)', 'SELECT * FROM convert_defaults_to_triggers(5)'),
    ('create_id_partitions(...)', 'SELECT * FROM create_id_partitions(''insta5.events'', ahead => 9)'),
    ('drop_old_id_partitions(...)', 'SELECT * FROM drop_old_id_partitions(''insta5.events'', now() - interval ''1 month'')'),
    ('see the shard in the view id_shards', 'SELECT FROM id_shards WHERE shard = 5'),
    ('see its last_id there', 'SELECT FROM id_shards WHERE shard = 5 AND last_id IS NOT NULL'),
    ('id_time(id), id_shard(id), id_explain(id)', 'SELECT id_time(1), id_shard(1), id_explain(1)'),
    ('insta5.id_time(id), insta5.epoch()', 'SELECT insta5.id_time(1), insta5.epoch()'),
    ('make_id(...), backfill_id(...)', 'SELECT make_id(now(), 5, 0), backfill_id(now(), 5) OVER ()');
\set ECHO all
\pset tuples_only off
\pset footer off
SELECT action, attempt('regress_id_public', statement) AS "PUBLIC", attempt('regress_id_usage', statement) AS "USAGE",
    attempt('regress_id_update', statement) AS "UPDATE", attempt('regress_id_owner', statement) AS "shard's owner",
    attempt('regress_id_table', statement) AS "table's owner", attempt('regress_id_database', statement) AS "database's owner",
    attempt('regress_id_super', statement) AS superuser, attempt('regress_id_monitor', statement) AS pg_monitor,
    attempt('regress_id_reader', statement) AS pg_read_all_data
FROM (SELECT * FROM actions ORDER BY n) AS ordered;
\pset tuples_only on

-- The functions check privileges themselves: naming an object by its OID needs no USAGE on its schema, and leads to the same error.
SELECT attempt(role, statement), count(*), count(DISTINCT role) AS roles
FROM (VALUES ('regress_id_public'), ('regress_id_database'), ('regress_id_monitor'), ('regress_id_reader')) AS roles(role), LATERAL (VALUES
    (format('SELECT next_id(5, %s::regclass)', 'insta5.table_id_seq'::regclass::oid)),
    (format('SELECT node_next_id(%s::regclass)', 'insta5.spare'::regclass::oid)),
    (format('SELECT _close_sequence(%s::regclass, 1, 1)', 'insta5.table_id_seq'::regclass::oid)),
    (format('SELECT _record_sequence_holder(%s::regclass, 1, 1, 0)', 'insta5.table_id_seq'::regclass::oid)),
    (format('SELECT adopt_shard(7, "function" => %s::regprocedure)', 'insta7.next_id()'::regprocedure::oid)),
    (format('SELECT adopt_table(5, %s::regclass)', 'insta5.serials'::regclass::oid)),
    (format('SELECT create_id_partitions(%s::regclass)', 'insta5.events'::regclass::oid)),
    (format('SELECT drop_old_id_partitions(%s::regclass, now())', 'insta5.events'::regclass::oid))) AS v(statement)
GROUP BY 1;
-- With dry_run they need the same.
SELECT role, attempt(role, 'SELECT adopt_shard(7, dry_run => true)') AS adopt_shard, attempt(role, 'SELECT adopt_table(5, ''insta5.serials'', dry_run => true)') AS adopt_table
FROM (VALUES ('regress_id_usage'), ('regress_id_update'), ('regress_id_owner'), ('regress_id_table'), ('regress_id_database')) AS roles(role);

-- The footnotes. pg_write_all_data counts as UPDATE on each sequence.
SELECT attempt('regress_id_writer', statement), action FROM (SELECT * FROM actions ORDER BY n) AS ordered
WHERE action ~ '^(next_id\([56]|INSERT|node_next_id\(seq|nextval|setval|advance|_close|create_shard\(6|see its|ALTER|claim)';
-- SELECT on the sequence shows the last id, and nothing else.
SELECT attempt('regress_id_select', statement), action FROM (SELECT * FROM actions ORDER BY n) AS ordered WHERE action ~ '^(next_id\(5|nextval|see)';
-- CREATE on the schema is not enough to define another shard with the sequence.
SELECT attempt('regress_id_schema', $$CALL define('insta5', 6, 'insta5.table_id_seq', '2015-01-01 00:00:00+00'); SELECT next_id(6)$$);
-- CREATE on the schema does not show the last id either.
BEGIN;
SET LOCAL ROLE regress_id_schema;
CALL define('insta5', 6, 'insta5.table_id_seq');
RESET ROLE;
SELECT shard, last_id IS NOT NULL AS is_shown FROM id_shards WHERE shard IN (5, 6) ORDER BY shard;
ROLLBACK;
-- Nor is a schema of one's own: its owner does not decide about the sequence.
GRANT CREATE ON DATABASE :"DBNAME" TO regress_id_usage;
SELECT attempt('regress_id_usage', $$CREATE SCHEMA regress_id_own; CREATE FUNCTION regress_id_own.shard_6(OUT sequence regclass, OUT epoch timestamptz, OUT home text)
    LANGUAGE sql IMMUTABLE BEGIN ATOMIC SELECT 'insta5.table_id_seq'::regclass, '2015-01-01 00:00:00+00'::timestamptz, 'here'::text; END;
    SELECT next_id(6, 'insta5.table_id_seq', '2015-01-01+00')$$);
REVOKE CREATE ON DATABASE :"DBNAME" FROM regress_id_usage;
-- create_shard() needs CREATE on the database, also from the owner of other shards.
REVOKE CREATE ON DATABASE :"DBNAME" FROM regress_id_owner;
SELECT attempt('regress_id_owner', 'SELECT create_shard(6)');
-- A table's owner needs USAGE on the sequence and CREATE on the schema, too, and UPDATE if the table has keys near the clock.
ALTER TABLE insta5.serials OWNER TO regress_id_bare;
ALTER TABLE insta5.events OWNER TO regress_id_bare;
SELECT role, statement, attempt(role, statement) FROM (VALUES
    (1, 'regress_id_bare', 'INSERT INTO insta5.photos (title) VALUES (''a'')'), (2, 'regress_id_bare', 'SELECT adopt_table(5, ''insta5.serials'')'),
    (3, 'regress_id_bare', 'SELECT create_id_partitions(''insta5.events'', ahead => 9)')) AS v(n, role, statement) ORDER BY n;
ALTER TABLE insta5.serials OWNER TO regress_id_table;
INSERT INTO insta5.serials VALUES (id_floor(now()));
SELECT attempt('regress_id_table', 'SELECT adopt_table(5, ''insta5.serials'')'), attempt('regress_id_table', 'SELECT adopt_table(5, ''insta5.serials'', dry_run => true)') AS dry_run;
GRANT UPDATE ON SEQUENCE insta5.table_id_seq TO regress_id_table;
SELECT attempt('regress_id_table', 'SELECT adopt_table(5, ''insta5.serials'')');
-- The shard's owner can do all of that with tables of its own.
ALTER TABLE insta5.photos OWNER TO regress_id_owner;
ALTER TABLE insta5.serials OWNER TO regress_id_owner;
ALTER TABLE insta5.events OWNER TO regress_id_owner;
SELECT attempt('regress_id_owner', statement), action FROM (SELECT * FROM actions ORDER BY n) AS ordered
WHERE action ~ '^(adopt_table|convert_defaults_to_triggers|create_id_partitions|drop_old_id_partitions)';
-- adopt_shard() needs the privileges of each table's owner.
ALTER TABLE insta7.photos OWNER TO regress_id_table;
SELECT attempt('regress_id_owner', 'SELECT adopt_shard(7)'), attempt('regress_id_owner', 'SELECT adopt_shard(7, dry_run => true)') AS dry_run;
-- A trigger runs with the privileges of the role that inserts, as a default does.
SET ROLE regress_id_owner;
SELECT * FROM convert_defaults_to_triggers(5) WHERE table_name = 'insta5.photos'::regclass;
RESET ROLE;
SELECT role, attempt(role, 'INSERT INTO insta5.photos (title) VALUES (''a'')')
FROM (VALUES ('regress_id_public'), ('regress_id_usage'), ('regress_id_update'), ('regress_id_select')) AS roles(role);
-- USAGE on a sequence that serves no shard, in a schema that is no shard's, is enough to move it years ahead of the clock.
CREATE SCHEMA regress_id_apart;
CREATE SEQUENCE regress_id_apart.spare;
GRANT USAGE ON SCHEMA regress_id_apart TO regress_id_usage;
GRANT USAGE ON SEQUENCE regress_id_apart.spare TO regress_id_usage;
SELECT attempt('regress_id_usage', 'SELECT next_id(6, ''regress_id_apart.spare'', clock_timestamp() - interval ''30 years'')');
SELECT now() - interval '1 year' AS epoch \gset
SELECT id_time(next_id(6, 'regress_id_apart.spare', :'epoch'), :'epoch') > now() + interval '28 years' AS is_ahead;
DROP SCHEMA regress_id_apart CASCADE;
-- The sequence is locked before the privilege is checked, as nextval() does.
SELECT 'insta5.table_id_seq'::regclass::oid AS sequence \gset
BEGIN;
SET LOCAL ROLE regress_id_public;
SAVEPOINT before;
SELECT nextval(:sequence);
ROLLBACK TO before;
SELECT mode FROM pg_locks WHERE relation = :sequence AND pid = pg_backend_pid();
COMMIT;
BEGIN;
SET LOCAL ROLE regress_id_public;
SAVEPOINT before;
SELECT next_id(5, :sequence::regclass);
ROLLBACK TO before;
SELECT mode FROM pg_locks WHERE relation = :sequence AND pid = pg_backend_pid();
COMMIT;

ALTER DATABASE :"DBNAME" OWNER TO :"owner_of_database";
DROP SCHEMA insta5, insta7, insta8 CASCADE;
DROP TABLE elsewhere;
REVOKE CREATE ON SCHEMA public FROM regress_id_table;
DROP FUNCTION attempt;
DROP ROLE regress_id_public, regress_id_usage, regress_id_update, regress_id_owner, regress_id_table, regress_id_database,
    regress_id_super, regress_id_monitor, regress_id_reader, regress_id_writer, regress_id_select, regress_id_schema, regress_id_bare;

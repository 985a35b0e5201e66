-- Privileges: roles without superuser.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
CREATE ROLE regress_id_owner;
CREATE ROLE regress_id_app;
CREATE ROLE "regress_id's ""app""";
\set ECHO all

SELECT create_shard(31);

-- Neither schema nor sequence.
SET ROLE regress_id_app;
SELECT * FROM raises('SELECT next_id(31)');
RESET ROLE;
SET ROLE "regress_id's ""app""";
SELECT * FROM raises('SELECT next_id(31)');
RESET ROLE;
-- The schema alone.
GRANT USAGE ON SCHEMA insta31 TO regress_id_app;
SET ROLE regress_id_app;
SELECT * FROM raises('SELECT next_id(31)');
RESET ROLE;

-- A role with CREATE on the database creates shards of its own; one without it cannot.
SET ROLE regress_id_owner;
SELECT regexp_replace(message, current_database(), 'DATABASE') AS message, detail, regexp_replace(hint, current_database(), 'DATABASE') AS hint FROM raises('SELECT create_shard(32)');
SELECT state, message, detail, hint FROM raises('SELECT create_shard(32, ''insta31'', if_not_exists => true)');
RESET ROLE;
DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO regress_id_owner', current_database()); END $$;
SET ROLE regress_id_owner;
SELECT create_shard(32);
RESET ROLE;
GRANT USAGE ON SCHEMA insta32 TO regress_id_app;
GRANT USAGE ON SEQUENCE insta32.table_id_seq TO regress_id_app;

-- USAGE does not suffice to move a shard's sequence away from the clock, which with an epoch of years ago would be to the end
-- of its ids. The sequence accepts the shard's number and epoch, in each form.
SELECT create_shard(33, epoch => '2020-01-01+00');
CREATE SCHEMA regress_id_own;
CREATE SEQUENCE regress_id_own.own;
CREATE SEQUENCE insta33.another;
GRANT USAGE ON SCHEMA insta33, regress_id_own TO regress_id_app;
GRANT USAGE ON SEQUENCE insta33.table_id_seq, insta33.another, regress_id_own.own TO regress_id_app;
SET ROLE regress_id_app;
SELECT id_shard(next_id(32, 'insta32.table_id_seq')), id_shard(next_id(33, 'insta33.table_id_seq', '2020-01-01+00')), id_shard(insta33.next_id());
SELECT statement, e.* FROM (VALUES
    (1, 'SELECT next_id(32, ''insta32.table_id_seq'', clock_timestamp() - interval ''1099511627500 ms'')'),
    (2, 'SELECT next_id(33, ''insta33.table_id_seq'')'), (3, 'SELECT next_id(32, ''insta33.table_id_seq'')'),
    (4, 'SELECT next_id(32, ''insta33.table_id_seq'', ''2020-01-01+00'')'),
    (5, 'SELECT node_next_id(''insta32.table_id_seq'', clock_timestamp() - interval ''1099511627500 ms'')'),
    (6, 'SELECT node_next_id(''insta32.table_id_seq'')')) AS v(n, statement), raises(statement) AS e ORDER BY n;
-- The sequences are unchanged for all roles.
SELECT id_time(next_id(32)) - clock_timestamp() < interval '1 second' AS of_now, insta33.id_time(next_id(33)) - clock_timestamp() < interval '1 second' AS of_now;
-- A sequence that serves no shard, in the schema of a shard, accepts that shard's epoch only.
SELECT id_shard(next_id(33, 'insta33.another', '2020-01-01+00')), id_shard(next_id(32, 'insta33.another', '2020-01-01+00'));
SELECT * FROM raises('SELECT next_id(33, ''insta33.another'', ''2019-01-01+00'')');
SELECT state FROM raises('SELECT next_id(33, ''insta33.another'')');
-- In another schema it has no fixed epoch: a role with USAGE can pass any.
SELECT id_shard(next_id(33, 'regress_id_own.own', '2015-01-01+00')), id_shard(next_id(32, 'regress_id_own.own', '2015-01-01+00')), id_shard(node_next_id('regress_id_own.own', '2015-01-01+00'));
RESET ROLE;
-- Sessions notice when it begins and when it ceases to serve a shard.
CALL define('regress_id_own', 34, 'regress_id_own.own', '2015-01-01 00:00:00+00');
SET ROLE regress_id_app;
SELECT state FROM raises('SELECT next_id(33, ''regress_id_own.own'', ''2015-01-01+00'')');
SELECT id_shard(next_id(34, 'regress_id_own.own', '2015-01-01+00')), id_shard(next_id(34));
SELECT state FROM raises('SELECT next_id(34, ''regress_id_own.own'', ''2014-01-01+00'')');
RESET ROLE;
-- A sequence that serves several shards accepts each, in turns, also one that another schema defines.
CALL define('insta33', 37, 'regress_id_own.own', '2015-01-01 00:00:00+00');
CALL define('regress_id_own', 35, 'regress_id_own.own', '2015-01-01 00:00:00+00');
SET ROLE regress_id_app;
SELECT id_shard(next_id(34, 'regress_id_own.own', '2015-01-01+00')), id_shard(next_id(35, 'regress_id_own.own', '2015-01-01+00')), id_shard(next_id(34, 'regress_id_own.own', '2015-01-01+00'));
SELECT id_shard(next_id(37, 'regress_id_own.own', '2015-01-01+00'));
RESET ROLE;
DROP FUNCTION regress_id_own.shard_34(), regress_id_own.shard_35();
-- What only other schemas define does not restrict it: any role can create any number of definitions.
SET ROLE regress_id_app;
SELECT id_shard(next_id(33, 'regress_id_own.own', '2015-01-01+00'));
RESET ROLE;
-- A definition is ranked by its owner: another role's definition does not restrict the use of the sequence.
GRANT CREATE ON SCHEMA regress_id_own TO regress_id_app;
SET ROLE regress_id_app;
CALL define('regress_id_own', 36, 'regress_id_own.own', '2015-01-01 00:00:00+00');
SELECT id_shard(next_id(33, 'regress_id_own.own', '2015-01-01+00'));
RESET ROLE;
-- UPDATE is enough: such a role could call setval().
GRANT UPDATE ON SEQUENCE insta33.table_id_seq TO regress_id_app;
SET ROLE regress_id_app;
SELECT id_shard(next_id(32, 'insta33.table_id_seq', '2019-01-01+00'));
RESET ROLE;
REVOKE UPDATE ON SEQUENCE insta33.table_id_seq FROM regress_id_app;
SET ROLE regress_id_app;
SELECT state FROM raises('SELECT next_id(32, ''insta33.table_id_seq'', ''2019-01-01+00'')');
RESET ROLE;
-- A role without USAGE on the schema generates no ids, in a session in which another role has generated some, too.
GRANT USAGE ON SEQUENCE insta32.table_id_seq TO "regress_id's ""app""";
SELECT id_shard(next_id(32));
SET ROLE "regress_id's ""app""";
SELECT state FROM raises('SELECT next_id(32)');
RESET ROLE;

SET client_min_messages = warning;
DROP SCHEMA insta31, insta32, insta33, regress_id_own CASCADE;
DROP OWNED BY regress_id_owner;
DROP ROLE regress_id_app, "regress_id's ""app""", regress_id_owner;

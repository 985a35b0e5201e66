-- adopt_table(): what it checks before it replaces a default, and the way back.
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
\getenv tests PG_ABS_SRCDIR
\set raises :tests '/raises.sql'
\i :raises
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_id_other;
CREATE ROLE regress_id_other;
SELECT create_shard(530);

-- A role that can insert into its table chooses the keys. It cannot move a shard ahead, which would give the ids of all other
-- tables future timestamps: not with adopt_table(), and not with adopt_shard(), which reads each table that calls the function.
CREATE FUNCTION ahead(shard int) RETURNS bool LANGUAGE sql AS $$ SELECT last_time > clock_timestamp() + interval '61 s' FROM id_shards WHERE shard = $1 $$;
CREATE SCHEMA regress_id_other AUTHORIZATION regress_id_other;
GRANT USAGE ON SCHEMA insta530 TO regress_id_other;
GRANT USAGE ON SEQUENCE insta530.table_id_seq TO regress_id_other;
SET ROLE regress_id_other;
CREATE TABLE regress_id_other.t (id bigserial PRIMARY KEY);
INSERT INTO regress_id_other.t VALUES (make_id(now() + interval '23 hours', 8191, 7)) RETURNING id AS key \gset
RESET ROLE;
SELECT state, replace(message, :'key', '(key)') AS message, regexp_replace(detail, 'time 20[^,]*', 'time ...') AS detail,
       regexp_replace(hint, '\d{12,}', 'N') AS hint
FROM raises('SELECT adopt_table(530, ''regress_id_other.t'')') \gx
SELECT state FROM raises('SELECT adopt_table(530, ''regress_id_other.t'', dry_run => true)');
SELECT ahead(530);
-- Two minutes are too much, too; a difference between the clocks of two servers is not.
UPDATE regress_id_other.t SET id = make_id(now() + interval '2 minutes', 8191, 7);
SELECT state FROM raises('SELECT adopt_table(530, ''regress_id_other.t'')');
BEGIN;
UPDATE regress_id_other.t SET id = make_id(now() + interval '50 s', 8191, 7);
SELECT adopted FROM adopt_table(530, 'regress_id_other.t');
INSERT INTO regress_id_other.t DEFAULT VALUES RETURNING id > (SELECT max(id) FROM regress_id_other.t) AS above, id_shard(id);
ROLLBACK;
-- The hint's statement is for a caller who intends it. A shard that is ahead already can follow.
SELECT substring(hint FROM 'first use (SELECT .*)\.$') AS way FROM raises('SELECT adopt_table(530, ''regress_id_other.t'')') \gset
SELECT create_shard(531);
GRANT USAGE ON SCHEMA insta531 TO regress_id_other;
GRANT USAGE ON SEQUENCE insta531.table_id_seq TO regress_id_other;
SELECT :'way' ~ '^SELECT advance_shard\(530, \d+\)$' AS advances;
SET client_min_messages = error; -- the shards are ahead
DO $$ BEGIN PERFORM advance_shard(531, make_id(now() + interval '1 hour', 531, 7)); END $$;
SELECT adopted FROM adopt_table(531, 'regress_id_other.t', dry_run => true);
:way \g (format=unaligned tuples_only=on) /dev/null
SELECT adopted FROM adopt_table(530, 'regress_id_other.t');
INSERT INTO regress_id_other.t DEFAULT VALUES RETURNING id > (SELECT max(id) FROM regress_id_other.t) AS above, id_shard(id);
DROP TABLE regress_id_other.t;
-- The same with the original, whose function every role can call.
CREATE SCHEMA insta532 CREATE SEQUENCE table_id_seq AS integer;
CREATE FUNCTION insta532.next_id() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN ((floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1314220021721) << 23)
        | (532 << 10) | (nextval('insta532.table_id_seq') % 1024);
END $$;
CREATE TABLE insta532.photos (id bigint DEFAULT insta532.next_id());
INSERT INTO insta532.photos DEFAULT VALUES;
GRANT USAGE ON SCHEMA insta532 TO regress_id_other;
SET ROLE regress_id_other;
CREATE TABLE regress_id_other.t (id bigint DEFAULT insta532.next_id());
INSERT INTO regress_id_other.t VALUES (make_id(now() + interval '23 hours', 532, 7));
RESET ROLE;
SELECT state, regexp_replace(hint, '\d{12,}', 'N') AS hint FROM raises('SELECT adopt_shard(532)') \gx
SELECT state FROM raises('SELECT adopt_shard(532, dry_run => true)');
SELECT substring(hint FROM 'first use (ALTER .*)\.$') AS way FROM raises('SELECT adopt_shard(532)') \gset
BEGIN;
:way \g (format=unaligned tuples_only=on) /dev/null
INSERT INTO insta532.photos DEFAULT VALUES RETURNING id_shard(id), id_time(id) - clock_timestamp() < '1 s' AS "now";
SELECT starts_above > newest_id AS above FROM adopt_shard(532);
INSERT INTO insta532.photos DEFAULT VALUES RETURNING id > (SELECT max(id) FROM regress_id_other.t) AS above, id_shard(id);
ROLLBACK;
SET client_min_messages = warning;
DROP TABLE regress_id_other.t;
SELECT starts_above > newest_id AS above FROM adopt_shard(532);
SELECT ahead(532);

-- A relation that is not a table, and a partition, are refused, and the error names what it is.
CREATE TABLE key (id bigserial PRIMARY KEY, n int);
CREATE VIEW key_view AS SELECT * FROM key;
CREATE MATERIALIZED VIEW key_matview AS SELECT * FROM key;
CREATE FOREIGN DATA WRAPPER nowhere;
CREATE SERVER nowhere FOREIGN DATA WRAPPER nowhere;
CREATE FOREIGN TABLE key_foreign (id bigint NOT NULL DEFAULT nextval('key_id_seq')) SERVER nowhere;
CREATE TYPE key_type AS (id bigint);
CREATE TABLE "Key parts" (id bigserial, n int) PARTITION BY RANGE (n);
CREATE TABLE "Key part" PARTITION OF "Key parts" FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (n);
CREATE TABLE key_leaf PARTITION OF "Key part" FOR VALUES FROM (0) TO (5);
SELECT relation, state, message, detail, hint
FROM unnest('{key_view, key_matview, key_foreign, key_id_seq, key_pkey, key_type, "\"Key part\"", key_leaf}'::text[]) AS relation,
     raises(format('SELECT adopt_table(530, %L)', relation)) \gx
SELECT relation, (raises(format('SELECT adopt_table(530, %L, ''id'', dry_run => true)', relation))).state FROM unnest('{key_view, key_leaf}'::text[]) AS relation;
SELECT table_name, adopted FROM adopt_table(530, '"Key parts"', 'id');
SELECT attrelid::regclass, pg_get_expr(adbin, adrelid) FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
WHERE adrelid = ANY ('{"\"Key parts\"", "\"Key part\"", key_leaf}'::regclass[]) ORDER BY 1;
DROP FOREIGN TABLE key_foreign;
DROP TABLE key, "Key parts" CASCADE;
DROP TYPE key_type;
DROP FOREIGN DATA WRAPPER nowhere CASCADE;

-- Columns that reference the key, directly or through partitions, must be able to hold ids, too.
CREATE FUNCTION pg_temp.heed("table" text) RETURNS TABLE (state text, message text, detail text, hint text) LANGUAGE plpgsql AS $$
BEGIN
    SELECT * INTO state, message, detail, hint FROM raises(format('SELECT adopt_table(530, %L, ''id'')', "table"));
    RETURN NEXT;
    EXECUTE substring(hint FROM '^Use (.*)\.$');
END $$;
CREATE TABLE parents (id serial PRIMARY KEY);
CREATE DOMAIN pg_temp.small AS smallint;
CREATE TABLE children (id serial PRIMARY KEY, parent int REFERENCES parents, "Other parent" pg_temp.small REFERENCES parents, wide bigint REFERENCES parents, n int);
CREATE TABLE only_children (parent int PRIMARY KEY REFERENCES parents);
CREATE TABLE grandchildren (parent int REFERENCES only_children, child int REFERENCES children);
INSERT INTO parents DEFAULT VALUES;
INSERT INTO children (parent) VALUES (1);
SELECT * FROM pg_temp.heed('parents') \gx
SELECT (adopt_table(530, 'parents')).adopted;
INSERT INTO parents DEFAULT VALUES RETURNING id AS parent \gset
INSERT INTO children (parent, "Other parent", wide) VALUES (:parent, :parent, :parent);
INSERT INTO only_children VALUES (:parent);
INSERT INTO grandchildren (parent) VALUES (:parent);
-- Only the columns that reference this key are named.
SELECT attrelid::regclass, attname, atttypid::regtype FROM pg_attribute
WHERE attrelid IN ('children'::regclass, 'only_children'::regclass, 'grandchildren'::regclass) AND attnum > 0 ORDER BY 1, attnum;
DROP TABLE parents, children, only_children, grandchildren;
-- A bigint key, a key of several columns, a table that references itself, and partitions on both sides.
CREATE TABLE parents (n int, id bigserial, reply_to int, PRIMARY KEY (id, n)) PARTITION BY RANGE (n);
CREATE TABLE dropped_columns (a int, b int, n int NOT NULL, reply_to int, id bigint NOT NULL);
ALTER TABLE dropped_columns DROP a, DROP b;
ALTER TABLE parents ATTACH PARTITION dropped_columns FOR VALUES FROM (0) TO (10);
ALTER TABLE parents ADD FOREIGN KEY (reply_to, n) REFERENCES parents (id, n);
CREATE TABLE of_parent (parent int, n int, FOREIGN KEY (n, parent) REFERENCES parents (n, id)) PARTITION BY LIST (n);
CREATE TABLE part_of_parent PARTITION OF of_parent FOR VALUES IN (1);
CREATE TABLE of_partition (parent int, n bigint, FOREIGN KEY (parent, n) REFERENCES dropped_columns (id, n));
CREATE TABLE parted (parent int, n int) PARTITION BY LIST (n);
CREATE TABLE part_of_parted PARTITION OF parted FOR VALUES IN (1);
ALTER TABLE part_of_parted ADD FOREIGN KEY (parent, n) REFERENCES parents (id, n);
CREATE TABLE wide (parent bigint, n int, FOREIGN KEY (parent, n) REFERENCES parents (id, n));
SELECT * FROM pg_temp.heed('parents') \gx
BEGIN;
SELECT (adopt_table(530, 'parents', 'id')).adopted;
INSERT INTO parents (n) VALUES (1) RETURNING id AS parent \gset
INSERT INTO parents (n, reply_to) VALUES (1, :parent);
INSERT INTO of_parent (parent, n) VALUES (:parent, 1);
INSERT INTO of_partition (parent, n) VALUES (:parent, 1);
INSERT INTO parted (parent, n) VALUES (:parent, 1);
ROLLBACK;
-- The column n is referenced by integers, but is no key.
SELECT (raises('SELECT adopt_table(530, ''parents'', ''n'')')).message;
DROP TABLE parents, of_parent, of_partition, parted, wide;

\set VERBOSITY terse
DROP SCHEMA insta530, insta531, insta532, regress_id_other CASCADE;
DROP FUNCTION raises, ahead;
DROP ROLE regress_id_other;

-- adopt_table(): what it checks before it replaces a default, and the way back.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
SET client_min_messages = warning;
CREATE ROLE regress_id_other;
-- The column gets a default, and then ids of the shard: the way back, which is tried, or the error.
CREATE FUNCTION pg_temp.moves("default" text, shard int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    old bigint;
    new bigint;
    row record;
BEGIN
    EXECUTE 'ALTER TABLE insta533.photos ALTER id SET DEFAULT ' || "default";
    INSERT INTO insta533.photos DEFAULT VALUES RETURNING id INTO old;
    row := adopt_table(shard, 'insta533.photos');
    INSERT INTO insta533.photos DEFAULT VALUES RETURNING id INTO new;
    ASSERT id_shard(old) IN (0, 533) AND id_shard(new) = shard AND new > old, format('%s, %s', old, new);
    IF row.way_back IS NOT NULL THEN
        EXECUTE row.way_back;
        INSERT INTO insta533.photos DEFAULT VALUES RETURNING id INTO new;
        ASSERT id_shard(new) = id_shard(old), new;
    END IF;
    DELETE FROM insta533.photos;
    RETURN coalesce(row.way_back, 'none');
EXCEPTION WHEN OTHERS THEN
    RETURN SQLERRM;
END $$;
-- The newest key of a table that these statements have filled.
CREATE FUNCTION newest(statements text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
BEGIN
    CREATE TABLE keys (a int, gone int, id bigserial, n int);
    ALTER TABLE keys DROP gone, ALTER id DROP NOT NULL;
    EXECUTE statements;
    SELECT newest_key INTO newest FROM adopt_table(530, 'keys', 'id', dry_run => true);
    DROP TABLE keys;
    RETURN newest;
END $$;
\set ECHO all

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
FROM raises('SELECT adopt_table(530, ''regress_id_other.t'')');
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
-- A shard that is ahead already can follow.
SELECT create_shard(531);
GRANT USAGE ON SCHEMA insta531 TO regress_id_other;
GRANT USAGE ON SEQUENCE insta531.table_id_seq TO regress_id_other;
SET client_min_messages = error; -- the shards are ahead
DO $$ BEGIN PERFORM advance_shard(531, make_id(now() + interval '1 hour', 531, 7)); END $$;
SELECT adopted FROM adopt_table(531, 'regress_id_other.t', dry_run => true);
SELECT id_time(advance_shard(530, make_id(id_time(id), 530, 1023))) = id_time(id) AS there FROM regress_id_other.t;
SELECT adopted FROM adopt_table(530, 'regress_id_other.t');
INSERT INTO regress_id_other.t DEFAULT VALUES RETURNING id > (SELECT max(id) FROM regress_id_other.t) AS above, id_shard(id);
DROP TABLE regress_id_other.t;
-- The same with the original, whose function every role can call.
CREATE SCHEMA insta532 CREATE SEQUENCE table_id_seq AS integer;
CALL original('insta532', '532', epoch => '1314220021721');
CREATE TABLE insta532.photos (id bigint DEFAULT insta532.next_id());
INSERT INTO insta532.photos DEFAULT VALUES;
GRANT USAGE ON SCHEMA insta532 TO regress_id_other;
SET ROLE regress_id_other;
CREATE TABLE regress_id_other.t (id bigint DEFAULT insta532.next_id());
INSERT INTO regress_id_other.t VALUES (make_id(now() + interval '23 hours', 532, 7));
RESET ROLE;
SELECT state, regexp_replace(hint, '\d{12,}', 'N') AS hint FROM raises('SELECT adopt_shard(532)');
SELECT state FROM raises('SELECT adopt_shard(532, dry_run => true)');
INSERT INTO insta532.photos VALUES (make_id(now() + interval '23 hours 1 minute', 532, 7));
BEGIN;
ALTER SEQUENCE insta532.table_id_seq AS bigint INCREMENT 1 NO MAXVALUE NO CYCLE;
SELECT setval('insta532.table_id_seq', max(id) >> 23 << 10 | 1023) > 0 AS set FROM insta532.photos;
INSERT INTO insta532.photos DEFAULT VALUES RETURNING id_shard(id), id_time(id) - clock_timestamp() < '1 s' AS "now";
SELECT starts_above > newest_id AS above FROM adopt_shard(532);
INSERT INTO insta532.photos DEFAULT VALUES RETURNING id > (SELECT max(id) FROM regress_id_other.t) AS above, id_shard(id);
ROLLBACK;
SET client_min_messages = warning;
DROP TABLE regress_id_other.t;
DELETE FROM insta532.photos WHERE id > make_id(now() + interval '1 hour', 532, 7);
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
     raises(format('SELECT adopt_table(530, %L)', relation));
SELECT relation, (raises(format('SELECT adopt_table(530, %L, ''id'', dry_run => true)', relation))).state FROM unnest('{key_view, key_leaf}'::text[]) AS relation;
SELECT table_name, adopted FROM adopt_table(530, '"Key parts"', 'id');
SELECT attrelid::regclass, pg_get_expr(adbin, adrelid) FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
WHERE adrelid = ANY ('{"\"Key parts\"", "\"Key part\"", key_leaf}'::regclass[]) ORDER BY 1;
DROP FOREIGN TABLE key_foreign;
DROP TABLE key, "Key parts" CASCADE;
DROP TYPE key_type;
-- One among the partitions of a table with the default of an original must be detached first.
BEGIN;
CALL original('insta539', '539');
CREATE TABLE insta539.photos (id bigint DEFAULT insta539.next_id(), n int) PARTITION BY LIST (n);
CREATE FOREIGN TABLE insta539.archive PARTITION OF insta539.photos DEFAULT SERVER nowhere;
SELECT * FROM raises('SELECT adopt_shard(539)');
ALTER TABLE insta539.photos DETACH PARTITION insta539.archive;
SELECT shard FROM adopt_shard(539);
ROLLBACK;
DROP FOREIGN DATA WRAPPER nowhere CASCADE;

-- Columns that reference the key, directly or through partitions, must be able to hold ids, too.
CREATE TABLE parents (id serial PRIMARY KEY);
CREATE DOMAIN pg_temp.small AS smallint;
CREATE TABLE children (id serial PRIMARY KEY, parent int REFERENCES parents, "Other parent" pg_temp.small REFERENCES parents, wide bigint REFERENCES parents, n int);
CREATE TABLE only_children (parent int PRIMARY KEY REFERENCES parents);
CREATE TABLE grandchildren (parent int REFERENCES only_children, child int REFERENCES children);
INSERT INTO parents DEFAULT VALUES;
INSERT INTO children (parent) VALUES (1);
SELECT * FROM raises('SELECT adopt_table(530, ''parents'')');
ALTER TABLE parents ALTER id TYPE bigint;
SELECT * FROM raises('SELECT adopt_table(530, ''parents'')');
ALTER TABLE children ALTER parent TYPE bigint, ALTER "Other parent" TYPE bigint;
ALTER TABLE only_children ALTER parent TYPE bigint;
ALTER TABLE grandchildren ALTER parent TYPE bigint;
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
SELECT * FROM raises('SELECT adopt_table(530, ''parents'', ''id'')');
ALTER TABLE parents ALTER reply_to TYPE bigint;
ALTER TABLE of_parent ALTER parent TYPE bigint;
ALTER TABLE of_partition ALTER parent TYPE bigint;
ALTER TABLE parted ALTER parent TYPE bigint;
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

-- The default may generate ids of another shard, in each form, as in a copy of a database that gets a shard of its own.
SELECT create_shard(533), create_shard(534, epoch => '2020-01-01 00:00+00'), create_shard(535);
CALL original('insta533', '533', 'photo_id', 'insta533.own_seq', '1314220021721');
DO $$ BEGIN PERFORM adopt_shard(533, function => 'insta533.photo_id()'); END $$;
SET instagram_id.shard = 533;
CREATE TABLE insta533.photos (id bigint PRIMARY KEY, n int);
SELECT pg_temp.moves("default", 535) FROM unnest('{insta533.next_id(), next_id(533), "next_id(533, ''insta533.table_id_seq'')", insta533.photo_id(),
    "next_id(533, ''insta533.own_seq'', ''2011-08-24 21:07:01.721+00'')", next_id(), node_next_id(''insta533.own_seq'')}'::text[]) AS "default";
-- Ids of this shard, in each form, and expressions that are not such a call.
SELECT pg_temp.moves("default", 533) FROM unnest('{insta533.next_id(), next_id(533), "next_id(533, ''insta533.table_id_seq'')"}'::text[]) AS "default";
-- Ids of the shard from another sequence, whose way back could repeat ids.
ALTER TABLE insta533.photos ALTER id SET DEFAULT next_id(533, 'insta533.own_seq');
SELECT adopted, way_back FROM adopt_table(533, 'insta533.photos');
CREATE FUNCTION regress_id_other.next_id() RETURNS bigint LANGUAGE sql RETURN 7;
CREATE FUNCTION regress_id_other.next_id(int) RETURNS bigint LANGUAGE sql RETURN 7;
SELECT pg_temp.moves("default", 530) FROM unnest('{insta533.next_id() + 1, -insta533.next_id(), "abs(next_id(533))", "next_id(533) + next_id(535)",
    "coalesce(insta533.next_id(), 7)", regress_id_other.next_id(), regress_id_other.next_id(7), "id_floor(now())", 7}'::text[]) AS "default";
-- Nor calls with other constants than these functions need: a role that runs the way back would evaluate a CHECK of their type.
CREATE DOMAIN regress_id_other.checked AS int CHECK (VALUE <> 5);
CREATE FUNCTION regress_id_other.of_seq(regclass, regress_id_other.checked[]) RETURNS regclass LANGUAGE sql RETURN $1;
CREATE FUNCTION regress_id_other.number(regress_id_other.checked[]) RETURNS int LANGUAGE sql RETURN 533;
CREATE SEQUENCE insta533.plain_seq;
SELECT pg_temp.moves("default", 530) FROM unnest('{"nextval(regress_id_other.of_seq(''insta533.plain_seq'', ''{7}''))",
    "next_id(regress_id_other.number(''{7}''))", "nextval((''insta533.plain_seq''::text)::regclass)"}'::text[]) AS "default";
-- The way back means the same in a session with other settings.
CREATE SEQUENCE regress_id_other."x\'::text); SELECT 1 / 0; --";
DO $$ BEGIN EXECUTE format('ALTER TABLE insta533.photos ALTER id SET DEFAULT nextval(%L::regclass)', (SELECT oid::regclass FROM pg_class WHERE relname LIKE 'x\\%')); END $$;
SELECT way_back FROM adopt_table(530, 'insta533.photos', dry_run => true);
SET timezone = 'Asia/Kolkata';
SET datestyle = 'SQL, DMY';
ALTER TABLE insta533.photos ALTER id SET DEFAULT next_id(530, 'insta533.own_seq', '2012-02-01 00:00+00');
SELECT create_shard(537, epoch => '2012-02-01 00:00+00');
SELECT way_back FROM adopt_table(537, 'insta533.photos', dry_run => true);
-- Another epoch than that of the shard is refused also in this form.
SELECT state FROM raises('SELECT adopt_table(530, ''insta533.photos'')');
ALTER TABLE insta533.photos ALTER id SET DEFAULT next_id(537, 'insta533.own_seq');
SELECT state FROM raises('SELECT adopt_table(537, ''insta533.photos'')');
RESET timezone;
RESET datestyle;
-- Ids of a node have the number of its group, which is 0 without Citus.
SELECT create_shard(0);
ALTER TABLE insta533.photos ALTER id SET DEFAULT node_next_id('insta533.own_seq');
SELECT way_back FROM adopt_table(0, 'insta533.photos', dry_run => true);
-- A shard that a move has closed generates no ids for other tables.
BEGIN;
SELECT next_id(533) IS NOT NULL AS made;
DO $$ BEGIN EXECUTE (SELECT format('ALTER SEQUENCE insta533.table_id_seq MAXVALUE %s', last_value) FROM insta533.table_id_seq); END $$;
CREATE TABLE other_keys (id bigserial PRIMARY KEY);
SELECT state, message FROM raises('SELECT adopt_table(533, ''other_keys'')');
ROLLBACK;
-- Ids of another epoch are refused, whichever is the later one. A shard with the same epoch continues them.
SELECT pg_temp.moves('insta533.next_id()', 534);
SELECT pg_temp.moves('next_id(533)', 534);
CREATE TABLE insta534.photos (id bigint PRIMARY KEY DEFAULT insta534.next_id());
INSERT INTO insta534.photos DEFAULT VALUES;
SELECT * FROM raises('SELECT adopt_table(530, ''insta534.photos'')');
SELECT create_shard(536, epoch => insta534.epoch());
SELECT way_back FROM adopt_table(536, 'insta534.photos');
INSERT INTO insta534.photos DEFAULT VALUES RETURNING id_shard(id), id > (SELECT max(id) FROM insta534.photos) AS above;
-- Then no default needs the former shard, and it can be dropped.
ALTER TABLE insta533.photos ALTER id SET DEFAULT insta533.next_id();
SELECT (adopt_table(535, 'insta533.photos')).adopted;
DROP FUNCTION insta533.next_id(), insta533.shard_533();
SELECT (raises('SELECT next_id(533)')).message;
INSERT INTO insta533.photos DEFAULT VALUES RETURNING id_shard(id);

-- The way back is returned again for a column that was converted before.
CREATE TABLE was_serial (id bigserial PRIMARY KEY, n int);
CREATE TABLE was_identity (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int);
INSERT INTO was_serial (n) VALUES (1), (2);
INSERT INTO was_identity (n) VALUES (1), (2);
SELECT way_back FROM adopt_table(530, 'was_serial') \gset serial_
SELECT way_back FROM adopt_table(530, 'was_identity') \gset identity_
INSERT INTO was_serial (n) VALUES (3);
INSERT INTO was_identity (n) VALUES (3);
SELECT message, hint FROM raises('SELECT adopt_table(530, ''was_serial'')');
SELECT table_name, column_name, newest_key = (SELECT max(id) FROM was_serial) AS newest, adopted, script, way_back = :'serial_way_back' AS same
FROM adopt_table(530, 'was_serial', dry_run => true);
SELECT way_back FROM adopt_table(530, 'was_identity', dry_run => true) \gset
SELECT :'identity_way_back' AS then, :'way_back' AS later;
:way_back;
INSERT INTO was_identity (n) VALUES (4) RETURNING id;
:serial_way_back;
INSERT INTO was_serial (n) VALUES (4) RETURNING id;
-- A column that has had ids from the beginning, and one that had the shard's own sequence.
CREATE TABLE insta530.had_ids (id bigint PRIMARY KEY DEFAULT insta530.next_id());
INSERT INTO insta530.had_ids DEFAULT VALUES;
SELECT adopted, way_back FROM adopt_table(530, 'insta530.had_ids', dry_run => true);
INSERT INTO insta530.had_ids VALUES (-5), (0);
ALTER SEQUENCE insta530.table_id_seq OWNED BY insta530.had_ids.id;
SELECT adopted, way_back FROM adopt_table(530, 'insta530.had_ids', dry_run => true);
ALTER SEQUENCE insta530.table_id_seq OWNED BY NONE;
DROP TABLE was_serial, was_identity, insta530.had_ids;
-- An identity goes on from where it stands, also after RESTART, in a temporary table, and at its end.
CREATE TABLE restarted (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY);
ALTER TABLE restarted ALTER id RESTART WITH 50;
CREATE TEMPORARY TABLE of_session (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
INSERT INTO of_session DEFAULT VALUES;
CREATE TABLE ended (id bigint GENERATED ALWAYS AS IDENTITY (MAXVALUE 2) PRIMARY KEY);
INSERT INTO ended SELECT FROM generate_series(1, 2);
CREATE TABLE around (id bigint GENERATED ALWAYS AS IDENTITY (MAXVALUE 2 CYCLE));
INSERT INTO around SELECT FROM generate_series(1, 2);
SELECT name, substring(way_back FROM 'START.*')
FROM unnest(ARRAY['restarted', 'of_session', 'ended', 'around']) AS name, adopt_table(530, name::regclass, 'id', dry_run => name <> 'ended');
SELECT hint FROM raises('SELECT adopt_table(530, ''ended'')');
SELECT way_back FROM adopt_table(530, 'ended', dry_run => true);
ALTER TABLE ended ALTER id DROP DEFAULT, ALTER id ADD GENERATED ALWAYS AS IDENTITY (START WITH 3 INCREMENT BY 1 MINVALUE 1 MAXVALUE 3);
INSERT INTO ended DEFAULT VALUES RETURNING id;
DROP TABLE restarted, of_session, ended, around;
-- Rows that get the last key as a reference would get an older one. A role that may not use the sequence does not count.
CREATE TABLE repeated (id bigserial PRIMARY KEY);
CREATE TABLE repeats (of bigint DEFAULT currval('repeated_id_seq') + 0 REFERENCES repeated);
SELECT * FROM raises('SELECT adopt_table(530, ''repeated'')');
ALTER TABLE repeats OWNER TO regress_id_other;
SET client_min_messages = notice;
SELECT adopted FROM adopt_table(530, 'repeated');
SET client_min_messages = warning;
DROP TABLE repeated, repeats;
CREATE SEQUENCE apart;
CREATE TABLE repeated (id bigint PRIMARY KEY DEFAULT nextval('apart'), root bigint DEFAULT currval('apart'));
SELECT message FROM raises('SELECT adopt_table(530, ''repeated'')');
DROP TABLE repeated;
DROP SEQUENCE apart;
-- The sequence of an identity, beside that of a former serial.
CREATE TABLE was_both (id bigserial PRIMARY KEY);
ALTER TABLE was_both ALTER id DROP DEFAULT, ALTER id ADD GENERATED BY DEFAULT AS IDENTITY (START WITH 31);
SELECT substring(way_back FROM 'START WITH \d+') FROM adopt_table(530, 'was_both', dry_run => true);
DROP TABLE was_both;
-- The statements of the hint for a generated column.
CREATE SEQUENCE key_seq;
CREATE TABLE computed (x int, id bigint GENERATED ALWAYS AS (x * 2) STORED PRIMARY KEY);
SELECT * FROM raises('SELECT adopt_table(530, ''computed'')');
BEGIN;
ALTER TABLE computed ALTER id DROP EXPRESSION, ALTER id SET DEFAULT nextval('key_seq');
SELECT adopted FROM adopt_table(530, 'computed');
COMMIT;
INSERT INTO computed (x) VALUES (1) RETURNING id_shard(id);
DROP TABLE computed;

-- The newest key: with and without an index that has all keys in their order, in partitions with other columns, beside NULL.
SELECT newest(statements), statements FROM unnest(ARRAY['SELECT', 'INSERT INTO keys SELECT n FROM generate_series(1, 5) AS n', 'INSERT INTO keys (id) VALUES (-7), (-5)',
    'INSERT INTO keys (id) VALUES (3), (NULL), (2)', 'INSERT INTO keys (id) VALUES (3), (NULL), (2); CREATE INDEX ON keys (id)',
    'INSERT INTO keys (id) VALUES (3), (NULL), (2); CREATE INDEX ON keys (id DESC)', 'INSERT INTO keys (id) VALUES (3), (NULL), (2); CREATE INDEX ON keys (id NULLS FIRST)',
    'INSERT INTO keys (id) VALUES (3), (2); CREATE INDEX ON keys (id) WHERE id < 3', 'INSERT INTO keys (id) VALUES (3), (2); CREATE INDEX ON keys USING hash (id)',
    'INSERT INTO keys (id, n) VALUES (3, 1), (2, 2); CREATE INDEX ON keys (n, id); CREATE INDEX ON keys (id, n)',
    'INSERT INTO keys VALUES (1); DELETE FROM keys; INSERT INTO keys VALUES (1); UPDATE keys SET id = 1; CREATE INDEX ON keys (id)',
    'ALTER TABLE keys DROP id; INSERT INTO keys VALUES (1); CREATE SEQUENCE s; ALTER TABLE keys ADD id bigint DEFAULT 11; ALTER TABLE keys ALTER id SET DEFAULT nextval(''s'')'
    ]) AS statements;
DROP SEQUENCE s;
CREATE TABLE parted (id bigserial, n int) PARTITION BY RANGE (n);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE TABLE parted_2 (n int, gone text, id bigint NOT NULL);
ALTER TABLE parted_2 DROP gone;
CREATE INDEX ON parted_2 (id);
ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES FROM (10) TO (20);
INSERT INTO parted VALUES (5, 1), (8, 11), (6, 2);
SELECT newest_key FROM adopt_table(530, 'parted', 'id', dry_run => true);
CREATE TABLE parent (id bigserial);
CREATE TABLE child (n int) INHERITS (parent);
INSERT INTO child VALUES (9);
SELECT newest_key FROM adopt_table(530, 'parent', 'id', dry_run => true);
-- The sequence of the column can be another one than that of its keys, and a nullable column was no identity.
CREATE TABLE with_two (id bigserial, n int);
CREATE SEQUENCE second OWNED BY with_two.id;
ALTER TABLE with_two ALTER id SET DEFAULT nextval('second');
INSERT INTO with_two SELECT FROM generate_series(1, 3);
SELECT way_back FROM adopt_table(530, 'with_two', 'id');
SELECT way_back FROM adopt_table(530, 'with_two', 'id', dry_run => true);
SELECT setval('with_two_id_seq', 3, false);
SELECT way_back FROM adopt_table(530, 'with_two', 'id', dry_run => true);
SELECT setval('with_two_id_seq', 4, false);
SELECT way_back FROM adopt_table(530, 'with_two', 'id', dry_run => true);
CREATE TABLE nullable (id bigint DEFAULT nextval('second'));
INSERT INTO nullable DEFAULT VALUES;
SELECT way_back FROM adopt_table(530, 'nullable', 'id');
SELECT way_back FROM adopt_table(530, 'nullable', 'id', dry_run => true);
CREATE RULE seen AS ON INSERT TO nullable DO ALSO SELECT currval('second');
ALTER TABLE with_two ALTER id SET DEFAULT nextval('second');
SELECT message FROM raises('SELECT adopt_table(530, ''with_two'', ''id'')');
ALTER TABLE nullable OWNER TO regress_id_other;
SET client_min_messages = notice;
SELECT adopted FROM adopt_table(530, 'with_two', 'id');
SET client_min_messages = warning;
DROP TABLE nullable, with_two;
-- An identity of the child would repeat keys of the parent.
BEGIN;
SET LOCAL lock_timeout = '7s';
SELECT adopted, way_back FROM adopt_table(530, 'child', 'id');
-- Its own limit ends with it.
SHOW lock_timeout;
COMMIT;
SELECT adopted, way_back FROM adopt_table(530, 'child', 'id', dry_run => true);
DROP TABLE parted, parent, child;
DROP FUNCTION newest;

-- Tables below keep their defaults, those of other roles too.
CREATE SCHEMA beside AUTHORIZATION regress_id_other;
GRANT CREATE ON DATABASE :"DBNAME" TO regress_id_other;
SET ROLE regress_id_other;
SELECT create_shard(538, 'beside', if_not_exists => true);
CREATE TABLE beside.parent (id bigserial PRIMARY KEY);
CREATE TABLE beside.parted (id bigserial, n int) PARTITION BY HASH (n);
RESET ROLE;
REVOKE CREATE ON DATABASE :"DBNAME" FROM regress_id_other;
CREATE TABLE child (PRIMARY KEY (id)) INHERITS (beside.parent);
-- Its sequence goes on as well.
ALTER TABLE child ADD root bigint DEFAULT currval('beside.parent_id_seq');
CREATE TABLE refers (root bigint DEFAULT currval('beside.parent_id_seq')) INHERITS (beside.parent);
ALTER TABLE refers ALTER id SET DEFAULT nextval('key_seq');
SELECT message FROM raises('SELECT adopt_table(538, ''beside.parent'', schema => ''beside'')');
DROP TABLE refers;
CREATE TABLE detail (id bigint DEFAULT currval('beside.parent_id_seq'));
SELECT message FROM raises('SELECT adopt_table(538, ''beside.parent'', schema => ''beside'')');
DROP TABLE detail;
-- A default before the key of its table is evaluated first, and would repeat the key of the other table.
CREATE TABLE items (root bigint DEFAULT currval('beside.parent_id_seq'), id bigint DEFAULT nextval('beside.parent_id_seq'));
SELECT message FROM raises('SELECT adopt_table(538, ''beside.parent'', schema => ''beside'')');
DROP TABLE items;
-- A table that has ids already is not counted.
CREATE TABLE has_ids (id bigint DEFAULT beside.next_id()) INHERITS (beside.parent);
CREATE TABLE part PARTITION OF beside.parted FOR VALUES WITH (MODULUS 1, REMAINDER 0);
SET ROLE regress_id_other;
SET client_min_messages = notice;
SELECT table_name, way_back FROM unnest('{beside.parent, beside.parted}'::regclass[]) AS name, public.adopt_table(538, name, 'id');
SET client_min_messages = warning;
RESET ROLE;
INSERT INTO child DEFAULT VALUES RETURNING id = root AS same;
INSERT INTO beside.parted (n) VALUES (1) RETURNING tableoid::regclass, id_shard(id);
SELECT attrelid::regclass, pg_get_expr(adbin, adrelid) FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
WHERE adrelid IN ('child'::regclass, 'part'::regclass) ORDER BY 1;
-- The same for an identity before PostgreSQL 17, and for a column that could have been one.
SELECT current_setting('server_version_num')::int < 170000 AS partitions_are_apart \gset
BEGIN;
CREATE SEQUENCE of_part;
CREATE TABLE parted (id bigint GENERATED ALWAYS AS IDENTITY, n int) PARTITION BY LIST (n);
\if :partitions_are_apart
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
ALTER TABLE parted_1 ALTER id SET DEFAULT nextval('of_part');
\else
ALTER TABLE parted ALTER id DROP IDENTITY;
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
ALTER TABLE ONLY parted_1 ALTER id SET DEFAULT nextval('of_part');
ALTER TABLE ONLY parted ALTER id SET DEFAULT nextval('of_part');
\endif
SELECT adopted FROM adopt_table(530, 'parted', 'id');
INSERT INTO parted_1 (n) VALUES (1) RETURNING id;
SELECT way_back FROM adopt_table(530, 'parted', 'id', dry_run => true);
ROLLBACK;
-- The way back to a function of a role checks whose it is: another role can have created one of its name.
SELECT way_back FROM adopt_table(530, 'beside.parent') \gset
CREATE ROLE regress_id_third;
GRANT CREATE, USAGE ON SCHEMA beside TO regress_id_third;
DROP TABLE beside.parted, has_ids;
DROP FUNCTION beside.next_id();
SET ROLE regress_id_third;
CREATE FUNCTION beside.next_id() RETURNS bigint LANGUAGE sql RETURN 7;
RESET ROLE;
SELECT :'way_back', state, message FROM raises(:'way_back');
-- A table in a schema that its owner may not use any more.
CREATE TABLE beside.hidden (id bigserial PRIMARY KEY);
ALTER TABLE beside.hidden OWNER TO regress_id_third;
REVOKE USAGE ON SCHEMA beside FROM regress_id_third;
GRANT USAGE ON SCHEMA insta530 TO regress_id_third;
GRANT USAGE ON SEQUENCE insta530.table_id_seq TO regress_id_third;
SELECT 'beside.hidden'::regclass::oid AS hidden \gset
SET ROLE regress_id_third;
SELECT * FROM raises(format('SELECT adopt_table(530, %s::regclass, dry_run => true)', :hidden));
RESET ROLE;
DROP SCHEMA beside CASCADE;
DROP OWNED BY regress_id_third;
DROP ROLE regress_id_third;
DROP SEQUENCE key_seq;

\set VERBOSITY terse
DROP SCHEMA insta530, insta531, insta532, insta533, insta534, insta535, insta536, insta537, insta0, regress_id_other CASCADE;
DROP FUNCTION ahead;
DROP ROLE regress_id_other;

-- The functions for Citus clusters, tested without Citus: ids assigned by a trigger, ids of a node, and a sequence that is
-- closed for a takeover by another node, which never takes place.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
SET client_min_messages = warning;
CREATE ROLE regress_id_owner;
CREATE ROLE regress_id_app;
-- Where Citus is loaded, new sequences have no MAXVALUE, because the value of a closed copy is greater.
SET citus.shard_count = 32;
-- The error of a statement on a table with such a trigger.
CREATE FUNCTION misuse(timing text, arguments text, statement text, OUT state text, OUT message text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TRIGGER misuse %s EXECUTE FUNCTION next_id_trigger(%s)', timing, arguments);
    SELECT e.state, e.message INTO state, message FROM raises(statement) AS e;
    EXECUTE format('DROP TRIGGER misuse ON %s', substring(timing FROM 'misused\w*'));
END $$;
-- Whether a statement returns ids above those before it.
CREATE FUNCTION goes_on_above(statement text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    last bigint := value_of(next_id(500));
    above bigint := (_close_sequence('insta500.table_id_seq', 0, 1)).next_value;
    id bigint;
BEGIN
    EXECUTE statement INTO id;
    RETURN above > last AND value_of(id) > above;
END $$;
\set ECHO all

SELECT create_shard(500), create_shard(501, 'Photos "1"; ''x'' \ --');
RESET citus.shard_count;
SELECT seqmax FROM pg_sequence WHERE seqrelid = 'insta500.table_id_seq'::regclass;
-- The sequence value that an id was built from.
CREATE FUNCTION value_of(id bigint) RETURNS bigint LANGUAGE sql RETURN ((id >> 23) << 10) | (id & 1023);

-- convert_defaults_to_triggers() converts each column whose default generates ids of the shard, in every form of that default.
CREATE TABLE insta500.by_schema (id bigint PRIMARY KEY DEFAULT insta500.next_id(), note text UNIQUE);
CREATE TABLE insta500.by_number (id bigint NOT NULL DEFAULT next_id(500), note text);
CREATE TABLE insta500.by_sequence (note text, id bigint CHECK (id_shard(id) = 500) DEFAULT next_id(500, 'insta500.table_id_seq'));
CREATE TABLE insta500.two (a bigint DEFAULT insta500.next_id(), n int DEFAULT 7, b bigint DEFAULT next_id(500));
CREATE UNLOGGED TABLE insta500.unlogged (id bigint DEFAULT insta500.next_id());
CREATE TABLE insta500.kinds (kind int, id bigint DEFAULT insta500.next_id(), PRIMARY KEY (kind, id)) PARTITION BY LIST (kind);
CREATE TABLE insta500.kind_1 PARTITION OF insta500.kinds FOR VALUES IN (1);
CREATE TABLE insta500.kind_2 PARTITION OF insta500.kinds FOR VALUES IN (2) PARTITION BY HASH (kind);
CREATE TABLE insta500.kind_2_all PARTITION OF insta500.kind_2 FOR VALUES WITH (MODULUS 1, REMAINDER 0);
-- A partition has a trigger of the name that the new one would get.
CREATE TRIGGER "0_assign_id" BEFORE UPDATE ON insta500.kind_2_all FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
CREATE TABLE insta500.parent (id bigint DEFAULT insta500.next_id());
CREATE TABLE insta500.child () INHERITS (insta500.parent);
CREATE TABLE child_elsewhere () INHERITS (insta500.parent);
-- It leaves the other columns unchanged.
CREATE SEQUENCE insta500.own;
CREATE TABLE insta500.others (serial bigserial, identity bigint GENERATED ALWAYS AS IDENTITY, constant bigint DEFAULT 5, none bigint,
    of_another bigint DEFAULT next_id(501), of_its_own bigint DEFAULT next_id(500, 'insta500.own'), of_epoch bigint DEFAULT next_id(500, 'insta500.table_id_seq', '2020-01-01+00'),
    narrow int DEFAULT insta500.next_id(), wide numeric DEFAULT insta500.next_id(), letters text DEFAULT insta500.next_id(), computed bigint DEFAULT insta500.next_id() + 0, as_text text DEFAULT insta500.next_id()::text, stored bigint GENERATED ALWAYS AS (5) STORED);
-- It skips partition key columns on every level, because a trigger cannot change which partition a row goes to.
CREATE TABLE insta500.by_id (id bigint PRIMARY KEY DEFAULT insta500.next_id(), other bigint DEFAULT insta500.next_id()) PARTITION BY RANGE (id);
SELECT count(*) > 0 AS partitions FROM create_id_partitions('insta500.by_id');
CREATE TABLE insta500.by_both (kind int, id bigint DEFAULT insta500.next_id()) PARTITION BY LIST (kind);
CREATE TABLE insta500.by_both_1 PARTITION OF insta500.by_both FOR VALUES IN (1) PARTITION BY HASH (id);
CREATE TABLE insta500.by_both_1_all PARTITION OF insta500.by_both_1 FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE TABLE insta500.by_sum (kind int, id bigint DEFAULT insta500.next_id()) PARTITION BY HASH (kind, (id + kind));
CREATE TABLE insta500.by_sum_all PARTITION OF insta500.by_sum FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE VIEW insta500.a_view AS SELECT * FROM insta500.by_schema;
ALTER VIEW insta500.a_view ALTER id SET DEFAULT insta500.next_id();
CREATE TABLE elsewhere_500 (id bigint DEFAULT insta500.next_id());
CREATE VIEW defaults AS
SELECT adrelid::regclass AS table_name, attname, pg_get_expr(adbin, adrelid) AS expression
FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum;
CREATE TABLE before AS SELECT * FROM defaults;
CREATE VIEW triggers AS
SELECT tgrelid::regclass AS table_name, tgname, regexp_replace(pg_get_triggerdef(t.oid), '^CREATE TRIGGER ".*" (BEFORE .*)$', '\1') AS definition
FROM pg_trigger AS t WHERE tgfoid = 'next_id_trigger'::regproc AND tgrelid::regclass::text NOT LIKE 'insta500.by\_id\_p%'; -- which are of this month
SELECT * FROM convert_defaults_to_triggers(500);
SELECT * FROM triggers ORDER BY table_name::text COLLATE "C", tgname;
SELECT table_name, attname FROM before WHERE table_name::text NOT LIKE 'insta500.by\_id\_p%' EXCEPT SELECT table_name, attname FROM defaults ORDER BY 1, 2;
SELECT count(*) AS defaults_changed FROM before AS b JOIN defaults AS d USING (table_name, attname) WHERE b.expression <> d.expression;
-- A second call converts only new tables.
SELECT * FROM convert_defaults_to_triggers(500);
INSERT INTO insta500.by_id DEFAULT VALUES RETURNING id_shard(id), id_shard(other);
INSERT INTO insta500.by_both VALUES (1) RETURNING id_shard(id);
INSERT INTO insta500.by_sum VALUES (1) RETURNING id_shard(id);
DROP TABLE insta500.others, insta500.by_id, insta500.by_both, insta500.by_sum;
CREATE TABLE insta500.later (id bigint DEFAULT insta500.next_id());
SELECT * FROM convert_defaults_to_triggers(500);
SELECT * FROM convert_defaults_to_triggers(500);

-- Names that need quotes, and names of maximum length; search_path does not matter.
SET search_path = "Photos ""1""; 'x' \ --", pg_catalog, public;
CREATE TABLE "select" ("Größe ""1"" 'x' \ ; --" bigint DEFAULT next_id(), "%1$s" int);
CREATE TABLE a23456789012345678901234567890123456789012345678901234567890123 (
    a23456789012345678901234567890123456789012345678901234567890123 bigint DEFAULT public.next_id(501),
    ääääääääääääääääääääääääääääääa bigint DEFAULT "Photos ""1""; 'x' \ --".next_id());
CREATE TABLE ruled_log (id bigint);
CREATE TABLE ruled (id bigint DEFAULT next_id(501));
CREATE RULE log AS ON INSERT TO ruled DO ALSO INSERT INTO ruled_log VALUES (NEW.id);
CREATE TABLE parted (id bigint DEFAULT next_id(501), n int) PARTITION BY RANGE (n);
CREATE TABLE ruled_part PARTITION OF parted DEFAULT;
CREATE RULE log AS ON INSERT TO ruled_part DO ALSO INSERT INTO ruled_log VALUES (NEW.id);
SELECT * FROM convert_defaults_to_triggers(501);
SELECT tgname, octet_length(tgname::text) FROM public.triggers WHERE table_name::text !~ '^insta' ORDER BY tgname COLLATE "C";
INSERT INTO "select" ("%1$s") VALUES (1), (2);
INSERT INTO a23456789012345678901234567890123456789012345678901234567890123 DEFAULT VALUES;
SELECT count(DISTINCT "Größe ""1"" 'x' \ ; --"), bool_and(id_shard("Größe ""1"" 'x' \ ; --") = 501) AS of_shard FROM "select";
SELECT id_shard(a23456789012345678901234567890123456789012345678901234567890123), id_shard(ääääääääääääääääääääääääääääääa)
FROM a23456789012345678901234567890123456789012345678901234567890123;
RESET search_path;

-- Inserts of every kind. The table made collects all ids that the trigger assigns.
CREATE TABLE made (n int GENERATED ALWAYS AS IDENTITY, kind text, id bigint UNIQUE);
PREPARE insert_note (text) AS INSERT INTO insta500.by_schema (note) VALUES ($1) RETURNING id;
INSERT INTO insta500.by_schema (note) VALUES ('one') RETURNING id_shard(id), note;
INSERT INTO insta500.by_schema (note) VALUES ('two'), ('three'), ('four') RETURNING id_shard(id), note;
INSERT INTO insta500.by_schema DEFAULT VALUES RETURNING id IS NOT NULL AS has_id, note;
INSERT INTO insta500.by_schema VALUES (DEFAULT, 'default'), (NULL, 'null');
INSERT INTO insta500.by_schema (note) SELECT 'selected ' || n FROM generate_series(1, 2000) AS n;
COPY insta500.by_schema (note) FROM stdin;
copied 1
copied 2
\.
COPY insta500.by_schema FROM stdin;
\N	copied 3
50	copied with an id
\.
EXECUTE insert_note('prepared 1') \gset
EXECUTE insert_note('prepared 2') \gset
WITH new AS (INSERT INTO insta500.by_schema (note) VALUES ('with') RETURNING id)
SELECT id_shard(id), id > :id AS is_greater FROM new;
DO $$
BEGIN
    FOR n IN 1..10 LOOP
        INSERT INTO insta500.by_schema (note) VALUES ('loop ' || n);
    END LOOP;
END $$;
MERGE INTO insta500.by_schema AS t USING (VALUES ('merged'), ('one')) AS v(note) ON t.note = v.note
WHEN NOT MATCHED THEN INSERT (note) VALUES (v.note) WHEN MATCHED THEN UPDATE SET note = 'one, merged';
-- An explicit id is kept and does not advance the sequence.
SELECT last_value AS last FROM insta500.table_id_seq \gset
INSERT INTO insta500.by_schema VALUES (1, 'explicit'), (-5, 'negative'), (0, 'zero') RETURNING id;
SELECT last_value = :last AS untouched FROM insta500.table_id_seq;
-- ON CONFLICT.
INSERT INTO insta500.by_schema (note) VALUES ('two'), ('new') ON CONFLICT DO NOTHING RETURNING note;
INSERT INTO insta500.by_schema VALUES (1, 'again') ON CONFLICT (id) DO NOTHING RETURNING note;
INSERT INTO insta500.by_schema (note) VALUES ('two') ON CONFLICT (note) DO UPDATE SET note = 'two again' RETURNING id < :id AS keeps_id, note;
INSERT INTO insta500.by_schema AS t (note) VALUES ('three') ON CONFLICT (note) DO UPDATE SET id = EXCLUDED.id RETURNING id > :id AS has_the_new_one, note;
UPDATE insta500.by_schema SET note = 'four, later' WHERE note = 'four' RETURNING id < :id AS keeps_id;
INSERT INTO insta500.a_view (note) VALUES ('by a view') RETURNING id > :id AS is_greater;
INSERT INTO made (kind, id) SELECT 'by_schema', id FROM insta500.by_schema WHERE id NOT IN (-5, 0, 1, 50) ORDER BY id;
-- The other tables: id columns after others, two id columns, partitions via the parent and directly, inheritance children.
INSERT INTO insta500.by_number (note) SELECT n FROM generate_series(1, 100) AS n;
INSERT INTO insta500.by_sequence (note) SELECT repeat('long', 10000) FROM generate_series(1, 10);
INSERT INTO insta500.two (n) VALUES (DEFAULT), (8), (9);
INSERT INTO insta500.two (a) VALUES (3);
INSERT INTO insta500.two (b) VALUES (4);
INSERT INTO insta500.unlogged DEFAULT VALUES;
INSERT INTO insta500.kinds (kind) SELECT n % 2 + 1 FROM generate_series(1, 100) AS n;
INSERT INTO insta500.kind_1 (kind) VALUES (1);
INSERT INTO insta500.kind_2 (kind) VALUES (2);
INSERT INTO insta500.kind_2_all (kind) VALUES (2);
INSERT INTO insta500.parent DEFAULT VALUES;
INSERT INTO insta500.child DEFAULT VALUES;
INSERT INTO insta500.later DEFAULT VALUES;
INSERT INTO made (kind, id)
SELECT 'by_number', id FROM insta500.by_number UNION ALL SELECT 'by_sequence', id FROM insta500.by_sequence
UNION ALL SELECT 'two', a FROM insta500.two WHERE a > 3 OR a IS NULL UNION ALL SELECT 'two', b FROM insta500.two WHERE b > 4 OR b IS NULL
UNION ALL SELECT 'unlogged', id FROM insta500.unlogged UNION ALL SELECT 'kinds', id FROM insta500.kinds
UNION ALL SELECT 'parent and child', id FROM insta500.parent UNION ALL SELECT 'later', id FROM insta500.later;
SELECT kind, count(*), count(id) = count(*) AS all_there, bool_and(id_shard(id) = 500) AS of_shard,
    bool_and(id_time(id) BETWEEN now() - interval '5 min' AND clock_timestamp() + interval '5 s') AS of_now
FROM made GROUP BY kind ORDER BY kind COLLATE "C";
SELECT array_agg(n ORDER BY n) AS default_of_another_column FROM insta500.two;
SELECT kind, count(*) FROM insta500.kinds GROUP BY kind ORDER BY kind;
SELECT count(*), min(length(note)) FROM insta500.by_sequence;
-- Ids increase in the order of the rows.
CREATE TABLE insta500.ordered (n int, id bigint DEFAULT insta500.next_id());
SELECT count(*) FROM convert_defaults_to_triggers(500);
INSERT INTO insta500.ordered SELECT n FROM generate_series(1, 5000) AS n;
SELECT bool_and(id > previous) AS in_order FROM (SELECT id, lag(id) OVER (ORDER BY n) AS previous FROM insta500.ordered) AS steps;
-- The trigger keeps the values of all other columns, also in a table with dropped columns.
CREATE TABLE insta500.wide (gone int, a text[], b numeric, id bigint DEFAULT insta500.next_id(), c insta500.two, gone_too text DEFAULT 'x', d jsonb, e bool, f text,
    shard int GENERATED ALWAYS AS (id_shard(id)) STORED, g timestamptz DEFAULT '2020-01-01+00');
ALTER TABLE insta500.wide DROP gone, DROP gone_too;
ALTER TABLE insta500.wide ADD later int DEFAULT 5;
SELECT * FROM convert_defaults_to_triggers(500);
INSERT INTO insta500.wide (a, b, c, d, f) VALUES ('{x,NULL,"y z"}', 1e30, (1, NULL, 3), '{"a": [1, null]}', repeat('f', 100000))
RETURNING a, b, c, d, e, length(f), shard, g, later;
INSERT INTO insta500.wide DEFAULT VALUES RETURNING a, b, c, d, e, f, shard, g, later;

-- Triggers that fire after it, in name order, see the id in its column.
CREATE TABLE insta500.watched (id bigint PRIMARY KEY DEFAULT insta500.next_id(), seen bigint, "Seen" bigint, also_seen bigint);
CREATE TABLE insta500.audit (id bigint REFERENCES insta500.watched);
CREATE FUNCTION insta500.see() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    CASE TG_NAME WHEN 'Audit' THEN NEW."Seen" := NEW.id; WHEN '1' THEN NEW.seen := NEW.id; WHEN '_' THEN NEW.also_seen := NEW.id;
    ELSE INSERT INTO insta500.audit VALUES (NEW.id); END CASE;
    RETURN NEW;
END $$;
CREATE TRIGGER "Audit" BEFORE INSERT ON insta500.watched FOR EACH ROW EXECUTE FUNCTION insta500.see();
CREATE TRIGGER "1" BEFORE INSERT ON insta500.watched FOR EACH ROW EXECUTE FUNCTION insta500.see();
CREATE TRIGGER "_" BEFORE INSERT ON insta500.watched FOR EACH ROW EXECUTE FUNCTION insta500.see();
CREATE TRIGGER afterwards AFTER INSERT ON insta500.watched FOR EACH ROW EXECUTE FUNCTION insta500.see();
SELECT * FROM convert_defaults_to_triggers(500);
INSERT INTO insta500.watched DEFAULT VALUES;
INSERT INTO insta500.watched (id) VALUES (DEFAULT), (6);
SELECT count(*), bool_and(id = seen AND id = "Seen" AND id = also_seen) AS seen, count(*) FILTER (WHERE id_shard(id) = 500) AS of_shard
FROM insta500.watched JOIN insta500.audit USING (id);

-- A default of a partition's own is not dropped with that of the table. One that is the same may be written in another way.
CREATE SEQUENCE insta500.two_seq;
CREATE TABLE insta500.parts (id bigint DEFAULT insta500.next_id(), kind int) PARTITION BY LIST (kind);
CREATE TABLE insta500.part_1 PARTITION OF insta500.parts (id DEFAULT next_id(500)) FOR VALUES IN (1);
CREATE TABLE insta500.part_2 PARTITION OF insta500.parts (id DEFAULT nextval('insta500.two_seq')) FOR VALUES IN (2);
SELECT * FROM convert_defaults_to_triggers(500);
INSERT INTO insta500.part_2 (kind) VALUES (2) RETURNING id;
ALTER TABLE insta500.part_2 ALTER id DROP DEFAULT;
SELECT * FROM convert_defaults_to_triggers(500);

-- Invalid arguments of convert_defaults_to_triggers().
SELECT * FROM raises('SELECT convert_defaults_to_triggers(NULL)');
SELECT * FROM raises('SELECT convert_defaults_to_triggers(-1)');
SELECT * FROM raises('SELECT convert_defaults_to_triggers(8192)');
SELECT * FROM raises('SELECT convert_defaults_to_triggers(502)');
BEGIN READ ONLY;
SELECT * FROM raises('SELECT convert_defaults_to_triggers(500)');
COMMIT;
-- A role cannot convert tables that it does not own. Of several, it converts its own; a WARNING names the others.
SET ROLE regress_id_app;
SELECT * FROM convert_defaults_to_triggers(500);
RESET ROLE;
CREATE TABLE insta500.not_owned (id bigint DEFAULT insta500.next_id());
CREATE TABLE insta500.owned (id bigint DEFAULT insta500.next_id());
ALTER TABLE insta500.owned OWNER TO regress_id_app;
SET ROLE regress_id_app;
SELECT state FROM raises('SELECT convert_defaults_to_triggers(500)');
RESET ROLE;
GRANT USAGE ON SCHEMA insta500 TO regress_id_app;
SET ROLE regress_id_app;
SELECT * FROM convert_defaults_to_triggers(500);
SELECT state, message FROM raises('SELECT convert_defaults_to_triggers(500)');
RESET ROLE;
SELECT table_name FROM triggers WHERE table_name::text LIKE '%owned';
-- The table's owner does not need to own the shard.
ALTER TABLE insta500.not_owned OWNER TO regress_id_owner;
GRANT regress_id_owner TO regress_id_app;
SET ROLE regress_id_app;
SELECT * FROM convert_defaults_to_triggers(500);
RESET ROLE;
-- A rollback restores the defaults.
CREATE TABLE insta500.undone (id bigint DEFAULT insta500.next_id());
-- A trigger does not have the rights of the definer.
BEGIN;
ALTER FUNCTION insta500.next_id() SECURITY DEFINER;
SELECT * FROM convert_defaults_to_triggers(500);
ROLLBACK;
BEGIN;
SELECT * FROM convert_defaults_to_triggers(500);
ROLLBACK;
SELECT count(*) FROM triggers WHERE table_name = 'insta500.undone'::regclass;
INSERT INTO insta500.undone DEFAULT VALUES RETURNING id_shard(id);

-- An insert needs INSERT on the table and a privilege on the sequence, and nothing else, as with the default.
CREATE TABLE insta500.photos (id bigint DEFAULT insta500.next_id(), url text);
SELECT * FROM convert_defaults_to_triggers(500);
GRANT INSERT ON insta500.photos TO regress_id_app;
REVOKE regress_id_owner FROM regress_id_app;
SET ROLE regress_id_app;
SELECT * FROM raises('INSERT INTO insta500.photos (url) VALUES (''a'')');
INSERT INTO insta500.photos VALUES (5, 'an id of its own');
RESET ROLE;
GRANT USAGE ON SEQUENCE insta500.table_id_seq TO regress_id_app;
SET ROLE regress_id_app;
INSERT INTO insta500.photos (url) VALUES ('b'), ('c');
COPY insta500.photos (url) FROM stdin;
d
\.
RESET ROLE;
REVOKE USAGE ON SCHEMA insta500 FROM regress_id_app;
CREATE VIEW photos_500 AS SELECT * FROM insta500.photos;
GRANT INSERT ON photos_500 TO regress_id_app;
SET ROLE regress_id_app;
INSERT INTO photos_500 (url) VALUES ('e');
RESET ROLE;
SELECT url, id_shard(id) FROM insta500.photos ORDER BY url;
DROP VIEW photos_500;

-- A role that can create schemas defines the number of another role's shard. A table in the schema of the shard gets its ids as
-- before. In another schema only the number counts, also where that role can create the definition beside the table.
SELECT format('GRANT CREATE ON DATABASE %I TO regress_id_owner, regress_id_app', current_database()) \gexec
SET ROLE regress_id_owner;
SELECT create_shard(503);
CREATE TABLE insta503.photos (id bigint DEFAULT insta503.next_id());
SELECT * FROM convert_defaults_to_triggers(503);
CREATE SCHEMA beside_503;
GRANT CREATE, USAGE ON SCHEMA beside_503 TO regress_id_app;
CREATE TABLE beside_503.photos (id bigint);
CREATE TRIGGER ids BEFORE INSERT ON beside_503.photos FOR EACH ROW EXECUTE FUNCTION next_id_trigger('503', 'id');
INSERT INTO insta503.photos DEFAULT VALUES RETURNING id_shard(id);
INSERT INTO beside_503.photos DEFAULT VALUES RETURNING id_shard(id);
SELECT replace(pg_get_functiondef('insta503.shard_503'::regproc), 'insta503', 'beside_503') AS rival \gset
RESET ROLE;
SET ROLE regress_id_app;
CREATE SEQUENCE beside_503.table_id_seq;
GRANT USAGE ON SEQUENCE beside_503.table_id_seq TO PUBLIC;
:rival;
RESET ROLE;
SET ROLE regress_id_owner;
INSERT INTO insta503.photos DEFAULT VALUES RETURNING id_shard(id);
SELECT state FROM raises('INSERT INTO beside_503.photos DEFAULT VALUES');
SELECT state FROM raises('SELECT next_id(503)');
SELECT count(DISTINCT id), bool_and(id > previous) AS in_order FROM (SELECT id, lag(id) OVER (ORDER BY ctid) AS previous FROM insta503.photos) AS made;
-- That of the owner of a partition's schema does not count for rows of the partitioned table.
CREATE TABLE insta503.logs (id bigint, day int) PARTITION BY RANGE (day);
CREATE TABLE insta503.logs_1 PARTITION OF insta503.logs FOR VALUES FROM (0) TO (10);
CREATE TABLE beside_503.logs_2 PARTITION OF insta503.logs FOR VALUES FROM (10) TO (20);
CREATE TRIGGER ids BEFORE INSERT ON insta503.logs FOR EACH ROW EXECUTE FUNCTION next_id_trigger('503', 'id');
RESET ROLE;
ALTER SCHEMA beside_503 OWNER TO regress_id_app;
INSERT INTO insta503.logs (day) VALUES (1), (11) RETURNING id_shard(id);
SELECT is_called FROM beside_503.table_id_seq;
ALTER SCHEMA beside_503 OWNER TO regress_id_owner;
-- A definition of the table's owner counts, and one of the schema's owner.
ALTER FUNCTION beside_503.shard_503 OWNER TO regress_id_owner;
ALTER SEQUENCE beside_503.table_id_seq OWNER TO regress_id_owner;
INSERT INTO beside_503.photos DEFAULT VALUES RETURNING id_shard(id);
ALTER TABLE beside_503.photos OWNER TO regress_id_app;
INSERT INTO beside_503.photos DEFAULT VALUES RETURNING id_shard(id);
ALTER SCHEMA beside_503 OWNER TO regress_id_app;
SELECT state FROM raises('INSERT INTO beside_503.photos DEFAULT VALUES');
DROP SCHEMA insta503, beside_503 CASCADE;
SELECT format('REVOKE CREATE ON DATABASE %I FROM regress_id_owner, regress_id_app', current_database()) \gexec

-- next_id_trigger() in the wrong place.
CREATE DOMAIN any_id AS bigint;
CREATE TABLE misused (gone bigint, id bigint, small int, tiny smallint, number numeric, name text, of_domain any_id);
ALTER TABLE misused DROP gone;
CREATE VIEW misused_view AS SELECT * FROM misused;
INSERT INTO misused VALUES (1);
SELECT timing, e.* FROM (VALUES
    (1, 'AFTER INSERT ON misused FOR EACH ROW', 'INSERT INTO misused DEFAULT VALUES'),
    (2, 'BEFORE UPDATE ON misused FOR EACH ROW', 'UPDATE misused SET id = NULL'),
    (3, 'BEFORE INSERT OR UPDATE ON misused FOR EACH ROW', 'UPDATE misused SET id = NULL'),
    (4, 'BEFORE DELETE ON misused FOR EACH ROW', 'DELETE FROM misused'),
    (5, 'BEFORE INSERT ON misused FOR EACH STATEMENT', 'INSERT INTO misused DEFAULT VALUES'),
    (6, 'AFTER INSERT ON misused FOR EACH STATEMENT', 'INSERT INTO misused DEFAULT VALUES'),
    (7, 'BEFORE TRUNCATE ON misused FOR EACH STATEMENT', 'TRUNCATE misused'),
    (8, 'INSTEAD OF INSERT ON misused_view FOR EACH ROW', 'INSERT INTO misused_view DEFAULT VALUES'),
    (9, 'BEFORE INSERT ON misused', 'INSERT INTO misused DEFAULT VALUES')) AS v(n, timing, statement),
    misuse(timing, '''500'', ''id''', statement) AS e ORDER BY n;
SELECT arguments, e.* FROM (VALUES
    (1, ''), (2, '''500'''), (3, '''500'', ''id'', ''id'''), (4, '''id'', ''500'''), (5, ''''', ''id'''), (6, '''8192'', ''id'''), (7, '''-1'', ''id'''), (8, '''5e2'', ''id'''), (21, '''0500'', ''id'''),
    (9, '500, id'), (17, '''500'', ''small'''), (18, '''500'', ''tiny'''), (19, '''500'', ''of_domain'''), (20, '''500'', ''........pg.dropped.1........'''), (10, '''500'', ''nowhere'''), (11, '''500'', ''ID'''), (12, '''500'', '''''), (13, '''500'', ''ctid'''), (14, '''500'', ''name'''), (15, '''500'', ''number'''),
    (16, '''502'', ''id''')) AS v(n, arguments),
    misuse('BEFORE INSERT ON misused FOR EACH ROW', arguments, 'INSERT INTO misused DEFAULT VALUES') AS e ORDER BY n;
SELECT id_shard(id), count(*) FROM misused GROUP BY 1 ORDER BY 1;
CREATE TRIGGER misuse BEFORE INSERT ON misused FOR EACH ROW EXECUTE FUNCTION next_id_trigger('500', 'nowhere');
SELECT * FROM raises('INSERT INTO misused DEFAULT VALUES');
SELECT * FROM raises('SELECT next_id_trigger()');

-- node_next_id() generates ids of shard 0 here. In all other respects it behaves like next_id(shard, sequence).
CREATE SEQUENCE nodes_500;
SELECT count(DISTINCT id), bool_and(id_shard(id) = 0) AS of_node, bool_and(id > previous) AS in_order, bool_and(id_time(id) BETWEEN now() - interval '1 s' AND clock_timestamp() + interval '5 s') AS of_now
FROM (SELECT id, lag(id) OVER (ORDER BY n) AS previous FROM (SELECT n, node_next_id('nodes_500') AS id FROM generate_series(1, 3000) AS n) AS made) AS steps;
SELECT node_next_id('nodes_500', NULL) < node_next_id('nodes_500', '2011-08-24 21:07:01.721+00') AS the_same_epoch, next_id(0, 'nodes_500') < node_next_id('nodes_500') AS as_next_id;
CREATE SEQUENCE epochs_500;
SELECT id_shard(id), id_time(id, '2020-01-01+00') BETWEEN now() - interval '1 s' AND clock_timestamp() + interval '5 s' AS of_now
FROM node_next_id('epochs_500', epoch => '2020-01-01+00') AS id;
CREATE TABLE by_node (id bigint PRIMARY KEY DEFAULT node_next_id('nodes_500'), n int);
INSERT INTO by_node (n) SELECT n FROM generate_series(1, 100) AS n;
SELECT count(*), bool_and(id_shard(id) = 0) AS of_node FROM by_node;
CREATE TEMPORARY SEQUENCE mine_500;
SELECT id_shard(node_next_id('mine_500'));
CREATE SEQUENCE narrow_500 AS int;
SELECT * FROM raises('SELECT node_next_id(NULL)');
BEGIN READ ONLY;
SELECT * FROM raises('SELECT node_next_id(''nodes_500'')');
SELECT id_shard(node_next_id('mine_500'));
COMMIT;
SET ROLE regress_id_app;
SELECT * FROM raises('SELECT node_next_id(''nodes_500'')');
RESET ROLE;
GRANT USAGE ON SEQUENCE nodes_500 TO regress_id_app;
SET ROLE regress_id_app;
SELECT id_shard(node_next_id('nodes_500'));
RESET ROLE;

-- _close_sequence() returns a value above all values that the sequence has issued.
SELECT value_of(next_id(500)) AS last \gset
SELECT (_close_sequence('insta500.table_id_seq', 0, 1)).next_value AS above \gset
SELECT :above > :last AS is_above, (_close_sequence('insta500.table_id_seq', 0, 1)).next_value = :above AS once_more_the_same, is_called FROM insta500.table_id_seq;
SELECT shard, last_id, last_time FROM id_shards WHERE shard = 500;
-- If no node has taken the sequence over, the next call that generates an id opens it, and its ids continue above that value.
SELECT value_of(next_id(500)) > :above AS above;
SELECT shard, id_shard(last_id) AS of_shard FROM id_shards WHERE shard = 500;
-- The same holds for each way to generate an id, every time.
SELECT statement, goes_on_above(statement) FROM (VALUES
    ('SELECT next_id(500)'), ('SELECT insta500.next_id()'), ('SELECT next_id(500, ''insta500.table_id_seq'')'), ('SELECT min(id) FROM next_ids(500, 5000) AS id'),
    ('INSERT INTO insta500.by_schema DEFAULT VALUES RETURNING id'), ('SELECT greatest(advance_shard(500, make_id(''2020-01-01+00'', 500, 5)), next_id(500))')) AS v(statement);
-- If the transaction that closes it rolls back, it stays closed. Ids generated in a rolled back transaction are not reused.
BEGIN;
SELECT (_close_sequence('insta500.table_id_seq', 0, 1)).next_value AS above \gset
ROLLBACK;
SELECT last_id IS NULL AS is_shut FROM id_shards WHERE shard = 500;
BEGIN;
SELECT value_of(next_id(500)) AS last \gset
ROLLBACK;
SELECT :last > :above AS above, value_of(next_id(500)) > :last AS goes_on;
-- A sequence that is ahead of the clock stays ahead.
SET client_min_messages = error;
SELECT advance_shard(500, make_id(now() + interval '1 hour', 500, 0)) AS ahead \gset
SELECT (_close_sequence('insta500.table_id_seq', 0, 1)).next_value > value_of(:ahead) AS above, next_id(500) > :ahead AS goes_on;
SELECT (_close_sequence('insta500.table_id_seq', 0, 1)).next_value > value_of(:ahead) AS above, advance_shard(500, make_id('2020-01-01+00', 500, 5)) > :ahead AS stays, next_id(500) > :ahead AS goes_on;
-- After nextval() a closed sequence is still closed for next_id() and keeps its position; these values belong to no id.
SELECT (_close_sequence('insta500.table_id_seq', 0, 1)).next_value AS above \gset
SELECT nextval('insta500.table_id_seq') - 2305843009213693952 = :above AS of_no_id, nextval('insta500.table_id_seq') - 2305843009213693952 = :above + 1 AS nor_the_next;
SELECT shard, last_id FROM id_shards WHERE shard = 500;
-- nextval() may have erased the record of a takeover, so only advance_shard() opens the sequence.
SELECT * FROM raises('SELECT next_id(500)');
SELECT c.next_value = :above + 2 AS above, last_holder FROM _close_sequence('insta500.table_id_seq', 0, 1) AS c;
SELECT state FROM raises('SELECT insta500.next_id()');
SELECT advance_shard(500, 500 << 10) > :ahead AS above, next_id(500) > :ahead AS goes_on;
-- The same holds for a sequence restored from a dump or by pg_upgrade.
SELECT (_close_sequence('insta500.table_id_seq', 0, 1)).next_value AS above \gset
SELECT setval('insta500.table_id_seq', last_value, is_called) - 2305843009213693952 = :above AS restored FROM insta500.table_id_seq;
SELECT state FROM raises('SELECT next_id(500)');
SELECT advance_shard(500, 500 << 10) > :ahead AS above, next_id(500) > :ahead AS goes_on;
-- setval() and RESTART have their usual effect on open and closed sequences, and ids follow the clock again.
SELECT setval('insta500.table_id_seq', 1);
SELECT id_time(next_id(500)) < clock_timestamp() + interval '5 s' AS of_now;
SELECT (_close_sequence('insta500.table_id_seq', 0, 1)).next_value > 1 AS above, setval('insta500.table_id_seq', value_of(:ahead)) = value_of(:ahead) AS set;
SELECT next_id(500) = :ahead + 1 AS the_next;
SELECT (_close_sequence('insta500.table_id_seq', 0, 1)).next_value = value_of(:ahead) + 2 AS above, setval('insta500.table_id_seq', 1, false);
SELECT id_time(next_id(500)) < clock_timestamp() + interval '5 s' AS of_now;
SELECT (_close_sequence('insta500.table_id_seq', 0, 1)).next_value > 1 AS above;
ALTER SEQUENCE insta500.table_id_seq RESTART;
SELECT id_time(next_id(500)) < clock_timestamp() + interval '5 s' AS of_now;
-- A sequence that was never called.
SELECT (_close_sequence('insta500.own', 0, 1)).next_value <= 1 AS above_nothing, id_time(next_id(500, 'insta500.own')) BETWEEN now() - interval '1 s' AND clock_timestamp() + interval '5 s' AS of_now;
SELECT (_close_sequence(s, 0, 1)).next_value > 0 AS above, id_shard(next_id(501, s)), value_of(next_id(501, s)) > 0 AS goes_on FROM (VALUES ('insta500.own'::regclass), ('mine_500')) AS v(s);
-- The start value of a sequence that was never called is not a time that it has reached, however far ahead it is.
CREATE SEQUENCE start_500 START 1125899906842000;
SELECT (_close_sequence('start_500', 0, 1)).next_value <= 1 AS above_nothing, id_time(next_id(500, 'start_500')) BETWEEN now() - interval '1 s' AND clock_timestamp() + interval '5 s' AS of_now;
-- node_next_id() refuses a closed sequence.
SELECT setval('nodes_500', value_of(:ahead)) IS NOT NULL AS set, value_of(node_next_id('nodes_500')) - value_of(:ahead) AS next;
SELECT (_close_sequence('nodes_500', 0, 1)).next_value - value_of(:ahead) AS above;
SELECT * FROM raises('SELECT node_next_id(''nodes_500'')');
SELECT id_shard(next_id(500, 'nodes_500')) AS opened, value_of(node_next_id('nodes_500')) - value_of(:ahead) AS next;
-- At the end of the time field no value is left, and the sequence does not start over.
SELECT setval('nodes_500', 1125899906842622), id_time(node_next_id('nodes_500')) AS the_last;
SELECT (_close_sequence('nodes_500', 0, 1)).next_value;
SELECT * FROM raises('SELECT next_id(500, ''nodes_500'')');
SELECT setval('nodes_500', 9223372036854775807), (_close_sequence('nodes_500', 0, 1)).next_value;
SELECT state FROM raises('SELECT next_id(500, ''nodes_500'')');
-- _close_sequence() returns the node that took the copy over before and keeps that record. Only _record_sequence_holder() changes
-- it, while the copy is closed for the same attempt.
SELECT c.next_value IS NOT NULL AS above, last_holder FROM _close_sequence('insta500.table_id_seq', 7, 1) AS c;
SELECT c.next_value IS NOT NULL AS above, last_holder FROM _close_sequence('insta500.table_id_seq', 7, 2) AS c;
SELECT _record_sequence_holder('insta500.table_id_seq', 7, 1, 0) AS of_another_attempt, _record_sequence_holder('insta500.table_id_seq', 7, 2, 0) AS named;
SELECT _record_sequence_holder('insta500.table_id_seq', 7, 2, 0) AS twice;
SELECT c.next_value IS NOT NULL AS above, last_holder FROM _close_sequence('insta500.table_id_seq', 0, 1073741823) AS c;
SELECT c.next_value IS NOT NULL AS above, last_holder FROM _close_sequence('insta500.table_id_seq', 0, 0) AS c;
-- If another node has taken a copy over, no call opens it, except advance_shard().
SELECT statement, e.* FROM (VALUES
    (1, 'SELECT next_id(500)'), (2, 'SELECT next_id(500)'), (3, 'SELECT insta500.next_id()'), (4, 'SELECT next_id(500, ''insta500.table_id_seq'')'),
    (5, 'SELECT next_ids(500, 5)'), (6, 'INSERT INTO insta500.by_schema DEFAULT VALUES')) AS v(n, statement), raises(statement) AS e ORDER BY n;
SELECT advance_shard(500, :ahead + (1::bigint << 23)) >= :ahead + (1::bigint << 23) AS advanced;
SELECT next_id(500) > :ahead + (1::bigint << 23) AS goes_on;
SELECT _record_sequence_holder('insta500.table_id_seq', 7, 0, 0) AS open, next_id(500) > :ahead AS goes_on;
-- advance_shard() opens the copy at the given id, even if that is far above the last one.
SELECT c.next_value IS NOT NULL AS above FROM _close_sequence('insta500.table_id_seq', 0, 0) AS c;
SELECT advance_shard(500, make_id(id_time(:ahead) + interval '1 hour', 500, 5)) = make_id(id_time(:ahead) + interval '1 hour', 500, 5) AS advanced;
-- Invalid arguments of both functions.
SELECT statement, e.* FROM (VALUES
    (1, 'SELECT _close_sequence(NULL, 0, 0)'), (2, 'SELECT _close_sequence(''insta500.table_id_seq'', NULL, 0)'), (3, 'SELECT _close_sequence(''insta500.table_id_seq'', 0, NULL)'),
    (4, 'SELECT _close_sequence(''insta500.table_id_seq'', -1, 0)'), (5, 'SELECT _close_sequence(''insta500.table_id_seq'', 2147483647, 0)'),
    (6, 'SELECT _close_sequence(''insta500.table_id_seq'', 0, -1)'), (7, 'SELECT _close_sequence(''insta500.table_id_seq'', 0, 1073741824)'),
    (8, 'SELECT _close_sequence(''misused'', 0, 0)'), (9, 'SELECT _close_sequence(1::regclass, 0, 0)'), (10, 'SELECT _close_sequence(''narrow_500'', 0, 0)'),
    (11, 'SELECT _record_sequence_holder(NULL, 0, 0, 0)'), (12, 'SELECT _record_sequence_holder(''insta500.table_id_seq'', -1, 0, 0)'),
    (13, 'SELECT _record_sequence_holder(''misused'', 0, 0, 0)'), (14, 'SELECT _record_sequence_holder(''insta500.table_id_seq'', 0, 0, NULL)'),
    (15, 'SELECT _record_sequence_holder(''insta500.table_id_seq'', 0, 0, -1)'), (16, 'SELECT _record_sequence_holder(''insta500.table_id_seq'', 0, 0, 1125899906842625)')) AS v(n, statement), raises(statement) AS e ORDER BY n;
BEGIN READ ONLY;
SELECT * FROM raises('SELECT _close_sequence(''insta500.table_id_seq'', 0, 0)');
SELECT * FROM raises('SELECT _record_sequence_holder(''insta500.table_id_seq'', 0, 0, 0)');
COMMIT;
-- They need UPDATE on the sequence: otherwise a role with USAGE could close the sequence that others generate ids from.
GRANT USAGE ON SCHEMA insta500 TO regress_id_app;
GRANT USAGE ON SEQUENCE insta500.own TO regress_id_app;
SET ROLE regress_id_app;
SELECT * FROM raises('SELECT _close_sequence(''insta500.own'', 0, 0)');
SELECT * FROM raises('SELECT _record_sequence_holder(''insta500.own'', 0, 0, 0)');
RESET ROLE;
GRANT UPDATE ON SEQUENCE insta500.own TO regress_id_app;
SET ROLE regress_id_app;
SELECT c.next_value > 0 AS above FROM _close_sequence('insta500.own', 0, 0) AS c;
RESET ROLE;

-- A closed copy on which nextval() was called is not at the end of its ids.
SELECT (_close_sequence(sequence, 7, 1)).next_value > 0 AS closed, nextval(sequence) > 0 AS called FROM id_shards WHERE shard = 501;
SELECT reason FROM id_shards WHERE shard = 501;

DROP SCHEMA insta500, "Photos ""1""; 'x' \ --" CASCADE;
DROP TABLE misused, by_node, before, made, elsewhere_500 CASCADE;
DROP DOMAIN any_id;
DROP SEQUENCE start_500, nodes_500, epochs_500, mine_500, narrow_500;
DROP VIEW defaults, triggers;
DROP FUNCTION misuse, goes_on_above, value_of;
DROP ROLE regress_id_owner, regress_id_app;

-- A shard with the number of this node's group, 0, can generate the same ids: node_next_id() warns once a session.
CREATE SEQUENCE nodes_500;
SELECT create_shard(0);
\c -
SET client_min_messages = warning;
SELECT id_shard(node_next_id('nodes_500')) FROM generate_series(1, 2);
SELECT id_shard(node_next_id('nodes_500'));
DROP SCHEMA insta0 CASCADE;
\c -
SET client_min_messages = warning;
SELECT id_shard(node_next_id('nodes_500'));
DROP SEQUENCE nodes_500;

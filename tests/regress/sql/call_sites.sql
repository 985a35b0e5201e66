-- Ids generated in every place where an expression can stand: the rules of each place, no duplicates, and ids in order.
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
SET client_min_messages = warning;
\set SHOW_CONTEXT never
DROP ROLE IF EXISTS regress_id_app;
CREATE ROLE regress_id_app;
SELECT create_shard(5);
CREATE SCHEMA places;
GRANT USAGE ON SCHEMA places TO regress_id_app;
SET search_path = places, public;
CREATE FUNCTION raises(statement text, OUT state text, OUT message text, OUT detail text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    message := 'no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
END $$;
-- Collects all ids of the shard that this test generates, in the order of n. A duplicate is an error.
CREATE TABLE made (n int GENERATED ALWAYS AS IDENTITY, place text, id bigint UNIQUE);
-- The number of ids for each place, and whether they are of the shard and in order.
CREATE VIEW summary AS
SELECT place, count(*), bool_and(id_shard(id) = 5) AS of_shard, bool_and(id > previous) AS in_order
FROM (SELECT *, lag(id) OVER (ORDER BY n) AS previous FROM made) AS steps GROUP BY place ORDER BY min(n);

-- Parallel plans. The source is large enough for them, and their cost is set to zero.
CREATE TABLE source AS SELECT n FROM generate_series(1, 5000) AS n;
ANALYZE source;
CREATE FUNCTION plan_has(query text, what text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        IF strpos(line, what) > 0 THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END $$;
CREATE FUNCTION liar() RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS 'BEGIN RETURN insta5.next_id(); END';
CREATE FUNCTION sql_liar() RETURNS bigint LANGUAGE sql PARALLEL SAFE AS 'SELECT insta5.next_id()';
CREATE TABLE target (id bigint DEFAULT insta5.next_id(), n int);
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SELECT plan_has('SELECT count(*) FROM source WHERE n % 7 = 0', 'Gather') AS parallel_without,
    plan_has('SELECT count(*) FROM source WHERE insta5.next_id() > n', 'Gather') AS in_qual,
    plan_has('SELECT max(next_id(5)) FROM source', 'Gather') AS in_aggregate,
    plan_has('SELECT * FROM source WHERE n IN (SELECT next_id(5) FROM source)', 'Gather') AS in_subquery,
    plan_has('INSERT INTO target (n) SELECT n FROM source WHERE n % 7 = 0', 'Gather') AS insert_select;
INSERT INTO target (n) SELECT n FROM source WHERE n % 7 = 0;
INSERT INTO made (place, id) SELECT 'INSERT ... SELECT', id FROM target;
SELECT name AS force_parallel FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query') \gset
-- A function falsely marked PARALLEL SAFE fails in workers, and in the leader while there are any; others get no parallel plan.
SET :force_parallel = on;
SELECT * FROM raises('SELECT max(liar()) FROM source');
SELECT * FROM raises('SELECT liar()');
SELECT * FROM raises('SELECT next_id(5) WHERE liar() > 0');
SELECT * FROM raises('SELECT sql_liar()');
INSERT INTO made (place, id) SELECT 'beside workers', next_id(5) FROM generate_series(1, 3);
INSERT INTO made (place, id) SELECT 'beside workers', sql_liar();
INSERT INTO made (place, id) SELECT 'beside workers', liar();
RESET :force_parallel;
-- Without workers the leader can call it.
SET max_parallel_workers_per_gather = 0;
INSERT INTO made (place, id) SELECT 'a liar alone', liar() FROM generate_series(1, 3);
RESET max_parallel_workers_per_gather;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;

-- PostgreSQL refuses volatile expressions here. Functions that decode an id are immutable, and are accepted.
SELECT * FROM raises('CREATE TABLE g (n int, id bigint GENERATED ALWAYS AS (insta5.next_id()) STORED)');
SELECT * FROM raises('CREATE INDEX ON source ((insta5.next_id()))');
SELECT * FROM raises('CREATE INDEX ON source (n) WHERE insta5.next_id() > 0');
SELECT * FROM raises('CREATE TABLE p (n int) PARTITION BY RANGE ((insta5.next_id()))');
SELECT * FROM raises('CREATE TABLE x (n int, EXCLUDE (insta5.next_id() WITH =))');
CREATE TABLE g (id bigint PRIMARY KEY DEFAULT insta5.next_id(), at timestamptz GENERATED ALWAYS AS (id_time(id)) STORED,
    shard int GENERATED ALWAYS AS (id_shard(id)) STORED, own timestamptz GENERATED ALWAYS AS (insta5.id_time(id)) STORED, seq int GENERATED ALWAYS AS (id_seq(id)) STORED);
CREATE INDEX ON g (id_time(id), id_shard(id), id_seq(id));
INSERT INTO g SELECT FROM generate_series(1, 3);
SELECT count(*) FROM g WHERE at = id_time(id) AND own = at AND shard = 5 AND seq = id_seq(id);
INSERT INTO made (place, id) SELECT 'beside generated columns', id FROM g;

-- Statistics may use any expression, so ANALYZE generates an id for each row that it samples.
CREATE VIEW seq_now AS SELECT last_value FROM insta5.table_id_seq;
CREATE STATISTICS surprising ON (insta5.next_id() + n), n FROM source;
SELECT last_value AS before FROM seq_now \gset
ANALYZE source;
SELECT last_value > :before AS made_by_analyze FROM seq_now;
DROP STATISTICS surprising;

-- CHECK may use volatile expressions: an id is generated for each row checked, even if the row is rejected.
CREATE TABLE c (n int, CHECK (insta5.next_id() > n), id bigint DEFAULT insta5.next_id(), CHECK (id_shard(id) = 5));
INSERT INTO c SELECT n FROM generate_series(1, 3) AS n;
INSERT INTO made (place, id) SELECT 'CHECK', id FROM c;
SELECT * FROM raises('INSERT INTO c (n, id) VALUES (1, 6 << 10)');
UPDATE c SET n = n + 1;
CREATE DOMAIN photo_id AS bigint DEFAULT insta5.next_id() CHECK (id_shard(value) = 5);
CREATE TABLE d (id photo_id PRIMARY KEY, other photo_id NOT NULL);
INSERT INTO d SELECT FROM generate_series(1, 3);
INSERT INTO made (place, id) SELECT 'domain', unnest(ARRAY[id, other]) FROM d;
SELECT * FROM raises('INSERT INTO d VALUES (1, 1)');
-- A composite type's fields have no defaults, and the default of a domain is not used there.
CREATE TYPE pair AS (id photo_id, n int);
CREATE TABLE pairs (p pair DEFAULT ROW(insta5.next_id(), 1));
INSERT INTO pairs DEFAULT VALUES;
INSERT INTO pairs (p.n) VALUES (2);
INSERT INTO made (place, id) SELECT 'composite', (p).id FROM pairs WHERE (p).id IS NOT NULL;
SELECT (p).n, (p).id IS NULL AS without FROM pairs ORDER BY 1;

-- A rule inserts the expression in each place that refers to it: two places, two ids. A trigger sees the row with its id.
CREATE TABLE r (id bigint PRIMARY KEY DEFAULT insta5.next_id(), n int);
CREATE TABLE r_log (id bigint, n int);
CREATE RULE also AS ON INSERT TO r DO ALSO INSERT INTO r_log VALUES (NEW.id, NEW.n);
INSERT INTO r (n) VALUES (1), (2);
INSERT INTO r (n) VALUES (3) RETURNING id_shard(id);
SELECT count(*) AS logged, count(*) FILTER (WHERE r_log.id = r.id) AS same FROM r JOIN r_log USING (n);
INSERT INTO made (place, id) SELECT 'rule', id FROM (SELECT id FROM r UNION SELECT id FROM r_log ORDER BY id) AS ids;
CREATE TABLE t (id bigint PRIMARY KEY, n int);
CREATE TABLE t_log (id bigint, n int);
CREATE FUNCTION give_id() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.id := next_id(5); RETURN NEW; END';
CREATE FUNCTION log_id() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO t_log VALUES (NEW.id, NEW.n); RETURN NULL; END';
CREATE TRIGGER give BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION give_id();
CREATE TRIGGER log AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION log_id();
INSERT INTO t (n) SELECT generate_series(1, 5);
SELECT count(*) AS logged, count(*) FILTER (WHERE t_log.id = t.id) AS same FROM t JOIN t_log USING (n);
INSERT INTO made (place, id) SELECT 'trigger', id FROM t;

-- Privileges: the caller's, also in the shard's own function and in a trigger; with SECURITY DEFINER the owner's. A view's
-- owner is checked for the table only; functions and defaults need the privileges of the role that writes.
CREATE FUNCTION definer() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp RETURN insta5.next_id();
CREATE FUNCTION definer_trigger() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS 'BEGIN NEW.id := insta5.next_id(); RETURN NEW; END';
CREATE TABLE by_definer (id bigint PRIMARY KEY);
CREATE TRIGGER give BEFORE INSERT ON by_definer FOR EACH ROW EXECUTE FUNCTION definer_trigger();
CREATE VIEW an_id AS SELECT insta5.next_id() AS id;
CREATE VIEW over_target AS SELECT id, n FROM target;
ALTER VIEW over_target ALTER id SET DEFAULT next_id(5);
GRANT USAGE ON SCHEMA insta5 TO regress_id_app;
GRANT ALL ON t, target, by_definer, over_target, an_id, made TO regress_id_app;
SET ROLE regress_id_app;
SELECT state FROM unnest(ARRAY['SELECT insta5.next_id()', 'INSERT INTO t VALUES (1, 100)', 'INSERT INTO target (n) VALUES (1)', 'SELECT * FROM an_id',
    'INSERT INTO over_target (n) VALUES (1)', 'SELECT next_id(5)', 'SELECT definer()', 'INSERT INTO by_definer VALUES (1)']) AS s, raises(s);
INSERT INTO made (place, id) SELECT 'SECURITY DEFINER', id FROM by_definer;
INSERT INTO made (place, id) SELECT 'SECURITY DEFINER', definer() FROM generate_series(1, 3);
RESET ROLE;
INSERT INTO over_target (n) SELECT generate_series(1, 3);
INSERT INTO made (place, id) SELECT 'view with a default', id FROM target ORDER BY id DESC LIMIT 1;
-- A SECURITY DEFINER function switches to another role and back within one statement.
GRANT USAGE ON SEQUENCE insta5.table_id_seq TO regress_id_app;
ALTER FUNCTION definer() OWNER TO regress_id_app;
INSERT INTO made (place, id) SELECT 'two roles in turn', unnest(ARRAY[definer(), next_id(5)]) FROM generate_series(1, 3);
REVOKE USAGE ON SEQUENCE insta5.table_id_seq FROM regress_id_app;
SELECT * FROM raises('SELECT next_id(5), definer()');

-- Functions of every volatility that call next_id(). Only VOLATILE is correct.
CREATE FUNCTION sql_volatile() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT insta5.next_id()';
CREATE FUNCTION sql_stable() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT insta5.next_id()';
CREATE FUNCTION sql_immutable() RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT insta5.next_id()';
CREATE FUNCTION pl_volatile() RETURNS bigint LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN insta5.next_id(); END';
CREATE FUNCTION pl_stable() RETURNS bigint LANGUAGE plpgsql STABLE AS 'BEGIN RETURN insta5.next_id(); END';
CREATE FUNCTION pl_immutable() RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN insta5.next_id(); END';
CREATE FUNCTION distinct_of(call text, OUT in_statement bigint, OUT of_executions bigint) LANGUAGE plpgsql AS $$
DECLARE
    ids bigint[];
    id bigint;
BEGIN
    EXECUTE format('SELECT count(DISTINCT %s) FROM generate_series(1, 10)', call) INTO in_statement;
    EXECUTE format('PREPARE made_once AS SELECT %s', call);
    FOR i IN 1..10 LOOP
        EXECUTE 'EXECUTE made_once' INTO id;
        ids := ids || id;
    END LOOP;
    DEALLOCATE made_once;
    of_executions := (SELECT count(DISTINCT u) FROM unnest(ids) AS u);
END $$;
-- Ten calls of each: a falsely IMMUTABLE function is evaluated once for a prepared statement, and repeats that id as declared.
SELECT call, in_statement, of_executions FROM unnest(ARRAY['next_id(5)', 'insta5.next_id()', 'sql_volatile()', 'pl_volatile()', 'sql_stable()', 'pl_stable()',
    'sql_immutable()', 'pl_immutable()']) AS call, distinct_of(call);
-- A falsely STABLE function is evaluated once for an index scan.
CREATE INDEX ON target (id);
SET enable_seqscan = off;
SELECT plan_has('SELECT * FROM target WHERE id = pl_stable()', 'Index') AS asked_once;
RESET enable_seqscan;

-- Forms of queries: one id for each evaluation of the expression, and no more.
INSERT INTO made (place, id) WITH m AS MATERIALIZED (SELECT n, next_id(5) AS id FROM generate_series(1, 10) AS n) SELECT 'CTE', id FROM m ORDER BY n;
WITH m AS (SELECT next_id(5) AS id FROM generate_series(1, 10)) SELECT count(*), count(DISTINCT a.id) AS distinct FROM m AS a JOIN m AS b USING (id);
WITH m AS NOT MATERIALIZED (SELECT next_id(5) AS id) SELECT a.id = b.id AS same FROM m AS a, m AS b;
INSERT INTO made (place, id) SELECT 'LATERAL', id FROM generate_series(1, 10) AS n, LATERAL (SELECT next_id(5) + 0 * n AS id) AS l;
SELECT count(DISTINCT id) AS once_for_all FROM generate_series(1, 10) AS n, LATERAL (SELECT next_id(5) AS id) AS l;
SELECT count(DISTINCT id) AS once_as_a_subquery FROM (SELECT (SELECT next_id(5)) AS id FROM generate_series(1, 10)) AS s;
INSERT INTO made (place, id) SELECT DISTINCT 'DISTINCT', next_id(5) FROM generate_series(1, 10) ORDER BY 2;
-- LIMIT and ORDER BY: evaluated only for the rows that are returned, unless it is a sort key.
INSERT INTO made (place, id) SELECT 'LIMIT', next_id(5) FROM generate_series(1, 1000) LIMIT 5;
INSERT INTO made (place, id) SELECT 'ORDER BY', next_id(5) FROM generate_series(1, 100) AS n ORDER BY -n LIMIT 5;
INSERT INTO made (place, id) SELECT 'window', max(next_id(5)) OVER (ORDER BY n ROWS BETWEEN CURRENT ROW AND CURRENT ROW) FROM generate_series(1, 10) AS n;
INSERT INTO made (place, id) SELECT 'aggregate', unnest(array_agg(next_id(5) ORDER BY n)) FROM generate_series(1, 10) AS n;
INSERT INTO made (place, id) SELECT 'GROUP BY', max(next_id(5)) FROM generate_series(1, 10) AS n GROUP BY n % 3 ORDER BY 2;
SELECT count(CASE WHEN n > 10 THEN next_id(5) END) AS not_asked, count(coalesce(n, next_id(5))) AS not_needed FROM generate_series(1, 10) AS n;
INSERT INTO made (place, id) SELECT 'VALUES', id FROM (VALUES (next_id(5)), (insta5.next_id()), (next_id(5, 'insta5.table_id_seq'))) AS v(id);
INSERT INTO made (place, id) SELECT 'FROM', id FROM next_id(5) AS id UNION ALL SELECT 'FROM', id FROM next_ids(5, 5) AS id UNION ALL SELECT 'FROM', id FROM ROWS FROM (insta5.next_id()) AS r(id);
CREATE MATERIALIZED VIEW mat AS SELECT n, next_id(5) AS id FROM generate_series(1, 10) AS n;
INSERT INTO made (place, id) SELECT 'materialized view', id FROM mat ORDER BY n;
REFRESH MATERIALIZED VIEW mat;
INSERT INTO made (place, id) SELECT 'materialized view', id FROM mat ORDER BY n;
CREATE TABLE as_select AS SELECT n, next_id(5) AS id FROM generate_series(1, 10) AS n;
INSERT INTO made (place, id) SELECT 'CREATE TABLE AS', id FROM as_select ORDER BY n;

-- Statements that write. An unneeded default generates no id; the id of a row that is not inserted after all is skipped.
CREATE TABLE w (id bigint PRIMARY KEY DEFAULT insta5.next_id(), n int UNIQUE, serial int GENERATED ALWAYS AS IDENTITY);
WITH new AS (INSERT INTO w (n) SELECT generate_series(1, 5) RETURNING id) INSERT INTO made (place, id) SELECT 'RETURNING', id FROM new;
SELECT last_value AS before FROM seq_now \gset
INSERT INTO w (id, n) VALUES (1, 6);
SELECT last_value = :before AS none_made FROM seq_now;
INSERT INTO w (n) VALUES (1), (7) ON CONFLICT (n) DO NOTHING;
SELECT id AS kept FROM w WHERE n = 2 \gset
INSERT INTO w (n) VALUES (2), (8) ON CONFLICT (n) DO UPDATE SET n = excluded.n;
SELECT id = :kept AS kept FROM w WHERE n = 2;
INSERT INTO w (n) VALUES (2) ON CONFLICT (n) DO UPDATE SET id = excluded.id RETURNING id > :kept AS taken_over;
INSERT INTO w (n) VALUES (2) ON CONFLICT (n) DO UPDATE SET id = DEFAULT RETURNING id > :kept AS made_again;
UPDATE w SET id = DEFAULT WHERE n IN (3, 4);
MERGE INTO w USING generate_series(4, 12) AS s(n) ON w.n = s.n WHEN MATCHED THEN UPDATE SET id = DEFAULT WHEN NOT MATCHED AND s.n > 10 THEN INSERT (n) VALUES (s.n);
COPY w (n) FROM stdin;
20
21
22
\.
COPY (SELECT next_id(5) > 0 FROM generate_series(1, 2)) TO stdout;
ALTER TABLE source ADD id bigint NOT NULL DEFAULT insta5.next_id();
INSERT INTO made (place, id) SELECT 'ADD COLUMN', id FROM source ORDER BY n;
INSERT INTO w (n) VALUES (DEFAULT), (31);
SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE id_shard(id) = 5) AS of_shard FROM w;
INSERT INTO made (place, id) SELECT 'ways to write', id FROM w WHERE id_shard(id) = 5 AND id > (SELECT max(id) FROM made) ORDER BY id;
-- ON DELETE SET DEFAULT gives each row an id of its own, which references no row: an error at once, or at commit if deferred.
CREATE TABLE parent (id bigint PRIMARY KEY);
CREATE TABLE child (n int, parent bigint DEFAULT insta5.next_id() REFERENCES parent ON DELETE SET DEFAULT DEFERRABLE);
INSERT INTO parent VALUES (1);
INSERT INTO child VALUES (1, 1), (2, 1);
SELECT state FROM raises('DELETE FROM parent');
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
DELETE FROM parent;
INSERT INTO parent SELECT parent FROM child;
COMMIT;
INSERT INTO made (place, id) SELECT 'ON DELETE SET DEFAULT', parent FROM child ORDER BY n;

-- Tables: partitioned by the id, with a default partition; attached; inherited; temporary; unlogged.
CREATE TABLE part (id bigint DEFAULT insta5.next_id(), n int) PARTITION BY RANGE (id);
CREATE TABLE part_past PARTITION OF part FOR VALUES FROM (MINVALUE) TO (0);
CREATE TABLE part_rest PARTITION OF part DEFAULT;
CREATE TABLE part_now (LIKE part INCLUDING DEFAULTS);
DO $$ BEGIN EXECUTE format('ALTER TABLE part ATTACH PARTITION part_now FOR VALUES FROM (%s) TO (%s)', id_floor(now() - interval '1 hour'), id_floor(now() + interval '1 hour')); END $$;
INSERT INTO part (n) SELECT generate_series(1, 5);
INSERT INTO part_now (n) SELECT generate_series(6, 10);
INSERT INTO part VALUES (id_floor(now() - interval '1 day'), 0), (-5, 0);
SELECT tableoid::regclass AS partition, count(*) FROM part GROUP BY 1 ORDER BY 1;
INSERT INTO made (place, id) SELECT 'partitions', id FROM part_now ORDER BY n;
SELECT plan_has(format('SELECT * FROM part WHERE id_between(id, %L, %L)', now(), now() + interval '1 minute'), 'part_past') AS past_is_looked_at;
CREATE TABLE by_shard (id bigint DEFAULT insta5.next_id()) PARTITION BY LIST (id_shard(id));
CREATE TABLE by_shard_5 PARTITION OF by_shard FOR VALUES IN (5);
CREATE TABLE by_shard_other PARTITION OF by_shard DEFAULT;
INSERT INTO by_shard SELECT FROM generate_series(1, 5);
INSERT INTO made (place, id) SELECT 'partitions by shard', id FROM by_shard_5;
CREATE TABLE heir (own int) INHERITS (target);
INSERT INTO heir (n) SELECT generate_series(1, 3);
INSERT INTO made (place, id) SELECT 'inherited', id FROM heir ORDER BY n;
CREATE TEMP TABLE passing (id bigint DEFAULT insta5.next_id(), n int);
CREATE UNLOGGED TABLE light (id bigint DEFAULT next_id(5), n int);
INSERT INTO passing (n) SELECT generate_series(1, 3);
INSERT INTO light (n) SELECT generate_series(1, 3);
INSERT INTO made (place, id) SELECT 'temporary and unlogged', id FROM (SELECT id FROM passing UNION ALL SELECT id FROM light) AS ids;

-- Transactions. In a read-only one ids can be generated only from a temporary sequence, as with nextval.
CREATE TEMP SEQUENCE own;
BEGIN READ ONLY;
SELECT id_shard(next_id(6, 'own'));
SELECT * FROM raises('SELECT next_id(5)');
SELECT id_shard(next_id(6, 'own'));
ROLLBACK;
BEGIN;
INSERT INTO made (place, id) VALUES ('before READ ONLY', next_id(5));
SET TRANSACTION READ ONLY;
SELECT * FROM raises('SELECT next_id(5)');
SELECT state FROM raises('SET TRANSACTION READ WRITE');
COMMIT;
-- Snapshots do not matter: in every isolation level each id is new, and so is the sequence's row that is read.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM made WHERE place = 'no such place';
INSERT INTO made (place, id) SELECT 'REPEATABLE READ', next_id(5) FROM generate_series(1, 3);
INSERT INTO made (place, id) SELECT 'REPEATABLE READ', next_id(5) FROM generate_series(1, 3);
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO made (place, id) SELECT 'SERIALIZABLE', next_id(5) FROM generate_series(1, 3);
SAVEPOINT s;
INSERT INTO made (place, id) SELECT 'rolled back', next_id(5) FROM generate_series(1, 3);
ROLLBACK TO s;
INSERT INTO made (place, id) SELECT 'SERIALIZABLE', next_id(5) FROM generate_series(1, 3);
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SELECT state FROM raises('SELECT next_id(5)');
ROLLBACK;
-- A procedure that commits in a loop, a DO block, a tight loop, and a loop with an exception in each iteration.
CREATE PROCEDURE goes_on() LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..5 LOOP
        INSERT INTO made (place, id) VALUES ('procedure', insta5.next_id());
        IF i % 2 = 0 THEN
            ROLLBACK;
        ELSE
            COMMIT;
        END IF;
        INSERT INTO made (place, id) VALUES ('procedure', next_id(5));
        COMMIT;
    END LOOP;
END $$;
CALL goes_on();
DO $$
DECLARE
    id bigint;
    last bigint := 0;
BEGIN
    FOR i IN 1..20000 LOOP
        id := insta5.next_id();
        ASSERT id > last;
        last := id;
    END LOOP;
    FOR i IN 1..50 LOOP
        BEGIN
            id := next_id(5);
            ASSERT id > last;
            last := id;
            RAISE division_by_zero;
        EXCEPTION WHEN division_by_zero THEN
            ASSERT next_id(5) > last;
        END;
    END LOOP;
    INSERT INTO made (place, id) VALUES ('loops', next_id(5));
END $$;
-- A cursor generates ids as it is read; WITH HOLD generates the rest at commit; with SCROLL it keeps the ids that it has read.
BEGIN;
DECLARE slow CURSOR FOR SELECT next_id(5) AS id FROM generate_series(1, 5);
DECLARE held SCROLL CURSOR WITH HOLD FOR SELECT id_shard(id) AS shard, id > lag(id) OVER (ORDER BY n) AS in_order FROM (SELECT n, next_id(5) AS id FROM generate_series(1, 4) AS n) AS ids;
FETCH 1 FROM held;
SELECT last_value AS before FROM seq_now \gset
MOVE 2 FROM slow;
SELECT last_value > :before AS made_by_reading FROM seq_now;
COMMIT;
SELECT last_value AS before FROM seq_now \gset
FETCH ALL FROM held;
MOVE BACKWARD ALL FROM held;
FETCH 2 FROM held;
SELECT last_value = :before AS none_made FROM seq_now;
CLOSE held;
PREPARE one AS INSERT INTO made (place, id) VALUES ('prepared', insta5.next_id());
SET plan_cache_mode = force_generic_plan;
EXECUTE one; EXECUTE one; EXECUTE one;
RESET plan_cache_mode;
EXECUTE one;
DEALLOCATE one;
-- Two-phase commit, if it is enabled.
SELECT current_setting('max_prepared_transactions')::int > 0 AS two_phase \gset
BEGIN;
INSERT INTO made (place, id) VALUES ('before PREPARE TRANSACTION', next_id(5));
\if :two_phase
PREPARE TRANSACTION 'regress_id_places';
INSERT INTO made (place, id) VALUES ('while it is prepared', next_id(5));
COMMIT PREPARED 'regress_id_places';
\else
INSERT INTO made (place, id) VALUES ('while it is prepared', next_id(5));
COMMIT;
\endif

-- The result of all places.
SELECT * FROM summary;

DROP SCHEMA insta5, places CASCADE;
DROP ROLE regress_id_app;

-- Ids for rows with past times: backfill_id(time, shard [, epoch]) OVER (ORDER BY time).
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude

-- Rows with times: a few in each second, and as many in one millisecond as there are ids, of each of four shards.
CREATE TABLE rows_of_old (n bigserial, time timestamptz, shard int);
INSERT INTO rows_of_old (time, shard)
SELECT timestamptz '2020-02-03 04:05:06.007+00' + g * interval '333.25 ms', 5 + g % 4 FROM generate_series(1, 4000) AS g;
INSERT INTO rows_of_old (time, shard) SELECT '2020-02-03 04:10:00.123+00', 5 + g % 4 FROM generate_series(1, 4096) AS g;
-- The sequence numbers in each millisecond, for so many rows in it.
CREATE FUNCTION seqs(counts int[]) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(first || CASE WHEN last > first THEN '-' || last ELSE '' END, ' ' ORDER BY ms) FROM (
        SELECT ms, min(id_seq(id)) AS first, max(id_seq(id)) AS last FROM (
            SELECT ms, backfill_id('2020-01-01+00'::timestamptz + ms * interval '1 ms', 5) OVER (ORDER BY ms) AS id
            FROM unnest(counts) WITH ORDINALITY AS c(count, ms), generate_series(1, count)) AS ids GROUP BY ms) AS of_ms
$$;
-- The rows and the two upper nodes of a plan that was run.
CREATE FUNCTION explains(statement text, OUT rows int, OUT nodes text) LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || statement INTO plan;
    plan := plan->0->'Plan';
    rows := round((plan->>'Actual Rows')::numeric);
    nodes := concat_ws(' of ', plan->>'Node Type', plan->'Plans'->0->>'Node Type');
END $$;
\set ECHO all

CREATE TABLE posts (id bigint PRIMARY KEY, n bigint);
INSERT INTO posts SELECT backfill_id(time, shard) OVER (ORDER BY time, n), n FROM rows_of_old;
SELECT count(*), bool_and(id_time(id) = date_trunc('milliseconds', time)) AS times, bool_and(id_shard(id) = shard) AS shards
FROM posts JOIN rows_of_old USING (n);
SELECT id_shard(id) AS shard, count(*), min(id_seq(id)), max(id_seq(id)) FROM posts WHERE id_time(id) = '2020-02-03 04:10:00.123+00' GROUP BY 1 ORDER BY 1;
-- The ids have the order of the window.
SELECT count(*) FILTER (WHERE id <= before) AS out_of_order
FROM (SELECT id, lag(id) OVER (PARTITION BY shard ORDER BY time, n) AS before FROM posts JOIN rows_of_old USING (n)) AS pairs;
-- The same statement again generates the same ids.
SELECT state FROM raises('INSERT INTO posts SELECT backfill_id(time, shard) OVER (ORDER BY time, n), n FROM rows_of_old');
INSERT INTO posts SELECT backfill_id(time, shard) OVER (ORDER BY time, n), n FROM rows_of_old ON CONFLICT DO NOTHING;
SELECT count(*), count(DISTINCT n) FROM posts;

-- With less than one row per millisecond the sequence field counts on: each bucket of id % 16 gets its share.
SELECT count(*) AS buckets, min(count), max(count)
FROM (SELECT id % 16, count(*) FROM (SELECT backfill_id('2020-01-01+00'::timestamptz + g * interval '1 hour', 5) OVER (ORDER BY g) AS id
      FROM generate_series(1, 1600) AS g) AS ids GROUP BY 1) AS buckets;
-- It starts low enough for the last row of the millisecond, and counts on after that.
SELECT seqs('{1,1,3,1000,1,20,20,1}'), seqs('{1024,1024,1}'), seqs('{1000,24,1}'), seqs('{1000,25,1}'), seqs('{1,1024,1}'), seqs('{1,1023,1,1}');
-- A millisecond has ids for 1,024 rows of a shard, but not for 1,025.
SELECT raises(format('SELECT seqs(''{%s}'')', counts)) FROM unnest('{1025,"1,1025","1024,1025,1",1000000}'::text[]) AS counts;
SELECT count(DISTINCT id) FROM (SELECT backfill_id('2020-01-01+00', g % 8) OVER () AS id FROM generate_series(1, 8192) AS g) AS ids;
SELECT raises($$SELECT max(id) FROM (SELECT backfill_id('2020-01-01+00', CASE g WHEN 8192 THEN 1 ELSE g % 8 END) OVER () AS id FROM generate_series(1, 8192) AS g) AS ids$$);
-- Fractions of a millisecond matter only for the order.
SELECT id_seq(backfill_id(time, 5) OVER (ORDER BY time)), time
FROM (VALUES (timestamptz '2020-01-01 00:00:00.001999+00'), ('2020-01-01 00:00:00.001+00'), ('2020-01-01 00:00:00.0015+00')) AS v(time) ORDER BY time;

-- NULLs, and no rows at all.
SELECT time, shard, epoch, backfill_id(time, shard, epoch) OVER (ORDER BY time, shard), backfill_id(time, shard) OVER (ORDER BY time, shard)
FROM (VALUES (timestamptz '2020-01-01+00', 5, timestamptz '2011-01-01+00'), ('2020-01-01+00', NULL, '2011-01-01+00'), (NULL, 5, '2011-01-01+00'),
    (NULL, NULL, NULL), ('2020-01-02+00', 5, NULL), ('2020-01-02+00', 5, '2011-01-01+00')) AS v(time, shard, epoch) ORDER BY time, shard, epoch;
SELECT backfill_id(time, 5) OVER (ORDER BY time) FROM rows_of_old WHERE false;
-- A row without a shard uses no id, and does not divide the millisecond of the others.
SELECT count(id), count(DISTINCT id) FROM (SELECT backfill_id('2020-01-01+00', CASE WHEN g % 2 = 0 THEN 5 END) OVER () AS id FROM generate_series(1, 2048) AS g) AS ids;

-- Times out of order, of the same shard and of different ones.
SELECT raises($$SELECT backfill_id(time, 5) OVER (ORDER BY time DESC) FROM rows_of_old$$);
SELECT raises($$SELECT backfill_id(time, 5) OVER () FROM (VALUES (timestamptz '2020-01-01 00:00:00.002+00'), ('2020-01-01 00:00:00.001+00')) AS v(time)$$);
SELECT count(DISTINCT backfill) FROM (SELECT backfill_id(time, shard) OVER (ORDER BY shard, time) AS backfill FROM rows_of_old) AS ids;
SELECT count(DISTINCT backfill) FROM (SELECT backfill_id(time, shard) OVER (PARTITION BY shard ORDER BY time) AS backfill FROM rows_of_old) AS ids;
-- Window partitions do not cause duplicates: they share the ids of a millisecond, and it is an error if times go back.
SELECT part, id_seq(backfill_id('2020-01-01+00', 5) OVER (PARTITION BY part)) FROM unnest('{1,1,2,2,2,3}'::int[]) AS part ORDER BY 1, 2;
SELECT raises($$SELECT backfill_id(time, 5) OVER (PARTITION BY n % 2 ORDER BY time) FROM rows_of_old WHERE n <= 4000$$);
SELECT raises($$SELECT backfill_id('2020-01-01+00', 5) OVER (PARTITION BY g / 1024) FROM generate_series(0, 1024) AS g$$);

-- Epochs of their own, of one shard and of several, also of those that do not begin at a full millisecond.
SELECT id, id_time(id, epoch) = time AS same, id_shard(id), id_seq(id)
FROM (SELECT *, backfill_id(time, shard, epoch) OVER (ORDER BY time, shard) AS id
      FROM (VALUES (timestamptz '2020-01-01+00', 5, timestamptz '2011-01-01+00'), ('2020-01-01+00', 6, '2015-01-01+00'),
          ('2020-01-02+00', 5, '2011-01-01+00'), ('2020-01-02+00', 6, '2015-01-01+00'), ('2020-01-02+00', 7, '1970-01-01+00'),
          ('2020-01-03+00', 8, '2020-01-03 00:00:00+00')) AS v(time, shard, epoch)) AS ids ORDER BY time, shard;
SELECT count(DISTINCT id) FROM (
    SELECT backfill_id('2020-01-01+00'::timestamptz + ms * interval '1 ms', shard, CASE shard WHEN 5 THEN timestamptz '2011-01-01+00' ELSE '2015-01-01+00' END) OVER (ORDER BY ms, n) AS id
    FROM generate_series(1, 1000) AS ms, generate_series(1, 5) AS n, generate_series(5, 6) AS shard) AS ids;
SELECT raises($$SELECT backfill_id(time, 5, epoch) OVER (ORDER BY time) FROM (VALUES (timestamptz '2020-01-01+00', timestamptz '2011-01-01+00'), ('2020-01-02+00', '2015-01-01+00')) AS v(time, epoch)$$);

-- Rows at random, some without a shard, in few milliseconds, of shards with different epochs.
CREATE TABLE drawn AS SELECT n, '2020-01-01+00'::timestamptz + trunc(random() * 20000) * interval '1 us' AS time, nullif(n % 5, 0) AS shard FROM generate_series(1, 30000) AS n;
SELECT count(id) = count(shard) AS each_with_a_shard, count(DISTINCT id) = count(id) AS unique, count(DISTINCT id_seq(id)) AS fields,
    bool_and(id_shard(id) = shard) AS shards, bool_and(time - id_time(id, epoch) BETWEEN '0' AND '999 us') AS times, bool_or(id <= before) AS out_of_order
FROM (SELECT *, lag(id) OVER (PARTITION BY shard ORDER BY time, n) AS before FROM (
    SELECT *, backfill_id(time, shard, epoch) OVER (ORDER BY time, n) AS id
    FROM (SELECT *, '2019-01-01+00'::timestamptz + coalesce(shard, 0) * interval '3 ms' AS epoch FROM drawn) AS with_epochs) AS ids) AS pairs;

-- Times and shards outside the range of ids.
SELECT raises(format('SELECT backfill_id(%s) OVER ()', arguments)) FROM unnest(ARRAY[
    $$'2011-08-24 21:07:01.720999+00', 5$$, $$'2081-04-30 12:54:37.273+00', 5$$, $$'infinity', 5$$, $$'-infinity', 5$$, $$'2019-12-31 23:59:59.999+00', 5, '2020-01-01+00'$$,
    $$'2020-01-01+00', 5, 'infinity'$$, $$'2020-01-01+00', -1$$, $$'2020-01-01+00', 8192$$]) AS arguments;
-- From 2046-06-27 on ids are negative, as with make_id().
SELECT backfill_id('2011-08-24 21:07:01.721+00', 0) OVER () AS first, backfill_id('2046-06-27 17:00:49.496999+00', 8191) OVER () AS last_positive,
    backfill_id('2046-06-27 17:00:49.497+00', 0) OVER () AS first_negative, backfill_id('2081-04-30 12:54:37.272999+00', 8191) OVER () AS last;
SELECT raises('SELECT backfill_id(now(), 5)');
-- The parser requires an OVER clause, but a function can also be called by an operator.
CREATE OPERATOR @@@ (LEFTARG = timestamptz, RIGHTARG = int, FUNCTION = backfill_id);
SELECT raises($$SELECT timestamptz '2020-01-01+00' @@@ 5$$);

-- A time in whole seconds has ids for 1,024,000 rows of a shard: 1,024 in each millisecond.
CREATE TABLE whole_seconds AS SELECT n, timestamptz '2020-01-01+00' + n / 5000 * interval '1 s' AS time FROM generate_series(0, 14999) AS n;
SELECT count(DISTINCT id), bool_and(date_trunc('second', id_time(id)) = time) AS same_second, max(id_time(id) - time), bool_and(before IS NULL OR before < id) AS in_order
FROM (SELECT time, id, lag(id) OVER (ORDER BY n) AS before FROM (
    SELECT n, time, backfill_id(time + nth / 1024 * interval '1 ms', 5) OVER (ORDER BY time, n) AS id
    FROM (SELECT n, time, row_number() OVER (PARTITION BY time ORDER BY n) - 1 AS nth FROM whole_seconds) AS numbered) AS ids) AS pairs;

-- Window frames: the function reads its partition in the window's order, whatever the frame.
SELECT count(*), bool_and(id = ALL (ARRAY[a, b, c, d, e])) AS same FROM (
    SELECT n, backfill_id(time, shard) OVER w AS a, backfill_id(time, shard) OVER (w ROWS BETWEEN 3 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW) AS b,
        backfill_id(time, shard) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS c,
        backfill_id(time, shard) OVER (w GROUPS BETWEEN 1 FOLLOWING AND 2 FOLLOWING EXCLUDE TIES) AS d,
        backfill_id(shard => shard, "time" => time) OVER (w RANGE BETWEEN CURRENT ROW AND CURRENT ROW EXCLUDE GROUP) AS e
    FROM rows_of_old WINDOW w AS (ORDER BY time, n)) AS all_frames JOIN posts USING (n);
-- Two equal calls are evaluated once, a different call counts separately, and other windows do not affect it.
SELECT count(*) FILTER (WHERE a = b) AS same, count(*) FILTER (WHERE c = a) AS same_shard, count(DISTINCT c), bool_and(place BETWEEN 1 AND 8096) AS places, bool_and(before IS NULL OR before < time) AS before FROM (
    SELECT time, shard, backfill_id(time, shard) OVER w AS a, backfill_id(time, shard) OVER w AS b, backfill_id(time, 7) OVER (PARTITION BY n > 4000 ORDER BY time) AS c,
        row_number() OVER (ORDER BY n DESC) AS place, lag(time) OVER (PARTITION BY shard, time > '2020-02-03 05:00+00' ORDER BY time) AS before
    FROM rows_of_old WHERE n <= 4000 WINDOW w AS (ORDER BY time, n)) AS calls;
-- A condition on the id is applied after all rows are numbered; so is a run condition of another window function.
SELECT count(*), bool_and(id = own) AS same FROM (SELECT n, backfill_id(time, shard) OVER (ORDER BY time, n) AS own FROM rows_of_old) AS ids JOIN posts USING (n)
WHERE own < make_id('2020-02-03 04:06+00', 0, 0) AND own > 5;
SELECT count(*), bool_and(id = own) AS same FROM (SELECT n, backfill_id(time, shard) OVER (ORDER BY time, n) AS own, row_number() OVER (ORDER BY time, n) AS place FROM rows_of_old) AS ids
JOIN posts USING (n) WHERE place <= 3000;
SELECT count(*), count(DISTINCT own) FROM (SELECT backfill_id(time, shard) OVER w AS own, row_number() OVER w AS place FROM rows_of_old WINDOW w AS (PARTITION BY shard ORDER BY time, n)) AS ids
WHERE place <= 3;
SELECT count(*) FROM (SELECT backfill_id(time, shard) OVER (ORDER BY time, n) FROM rows_of_old LIMIT 900) AS first;
-- If the window is run again for each row of another table, it continues as it does between window partitions.
SELECT outer_n, id_seq(id) FROM generate_series(1, 2) AS outer_n, LATERAL (SELECT backfill_id('2020-01-01+00', 5 + outer_n * 0) OVER () AS id FROM generate_series(1, 2)) AS ids;
-- Also for equal keys, for which PostgreSQL must not repeat the rows of the first run.
SELECT count(DISTINCT id) FROM generate_series(1, 2) AS n, LATERAL (VALUES (5)) AS key(shard), LATERAL (SELECT backfill_id('2020-01-01+00', shard + n * 0) OVER () AS id FROM generate_series(1, 2)) AS ids;
SELECT count(*), count(DISTINCT id) FROM (VALUES (5), (5), (5)) AS key(shard), LATERAL (SELECT backfill_id('2020-01-01+00', key.shard) OVER () AS id FROM generate_series(1, 2)) AS ids;
SELECT raises($$SELECT id FROM generate_series(1, 2) AS o, LATERAL (SELECT backfill_id(time, 5 + o * 0) OVER (ORDER BY time) AS id FROM rows_of_old WHERE n < 10) AS ids$$);

-- Cursors: forward, back, from the start again, held.
BEGIN;
DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT id_seq(backfill_id(time, 5) OVER (ORDER BY time)) FROM generate_series(timestamptz '2020-01-01+00', '2020-01-02+00', '1 hour') AS time;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
FETCH FIRST FROM c;
MOVE ALL FROM c;
FETCH PRIOR FROM c;
COMMIT;
FETCH ABSOLUTE 3 FROM c;
CLOSE c;
-- Prepared statements with custom and generic plans; an error that is caught, and the same statement after it.
PREPARE p(int) AS SELECT backfill_id('2020-01-01+00', $1) OVER ();
SET plan_cache_mode = force_generic_plan;
EXECUTE p(5);
EXECUTE p(5);
EXECUTE p(9999);
EXECUTE p(5);
RESET plan_cache_mode;
DO $$
DECLARE
    id bigint;
    failed int = 0;
BEGIN
    FOR n IN 1..100 LOOP
        BEGIN
            SELECT max(i) INTO id FROM (SELECT backfill_id('2020-01-01+00', CASE WHEN g = n AND n % 3 > 0 THEN g * 8192 ELSE 5 END) OVER () AS i FROM generate_series(1, 1000 + n / 3) AS g) AS ids;
        EXCEPTION WHEN OTHERS THEN
            failed = failed + 1;
        END;
    END LOOP;
    RAISE NOTICE '% failed, the last was %', failed, id_parts(id);
END $$;
-- EXPLAIN ANALYZE. The plan below the WindowAgg node may be parallel, the node itself not.
SELECT explains('SELECT backfill_id(time, shard) OVER (ORDER BY time) FROM rows_of_old');
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
SELECT explains('SELECT backfill_id(time, shard) OVER (ORDER BY time) FROM rows_of_old WHERE n % 2 = 0');
SELECT count(DISTINCT id) FROM (SELECT backfill_id(time, shard) OVER (ORDER BY time) AS id FROM rows_of_old WHERE n % 2 = 0) AS ids;
RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size;
DROP TABLE rows_of_old, posts, whole_seconds, drawn;
DROP OPERATOR @@@ (timestamptz, int);
DROP FUNCTION seqs, explains;

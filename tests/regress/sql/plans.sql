-- Plans of queries that call the functions.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
\set ECHO all

SELECT create_shard(5);
CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), title text);

-- The shard's next_id() is inlined in a default, so a row costs no SQL function call.
EXPLAIN (VERBOSE, COSTS off) INSERT INTO insta5.photos (title) VALUES ('hello');
EXPLAIN (VERBOSE, COSTS off) INSERT INTO insta5.photos (title) SELECT 'hello' FROM generate_series(1, 3);

-- id_between() becomes an index condition: with constants folded, with now() evaluated at execution, with an epoch.
INSERT INTO insta5.photos SELECT make_id(timestamptz '2026-01-01+00' + n * interval '1 minute', 5, n % 1024) FROM generate_series(1, 20000) AS n;
ANALYZE insta5.photos;
SET enable_bitmapscan = off;
EXPLAIN (COSTS off) SELECT * FROM insta5.photos WHERE id_between(id, '2026-01-02+00', '2026-01-02 01:00+00');
EXPLAIN (COSTS off) SELECT * FROM insta5.photos WHERE id_between(id, now() - interval '1 hour', now());
EXPLAIN (COSTS off) SELECT * FROM insta5.photos WHERE id_between(id, '2014-07-01+00', '2014-07-02+00', '2000-01-01+00');
SELECT count(*) FROM insta5.photos WHERE id_between(id, '2026-01-02+00', '2026-01-02 01:00+00');
PREPARE hour(timestamptz) AS SELECT count(*) FROM insta5.photos WHERE id_between(id, $1, $1 + interval '1 hour');
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS off) EXECUTE hour('2026-01-02+00');
EXECUTE hour('2026-01-02+00');
RESET plan_cache_mode;
RESET enable_bitmapscan;

-- A query that generates ids cannot run in parallel; one that decodes ids can.
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
EXPLAIN (COSTS off) SELECT count(next_id(5)) FROM insta5.photos;
EXPLAIN (COSTS off) SELECT count(*) FROM insta5.photos WHERE id_shard(id) = 5 AND id_time(id) > '2026-01-03';

DROP SCHEMA insta5 CASCADE;

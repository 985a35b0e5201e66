-- Ranges of time on the primary key: their plans on a plain table and on partitions.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
SET client_min_messages = warning;
CREATE ROLE regress_id_ranges;
-- How a query finds its rows: each scan, its index condition and its filter. PostgreSQL 18 prints the result of a subquery in
-- another way.
CREATE FUNCTION scans(query text, OUT scan text, OUT index_condition text, OUT filter text) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
    plan jsonb;
BEGIN
    EXECUTE 'EXPLAIN (COSTS off, FORMAT JSON) ' || query INTO plan;
    RETURN QUERY
    SELECT concat_ws(' ', node->>'Node Type', nullif(node->>'Scan Direction', 'Forward'), 'of', coalesce(node->>'Index Name', node->>'Relation Name')),
        regexp_replace(node->>'Index Cond', '\(InitPlan (expr_)?1\).col1', '$0'),
        regexp_replace(node->>'Filter', '\(InitPlan (expr_)?1\).col1', '$0')
    FROM jsonb_path_query(plan, 'strict $.** ? (@."Node Type" like_regex "Scan")') AS node;
END $$;
-- The partitions that a query scans, in order; the number of partitions removed at executor startup; the node above the scans.
-- If run is true, only the partitions that the query has scanned.
CREATE FUNCTION partitions(query text, run bool DEFAULT false, OUT scanned text, OUT removed bigint, OUT node text) LANGUAGE plpgsql AS $$
DECLARE
    plan jsonb;
BEGIN
    EXECUTE format('EXPLAIN (COSTS off, ANALYZE %s, FORMAT JSON) %s', run::text, query) INTO plan;
    SELECT string_agg(scan->>'Relation Name', ', ' ORDER BY at) INTO scanned
    FROM jsonb_path_query(plan, 'strict $.** ? (exists (@."Relation Name") && @."Node Type" like_regex "Scan")') WITH ORDINALITY AS scan(scan, at)
    WHERE scan->>'Actual Loops' IS DISTINCT FROM '0';
    SELECT sum((part->>'Subplans Removed')::int), string_agg(part->>'Node Type', ', ') INTO removed, node
    FROM jsonb_path_query(plan, 'strict $.** ? (@."Node Type" like_regex "Append|Sort")') AS part;
END $$;
-- The planner's row estimate, and whether it is close to the actual number.
CREATE FUNCTION estimate(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    plan jsonb;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
    RETURN plan->0->'Plan'->'Plan Rows';
END $$;
CREATE FUNCTION is_near(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    truth bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM (%s) AS rows', query) INTO truth;
    RETURN estimate(query) BETWEEN truth / 1.33 AND truth * 1.33;
END $$;
\set ECHO all

SELECT create_shard(5);
SELECT create_shard(6, epoch => '2020-01-01 00:00+00');

-- A plain table: one photo every five minutes.
CREATE TABLE photos (id bigint PRIMARY KEY, user_id int, title text);
INSERT INTO photos SELECT make_id(now() - n * interval '5 minutes', 5, n % 1024), n % 500, repeat('title ', 40) FROM generate_series(1, 20000) AS n;
CREATE INDEX photos_of_user ON photos (user_id, id);
VACUUM ANALYZE photos;
SELECT * FROM scans($$SELECT * FROM photos WHERE id >= id_floor('2026-11-01 00:00+00') AND id < id_floor('2026-11-02 00:00+00')$$);
SELECT * FROM scans($$SELECT * FROM photos WHERE id_between(id, '2026-11-01 00:00+00', '2026-11-02 00:00+00')$$);
SELECT * FROM scans($$SELECT * FROM photos WHERE id >= id_floor(now() - interval '1 day') AND id < id_floor(now())$$);

-- Common ways to write times: each is an index condition, in both forms.
CREATE VIEW times AS SELECT * FROM (VALUES
    (1, $$'2026-11-01'$$), (2, $$'today'$$), (3, $$now()$$), (4, $$statement_timestamp()$$), (5, $$current_date - 1$$), (6, $$localtimestamp - interval '1 hour'$$),
    (7, $$date_trunc('month', now())$$), (8, $$date_trunc('day', now(), 'Europe/Vienna')$$), (9, $$date_trunc('day', now() AT TIME ZONE 'Asia/Tokyo') AT TIME ZONE 'Asia/Tokyo'$$),
    (10, $$to_timestamp(1795000000)$$), (11, $$make_date(2026, 11, 1)$$)) AS t(at, time);
SELECT time, scan, regexp_replace(index_condition, '''\d+''', '...', 'g') AS index_condition, filter
FROM times, scans(format('SELECT * FROM photos WHERE id >= id_floor(%s) AND id < id_floor(''2011-09-01'')', time)) ORDER BY at;
SELECT time, scan, index_condition IS NOT NULL AND filter IS NULL AS is_condition
FROM times, scans(format('SELECT * FROM photos WHERE id_between(id, %s, %1$s)', time)) ORDER BY at;

-- id_between() uses its start twice, so the planner does not inline it, and calls it for each row, if the start is a subquery,
-- a function with a high cost (the default in PL/pgSQL) or volatile. id_floor() can be used with the first two.
CREATE FUNCTION last_visit() RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN now() - interval '1 day'; END $$;
SELECT * FROM scans('SELECT * FROM photos WHERE id >= id_floor((SELECT min(now())))');
SELECT * FROM scans('SELECT * FROM photos WHERE id >= (SELECT id_floor(min(now())))');
SELECT * FROM scans('SELECT * FROM photos WHERE id_between(id, (SELECT min(now())), now())');
SELECT * FROM scans('SELECT * FROM photos WHERE id_between(id, now(), (SELECT max(now())))');
SELECT * FROM scans('SELECT * FROM photos WHERE id >= id_floor(last_visit())');
SELECT * FROM scans('SELECT * FROM photos WHERE id_between(id, last_visit(), now())');
SELECT * FROM scans('SELECT * FROM photos WHERE id_between(id, clock_timestamp(), now())');
-- A volatile time is no index condition, as it can differ for each row. The primary key is not used for id_time().
SELECT * FROM scans('SELECT * FROM photos WHERE id >= id_floor(clock_timestamp())');
SELECT * FROM scans($$SELECT * FROM photos WHERE id_time(id) BETWEEN now() - interval '1 hour' AND now()$$);

-- The newest rows: read from the end of the index without a sort; also within a range, and below the last id seen.
EXPLAIN (COSTS off) SELECT * FROM photos WHERE id < 4020418040280645632 AND id_between(id, '2026-10-01', '2026-11-02') ORDER BY id DESC LIMIT 50;
EXPLAIN (COSTS off) SELECT * FROM photos WHERE id_between(id, now() - interval '1 week', now()) ORDER BY id DESC LIMIT 50;
-- Ordering by time needs a sort.
EXPLAIN (COSTS off) SELECT * FROM photos ORDER BY id_time(id) DESC LIMIT 50;

-- A feed: with an index on the user and the id, the range limits the index scan for each followed user.
CREATE TABLE follows (follower int, followed int, PRIMARY KEY (follower, followed));
INSERT INTO follows SELECT n % 1000, n / 1000 * 100 + n % 100 FROM generate_series(0, 4999) AS n;
VACUUM ANALYZE follows;
SELECT regexp_replace(index_condition, '''\d+''', '...', 'g') AS index_condition FROM scans(format($$SELECT p.* FROM follows AS f JOIN photos AS p ON p.user_id = f.followed
    WHERE f.follower = 7 AND id_between(p.id, %L, %L) ORDER BY p.id DESC LIMIT 50$$, now() - interval '1 week', now())) WHERE scan ~ 'photos_of_user';
SELECT index_condition FROM scans($$SELECT p.* FROM follows AS f JOIN photos AS p ON p.user_id = f.followed
    WHERE f.follower = 7 AND id_between(p.id, now() - interval '1 week', now()) ORDER BY p.id DESC LIMIT 50$$) WHERE scan ~ 'photos_of_user';
-- Times from a column of another table limit it, too.
CREATE TABLE visits (user_id int PRIMARY KEY, came_at timestamptz, left_at timestamptz);
INSERT INTO visits SELECT n, now() - n * interval '1 hour', now() - n * interval '1 hour' + interval '10 minutes' FROM generate_series(1, 500) AS n;
VACUUM ANALYZE visits;
SELECT * FROM scans('SELECT p.* FROM visits AS v JOIN photos AS p ON id_between(p.id, v.came_at, v.left_at) WHERE v.user_id = 7') WHERE scan ~ 'photos';

-- For a role subject to a policy with a function that is not LEAKPROOF, a range is still an index condition.
CREATE FUNCTION may_see(who int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RETURN who % 2 = 0; END $$;
CREATE POLICY even ON photos USING (may_see(user_id));
ALTER TABLE photos ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON photos, visits TO regress_id_ranges;
SET ROLE regress_id_ranges;
SELECT * FROM scans($$SELECT * FROM photos WHERE id >= id_floor('2026-11-01') AND id < id_floor('2026-11-02')$$);
SELECT * FROM scans($$SELECT * FROM photos WHERE id_between(id, '2026-11-01', '2026-11-02')$$);
SELECT * FROM scans($$SELECT * FROM photos WHERE id_between(id, now() - interval '1 day', now())$$);
SELECT * FROM scans($$SELECT * FROM photos WHERE id_between(id, now() - interval '1 day', now()) ORDER BY id DESC LIMIT 50$$);
SET plan_cache_mode = force_generic_plan;
PREPARE day_from(timestamptz) AS SELECT * FROM photos WHERE id_between(id, $1, $1 + interval '1 day');
SELECT * FROM scans('EXECUTE day_from(now())');
DEALLOCATE day_from;
RESET plan_cache_mode;
-- PostgreSQL 15 treats a function of a subquery's result as one that could leak the row. So call id_floor() in the subquery.
SELECT * FROM scans('SELECT * FROM photos WHERE id >= (SELECT id_floor(max(came_at)) FROM visits)') WHERE scan ~ 'photos';
-- Not if the time is a column: id_floor() can fail, and its error would reveal the value. It runs after the policy.
SELECT index_condition, filter FROM scans('SELECT p.* FROM visits AS v JOIN photos AS p ON id_between(p.id, v.came_at, v.left_at) WHERE v.user_id = 7') WHERE scan ~ 'photos';
SELECT count(*) FROM photos WHERE id_between(id, now() - interval '1 day', now());
RESET ROLE;

-- Two months, whose bounds are fixed times, and ten days. The days are counted from now and begin half a day off, so that the
-- queries need the same partitions at any time of day. A second table has the same with an epoch of its own.
CREATE TABLE album (id bigint PRIMARY KEY, title text) PARTITION BY RANGE (id);
CREATE TABLE album_nov PARTITION OF album FOR VALUES FROM (id_floor('2024-11-01+00')) TO (id_floor('2024-12-01+00'));
CREATE TABLE album_dec PARTITION OF album FOR VALUES FROM (id_floor('2024-12-01+00')) TO (id_floor('2025-01-01+00'));
CREATE TABLE own (id bigint PRIMARY KEY, title text) PARTITION BY RANGE (id);
CREATE TABLE own_nov PARTITION OF own FOR VALUES FROM (id_floor('2024-11-01+00', insta6.epoch())) TO (id_floor('2024-12-01+00', insta6.epoch()));
CREATE TABLE own_dec PARTITION OF own FOR VALUES FROM (id_floor('2024-12-01+00', '2020-01-01+00')) TO (id_floor('2025-01-01+00', '2020-01-01+00'));
SELECT relname, pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname ~ '^(album|own)_(nov|dec)$' ORDER BY relname;
DO $$
BEGIN
    FOR n IN 0..9 LOOP
        EXECUTE format('CREATE TABLE album_%s PARTITION OF album FOR VALUES FROM (id_floor(%L)) TO (id_floor(%L))',
            n, now() - (n + 0.5) * interval '24 hours', now() - (n - 0.5) * interval '24 hours');
        EXECUTE format('CREATE TABLE own_%s PARTITION OF own FOR VALUES FROM (id_floor(%L, insta6.epoch())) TO (id_floor(%L, insta6.epoch()))',
            n, now() - (n + 0.5) * interval '24 hours', now() - (n - 0.5) * interval '24 hours');
    END LOOP;
    INSERT INTO album SELECT make_id(now() - n * interval '1 minute', 5, 0), 'title' FROM generate_series(0, 12000) AS n;
    INSERT INTO album SELECT make_id(timestamptz '2024-11-01+00' + n * interval '10 minutes', 5, 0), 'title' FROM generate_series(0, 8783) AS n;
    INSERT INTO own SELECT make_id(now() - n * interval '1 minute', 6, 0, insta6.epoch()), 'title' FROM generate_series(0, 12000) AS n;
END $$;
VACUUM ANALYZE album, own;

-- Constants prune partitions at plan time, and none is left to remove later.
SELECT conditions, p.* FROM (VALUES
    (1, $$id >= id_floor('2024-11-20+00') AND id < id_floor('2024-11-21+00')$$), (2, $$id_between(id, '2024-11-20+00', '2024-11-21+00')$$),
    (3, $$id_between(id, '2024-11-20+00', '2024-12-01+00')$$), (4, $$id_between(id, '2024-11-20+00', '2024-12-01 00:00:00.001+00')$$),
    (5, $$id < id_floor('2024-11-20+00')$$)) AS c(at, conditions), partitions('SELECT * FROM album WHERE ' || conditions) AS p ORDER BY at;
SELECT conditions, p.* FROM (VALUES
    (1, $$id >= id_floor('2024-11-20+00', '2020-01-01+00') AND id < id_floor('2024-11-21+00', '2020-01-01+00')$$), (2, $$id_between(id, '2024-11-20+00', '2024-11-21+00', '2020-01-01+00')$$),
    (3, $$id >= id_floor('2024-11-20+00', insta6.epoch()) AND id < id_floor('2024-11-21+00', insta6.epoch())$$), (4, $$id_between(id, '2024-11-20+00', '2024-11-21+00', insta6.epoch())$$))
    AS c(at, conditions), partitions('SELECT * FROM own WHERE ' || conditions) AS p ORDER BY at;

-- now() prunes partitions at executor startup: two of the twelve are left.
EXPLAIN (COSTS off) SELECT title FROM album WHERE id_between(id, now() - interval '1 day', now() - interval '20 hours');
SELECT conditions, p.* FROM (VALUES
    (1, $$id >= id_floor(now() - interval '1 day') AND id < id_floor(now())$$), (2, $$id_between(id, now() - interval '1 day', now())$$), (3, $$id >= id_floor(now() - interval '1 day')$$),
    (4, $$id_between(id, localtimestamp - interval '1 day', localtimestamp)$$)) AS c(at, conditions), partitions('SELECT * FROM album WHERE ' || conditions) AS p ORDER BY at;
SELECT conditions, p.* FROM (VALUES
    (1, $$id >= id_floor(now() - interval '1 day', '2020-01-01+00')$$), (2, $$id_between(id, now() - interval '1 day', now(), '2020-01-01+00')$$),
    (3, $$id >= id_floor(now() - interval '1 day', insta6.epoch())$$), (4, $$id_between(id, now() - interval '1 day', now(), insta6.epoch())$$))
    AS c(at, conditions), partitions('SELECT * FROM own WHERE ' || conditions) AS p ORDER BY at;
SELECT count(*) FROM album WHERE id_between(id, now() - interval '1 day', now());
SELECT count(*) FROM own WHERE id_between(id, now() - interval '1 day', now(), insta6.epoch());

-- So do the parameters of a generic plan.
SET plan_cache_mode = force_generic_plan;
PREPARE floors(timestamptz, timestamptz) AS SELECT title FROM album WHERE id >= id_floor($1) AND id < id_floor($2);
PREPARE between(timestamptz, timestamptz) AS SELECT title FROM album WHERE id_between(id, $1, $2);
PREPARE own_between(timestamptz, timestamptz) AS SELECT title FROM own WHERE id_between(id, $1, $2, insta6.epoch());
PREPARE any_epoch(timestamptz, timestamptz, timestamptz) AS SELECT title FROM own WHERE id_between(id, $1, $2, $3);
SELECT * FROM partitions($$EXECUTE floors('2024-11-20+00', '2024-11-21+00')$$);
SELECT * FROM partitions($$EXECUTE between('2024-11-20+00', '2024-11-21+00')$$);
SELECT * FROM partitions($$EXECUTE between(now() - interval '1 day', now())$$);
SELECT * FROM partitions($$EXECUTE own_between('2024-11-20+00', '2024-11-21+00')$$);
SELECT * FROM partitions($$EXECUTE any_epoch('2024-11-20+00', '2024-11-21+00', '2020-01-01+00')$$);
RESET plan_cache_mode;

-- The newest rows of all partitions, of a range, and of a range of constants: no sort.
SELECT * FROM partitions($$SELECT * FROM album WHERE id_between(id, now() - interval '2 days', now()) ORDER BY id DESC LIMIT 50$$);
SELECT * FROM partitions($$SELECT * FROM album WHERE id_between(id, now() - interval '2 days', now()) ORDER BY id DESC LIMIT 50$$, run => true);
SELECT * FROM partitions($$SELECT * FROM album WHERE id_between(id, '2024-11-20+00', '2024-12-21+00') ORDER BY id DESC LIMIT 50$$);
-- A subquery's result prunes at execution time: with id_floor() the other partitions are not scanned. id_between() is a filter.
SELECT * FROM partitions($$SELECT * FROM album WHERE id >= id_floor((SELECT now() - interval '1 day'))$$, run => true);
SELECT * FROM partitions($$SELECT * FROM album WHERE id_between(id, (SELECT max(now()) - interval '1 day'), now())$$, run => true);
-- They are not scanned either if the time comes from another table.
SELECT * FROM partitions('SELECT a.* FROM visits AS v JOIN album AS a ON id_between(a.id, v.came_at, v.left_at) WHERE v.user_id = 24', run => true);
-- A default partition may hold any id, so the partitions cannot be scanned in order: a Merge Append is needed.
CREATE TABLE album_default PARTITION OF album DEFAULT;
SELECT * FROM partitions($$SELECT * FROM album WHERE id_between(id, now() - interval '1 day', now()) ORDER BY id DESC LIMIT 50$$);

-- Row estimates use the statistics of the id: a year of ids, with more and more until now, and a tenth of all in one day.
CREATE TABLE posts (id bigint PRIMARY KEY, own_id bigint);
INSERT INTO posts SELECT make_id(time, 5, 0), make_id(time, 6, 0, insta6.epoch()) FROM (
    SELECT now() - interval '365 days' * (n / 90000.0) ^ 2 FROM generate_series(1, 90000) AS n
    UNION SELECT now() - interval '101 days' + interval '24 hours' * (n / 10000.0) FROM generate_series(1, 10000) AS n) AS t(time)
ON CONFLICT DO NOTHING;
CREATE INDEX ON posts (own_id);
ANALYZE posts;
CREATE VIEW ranges AS
SELECT day || ' to ' || until AS days_ago, format('now() - interval ''%s days''', day) AS starts, format('now() - interval ''%s days''', until) AS ends,
    quote_literal(now() - day * interval '1 day') AS from_time, quote_literal(now() - until * interval '1 day') AS to_time
FROM (VALUES (1, 0), (7, 0), (30, 0), (120, 30), (101, 100), (365, 300), (1000, 0)) AS d(day, until);
SELECT days_ago,
    is_near(format('SELECT 1 FROM posts WHERE id >= id_floor(%s) AND id < id_floor(%s)', from_time, to_time)) AS floors,
    is_near(format('SELECT 1 FROM posts WHERE id_between(id, %s, %s)', from_time, to_time)) AS between,
    is_near(format('SELECT 1 FROM posts WHERE id_between(own_id, %s, %s, insta6.epoch())', from_time, to_time)) AS own_epoch,
    is_near(format('SELECT 1 FROM posts WHERE id >= id_floor(%s) AND id < id_floor(%s)', starts, ends)) AS floors_of_now,
    is_near(format('SELECT 1 FROM posts WHERE id_between(id, %s, %s)', starts, ends)) AS between_of_now,
    is_near(format('SELECT 1 FROM posts WHERE id_between(own_id, %s, %s, insta6.epoch())', starts, ends)) AS own_epoch_of_now
FROM ranges;
-- There are no statistics of id_time(id): every range of it is estimated as one row in 200, for a day as for a year.
SELECT DISTINCT estimate(format('SELECT 1 FROM posts WHERE id_time(id) BETWEEN %s AND %s', from_time, to_time)) AS estimated, (SELECT count(*) / 200 FROM posts) AS share FROM ranges;

DROP VIEW times, ranges;
DROP TABLE photos, follows, visits, album, own, posts;
DROP FUNCTION scans, partitions, estimate, is_near, last_visit, may_see;
DROP SCHEMA insta5, insta6 CASCADE;
-- The range from the first id on, in which ids turn negative.
SELECT * FROM raises('SELECT id_range_end(''2011-08-24 21:07:01.721+00'', ''2050-01-01'')');
DROP ROLE regress_id_ranges;

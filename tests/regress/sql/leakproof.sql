-- Row-level security and security barriers: which functions run before them, and that these functions do not leak.
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_id_reader;
RESET client_min_messages;
CREATE ROLE regress_id_reader;
SELECT create_shard(5);
CREATE VIEW members AS
SELECT p.oid, p.oid::regprocedure AS function, proname, proargtypes, proargnames, proleakproof, provolatile, prokind FROM pg_depend AS d JOIN pg_proc AS p ON p.oid = d.objid
WHERE d.deptype = 'e' AND d.classid = 'pg_proc'::regclass AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'instagram_id')
    AND 'internal'::regtype <> ALL (proargtypes);

-- The LEAKPROOF functions accept every bigint: each power of two with its neighbors and complements, both ends, each edge of
-- each field, and a hundred thousand spread values. No call raises an error or returns NULL. The query returns violations.
CREATE TABLE edges AS
SELECT DISTINCT (sign * (2::numeric ^ bit + near))::bigint AS id
FROM generate_series(0, 63) AS bit, generate_series(-2, 2) AS near, unnest('{1,-1}'::int[]) AS sign
WHERE sign * (2::numeric ^ bit + near) BETWEEN -9223372036854775808 AND 9223372036854775807
UNION SELECT (ms::bigint << 23) | (shard << 10) | seq
FROM unnest('{0,1,1099511627775,1099511627776,1099511627777,2199023255551}'::bigint[]) AS ms, unnest('{0,1,8191}'::int[]) AS shard, unnest('{0,1,1023}'::int[]) AS seq
UNION SELECT g * 184467440737095 FROM generate_series(-50000, 50000) AS g;
CREATE FUNCTION answers(f regprocedure) RETURNS TABLE (asked bigint, answered bigint) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format('SELECT count(*), count(%s) FROM edges', replace(f::text, '(bigint)', '(id)'));
END $$;
SELECT count(*) > 100000 AS many FROM edges;
SELECT count(*) > 0 AS some_are_leakproof FROM members WHERE proleakproof;
SELECT function, asked, answered FROM members, answers(function) WHERE proleakproof AND asked IS DISTINCT FROM answered;

-- Below a barrier there are only LEAKPROOF functions, and id_between(), which the planner has replaced by two comparisons. The
-- query returns the functions of which this is not so.
-- A window function, such as backfill_id(), cannot be used in a WHERE clause.
CREATE TABLE notes (id bigint PRIMARY KEY, owner name, text text);
CREATE VIEW mine WITH (security_barrier) AS SELECT * FROM notes WHERE owner = current_user;
CREATE FUNCTION plan_has(query text, what text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    plan text;
BEGIN
    EXECUTE 'EXPLAIN (COSTS OFF, FORMAT JSON) ' || query INTO plan;
    RETURN strpos(plan, what) > 0;
END $$;
CREATE FUNCTION is_below_barrier(qual text) RETURNS bool LANGUAGE sql
    RETURN NOT plan_has('SELECT * FROM mine WHERE ' || qual, 'Subquery Scan');
SELECT function, proleakproof, is_below_barrier(call) FROM (
    SELECT function, proleakproof, format('%s(%s) IS NOT NULL', proname, string_agg(
        CASE WHEN type = 'bigint'::regtype THEN 'id' WHEN type = 'int'::regtype THEN '1' WHEN type = 'text'::regtype THEN 'owner'
            WHEN at = 1 THEN 'id_time(id)' WHEN proargnames[at] = 'epoch' THEN 'timestamptz ''2011-01-01 00:00+00''' ELSE format('timestamptz ''2020-01-0%s 00:00+00''', at) END, ', ' ORDER BY at)) AS call
    FROM members, unnest(proargtypes::oid[]) WITH ORDINALITY AS a(type, at) WHERE provolatile = 'i' AND prokind = 'f' GROUP BY function, proname, proleakproof) AS calls
WHERE is_below_barrier(call) <> (proleakproof OR function::text LIKE 'id_between(%');
SELECT is_below_barrier('insta5.id_time(id) > now()') AS shards_id_time,
    is_below_barrier('id >= id_floor(now())') AS floor_of_now, is_below_barrier('id_between(id, now() - interval ''1 day'', now())') AS between_now;

-- Row-level security: LEAKPROOF functions can use an index on them, and run before the policy; the others run after it.
INSERT INTO notes SELECT make_id(timestamptz '2026-01-01+00' + n * interval '1 minute', n % 100, 0),
    CASE n % 10 WHEN 0 THEN 'regress_id_reader' ELSE 'someone' END, 'note ' || n FROM generate_series(1, 2000) AS n;
INSERT INTO notes VALUES (-1, 'someone', 'secret');
CREATE INDEX by_shard ON notes (id_shard(id));
CREATE INDEX by_time ON notes (id_time(id));
CREATE INDEX by_own_time ON notes (id_time(id, '2011-01-01 00:00+00'));
ANALYZE notes;
ALTER TABLE notes ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON notes USING (owner = current_user);
CREATE TABLE leaked (text text);
CREATE FUNCTION leaks(text text) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN INSERT INTO leaked VALUES (text); RETURN true; END $$;
GRANT SELECT ON notes, mine TO regress_id_reader;
GRANT INSERT, SELECT ON leaked TO regress_id_reader;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET ROLE regress_id_reader;
EXPLAIN (COSTS OFF) SELECT * FROM notes WHERE id_shard(id) = 10;
EXPLAIN (COSTS OFF) SELECT * FROM notes WHERE id_time(id) >= '2026-01-02' AND id_time(id) < '2026-01-03';
EXPLAIN (COSTS OFF) SELECT * FROM notes WHERE id_between(id, '2026-01-02', '2026-01-03');
EXPLAIN (COSTS OFF) SELECT * FROM notes WHERE id_seq(id) = 0 AND leaks(text) AND id_shard(id) = 10;
EXPLAIN (COSTS OFF) SELECT * FROM mine WHERE id_shard(id) = 10 AND leaks(text);
-- id_time() with an epoch reveals an id in its error, so it runs after the policy, even if there is an index on it.
SELECT plan_has('SELECT * FROM notes WHERE id_time(id, ''2011-01-01 00:00+00'') = ''2026-01-02''', 'by_own_time') AS uses_index;
SELECT count(*) FROM notes WHERE id_time(id, '294211-01-01') IS NOT NULL;
SELECT count(*) FROM notes WHERE id_floor(id_time(id)) >= 0 AND id_shard(id) = 10 AND leaks(text);
SELECT count(*) FROM mine WHERE id_shard(id) = 10 AND leaks(text) AND id_time(id, '294211-01-01') IS NOT NULL;
SELECT count(*) FROM notes WHERE id_time(id) > '2026-01-02' AND leaks(text);
RESET ROLE;
SELECT count(*) > 0 AS asked, count(*) FILTER (WHERE owner <> 'regress_id_reader') AS leaked FROM leaked JOIN notes USING (text);
SELECT count(*) FROM notes WHERE id_time(id, '294211-01-01') IS NOT NULL;
SELECT plan_has('SELECT * FROM notes WHERE id_time(id, ''2011-01-01 00:00+00'') = ''2026-01-02''', 'by_own_time') AS uses_index;
RESET enable_seqscan;
RESET enable_bitmapscan;

SET client_min_messages = warning;
DROP SCHEMA insta5 CASCADE;
DROP VIEW mine, members;
DROP TABLE notes, leaked, edges;
DROP FUNCTION answers, is_below_barrier, plan_has, leaks;
DROP ROLE regress_id_reader;

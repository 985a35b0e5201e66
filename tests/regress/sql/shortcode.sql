-- Short codes: ids in the form that links contain.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
\set ECHO all

-- Published posts: the media id, and the code in the link.
SELECT id, code, id_to_shortcode(id) = code AS there, shortcode_to_id(code) = id AS back
FROM (VALUES (2236262423948874256, 'B8IzNOMBtIQ'), (2156615653142894199, 'B3t1oKioRZ3'), (1857265514529027276, 'BnGVSUvFfTM')) AS published(id, code);
-- 0, each digit, extremes, negative ids.
SELECT id, id_to_shortcode(id), shortcode_to_id(id_to_shortcode(id)) = id AS back
FROM unnest('{0,1,25,26,51,52,61,62,63,64,4095,4096,9223372036854775807,-9223372036854775808,-1}'::bigint[]) AS id;
SELECT string_agg(id_to_shortcode(id), '' ORDER BY id) FROM generate_series(0, 63) AS id;
-- Round trips over the full range; no code starts with A or has more than 11 characters.
SELECT count(*), count(*) FILTER (WHERE shortcode_to_id(code) = id) AS back, count(*) FILTER (WHERE code ~ '^[B-Za-z0-9_-][A-Za-z0-9_-]{0,10}$') AS formed, count(DISTINCT code)
FROM (SELECT id, id_to_shortcode(id) AS code FROM generate_series(-9223372036854775807, 9223372036854775000, 18446744073709551) AS id) AS codes;
-- Leading As have no value, and there may be many.
SELECT shortcode_to_id('AAB8IzNOMBtIQ'), shortcode_to_id(repeat('A', 1000) || 'B'), shortcode_to_id(repeat('A', 1000000)), shortcode_to_id('AP__________');
SELECT id_to_shortcode(NULL), shortcode_to_id(NULL);
-- Any kind of text.
SELECT shortcode_to_id('B8IzNOMBtIQ'::varchar), shortcode_to_id('B8IzNOMBtIQ'::name::text), shortcode_to_id('B8IzNOMBtIQ'::char(20));

-- Invalid codes.
SELECT code, r.* FROM unnest(ARRAY['', ' ', ' B', 'B ', 'B8IzNOMBtIQ=', 'B+', 'B/', 'B8IzNOMBtI' || chr(233), chr(128512), E'B\nB', 'B"', 'QAAAAAAAAAA', 'BAAAAAAAAAAA', 'Q__________', '___________', 'QAAAAAAAAAA!']) AS code,
    raises(format('SELECT shortcode_to_id(%L)', code)) AS r;
SELECT message, detail FROM raises($$SELECT shortcode_to_id(repeat('B', 1000))$$);
SELECT message, detail FROM raises($$SELECT shortcode_to_id(repeat(chr(28450), 1000))$$);
SELECT length(message) FROM raises($$SELECT shortcode_to_id(repeat('B', 1000000) || '!')$$);
SELECT raises($$SELECT id_to_shortcode('x')$$);

-- Codes do not sort like their ids, not even bytewise: sort by the id.
SELECT array_agg(id ORDER BY id_to_shortcode(id) COLLATE "C") AS by_code FROM unnest('{0,25,26,51,52,61,62,63,64,4096}'::bigint[]) AS id;

-- In an index, and in a generated column.
CREATE TABLE posts (id bigint PRIMARY KEY, code text GENERATED ALWAYS AS (id_to_shortcode(id)) STORED UNIQUE);
INSERT INTO posts SELECT make_id('2026-01-01+00'::timestamptz + g * interval '1 min', 5, g % 1024) FROM generate_series(1, 5000) AS g;
INSERT INTO posts VALUES (2236262423948874256), (0), (-1);
SELECT id FROM posts WHERE code = 'B8IzNOMBtIQ';
SELECT count(*) FROM posts WHERE shortcode_to_id(code) <> id;
CREATE INDEX by_code ON posts (id_to_shortcode(id));
ANALYZE posts;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM posts WHERE id_to_shortcode(id) = 'B8IzNOMBtIQ';
SELECT id FROM posts WHERE id_to_shortcode(id) = 'B8IzNOMBtIQ';
-- No such index is needed: search the primary key for the id of the code.
EXPLAIN (COSTS OFF) SELECT * FROM posts WHERE id = shortcode_to_id('B8IzNOMBtIQ');
PREPARE by_code(text) AS SELECT id FROM posts WHERE id = shortcode_to_id($1);
EXECUTE by_code('B8IzNOMBtIQ');
EXECUTE by_code('nowhere');
EXECUTE by_code('no code');

-- The function that accepts any id can run below a barrier; the one that can fail, and would reveal the code, cannot.
SELECT oid::regprocedure AS function, provolatile, proisstrict, proparallel, proleakproof FROM pg_proc WHERE proname IN ('id_to_shortcode', 'shortcode_to_id') ORDER BY 1::text;
CREATE ROLE regress_id_reader;
CREATE TABLE secrets (id bigint PRIMARY KEY, code text, owner name);
INSERT INTO secrets SELECT g, 'no code ' || g, 'someone' FROM generate_series(1, 1000) AS g;
INSERT INTO secrets VALUES (2236262423948874256, 'B8IzNOMBtIQ', 'regress_id_reader');
CREATE INDEX secrets_by_code ON secrets (id_to_shortcode(id));
ALTER TABLE secrets ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON secrets USING (owner = current_user);
GRANT SELECT ON secrets TO regress_id_reader;
SET ROLE regress_id_reader;
EXPLAIN (COSTS OFF) SELECT * FROM secrets WHERE id_to_shortcode(id) = 'B8IzNOMBtIQ';
SELECT * FROM secrets WHERE id_to_shortcode(id) = 'B8IzNOMBtIQ';
SELECT * FROM secrets WHERE shortcode_to_id(code) > 0;
RESET ROLE;
SELECT state FROM raises('SELECT * FROM secrets WHERE shortcode_to_id(code) > 0');

DROP TABLE posts, secrets;
DROP ROLE regress_id_reader;

-- Partitions by the time in the ids, created in advance and dropped when they are old. The output does not depend on the date:
-- past bounds are printed, later ones are compared with the clock.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
SET client_min_messages = warning;
SET TimeZone = 'Asia/Kolkata'; -- half an hour beside UTC's days
SET DateStyle = 'SQL, DMY';
CREATE SCHEMA parts;
SET search_path = parts, public;
CREATE VIEW bounds AS
SELECT inhparent::regclass AS parent, c.oid::regclass AS part, b[1] AS lo, b[2] AS hi,
    id_time(b[1]::bigint) AT TIME ZONE 'UTC' AS begins, id_time(b[2]::bigint) AT TIME ZONE 'UTC' AS ends
FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid,
    LATERAL (SELECT array_agg(nullif(nullif(m[1], 'MINVALUE'), 'MAXVALUE') ORDER BY n) AS b
             FROM regexp_matches(pg_get_expr(relpartbound, c.oid), '\(''?([^'')]*)''?\)', 'g') WITH ORDINALITY AS t(m, n)) AS b
WHERE relispartition AND relkind <> 'i' AND pg_get_expr(relpartbound, c.oid) LIKE 'FOR VALUES FROM%';
GRANT SELECT ON bounds TO PUBLIC;
-- The number of partitions, whether each begins where the previous one ends, the first bound and the last one.
CREATE FUNCTION summary(t regclass, OUT parts bigint, OUT seamless bool, OUT begins timestamp, OUT ends timestamp)
BEGIN ATOMIC
    SELECT count(*), bool_and(lo IS NOT DISTINCT FROM before) FILTER (WHERE number > 1), min(it.begins), max(it.ends)
    FROM (SELECT *, lag(hi) OVER by_lo AS before, row_number() OVER by_lo AS number FROM bounds WHERE parent = t
          WINDOW by_lo AS (ORDER BY lo::bigint NULLS FIRST)) AS it;
END;
\set ECHO all

-- Days, weeks, months; the same call again, and a call that goes further ahead.
CREATE TABLE days (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT count(*) FROM create_id_partitions('days', 'day');
SELECT count(*) FROM create_id_partitions('days', 'day');
SELECT count(*) FROM create_id_partitions('days', 'day', 5);
SELECT count(*) FROM create_id_partitions('days', 'day', 5);
SELECT count(*) FROM create_id_partitions('days', 'day', 0);
SELECT parts, seamless, ends - begins AS length, begins::time AS at, now() AT TIME ZONE 'UTC' - begins < '1 day' AS today FROM summary('days');
CREATE TABLE weeks (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT count(*) FROM create_id_partitions('weeks', 'week', 2);
SELECT parts, seamless, ends - begins AS length, begins::time AS at, to_char(begins, 'FMDay') AS day, now() AT TIME ZONE 'UTC' - begins < '7 days' AS this_week FROM summary('weeks');
CREATE TABLE months (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT count(*) FROM create_id_partitions('months');
SELECT parts, seamless, ends = begins + interval '4 months' AS four_months, begins::time AS at, extract(day FROM begins) AS day,
    date_trunc('month', now() AT TIME ZONE 'UTC') = begins AS this_month FROM summary('months');
-- A partition's name contains its first day. They are created in order.
SELECT bool_and(part::text = format('%s_p%s', parent, to_char(begins, 'YYYYMMDD'))) FROM bounds;
CREATE TABLE past (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT * FROM create_id_partitions('past', 'month', 0, from_time => '2023-11-30 23:59:59.999999+00') LIMIT 3;
SELECT part, lo, hi, begins, ends FROM bounds WHERE parent = 'past'::regclass ORDER BY begins LIMIT 3;
SELECT seamless, ends = date_trunc('month', now() AT TIME ZONE 'UTC') + interval '1 month' AS to_now FROM summary('past');
-- February of a leap year, and the week of a new year.
SELECT part, ends - begins AS length FROM bounds WHERE part = 'past_p20240201'::regclass;
CREATE TABLE past_weeks (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT * FROM create_id_partitions('past_weeks', 'week', 0, from_time => '2025-01-01 00:00+00') LIMIT 2;
-- A from_time ahead of the clock has no effect.
CREATE TABLE ahead (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT count(*) FROM create_id_partitions('ahead', 'day', 1, from_time => now() + interval '1 year');
SELECT ends - begins AS length, begins < now() AT TIME ZONE 'UTC' AS has_begun FROM summary('ahead');
-- The session's settings for times do not change the bounds.
CREATE TABLE elsewhere (LIKE days) PARTITION BY RANGE (id);
SET TimeZone = 'Pacific/Kiritimati';
SET DateStyle = 'German, YMD';
SET IntervalStyle = 'sql_standard';
SELECT current_setting('server_version_num')::int < 190000 AS other_strings \gset
\if :other_strings
    SET standard_conforming_strings = off;
\endif
SET row_security = off;
SET quote_all_identifiers = on;
SELECT count(*) FROM create_id_partitions('elsewhere', 'day', 5);
SET TimeZone = 'UTC+5'; -- which defines UTC as an abbreviation
SET DateStyle = 'Postgres, MDY';
SET IntervalStyle = 'iso_8601';
SELECT count(*) FROM create_id_partitions('elsewhere', 'day', 5);
RESET quote_all_identifiers;
RESET row_security;
RESET standard_conforming_strings;
RESET IntervalStyle;
SET TimeZone = 'Asia/Kolkata';
SET DateStyle = 'ISO';
SELECT array_agg(lo || ' ' || hi ORDER BY lo) FILTER (WHERE parent = 'days'::regclass) = array_agg(lo || ' ' || hi ORDER BY lo) FILTER (WHERE parent = 'elsewhere'::regclass) AS same
FROM bounds;

-- Months, then weeks, then days, and back: the gaps are filled, and no partitions overlap, which would be an error.
CREATE TABLE mixed (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT count(*) FROM create_id_partitions('mixed', 'month', 0);
SELECT count(*) > 3 AS weeks FROM create_id_partitions('mixed', 'week', 9);
SELECT count(*) > 0 AS days FROM create_id_partitions('mixed', 'day', 80);
SELECT count(*) > 0 AS months FROM create_id_partitions('mixed', 'month', 3, from_time => now() - interval '3 months');
SELECT count(*) FROM create_id_partitions('mixed', 'week', 2);
SELECT seamless, begins = date_trunc('month', (now() - interval '3 months') AT TIME ZONE 'UTC') AS from_month,
    ends = date_trunc('month', now() AT TIME ZONE 'UTC') + interval '4 months' AS to_month FROM summary('mixed');

-- With manually created partitions: bounds within a day, a gap of a few ids, MINVALUE.
CREATE TABLE by_hand (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE by_hand_old PARTITION OF by_hand FOR VALUES FROM (MINVALUE) TO (1000000);
CREATE TABLE by_hand_1 PARTITION OF by_hand FOR VALUES FROM (id_floor('2025-01-10 12:30:15.678+00') + 5) TO (id_floor('2025-01-20+00'));
CREATE TABLE by_hand_2 PARTITION OF by_hand FOR VALUES FROM (id_floor('2025-01-20+00') + 3) TO (id_floor('2025-02-03+00'));
SELECT * FROM create_id_partitions('by_hand', 'month', 0, from_time => '2025-01-31+00') LIMIT 4;
SELECT part, lo, hi, begins, ends FROM bounds WHERE parent = 'by_hand'::regclass AND coalesce(begins < '2025-03-01', true) ORDER BY ends;
-- Several partitions that begin within one second or one millisecond.
CREATE TABLE second (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE second_1 PARTITION OF second FOR VALUES FROM (1) TO (5000000);
CREATE TABLE second_2 PARTITION OF second FOR VALUES FROM (6000000) TO (id_floor('2011-08-24 21:07:01.900+00'));
SELECT * FROM create_id_partitions('second', 'month', 0, from_time => '2011-08-24 21:07:01.721+00') LIMIT 4;
SELECT part, lo, hi FROM bounds WHERE parent = 'second'::regclass AND begins < '2011-09-01' ORDER BY lo::bigint;
SELECT seamless FROM summary('second');
-- Beside a partition that ends at MAXVALUE there is nothing to create.
CREATE TABLE maximum (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE maximum_1 PARTITION OF maximum FOR VALUES FROM (id_floor(date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + interval '36 hours')) TO (MAXVALUE);
SELECT count(*) FROM create_id_partitions('maximum', 'day', 3);
SELECT parts, seamless, begins < now() AT TIME ZONE 'UTC' AS has_begun FROM summary('maximum');
CREATE TABLE everything (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE everything_1 PARTITION OF everything FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
SELECT count(*) FROM create_id_partitions('everything');
SELECT count(*) FROM drop_old_id_partitions('everything', now());
-- A default partition does not cover these times. If it holds rows of a new one, PostgreSQL raises an error; nothing changes.
CREATE TABLE defaulted (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE defaulted_rest PARTITION OF defaulted DEFAULT;
SELECT count(*) FROM create_id_partitions('defaulted', 'day', 1);
INSERT INTO defaulted VALUES (5), (id_floor(now() + interval '3 days'));
SELECT state, message, detail FROM raises($$SELECT create_id_partitions('defaulted', 'day', 5)$$);
SELECT parts FROM summary('defaulted');
DELETE FROM defaulted WHERE id <> 5;
SELECT count(*) FROM create_id_partitions('defaulted', 'day', 5);
SELECT count(*) FROM drop_old_id_partitions('defaulted', now() - interval '2 days');
SELECT tableoid::regclass, id FROM defaulted;
DROP TABLE defaulted_rest;
SELECT parts, seamless FROM summary('defaulted');

-- Custom epochs: that of the shard's schema, and that of the argument, which takes precedence.
SELECT create_shard(61, 'own', epoch => '2020-01-01+00');
CREATE TABLE own.photos (id bigint PRIMARY KEY DEFAULT own.next_id()) PARTITION BY RANGE (id);
SELECT * FROM create_id_partitions('own.photos', 'month', 1, from_time => '2024-01-01+00') LIMIT 2;
SELECT part, own.id_time(lo::bigint) AT TIME ZONE 'UTC' AS begins, own.id_time(hi::bigint) AT TIME ZONE 'UTC' AS ends FROM bounds WHERE parent = 'own.photos'::regclass ORDER BY lo::bigint LIMIT 2;
INSERT INTO own.photos DEFAULT VALUES RETURNING tableoid::regclass::text = format('own.photos_p%s01', to_char(now() AT TIME ZONE 'UTC', 'YYYYMM')) AS this_month;
CREATE TABLE in_public (id bigint PRIMARY KEY DEFAULT own.next_id()) PARTITION BY RANGE (id);
SELECT count(*) FROM create_id_partitions('in_public', 'month', 1);
INSERT INTO in_public DEFAULT VALUES RETURNING tableoid::regclass::text = format('in_public_p%s01', to_char(now() AT TIME ZONE 'UTC', 'YYYYMM')) AS this_month;
SELECT count(*) FROM create_id_partitions('in_public', 'month', 1, epoch => own.epoch());
CREATE TABLE own.by_argument (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT count(*) FROM create_id_partitions('own.by_argument', 'month', 1, epoch => '2011-08-24 21:07:01.721+00');
SELECT seamless, begins = date_trunc('month', now() AT TIME ZONE 'UTC') AS this_month FROM summary('own.by_argument');
-- A function that has the name of a shard's epoch() only.
CREATE FUNCTION epoch() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RAISE 'must not run'; END $$;
CREATE TABLE by_name (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT count(*) FROM create_id_partitions('by_name');
DROP FUNCTION epoch();
-- An epoch in the middle of a month: the first partition begins at the epoch.
CREATE TABLE begun (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT * FROM create_id_partitions('begun', 'month', 0, '2024-03-10 12:00:00.0005+00', '2024-03-10 12:00:00.0005+00') LIMIT 2;
SELECT lo, id_time(hi::bigint, '2024-03-10 12:00:00.0005+00') AT TIME ZONE 'UTC' AS ends FROM bounds WHERE part = 'begun_p20240310_120000'::regclass;
-- A future epoch: the first partition begins at the epoch.
CREATE TABLE to_come (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT count(*) FROM create_id_partitions('to_come', 'day', 3, epoch => date_trunc('day', now(), 'UTC') + interval '60 hours');
SELECT lo, id_time(hi::bigint) - id_time(lo::bigint) AS length FROM bounds WHERE parent = 'to_come'::regclass ORDER BY lo::bigint;
-- At the end of the time field the last partition is unbounded (2^40 ms after the epoch, which is two days from now).
CREATE TABLE ending (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT count(*) FROM create_id_partitions('ending', 'day', 5, epoch => date_trunc('day', now(), 'UTC') + interval '2 days 5 hours' - 1099511627776 * interval '1 ms');
SELECT count(*), bool_or(hi IS NULL) AS to_maxvalue FROM bounds WHERE parent = 'ending'::regclass;
SELECT count(*) < 2 AS only_before FROM create_id_partitions('ending', 'month', 5, epoch => date_trunc('day', now(), 'UTC') + interval '2 days 5 hours' - 1099511627776 * interval '1 ms');
INSERT INTO ending VALUES (9223372036854775807) RETURNING tableoid = (SELECT part FROM bounds WHERE parent = 'ending'::regclass AND hi IS NULL) AS in_the_last;
-- With an epoch so old that the present has no ids, only partitions of the past can be created, also again.
SELECT count(*) IN (58, 59) AS most FROM create_id_partitions('ending', 'month', 0, '2000-01-15+00', '1970-01-01+00');
SELECT count(*) FROM create_id_partitions('ending', 'month', 0, '2000-01-15+00', '1970-01-01+00');
SELECT state, message, detail FROM raises($$SELECT create_id_partitions('ending', 'day', 5, epoch => '1970-01-01+00')$$);

-- Names.
CREATE TABLE "Größe ""1"" 'x' \ ; --" (id bigint PRIMARY KEY, "a ""b""" text DEFAULT 'x') PARTITION BY RANGE (id);
SELECT count(*) FROM create_id_partitions('"Größe ""1"" ''x'' \ ; --"', 'day', 1);
SELECT regexp_replace(part::text, '\d{8}', 'DAY') AS part FROM bounds WHERE part::text LIKE '%Gr%' LIMIT 1;
SELECT bool_and(dropped LIKE 'parts."Größe ""1"" ''x'' \\ ; --\_p20250_01"') AS named, count(*) > 3 AS many
FROM create_id_partitions('"Größe ""1"" ''x'' \ ; --"', 'month', 0, '2025-01-08+00') AS made, drop_old_id_partitions('"Größe ""1"" ''x'' \ ; --"', '2025-03-01+00') AS dropped;
CREATE SCHEMA "S ""x"".y";
CREATE TABLE "S ""x"".y"."select" (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT made FROM create_id_partitions('"S ""x"".y"."select"', 'month', 0, '2025-01-08+00') AS made LIMIT 1;
SELECT dropped FROM drop_old_id_partitions('"S ""x"".y"."select"', '2025-02-01+00') AS dropped;
DROP SCHEMA "S ""x"".y" CASCADE;
-- Names of 63 bytes are truncated at a character boundary.
CREATE TABLE a23456789012345678901234567890123456789012345678901234567890123 (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT * FROM create_id_partitions('a23456789012345678901234567890123456789012345678901234567890123', 'month', 0, '2025-01-08+00') LIMIT 1;
CREATE TABLE ääääääääääääääääääääääääääääääa (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT part, octet_length(part::text) FROM create_id_partitions('ääääääääääääääääääääääääääääääa', 'month', 0, '2025-01-08+00') AS part LIMIT 1;
-- Two tables whose names begin alike: the partitions of one have the names of the other's, and a number follows.
CREATE TABLE a23456789012345678901234567890123456789012345678901234567890124 (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT * FROM create_id_partitions('a23456789012345678901234567890123456789012345678901234567890124', 'month', 0, '2025-01-08+00') LIMIT 1;
-- Also if a view, a sequence, an index or a type has the name. Each role with CREATE on the schema can create one.
CREATE TABLE taken (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
CREATE VIEW taken_p20250101 AS SELECT 1;
CREATE SEQUENCE taken_p20250201;
CREATE INDEX taken_p20250301 ON by_hand_old (id);
CREATE DOMAIN taken_p20250401 AS int;
CREATE VIEW taken_p20250401_2 AS SELECT 1;
-- After some numbers it is any number.
DO $$ BEGIN FOR n IN 1..40 LOOP EXECUTE format('CREATE DOMAIN taken_p20250601%s AS int', nullif('_' || n, '_1')); END LOOP; END $$;
SELECT * FROM create_id_partitions('taken', 'month', 0, '2025-01-08+00') LIMIT 5;
SELECT substring(relname, '_([0-9]+)$')::int > 100 FROM pg_class WHERE relname LIKE 'taken_p20250601%' AND relkind = 'r';
SELECT seamless FROM summary('taken');
DROP TABLE taken;
DROP VIEW taken_p20250101;
CREATE TABLE taken (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
-- An object of that name in another schema does not matter, even if that schema is first in search_path.
CREATE SCHEMA other;
CREATE TABLE other.taken_p20250101 (id int);
SET search_path = other, parts, public;
SELECT * FROM create_id_partitions('taken', 'month', 0, '2025-01-08+00') LIMIT 1;
SET search_path = parts, public;
DROP SCHEMA other CASCADE;

-- Errors.
CREATE FUNCTION error_of(call text, OUT state text, OUT message text, OUT detail text, OUT hint text) BEGIN ATOMIC
    SELECT r.state, replace(r.message, current_date::text, 'today'), r.detail, r.hint FROM raises('SELECT ' || call) AS r;
END;
CREATE VIEW a_view AS SELECT id FROM days;
CREATE SEQUENCE a_sequence;
CREATE TABLE plain (id bigint PRIMARY KEY);
CREATE TABLE hashed (id bigint PRIMARY KEY) PARTITION BY HASH (id);
CREATE TABLE listed (id bigint PRIMARY KEY) PARTITION BY LIST (id);
CREATE TABLE expressed (id bigint) PARTITION BY RANGE ((id + 1));
CREATE TABLE columned (id bigint, shard int) PARTITION BY RANGE (id, shard);
CREATE TABLE int_key (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE time_key (id timestamptz PRIMARY KEY) PARTITION BY RANGE (id);
CREATE OPERATOR CLASS backwards FOR TYPE bigint USING btree AS OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=, OPERATOR 5 <, FUNCTION 1 btint8cmp(bigint, bigint);
CREATE TABLE backwards (id bigint) PARTITION BY RANGE (id backwards);
SELECT call, e.* FROM (VALUES (1, $$create_id_partitions(NULL)$$), (2, $$create_id_partitions('days', NULL)$$), (3, $$create_id_partitions('days', 'day', NULL)$$),
    (4, $$create_id_partitions('days', 'year')$$), (5, $$create_id_partitions('days', 'DAY')$$), (6, $$create_id_partitions('days', '')$$), (7, $$create_id_partitions('days', 'x''y')$$),
    (8, $$create_id_partitions('days', 'day', -1)$$), (9, $$create_id_partitions('days', 'day', 10001)$$), (10, $$create_id_partitions('days', 'day', 2147483647)$$),
    (11, $$create_id_partitions('days', from_time => '-infinity')$$), (12, $$create_id_partitions('days', from_time => 'infinity')$$),
    (13, $$create_id_partitions('days', from_time => '2011-08-24 21:07:01.720999+00')$$), (14, $$create_id_partitions('days', from_time => '2200-01-01+00')$$),
    (15, $$create_id_partitions('days', epoch => 'infinity')$$), (16, $$create_id_partitions('days', from_time => '2020-01-01+00', epoch => '2021-01-01+00')$$),
    (20, $$create_id_partitions('hashed')$$), (21, $$create_id_partitions('listed')$$), (22, $$create_id_partitions('expressed')$$), (23, $$create_id_partitions('columned')$$),
    (24, $$create_id_partitions('int_key')$$), (25, $$create_id_partitions('time_key')$$), (26, $$create_id_partitions('backwards')$$), (27, $$create_id_partitions('plain')$$),
    (28, $$create_id_partitions('a_view')$$), (29, $$create_id_partitions('a_sequence')$$), (30, $$create_id_partitions('days_pkey')$$), (31, $$create_id_partitions(4294967295::oid)$$),
    (32, $$create_id_partitions('pg_class')$$), (33, $$create_id_partitions(0::oid)$$), (34, $$create_id_partitions('past_p20240201')$$),
    (40, $$drop_old_id_partitions(NULL, now())$$), (41, $$drop_old_id_partitions('days', NULL)$$), (42, $$drop_old_id_partitions('days', now(), detach => NULL)$$),
    (43, $$drop_old_id_partitions('days', 'infinity')$$), (44, $$drop_old_id_partitions('days', '-infinity')$$), (45, $$drop_old_id_partitions('days', '2200-01-01 00:00+00')$$),
    (46, $$drop_old_id_partitions('days', now(), '-infinity')$$), (47, $$drop_old_id_partitions('plain', now())$$), (48, $$drop_old_id_partitions('expressed', now())$$),
    (49, $$drop_old_id_partitions(4294967295::oid, now())$$)) AS v(n, call), error_of(call) AS e ORDER BY n;
SELECT state FROM error_of($$drop_old_id_partitions('days', clock_timestamp() + interval '1 minute')$$);
-- No partition ends before the epoch, so none is dropped.
SELECT count(*) FROM drop_old_id_partitions('past', '2000-01-01+00');
-- Temporary tables are refused, as the functions run as the table's owner in a security-restricted operation.
CREATE TEMP TABLE temporary (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT * FROM raises($$SELECT create_id_partitions('temporary')$$);
-- A table that is in use by an active query of this session.
CREATE TABLE busy (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT count(*) > 3 AS many FROM create_id_partitions('busy', 'month', 0, '2025-01-01+00');
INSERT INTO busy VALUES (id_floor('2025-01-02+00'));
SELECT state, message, detail FROM raises($$SELECT create_id_partitions('busy', 'month', 9) FROM busy$$);
SELECT state, message, detail FROM raises($$SELECT drop_old_id_partitions('busy', '2025-02-01+00') FROM busy$$);

-- Privileges.
CREATE ROLE regress_id_mallory;
CREATE ROLE regress_id_owner;
CREATE ROLE regress_id_member IN ROLE regress_id_owner;
CREATE ROLE regress_id_outsider NOINHERIT IN ROLE regress_id_owner;
GRANT USAGE ON SCHEMA parts TO PUBLIC;
GRANT CREATE ON SCHEMA parts TO regress_id_owner;
CREATE TABLE owned (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
ALTER TABLE owned OWNER TO regress_id_owner;
GRANT ALL ON owned TO regress_id_mallory, regress_id_outsider;
SET ROLE regress_id_mallory;
SELECT * FROM raises($$SELECT create_id_partitions('owned')$$);
SELECT * FROM raises($$SELECT drop_old_id_partitions('owned', now())$$);
SET ROLE regress_id_outsider;
SELECT * FROM raises($$SELECT create_id_partitions('owned')$$);
SET ROLE regress_id_member;
SELECT state, message, detail FROM raises($$SELECT create_id_partitions('owned')$$);
RESET ROLE;
SELECT message, hint FROM raises($$SELECT create_id_partitions('owned')$$);
SET ROLE regress_id_owner;
SELECT count(*) FROM create_id_partitions('owned', 'month', 2);
SELECT count(*) > 12 AS many FROM create_id_partitions('owned', 'month', 2, '2025-01-01+00');
RESET ROLE;
SELECT state FROM raises($$SELECT create_id_partitions('owned', 'month', 0)$$);
SELECT state FROM raises($$SELECT drop_old_id_partitions('owned', '2020-01-01+00', detach => true)$$);
SELECT relowner::regrole, relacl FROM bounds JOIN pg_class ON oid = part WHERE parent = 'owned'::regclass GROUP BY 1, 2;
SET ROLE regress_id_member;
SELECT count(*) FROM drop_old_id_partitions('owned', '2025-02-01+00');
-- A partition that another role owns: the table's owner may detach it but not drop it. An error leaves nothing half done.
RESET ROLE;
ALTER TABLE owned_p20250301 OWNER TO regress_id_mallory;
SET ROLE regress_id_owner;
SELECT * FROM raises($$SELECT drop_old_id_partitions('owned', '2025-05-01+00')$$);
SELECT dropped FROM drop_old_id_partitions('owned', '2025-03-01+00') AS dropped;
SELECT * FROM drop_old_id_partitions('owned', '2025-04-01+00', detach => true);
SELECT min(begins) FROM bounds WHERE parent = 'owned'::regclass;
RESET ROLE;
SELECT relowner::regrole FROM pg_class WHERE oid = 'owned_p20250301'::regclass;
-- The owner of the table must be able to name a partition that is detached.
CREATE SCHEMA closed;
ALTER TABLE owned_p20250401 SET SCHEMA closed;
SET ROLE regress_id_owner;
SELECT * FROM raises($$SELECT drop_old_id_partitions('owned', '2025-05-01+00', detach => true)$$);
SELECT message, detail FROM raises($$SELECT drop_old_id_partitions('owned', '2025-05-01+00')$$);
RESET ROLE;
ALTER TABLE closed.owned_p20250401 SET SCHEMA parts;
DROP SCHEMA closed;
-- A superuser may drop it.
ALTER TABLE owned_p20250401 OWNER TO regress_id_mallory;
SELECT * FROM drop_old_id_partitions('owned', '2025-05-01+00');
-- Partitions are created as the table's owner, which needs CREATE on the schema.
REVOKE CREATE ON SCHEMA parts FROM regress_id_owner;
SET ROLE regress_id_owner;
SELECT state, message, detail FROM raises($$SELECT create_id_partitions('owned', 'month', 5)$$);
RESET ROLE;
-- A role that may not use the schema can pass the OID of its table, but keeps nobody from changing the schema.
GRANT CREATE ON SCHEMA parts TO regress_id_owner;
REVOKE USAGE ON SCHEMA parts FROM PUBLIC;
SELECT 'owned'::regclass::oid AS owned \gset
SET ROLE regress_id_owner;
SELECT * FROM unnest('{create_id_partitions(%s::regclass),"drop_old_id_partitions(%s::regclass, ''2000-01-01'')"}'::text[]) AS call,
    public.raises(format('SELECT public.' || call, :owned));
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND classid = 'pg_namespace'::regclass;
RESET ROLE;
GRANT USAGE ON SCHEMA parts TO PUBLIC;
-- The default privileges of the table's owner apply.
ALTER DEFAULT PRIVILEGES FOR ROLE regress_id_owner IN SCHEMA parts GRANT SELECT ON TABLES TO regress_id_mallory;
ALTER DEFAULT PRIVILEGES IN SCHEMA parts GRANT DELETE ON TABLES TO regress_id_mallory;
SET ROLE regress_id_owner;
SELECT has_table_privilege('regress_id_mallory', part, 'SELECT') AS by_owner, has_table_privilege('regress_id_mallory', part, 'DELETE') AS by_caller
FROM create_id_partitions('owned', 'month', 3) AS part;
RESET ROLE;
ALTER DEFAULT PRIVILEGES FOR ROLE regress_id_owner IN SCHEMA parts REVOKE SELECT ON TABLES FROM regress_id_mallory;
ALTER DEFAULT PRIVILEGES IN SCHEMA parts REVOKE DELETE ON TABLES FROM regress_id_mallory;

-- When partitions are created, detached and dropped, code of the table's owner runs only in the owner's session. One sequence
-- counts all runs of that code, the other one the runs with other privileges.
CREATE SCHEMA trap AUTHORIZATION regress_id_mallory;
SET ROLE regress_id_mallory;
CREATE SEQUENCE trap.sprung;
CREATE SEQUENCE trap.caught;
GRANT ALL ON SEQUENCE trap.sprung, trap.caught TO PUBLIC;
GRANT USAGE ON SCHEMA trap TO PUBLIC;
CREATE FUNCTION trap.spring(what text) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM nextval('trap.sprung');
    IF current_user <> 'regress_id_mallory' THEN
        PERFORM nextval('trap.caught');
        RAISE WARNING '% as %', what, current_user;
    END IF;
    RETURN 0;
END $$;
CREATE DOMAIN trap.id AS bigint CHECK (VALUE > trap.spring('domain') - 1);
CREATE TABLE trap.bait (id trap.id NOT NULL, a bigint DEFAULT trap.spring('default'), b bigint GENERATED ALWAYS AS (id + trap.spring('generated')) STORED,
    CHECK (a > trap.spring('check'))) PARTITION BY RANGE (id);
CREATE UNIQUE INDEX ON trap.bait (id);
CREATE INDEX ON trap.bait ((a + trap.spring('index'))) WHERE a > trap.spring('predicate');
CREATE TABLE trap.bait_rest PARTITION OF trap.bait DEFAULT;
CREATE TABLE trap.key (id bigint) PARTITION BY RANGE ((id + trap.spring('key')));
CREATE TABLE trap.refers (bait trap.id REFERENCES trap.bait (id));
CREATE INDEX ON trap.refers ((bait + trap.spring('referring'))) WHERE bait > trap.spring('referring predicate');
RESET ROLE;
CREATE FUNCTION sprung(OUT sprung bool, OUT with_other_rights bool) LANGUAGE plpgsql AS $$
BEGIN
    SELECT s.is_called, c.is_called INTO sprung, with_other_rights FROM trap.sprung AS s, trap.caught AS c;
    PERFORM setval('trap.sprung', 1, false), setval('trap.caught', 1, false);
END $$;
SELECT sprung IS NOT NULL AS reset FROM sprung();
SELECT message, hint FROM raises($$SELECT create_id_partitions('trap.bait')$$);
SELECT sprung FROM sprung();
SET ROLE regress_id_mallory;
SELECT count(*) > 3 AS many FROM create_id_partitions('trap.bait', 'month', 0, '2025-01-01+00');
SELECT count(*) FROM create_id_partitions('trap.bait', 'month', 0, '2025-01-01+00');
SELECT count(*) FROM drop_old_id_partitions('trap.bait', '2025-02-01+00', detach => true);
RESET ROLE;
SELECT * FROM sprung();
SELECT state, message FROM raises($$SELECT drop_old_id_partitions('trap.bait', '2025-03-01+00')$$);
SELECT message FROM raises($$SELECT drop_old_id_partitions('trap.bait', '2025-03-01+00', detach => true)$$);
SELECT sprung FROM sprung();
SELECT state, message, detail FROM raises($$SELECT create_id_partitions('trap.key')$$);
SELECT state, message, detail FROM raises($$SELECT drop_old_id_partitions('trap.key', now())$$);
SELECT sprung FROM sprung();

-- Other roles' tables have code, too, which PostgreSQL would run with the rights of the table's owner: a table that refers to the
-- partitioned one, or that it refers to; a table that it is a partition of; its default partition; a partition that is detached.
CREATE FUNCTION in_general(OUT state text, OUT message text, OUT detail text, call text) LANGUAGE sql AS $$
    SELECT r.state, regexp_replace(r.message, '_p\d+', '_pDAY'), replace(r.detail, format('role %s,', current_user), 'role SUPERUSER,') FROM public.raises('SELECT ' || call) AS r;
$$;
CREATE TABLE referenced (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE referencing (id bigint PRIMARY KEY, other bigint) PARTITION BY RANGE (id);
CREATE TABLE with_default (id bigint PRIMARY KEY, a bigint) PARTITION BY RANGE (id);
CREATE TABLE with_other_partition (id bigint PRIMARY KEY, a bigint) PARTITION BY RANGE (id);
CREATE TABLE with_other_below (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE with_rest PARTITION OF with_default DEFAULT;
SELECT count(*) >= 6 AS are_created FROM unnest('{referenced,with_other_partition,with_other_below}'::regclass[]) AS t,
    create_id_partitions(t, 'month', 0, now() - interval '40 days');
CREATE TABLE of_owner (other bigint REFERENCES with_other_partition);
CREATE TABLE of_owner_too (id bigint REFERENCES with_other_below, a bigint) PARTITION BY RANGE (a);
CREATE TABLE below_of_owner PARTITION OF of_owner_too FOR VALUES FROM (0) TO (10);
SELECT min(part::text) AS other_partition FROM bounds WHERE parent = 'with_other_partition'::regclass \gset
ALTER TABLE with_rest OWNER TO regress_id_mallory;
ALTER TABLE :other_partition OWNER TO regress_id_mallory;
ALTER TABLE below_of_owner OWNER TO regress_id_mallory;
GRANT CREATE ON SCHEMA parts TO regress_id_mallory;
GRANT REFERENCES ON referenced TO regress_id_mallory;
SET ROLE regress_id_mallory;
CREATE TABLE trap.refers_to_other (id bigint REFERENCES referenced, a bigint);
CREATE TABLE trap.parts_refer_to_other (id bigint REFERENCES referenced, a bigint) PARTITION BY RANGE ((a + trap.spring('key of referencing')));
CREATE TABLE trap.referred (id bigint PRIMARY KEY, a bigint);
CREATE TABLE trap.above (id bigint, a bigint) PARTITION BY LIST ((a + trap.spring('key above')));
CREATE INDEX ON trap.refers_to_other ((a + trap.spring('index of referencing')));
CREATE INDEX ON trap.referred ((a + trap.spring('index of referenced')));
CREATE INDEX ON :other_partition ((a + trap.spring('index of partition')));
CREATE INDEX ON below_of_owner ((a + trap.spring('index below referencing')));
ALTER TABLE with_rest ADD CHECK (a + trap.spring('check of default partition') IS NOT NULL);
RESET ROLE;
REVOKE CREATE ON SCHEMA parts FROM regress_id_mallory;
ALTER TABLE referencing ADD FOREIGN KEY (other) REFERENCES trap.referred;
SET client_min_messages = error;
CREATE TABLE trap.inner PARTITION OF trap.above FOR VALUES IN (1) PARTITION BY RANGE (id);
ALTER TABLE trap.inner SET SCHEMA parts;
-- In a new session, which has read none of these expressions.
\c -
SET client_min_messages = warning;
SET TimeZone = 'Asia/Kolkata';
SET DateStyle = 'ISO';
SET search_path = parts, public;
SELECT sprung IS NOT NULL AS reset FROM sprung();
SELECT call, e.* FROM unnest(ARRAY['create_id_partitions(''referencing'')', 'create_id_partitions(''with_default'')', 'create_id_partitions(''"inner"'')',
    'drop_old_id_partitions(''referenced'', now())', 'drop_old_id_partitions(''referenced'', now(), detach => true)',
    'drop_old_id_partitions(''with_other_partition'', now())', 'drop_old_id_partitions(''with_other_below'', now())']) AS call, in_general(call) AS e;
SELECT * FROM sprung();
-- A table that refers to the partitioned one does not prevent new partitions, for which its code is not run.
SELECT count(*) FROM create_id_partitions('referenced', 'month', 1);
SELECT * FROM sprung();
-- A partition of another role is detached if nothing refers to it, and dropped by a superuser. Neither runs its code.
DROP TABLE of_owner;
SELECT count(*) > 0 AS dropped FROM drop_old_id_partitions('with_other_partition', now());
SELECT * FROM sprung();
-- Roles with the rights of the owner are trusted, by membership for one.
DROP TABLE trap.refers_to_other, trap.parts_refer_to_other;
CREATE TABLE refers_to_owned (id bigint REFERENCES owned);
GRANT SELECT ON refers_to_owned TO regress_id_owner;
ALTER TABLE refers_to_owned OWNER TO regress_id_outsider;
SET ROLE regress_id_owner;
SELECT e.* FROM in_general('drop_old_id_partitions(''owned'', now() - interval ''5 months'')') AS e;
RESET ROLE;
ALTER TABLE refers_to_owned OWNER TO regress_id_member;
SET ROLE regress_id_owner;
SELECT count(*) > 0 AS dropped FROM drop_old_id_partitions('owned', now() - interval '5 months');
RESET ROLE;
ALTER TABLE refers_to_owned OWNER TO CURRENT_USER;
SET ROLE regress_id_owner;
SELECT count(*) > 0 AS dropped FROM drop_old_id_partitions('owned', now() - interval '3 months');
RESET ROLE;
DROP SCHEMA trap CASCADE;

-- Policies of a referenced table do not prevent new partitions, which have no rows, also for their owner.
CREATE TABLE with_policies (id bigint PRIMARY KEY);
CREATE TABLE refers_to_policies (id bigint, other bigint REFERENCES with_policies) PARTITION BY RANGE (id);
ALTER TABLE with_policies ENABLE ROW LEVEL SECURITY;
ALTER TABLE with_policies FORCE ROW LEVEL SECURITY;
GRANT CREATE ON SCHEMA parts TO regress_id_owner;
ALTER TABLE with_policies OWNER TO regress_id_owner;
ALTER TABLE refers_to_policies OWNER TO regress_id_owner;
SET ROLE regress_id_owner;
SELECT count(*) FROM create_id_partitions('refers_to_policies', 'month', 1);
RESET ROLE;
DROP TABLE refers_to_policies, with_policies;

-- Partitions have all properties of their table: defaults, generated and identity columns, checks, collations, storage,
-- compression, indexes, unique and foreign keys, triggers.
CREATE TABLE people (id bigint PRIMARY KEY);
INSERT INTO people VALUES (1);
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.stamped := tg_table_name; RETURN new; END $$;
CREATE TABLE rich (
    gone int, id bigint DEFAULT make_id('2025-01-15+00', 5, 1), number int GENERATED BY DEFAULT AS IDENTITY,
    person bigint NOT NULL REFERENCES people ON DELETE CASCADE, title text COLLATE "C" DEFAULT 'untitled' CHECK (title <> ''),
    length int GENERATED ALWAYS AS (char_length(title)) STORED, stamped name, PRIMARY KEY (id), UNIQUE (id, title) DEFERRABLE INITIALLY DEFERRED
) PARTITION BY RANGE (id);
ALTER TABLE rich DROP gone;
ALTER TABLE rich ALTER title SET STORAGE EXTERNAL, ALTER title SET COMPRESSION pglz, ALTER title SET STATISTICS 500;
CREATE INDEX rich_title ON rich (lower(title)) WHERE length > 3;
CREATE STATISTICS rich_statistics ON person, title FROM rich;
CREATE TRIGGER stamp BEFORE INSERT ON rich FOR EACH ROW EXECUTE FUNCTION stamp();
ALTER TABLE rich ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_of_it ON rich USING (true);
CREATE TABLE rich_by_postgres PARTITION OF rich FOR VALUES FROM (0) TO (1000);
SELECT count(*) > 3 AS many FROM create_id_partitions('rich', 'month', 1, '2025-01-01+00', epoch => '2011-08-24 21:07:01.721+00');
-- They equal the partitions that PostgreSQL creates.
CREATE FUNCTION looks(t regclass) RETURNS TABLE (kind text, what text) BEGIN ATOMIC
    SELECT 'column', format('%s %s %s %s %s %s %s %s %s', attname, format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated, attstorage, attcompression,
                            attcollation::regcollation, pg_get_expr(adbin, adrelid))
    FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE attrelid = t AND attnum > 0 AND NOT attisdropped
    UNION ALL SELECT 'constraint', concat_ws(' ', contype, convalidated, conislocal, coninhcount, pg_get_constraintdef(oid)) FROM pg_constraint WHERE conrelid = t AND contype <> 'n'
    UNION ALL SELECT 'not null', pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = t AND contype = 'n'
    UNION ALL SELECT 'index', replace(regexp_replace(pg_get_indexdef(indexrelid), 'INDEX \S+ ON', 'INDEX ON'), t::text, 't') FROM pg_index WHERE indrelid = t
    UNION ALL SELECT 'trigger', format('%s %s %s', tgname, tgenabled, tgparentid <> 0) FROM pg_trigger WHERE tgrelid = t AND NOT tgisinternal
    UNION ALL SELECT 'statistics', stxname FROM pg_statistic_ext WHERE stxrelid = t
    UNION ALL SELECT 'table', format('%s %s %s %s %s', relpersistence, relrowsecurity, reloptions, relam, reltablespace) FROM pg_class WHERE oid = t;
END;
SELECT * FROM (SELECT * FROM looks('rich_p20250101') EXCEPT ALL SELECT * FROM looks('rich_by_postgres')) AS more
UNION ALL SELECT * FROM (SELECT * FROM looks('rich_by_postgres') EXCEPT ALL SELECT * FROM looks('rich_p20250101')) AS less;
SELECT kind, count(*) FROM looks('rich_p20250101') WHERE kind <> 'not null' GROUP BY 1 ORDER BY 1;
-- An identity key.
CREATE TABLE numbered (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int) PARTITION BY RANGE (id);
SELECT count(*) FROM create_id_partitions('numbered', 'day', 0, epoch => date_trunc('day', now(), 'UTC'));
INSERT INTO numbered (a) VALUES (7) RETURNING id, a;
-- Tablespace, access method.
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_id_space LOCATION '';
CREATE TABLE placed (id bigint PRIMARY KEY USING INDEX TABLESPACE regress_id_space) PARTITION BY RANGE (id) TABLESPACE regress_id_space;
SELECT count(*) FROM create_id_partitions('placed', 'month', 0);
ALTER TABLE placed SET TABLESPACE pg_default;
SELECT count(*) FROM create_id_partitions('placed', 'month', 1);
SET default_tablespace = regress_id_space;
SELECT count(*) FROM create_id_partitions('placed', 'month', 2);
RESET default_tablespace;
SELECT spcname, count(*) FROM bounds JOIN pg_class AS c ON c.oid = part LEFT JOIN pg_tablespace AS t ON t.oid = reltablespace WHERE parent = 'placed'::regclass GROUP BY 1 ORDER BY 1;
DROP TABLE placed;
DROP TABLESPACE regress_id_space;
CREATE ACCESS METHOD "Heap 2" TYPE TABLE HANDLER heap_tableam_handler;
SELECT current_setting('server_version_num')::int >= 170000 AS has_access_methods \gset
CREATE TABLE stored (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
\if :has_access_methods
ALTER TABLE stored SET ACCESS METHOD "Heap 2";
\else
SET default_table_access_method = "Heap 2";
\endif
SELECT count(*) FROM create_id_partitions('stored', 'month', 0);
SELECT amname FROM bounds JOIN pg_class AS c ON c.oid = part JOIN pg_am AS a ON a.oid = relam WHERE parent = 'stored'::regclass;
RESET default_table_access_method;
DROP TABLE stored;
DROP ACCESS METHOD "Heap 2";
-- Partitions that are partitioned themselves, and partitions of a partition: by list, then by time.
CREATE TABLE listed_then (region text, id bigint) PARTITION BY LIST (region);
CREATE TABLE listed_then_eu PARTITION OF listed_then FOR VALUES IN ('eu') PARTITION BY RANGE (id);
SELECT * FROM create_id_partitions('listed_then_eu', 'month', 0, '2025-01-01+00') LIMIT 1;
INSERT INTO listed_then VALUES ('eu', make_id('2025-01-15+00', 5, 1)) RETURNING tableoid::regclass;
CREATE TABLE sub (id bigint, shard int) PARTITION BY RANGE (id);
CREATE TABLE sub_old PARTITION OF sub FOR VALUES FROM (id_floor('2025-01-10+00')) TO (id_floor('2025-01-20+00')) PARTITION BY HASH (shard);
CREATE TABLE sub_old_0 PARTITION OF sub_old FOR VALUES WITH (MODULUS 1, REMAINDER 0);
SELECT * FROM create_id_partitions('sub', 'month', 0, '2025-01-15+00') LIMIT 2;
INSERT INTO sub VALUES (make_id('2025-01-15+00', 5, 1), 5);
SELECT * FROM drop_old_id_partitions('sub', '2025-01-20+00');
SELECT to_regclass('sub_old_0');

-- A read-only transaction allows neither creating nor dropping.
CREATE TABLE done (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT count(*) > 3 AS many FROM create_id_partitions('done', 'month', 0, '2025-01-01+00');
BEGIN READ ONLY;
SELECT create_id_partitions('done');
ROLLBACK;
BEGIN READ ONLY;
SELECT drop_old_id_partitions('done', now());
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM done;
SELECT count(*) > 50 AS many FROM create_id_partitions('done', 'day', 90);
INSERT INTO done VALUES (id_floor(now() + interval '60 days')) RETURNING id > 0 AS inserted;
COMMIT;
-- Called in a procedure, and in a prepared statement.
CREATE PROCEDURE maintain(t regclass) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM create_id_partitions(t, 'day', 95);
    COMMIT;
    PERFORM drop_old_id_partitions(t, now() - interval '1 year');
END $$;
CALL maintain('done');
CALL maintain('done');
PREPARE again(int) AS SELECT count(*) FROM create_id_partitions('done', 'day', $1);
EXECUTE again(95);
EXECUTE again(96);

-- Dropping. The last id of a partition belongs to the millisecond before its end.
CREATE TABLE over (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT count(*) > 3 AS many FROM create_id_partitions('over', 'month', 0, '2024-01-01+00');
INSERT INTO over SELECT lo::bigint FROM bounds WHERE parent = 'over'::regclass;
BEGIN;
SELECT * FROM drop_old_id_partitions('over', '2024-01-31 23:59:59.999+00');
SELECT * FROM drop_old_id_partitions('over', '2024-01-31 23:59:59.999001+00');
ROLLBACK;
SELECT * FROM drop_old_id_partitions('over', '2024-02-01 00:00+00');
SELECT * FROM drop_old_id_partitions('over', '2024-02-01 00:00:00.000001+00');
SELECT * FROM drop_old_id_partitions('over', '2024-05-01 00:00+00');
SELECT to_regclass('over_p20240101'), to_regclass('over_p20240401'), min(id) = id_floor('2024-05-01+00') AS rest FROM over;
-- Detached partitions become tables of their own and keep their names.
SELECT * FROM drop_old_id_partitions('over', '2024-07-01 00:00+00', detach => true);
SELECT count(*), relispartition FROM over_p20240601 JOIN pg_class ON oid = 'over_p20240601'::regclass GROUP BY 2;
SELECT * FROM create_id_partitions('over', 'month', 0, '2024-06-01+00');
-- With a wrong epoch all partitions would look old, even future ones. That is an error.
CREATE TABLE own.over (LIKE own.photos) PARTITION BY RANGE (id);
SELECT count(*) > 3 AS many FROM create_id_partitions('own.over', 'month', 0, '2024-01-01+00');
SELECT * FROM raises($$SELECT drop_old_id_partitions('own.over', '2024-02-01+00', epoch => '2011-08-24 21:07:01.721+00')$$);
SELECT count(*) > 3 AS all_there FROM bounds WHERE parent = 'own.over'::regclass;
-- It is also an error if they look only a year older, which would drop those of the last year.
CREATE TABLE year_later (id bigint) PARTITION BY RANGE (id);
SELECT count(*) > 24 AS many FROM create_id_partitions('year_later', 'month', 3, now() - interval '3 years', '2012-08-24 21:07:01.721+00');
SELECT state FROM raises($$SELECT drop_old_id_partitions('year_later', now() - interval '2 years')$$);
SELECT count(*) BETWEEN 11 AND 13 AS a_year FROM drop_old_id_partitions('year_later', now() - interval '2 years', '2012-08-24 21:07:01.721+00');
-- Keys of a serial have no time: a partition that begins with them stays.
CREATE TABLE serials (id bigserial) PARTITION BY RANGE (id);
CREATE TABLE serials_before PARTITION OF serials FOR VALUES FROM (1) TO (id_floor('2024-01-01+00'));
SELECT count(*) > 3 AS many FROM create_id_partitions('serials', 'month', 0, '2024-01-01+00');
SELECT * FROM drop_old_id_partitions('serials', '2024-02-01+00');
DROP TABLE serials;
SELECT * FROM drop_old_id_partitions('own.over', '2024-02-01+00');
SELECT * FROM drop_old_id_partitions('own.over', '2024-03-01+00', own.epoch());
-- Partitions that begin before the epoch or have no lower bound are kept; so are future ones, to the microsecond.
SELECT count(*) FROM drop_old_id_partitions('by_hand', '2025-02-01+00');
SELECT count(*) FROM bounds WHERE parent = 'by_hand'::regclass AND lo IS NULL;
CREATE TABLE early (id bigint) PARTITION BY RANGE (id);
CREATE TABLE early_negative PARTITION OF early FOR VALUES FROM (-5) TO (10);
CREATE TABLE early_first PARTITION OF early FOR VALUES FROM (id_floor('2012-01-01+00')) TO (id_floor('2012-02-01+00'));
SELECT state FROM raises($$SELECT drop_old_id_partitions('early', now())$$);
CREATE TABLE early_last PARTITION OF early FOR VALUES FROM (id_floor('2012-02-01+00')) TO (MAXVALUE);
SELECT state FROM raises($$SELECT drop_old_id_partitions('early', now())$$);
DROP TABLE early_last;
CREATE TABLE early_last PARTITION OF early FOR VALUES FROM (id_floor('2045-01-01+00')) TO (MAXVALUE);
SELECT * FROM drop_old_id_partitions('early', now(), '2011-08-24 21:07:01.721+00');
SELECT parts FROM summary('early');
-- With another epoch than before, new partitions are years away from the old ones. Then these are dropped only by an epoch that is passed.
SELECT create_shard(71, epoch => '2026-01-01+00');
CREATE TABLE moved (id bigint DEFAULT insta71.next_id()) PARTITION BY RANGE (id);
SELECT count(*) > 3 AS many FROM create_id_partitions('moved', 'month', 1, '2026-01-01+00');
INSERT INTO moved DEFAULT VALUES;
DROP SCHEMA insta71 CASCADE;
SELECT count(*) FROM create_id_partitions('moved', 'month', 1);
SELECT state, message, hint FROM raises($$SELECT drop_old_id_partitions('moved', now() - interval '2 years')$$);
SELECT count(*) FROM drop_old_id_partitions('moved', '2026-02-01+00', '2026-01-01+00');
SELECT count(*) FROM moved;
-- Nor is an epoch guessed for a default that calls more than next_id(), in a schema without a shard.
SELECT create_shard(73, epoch => '2026-01-01+00');
CREATE DOMAIN key_73 AS bigint DEFAULT insta73.next_id();
CREATE TABLE wrapped (id bigint DEFAULT coalesce(insta73.next_id(), 0)) PARTITION BY RANGE (id);
CREATE TABLE of_domain (id key_73) PARTITION BY RANGE (id);
CREATE TABLE by_setting (id bigint DEFAULT next_id()) PARTITION BY RANGE (id);
SELECT * FROM raises($$SELECT create_id_partitions('wrapped')$$);
SELECT state FROM raises($$SELECT create_id_partitions('of_domain')$$);
SELECT state, message FROM raises($$SELECT create_id_partitions('by_setting')$$);
SET instagram_id.shard = 73;
SELECT count(*) FROM create_id_partitions('by_setting', 'month', 0);
INSERT INTO by_setting DEFAULT VALUES;
RESET instagram_id.shard;
SELECT count(*) FROM create_id_partitions('wrapped', 'month', 0, epoch => insta73.epoch());
INSERT INTO wrapped DEFAULT VALUES;
-- Nor in the schema of a shard, where the default may generate ids of another one.
CREATE SEQUENCE insta73.other;
CREATE TABLE insta73.plain (id bigint DEFAULT (floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint << 23) | nextval('insta73.other') % 1024) PARTITION BY RANGE (id);
CREATE TABLE insta73.by_setting (id bigint DEFAULT next_id()) PARTITION BY RANGE (id);
CREATE TABLE insta73.numbered (id bigserial) PARTITION BY RANGE (id);
SELECT state FROM unnest('{plain,by_setting}'::text[]) AS name, raises(format('SELECT create_id_partitions(''insta73.%s'')', name));
SELECT count(*) FROM create_id_partitions('insta73.numbered', 'month', 0);
-- A default with an epoch of its own, or the original one: the new partition takes its ids.
DO $$
DECLARE call text;
BEGIN
    CREATE SEQUENCE insta73.clock;
    FOREACH call IN ARRAY '{"next_id(73, ''insta73.clock'')", "next_id(73, ''insta73.clock'', ''2020-01-01+00'')",
        "shard_next_id(73, ''insta73.clock'', ''2020-01-01+00'')", "node_next_id(''insta73.clock'')",
        "node_next_id(''insta73.clock'', ''2020-01-01+00'')"}'::text[] LOOP
        EXECUTE format('CREATE TABLE insta73.called (id bigint DEFAULT %s) PARTITION BY RANGE (id)', call);
        PERFORM create_id_partitions('insta73.called', 'month', 0);
        INSERT INTO insta73.called DEFAULT VALUES;
        DROP TABLE insta73.called;
        ALTER SEQUENCE insta73.clock RESTART;
    END LOOP;
END $$;
DROP SCHEMA insta73 CASCADE;
-- A shard that does not exist gives no epoch.
ALTER TABLE moved ALTER id SET DEFAULT next_id(71);
SELECT state, message FROM raises($$SELECT create_id_partitions('moved')$$);
SELECT state, message FROM raises($$SELECT drop_old_id_partitions('moved', now() - interval '2 years')$$);
-- Today's partition is not dropped. (In a transaction now() stays on that day even if midnight passes.)
BEGIN;
CREATE TABLE today (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
SELECT count(*) FROM create_id_partitions('today', 'day', 1);
SELECT count(*) FROM drop_old_id_partitions('today', now());
ROLLBACK;
-- Queries on the table do not read a partition whose DETACH CONCURRENTLY was interrupted, and it stays.
CREATE TABLE leaving (id bigint) PARTITION BY RANGE (id);
CREATE TABLE leaving_1 PARTITION OF leaving FOR VALUES FROM (id_floor('2025-01-01+00')) TO (id_floor('2025-02-01+00'));
CREATE TABLE leaving_2 PARTITION OF leaving FOR VALUES FROM (id_floor('2025-02-01+00')) TO (id_floor('2025-03-01+00'));
CREATE TABLE leaving_3 PARTITION OF leaving FOR VALUES FROM (id_floor('2025-03-01+00')) TO (id_floor(now() + interval '1 day'));
INSERT INTO leaving VALUES (id_floor('2025-01-01+00'));
UPDATE pg_inherits SET inhdetachpending = true WHERE inhrelid = 'leaving_1'::regclass;
SET client_min_messages = notice;
SELECT * FROM drop_old_id_partitions('leaving', '2025-03-01+00');
SELECT count(*) > 0 AS later FROM create_id_partitions('leaving', 'month', 0, '2025-01-01+00');
SET client_min_messages = warning;
ALTER TABLE leaving DETACH PARTITION leaving_1 FINALIZE;
SELECT count(*) FROM leaving_1;
-- A view on a partition: PostgreSQL raises an error, and nothing is dropped. Detaching keeps the view.
CREATE VIEW on_july AS SELECT * FROM over_p20240801;
SELECT * FROM raises($$SELECT drop_old_id_partitions('over', '2024-09-01+00')$$);
SELECT to_regclass('over_p20240701');
SELECT * FROM drop_old_id_partitions('over', '2024-09-01+00', detach => true);
SELECT count(*) FROM on_july;
-- Tables with foreign keys to the partitioned table: a partition can be dropped when no row refers to it.
CREATE TABLE likes (photo bigint REFERENCES over ON DELETE CASCADE);
INSERT INTO likes SELECT lo::bigint FROM bounds WHERE part = 'over_p20241001'::regclass;
SELECT state, split_part(message, ' "likes', 1) AS message FROM raises($$SELECT drop_old_id_partitions('over', '2024-11-01+00')$$);
SELECT state, split_part(message, ' "likes', 1) AS message FROM raises($$SELECT drop_old_id_partitions('over', '2024-11-01+00', detach => true)$$);
SELECT * FROM drop_old_id_partitions('over', '2024-10-01+00');
DELETE FROM likes;
SELECT * FROM drop_old_id_partitions('over', '2024-11-01+00');
SELECT * FROM drop_old_id_partitions('over', '2024-12-01+00', detach => true);
SELECT state FROM raises($$INSERT INTO likes VALUES (1)$$);
-- Pending trigger events prevent it.
BEGIN;
CREATE TABLE deferred (id bigint PRIMARY KEY, other bigint REFERENCES over DEFERRABLE INITIALLY DEFERRED) PARTITION BY RANGE (id);
SELECT count(*) > 3 AS many FROM create_id_partitions('deferred', 'month', 0, '2024-01-01+00');
INSERT INTO deferred VALUES (id_floor('2024-01-05+00'), NULL), (id_floor('2024-01-06+00'), 5);
SELECT state, message, detail FROM raises($$SELECT drop_old_id_partitions('deferred', '2024-02-01+00')$$);
ROLLBACK;
-- Foreign tables.
CREATE FOREIGN DATA WRAPPER regress_id_wrapper;
CREATE SERVER regress_id_server FOREIGN DATA WRAPPER regress_id_wrapper;
CREATE TABLE far (id bigint) PARTITION BY RANGE (id);
CREATE FOREIGN TABLE far_1 PARTITION OF far FOR VALUES FROM (id_floor('2024-12-01+00')) TO (id_floor('2025-01-01+00')) SERVER regress_id_server;
CREATE FOREIGN TABLE far_2 PARTITION OF far FOR VALUES FROM (id_floor('2025-01-01+00')) TO (id_floor('2025-01-15+00')) SERVER regress_id_server;
SELECT * FROM create_id_partitions('far', 'month', 0, '2025-01-01+00') LIMIT 1;
SELECT * FROM drop_old_id_partitions('far', '2025-01-01+00', detach => true);
SELECT * FROM drop_old_id_partitions('far', '2025-02-01+00');
SELECT relname, relkind, relispartition FROM pg_class WHERE relname LIKE 'far\__' ORDER BY 1;
DROP FOREIGN DATA WRAPPER regress_id_wrapper CASCADE;
-- An error with the SQLSTATE of a name in use is not lost, as that of an event trigger.
BEGIN;
SET LOCAL lock_timeout = '50ms';
CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE duplicate_table USING MESSAGE = 'not on a Friday'; END $$;
CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION refuse();
SELECT state, message, regexp_replace(detail, '_p\d+', '_pN', 'g') AS detail FROM raises($$SELECT create_id_partitions('days', 'day', 9)$$);
ROLLBACK;

DROP SCHEMA parts, own CASCADE;
DROP ROLE regress_id_mallory, regress_id_owner, regress_id_member, regress_id_outsider;

-- The codec: worked examples, extremes, epochs, and invalid arguments.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
SET IntervalStyle = 'postgres';
\set ECHO all

-- The published write-ups' worked examples, in milliseconds since the epoch: shard 31341 % 2000, sequence 5001; user
-- 5001 % 2000 with sequences 809 and 9000.
SELECT make_id(to_ms, shard, seq, timestamptz 'epoch') AS id
FROM (VALUES (timestamptz 'epoch' + 1387263000 * interval '1 ms', 31341 % 2000, 5001 % 1024),
             (timestamptz 'epoch' + 264384000000 * interval '1 ms', 5001 % 2000, 809),
             (timestamptz 'epoch' + 264384000000 * interval '1 ms', 1001, 9000 % 1024)) AS t(to_ms, shard, seq);
SELECT id_shard(id), id_seq(id), extract(epoch FROM id_time(id, 'epoch')) * 1000 AS ms
FROM (VALUES (11637205501278089), (2217813737473025833), (2217813737473025832)) AS t(id);

-- An id with the original's epoch, and the ids of three public posts with the Unix time of the post.
SELECT id, id_time(id), id_shard(id), id_seq(id) FROM (VALUES (1671372309237077023)) AS t(id);
SELECT id, id_time(id) - to_timestamp(posted_at) AS later, id_shard(id), id_seq(id)
FROM (VALUES (2236262423948874256, 1580803276), (2156615653142894199, 1571308641), (1857265514529027276, NULL))
     AS t(id, posted_at);

-- All parts in one call, and the reverse.
SELECT * FROM id_parts(1671372309237077023);
SELECT * FROM id_parts(1671372309237077023, '2011-01-01 00:00+00');
SELECT make_id(created_at, shard, seq) FROM id_parts(1671372309237077023);
SELECT make_id(created_at, shard, seq, '2011-01-01 00:00+00')
FROM id_parts(1671372309237077023, '2011-01-01 00:00+00');

-- The full unsigned range: the sign bit is the time field's highest.
SELECT id, p.* FROM (VALUES (0), (1023), (8191 << 10), (9223372036854775807), (-9223372036854775808), (-1)) AS t(id),
     LATERAL id_parts(id) AS p;
SELECT make_id('2046-06-27 17:00:49.496999+00', 8191, 1023) AS largest,
       make_id('2046-06-27 17:00:49.497+00', 0, 0) AS smallest,
       make_id('2081-04-30 12:54:37.272999+00', 8191, 1023) AS last;

-- Round trips over a spread of ids, negative ones included.
SELECT count(*) AS ids,
       count(*) FILTER (WHERE make_id(id_time(id), id_shard(id), id_seq(id)) = id) AS round_trips,
       count(*) FILTER (WHERE id_floor(id_time(id)) = (id >> 23) << 23) AS floors
FROM (SELECT (g - 500000)::bigint * 18446744073709 AS id FROM generate_series(0, 999999) AS g) AS spread;

-- Microseconds: make_id() truncates them, id_floor() rounds up to the next millisecond.
SELECT id_time(make_id('2026-01-01 00:00:00.001999+00', 1, 1)),
       id_time(id_floor('2026-01-01 00:00:00.001+00')) AS exact,
       id_time(id_floor('2026-01-01 00:00:00.001001+00')) AS next;
-- An epoch that is not a full millisecond: times count from the epoch itself.
SELECT id_time(make_id('2026-01-01 00:00:00.000500+00', 1, 1, '2025-12-31 23:59:59.9999+00'), '2025-12-31 23:59:59.9999+00');

-- A range includes its start and excludes its end.
SELECT t, id_between(make_id(t, 8191, 1023), '2026-01-01+00', '2026-02-01+00')
FROM (VALUES (timestamptz '2025-12-31 23:59:59.999+00'), ('2026-01-01+00'), ('2026-01-31 23:59:59.999+00'), ('2026-02-01+00')) AS v(t);
SELECT id_between(5::bigint << 23, '2011-01-01 00:00:00.005+00', '2011-01-01 00:00:00.006+00', '2011-01-01+00') AS inside,
       id_between(5::bigint << 23, '2011-01-01 00:00:00.006+00', '2011-01-01 00:00:00.005+00', '2011-01-01+00') AS reversed,
       id_between(5::bigint << 23, '2011-01-01 00:00:00.005+00', '2011-01-01 00:00:00.005+00', '2011-01-01+00') AS empty,
       id_between(0, '2011-01-01+00', '2011-01-01+00', '2011-01-01+00') AS empty_at_epoch,
       id_between(-5::bigint << 23, '2050-01-01+00', '2081-04-30 12:54:37.272+00') AS negative_inside,
       id_between(5::bigint << 23, '2050-01-01+00', '2081-01-01+00') AS positive_outside;
-- The months of a year contain each id of the year once.
SELECT count(*), count(DISTINCT id)
FROM generate_series(timestamptz '2026-01-01+00', '2026-12-01+00', '1 month') AS m,
     (SELECT make_id(d, 7, 0) AS id FROM generate_series(timestamptz '2026-01-01+00', '2026-12-31 23:59+00', '1 hour') AS d) AS ids
WHERE id_between(id, m, m + '1 month');

-- The shard of a key is never negative.
SELECT shard_for(31341, 2000), shard_for(-1, 2000), shard_for(-9223372036854775808, 8192), shard_for(9223372036854775807, 8192),
       shard_for(-9223372036854775808, 1);

-- The session's time zone and date style have no effect.
SET TimeZone = 'America/New_York';
SET DateStyle = 'SQL, DMY';
SELECT id_floor('2026-01-01 00:00+00') AS id, extract(epoch FROM id_time(1671372309237077023)) AS unix;
RESET TimeZone;
RESET DateStyle;

-- NULL in, NULL out.
SELECT id_time(NULL), id_time(1, NULL), id_shard(NULL), id_seq(NULL), make_id(NULL, 1, 1), make_id('epoch', NULL, 1),
       make_id('epoch', 1, NULL), id_floor(NULL), id_floor('epoch', NULL), shard_for(NULL, 1), shard_for(1, NULL),
       id_between(NULL, '2026-01-01', '2026-02-01'), id_range_end(NULL, NULL);
SELECT * FROM id_parts(NULL);

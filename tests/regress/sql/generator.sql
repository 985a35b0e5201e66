-- Generating ids in one session, and the changes to the sequence that do not cause a duplicate.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
\set ECHO all

SELECT create_shard(1);
-- All ids generated below are inserted here. A duplicate would be an error, and the order is checked at the end.
CREATE TABLE issued (n int GENERATED ALWAYS AS IDENTITY, id bigint UNIQUE, seq text DEFAULT 'insta1');

-- An id consists of the time, the shard, and a counter of the sequence.
WITH made AS (SELECT next_id(1) AS id)
SELECT abs(extract(epoch FROM clock_timestamp() - id_time(id))) < 1 AS now, id_shard(id), id_seq(id) FROM made;
SELECT id_seq(next_id(1)) AS second, id_seq(insta1.next_id()) AS third, id_seq(next_id(1, 'insta1.table_id_seq')) AS fourth;
-- last_value is the id without its shard bits.
INSERT INTO issued (id) SELECT next_id(1);
SELECT last_value = ((id >> 23) << 10 | id_seq(id)) AS is_the_id, last_value % 1024 = id_seq(id) AS low_bits, is_called
FROM insta1.table_id_seq, issued ORDER BY n DESC LIMIT 1;
-- The sequence field counts on from one millisecond to the next and wraps at 1024.
SELECT count(*), count(DISTINCT seq), max((lead - seq + 1024) % 1024) AS step
FROM (SELECT id_seq(id) AS seq, lead(id_seq(id)) OVER (ORDER BY id) AS lead
      FROM (SELECT next_id(1) AS id FROM generate_series(1, 5000)) AS made) AS steps;

-- A sequence that has served 5000 plain nextvals continues from its value.
CREATE SEQUENCE counter;
SELECT max(nextval('counter')) FROM generate_series(1, 5000);
SELECT id_seq(next_id(1, 'counter'));
SELECT id_seq(id), last_value % 1024 = id_seq(id) AS same FROM (SELECT next_id(1, 'counter') AS id) AS made, LATERAL (SELECT last_value FROM counter) AS s;

-- A sequence that was never called follows the clock, whatever its start value.
CREATE SEQUENCE starts_ahead START 844424930131969;
SELECT id_time(next_id(1, 'starts_ahead')) < now() + interval '1 second' AS follows_the_clock;

-- log_cnt is relative to the sequence's value, also after setval() ahead of the clock with is_called false.
SELECT setval('starts_ahead', 844424930131969, false);
SELECT id_time(next_id(1, 'starts_ahead')) < now() + interval '1 second' AS follows_the_clock;
SELECT log_cnt BETWEEN 0 AND 1000 * 1024 AS recorded FROM starts_ahead;
-- The wait event is reset after a wait.
DO $$
BEGIN
    CREATE SEQUENCE brief;
    PERFORM next_id(1, 'brief');
    RAISE NOTICE 'waits for %', (SELECT wait_event FROM pg_stat_activity WHERE pid = pg_backend_pid());
    DROP SEQUENCE brief;
END $$;

-- Batches: in order, complete, and consecutive with single ids.
INSERT INTO issued (id) SELECT next_ids(1, 1);
INSERT INTO issued (id) SELECT next_ids(1, 3000);
INSERT INTO issued (id) SELECT next_id(1);
SELECT count(*), bool_and(id > previous) AS in_order
FROM (SELECT id, lag(id) OVER (ORDER BY n) AS previous FROM (SELECT row_number() OVER () AS n, id FROM next_ids(1, 2500) AS id) AS batch) AS steps;
SELECT count(*) FROM (SELECT next_ids(1, 2000000000) LIMIT 10) AS cut_short;
-- A batch's last id is the sequence's last value.
SELECT max(id) AS last FROM next_ids(1, 10) AS id \gset
SELECT last_value = ((:last >> 23) << 10 | id_seq(:last)) AS is_the_last_id FROM insta1.table_id_seq;

-- Ids of rolled back transactions, savepoints and exceptions are not reused.
BEGIN;
SELECT next_id(1) AS rolled_back \gset
ROLLBACK;
INSERT INTO issued (id) VALUES (:rolled_back), (next_id(1));
BEGIN;
SAVEPOINT a;
SELECT next_id(1) AS rolled_back \gset
ROLLBACK TO a;
INSERT INTO issued (id) VALUES (:rolled_back), (next_id(1));
SAVEPOINT b;
INSERT INTO issued (id) VALUES (next_id(1));
RELEASE b;
COMMIT;
DO $$
DECLARE
    taken bigint;
BEGIN
    FOR i IN 1..100 LOOP
        BEGIN
            taken := next_id(1);
            RAISE EXCEPTION 'undo';
        EXCEPTION WHEN raise_exception THEN
            INSERT INTO issued (id) VALUES (taken), (next_id(1));
        END;
    END LOOP;
END $$;

-- Plain nextval in between: no duplicate, and the ids stay in order.
DO $$
BEGIN
    FOR i IN 1..100 LOOP
        INSERT INTO issued (id) VALUES (next_id(1));
        PERFORM nextval('insta1.table_id_seq');
    END LOOP;
END $$;
SELECT count(*) FROM (SELECT next_id(1), nextval('insta1.table_id_seq') FROM generate_series(1, 5000)) AS mixed;
INSERT INTO issued (id) VALUES (next_id(1));

-- RESTART and setval back to the start, in the millisecond of the last id: the next id waits for a later millisecond. (Not if
-- the sequence was further ahead of the clock, as after the plain nextvals above. So let the clock catch up first.)
SELECT pg_sleep(0.1);
DO $$
BEGIN
    FOR i IN 1..50 LOOP
        INSERT INTO issued (id) VALUES (next_id(1)), (next_id(1)), (next_id(1));
        PERFORM setval('insta1.table_id_seq', 1);
        INSERT INTO issued (id) VALUES (next_id(1)), (next_id(1)), (next_id(1));
        PERFORM setval('insta1.table_id_seq', 1, false);
        INSERT INTO issued (id) VALUES (next_id(1)), (next_id(1)), (next_id(1));
        ALTER SEQUENCE insta1.table_id_seq RESTART;
        INSERT INTO issued (id) VALUES (next_id(1)), (next_id(1)), (next_id(1));
    END LOOP;
END $$;
BEGIN;
ALTER SEQUENCE insta1.table_id_seq RESTART WITH 500;
SELECT id_seq(next_id(1));
ROLLBACK;
INSERT INTO issued (id) VALUES (next_id(1));
-- ALTER SEQUENCE writes a new file, and its rollback restores the old one: ids of the same transaction are forgotten, even
-- those of a savepoint. (The sequence is ahead of the clock, where the next id does not depend on the time.)
CREATE SEQUENCE altered;
SELECT setval('altered', last_value + 30000 * 1024) IS NOT NULL AS half_a_minute_ahead FROM insta1.table_id_seq;
BEGIN;
SELECT next_id(1, 'altered') AS before \gset
SAVEPOINT a;
ALTER SEQUENCE altered NO CYCLE;
SELECT next_id(1, 'altered') AS rolled_back \gset
ROLLBACK TO a;
SELECT :rolled_back > :before AS in_order, next_id(1, 'altered') = :rolled_back AS is_repeated;
COMMIT;
-- An ALTER SEQUENCE that is committed forgets nothing.
BEGIN;
SELECT next_id(1, 'altered') AS before \gset
SAVEPOINT a;
ALTER SEQUENCE altered NO CYCLE;
RELEASE a;
SELECT next_id(1, 'altered') > :before AS in_order;
COMMIT;
-- setval ahead of the clock moves the ids ahead; they stay in order.
SELECT setval('insta1.table_id_seq', last_value + 10 * 1024) IS NOT NULL AS ten_ms_ahead FROM insta1.table_id_seq;
INSERT INTO issued (id) SELECT next_id(1) FROM generate_series(1, 3000);

-- A sequence that is dropped and created again in one session: manually, with a shard, and in one transaction.
DO $$
BEGIN
    FOR i IN 1..20 LOOP
        CREATE SEQUENCE again;
        INSERT INTO issued (id, seq) VALUES (next_id(2, 'again'), 'again'), (next_id(2, 'again'), 'again');
        DROP SEQUENCE again;
    END LOOP;
END $$;
SELECT create_shard(3);
INSERT INTO issued (id, seq) VALUES (next_id(3), 'insta3');
DROP SCHEMA insta3 CASCADE;
SELECT next_id(3);
SELECT create_shard(3);
INSERT INTO issued (id, seq) VALUES (next_id(3), 'insta3');
BEGIN;
DROP SCHEMA insta3 CASCADE;
SELECT create_shard(3);
INSERT INTO issued (id, seq) VALUES (next_id(3), 'rolled back');
ROLLBACK;
INSERT INTO issued (id, seq) VALUES (next_id(3), 'insta3'), (insta3.next_id(), 'insta3');
-- The shard's schema is renamed and renamed back: the number still refers to it.
ALTER SCHEMA insta3 RENAME TO elsewhere;
INSERT INTO issued (id, seq) VALUES (next_id(3), 'insta3');
INSERT INTO issued (id, seq) VALUES (elsewhere.next_id(), 'insta3');
ALTER SCHEMA elsewhere RENAME TO insta3;
INSERT INTO issued (id, seq) VALUES (next_id(3), 'insta3');
-- The same for its sequence.
ALTER SEQUENCE insta3.table_id_seq RENAME TO other_seq;
INSERT INTO issued (id, seq) VALUES (next_id(3), 'insta3');
INSERT INTO issued (id, seq) VALUES (insta3.next_id(), 'insta3');
ALTER SEQUENCE insta3.other_seq RENAME TO table_id_seq;
-- Its options are changed and changed back.
ALTER SEQUENCE insta3.table_id_seq CYCLE;
SELECT next_id(3);
ALTER SEQUENCE insta3.table_id_seq NO CYCLE CACHE 20;
INSERT INTO issued (id, seq) VALUES (next_id(3), 'insta3');

-- Temporary and unlogged sequences.
CREATE TEMPORARY SEQUENCE passing;
INSERT INTO issued (id, seq) SELECT next_id(4, 'passing'), 'passing' FROM generate_series(1, 3000);
ALTER SEQUENCE passing RESTART;
INSERT INTO issued (id, seq) SELECT next_id(4, 'passing'), 'passing' FROM generate_series(1, 3000);
CREATE UNLOGGED SEQUENCE light;
INSERT INTO issued (id, seq) SELECT next_id(6, 'light'), 'light' FROM generate_series(1, 3000);
-- Nothing is logged ahead, which nextval would rely on once the sequence is logged.
SELECT log_cnt FROM light;
ALTER SEQUENCE light SET LOGGED;
INSERT INTO issued (id, seq) SELECT next_id(6, 'light'), 'light' FROM generate_series(1, 3000);
ALTER SEQUENCE light SET UNLOGGED;
INSERT INTO issued (id, seq) SELECT next_id(6, 'light'), 'light' FROM generate_series(1, 3000);

-- The one-shard form.
SET instagram_id.shard = 1;
INSERT INTO issued (id) VALUES (next_id());
SELECT id_shard(next_id());
SET instagram_id.shard = 0;
SELECT create_shard(0);
SELECT id_shard(next_id());
SET instagram_id.shard = -1;
SELECT next_id();
RESET instagram_id.shard;

-- Prepared statements, and a cursor that outlives its transaction.
PREPARE one(int) AS INSERT INTO issued (id) VALUES (next_id($1));
EXECUTE one(1); EXECUTE one(1); EXECUTE one(1); EXECUTE one(1); EXECUTE one(1); EXECUTE one(1); EXECUTE one(1);
DEALLOCATE one;
BEGIN;
DECLARE held CURSOR WITH HOLD FOR SELECT id_shard(id) FROM next_ids(1, 2000) AS id;
FETCH 1 FROM held;
COMMIT;
MOVE FORWARD ALL IN held;
CLOSE held;

-- No duplicates (the UNIQUE constraint above), and each sequence's ids are in the order in which they were generated.
SELECT seq, count(*), bool_and(id > previous) AS increasing
FROM (SELECT seq, id, lag(id) OVER (PARTITION BY seq ORDER BY n) AS previous FROM issued) AS steps
GROUP BY seq ORDER BY seq;

DROP SCHEMA insta0, insta1, insta3 CASCADE;
DROP TABLE issued;
DROP SEQUENCE counter, starts_ahead, passing, light;

-- Checks the ids of the other sessions, and one new id of each shard.
\set ON_ERROR_STOP on
\pset tuples_only on
\pset format unaligned
SET client_min_messages = notice;
SELECT format('    %s ids of the other sessions: %s repeated, %s out of order', count(*), count(*) - count(DISTINCT id),
    count(*) FILTER (WHERE id <= before))
FROM (SELECT id, lag(id) OVER (PARTITION BY session, id_shard(id) ORDER BY number) AS before FROM smith.issued) AS ids;
DO $$
DECLARE
    shard int;
    newest bigint;
    next bigint;
BEGIN
    IF EXISTS (SELECT FROM smith.issued GROUP BY id HAVING count(*) > 1) THEN
        RAISE 'an id was repeated';
    ELSIF EXISTS (SELECT FROM (SELECT id, lag(id) OVER (PARTITION BY session, id_shard(id) ORDER BY number) AS before
                               FROM smith.issued) AS ids WHERE id <= before) THEN
        RAISE 'an id is out of order';
    END IF;
    FOR shard IN 1..7 LOOP
        SELECT max(id) INTO newest FROM smith.issued WHERE id_shard(id) = shard;
        BEGIN
            next := next_id(shard);
            IF next <= newest OR id_shard(next) <> shard THEN
                RAISE 'the next id of shard % is %, after %', shard, next, newest;
            END IF;
        EXCEPTION WHEN object_not_in_prerequisite_state OR read_only_sql_transaction OR sequence_generator_limit_exceeded THEN
            IF shard <= 4 THEN
                RAISE;
            END IF;
            RAISE NOTICE 'shard %: %', shard, SQLERRM;
        END;
        IF newest IS NULL AND shard <= 4 THEN
            RAISE 'shard % has no ids', shard;
        END IF;
    END LOOP;
    IF (SELECT count(*) FROM id_shards) <> 7 THEN
        RAISE 'the number of shards has changed';
    END IF;
END $$;

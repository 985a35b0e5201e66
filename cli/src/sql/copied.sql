-- The subscription $1. $2: a position in the WAL, or empty. is_reached: the worker has received it,
-- so it has applied all changes before; they need not be flushed. is_stuck: tables wait for a worker
-- that copies them, and all workers of the server are taken by subscriptions that copy nothing. From
-- these none comes back.
SELECT count(srrelid) AS tables, count(*) FILTER (WHERE srsubstate = 'r') AS tables_copied,
    coalesce((SELECT sum(tuples_processed) FROM pg_stat_progress_copy
              WHERE command = 'COPY FROM' AND datname = current_database() AND relid = ANY (array_agg(srrelid)))::bigint, 0) AS rows,
    -- The columns differ between majors.
    coalesce((SELECT sum(count::bigint)::bigint FROM pg_stat_subscription_stats AS t CROSS JOIN jsonb_each_text(to_jsonb(t)) AS c (name, count)
              WHERE subname = $1 AND name LIKE '%error_count'), 0) AS errors,
    coalesce((SELECT max(received_lsn) FROM pg_stat_subscription WHERE subname = $1 AND relid IS NULL) >= nullif($2, '')::pg_lsn, false) AS is_reached,
    coalesce(array_to_string((array_agg(srrelid::regclass::text ORDER BY srrelid) FILTER (WHERE srsubstate = 'd'))[1:3], ', '), '') AS copying,
    coalesce((SELECT array_agg(DISTINCT w.pid) FROM pg_stat_subscription AS w CROSS JOIN unnest(pg_blocking_pids(w.pid)) AS blocker
              -- Its own workers wait for each other, too, from PostgreSQL 18 on.
              WHERE w.subname = $1 AND blocker NOT IN (SELECT pid FROM pg_stat_subscription WHERE pid IS NOT NULL)), '{}')::text AS waiting,
    coalesce(bool_or(srsubstate IN ('i', 'd')), false) AND (SELECT count(*) FROM pg_stat_get_subscription(NULL) WHERE relid IS NULL)
        >= least(current_setting('max_logical_replication_workers')::int, current_setting('max_worker_processes')::int - 1) AS is_stuck,
    -- State d: the worker creates the slot, or copies rows. State f: all rows are copied, and the
    -- slot from which the worker reads later changes exists.
    coalesce(string_agg(slot, ' ') FILTER (WHERE srsubstate = 'd'), '') AS new_slots,
    coalesce(string_agg(slot, ' ') FILTER (WHERE srsubstate = 'f'), '') AS slots
FROM pg_subscription AS s JOIN pg_subscription_rel ON srsubid = s.oid
    CROSS JOIN LATERAL format('pg_%s_sync_%s_%s', s.oid, srrelid, (SELECT system_identifier FROM pg_control_system())) AS slot
WHERE subname = $1 AND subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())

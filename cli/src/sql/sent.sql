-- The slot $1 on the source. $2 and $3: names of other slots, separated by spaces. A session that
-- creates one of $3 has its name, and waits for open transactions.
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint AS lag_bytes,
    coalesce(wal_status = 'lost', slot_name IS NULL) AS is_lost,
    EXISTS (SELECT FROM string_to_table($2, ' ') AS name WHERE name NOT IN (SELECT slot_name FROM pg_replication_slots)) AS is_abandoned,
    coalesce((SELECT array_agg(pid) FROM pg_stat_activity WHERE backend_type = 'walsender' AND wait_event_type = 'Lock'
              AND application_name IN (SELECT string_to_table($3, ' '))), '{}')::text AS waiting,
    coalesce(active, false) AS is_connected
FROM (SELECT $1::text AS slot) AS wanted LEFT JOIN pg_replication_slots ON slot_name = slot LEFT JOIN pg_stat_replication ON pid = active_pid

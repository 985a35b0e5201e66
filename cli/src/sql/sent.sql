-- $2: a position in the WAL. Returns whether the target has confirmed it, and whether the target is
-- connected.
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint, coalesce(replay_lsn >= nullif($2, '')::pg_lsn, false),
    coalesce(wal_status = 'lost', false), pg_current_wal_lsn()::text, active
FROM pg_replication_slots LEFT JOIN pg_stat_replication ON pid = active_pid WHERE slot_name = $1

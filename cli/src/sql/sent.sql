-- $2: the end of the WAL at the previous check. The target is near enough once it has confirmed that position.
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint, coalesce(replay_lsn >= nullif($2, '')::pg_lsn, false),
    coalesce(wal_status = 'lost', false), pg_current_wal_lsn()::text
FROM pg_replication_slots LEFT JOIN pg_stat_replication ON pid = active_pid WHERE slot_name = $1

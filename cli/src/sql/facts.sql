WITH limits (kind, setting, used) AS (
    VALUES ('slots', 'max_replication_slots', (SELECT count(*) FROM pg_replication_slots)),
        ('slots', 'max_wal_senders', (SELECT count(*) FROM pg_stat_replication)),
        ('origins', CASE WHEN current_setting('max_active_replication_origins', true) IS NULL THEN 'max_replication_slots'
                         ELSE 'max_active_replication_origins' END, (SELECT count(*) FROM pg_replication_origin)),
        -- Those that copy tables end soon. The launcher of these workers is a process as well.
        ('workers', 'max_logical_replication_workers', (SELECT count(*) FROM pg_stat_get_subscription(NULL) WHERE relid IS NULL)),
        ('workers', 'max_worker_processes', (SELECT count(*) + 1 FROM pg_stat_get_subscription(NULL) WHERE relid IS NULL))
)
SELECT extversion AS version, nspname AS schema, pg_is_in_recovery() AS is_standby,
    current_setting('server_version_num')::int / 10000 AS major, current_setting('server_encoding') AS encoding,
    current_setting('wal_level') AS wal_level, current_setting('max_sync_workers_per_subscription')::int AS sync_workers,
    current_setting('wal_receiver_status_interval')::interval = '0' AS is_silent,
    (SELECT jsonb_agg(jsonb_build_object('kind', kind, 'setting', setting, 'value', current_setting(setting)::int,
                                         'free', current_setting(setting)::int - used)) FROM limits) AS limits,
    rolname AS role, rolsuper AS is_superuser, rolsuper OR rolreplication AS may_replicate, pg_has_role('pg_read_all_stats', 'USAGE') AS may_watch,
    rolsuper OR EXISTS (SELECT FROM pg_roles WHERE rolname = 'pg_create_subscription' AND pg_has_role(oid, 'USAGE')) AS may_subscribe,
    has_database_privilege(current_database(), 'CREATE') AS may_create, extract(epoch FROM clock_timestamp()) AS clock
FROM pg_roles
    LEFT JOIN (pg_extension JOIN pg_namespace AS n ON n.oid = extnamespace) ON extname = 'instagram_id'
WHERE rolname = current_user

SELECT to_jsonb(facts) FROM (
    SELECT extversion AS version, nspname AS schema, pg_is_in_recovery() AS is_standby,
        current_setting('server_version_num')::int / 10000 AS major, current_setting('server_encoding') AS encoding,
        current_setting('wal_level') AS wal_level,
        current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots) AS slots,
        coalesce(current_setting('max_active_replication_origins', true), current_setting('max_replication_slots'))::int
            - (SELECT count(*) FROM pg_replication_origin) AS origins,
        current_setting('max_logical_replication_workers')::int
            - (SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'logical replication%worker') AS workers,
        current_setting('max_sync_workers_per_subscription')::int AS sync_workers,
        rolname AS role, rolsuper AS is_superuser, rolreplication AS may_replicate, pg_has_role('pg_read_all_stats', 'USAGE') AS may_watch,
        EXISTS (SELECT FROM pg_roles WHERE rolname = 'pg_create_subscription' AND pg_has_role(oid, 'USAGE')) AS may_subscribe,
        has_database_privilege(current_database(), 'CREATE') AS may_create, extract(epoch FROM clock_timestamp()) AS clock
    FROM pg_roles
        LEFT JOIN (pg_extension JOIN pg_namespace AS n ON n.oid = extnamespace) ON extname = 'instagram_id'
    WHERE rolname = current_user
) AS facts

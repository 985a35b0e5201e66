SELECT extversion, nspname, pg_is_in_recovery(), current_setting('server_version_num')::int / 10000, rolsuper,
    current_setting('max_logical_replication_workers')::int
        - (SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'logical replication%worker'),
    extract(epoch FROM clock_timestamp()),
    EXISTS (SELECT FROM pg_roles WHERE rolname = 'pg_create_subscription' AND pg_has_role(oid, 'USAGE')),
    has_database_privilege(current_database(), 'CREATE')
FROM pg_roles
    LEFT JOIN (pg_extension JOIN pg_namespace AS n ON n.oid = extnamespace) ON extname = 'instagram_id'
WHERE rolname = current_user

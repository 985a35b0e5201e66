SELECT extversion, nspname, pg_is_in_recovery(), current_setting('wal_level'),
    current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots),
    current_setting('server_version_num')::int / 10000, rolsuper, extract(epoch FROM clock_timestamp()),
    rolreplication, pg_has_role('pg_read_all_stats', 'USAGE'), has_database_privilege(current_database(), 'CREATE')
FROM pg_roles
    LEFT JOIN (pg_extension JOIN pg_namespace AS n ON n.oid = extnamespace) ON extname = 'instagram_id'
WHERE rolname = current_user

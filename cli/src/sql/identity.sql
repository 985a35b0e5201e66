-- Facts that differ from those of another database, also of a clone; of another schema of the same
-- name; and of a standby: a failover, which can lose changes that the server has confirmed to another
-- one, begins a new timeline.
SELECT jsonb_build_object('identity of the database', concat_ws(' ', system_identifier, d.oid),
                          'identity of the schema', concat_ws(' ', system_identifier, n.oid),
                          'timeline of the server', left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))
FROM pg_control_system() CROSS JOIN pg_database AS d LEFT JOIN pg_namespace AS n ON nspname = current_setting('move.schema')
WHERE datname = current_database()

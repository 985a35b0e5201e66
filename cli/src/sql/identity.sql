-- What tells the schema from one of the same name, and the server from its standby: a failover, which
-- can lose changes that the server has confirmed to another one, gives it another timeline.
SELECT jsonb_build_object('identity of the schema', concat_ws(' ', system_identifier, n.oid),
                          'timeline of the server', left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))
FROM pg_namespace AS n, pg_control_system() WHERE nspname = current_setting('move.schema')

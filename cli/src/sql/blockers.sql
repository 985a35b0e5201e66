-- The sessions for which the session $1 waits. $2: whether to end them. Those of superusers, and
-- those that the role of the command may not end, go on.
SELECT CASE b.pid WHEN 0 THEN 'a prepared transaction' ELSE format('process %s of role %s', b.pid, usename) END
        || coalesce(' with a lock on ' || (SELECT min(relation::regclass::text) FROM pg_locks AS l WHERE l.pid = $1::int AND NOT granted), '') AS who,
    CASE WHEN $2::bool AND backend_type = 'client backend' AND NOT rolsuper
            AND (current_setting('is_superuser')::bool OR pg_has_role(usesysid, 'USAGE') OR pg_has_role('pg_signal_backend', 'USAGE'))
        THEN pg_terminate_backend(b.pid) ELSE false END AS is_ended
FROM unnest(pg_blocking_pids($1::int)) AS b (pid) LEFT JOIN pg_stat_activity AS a ON a.pid = b.pid LEFT JOIN pg_roles AS r ON r.oid = usesysid

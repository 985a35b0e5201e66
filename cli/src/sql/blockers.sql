-- The sessions and prepared transactions for which the session $1 waits. $2: whether to end them.
-- Sessions of superusers, and those that the role of the command may not end, go on. So do prepared
-- transactions, which no session holds: whoever has prepared one relies on its COMMIT.
WITH awaited AS MATERIALIZED (
    SELECT *, coalesce(' with a lock on ' || relation::regclass, '') AS what FROM pg_locks WHERE pid = $1::int AND NOT granted
)
SELECT format('process %s of role %s', b.pid, usename) || coalesce((SELECT min(what) FROM awaited), '') AS who,
    CASE WHEN $2::bool AND NOT rolsuper
            AND (current_setting('is_superuser')::bool OR pg_has_role(usesysid, 'USAGE') OR pg_has_role('pg_signal_backend', 'USAGE'))
        THEN pg_terminate_backend(b.pid) ELSE false END AS is_ended
FROM unnest(pg_blocking_pids($1::int)) AS b (pid) LEFT JOIN pg_stat_activity AS a ON a.pid = b.pid LEFT JOIN pg_roles AS r ON r.oid = usesysid
WHERE b.pid <> 0
UNION ALL
SELECT format('prepared transaction %1$L of role %2$s%3$s, which ROLLBACK PREPARED %1$L ends', gid, owner, what), false
FROM awaited AS w JOIN pg_locks AS h ON h.granted AND h.pid IS NULL AND h.mode NOT IN ('AccessShareLock', 'RowShareLock')
        AND (h.locktype, h.database, h.relation, h.transactionid) IS NOT DISTINCT FROM (w.locktype, w.database, w.relation, w.transactionid)
    JOIN pg_locks AS t ON t.virtualtransaction = h.virtualtransaction AND t.pid IS NULL AND t.locktype = 'transactionid'
    JOIN pg_prepared_xacts ON transaction = t.transactionid
WHERE 0 = ANY (pg_blocking_pids($1::int))

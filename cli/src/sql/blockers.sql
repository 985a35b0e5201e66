-- The sessions and prepared transactions for which the processes $1 wait, and those with a lock on
-- the relation or schema $2. $3: whether to end them. Sessions of superusers, and those that the
-- role of the command may not end, go on. So do prepared transactions, which no session holds:
-- the application that has prepared one relies on its COMMIT.
WITH awaited AS MATERIALIZED (
    -- The key of an advisory lock names no object.
    SELECT locktype, database, relation, CASE WHEN locktype <> 'advisory' THEN classid END AS classid,
        CASE WHEN locktype <> 'advisory' THEN objid END AS objid, transactionid, mode, pg_blocking_pids(pid) AS blockers
    FROM pg_locks WHERE pid = ANY ($1::int[]) AND NOT granted
), held AS MATERIALIZED (
    SELECT blocker AS pid, NULL AS virtualtransaction, classid, objid, relation FROM awaited CROSS JOIN unnest(blockers) AS blocker WHERE blocker <> ALL ($1::int[])
    UNION
    SELECT NULL, h.virtualtransaction, w.classid, w.objid, w.relation
    FROM awaited AS w JOIN pg_locks AS h ON h.granted AND h.pid IS NULL AND (w.mode = 'AccessExclusiveLock' OR h.mode NOT IN ('AccessShareLock', 'RowShareLock'))
        AND (h.locktype, h.database, h.relation, h.classid, h.objid, h.transactionid) IS NOT DISTINCT FROM (w.locktype, w.database, w.relation, w.classid, w.objid, w.transactionid)
    WHERE 0 = ANY (blockers)
    UNION
    -- Readers only if no other session has a lock.
    (SELECT pid, virtualtransaction, classid, objid, relation FROM pg_locks
    WHERE granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND (relation = $2::oid OR classid = 'pg_namespace'::regclass AND objid = $2::oid) AND (pid = ANY ($1::int[])) IS NOT TRUE
    ORDER BY mode IN ('AccessShareLock', 'RowShareLock') FETCH FIRST ROW WITH TIES)
), named AS MATERIALIZED (
    SELECT pid, virtualtransaction, coalesce(' with a lock on ' || pg_describe_object(coalesce(classid, 'pg_class'::regclass), coalesce(objid, relation), 0), '') AS what FROM held
)
SELECT concat('process ', n.pid, coalesce(' of role ' || usename, ' (' || backend_type || ')'), what,
        ' (transaction since ' || date_trunc('second', xact_start) || ')') AS who,
    -- An autovacuum worker, which can run code of any role, has no role of its own.
    CASE WHEN $3::bool AND rolsuper IS NOT TRUE
            AND (current_setting('is_superuser')::bool OR pg_has_role(usesysid, 'USAGE') OR usesysid IS NOT NULL AND pg_has_role('pg_signal_backend', 'USAGE'))
        THEN pg_terminate_backend(n.pid) ELSE false END AS is_ended
FROM named AS n LEFT JOIN pg_stat_activity AS a ON a.pid = n.pid LEFT JOIN pg_roles AS r ON r.oid = usesysid
WHERE n.pid <> 0
UNION ALL
SELECT format('prepared transaction %1$L of role %2$s%3$s, which COMMIT PREPARED %1$L or ROLLBACK PREPARED %1$L ends, as its coordinator has decided', gid, owner, what), false
FROM named AS n JOIN pg_locks AS t USING (virtualtransaction) JOIN pg_prepared_xacts ON transaction = t.transactionid
WHERE n.pid IS NULL AND t.pid IS NULL AND t.locktype = 'transactionid'
ORDER BY who

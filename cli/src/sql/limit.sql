-- Limits each of the following statements to the time that is left until move.until, if that is
-- set. (lock_timeout limits each lock for which a statement waits, not the statement.)
SELECT set_config('statement_timeout', CASE WHEN until <> ''
    THEN greatest(1, ceil(1000 * extract(epoch FROM until::timestamptz - clock_timestamp())))::int::text ELSE '0' END, true)
FROM current_setting('move.until', true) AS until;

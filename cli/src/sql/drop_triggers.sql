-- Do not drop a function of another role: the command has not created it.
DO $do$
BEGIN
    IF current_setting('move.mark') IN ('closed', 'opened') THEN
        EXECUTE format('DROP FUNCTION %I.shard_is_elsewhere() CASCADE', current_setting('move.schema'));
    END IF;
END $do$;

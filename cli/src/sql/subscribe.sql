-- A worker that has copied a table records this, and then drops its slot on the source. If a crash lost the record, the
-- next worker would look for that slot in vain. So commits are flushed until all tables are copied.
-- Apply changes as the superuser on all major versions, because the owners of the tables have no privilege on the schema yet.
DO $do$
BEGIN
    EXECUTE format('CREATE SUBSCRIPTION %1$I CONNECTION %2$L PUBLICATION %1$I WITH (enabled = false, create_slot = false, slot_name = %1$I, synchronous_commit = local%3$s)',
        current_setting('move.name'), current_setting('move.conninfo'),
        CASE WHEN current_setting('server_version_num')::int >= 160000 THEN ', run_as_owner = true' ELSE '' END);
END $do$;

-- A worker that has copied a table records this, and then drops its slot on the source. If a crash
-- lost the record, the next worker would look for that slot in vain. So commits are flushed until
-- all tables are copied.
DO $do$
BEGIN
    EXECUTE format('CREATE SUBSCRIPTION %1$I CONNECTION %2$L PUBLICATION %1$I WITH (enabled = false, create_slot = false, slot_name = %1$I, synchronous_commit = local)',
        current_setting('move.name'), current_setting('move.conninfo'));
END $do$;

-- As the superuser on all majors: the owners of the tables have no right on the schema yet.
DO $do$
BEGIN
    EXECUTE format('CREATE SUBSCRIPTION %1$I CONNECTION %2$L PUBLICATION %1$I WITH (enabled = false, create_slot = false, slot_name = %1$I%3$s)',
        current_setting('move.name'), current_setting('move.conninfo'),
        CASE WHEN current_setting('server_version_num')::int >= 160000 THEN ', run_as_owner = true' ELSE '' END);
END $do$;

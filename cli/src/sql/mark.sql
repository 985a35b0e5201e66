SELECT coalesce((SELECT CASE WHEN NOT (rolsuper OR rolname = current_user) OR prokind <> 'f' THEN 'foreign'
                             WHEN obj_description(p.oid, 'pg_proc') IS NOT NULL THEN 'closed' ELSE 'opened' END
                 FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = pronamespace JOIN pg_roles AS r ON r.oid = proowner
                 WHERE proname = 'shard_is_elsewhere' AND pronargs = 0 AND nspname = current_setting('move.schema')), 'none')

-- $1: roles that own objects on the source and are not superusers there
SELECT rolname FROM pg_roles WHERE rolsuper AND $1::jsonb ? rolname

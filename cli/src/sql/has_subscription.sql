SELECT EXISTS (SELECT FROM pg_subscription JOIN pg_database ON pg_database.oid = subdbid JOIN pg_roles AS r ON r.oid = subowner
               WHERE subname = $1::text AND datname = current_database() AND (rolsuper OR rolname = current_user));

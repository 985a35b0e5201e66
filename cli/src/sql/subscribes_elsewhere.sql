SELECT EXISTS (SELECT FROM pg_subscription_rel JOIN pg_subscription AS s ON s.oid = srsubid JOIN pg_class AS c ON c.oid = srrelid
                   JOIN pg_namespace AS n ON n.oid = relnamespace WHERE subname = $1 AND nspname <> $2)

SELECT EXISTS (SELECT FROM pg_class WHERE relnamespace = quote_ident($2)::regnamespace AND relkind = 'r'
    AND oid NOT IN (SELECT srrelid FROM pg_subscription_rel JOIN pg_subscription ON pg_subscription.oid = srsubid
                    WHERE subname = $1 AND srsubstate = 'r'))

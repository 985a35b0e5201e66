-- The privileges on each object of the schema.
WITH {acls}
SELECT coalesce(jsonb_object_agg(object || suffix, privileges), '{}') FROM (
    SELECT object, suffix, string_agg(entry, ', ' ORDER BY entry COLLATE "C") AS privileges
    FROM (
        SELECT object, suffix, grantor, grantee, privilege_type, is_grantable FROM acls CROSS JOIN aclexplode(acl)
        UNION ALL
        -- PostgreSQL 17 has added it to ALL, which is what the dump of an older version grants then.
        SELECT object, suffix, grantor, grantee, 'MAINTAIN', is_grantable FROM acls CROSS JOIN aclexplode(acl)
        WHERE object LIKE 'TABLE %' AND suffix = '' AND current_setting('server_version_num')::int < 170000
        GROUP BY object, suffix, grantor, grantee, is_grantable HAVING count(*) = 7
    ) AS granted CROSS JOIN format('%s to %s by %s (%s)', privilege_type, grantee::regrole, grantor::regrole, is_grantable) AS entry
    GROUP BY object, suffix
) AS privileges

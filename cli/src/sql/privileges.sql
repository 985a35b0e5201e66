-- The privileges on each object of the schema. (PostgreSQL 17 has added MAINTAIN, also to ALL.)
WITH {acls}
SELECT coalesce(jsonb_object_agg(object || suffix, privileges), '{}') FROM (
    SELECT object, suffix, string_agg(entry, ', ' ORDER BY entry COLLATE "C") AS privileges
    FROM acls CROSS JOIN aclexplode(acl) AS a
        CROSS JOIN format('%s to %s by %s (%s)', privilege_type, grantee::regrole, grantor::regrole, is_grantable) AS entry
    WHERE privilege_type <> 'MAINTAIN' GROUP BY object, suffix
) AS privileges

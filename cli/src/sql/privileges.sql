-- The privileges on each object of the schema. $2: whether MAINTAIN counts. PostgreSQL 17 has added it
-- to ALL, and the dump of an older version grants ALL, or all that this was.
WITH {acls}
SELECT coalesce(jsonb_object_agg(object || suffix, privileges), '{}') FROM (
    SELECT object, suffix, string_agg(entry, ', ' ORDER BY entry COLLATE "C") AS privileges
    FROM acls CROSS JOIN aclexplode(acl)
        CROSS JOIN format('%s to %s by %s (%s)', privilege_type, grantee::regrole, grantor::regrole, is_grantable) AS entry
    WHERE privilege_type <> 'MAINTAIN' OR $2::boolean
    GROUP BY object, suffix
) AS privileges

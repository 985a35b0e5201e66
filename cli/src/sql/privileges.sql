-- The privileges on each object of the schema. $2: whether the old server has MAINTAIN. PostgreSQL 17
-- has added it to ALL, and the dump of an older version grants ALL, or all that this was. So for a role
-- with all others it does not count then, nor for the owner, from whom only others are revoked.
WITH {acls}
SELECT coalesce(jsonb_object_agg(object || suffix, privileges), '{}') FROM (
    SELECT object, suffix, string_agg(entry, ', ' ORDER BY entry COLLATE "C") AS privileges
    FROM (
        SELECT *, count(*) OVER (PARTITION BY object, suffix, grantor, grantee, is_grantable) AS number
        FROM acls CROSS JOIN aclexplode(acl)) AS granted
        CROSS JOIN format('%s to %s by %s (%s)', privilege_type, grantee::regrole, grantor::regrole, is_grantable) AS entry
    WHERE privilege_type <> 'MAINTAIN' OR number < 8 AND grantee <> grantor OR $2::boolean
    GROUP BY object, suffix
) AS privileges

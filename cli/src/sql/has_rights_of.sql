-- Whether there is such a role, and the session has its rights.
SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1 AND pg_has_role(oid, 'USAGE'))

-- Whether there is a role $1 whose rights the session has ($2: USAGE), or that it can become (SET).
-- Before PostgreSQL 16, a session can become each role of which it is a member.
SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1 AND pg_has_role(oid,
    CASE WHEN $2::text = 'SET' AND current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE $2::text END))

SELECT jsonb_build_object('owner', o.rolname, 'rights', (SELECT jsonb_agg(jsonb_build_array(g.rolname, privilege_type, is_grantable))
    FROM aclexplode(nspacl) LEFT JOIN pg_roles AS g ON g.oid = grantee))
FROM pg_namespace JOIN pg_roles AS o ON o.oid = nspowner WHERE nspname = $1::text;

SELECT EXISTS (SELECT FROM pg_namespace JOIN pg_roles AS r ON r.oid = nspowner WHERE nspname = $1::text AND (rolsuper OR rolname = current_user)
               AND NOT EXISTS (SELECT FROM aclexplode(nspacl) WHERE grantee <> nspowner));

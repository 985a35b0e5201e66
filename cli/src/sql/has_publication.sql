SELECT EXISTS (
    SELECT FROM pg_publication AS p JOIN pg_roles AS r ON r.oid = pubowner
    WHERE pubname = $1::text AND (rolsuper OR rolname = current_user) AND NOT puballtables
      AND NOT EXISTS (SELECT FROM pg_publication_namespace WHERE pnpubid = p.oid)
      AND NOT EXISTS (SELECT FROM pg_publication_rel JOIN pg_class AS c ON c.oid = prrelid
                          JOIN pg_namespace AS n ON n.oid = relnamespace
                      WHERE prpubid = p.oid AND nspname <> $2::text))

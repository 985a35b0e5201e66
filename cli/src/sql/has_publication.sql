SELECT EXISTS (SELECT FROM pg_publication AS p JOIN pg_roles AS r ON r.oid = pubowner JOIN pg_publication_namespace ON pnpubid = p.oid
                   JOIN pg_namespace AS n ON n.oid = pnnspid
               WHERE pubname = $1::text AND rolsuper AND NOT puballtables AND nspname = $2::text
                 AND NOT EXISTS (SELECT FROM pg_publication_rel WHERE prpubid = p.oid));

-- The comment on the publication has the OIDs of the tables that the schema had when it was published.
SELECT coalesce((SELECT obj_description(oid, 'pg_publication') = (
        SELECT md5(coalesce(string_agg(c.oid::text, ' ' ORDER BY c.oid), ''))
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace WHERE nspname = $2 AND relkind = 'r')
    FROM pg_publication WHERE pubname = $1), true)

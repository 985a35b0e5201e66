-- The objects of the schema $1 which its dump creates. Left out are those that
-- PostgreSQL creates for others, with names that contain an OID; indexes that are not valid; default
-- privileges, which any role can change all the time; and constraints NOT NULL, which are objects from
-- PostgreSQL 18 on.
WITH RECURSIVE {own}
SELECT DISTINCT concat_ws(' ', type, identity)
FROM own CROSS JOIN LATERAL pg_identify_object(class, object, 0)
    LEFT JOIN pg_trigger AS t ON class = 'pg_trigger'::regclass AND t.oid = object
    LEFT JOIN pg_index ON class = 'pg_class'::regclass AND indexrelid = object
    LEFT JOIN pg_constraint AS c ON class = 'pg_constraint'::regclass AND c.oid = object
WHERE schema IS DISTINCT FROM 'pg_toast' AND tgisinternal IS NOT TRUE AND indisvalid IS NOT FALSE
    AND class <> 'pg_default_acl'::regclass AND contype IS DISTINCT FROM 'n'

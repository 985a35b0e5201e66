-- The objects of the schema $1 which its dump creates, their comments, and the columns of its tables
-- with their order and types: logical replication sends the fields of a row in a column by position. Left out are those that PostgreSQL creates for others, with names of its own:
-- triggers of foreign keys, TOAST tables and inherited constraints; indexes that are not valid; default
-- privileges, which any role can change all the time; constraints NOT NULL, which are objects from
-- PostgreSQL 18 on; and comments on constraints, since pg_dump writes none for an inherited one.
WITH RECURSIVE {own}, parts (class, object, part, kind) AS (
    SELECT class, object, 0, NULL FROM own
    UNION ALL
    SELECT class, object, objsubid, 'the comment on' FROM own JOIN pg_description ON classoid = class AND objoid = object
    WHERE class <> 'pg_constraint'::regclass
)
SELECT DISTINCT concat_ws(' ', kind, type, identity)
FROM parts CROSS JOIN LATERAL pg_identify_object(class, object, part)
    LEFT JOIN pg_trigger AS t ON class = 'pg_trigger'::regclass AND t.oid = object
    LEFT JOIN pg_index ON class = 'pg_class'::regclass AND indexrelid = object
    LEFT JOIN pg_constraint AS c ON class = 'pg_constraint'::regclass AND c.oid = object
WHERE schema IS DISTINCT FROM 'pg_toast' AND tgisinternal IS NOT TRUE AND indisvalid IS NOT FALSE
    AND class <> 'pg_default_acl'::regclass AND (c.oid IS NULL OR contype <> 'n' AND conislocal AND conparentid = 0)
    AND identity IS NOT NULL -- it was dropped meanwhile
UNION ALL
SELECT format('column %s, %I, of table %I.%I with type %s%s', row_number() OVER (PARTITION BY c.oid ORDER BY attnum), attname, $1::text, relname,
              format_type(atttypid, atttypmod), ' and collation ' || nullif(attcollation, 0)::regcollation)
FROM pg_class AS c JOIN pg_attribute ON attrelid = c.oid
WHERE relnamespace = quote_ident($1::text)::regnamespace AND relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped

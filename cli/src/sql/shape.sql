-- The structure of a type, and of all types in it, as a JSON object. Logical replication sends the columns of a
-- composite type by their position, and a domain with another precision would round. The labels of an
-- enum are sent as text. $TYPE: the OID.
(WITH RECURSIVE inner_types (type) AS (
    SELECT $TYPE
    UNION
    SELECT part FROM inner_types JOIN pg_type AS t ON t.oid = type LEFT JOIN pg_range ON t.oid IN (rngtypid, rngmultitypid)
        LEFT JOIN pg_attribute ON attrelid = typrelid AND attnum > 0 AND NOT attisdropped
        CROSS JOIN LATERAL unnest(ARRAY[typelem, typbasetype, rngtypid, rngsubtype, atttypid]) AS part WHERE part >= 16384)
SELECT coalesce(jsonb_object_agg(format_type(type, NULL), shape), '{}')::text
FROM inner_types JOIN pg_type AS t ON t.oid = type CROSS JOIN LATERAL (SELECT CASE typtype
    WHEN 'c' THEN (SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum)
                   FROM pg_attribute WHERE attrelid = typrelid AND attnum > 0 AND NOT attisdropped)
    WHEN 'd' THEN format_type(typbasetype, typtypmod)
    WHEN 'r' THEN (SELECT concat_ws(' ', format_type(rngsubtype, NULL), nullif(rngcanonical, 0)::regproc) FROM pg_range WHERE rngtypid = t.oid)
    END) AS s (shape)
WHERE shape IS NOT NULL)

-- What the values of the type t, a row of pg_type, consist of; NULL for a base type. Logical
-- replication sends the columns of a composite type in their order, without their names, and a
-- domain with another precision would round.
CASE t.typtype
    WHEN 'c' THEN (SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum)
                   FROM pg_attribute WHERE attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped)
    WHEN 'd' THEN format_type(t.typbasetype, t.typtypmod)
    WHEN 'e' THEN (SELECT string_agg(quote_literal(enumlabel), ', ' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid)
    WHEN 'r' THEN (SELECT concat_ws(' ', format_type(rngsubtype, NULL), nullif(rngcanonical, 0)::regproc) FROM pg_range WHERE rngtypid = t.oid)
END

-- Why this schema cannot generate ids of the shard; empty if it can.
SELECT CASE WHEN EXISTS (SELECT FROM pg_proc WHERE proname = 'shard_' || $1::int AND pronargs = 0 AND pronamespace = quote_ident($2)::regnamespace)
    THEN coalesce({extension}._shard_reason($1::int, quote_ident($2)::regnamespace), '') ELSE 'its schema does not define it' END

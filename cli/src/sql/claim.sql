-- Whether this schema can generate ids of the shard. If several schemas have a function shard_N(),
-- claim_shard could have claimed another one.
SELECT EXISTS (SELECT FROM pg_proc WHERE proname = 'shard_' || $1::int AND pronargs = 0 AND pronamespace = quote_ident($2)::regnamespace)
   AND {extension}._shard_reason($1::int, quote_ident($2)::regnamespace) IS NULL

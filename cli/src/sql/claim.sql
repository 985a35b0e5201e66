-- Whether the shard of this schema may generate ids. Another schema that calls itself this shard could have been claimed.
SELECT EXISTS (SELECT FROM pg_proc WHERE proname = 'shard_' || $1::int AND pronargs = 0 AND pronamespace = quote_ident($2)::regnamespace)
   AND {extension}._shard_reason($1::int, quote_ident($2)::regnamespace) IS NULL

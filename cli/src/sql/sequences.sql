SELECT coalesce(jsonb_object_agg(relname, jsonb_build_array(seqmin, seqmax, seqstart, CASE WHEN seqcycle THEN 'CYCLE' ELSE 'NO CYCLE' END, seqrelid::bigint)), '{}')
FROM pg_sequence JOIN pg_class ON pg_class.oid = seqrelid JOIN pg_namespace AS n ON n.oid = relnamespace
WHERE nspname = $1::text;

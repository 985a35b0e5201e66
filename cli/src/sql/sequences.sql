SELECT coalesce(jsonb_object_agg(relname, jsonb_build_array(seqmin, seqmax, seqstart)), '{}')
FROM pg_sequence JOIN pg_class ON pg_class.oid = seqrelid JOIN pg_namespace AS n ON n.oid = relnamespace
WHERE nspname = $1::text AND seqtypid = 'bigint'::regtype AND seqincrement = 1 AND seqmax >= 1125899906842623 AND NOT seqcycle;

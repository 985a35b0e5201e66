SELECT count(srrelid), count(*) FILTER (WHERE srsubstate = 'r'),
    coalesce((SELECT sum(tuples_processed) FROM pg_stat_progress_copy
              WHERE command = 'COPY FROM' AND datname = current_database()
                AND relid IN (SELECT srrelid FROM pg_subscription_rel WHERE srsubid = s.oid))::bigint, 0),
    coalesce(sum(pg_table_size(srrelid))::bigint, 0),
    coalesce((SELECT apply_error_count + sync_error_count FROM pg_stat_subscription_stats WHERE subname = $1), 0),
    coalesce(array_to_string((array_agg(srrelid::regclass::text ORDER BY srrelid) FILTER (WHERE srsubstate = 'd'))[1:3], ', '), '')
FROM pg_subscription AS s LEFT JOIN pg_subscription_rel ON srsubid = s.oid
WHERE subname = $1 AND subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
GROUP BY s.oid

-- The size of each shard of a server, and the histograms of its ids, from which the rate of inserts
-- is estimated. This reads only catalogs: planning a query on a table can run functions of the
-- table's owner, and to read its size waits for a session that has locked it. The placeholder is the
-- extension's schema. (Its name must not be inserted into a comment, because it can contain a line
-- break.)
WITH shards AS MATERIALIZED (
    SELECT shard, schema::oid, (extract(epoch FROM epoch) * 1000)::bigint AS epoch FROM {extension}._shard_states()
), tables AS MATERIALIZED (
    SELECT shard, c.oid, reltoastrelid, CASE WHEN reltuples BETWEEN 0 AND 1e15 THEN reltuples ELSE 0 END AS rows, conkey[1] AS id
    FROM shards JOIN pg_class AS c ON relnamespace = schema AND relkind IN ('r', 'm')
        LEFT JOIN pg_constraint ON conrelid = c.oid AND contype = 'p'
), sizes AS (
    SELECT shard, sum(relpages) * current_setting('block_size')::bigint AS bytes
    FROM (SELECT shard, oid FROM tables UNION ALL SELECT shard, reltoastrelid FROM tables) AS t (shard, heap)
        CROSS JOIN LATERAL (SELECT heap UNION ALL SELECT indexrelid FROM pg_index WHERE indrelid = heap) AS part (relation)
        JOIN pg_class ON oid = relation
    GROUP BY shard
), bounds AS (
    SELECT shard, jsonb_agg(jsonb_build_array(rows,
        CASE WHEN stakind1 = 2 THEN stavalues1 WHEN stakind2 = 2 THEN stavalues2 ELSE stavalues3 END::text)) AS histograms
    FROM tables JOIN pg_statistic ON starelid = oid AND staattnum = id AND NOT stainherit
        JOIN pg_attribute ON attrelid = oid AND attnum = id AND atttypid = 'bigint'::regtype
    WHERE 2 IN (stakind1, stakind2, stakind3) GROUP BY shard
)
SELECT shard, epoch, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now,
    coalesce(bytes, 0) AS bytes, coalesce(histograms, '[]') AS histograms
FROM shards LEFT JOIN sizes USING (shard) LEFT JOIN bounds USING (shard)

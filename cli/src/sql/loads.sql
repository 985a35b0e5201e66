-- The size of each schema of the shards $1, and the histograms of its ids, from which the rate of
-- inserts is estimated. Any role can define many shards in one schema with many tables, so no table
-- is read once for each shard. This reads only catalogs: planning a query on a table can run
-- functions of the table's owner, and to read its size waits for a session that has locked it. The
-- placeholder is the extension's schema. (Its name must not be inserted into a comment, because it
-- can contain a line break.)
WITH shards AS MATERIALIZED (
    -- A shard that several schemas define cannot be moved.
    SELECT DISTINCT ON (shard) shard, schema::oid, (extract(epoch FROM epoch) * 1000)::bigint AS epoch
    FROM {extension}._shard_states() WHERE shard = ANY ($1::int[]) ORDER BY shard, schema::oid
), schemas AS MATERIALIZED (
    SELECT schema, jsonb_agg(jsonb_build_array(shard, epoch)) AS shards FROM shards GROUP BY schema
), tables AS MATERIALIZED (
    SELECT schema, c.oid, reltoastrelid, CASE WHEN reltuples BETWEEN 0 AND 1e15 THEN reltuples ELSE 0 END AS rows, conkey[1] AS id
    FROM schemas JOIN pg_class AS c ON relnamespace = schema AND relkind IN ('r', 'm')
        LEFT JOIN pg_constraint ON conrelid = c.oid AND contype = 'p'
), sizes AS MATERIALIZED (
    SELECT schema, sum(greatest(relpages, 0)) * current_setting('block_size')::bigint AS bytes
    FROM (SELECT schema, oid FROM tables UNION ALL SELECT schema, reltoastrelid FROM tables) AS t (schema, heap)
        CROSS JOIN LATERAL (SELECT heap UNION ALL SELECT indexrelid FROM pg_index WHERE indrelid = heap) AS part (relation)
        JOIN pg_class ON oid = relation
    GROUP BY schema
), bounds AS MATERIALIZED (
    -- At most 10,000 buckets for a schema, or one for each table. ANALYZE stores at most 10,001
    -- bounds. From 18 on, an owner can store any histogram. To find its length, PostgreSQL reads all
    -- of it.
    SELECT schema, jsonb_agg(jsonb_build_array(rows, thin::text)) AS histograms FROM (
        SELECT schema, rows, histogram, greatest(least(cardinality(histogram) - 1, 100, 10000 / count(*) OVER (PARTITION BY schema)), 1) AS buckets
        FROM tables JOIN pg_statistic ON starelid = oid AND staattnum = id AND NOT stainherit
            JOIN pg_attribute ON attrelid = oid AND attnum = id AND atttypid = 'bigint'::regtype
            CROSS JOIN LATERAL (SELECT CASE 2 WHEN stakind1 THEN stavalues1 WHEN stakind2 THEN stavalues2 WHEN stakind3 THEN stavalues3 END) AS h (histogram)
        WHERE CASE WHEN pg_column_size(histogram) <= 100000 THEN cardinality(histogram) END <= 10001
    ) AS t CROSS JOIN LATERAL (SELECT histogram::text::bigint[] OFFSET 0) AS f (fine)
        CROSS JOIN LATERAL (SELECT ARRAY(SELECT fine[1 + n * (cardinality(fine) - 1) / buckets] FROM generate_series(0, buckets) AS n)) AS c (thin)
    GROUP BY schema
)
SELECT shards, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now,
    coalesce(bytes, 0) AS bytes, coalesce(histograms, '[]') AS histograms
FROM schemas LEFT JOIN sizes USING (schema) LEFT JOIN bounds USING (schema)

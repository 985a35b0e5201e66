-- The view of all shards, and comments. Part of the extension's script; see src/functions/id_shards.rs.

-- search_path is pg_catalog and then the extension's schema, in which other roles may have created operators. They
-- cannot take the place of an operator in pg_catalog with exactly the same argument types. pg_catalog has no = for oid
-- and regnamespace, only one for their common type. So that operator is qualified with its schema.

CREATE VIEW id_shards AS
SELECT shard, nspname AS schema, sequence, epoch, last_id,
       id_time(last_id, epoch) AS last_time,
       CASE WHEN last_id IS NOT NULL THEN greatest(id_time(last_id, epoch) - clock_timestamp(), '0') END AS ahead,
       1024000::bigint AS ids_per_second,
       epoch + '1099511627776 milliseconds'::interval AS ends_at, -- 2^40: ids would turn negative
       reason IS NULL AS can_generate,
       reason
FROM _shard_states() JOIN pg_catalog.pg_namespace ON pg_namespace.oid OPERATOR(pg_catalog.=) schema,
     LATERAL (SELECT _shard_reason(shard, schema) OFFSET 0) AS r (reason); -- OFFSET: evaluated once, or not at all

GRANT SELECT ON id_shards TO PUBLIC;

COMMENT ON FUNCTION _shard_states() IS
'every shard of this database, with its last id; a part of the view id_shards';
COMMENT ON FUNCTION _shard_reason(integer, regnamespace) IS
'why ids of the shard of a schema may not be generated here; a part of the view id_shards';
COMMENT ON FUNCTION instagram_id_version() IS
'version of the library that the session has loaded';
COMMENT ON VIEW id_shards IS
'every shard of this database, its last id, and whether ids may be generated here';
COMMENT ON COLUMN id_shards.shard IS 'number, 0 to 8191';
COMMENT ON COLUMN id_shards.schema IS 'schema of the shard';
COMMENT ON COLUMN id_shards.sequence IS 'sequence that its ids come from';
COMMENT ON COLUMN id_shards.epoch IS 'instant that its ids count from';
COMMENT ON COLUMN id_shards.last_id IS 'last id; NULL if there is none, or the caller may neither read the sequence nor all statistics';
COMMENT ON COLUMN id_shards.last_time IS 'time of that id';
COMMENT ON COLUMN id_shards.ahead IS 'how far that time is ahead of the clock';
COMMENT ON COLUMN id_shards.ids_per_second IS 'maximum number of ids per second';
COMMENT ON COLUMN id_shards.ends_at IS 'when its ids end';
COMMENT ON COLUMN id_shards.can_generate IS 'whether ids of the shard may be generated here';
COMMENT ON COLUMN id_shards.reason IS 'why ids may not be generated here; NULL if they may';

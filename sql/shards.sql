-- The view of all shards, and comments. Part of the extension's script; see src/status.rs.

-- The script finds pg_catalog first, then the schema that the extension goes to, where others may have put operators
-- before. What pg_catalog has for the very types given is safe from them. It has no = for oid and regnamespace, only
-- what these are cast to; so that one is named with its schema.

CREATE VIEW shards AS
SELECT shard, nspname AS schema, sequence, epoch, last_id,
       id_time(last_id, epoch) AS last_time,
       CASE WHEN last_id IS NOT NULL THEN greatest(id_time(last_id, epoch) - clock_timestamp(), '0') END AS ahead,
       1024000::bigint AS ids_per_second,
       epoch + '1099511627776 milliseconds'::interval AS ends_at, -- 2^40: ids would turn negative
       at_home,
       shard_problem(shard, schema) AS problem
FROM shard_states() JOIN pg_catalog.pg_namespace ON pg_namespace.oid OPERATOR(pg_catalog.=) schema;

GRANT SELECT ON shards TO PUBLIC;

COMMENT ON FUNCTION shard_states() IS
'every shard of this database, with its last id; a part of the view shards';
COMMENT ON FUNCTION shard_problem(integer, regnamespace) IS
'what keeps the shard of a schema from generating its ids as it should; a part of the view shards';
COMMENT ON FUNCTION instagram_id_version() IS
'version of the library that the session has loaded';
COMMENT ON VIEW shards IS
'every shard of this database and how it stands';
COMMENT ON COLUMN shards.shard IS 'number, 0 to 8191';
COMMENT ON COLUMN shards.schema IS 'name of the schema that is the shard';
COMMENT ON COLUMN shards.sequence IS 'sequence that its ids come from';
COMMENT ON COLUMN shards.epoch IS 'instant that its ids count from';
COMMENT ON COLUMN shards.last_id IS 'id made last; NULL where there is none, or no right on the sequence to see it';
COMMENT ON COLUMN shards.last_time IS 'time of that id';
COMMENT ON COLUMN shards.ahead IS 'how far that time is ahead of the clock';
COMMENT ON COLUMN shards.ids_per_second IS 'how many ids its format allows in a second';
COMMENT ON COLUMN shards.ends_at IS 'when its ids end';
COMMENT ON COLUMN shards.at_home IS 'whether the shard was made or claimed in this very database; false for a copy';
COMMENT ON COLUMN shards.problem IS 'what keeps the functions of the shard from generating its ids as they should; NULL where all is well';

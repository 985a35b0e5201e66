CREATE SCHEMA shard_map;

CREATE TABLE shard_map.servers (
    server text PRIMARY KEY,
    conninfo text NOT NULL,
    trusted text[] NOT NULL DEFAULT '{}'
);

-- One row with the version of the last change. A transaction that changes the placement of a shard
-- locks this row until it commits. So when a version becomes visible, all smaller versions are
-- visible.
CREATE TABLE shard_map.last (
    version bigint NOT NULL
);
CREATE UNIQUE INDEX one_row ON shard_map.last ((true));
INSERT INTO shard_map.last VALUES (0);

CREATE TABLE shard_map.shards (
    shard int PRIMARY KEY CHECK (shard BETWEEN 0 AND 8191),
    server text NOT NULL REFERENCES shard_map.servers ON UPDATE CASCADE,
    version bigint NOT NULL
);

-- Lock the row of shard_map.last before the rows of any shards. Otherwise two transactions that
-- change several shards in different orders could deadlock.
CREATE FUNCTION shard_map.take_turns() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM shard_map.last FOR UPDATE;
    RETURN NULL;
END $$;

CREATE FUNCTION shard_map.count_the_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE shard_map.last SET version = version + 1 RETURNING version INTO STRICT NEW.version;
    RETURN NEW;
END $$;

CREATE TRIGGER turns BEFORE INSERT OR UPDATE ON shard_map.shards EXECUTE FUNCTION shard_map.take_turns();
CREATE TRIGGER version BEFORE INSERT OR UPDATE ON shard_map.shards
    FOR EACH ROW EXECUTE FUNCTION shard_map.count_the_version();

-- Moves in progress, and finished moves whose old copy still exists.
CREATE TABLE shard_map.moves (
    shard int PRIMARY KEY REFERENCES shard_map.shards,
    source text NOT NULL REFERENCES shard_map.servers ON UPDATE CASCADE,
    target text NOT NULL REFERENCES shard_map.servers ON UPDATE CASCADE,
    schema text NOT NULL,
    started timestamptz NOT NULL DEFAULT now(),
    switched timestamptz,
    finished timestamptz,
    sequences jsonb,
    definition jsonb,
    copy_definition jsonb,
    subscribed timestamptz,
    rows jsonb
);

COMMENT ON SCHEMA shard_map IS 'which server holds which logical shard';
COMMENT ON TABLE shard_map.servers IS 'the servers that hold shards';
COMMENT ON COLUMN shard_map.servers.conninfo IS 'how to connect to the database there: a URI, or keywords and values';
COMMENT ON COLUMN shard_map.servers.trusted IS 'roles of this server whose code may run with the rights of instagram_id_shards';
COMMENT ON TABLE shard_map.last IS 'the version of the last change of a place';
COMMENT ON TABLE shard_map.shards IS 'where each shard is';
COMMENT ON COLUMN shard_map.shards.version IS 'of the last change of this row; the table sees to it';
COMMENT ON TABLE shard_map.moves IS 'moves under way, and those that have left an old copy; see instagram_id_shards';
COMMENT ON COLUMN shard_map.moves.switched IS 'when the map was changed; from then on the shard is on the target';
COMMENT ON COLUMN shard_map.moves.finished IS 'when all that was left to do was to clean up';
COMMENT ON COLUMN shard_map.moves.sequences IS 'MINVALUE, MAXVALUE, START, CYCLE and OID of the sequences, from before they were closed';
COMMENT ON COLUMN shard_map.moves.definition IS 'hashes of the objects of the schema when it was dumped from the source, its identity, and the timeline of the server; and changes that a command has noticed since';
COMMENT ON COLUMN shard_map.moves.copy_definition IS 'the same of the copy when it was created on the target';
COMMENT ON COLUMN shard_map.moves.subscribed IS 'when the move was about to subscribe; until it ends, it has names of slots on the source';
COMMENT ON COLUMN shard_map.moves.rows IS 'the numbers of rows with which the copy was opened, which the old copy must have as well';

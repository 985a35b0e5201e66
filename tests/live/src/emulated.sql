-- The part of Citus that the extension reads and calls: its catalogs, with their columns and types,
-- the invalidations that Citus sends when they change, and master_run_on_worker(), whose
-- commands a thread of the test runs; see Commands. PIPE is replaced by the path of its pipe.

CREATE TYPE pg_catalog.noderole AS ENUM ('primary', 'secondary', 'unavailable');
CREATE TABLE pg_catalog.pg_dist_local_group (groupid int PRIMARY KEY);
CREATE TABLE pg_catalog.pg_dist_node (
    nodeid int PRIMARY KEY, groupid int NOT NULL, nodename text NOT NULL, nodeport int NOT NULL DEFAULT 5432,
    noderack text NOT NULL DEFAULT 'default', hasmetadata bool NOT NULL DEFAULT true, isactive bool NOT NULL DEFAULT true,
    noderole noderole NOT NULL DEFAULT 'primary', nodecluster name NOT NULL DEFAULT 'default',
    metadatasynced bool NOT NULL DEFAULT true, shouldhaveshards bool NOT NULL DEFAULT true, UNIQUE (nodename, nodeport)
);
CREATE TABLE pg_catalog.pg_dist_object (
    classid oid NOT NULL, objid oid NOT NULL, objsubid int NOT NULL, type text, object_names text[], object_args text[],
    distribution_argument_index int, colocationid int, force_delegation bool, PRIMARY KEY (classid, objid, objsubid)
);
CREATE TABLE pg_catalog.pg_dist_schema (schemaid oid PRIMARY KEY, colocationid int NOT NULL UNIQUE);
CREATE TABLE pg_catalog.pg_dist_partition (
    logicalrelid regclass NOT NULL UNIQUE, partmethod "char" NOT NULL, partkey text, colocationid int NOT NULL DEFAULT 0,
    repmodel "char" NOT NULL DEFAULT 'c', autoconverted bool NOT NULL DEFAULT false
);
CREATE TABLE pg_catalog.pg_dist_shard (
    logicalrelid regclass NOT NULL, shardid bigint PRIMARY KEY, shardstorage "char" NOT NULL, shardminvalue text, shardmaxvalue text
);
CREATE TABLE pg_catalog.pg_dist_placement (
    placementid bigint PRIMARY KEY, shardid bigint NOT NULL, shardstate int NOT NULL, shardlength bigint NOT NULL, groupid int NOT NULL
);
GRANT SELECT ON pg_catalog.pg_dist_local_group, pg_catalog.pg_dist_node, pg_catalog.pg_dist_object, pg_catalog.pg_dist_schema,
    pg_catalog.pg_dist_partition, pg_catalog.pg_dist_shard, pg_catalog.pg_dist_placement TO PUBLIC;

-- An update of a row of pg_class invalidates that relation in the caches of all sessions, even if
-- it changes no value.
CREATE FUNCTION pg_catalog.emulated_invalidate() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    changed record := coalesce(NEW, OLD);
    relation oid := TG_RELID;
BEGIN
    IF TG_RELID IN ('pg_dist_partition'::regclass, 'pg_dist_shard'::regclass) THEN
        relation := changed.logicalrelid;
    ELSIF TG_RELID = 'pg_dist_placement'::regclass THEN
        relation := (SELECT logicalrelid FROM pg_dist_shard WHERE shardid = changed.shardid);
    END IF;
    UPDATE pg_class SET reltuples = reltuples WHERE oid = relation;
    RETURN NULL;
END $$;
-- Citus has no such trigger on pg_dist_schema.
DO $$
DECLARE
    relation text;
BEGIN
    FOREACH relation IN ARRAY '{local_group,node,object,partition,shard,placement}'::text[] LOOP
        EXECUTE format('CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE ON pg_catalog.%I FOR EACH ROW
                        EXECUTE FUNCTION pg_catalog.emulated_invalidate()', 'pg_dist_' || relation);
    END LOOP;
END $$;

CREATE FUNCTION pg_catalog.relation_is_a_known_shard(regclass) RETURNS bool LANGUAGE sql STABLE RETURN false;

-- Faults of commands on another node. A command that is LIKE the one in the row waits for the
-- advisory lock before it runs ('pause') or after it has run ('pause after'), is not run
-- ('refuse'), or is run and its result is lost ('lose').
CREATE TABLE pg_catalog.emulated_faults (node_name text, command text, kind text);

-- Runs a command on a node, as a role. COPY to a file needs neither a temporary table nor another
-- table to write to, so this works in a security-restricted operation.
CREATE FUNCTION pg_catalog.emulated_run(role text, node text, port int, sql text, OUT success bool, OUT result text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    kinds text[] := ARRAY(SELECT kind FROM emulated_faults WHERE node LIKE node_name AND sql LIKE emulated_faults.command);
    file text := 'PIPE.' || gen_random_uuid();
    pause float8 := 0.001;
    state text;
BEGIN
    IF 'pause' = ANY (kinds) THEN
        PERFORM pg_advisory_lock_shared(4815);
        PERFORM pg_advisory_unlock_shared(4815);
    END IF;
    success := false;
    result := 'failed to connect to ' || node || ':' || port;
    IF 'refuse' = ANY (kinds) THEN
        RETURN;
    END IF;
    -- The quotes are a character that is in none of the values.
    EXECUTE format('COPY (SELECT %L, %L, %L, %L, %L) TO %L (FORMAT csv, FORCE_QUOTE *, QUOTE E''\x1e'', ENCODING ''UTF8'')',
                   node, port, role, current_setting('citus.node_connection_timeout'), sql, file || '.sql');
    EXECUTE format('COPY (SELECT %L) TO %L', file || '.sql', 'PIPE');
    -- The session can be canceled while it waits.
    WHILE pg_stat_file(file || '.result', true) IS NULL LOOP
        PERFORM pg_sleep(pause);
        pause := least(1.5 * pause, 0.02);
    END LOOP;
    IF 'pause after' = ANY (kinds) THEN
        PERFORM pg_advisory_lock_shared(4815);
        PERFORM pg_advisory_unlock_shared(4815);
    END IF;
    IF 'lose' = ANY (kinds) THEN
        result := 'connection lost';
        RETURN;
    END IF;
    result := pg_read_file(file || '.result');
    state := split_part(result, E'\n', 1);
    result := substr(result, length(state) + 2);
    success := state = 'done';
    -- As Citus says it.
    IF state = 'not connected' THEN
        result := 'failed to connect to ' || node || ':' || port || ': ' || result;
    END IF;
END $$;

-- Citus connects as the current role.
CREATE FUNCTION pg_catalog.master_run_on_worker(
    worker_name text[], port int[], command text[], parallel bool,
    OUT node_name text, OUT node_port int, OUT success bool, OUT result text
) RETURNS SETOF record LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    FOR n IN 1 .. cardinality(worker_name) LOOP
        node_name := worker_name[n];
        node_port := port[n];
        SELECT run.success, run.result INTO success, result
        FROM emulated_run(current_user::text, worker_name[n], port[n], command[n]) AS run;
        RETURN NEXT;
    END LOOP;
END $$;

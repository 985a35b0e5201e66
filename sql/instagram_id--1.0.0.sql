/* The script of CREATE EXTENSION instagram_id. Each function in C is a function in src/functions or src/adopt. */
\echo Use "CREATE EXTENSION instagram_id" to load this file. \quit

-- search_path is pg_catalog and then the extension's schema, in which other roles may have created
-- functions and operators. A call or an operator is safe from them only if pg_catalog has one with
-- exactly its argument types. Otherwise it names the schema: pg_catalog.format(...),
-- OPERATOR(pg_catalog.=).

-- The portable edition has its own lock on a sequence, so the two together would repeat ids. Any
-- role can create a function of its name. So the functions count only if a mutex exists, too. Their
-- owners may differ. A comment would be no mark: pg_dump can leave it out.
DO $$
DECLARE
    place name;
    found text;
    former text := pg_catalog.current_setting('lock_timeout');
BEGIN
    -- A GRANT of any role that may use the schema, even one without effect, keeps its row locked.
    IF pg_catalog.current_setting('lock_timeout')::interval NOT BETWEEN '1 ms' AND '2 s' THEN
        PERFORM pg_catalog.set_config('lock_timeout', '2s', true);
    END IF;
    -- search_path has the name of the schema. Its row is locked, so that no other role gives the
    -- name to another schema meanwhile.
    SELECT nspname INTO place FROM pg_extension JOIN pg_namespace AS n ON n.oid = extnamespace WHERE extname = 'instagram_id' FOR UPDATE OF n;
    PERFORM pg_catalog.set_config('lock_timeout', former, true);
    IF place IS DISTINCT FROM pg_catalog.current_schema() THEN
        RAISE EXCEPTION USING ERRCODE = '55006', MESSAGE = 'the schema of the extension has got another name', HINT = 'Try again.';
    END IF;
    -- Two sessions that install both editions at the same moment would not see each other.
    IF NOT pg_try_advisory_xact_lock(1314220021721) THEN
        RAISE EXCEPTION USING ERRCODE = '55006', MESSAGE = 'another session installs instagram_id in this database',
            DETAIL = 'It holds the advisory lock 1314220021721.', HINT = 'Try again when the lock is free; pg_locks lists who has it.';
    ELSIF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION USING ERRCODE = '55000',
            MESSAGE = pg_catalog.format('cannot install instagram_id at isolation level %s', pg_catalog.current_setting('transaction_isolation')),
            DETAIL = 'The snapshot of the transaction may be older than the portable edition.',
            HINT = 'Use BEGIN ISOLATION LEVEL READ COMMITTED, or SET default_transaction_isolation = ''read committed''.';
    END IF;
    SELECT pg_catalog.format('Schema %I of role %I has its functions.', n.nspname, pg_catalog.pg_get_userbyid(n.nspowner)) INTO found
        FROM pg_namespace AS n JOIN pg_proc ON pronamespace = n.oid AND proname = '_shard_next_id'
            JOIN pg_namespace AS m ON m.nspname = 'ids_mutexes'
            JOIN pg_class ON relnamespace = m.oid AND relname = '_mutex_0'
        WHERE n.nspname = 'ids' LIMIT 1;
    IF found IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'the portable edition of instagram_id is installed in this database',
            DETAIL = pg_catalog.format('%s Ids of a shard must come either from the library or from the portable edition.', found),
            HINT = 'Let the extension take its place with CREATE EXTENSION instagram_id SCHEMA ids VERSION ''1.0.0-portable''. If it is not the portable edition, rename schema ids.';
    END IF;
    -- The original often has this name. PostgreSQL's own error would have no hint.
    IF EXISTS (SELECT FROM pg_proc JOIN pg_namespace AS n ON n.oid = pronamespace WHERE nspname = place AND proname = 'next_id' AND pronargs = 0) THEN
        RAISE EXCEPTION USING ERRCODE = '42723', MESSAGE = pg_catalog.format('function %I.next_id() already exists', place),
            DETAIL = 'A function of the extension has this name.',
            HINT = 'Use a schema of its own for the extension: BEGIN; CREATE SCHEMA ids; GRANT USAGE ON SCHEMA ids TO PUBLIC; '
                'CREATE EXTENSION instagram_id SCHEMA ids; COMMIT. If that function is the PL/pgSQL original, adopt it then.';
    END IF;
END $$;

/* Generating ids */

-- Outside of queries PostgreSQL plans _next_id(..., nextval(...)) in place of next_id(...), so that
-- COPY inserts in batches; see src/functions/copy.rs. nextval keeps the expression volatile.
CREATE FUNCTION _next_id_support(request internal) RETURNS internal
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'next_id_support_wrapper';
COMMENT ON FUNCTION _next_id_support(internal) IS
'planner support function; a part of next_id()';

CREATE FUNCTION _next_id("nextval" bigint) RETURNS bigint
    LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'copy_id_of_setting_wrapper';
COMMENT ON FUNCTION _next_id(bigint) IS
'next_id() as COPY calls it; a part of next_id()';

CREATE FUNCTION _next_id(shard integer, "nextval" bigint) RETURNS bigint
    LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'copy_id_of_shard_wrapper';
COMMENT ON FUNCTION _next_id(integer, bigint) IS
'next_id(shard) as COPY calls it; a part of next_id()';

CREATE FUNCTION _next_id(shard integer, seq regclass, "nextval" bigint) RETURNS bigint
    LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'copy_id_of_sequence_wrapper';
COMMENT ON FUNCTION _next_id(integer, regclass, bigint) IS
'next_id(shard, seq) as COPY calls it; a part of next_id()';

CREATE FUNCTION _next_id(shard integer, seq regclass, epoch timestamptz, "nextval" bigint) RETURNS bigint
    LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'copy_id_of_sequence_and_epoch_wrapper';
COMMENT ON FUNCTION _next_id(integer, regclass, timestamptz, bigint) IS
'next_id(shard, seq, epoch) as COPY calls it; a part of next_id()';

CREATE FUNCTION next_id(shard integer) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE SUPPORT _next_id_support AS 'MODULE_PATHNAME', 'next_id_of_shard_wrapper';
COMMENT ON FUNCTION next_id(integer) IS
'next id of a shard (0 to 8191), from the sequence in its schema';

CREATE FUNCTION next_id(shard integer, seq regclass) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE SUPPORT _next_id_support AS 'MODULE_PATHNAME', 'next_id_of_sequence_wrapper';
COMMENT ON FUNCTION next_id(integer, regclass) IS
'next id of a shard (0 to 8191), from a sequence of your own';

CREATE FUNCTION next_id(shard integer, seq regclass, epoch timestamptz) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE SUPPORT _next_id_support AS 'MODULE_PATHNAME', 'next_id_of_sequence_and_epoch_wrapper';
COMMENT ON FUNCTION next_id(integer, regclass, timestamptz) IS
'next id of a shard (0 to 8191), from a sequence of your own, counted from an epoch of your own';

-- The same function, under a name that no shard has; see src/shard/ddl.rs.
CREATE FUNCTION shard_next_id(shard integer, seq regclass, epoch timestamptz) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE SUPPORT _next_id_support AS 'MODULE_PATHNAME', 'next_id_of_sequence_and_epoch_wrapper';
COMMENT ON FUNCTION shard_next_id(integer, regclass, timestamptz) IS
'next id of a shard from a sequence, counted from an epoch; called by next_id() in the schema of a shard';

CREATE FUNCTION next_id() RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE SUPPORT _next_id_support AS 'MODULE_PATHNAME', 'next_id_of_setting_wrapper';
COMMENT ON FUNCTION next_id() IS
'next id of the shard that the setting instagram_id.shard names';

CREATE FUNCTION next_ids(shard integer, count integer) RETURNS SETOF bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'next_ids_wrapper';
COMMENT ON FUNCTION next_ids(integer, integer) IS
'next ids of a shard, as many as requested, in order';

CREATE FUNCTION node_next_id(seq regclass, epoch timestamptz DEFAULT NULL) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'node_next_id_wrapper';
COMMENT ON FUNCTION node_next_id(regclass, timestamptz) IS
'next id of this Citus node, with its group id as the shard, from its own copy of a sequence';

/* Decoding ids. LEAKPROOF: these can neither fail nor leak their argument in another way. */

CREATE FUNCTION id_time(id bigint) RETURNS timestamptz
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'MODULE_PATHNAME', 'id_time_wrapper';
COMMENT ON FUNCTION id_time(bigint) IS
'time at which an id was generated, to the millisecond';

CREATE FUNCTION id_time(id bigint, epoch timestamptz) RETURNS timestamptz
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'id_time_epoch_wrapper';
COMMENT ON FUNCTION id_time(bigint, timestamptz) IS
'time at which an id was generated, to the millisecond, counted from the given epoch';

-- The same function, under a name that no shard has; see src/shard/ddl.rs.
CREATE FUNCTION shard_id_time(id bigint, epoch timestamptz) RETURNS timestamptz
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'id_time_epoch_wrapper';
COMMENT ON FUNCTION shard_id_time(bigint, timestamptz) IS
'time at which an id was generated, counted from the given epoch; called by id_time(id) in the schema of a shard';

CREATE FUNCTION id_shard(id bigint) RETURNS integer
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'MODULE_PATHNAME', 'id_shard_wrapper';
COMMENT ON FUNCTION id_shard(bigint) IS
'logical shard that generated an id, 0 to 8191';

CREATE FUNCTION id_seq(id bigint) RETURNS integer
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'MODULE_PATHNAME', 'id_seq_wrapper';
COMMENT ON FUNCTION id_seq(bigint) IS
'sequence field of an id, 0 to 1023';

CREATE FUNCTION id_parts(id bigint, OUT created_at timestamptz, OUT shard integer, OUT seq integer)
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    BEGIN ATOMIC SELECT id_time(id), id_shard(id), id_seq(id); END;
COMMENT ON FUNCTION id_parts(bigint) IS
'time, shard and sequence field of an id';

CREATE FUNCTION id_parts(id bigint, epoch timestamptz, OUT created_at timestamptz, OUT shard integer, OUT seq integer)
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    BEGIN ATOMIC SELECT id_time(id, epoch), id_shard(id), id_seq(id); END;
COMMENT ON FUNCTION id_parts(bigint, timestamptz) IS
'time, shard and sequence field of an id, counted from the given epoch';

CREATE FUNCTION id_explain(id bigint, epoch timestamptz DEFAULT NULL) RETURNS TABLE (field text, value text)
    LANGUAGE c STABLE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'id_explain_wrapper';
COMMENT ON FUNCTION id_explain(bigint, timestamptz) IS
'fields of an id, one per row: time, age, shard, sequence field, bits, short code';

CREATE FUNCTION id_to_shortcode(id bigint) RETURNS text
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'MODULE_PATHNAME', 'id_to_shortcode_wrapper';
COMMENT ON FUNCTION id_to_shortcode(bigint) IS
'short code of an id, as in links: base 64 (A-Z, a-z, 0-9, -, _), most significant digit first';

CREATE FUNCTION shortcode_to_id(code text) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'shortcode_to_id_wrapper';
COMMENT ON FUNCTION shortcode_to_id(text) IS
'id of a short code';

CREATE FUNCTION shard_for(key bigint, shards integer) RETURNS integer
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'shard_for_wrapper';
COMMENT ON FUNCTION shard_for(bigint, integer) IS
'logical shard that a key belongs to, of that many shards: key % shards, never negative';

/* Ids of a time */

CREATE FUNCTION make_id("time" timestamptz, shard integer, seq integer) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'make_id_wrapper';
COMMENT ON FUNCTION make_id(timestamptz, integer, integer) IS
'id of a time, shard (0 to 8191) and sequence field (0 to 1023)';

CREATE FUNCTION make_id("time" timestamptz, shard integer, seq integer, epoch timestamptz) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'make_id_epoch_wrapper';
COMMENT ON FUNCTION make_id(timestamptz, integer, integer, timestamptz) IS
'id of a time, shard (0 to 8191) and sequence field (0 to 1023), counted from the given epoch';

CREATE FUNCTION id_floor("time" timestamptz) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'id_floor_wrapper';
COMMENT ON FUNCTION id_floor(timestamptz) IS
'smallest id at or after a time';

CREATE FUNCTION id_floor("time" timestamptz, epoch timestamptz) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'id_floor_epoch_wrapper';
COMMENT ON FUNCTION id_floor(timestamptz, timestamptz) IS
'smallest id at or after a time, counted from the given epoch';

CREATE FUNCTION id_range_end(from_time timestamptz, to_time timestamptz) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'id_range_end_wrapper';
COMMENT ON FUNCTION id_range_end(timestamptz, timestamptz) IS
'first id after the times from from_time up to, but not including, to_time; a part of id_between';

CREATE FUNCTION id_range_end(from_time timestamptz, to_time timestamptz, epoch timestamptz) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'id_range_end_epoch_wrapper';
COMMENT ON FUNCTION id_range_end(timestamptz, timestamptz, timestamptz) IS
'first id after the times from from_time up to, but not including, to_time, counted from the given epoch; a part of id_between';

-- The planner inlines these into two comparisons, for which it can use an index on the id. It would
-- not inline them if they were STRICT, because AND is not strict.
CREATE FUNCTION id_between(id bigint, from_time timestamptz, to_time timestamptz) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN id >= id_floor(from_time) AND id < id_range_end(from_time, to_time);
COMMENT ON FUNCTION id_between(bigint, timestamptz, timestamptz) IS
'whether an id was generated from from_time up to, but not including, to_time; can use an index on the id';

CREATE FUNCTION id_between(id bigint, from_time timestamptz, to_time timestamptz, epoch timestamptz) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN id >= id_floor(from_time, epoch) AND id < id_range_end(from_time, to_time, epoch);
COMMENT ON FUNCTION id_between(bigint, timestamptz, timestamptz, timestamptz) IS
'whether an id was generated from from_time up to, but not including, to_time, counted from the given epoch; can use an index on the id';

CREATE FUNCTION backfill_id("time" timestamptz, shard integer) RETURNS bigint
    LANGUAGE c WINDOW VOLATILE PARALLEL SAFE AS 'MODULE_PATHNAME', 'backfill_id_wrapper';
COMMENT ON FUNCTION backfill_id(timestamptz, integer) IS
'id for an existing row, at its time; OVER (ORDER BY that time), ids of a shard (0 to 8191) are unique';

CREATE FUNCTION backfill_id("time" timestamptz, shard integer, epoch timestamptz) RETURNS bigint
    LANGUAGE c WINDOW VOLATILE PARALLEL SAFE AS 'MODULE_PATHNAME', 'backfill_id_wrapper';
COMMENT ON FUNCTION backfill_id(timestamptz, integer, timestamptz) IS
'id for an existing row, at its time, counted from the given epoch; OVER (ORDER BY that time), ids of a shard (0 to 8191) are unique';

/* Shards */

CREATE FUNCTION create_shard(
    shard integer, schema text DEFAULT NULL, epoch timestamptz DEFAULT NULL, if_not_exists boolean DEFAULT false
) RETURNS regnamespace
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'create_shard_wrapper';
COMMENT ON FUNCTION create_shard(integer, text, timestamptz, boolean) IS
'creates a logical shard (0 to 8191): a schema, insta<shard> by default, with its sequence and functions';

CREATE FUNCTION advance_shard(shard integer, id bigint) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'advance_shard_wrapper';
COMMENT ON FUNCTION advance_shard(integer, bigint) IS
'makes the next id of a shard greater than an id, unless it already is; returns the last id';

CREATE FUNCTION claim_shard(shard integer) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'claim_shard_wrapper';
COMMENT ON FUNCTION claim_shard(integer) IS
'records that this database generates the ids of a shard, after a move or a restore';

/* Existing schemas and tables */

CREATE FUNCTION adopt_shard(
    shard integer, schema text DEFAULT NULL, function regprocedure DEFAULT NULL, sequence regclass DEFAULT NULL,
    epoch timestamptz DEFAULT NULL, dry_run boolean DEFAULT false
) RETURNS TABLE (
    shard integer, schema regnamespace, function regprocedure, sequence regclass, epoch timestamptz,
    newest_id bigint, starts_above bigint, script text
)
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'adopt_shard_wrapper';
COMMENT ON FUNCTION adopt_shard(integer, text, regprocedure, regclass, timestamptz, boolean) IS
'takes over a schema that runs the PL/pgSQL original, in place; with dry_run only shows what it would do';

CREATE FUNCTION unadopt_shard(shard integer) RETURNS regprocedure
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'unadopt_shard_wrapper';
COMMENT ON FUNCTION unadopt_shard(integer) IS
'restores the PL/pgSQL original of an adopted shard, in place';

CREATE FUNCTION adopt_table(
    shard integer, "table" regclass, "column" text DEFAULT NULL, dry_run boolean DEFAULT false, schema text DEFAULT NULL
) RETURNS TABLE (
    shard integer, table_name regclass, column_name text, newest_key bigint, adopted boolean, script text,
    way_back text
)
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'adopt_table_wrapper';
COMMENT ON FUNCTION adopt_table(integer, regclass, text, boolean, text) IS
'makes ids of a shard the default of a column with a serial, an identity or ids of another shard; with dry_run only shows the statements';

CREATE FUNCTION adopt_new_tables() RETURNS event_trigger
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'adopt_new_tables_wrapper';
COMMENT ON FUNCTION adopt_new_tables() IS
'event trigger ON ddl_command_end: gives serial and identity keys of new tables in the schema of a shard ids of the shard';

/* Partitions */

CREATE FUNCTION create_id_partitions(
    "table" regclass, every text DEFAULT 'month', ahead integer DEFAULT 3, from_time timestamptz DEFAULT NULL,
    epoch timestamptz DEFAULT NULL
) RETURNS SETOF regclass
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'create_id_partitions_wrapper';
COMMENT ON FUNCTION create_id_partitions(regclass, text, integer, timestamptz, timestamptz) IS
'creates the missing partitions of a table by the time in its ids, by day, week or month; returns them';

CREATE FUNCTION drop_old_id_partitions(
    "table" regclass, before timestamptz, epoch timestamptz DEFAULT NULL, detach boolean DEFAULT false
) RETURNS SETOF text
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'drop_old_id_partitions_wrapper';
COMMENT ON FUNCTION drop_old_id_partitions(regclass, timestamptz, timestamptz, boolean) IS
'drops or detaches the partitions that contain only ids from before a time; returns their names';

/* Citus */

CREATE FUNCTION next_id_trigger() RETURNS trigger
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'next_id_trigger_wrapper';
COMMENT ON FUNCTION next_id_trigger() IS
'trigger BEFORE INSERT FOR EACH ROW: fills a column with the next id of a shard; arguments: shard, column';

CREATE FUNCTION convert_defaults_to_triggers(shard integer) RETURNS TABLE (table_name regclass, column_name text)
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'convert_defaults_to_triggers_wrapper';
COMMENT ON FUNCTION convert_defaults_to_triggers(integer) IS
'replaces column defaults that generate ids of a shard by triggers, for Citus; in the tables of one role';

CREATE FUNCTION take_over_shards(recover boolean DEFAULT false)
    RETURNS TABLE (shard integer, sequence regclass, reason text)
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'take_over_shards_wrapper';
COMMENT ON FUNCTION take_over_shards(boolean) IS
'on a Citus cluster, takes over the sequences of all shards that this node owns since a move, with recover also those of a lost node; returns the shards';

CREATE FUNCTION recover_shard(shard integer) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'recover_shard_wrapper';
COMMENT ON FUNCTION recover_shard(integer) IS
'continues a shard whose last ids were generated by a lost node of a Citus cluster; returns the last id';

CREATE FUNCTION _close_sequence(seq regclass, for_group integer, attempt integer)
    RETURNS TABLE (next_value bigint, last_holder integer, placed_on integer)
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'close_sequence_wrapper';
COMMENT ON FUNCTION _close_sequence(regclass, integer, integer) IS
'closes this Citus node''s copy of a sequence for the node that takes it over; a part of next_id()';

CREATE FUNCTION _record_sequence_holder(seq regclass, for_group integer, attempt integer, floor bigint)
    RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'record_sequence_holder_wrapper';
COMMENT ON FUNCTION _record_sequence_holder(regclass, integer, integer, bigint) IS
'records the Citus node that takes a sequence over; a part of next_id()';

/* Monitoring */

CREATE FUNCTION instagram_id_version() RETURNS text
    LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'instagram_id_version_wrapper';
COMMENT ON FUNCTION instagram_id_version() IS
'version of the library that the session has loaded';

CREATE FUNCTION _shard_states()
    RETURNS TABLE (shard integer, schema regnamespace, sequence regclass, epoch timestamptz, last_id bigint)
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shard_states_wrapper';
COMMENT ON FUNCTION _shard_states() IS
'every shard of this database, with its last id; a part of the view id_shards';

-- STABLE, so that it is not called if its result is not selected.
CREATE FUNCTION _shard_reason(shard integer, schema regnamespace) RETURNS text
    LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shard_reason_wrapper';
COMMENT ON FUNCTION _shard_reason(integer, regnamespace) IS
'why ids of the shard of a schema may not be generated here; a part of the view id_shards';

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
COMMENT ON VIEW id_shards IS
'every shard of this database, its last id, and whether ids may be generated here';
COMMENT ON COLUMN id_shards.shard IS 'number, 0 to 8191';
COMMENT ON COLUMN id_shards.schema IS 'schema of the shard';
COMMENT ON COLUMN id_shards.sequence IS 'sequence that its ids come from';
COMMENT ON COLUMN id_shards.epoch IS 'instant that its ids count from';
COMMENT ON COLUMN id_shards.last_id IS
'last id; NULL if there is none, or the caller may neither read the sequence nor all statistics';
COMMENT ON COLUMN id_shards.last_time IS 'time of that id';
COMMENT ON COLUMN id_shards.ahead IS 'how far that time is ahead of the clock';
COMMENT ON COLUMN id_shards.ids_per_second IS 'maximum number of ids per second';
COMMENT ON COLUMN id_shards.ends_at IS 'when its ids end';
COMMENT ON COLUMN id_shards.can_generate IS 'whether ids of the shard may be generated here';
COMMENT ON COLUMN id_shards.reason IS 'why ids may not be generated here; NULL if they may';
GRANT SELECT ON id_shards TO PUBLIC;

-- Every role may execute all functions: they run with the caller's privileges, and check those on
-- the objects that they use. Without these grants, ALTER DEFAULT PRIVILEGES ... REVOKE EXECUTE ON
-- FUNCTIONS FROM PUBLIC, in force when the extension is created, would make inserts fail.
DO $$
DECLARE
    member regprocedure;
BEGIN
    FOR member IN
        SELECT objid::regprocedure FROM pg_depend JOIN pg_extension ON pg_extension.oid = refobjid
        WHERE extname = 'instagram_id' AND deptype = 'e'
          AND refclassid = 'pg_extension'::regclass::oid AND classid = 'pg_proc'::regclass::oid
    LOOP
        EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', member);
    END LOOP;
END $$;

/* CREATE EXTENSION instagram_id SCHEMA ids VERSION '1.0.0-portable' puts the library in the place of
   the portable edition, while sessions generate ids. The Makefile inserts the functions of
   sql/instagram_id--1.0.0.sql, with CREATE OR REPLACE, so that OIDs stay, and what depends on them.

   The script runs with the rights of a superuser, and the owner of schema ids may be hostile, and at
   work in another session. No object of that role is run: functions with a name and parameters of
   the library become members that another role owns, and their text is replaced. ALTER ... OWNER
   updates the row of a function: PostgreSQL then refuses the changes of other transactions that have
   not been committed. The views are dropped.

   Statements that are running continue to call the functions whose names begin with _, which stay
   until ALTER EXTENSION UPDATE drops them. No function of the library calls these, and their owner
   cannot replace them. It can add one in a transaction that is open now: ALTER EXTENSION UPDATE waits
   for these. next_ids() cannot be inlined, so that such a statement calls it by its OID: the old one
   gets a name with _, and the library's is a new function. */
\echo Use "CREATE EXTENSION instagram_id SCHEMA ids VERSION '1.0.0-portable'" to load this file. \quit

DO $$
DECLARE
    functions oid[]; -- that stay
    locked oid[];
    path text := pg_catalog.current_setting('search_path');
    place record;
    mutexes oid;
    found text;
    item record;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    -- A lock by the OID needs no privilege.
    PERFORM set_config('take_over.lock_timeout', current_setting('lock_timeout'), true);
    IF current_setting('lock_timeout')::interval NOT BETWEEN '1 ms' AND '2 s' THEN
        PERFORM set_config('lock_timeout', '2s', true);
    END IF;
    PERFORM set_config('take_over.limit', current_setting('lock_timeout'), true);
    SELECT n.oid, nspname, nspowner, extowner INTO place
        FROM pg_extension JOIN pg_namespace AS n ON n.oid = extnamespace WHERE extname = 'instagram_id' FOR UPDATE OF n;
    -- Locked, too: the end of this script names it.
    SELECT oid INTO mutexes FROM pg_namespace WHERE nspname = 'ids_mutexes' AND nspowner = place.nspowner FOR UPDATE;
    IF NOT pg_try_advisory_xact_lock(1314220021721) THEN
        RAISE EXCEPTION USING ERRCODE = '55006', MESSAGE = 'another session installs instagram_id in this database',
            DETAIL = 'It holds the advisory lock 1314220021721.', HINT = 'Try again when the lock is free; pg_locks lists who has it.';
    ELSIF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION USING ERRCODE = '55000',
            MESSAGE = format('cannot take over at isolation level %s', current_setting('transaction_isolation')),
            DETAIL = 'The snapshot of the transaction may be older than functions of the portable edition.',
            HINT = 'Use BEGIN ISOLATION LEVEL READ COMMITTED.';
    ELSIF place.nspname <> 'ids'
        OR NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = mutexes AND relowner = place.nspowner AND relname = '_mutex_0')
    THEN
        RAISE EXCEPTION USING ERRCODE = '55000',
            MESSAGE = format('the portable edition of instagram_id is not installed in schema %I', place.nspname),
            HINT = 'If it is in schema ids, use SCHEMA ids, and give this schema, ids_mutexes, and what is in them to one role. Otherwise omit the version.';
    ELSIF EXISTS (SELECT FROM pg_depend
        WHERE classid = 'pg_namespace'::regclass AND objid = place.oid AND deptype = 'e')
    THEN
        RAISE EXCEPTION USING ERRCODE = '55000',
            MESSAGE = 'the portable edition is a Trusted Language Extension in this database',
            DETAIL = 'Its objects belong to that extension.',
            HINT = 'Take the shards to a database with the library by a dump.';
    ELSIF NOT pg_has_role(place.extowner, place.nspowner, 'USAGE') THEN
        RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'must be owner of schema ids',
            HINT = format('Use a superuser or the role %s.', place.nspowner::regrole);
    END IF;

    -- Each statement below names a function. So the rows are locked, and no other session renames
    -- or replaces one while this one waits.
    LOOP
        SELECT array_agg(oid) INTO functions FROM unnest(ARRAY[
            'next_id()', 'next_id(integer)', 'next_id(integer, regclass)', 'next_id(integer, regclass, timestamptz)',
            'shard_next_id(integer, regclass, timestamptz)', 'next_ids(integer, integer)',
            'id_time(bigint)', 'id_time(bigint, timestamptz)', 'shard_id_time(bigint, timestamptz)', 'id_shard(bigint)',
            'id_seq(bigint)', 'id_parts(bigint)', 'id_parts(bigint, timestamptz)', 'id_to_shortcode(bigint)', 'shortcode_to_id(text)',
            'shard_for(bigint, integer)', 'make_id(timestamptz, integer, integer)',
            'make_id(timestamptz, integer, integer, timestamptz)', 'id_floor(timestamptz)', 'id_floor(timestamptz, timestamptz)',
            'id_range_end(timestamptz, timestamptz)', 'id_range_end(timestamptz, timestamptz, timestamptz)',
            'id_between(bigint, timestamptz, timestamptz)', 'id_between(bigint, timestamptz, timestamptz, timestamptz)',
            'create_shard(integer, text, timestamptz, boolean)', 'advance_shard(integer, bigint)', 'claim_shard(integer)',
            'instagram_id_version()', '_shard_states()', '_shard_reason(integer, regnamespace)',
            '_shard_next_id(integer, regclass, timestamptz)'
        ]) AS signature, CAST(to_regprocedure('ids.' || signature) AS oid) AS oid WHERE oid IS NOT NULL;
        EXIT WHEN functions IS NOT DISTINCT FROM locked;
        PERFORM FROM pg_proc WHERE oid = ANY (functions) FOR UPDATE;
        locked := functions;
    END LOOP;

    functions := array_remove(functions, to_regprocedure('ids.next_ids(integer, integer)')::oid);
    ALTER FUNCTION ids.next_ids(integer, integer) RENAME TO _next_ids;
    SELECT string_agg(pg_describe_object(classid, objid, 0), ', ' ORDER BY objid) INTO found
        FROM pg_depend LEFT JOIN pg_proc AS p ON classid = 'pg_proc'::regclass AND p.oid = objid
        WHERE refclassid = 'pg_namespace'::regclass AND refobjid = place.oid
            AND (pg_identify_object(classid, objid, 0)).schema = 'ids' -- others only name it
            AND (classid, objid) <> ('pg_class'::regclass, COALESCE(to_regclass('ids.id_shards'), 0))
            AND (proowner = place.nspowner AND prokind = 'f' AND (p.oid = ANY (functions) OR starts_with(proname, '_'))) IS NOT TRUE;
    IF found IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'schema ids contains objects that are not of the portable edition',
            DETAIL = found || '.', HINT = 'Give functions of the portable edition to the owner of the schema. Drop others, or move them to another schema.';
    END IF;
    -- Readers of the view wait from now on, and calls while the mutexes are dropped: no longer in all
    -- than this script waits for one lock, however many roles hold some.
    PERFORM set_config('take_over.began', extract(epoch FROM clock_timestamp())::text, true);
    DROP VIEW IF EXISTS ids.id_shards;
    -- A call of create_shard() that has its mutex needs the functions below, and this script drops the
    -- mutex in the end. COMMENT takes the same lock; LOCK would also lock what the view reads. Other
    -- roles cannot hold this one.
    IF EXISTS (SELECT FROM pg_class WHERE relnamespace = mutexes AND relowner = place.nspowner AND relkind = 'v' AND relname = '_create_shard') THEN
        PERFORM set_config('lock_timeout', '500ms', true);
        COMMENT ON VIEW ids_mutexes._create_shard IS NULL;
    END IF;
    PERFORM set_config('lock_timeout', '20ms', true);
    FOR item IN SELECT p.oid::regprocedure AS name, p.oid FROM unnest(functions) AS f JOIN pg_proc AS p ON p.oid = f ORDER BY 1 LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO CURRENT_USER', item.name);
        FOR found IN SELECT DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END
            FROM pg_proc, aclexplode(proacl) WHERE pg_proc.oid = item.oid AND grantee <> proowner
        LOOP
            EXECUTE format('REVOKE ALL ON FUNCTION %s FROM %s CASCADE', item.name, found);
        END LOOP;
        EXECUTE format('ALTER EXTENSION instagram_id ADD FUNCTION %s', item.name);
    END LOOP;
    EXECUTE format('ALTER SCHEMA ids OWNER TO %s', place.extowner::regrole);
    FOR found IN SELECT DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END
        FROM pg_namespace, aclexplode(nspacl) WHERE nspname = 'ids' AND grantee <> nspowner
    LOOP
        EXECUTE format('REVOKE CREATE ON SCHEMA ids FROM %s CASCADE', found);
        EXECUTE format('REVOKE GRANT OPTION FOR USAGE ON SCHEMA ids FROM %s CASCADE', found);
    END LOOP;
    -- For calls that are running, and because that role owns shards.
    EXECUTE format('GRANT USAGE ON SCHEMA ids TO %s', place.nspowner::regrole);
    COMMENT ON SCHEMA ids IS NULL;
    PERFORM set_config('search_path', path, true);
END $$;

-- The old one would look for its mutex in vain, for each id.
CREATE OR REPLACE FUNCTION _shard_next_id(shard integer, seq regclass, epoch timestamptz) RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS 'BEGIN RETURN ids.shard_next_id(shard, seq, epoch); END';
COMMENT ON FUNCTION _shard_next_id(integer, regclass, timestamptz) IS
'for statements that began before the take-over; dropped by ALTER EXTENSION UPDATE';

-- The functions of the library

DO $$
DECLARE
    path text := pg_catalog.current_setting('search_path');
    found text;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    -- The mutexes come last, because calls wait from now on. A call that holds one ends first. A
    -- call that waits finds none, and calls the library. In the order in which calls lock: each queue
    -- before its mutex.
    FOR found IN SELECT c.oid::regclass
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace AND nspowner = relowner
        WHERE nspname = 'ids_mutexes' AND relkind = 'v' AND relname ~ '^_(queue_[0-9]+|mutex_[0-9]+|create_shard)$'
        ORDER BY relname DESC
    LOOP
        PERFORM set_config('lock_timeout', greatest(1, 1000 * (extract(epoch FROM current_setting('take_over.limit')::interval)
            - extract(epoch FROM clock_timestamp()) + current_setting('take_over.began')::numeric))::int::text, true);
        EXECUTE 'DROP VIEW ' || found;
    END LOOP;
    PERFORM set_config('lock_timeout', current_setting('take_over.lock_timeout'), true);
    PERFORM set_config('search_path', path, true);
END $$;

/* The portable edition of instagram_id 1.0.0, in SQL and PL/pgSQL, for servers on which the library cannot be installed.
   See docs/run/portable.md.

   Run this file as the owner of the database. Its functions are in the schema "ids", where names that begin with _ are its own,
   and its mutexes in "ids_mutexes".
   If you run it again, or the file of a later version, it replaces the functions, also while sessions generate ids: the mutexes
   stay. For this reason no later version may change their number, or _mutex().

   Functions run with the search_path of their callers, in which other roles may have created operators and functions. A
   body with RETURN is bound when it is created. Each other body has search_path = pg_catalog, pg_temp, or names the schema of
   each operator. */

BEGIN;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL client_min_messages = warning;
SET LOCAL lock_timeout = '10s';

DO $$
DECLARE
    open_to record;
BEGIN
    -- Two sessions that install both editions at the same moment would not see each other.
    IF NOT pg_catalog.pg_try_advisory_xact_lock(1314220021721) THEN
        RAISE EXCEPTION USING ERRCODE = '55006', MESSAGE = 'another session installs instagram_id in this database',
            DETAIL = 'It holds the advisory lock 1314220021721.', HINT = 'Try again when the lock is free; pg_locks lists who has it.';
    ELSIF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION USING ERRCODE = '55000',
            MESSAGE = format('cannot install instagram_id at isolation level %s', current_setting('transaction_isolation')),
            DETAIL = 'The snapshot of the transaction may be older than the extension.',
            HINT = 'Use BEGIN ISOLATION LEVEL READ COMMITTED, or SET default_transaction_isolation = ''read committed''.';
    ELSIF EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'instagram_id') THEN
        RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'extension instagram_id is installed in this database',
            DETAIL = 'Ids of a shard must come either from the library or from the portable edition.',
            HINT = 'Use the functions of the extension.';
    END IF;
    IF pg_catalog.to_regnamespace('ids') IS NULL THEN
        CREATE SCHEMA ids;
        COMMENT ON SCHEMA ids IS 'instagram_id, portable edition';
        GRANT USAGE ON SCHEMA ids TO PUBLIC;
    ELSIF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace AS n JOIN pg_catalog.pg_proc ON pronamespace = n.oid AND proowner = n.nspowner
        WHERE nspname = 'ids' AND nspowner = quote_ident(current_user)::regrole AND proname = '_shard_next_id')
    THEN
        RAISE EXCEPTION USING ERRCODE = '42P06', MESSAGE = 'schema ids already exists',
            DETAIL = 'It was not created by this file, or belongs to another role.',
            HINT = 'If it has the portable edition, run the file as its owner. Otherwise rename it.';
    END IF;
    -- No other role but members of pg_read_all_data and pg_write_all_data can use the schema of the
    -- mutexes. PostgreSQL locks a relation before it checks whether a role may COMMENT ON it, and
    -- until the client has read the error.
    IF pg_catalog.to_regnamespace('ids_mutexes') IS NULL THEN
        CREATE SCHEMA ids_mutexes;
    ELSIF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'ids_mutexes' AND nspowner = quote_ident(current_user)::regrole) THEN
        RAISE EXCEPTION USING ERRCODE = '42P06', MESSAGE = 'schema ids_mutexes already exists',
            DETAIL = 'It belongs to another role.', HINT = 'Rename that schema.';
    END IF;
    -- ALTER DEFAULT PRIVILEGES may have opened the schemas to others. They could add functions that
    -- the roles of the application call in place of those of the same name.
    FOR open_to IN SELECT nspname AS name, privilege_type AS privilege,
            CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS role
        FROM pg_namespace, aclexplode(nspacl)
        WHERE (nspname = 'ids_mutexes' OR nspname = 'ids' AND privilege_type = 'CREATE') AND grantee <> nspowner
    LOOP
        EXECUTE format('REVOKE %s ON SCHEMA %s FROM %s CASCADE', open_to.privilege, open_to.name, open_to.role);
    END LOOP;
    -- The mutexes and their queues, which only their owner can lock. VACUUM, ANALYZE and replication do
    -- not lock views. Replacing one would lock it until the end of this transaction.
    FOR n IN 0..15 LOOP
        IF pg_catalog.to_regclass('ids_mutexes._mutex_' || n) IS NULL THEN
            EXECUTE pg_catalog.format('CREATE VIEW ids_mutexes._mutex_%s AS SELECT', n);
        END IF;
        IF pg_catalog.to_regclass('ids_mutexes._queue_' || n) IS NULL THEN
            EXECUTE pg_catalog.format('CREATE VIEW ids_mutexes._queue_%s AS SELECT', n);
        END IF;
    END LOOP;
    IF pg_catalog.to_regclass('ids_mutexes._create_shard') IS NULL THEN
        CREATE VIEW ids_mutexes._create_shard AS SELECT;
    END IF;
    -- These, too.
    FOR open_to IN SELECT c.oid::regclass AS name, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS role
        FROM pg_class AS c, aclexplode(relacl) WHERE relnamespace = 'ids_mutexes'::regnamespace AND grantee <> relowner
    LOOP
        EXECUTE format('REVOKE ALL ON %s FROM %s CASCADE', open_to.name, open_to.role);
    END LOOP;
    -- Every role may execute the functions, also if ALTER DEFAULT PRIVILEGES has revoked that from
    -- PUBLIC, and read the view. Revoked at the end of this file, so that it applies only to what the
    -- file creates: an upgrade leaves the privileges as they are.
    ALTER DEFAULT PRIVILEGES IN SCHEMA ids GRANT EXECUTE ON FUNCTIONS TO PUBLIC;
    ALTER DEFAULT PRIVILEGES IN SCHEMA ids GRANT SELECT ON TABLES TO PUBLIC;
    -- Stands for this database where the system identifier cannot be read. Dumps of shards do
    -- not contain it.
    IF pg_catalog.to_regprocedure('ids._installation()') IS NULL THEN
        EXECUTE pg_catalog.format('CREATE FUNCTION ids._installation() RETURNS text LANGUAGE sql IMMUTABLE RETURN %L::text',
            pg_catalog.gen_random_uuid());
    END IF;
END $$;

/* Errors */

-- IMMUTABLE, so that functions which call it can be inlined. format() is not. The planner evaluates
-- it for constants, also where it is not reached: so it checks the number, and returns it.
CREATE OR REPLACE FUNCTION ids._check_number(number integer, lowest integer, highest integer, message text, hint text)
    RETURNS integer LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF number NOT BETWEEN lowest AND highest THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format(message, number), HINT = hint;
    END IF;
    RETURN number;
END $$;

CREATE OR REPLACE FUNCTION ids._check_shard(shard integer) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF shard IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'shard must not be null', HINT = 'Pass a shard from 0 to 8191.';
    ELSIF shard NOT BETWEEN 0 AND 8191 THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('shard %s is out of range', shard),
            HINT = 'Shards are numbered from 0 to 8191.';
    END IF;
    RETURN shard;
END $$;

/* The clock and the rule; see core/src/hlc.rs of the library. A sequence holds its last value, milliseconds << 10 | sequence
   field. */

-- Milliseconds from the epoch to now. The float has microseconds exactly for 142 years.
CREATE OR REPLACE FUNCTION ids._now_ms(epoch timestamptz) RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    RETURN floor(round(date_part('epoch', clock_timestamp() - epoch) * 1000000) / 1000)::bigint;

-- The next value after a last one, or NULL where _rule() must decide.
CREATE OR REPLACE FUNCTION ids._next(last bigint, now_ms bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN last < 1125899906842623 AND now_ms >= 0 AND now_ms < 1099511627776
                 AND last + 1 >= (now_ms - 3600000) << 10
                 AND (((last + 1) & 1023) <> 0 OR (last + 1) >> 10 <= now_ms + 1)
           THEN greatest(last + 1, (now_ms << 10) | ((last + 1) & 1023)) END;

-- The whole rule: the next values, at most "want"; or for how many ticks to wait; or the SQLSTATE
-- of an error.
CREATE OR REPLACE FUNCTION ids._rule(
    last bigint, is_called boolean, now_ms bigint, want bigint, has_waited boolean,
    OUT first bigint, OUT len bigint, OUT ticks integer, OUT error text
) LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    candidate bigint;
BEGIN
    IF is_called AND last >= 1125899906842623 THEN
        error := '2200H';
        RETURN;
    END IF;
    candidate := last + is_called::int;
    IF is_called AND candidate >> 10 >= greatest(now_ms, 0) THEN
        IF candidate & 1023 = 0 AND candidate >> 10 > now_ms + 1 AND NOT has_waited THEN
            ticks := 1;
            RETURN;
        END IF;
        first := candidate;
    ELSE
        error := CASE WHEN now_ms < 0 THEN '22008' WHEN now_ms >= 1099511627776 THEN '2200H clock' END;
        -- A sequence that was set back does not show which values were issued in this millisecond
        -- and the next one.
        ticks := CASE WHEN NOT has_waited AND NOT (is_called AND candidate >> 10 >= now_ms - 3600000) THEN 2 END;
        IF error IS NOT NULL THEN
            ticks := NULL;
        ELSIF ticks IS NULL THEN
            first := (now_ms << 10) | (candidate & 1023);
        END IF;
    END IF;
    len := least(want, 1024 - (first & 1023));
END $$;

CREATE OR REPLACE FUNCTION ids._mutex(seq oid) RETURNS integer
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN hashoid(seq) & 15;

-- Waits for a mutex that was locked. PostgreSQL passes a lock on to the first session that waits for
-- it, and until this one has woken up nobody generates an id. So only one session waits for a mutex,
-- and the others in its queue. Then it is unlocked at times, for sessions that are awake.
CREATE OR REPLACE FUNCTION ids._lock(mutex integer) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lock_mutex text := format('LOCK TABLE ids_mutexes._mutex_%s IN SHARE UPDATE EXCLUSIVE MODE', mutex);
BEGIN
    EXECUTE format('LOCK TABLE ids_mutexes._queue_%s IN SHARE UPDATE EXCLUSIVE MODE', mutex);
    EXECUTE lock_mutex;
END $$;

-- The clock at the arrival of a call; NULL for arguments that are not valid, and for settings with
-- which PostgreSQL could send a message to the client while the session holds a mutex: one that does
-- not read would keep it. Then _take() does all, under settings of its own.
CREATE OR REPLACE FUNCTION ids._arrive(shard integer, seq regclass, epoch timestamptz) RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    RETURN CASE WHEN shard >= 0 AND shard <= 8191 AND seq IS NOT NULL
        AND current_setting('client_min_messages') = ANY ('{notice,warning,error}'::text[])
        AND current_setting('exit_on_error') = 'off' THEN ids._now_ms(epoch) END;

/* Generating ids */

-- Takes values: "want" or fewer in one visit, in which the mutex is held by a subtransaction. The
-- exception IG000 ends it and releases the mutex; setval() is not rolled back. A wait for the clock
-- holds nothing. The settings of a caller must not make the queries slow that run under the mutex: so
-- nothing is compiled, and no parallel worker is started.
CREATE OR REPLACE FUNCTION ids._take(seq regclass, epoch timestamptz, want bigint, OUT first bigint, OUT len bigint)
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    SET client_min_messages = error SET exit_on_error = off -- see _shard_next_id()
    SET jit = off SET max_parallel_workers_per_gather = 0 AS $$
#variable_conflict use_variable
DECLARE
    read text := format('SELECT last_value, is_called FROM %s', seq);
    held pg_catalog.regclass; -- the sequence, while its mutex is held
    last bigint;
    is_called boolean;
    waited_last bigint;
    waited_called boolean;
    ticks integer;
    error text;
    began bigint;
    now_ms bigint;
    may_use boolean;
    caught text;
BEGIN
    BEGIN
        may_use := has_sequence_privilege(seq, 'USAGE, UPDATE');
    EXCEPTION WHEN wrong_object_type THEN
        RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('relation %s is not a sequence', seq),
            HINT = 'Pass a sequence. If the relation has the name that the sequence of a shard needs, rename it.';
    END;
    IF may_use IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '42P01', MESSAGE = format('sequence with OID %s does not exist', seq::oid),
            HINT = 'Create a sequence with CREATE SEQUENCE, or a shard with its sequence with create_shard().';
    ELSIF epoch IN ('infinity', '-infinity') THEN
        RAISE EXCEPTION USING ERRCODE = '22008', MESSAGE = 'epoch must be finite';
    ELSIF NOT may_use AND NOT pg_has_role((SELECT nspowner FROM pg_namespace WHERE nspname = 'ids'), 'USAGE') THEN
        PERFORM ids._explain_failure(seq, '42501', NULL, NULL);
    ELSIF NOT may_use THEN
        RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('permission denied for sequence %s', seq),
            DETAIL = format('Role %s lacks USAGE on it.', quote_ident(current_user)),
            HINT = format('Use GRANT USAGE ON SEQUENCE %s TO %s.', seq, quote_ident(current_user));
    END IF;
    LOOP
        BEGIN
            PERFORM pg_sequence_last_value(seq);
            -- Without the mutex first, as in _shard_next_id(), with both branches of the rule.
            PERFORM ids._rule(0, true, 0, 1, true), ids._rule(NULL, NULL, NULL, NULL, NULL);
            held := NULL;
            LOOP
                EXECUTE read INTO last, is_called;
                now_ms := ids._now_ms(epoch);
                SELECT rule.first, rule.len, rule.ticks, rule.error INTO first, len, ticks, error
                    FROM ids._rule(last, is_called, now_ms, want, (last, is_called) IS NOT DISTINCT FROM (waited_last, waited_called)) AS rule;
                PERFORM setval(held, first + len - 1); -- nothing for NULL
                EXIT WHEN held IS NOT NULL;
                PERFORM ids._lock(ids._mutex(seq));
                held := seq;
            END LOOP;
            RAISE SQLSTATE 'IG000';
        EXCEPTION
            WHEN SQLSTATE 'IG000' THEN NULL;
            WHEN read_only_sql_transaction OR insufficient_privilege OR numeric_value_out_of_range OR undefined_table THEN
                caught := SQLSTATE || ' ' || SQLERRM;
        END;
        IF caught IS NOT NULL THEN
            PERFORM ids._explain_failure(seq, caught, last, first);
        ELSIF error IS NOT NULL THEN
            PERFORM ids._explain_end(seq, epoch, error, last);
        ELSIF first IS NOT NULL THEN
            RETURN;
        END IF;
        -- Until the clock has ticked. If it is set back during the wait, the wait begins again.
        -- pg_sleep() would sleep on.
        waited_last := last;
        waited_called := is_called;
        began := now_ms;
        LOOP
            now_ms := ids._now_ms(epoch);
            EXIT WHEN now_ms >= began + ticks;
            began := least(began, now_ms);
        END LOOP;
    END LOOP;
END $$;

-- The options that make a sequence unfit, each with the clause of ALTER SEQUENCE that changes it.
CREATE OR REPLACE FUNCTION ids._faults(seq regclass, first bigint) RETURNS text[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_remove(ARRAY[
        CASE WHEN seqtypid <> 'bigint'::regtype THEN 'Its type is not bigint. AS bigint' END,
        CASE WHEN seqincrement NOT IN (1, 9223372036854775807) THEN format('Its increment is %s. INCREMENT 1', seqincrement) END,
        CASE WHEN seqmax < 1125899906842623 THEN format('Its maximum value %s is less than 2^50 - 1. NO MAXVALUE', seqmax) END,
        CASE WHEN seqmin > first THEN format('Its minimum value %s is ahead of the clock. NO MINVALUE', seqmin) END,
        CASE WHEN seqcycle THEN 'It cycles. NO CYCLE' END], NULL)
    FROM pg_sequence WHERE seqrelid = seq
$$;

-- Raises the error of a sequence with these faults.
CREATE OR REPLACE FUNCTION ids._refuse(seq regclass, faults text[]) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('sequence %s cannot be used to generate ids', seq),
        DETAIL = (SELECT string_agg(regexp_replace(fault, '[.] .*', '.'), ' ') FROM unnest(faults) AS fault),
        HINT = format('Use ALTER SEQUENCE %s%s.', seq, (SELECT string_agg(regexp_replace(fault, '^.*[.]', ''), '') FROM unnest(faults) AS fault));
END $$;

-- Raises the error of a visit that failed.
CREATE OR REPLACE FUNCTION ids._explain_failure(seq regclass, caught text, last bigint, first bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    faults text[];
BEGIN
    IF caught LIKE '25006%' THEN
        RAISE EXCEPTION USING ERRCODE = '25006', MESSAGE = format('cannot change sequence %s in a read-only transaction', seq),
            DETAIL = CASE WHEN pg_is_in_recovery() THEN 'This server is a standby.' ELSE 'Each id that is generated changes the sequence.' END,
            HINT = CASE WHEN pg_is_in_recovery() THEN 'Generate ids on the primary.' ELSE 'Use a READ WRITE transaction.' END;
    ELSIF caught LIKE '42501%' THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = format('role %s cannot generate ids from sequence %s', quote_ident(current_user), seq),
            DETAIL = 'In the portable edition, only the owner of schema ids can use sequences directly.',
            HINT = 'Call the next_id() in the schema of the shard. If that fails, call claim_shard() for the shard as that owner.';
    ELSIF caught LIKE '42P01%' THEN
        RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('mutex of sequence %s is missing', seq),
            DETAIL = 'It was dropped, or the library has taken over.',
            HINT = 'Try again. If that fails, run instagram_id.sql again.';
    END IF;
    faults := ids._faults(seq, first);
    IF faults[1] LIKE 'Its maximum%' AND cardinality(faults) = 1 AND last >= (SELECT seqmax FROM pg_sequence WHERE seqrelid = seq) THEN
        RAISE EXCEPTION USING ERRCODE = '25006', MESSAGE = format('sequence %s is closed', seq),
            DETAIL = format('It ends at MAXVALUE %s, as after a move of its shard to another server.',
                (SELECT seqmax FROM pg_sequence WHERE seqrelid = seq)),
            HINT = format('Generate ids on that server. If no other place generates ids of the shard, open the sequence with '
                'ALTER SEQUENCE %s AS bigint NO MAXVALUE.', seq);
    END IF;
    PERFORM ids._refuse(seq, faults);
END $$;

-- Raises the error of a sequence or a clock that is past the end of ids, or before the epoch.
CREATE OR REPLACE FUNCTION ids._explain_end(seq regclass, epoch timestamptz, error text, last bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    IF error = '22008' THEN
        RAISE EXCEPTION USING ERRCODE = '22008', MESSAGE = format('clock is before the epoch %s', epoch),
            DETAIL = format('The clock of the server is at %s.', clock_timestamp()),
            HINT = 'Correct the clock, or use an epoch in the past.';
    ELSIF error = '2200H clock' THEN
        RAISE EXCEPTION USING ERRCODE = '2200H', MESSAGE = format('clock is 2^40 ms or more past the epoch %s', epoch),
            DETAIL = format('The clock of the server is at %s. Ids are issued for 34.8 years from their epoch.', clock_timestamp()),
            HINT = 'Use a later epoch, or correct the clock.';
    END IF;
    RAISE EXCEPTION USING ERRCODE = '2200H', MESSAGE = format('reached the last id of sequence %s', seq),
        DETAIL = format('Its last value is %s. Ids end 1099511627775 ms after the epoch, where they would turn negative.', last),
        HINT = format('If setval() or a wrong clock took the sequence there, and no table has ids that are ahead of the clock, use SELECT setval(%L, %s, false) to let it follow the clock again.', seq, (pg_sequence_parameters(seq)).minimum_value);
END $$;

-- The work of shard_next_id(). The frequent path is here; _take() does the rest. All of the path is
-- in the block, because the library can take over at any moment: then a mutex or a function is
-- gone, and shard_next_id() is a function in C.
CREATE OR REPLACE FUNCTION ids._shard_next_id(shard integer, seq regclass, epoch timestamptz) RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $$
#variable_conflict use_variable
DECLARE
    now_ms bigint;
    mutex integer;
    queued integer := 0; -- or 16, after the mutex was found locked
    held pg_catalog.regclass; -- the sequence, while its mutex is held
    last bigint;
    value bigint;
BEGIN
    LOOP
        <<visit>>
        BEGIN
            -- These statements run twice. First without the mutex, where setval() does nothing, because
            -- "held" is NULL: nothing may be parsed under the mutex. The parser reads all functions of a
            -- name, and any role can create thousands. This also locks the sequence until the end of
            -- the transaction, so that no call waits for that lock while it holds a mutex. Then under
            -- the mutex: what was read before may be old by now. setval() does nothing for NULL.
            LOOP
                last := pg_catalog.pg_sequence_last_value(seq);
                value := pg_catalog.setval(held, ids._next(last, now_ms));
                EXIT WHEN held IS NOT NULL;
                now_ms := ids._arrive(shard, seq, epoch);
                mutex := CASE WHEN now_ms IS NOT NULL THEN ids._mutex(seq) OPERATOR(pg_catalog.|) queued END;
                IF mutex OPERATOR(pg_catalog.<) 8 THEN
                    IF mutex OPERATOR(pg_catalog.<) 4 THEN
                        IF mutex OPERATOR(pg_catalog.<) 2 THEN
                            IF mutex OPERATOR(pg_catalog.=) 0 THEN LOCK TABLE ids_mutexes._mutex_0 IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
                            ELSE LOCK TABLE ids_mutexes._mutex_1 IN SHARE UPDATE EXCLUSIVE MODE NOWAIT; END IF;
                        ELSE
                            IF mutex OPERATOR(pg_catalog.=) 2 THEN LOCK TABLE ids_mutexes._mutex_2 IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
                            ELSE LOCK TABLE ids_mutexes._mutex_3 IN SHARE UPDATE EXCLUSIVE MODE NOWAIT; END IF;
                        END IF;
                    ELSE
                        IF mutex OPERATOR(pg_catalog.<) 6 THEN
                            IF mutex OPERATOR(pg_catalog.=) 4 THEN LOCK TABLE ids_mutexes._mutex_4 IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
                            ELSE LOCK TABLE ids_mutexes._mutex_5 IN SHARE UPDATE EXCLUSIVE MODE NOWAIT; END IF;
                        ELSE
                            IF mutex OPERATOR(pg_catalog.=) 6 THEN LOCK TABLE ids_mutexes._mutex_6 IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
                            ELSE LOCK TABLE ids_mutexes._mutex_7 IN SHARE UPDATE EXCLUSIVE MODE NOWAIT; END IF;
                        END IF;
                    END IF;
                ELSE
                    IF mutex OPERATOR(pg_catalog.<) 12 THEN
                        IF mutex OPERATOR(pg_catalog.<) 10 THEN
                            IF mutex OPERATOR(pg_catalog.=) 8 THEN LOCK TABLE ids_mutexes._mutex_8 IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
                            ELSE LOCK TABLE ids_mutexes._mutex_9 IN SHARE UPDATE EXCLUSIVE MODE NOWAIT; END IF;
                        ELSE
                            IF mutex OPERATOR(pg_catalog.=) 10 THEN LOCK TABLE ids_mutexes._mutex_10 IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
                            ELSE LOCK TABLE ids_mutexes._mutex_11 IN SHARE UPDATE EXCLUSIVE MODE NOWAIT; END IF;
                        END IF;
                    ELSE
                        IF mutex OPERATOR(pg_catalog.<) 14 THEN
                            IF mutex OPERATOR(pg_catalog.=) 12 THEN LOCK TABLE ids_mutexes._mutex_12 IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
                            ELSE LOCK TABLE ids_mutexes._mutex_13 IN SHARE UPDATE EXCLUSIVE MODE NOWAIT; END IF;
                        ELSE
                            IF mutex OPERATOR(pg_catalog.=) 14 THEN LOCK TABLE ids_mutexes._mutex_14 IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
                            ELSIF mutex OPERATOR(pg_catalog.=) 15 THEN LOCK TABLE ids_mutexes._mutex_15 IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
                            ELSIF mutex IS NULL THEN EXIT visit;
                            ELSE PERFORM ids._lock(ids._mutex(seq)); END IF;
                        END IF;
                    END IF;
                END IF;
                held := seq;
            END LOOP;
            RAISE SQLSTATE 'IG000';
        EXCEPTION
            WHEN SQLSTATE 'IG000' THEN
                IF value IS NOT NULL THEN
                    RETURN ((value OPERATOR(pg_catalog.>>) 10) OPERATOR(pg_catalog.<<) 23)
                        OPERATOR(pg_catalog.|) (shard OPERATOR(pg_catalog.<<) 10)
                        OPERATOR(pg_catalog.|) (value OPERATOR(pg_catalog.&) 1023);
                END IF;
            WHEN lock_not_available THEN
                IF queued OPERATOR(pg_catalog.>) 0 OR now_ms IS NULL THEN RAISE; END IF; -- by lock_timeout
                queued := 16;
                held := NULL;
                CONTINUE;
            -- _take() finds the cause, unless the library has taken over.
            WHEN undefined_table OR undefined_function OR read_only_sql_transaction OR insufficient_privilege
                OR numeric_value_out_of_range OR wrong_object_type OR internal_error OR datetime_field_overflow THEN
                NULL;
        END;
        EXIT;
    END LOOP;
    BEGIN
        value := ids._slow_next_id(shard, seq, epoch);
        RETURN value;
    EXCEPTION WHEN undefined_function OR object_not_in_prerequisite_state OR internal_error THEN
        IF NOT ids._is_taken_over(pg_catalog.starts_with(SQLERRM, 'mutex of sequence')) THEN RAISE; END IF;
    END;
    value := ids.shard_next_id(shard, seq, epoch);
    RETURN value;
END $$;

-- Whether the library has taken over. From PostgreSQL's caches, which are not older than the locks of
-- the session, whatever the snapshot of the transaction is. Only the function in C has no SQL body.
-- A transaction that has been committed is visible just before other sessions hear of it: one that
-- looks up a mutex at that moment does not find it, and knows nothing of the library yet. So if a
-- mutex is missing, this looks again for a second, with a new lock each time, by which a session hears
-- of changes.
CREATE OR REPLACE FUNCTION ids._is_taken_over(is_mutex_missing boolean) RETURNS boolean
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    SET client_min_messages = error SET exit_on_error = off AS $$
DECLARE
    began timestamptz := clock_timestamp();
BEGIN
    LOOP
        IF pg_get_function_sqlbody(to_regprocedure('ids.shard_next_id(integer, regclass, timestamptz)')) IS NULL THEN
            RETURN true;
        ELSIF NOT is_mutex_missing OR clock_timestamp() NOT BETWEEN began AND began + interval '1 s' THEN
            RETURN false;
        END IF;
        BEGIN
            PERFORM FROM pg_cast LIMIT 1;
            RAISE SQLSTATE 'IG000';
        EXCEPTION WHEN SQLSTATE 'IG000' THEN NULL;
        END;
    END LOOP;
END $$;

-- The call of every shard's next_id(). The planner inlines it: a statement that runs while the
-- library takes over continues to call _shard_next_id(). Without that PostgreSQL would compile the C
-- function as SQL. For the same reason the other functions with a name of the library are in SQL and
-- call one of this edition's own.
CREATE OR REPLACE FUNCTION ids.shard_next_id(shard integer, seq regclass, epoch timestamptz) RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE RETURN ids._shard_next_id(shard, seq, epoch);

CREATE OR REPLACE FUNCTION ids._slow_next_id(shard integer, seq regclass, epoch timestamptz) RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM ids._check_shard(shard);
    IF seq IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'sequence must not be null',
            HINT = 'Pass a sequence, or use next_id(shard), which uses the sequence of the shard.';
    ELSIF epoch IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'epoch must not be null',
            HINT = 'Pass a value, or omit the argument to use its default.';
    END IF;
    RETURN (SELECT (first >> 10 << 23) | (shard << 10) | (first & 1023) FROM ids._take(seq, epoch, 1));
END $$;

CREATE OR REPLACE FUNCTION ids.next_id(shard integer, seq regclass, epoch timestamptz) RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE RETURN ids.shard_next_id(shard, seq, epoch);

CREATE OR REPLACE FUNCTION ids.next_id(shard integer, seq regclass) RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE RETURN ids.shard_next_id(shard, seq, '2011-08-24 21:07:01.721+00'::timestamptz);

-- The call of the next_id() in the schema of a shard. The caller runs it, so it must belong to the
-- owner of the shard. If it was dropped, any role with CREATE on the schema can create another one.
CREATE OR REPLACE FUNCTION ids._call_of(shard integer, schema regnamespace, owner oid) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found oid;
BEGIN
    IF NOT has_schema_privilege(schema, 'USAGE') THEN
        RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('permission denied for schema %s', schema),
            DETAIL = format('Role %I lacks USAGE on it.', current_user),
            HINT = format('Use GRANT USAGE ON SCHEMA %s TO %s.', schema, quote_ident(current_user));
    END IF;
    -- The function that the name finds now, if the snapshot of the transaction has it, too.
    found := (SELECT proowner FROM pg_proc WHERE oid = to_regprocedure(format('%s.next_id()', schema)));
    IF found IS DISTINCT FROM owner THEN
        RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('function %s.next_id() is not that of shard %s', schema, shard),
            DETAIL = CASE WHEN found IS NULL THEN 'It does not exist.' ELSE format('It belongs to role %s.', found::regrole) END,
            HINT = format('%sUse SELECT ids.create_shard(%s, if_not_exists => true) as role %s.',
                CASE WHEN found IS NOT NULL THEN 'Drop it. ' END, shard, owner::regrole);
    END IF;
    RETURN format('%s.next_id()', schema);
END $$;

-- Calls the next_id() in the schema of the shard, which checks the privileges of the caller.
CREATE OR REPLACE FUNCTION ids._next_id_of_shard(shard integer) RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found record := ids._shard(shard);
    id bigint;
BEGIN
    EXECUTE format('SELECT %s', ids._call_of(shard, found.schema, found.owner)) INTO id;
    RETURN id;
END $$;

CREATE OR REPLACE FUNCTION ids.next_id(shard integer) RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE RETURN ids._next_id_of_shard(shard);

CREATE OR REPLACE FUNCTION ids._next_id_of_setting() RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    shard text := current_setting('instagram_id.shard', true);
BEGIN
    IF shard IS NULL OR shard !~ '^[0-9]{1,4}$' THEN
        RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = 'instagram_id.shard is not set',
            HINT = 'Name the shard, as in next_id(5), or set it with SET instagram_id.shard = 5.';
    END IF;
    RETURN ids.next_id(shard::integer);
END $$;

CREATE OR REPLACE FUNCTION ids.next_id() RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE RETURN ids._next_id_of_setting();

-- For the owner of the shard, many ids from one visit. Other roles get them one by one from its
-- next_id().
CREATE OR REPLACE FUNCTION ids.next_ids(shard integer, count integer) RETURNS SETOF bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    found record;
    run record;
    remaining bigint := count;
BEGIN
    PERFORM ids._check_shard(shard);
    IF count IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'count must not be null', HINT = 'Pass a count of 1 or more.';
    ELSIF count < 1 THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'count must be greater than zero',
            DETAIL = format('The count is %s.', count);
    END IF;
    found := ids._shard(shard);
    IF NOT pg_has_role(found.owner, 'USAGE') THEN
        RETURN QUERY EXECUTE format('SELECT %s FROM generate_series(1, $1)', ids._call_of(shard, found.schema, found.owner))
            USING count;
        RETURN;
    END IF;
    WHILE remaining > 0 LOOP
        BEGIN
            run := ids._take(found.sequence, found.epoch, remaining);
        EXCEPTION WHEN undefined_function OR object_not_in_prerequisite_state OR internal_error THEN
            IF NOT ids._is_taken_over(starts_with(SQLERRM, 'mutex of sequence')) THEN RAISE; END IF;
            RETURN QUERY EXECUTE 'SELECT ids.next_ids($1, $2)' USING shard, remaining::integer;
            RETURN;
        END;
        RETURN QUERY SELECT (value >> 10 << 23) | (shard << 10) | (value & 1023)
            FROM generate_series(run.first, run.first + run.len - 1) AS value;
        remaining := remaining - run.len;
    END LOOP;
END $$;

/* Decoding ids */

-- to_timestamp() is exact to the microsecond up to 2106. timestamptz + interval would be exact for
-- all times, but is not IMMUTABLE, so that the planner would not inline these functions.
CREATE OR REPLACE FUNCTION ids.id_time(id bigint) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN to_timestamp((1314220021721 + ((id >> 23) & 2199023255551))::double precision / 1000);

CREATE OR REPLACE FUNCTION ids._distant_id_time(id bigint, epoch timestamptz) RETURNS timestamptz
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF epoch IN ('infinity', '-infinity') THEN
        RAISE EXCEPTION USING ERRCODE = '22008', MESSAGE = 'epoch must be finite';
    END IF;
    BEGIN
        RETURN epoch + ((id >> 23) & 2199023255551) * interval '1 millisecond';
    EXCEPTION WHEN datetime_field_overflow THEN
        RAISE EXCEPTION USING ERRCODE = '22008', MESSAGE = format('time of id %s is out of range for the epoch %s', id, epoch),
            HINT = 'Use the epoch that the id was generated with.';
    END;
END $$;

-- For the epochs that a shard can have, 1992 to now. The planner inlines it into queries that call
-- the id_time(id) of a shard.
CREATE OR REPLACE FUNCTION ids.shard_id_time(id bigint, epoch timestamptz) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN to_timestamp(((date_part('epoch', epoch - '1970-01-01 00:00+00'::timestamptz) * 1000000)::bigint
        + ((id >> 23) & 2199023255551) * 1000)::double precision / 1000000);

CREATE OR REPLACE FUNCTION ids.id_time(id bigint, epoch timestamptz) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN epoch >= '1950-01-01 00:00+00'::timestamptz AND epoch < '2035-01-01 00:00+00'::timestamptz
        THEN ids.shard_id_time(id, epoch) ELSE ids._distant_id_time(id, epoch) END;

CREATE OR REPLACE FUNCTION ids.id_shard(id bigint) RETURNS integer
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN ((id >> 10) & 8191)::integer;

CREATE OR REPLACE FUNCTION ids.id_seq(id bigint) RETURNS integer
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN (id & 1023)::integer;

CREATE OR REPLACE FUNCTION ids.id_parts(id bigint, OUT created_at timestamptz, OUT shard integer, OUT seq integer)
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    BEGIN ATOMIC SELECT ids.id_time(id), ids.id_shard(id), ids.id_seq(id); END;

CREATE OR REPLACE FUNCTION ids.id_parts(id bigint, epoch timestamptz, OUT created_at timestamptz, OUT shard integer, OUT seq integer)
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    BEGIN ATOMIC SELECT ids.id_time(id, epoch), ids.id_shard(id), ids.id_seq(id); END;

CREATE OR REPLACE FUNCTION ids._id_to_shortcode(id bigint) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    BEGIN ATOMIC
        SELECT COALESCE(NULLIF(ltrim(string_agg(
            substr('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_',
                1 + ((id >> place) & CASE place WHEN 60 THEN 15 ELSE 63 END)::integer, 1), '' ORDER BY place DESC), 'A'), ''), 'A')
        FROM generate_series(0, 60, 6) AS place;
    END;

CREATE OR REPLACE FUNCTION ids.id_to_shortcode(id bigint) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN ids._id_to_shortcode(id);

CREATE OR REPLACE FUNCTION ids._shortcode_to_id(code text) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    digits text := 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    malformed text := substring(code COLLATE "C" FROM '[^A-Za-z0-9_-]');
    significant text := ltrim(code, 'A');
    id bigint := 0;
BEGIN
    IF code = '' OR malformed IS NOT NULL OR length(significant) > 11
        OR length(significant) = 11 AND strpos(digits, left(significant, 1)) > 16
    THEN
        RAISE EXCEPTION USING ERRCODE = '22P02',
            MESSAGE = format('invalid short code "%s"', left(code, 60) || CASE WHEN length(code) > 60 THEN '...' ELSE '' END),
            DETAIL = CASE WHEN code = '' THEN 'It is empty.' WHEN malformed IS NOT NULL THEN format('The character "%s" is not a digit of short codes.', malformed) ELSE 'It stands for more than 64 bits.' END,
            HINT = 'A short code has 1 to 11 of the characters A-Z, a-z, 0-9, - and _, as id_to_shortcode() returns it.';
    END IF;
    FOR place IN 1..length(significant) LOOP
        id := (id << 6) | (strpos(digits, substr(significant, place, 1)) - 1);
    END LOOP;
    RETURN id;
END $$;

CREATE OR REPLACE FUNCTION ids.shortcode_to_id(code text) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN ids._shortcode_to_id(code);

CREATE OR REPLACE FUNCTION ids.shard_for(key bigint, shards integer) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN shards >= 1 AND shards <= 8192 THEN ((key % shards + shards) % shards)::integer
        WHEN key IS NOT NULL AND shards IS NOT NULL
        THEN ids._check_number(shards, 1, 8192, 'number of shards %s is out of range', 'There can be 1 to 8192 shards.') END;

/* Ids of a time */

-- The first id of the millisecond that contains a time, or with round_up of the first one at or
-- after it; in numeric, which is exact.
CREATE OR REPLACE FUNCTION ids._distant_id_of("time" timestamptz, epoch timestamptz, round_up boolean) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ms numeric;
BEGIN
    IF epoch IN ('infinity', '-infinity') THEN
        RAISE EXCEPTION USING ERRCODE = '22008', MESSAGE = 'epoch must be finite';
    ELSIF "time" IN ('infinity', '-infinity') THEN
        RAISE EXCEPTION USING ERRCODE = '22008', MESSAGE = format('time %s is not finite', "time"),
            HINT = 'Pass a finite time. For a range without an end, compare the id with id_floor() of the other end.';
    END IF;
    ms := (extract(epoch FROM "time") - extract(epoch FROM epoch)) * 1000;
    ms := CASE WHEN round_up THEN ceil(ms) ELSE floor(ms) END;
    IF ms < 0 THEN
        RAISE EXCEPTION USING ERRCODE = '22008', MESSAGE = format('time %s is before the epoch %s', "time", epoch),
            DETAIL = 'The smallest id has the time of the epoch.', HINT = 'For older rows, use a shard with an earlier epoch.';
    ELSIF ms >= 2199023255552 THEN
        RAISE EXCEPTION USING ERRCODE = '22008', MESSAGE = format('time %s is out of range for the epoch %s', "time", epoch),
            DETAIL = 'The time field of an id has 41 bits, which hold 69.7 years of milliseconds from the epoch.',
            HINT = 'Use a later epoch.';
    END IF;
    RETURN ms::bigint << 23;
END $$;

-- The same, in the planner's reach and quick where the float has microseconds exactly.
CREATE OR REPLACE FUNCTION ids._id_of("time" timestamptz, epoch timestamptz, round_up boolean) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN epoch >= '1950-01-01 00:00+00'::timestamptz AND epoch < '2035-01-01 00:00+00'::timestamptz
            AND "time" >= epoch AND "time" < '2105-01-01 00:00+00'::timestamptz
            AND date_part('epoch', "time" - epoch) < 2199023255
        THEN ((date_part('epoch', "time" - epoch) * 1000000)::bigint + CASE WHEN round_up THEN 999 ELSE 0 END) / 1000 << 23
        ELSE ids._distant_id_of("time", epoch, round_up) END;

-- These are not STRICT, because the planner would not inline them then. They return NULL for NULL.
CREATE OR REPLACE FUNCTION ids.make_id("time" timestamptz, shard integer, seq integer, epoch timestamptz) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN seq >= 0 AND seq <= 1023 AND shard >= 0 AND shard <= 8191
        THEN ids._id_of("time", epoch, false) | (shard << 10) | seq
        WHEN (shard < 0 OR shard > 8191) AND seq IS NOT NULL AND "time" IS NOT NULL AND epoch IS NOT NULL
        THEN ids._check_number(shard, 0, 8191, 'shard %s is out of range', 'Shards are numbered from 0 to 8191.')
        WHEN shard IS NOT NULL AND seq IS NOT NULL AND "time" IS NOT NULL AND epoch IS NOT NULL
        THEN ids._check_number(seq, 0, 1023, 'sequence number %s is out of range', 'Sequence numbers range from 0 to 1023.') END;

CREATE OR REPLACE FUNCTION ids.make_id("time" timestamptz, shard integer, seq integer) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ids.make_id("time", shard, seq, '2011-08-24 21:07:01.721+00'::timestamptz);

CREATE OR REPLACE FUNCTION ids.id_floor("time" timestamptz) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN ids._id_of("time", '2011-08-24 21:07:01.721+00'::timestamptz, true);

CREATE OR REPLACE FUNCTION ids.id_floor("time" timestamptz, epoch timestamptz) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN ids._id_of("time", epoch, true);

CREATE OR REPLACE FUNCTION ids._id_range_end(from_time timestamptz, to_time timestamptz, epoch timestamptz) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first bigint := ids._id_of(from_time, epoch, true);
    past bigint := ids._id_of(to_time, epoch, true);
BEGIN
    IF to_time <= from_time THEN
        RETURN first; -- an empty range
    ELSIF first >= 0 AND past < 0 THEN
        RAISE EXCEPTION USING ERRCODE = '22008',
            MESSAGE = format('ids from %s to %s do not form one range', from_time, to_time),
            DETAIL = 'Between these times ids turn negative.',
            HINT = 'No ids are issued after that. For all ids from a time on, use id >= id_floor(time).';
    END IF;
    RETURN past;
END $$;

CREATE OR REPLACE FUNCTION ids.id_range_end(from_time timestamptz, to_time timestamptz, epoch timestamptz) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN ids._id_range_end(from_time, to_time, epoch);

CREATE OR REPLACE FUNCTION ids.id_range_end(from_time timestamptz, to_time timestamptz) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ids.id_range_end(from_time, to_time, '2011-08-24 21:07:01.721+00'::timestamptz);

-- The planner inlines these into two comparisons, for which it can use an index on the id.
CREATE OR REPLACE FUNCTION ids.id_between(id bigint, from_time timestamptz, to_time timestamptz) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN id >= ids.id_floor(from_time) AND id < ids.id_range_end(from_time, to_time);

CREATE OR REPLACE FUNCTION ids.id_between(id bigint, from_time timestamptz, to_time timestamptz, epoch timestamptz) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN id >= ids.id_floor(from_time, epoch) AND id < ids.id_range_end(from_time, to_time, epoch);

/* Shards */

-- The database that generates the ids, as shard_<N>() records it: as the library does where that
-- is permitted.
CREATE OR REPLACE FUNCTION ids._this_database() RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    server text := ids._installation();
BEGIN
    BEGIN
        server := (pg_control_system()).system_identifier;
    EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN
        NULL;
    END;
    RETURN server || '/' || (SELECT oid FROM pg_database WHERE datname = current_database());
END $$;

-- Every shard. Any role can create a function of that name, so it counts only if it belongs to the
-- owner of this function. It is read and never run. The owner of the schema is another role as soon
-- as the library has taken over, while a statement that began before may still look up its shard.
CREATE OR REPLACE FUNCTION ids._shards(named text DEFAULT NULL) RETURNS TABLE (
    shard integer, schema regnamespace, sequence regclass, epoch timestamptz, home text, owner oid
) LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET "DateStyle" = 'ISO' SET "TimeZone" = 'UTC'
    SET quote_all_identifiers = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT substr(proname, 7)::integer, pronamespace::regnamespace, refobjid::regclass, parts[1]::timestamptz, parts[2], proowner
        FROM pg_proc AS p JOIN pg_depend ON classid = 'pg_proc'::regclass AND objid = p.oid AND refclassid = 'pg_class'::regclass
             JOIN pg_class AS c ON c.oid = refobjid AND relkind = 'S',
             LATERAL regexp_match(pg_get_function_sqlbody(p.oid), '^BEGIN ATOMIC[[:space:]]+SELECT ''(?:[^'']|'''')*''::regclass(?: AS [^,;[:space:]]+)?,[[:space:]]+'
                 '''([^'']*)''::timestamp with time zone(?: AS [^,;[:space:]]+)?,[[:space:]]+''([^'']*)''::text(?: AS [^,;[:space:]]+)?;[[:space:]]+END$') AS parts
        WHERE proname = COALESCE(named, proname) AND proname ~ '^shard_(0|[1-9][0-9]{0,3})$' AND prokind = 'f' AND pronargs = 0
            AND proowner = (SELECT proowner FROM pg_proc WHERE oid = 'ids._shards(text)'::regprocedure)
            AND substr(proname, 7)::integer <= 8191 AND parts[1]::timestamptz < '2200-01-01' AND relpersistence <> 't'
            AND NOT starts_with(pronamespace::regnamespace::text, 'pg_temp')
        ORDER BY 1, pronamespace;
END $$;

-- The shard of a number.
CREATE OR REPLACE FUNCTION ids._shard(
    shard integer, OUT schema regnamespace, OUT sequence regclass, OUT epoch timestamptz, OUT home text, OUT owner oid
) LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    number integer := ids._check_shard(shard);
    definitions text[];
BEGIN
    SELECT array_agg(format('%s.shard_%s() of role %s', s.schema, number, s.owner::regrole)), min(s.schema::oid), min(s.sequence::oid), min(s.epoch), min(s.home), min(s.owner)
        INTO definitions, schema, sequence, epoch, home, owner FROM ids._shards('shard_' || number) AS s;
    IF cardinality(definitions) > 1 THEN
        RAISE EXCEPTION USING ERRCODE = '42725', MESSAGE = format('shard %s is defined by more than one schema', number),
            DETAIL = format('The functions that define it are %s.', array_to_string(definitions, ', ')),
            HINT = 'Keep the function of the shard that you trust, and drop the others.';
    ELSIF definitions IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '42P01', MESSAGE = format('shard %s does not exist', number),
            DETAIL = format('Schema insta%s does not %s.', number, CASE WHEN to_regnamespace('insta' || number) IS NULL THEN 'exist' ELSE 'define it' END),
            HINT = CASE WHEN to_regnamespace('insta' || number) IS NULL THEN format('Create the shard with SELECT ids.create_shard(%s).', number) ELSE format('Create the shard in that schema with SELECT ids.create_shard(%s, if_not_exists => true).', number) END;
    END IF;
END $$;

-- The functions of a shard, as the library creates them, except that next_id() runs with the rights
-- of its owner. "is_same" tells whether the one of that name belongs to the role of all shards and has
-- this body, as PostgreSQL shows it, which doubles no backslash.
CREATE OR REPLACE FUNCTION ids._parts(
    shard integer, schema regnamespace, sequence regclass, epoch timestamptz, home text,
    OUT name text, OUT arguments text, OUT form text, OUT body text, OUT comment text, OUT existing regprocedure, OUT is_same boolean
) RETURNS SETOF record LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET "DateStyle" = 'ISO' SET "TimeZone" = 'UTC'
    SET quote_all_identifiers = off SET standard_conforming_strings = on AS $$
    SELECT name, arguments, form, body, format(comment, shard), f.oid,
        CASE WHEN proowner = (SELECT proowner FROM pg_proc WHERE oid = 'ids._shards(text)'::regprocedure)
            THEN regexp_replace(pg_get_function_sqlbody(f.oid), '[[:space:]]+', ' ', 'g') IS NOT DISTINCT FROM
                regexp_replace(body, '[[:space:]]+', ' ', 'g') ELSE false END
    FROM (SELECT '''' || replace(sequence::text, '''', '''''') || '''') AS l (literal), LATERAL (VALUES
        ('epoch', '', '', 'RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE',
            format('RETURN %L::timestamp with time zone', epoch), 'instant that the ids of shard %s count from'),
        ('next_id', '', '', 'RETURNS bigint LANGUAGE sql VOLATILE PARALLEL UNSAFE SECURITY DEFINER',
            format('RETURN ids.shard_next_id(%s, %s::regclass, %L::timestamp with time zone)', shard, literal, epoch),
            'next id of shard %s'),
        ('id_time', 'id bigint', '20', 'RETURNS timestamptz LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE',
            format('RETURN ids.shard_id_time(id, %L::timestamp with time zone)', epoch),
            'time at which an id of shard %s was generated, to the millisecond'),
        ('shard_' || shard, 'OUT sequence regclass, OUT epoch timestamptz, OUT home text', '', 'LANGUAGE sql IMMUTABLE PARALLEL SAFE',
            format('BEGIN ATOMIC SELECT %s::regclass AS sequence, %L::timestamp with time zone AS epoch, %L::text AS home; END',
                literal, epoch, home),
            'defines shard %s for instagram_id: its sequence, epoch and database')
        ) AS p (name, arguments, types, form, body, comment)
        LEFT JOIN pg_proc AS f ON pronamespace = schema AND proname = name AND proargtypes = types::oidvector
$$;

-- Creates the functions of a shard that are missing, and returns how many.
CREATE OR REPLACE FUNCTION ids._complete(shard integer, schema regnamespace, sequence regclass, epoch timestamptz, home text) RETURNS integer
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s' SET standard_conforming_strings = on AS $$
#variable_conflict use_variable
DECLARE
    part record;
    created integer := 0;
BEGIN
    -- A statement of the library runs on after the extension was dropped, with another lock on the
    -- sequence. PostgreSQL's own lock shows it until its transaction ends.
    IF to_regprocedure(format('%s.next_id()', schema)) IS NULL THEN
        BEGIN
            EXECUTE format('ALTER SEQUENCE %s NO CYCLE', sequence);
        EXCEPTION WHEN lock_not_available THEN
            RAISE EXCEPTION USING ERRCODE = '55P03', MESSAGE = format('could not obtain a lock on relation %s', sequence),
                DETAIL = 'Another transaction has locked or used it, and is still open.',
                HINT = 'Try again when it has ended; it is listed in pg_locks, or in pg_prepared_xacts.';
        END;
    END IF;
    FOR part IN SELECT * FROM ids._parts(shard, schema, sequence, epoch, home) AS p WHERE NOT p.is_same LOOP
        IF part.existing IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = '42723', MESSAGE = format('function %s already exists', part.existing),
                DETAIL = format('It is not the function that shard %s needs.', shard),
                HINT = CASE WHEN part.name = 'next_id' AND (SELECT xmin <> pg_current_xact_id()::xid FROM pg_class WHERE oid = sequence)
                        AND (SELECT proowner FROM pg_proc WHERE oid = part.existing) = quote_ident(current_user)::regrole THEN format('End all sessions that use it, then use CREATE OR REPLACE FUNCTION %s.next_id() %s %s.', schema, part.form, part.body)
                    WHEN part.name = 'next_id' THEN 'Drop it when all sessions that use it have ended.'
                    ELSE 'Rename or drop it.' END;
        END IF;
        EXECUTE format('CREATE FUNCTION %s.%s(%s) %s %s', schema, part.name, part.arguments, part.form, part.body);
        EXECUTE format('COMMENT ON FUNCTION %s.%s(%s) IS %L', schema, part.name, part.arguments, part.comment);
        created := created + 1;
    END LOOP;
    RETURN created;
END $$;

CREATE OR REPLACE FUNCTION ids._refuse_caller() RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'must be owner of schema ids',
        DETAIL = 'In the portable edition, all shards belong to that role.',
        HINT = format('Use SET ROLE %s.', (SELECT nspowner::regrole FROM pg_namespace WHERE nspname = 'ids'));
END $$;

CREATE OR REPLACE FUNCTION ids._check_caller() RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (SELECT nspowner FROM pg_namespace WHERE nspname = 'ids') <> quote_ident(current_user)::regrole THEN
        PERFORM ids._refuse_caller();
    ELSIF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION USING ERRCODE = '55000',
            MESSAGE = format('cannot create or claim a shard at isolation level %s', current_setting('transaction_isolation')),
            DETAIL = 'The snapshot of the transaction may be older than other shards.',
            HINT = 'Use BEGIN ISOLATION LEVEL READ COMMITTED.';
    END IF;
END $$;

-- Until the end of the transaction. Any role can lock a relation in another mode, by its OID: the
-- functions of sequences keep that lock after their error.
CREATE OR REPLACE FUNCTION ids._lock_shards() RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lock_limit text := current_setting('lock_timeout');
BEGIN
    IF lock_limit::interval NOT BETWEEN '1 ms' AND '10 s' THEN
        PERFORM set_config('lock_timeout', '10s', true);
    END IF;
    LOCK TABLE ids_mutexes._create_shard IN SHARE UPDATE EXCLUSIVE MODE;
    PERFORM set_config('lock_timeout', lock_limit, true);
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION USING ERRCODE = '55P03', MESSAGE = 'could not obtain the lock of create_shard()',
        DETAIL = 'Another transaction has created a shard, or has locked view ids_mutexes._create_shard, and is still open.',
        HINT = 'Try again when it has ended; it is listed in pg_locks, or in pg_prepared_xacts.';
WHEN undefined_table OR invalid_schema_name THEN
    RAISE EXCEPTION USING ERRCODE = '55006', MESSAGE = 'the library has taken the place of the portable edition',
        DETAIL = 'It did so while the call waited.', HINT = 'Try again.';
END $$;

CREATE OR REPLACE FUNCTION ids._is_time(name text) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN name::timestamptz IS NOT NULL;
EXCEPTION WHEN data_exception THEN
    RETURN false;
END $$;

-- Checks the arguments of create_shard(), and returns the name of the schema.
CREATE OR REPLACE FUNCTION ids._check_new_shard(shard integer, schema text, epoch timestamptz, if_not_exists boolean) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text := COALESCE(schema, 'insta' || ids._check_shard(shard));
    now_ms bigint := CASE WHEN isfinite(epoch) THEN floor((extract(epoch FROM clock_timestamp()) - extract(epoch FROM epoch)) * 1000) END;
BEGIN
    IF if_not_exists IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'if_not_exists must not be null',
            HINT = 'Pass a value, or omit the argument to use its default.';
    ELSIF name = '' THEN
        RAISE EXCEPTION USING ERRCODE = '42602', MESSAGE = 'schema name must not be empty',
            HINT = 'Pass a name, or omit it to use the default.';
    ELSIF starts_with(name, 'pg_') THEN
        RAISE EXCEPTION USING ERRCODE = '42939', MESSAGE = format('unacceptable schema name "%s"', name),
            DETAIL = 'The prefix "pg_" is reserved for system schemas.';
    ELSIF octet_length(name) > 63 THEN
        RAISE EXCEPTION USING ERRCODE = '42622',
            MESSAGE = format('name "%s" is too long', CASE WHEN length(name) > 60 THEN left(name, 60) || '...' ELSE name END),
            HINT = 'A name has at most 63 bytes.';
    ELSIF name ~ '^[0-9]{4}-' AND to_regnamespace(quote_ident(name)) IS NULL AND ids._is_time(name) THEN
        RAISE EXCEPTION USING ERRCODE = '42602', MESSAGE = format('schema name "%s" is a time', name),
            DETAIL = 'The second argument of create_shard() is the name of the schema.',
            HINT = format('To create the shard with this epoch, use SELECT ids.create_shard(%s, epoch => %L).', shard, name);
    ELSIF NOT isfinite(epoch) THEN
        RAISE EXCEPTION USING ERRCODE = '22008', MESSAGE = 'epoch must be finite';
    ELSIF now_ms NOT BETWEEN 0 AND 1099511627775 THEN
        RAISE EXCEPTION USING ERRCODE = '22008', MESSAGE = format('epoch %s cannot be used to generate ids', epoch),
            DETAIL = CASE WHEN now_ms < 0 THEN 'It is in the future.' ELSE 'Ids would be negative by now.' END,
            HINT = format('Use an epoch from %s to %s.', clock_timestamp() - (1099511627775 - 86400000) * interval '1 ms', clock_timestamp());
    END IF;
    RETURN name;
END $$;

-- The epoch of an epoch() that DROP SEQUENCE ... CASCADE has left. To show the body of another role's
-- would wait for the locks on its tables.
CREATE OR REPLACE FUNCTION ids._left_epoch(function text) RETURNS timestamptz
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET "DateStyle" = 'ISO' SET "TimeZone" = 'UTC' AS $$
BEGIN
    RETURN (SELECT (regexp_match(pg_get_function_sqlbody(oid), '^RETURN ''([^'']*)''::timestamp with time zone$'))[1]
        FROM pg_proc WHERE oid = to_regprocedure(function) AND proowner = quote_ident(current_user)::regrole);
END $$;

CREATE OR REPLACE FUNCTION ids.create_shard(
    shard integer, schema text DEFAULT NULL, epoch timestamptz DEFAULT NULL, if_not_exists boolean DEFAULT false
) RETURNS regnamespace
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    name text := ids._check_new_shard(shard, schema, epoch, if_not_exists);
    existing record;
    left_epoch timestamptz;
    is_replaced boolean;
    sequence regclass;
BEGIN
    PERFORM ids._check_caller();
    -- Two transactions cannot create a shard of the same number.
    PERFORM ids._lock_shards();
    IF EXISTS (SELECT FROM ids._shards('shard_' || shard)) THEN
        existing := ids._shard(shard);
        IF NOT if_not_exists THEN
            RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('shard %s already exists', shard),
                DETAIL = format('Its schema is %s.', existing.schema),
                HINT = 'Use if_not_exists => true to keep what the shard has and create what it lacks.';
        ELSIF quote_ident(schema) <> existing.schema::text THEN
            RAISE EXCEPTION USING ERRCODE = '42710',
                MESSAGE = format('shard %s already exists with a different schema', shard),
                DETAIL = format('Its schema is %s, not %s.', existing.schema, quote_ident(schema)),
                HINT = 'Omit the schema to use the shard as it is.';
        ELSIF epoch <> existing.epoch THEN
            RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('shard %s already exists with a different epoch', shard),
                DETAIL = format('Its epoch is %s, not %s.', existing.epoch, epoch),
                HINT = 'Omit the epoch to use the shard as it is.';
        ELSIF ids._complete(shard, existing.schema, existing.sequence, existing.epoch, existing.home) = 0 THEN
            RAISE NOTICE USING ERRCODE = '42710', MESSAGE = format('shard %s already exists, skipping', shard);
        END IF;
        RETURN existing.schema;
    END IF;
    IF to_regnamespace(quote_ident(name)) IS NULL THEN
        EXECUTE format('CREATE SCHEMA %I', name);
        EXECUTE format('COMMENT ON SCHEMA %I IS %L', name, format('logical shard %s of instagram_id', shard));
    ELSIF name IN ('ids', 'ids_mutexes') THEN
        RAISE EXCEPTION USING ERRCODE = '42723', MESSAGE = format('shard %s cannot share a schema with the extension', shard),
            DETAIL = 'Functions of the extension have names that the shard needs.',
            HINT = format('Use SELECT ids.create_shard(%s) to create the shard in a schema of its own.', shard);
    ELSIF NOT if_not_exists THEN
        RAISE EXCEPTION USING ERRCODE = '42P06', MESSAGE = format('schema %I already exists', name),
            HINT = 'Use if_not_exists => true to create the shard in it.';
    ELSIF (SELECT nspowner FROM pg_namespace WHERE nspname = name) <> quote_ident(current_user)::regrole THEN
        RAISE EXCEPTION USING ERRCODE = '55000',
            MESSAGE = format('schema %I belongs to role %s', name, (SELECT nspowner::regrole FROM pg_namespace WHERE nspname = name)),
            DETAIL = format('Its owner could replace the functions of shard %s.', shard),
            HINT = format('Use ALTER SCHEMA %I OWNER TO CURRENT_USER.', name);
    END IF;
    left_epoch := ids._left_epoch(format('%I.epoch()', name));
    IF epoch <> left_epoch THEN
        RAISE EXCEPTION USING ERRCODE = '42710',
            MESSAGE = format('function %I.epoch() already exists with a different epoch', name),
            DETAIL = format('It returns %s, not %s.', left_epoch, epoch), HINT = 'Omit the epoch to use that one.';
    END IF;
    is_replaced := left_epoch IS NOT NULL AND to_regclass(format('%I.table_id_seq', name)) IS NULL;
    IF to_regclass(format('%I.table_id_seq', name)) IS NULL THEN
        EXECUTE format('CREATE SEQUENCE %I.table_id_seq AS bigint MAXVALUE 1125899906842623', name);
        EXECUTE format('COMMENT ON SEQUENCE %I.table_id_seq IS %L', name, format('last issued id of shard %s without its shard bits', shard));
    END IF;
    sequence := format('%I.table_id_seq', name)::regclass;
    IF (SELECT relkind FROM pg_class WHERE oid = sequence) <> 'S' THEN
        RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('relation %s is not a sequence', sequence),
            HINT = 'Pass a sequence. If the relation has the name that the sequence of a shard needs, rename it.';
    ELSIF (SELECT relowner FROM pg_class WHERE oid = sequence) <> quote_ident(current_user)::regrole THEN
        RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('must be owner of sequence %s', sequence),
            HINT = 'Ask its owner or a superuser.';
    END IF;
    IF ids._faults(sequence, NULL) <> '{}' THEN
        PERFORM ids._refuse(sequence, ids._faults(sequence, NULL));
    END IF;
    PERFORM ids._complete(shard, quote_ident(name)::regnamespace, sequence,
        COALESCE(left_epoch, epoch, '2011-08-24 21:07:01.721+00'), ids._this_database());
    IF is_replaced THEN
        RAISE WARNING USING MESSAGE = format('sequence %I.table_id_seq was missing and has been created', name),
            DETAIL = format('It does not know the ids that shard %s has generated before, so it could repeat them.', shard),
            HINT = format('Call ids.advance_shard(%s, ...) with the largest id of the shard. Leave out keys that a role has chosen.', shard);
    END IF;
    RETURN quote_ident(name)::regnamespace;
END $$;

CREATE OR REPLACE FUNCTION ids.advance_shard(shard integer, id bigint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET exit_on_error = off AS $$
#variable_conflict use_variable
DECLARE
    value bigint := (id >> 23 << 10) | (id & 1023);
    found record;
    held pg_catalog.regclass; -- the sequence, while its mutex is held
    last bigint;
    caught text;
BEGIN
    PERFORM ids._check_shard(shard);
    IF id IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'id must not be null',
            HINT = 'Pass the id that the next id must exceed.';
    ELSIF id < 0 THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('id %s is negative', id),
            DETAIL = 'Shards generate no negative ids.';
    ELSIF (id >> 10) & 8191 <> shard THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = format('id %s belongs to shard %s, not to shard %s', id, (id >> 10) & 8191, shard),
            HINT = format('Pass an id of shard %s, or advance shard %s.', shard, (id >> 10) & 8191);
    ELSIF id >> 23 = 1099511627775 AND id & 1023 = 1023 THEN
        RAISE EXCEPTION USING ERRCODE = '2200H', MESSAGE = format('no id is greater than %s', id),
            DETAIL = 'The shard would have no ids left.';
    END IF;
    found := ids._shard(shard);
    IF current_setting('transaction_read_only')::boolean THEN
        PERFORM ids._explain_failure(found.sequence, '25006', NULL, NULL);
    ELSIF NOT has_sequence_privilege(found.sequence, 'UPDATE') THEN
        IF NOT pg_has_role(found.owner, 'USAGE') THEN
            PERFORM ids._refuse_caller();
        END IF;
        RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('permission denied for sequence %s', found.sequence),
            DETAIL = format('Role %s lacks UPDATE on it.', quote_ident(current_user)),
            HINT = format('Use GRANT UPDATE ON SEQUENCE %s TO %s.', found.sequence, quote_ident(current_user));
    END IF;
    BEGIN
        -- Without the mutex first, as in _shard_next_id().
        LOOP
            last := pg_sequence_last_value(found.sequence);
            last := COALESCE(setval(held, CASE WHEN last IS NULL OR last < value THEN value END), last);
            EXIT WHEN held IS NOT NULL;
            PERFORM ids._lock(ids._mutex(found.sequence));
            held := found.sequence;
        END LOOP;
        RAISE SQLSTATE 'IG000';
    EXCEPTION
        WHEN SQLSTATE 'IG000' THEN NULL;
        WHEN read_only_sql_transaction OR insufficient_privilege OR numeric_value_out_of_range OR undefined_table THEN
            caught := SQLSTATE || ' ' || SQLERRM;
    END;
    IF (CASE WHEN caught LIKE '42P01%' THEN ids._is_taken_over(true) END) THEN
        EXECUTE 'SELECT ids.advance_shard($1, $2)' INTO last USING shard, id;
        RETURN last;
    ELSIF caught LIKE '42501%' THEN
        PERFORM ids._refuse_caller();
    ELSIF caught IS NOT NULL THEN
        PERFORM ids._explain_failure(found.sequence, caught, last, value);
    ELSIF last > 1125899906842623 THEN
        PERFORM ids._explain_end(found.sequence, found.epoch, '2200H', last);
    END IF;
    RETURN (last >> 10 << 23) | (shard << 10) | (last & 1023);
END $$;

-- Also gives next_id() the rights of its owner, which that of a shard from a server with the
-- library lacks.
CREATE OR REPLACE FUNCTION ids.claim_shard(shard integer) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
    SET "DateStyle" = 'ISO' SET "TimeZone" = 'UTC' AS $$
#variable_conflict use_variable
DECLARE
    found record;
BEGIN
    PERFORM ids._check_caller();
    found := ids._shard(shard);
    EXECUTE format('CREATE OR REPLACE FUNCTION %s.shard_%s(OUT sequence regclass, OUT epoch timestamptz, OUT home text) LANGUAGE sql '
        'IMMUTABLE PARALLEL SAFE BEGIN ATOMIC SELECT %L::regclass AS sequence, %L::timestamptz AS epoch, %L::text AS home; END',
        found.schema, shard, found.sequence, found.epoch, ids._this_database());
    PERFORM ids._complete(shard, found.schema, found.sequence, found.epoch, ids._this_database());
    EXECUTE format('ALTER FUNCTION %s.next_id() SECURITY DEFINER', found.schema);
END $$;

/* Monitoring */

CREATE OR REPLACE FUNCTION ids.instagram_id_version() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN '1.0.0-portable'::text;

CREATE OR REPLACE FUNCTION ids._shard_states()
    RETURNS TABLE (shard integer, schema regnamespace, sequence regclass, epoch timestamptz, last_id bigint)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT shard, schema, sequence, epoch, CASE WHEN last >= 0 AND last <= 1125899906842623
        THEN (last >> 10 << 23) | (shard << 10) | (last & 1023) END
    FROM ids._shards(), LATERAL (SELECT CASE WHEN has_sequence_privilege(sequence, 'SELECT, USAGE')
        THEN pg_sequence_last_value(sequence) END OFFSET 0) AS s (last)
$$;

CREATE OR REPLACE FUNCTION ids._shard_reason(shard integer, schema regnamespace) RETURNS text
    LANGUAGE plpgsql STABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    found record;
    altered text;
    last bigint;
    faults text[];
BEGIN
    SELECT * INTO found FROM ids._shards('shard_' || shard) AS s WHERE s.schema = schema;
    IF pg_is_in_recovery() THEN
        RETURN 'this server is a standby';
    END IF;
    faults := ids._faults(found.sequence, NULL);
    last := CASE WHEN has_sequence_privilege(found.sequence, 'SELECT, USAGE') THEN pg_sequence_last_value(found.sequence) END;
    SELECT string_agg(CASE WHEN existing IS NULL THEN format('%s.%s(%s) is missing', schema, name, CASE name WHEN 'id_time' THEN 'bigint' END)
            ELSE existing || CASE name WHEN 'next_id' THEN ' does not generate the shard''s ids' ELSE ' is not the shard''s' END END, '; ')
        INTO altered FROM ids._parts(shard, schema, found.sequence, found.epoch, found.home) WHERE NOT is_same;
    RETURN NULLIF(concat_ws('; ', CASE WHEN faults[1] LIKE 'Its maximum%' AND cardinality(faults) = 1
                AND last >= (SELECT seqmax FROM pg_sequence WHERE seqrelid = found.sequence) THEN 'closed by a move'
            WHEN faults <> '{}' THEN 'sequence altered: ' || (SELECT string_agg(lower(left(fault, 1))
                || substr(regexp_replace(fault, '[.] .*', ''), 2), '; ') FROM unnest(faults) AS fault) END,
        CASE WHEN last >= 1125899906842623 THEN 'end of ids' END,
        CASE WHEN found.home <> ids._this_database() THEN 'copied from another database' END,
        coalesce(altered, (SELECT oid::regprocedure || ' does not run with the rights of its owner'
                           FROM pg_proc WHERE pronamespace = schema AND proname = 'next_id' AND pronargs = 0 AND NOT prosecdef))), '');
END $$;

CREATE OR REPLACE VIEW ids.id_shards AS
SELECT shard, nspname AS schema, sequence, epoch, last_id,
       ids.id_time(last_id, epoch) AS last_time,
       CASE WHEN last_id IS NOT NULL THEN greatest(ids.id_time(last_id, epoch) - clock_timestamp(), '0') END AS ahead,
       1024000::bigint AS ids_per_second,
       epoch + '1099511627776 milliseconds'::interval AS ends_at, -- 2^40: ids would turn negative
       reason IS NULL AS can_generate,
       reason
FROM ids._shard_states() JOIN pg_catalog.pg_namespace ON pg_namespace.oid OPERATOR(pg_catalog.=) schema,
     LATERAL (SELECT ids._shard_reason(shard, schema) OFFSET 0) AS r (reason);

/* Comments, as in the library */

COMMENT ON FUNCTION ids.next_id(integer) IS 'next id of a shard (0 to 8191), from the sequence in its schema';
COMMENT ON FUNCTION ids.next_id(integer, regclass) IS 'next id of a shard (0 to 8191), from a sequence of your own';
COMMENT ON FUNCTION ids.next_id(integer, regclass, timestamptz) IS 'next id of a shard (0 to 8191), from a sequence of your own, counted from an epoch of your own';
COMMENT ON FUNCTION ids.shard_next_id(integer, regclass, timestamptz) IS 'next id of a shard from a sequence, counted from an epoch; called by next_id() in the schema of a shard';
COMMENT ON FUNCTION ids.next_id() IS 'next id of the shard that the setting instagram_id.shard names';
COMMENT ON FUNCTION ids.next_ids(integer, integer) IS 'next ids of a shard, as many as requested, in order';
COMMENT ON FUNCTION ids.id_time(bigint) IS 'time at which an id was generated, to the millisecond';
COMMENT ON FUNCTION ids.id_time(bigint, timestamptz) IS 'time at which an id was generated, to the millisecond, counted from the given epoch';
COMMENT ON FUNCTION ids.shard_id_time(bigint, timestamptz) IS 'time at which an id was generated, counted from the given epoch; called by id_time(id) in the schema of a shard';
COMMENT ON FUNCTION ids.id_shard(bigint) IS 'logical shard that generated an id, 0 to 8191';
COMMENT ON FUNCTION ids.id_seq(bigint) IS 'sequence field of an id, 0 to 1023';
COMMENT ON FUNCTION ids.id_parts(bigint) IS 'time, shard and sequence field of an id';
COMMENT ON FUNCTION ids.id_parts(bigint, timestamptz) IS 'time, shard and sequence field of an id, counted from the given epoch';
COMMENT ON FUNCTION ids.id_to_shortcode(bigint) IS 'short code of an id, as in links: base 64 (A-Z, a-z, 0-9, -, _), most significant digit first';
COMMENT ON FUNCTION ids.shortcode_to_id(text) IS 'id of a short code';
COMMENT ON FUNCTION ids.shard_for(bigint, integer) IS 'logical shard that a key belongs to, of that many shards: key % shards, never negative';
COMMENT ON FUNCTION ids.make_id(timestamptz, integer, integer) IS 'id of a time, shard (0 to 8191) and sequence field (0 to 1023)';
COMMENT ON FUNCTION ids.make_id(timestamptz, integer, integer, timestamptz) IS 'id of a time, shard (0 to 8191) and sequence field (0 to 1023), counted from the given epoch';
COMMENT ON FUNCTION ids.id_floor(timestamptz) IS 'smallest id at or after a time';
COMMENT ON FUNCTION ids.id_floor(timestamptz, timestamptz) IS 'smallest id at or after a time, counted from the given epoch';
COMMENT ON FUNCTION ids.id_range_end(timestamptz, timestamptz) IS 'first id after the times from from_time up to, but not including, to_time; a part of id_between';
COMMENT ON FUNCTION ids.id_range_end(timestamptz, timestamptz, timestamptz) IS 'first id after the times from from_time up to, but not including, to_time, counted from the given epoch; a part of id_between';
COMMENT ON FUNCTION ids.id_between(bigint, timestamptz, timestamptz) IS 'whether an id was generated from from_time up to, but not including, to_time; can use an index on the id';
COMMENT ON FUNCTION ids.id_between(bigint, timestamptz, timestamptz, timestamptz) IS 'whether an id was generated from from_time up to, but not including, to_time, counted from the given epoch; can use an index on the id';
COMMENT ON FUNCTION ids.create_shard(integer, text, timestamptz, boolean) IS 'creates a logical shard (0 to 8191): a schema, insta<shard> by default, with its sequence and functions';
COMMENT ON FUNCTION ids.advance_shard(integer, bigint) IS 'makes the next id of a shard greater than an id, unless it already is; returns the last id';
COMMENT ON FUNCTION ids.claim_shard(integer) IS 'records that this database generates the ids of a shard, after a move or a restore';
COMMENT ON FUNCTION ids.instagram_id_version() IS 'version of the library that the session has loaded';
COMMENT ON VIEW ids.id_shards IS 'every shard of this database, its last id, and whether ids may be generated here';
COMMENT ON COLUMN ids.id_shards.shard IS 'number, 0 to 8191';
COMMENT ON COLUMN ids.id_shards.schema IS 'schema of the shard';
COMMENT ON COLUMN ids.id_shards.sequence IS 'sequence that its ids come from';
COMMENT ON COLUMN ids.id_shards.epoch IS 'instant that its ids count from';
COMMENT ON COLUMN ids.id_shards.last_id IS 'last id; NULL if there is none, or the caller may neither read the sequence nor all statistics';
COMMENT ON COLUMN ids.id_shards.last_time IS 'time of that id';
COMMENT ON COLUMN ids.id_shards.ahead IS 'how far that time is ahead of the clock';
COMMENT ON COLUMN ids.id_shards.ids_per_second IS 'maximum number of ids per second';
COMMENT ON COLUMN ids.id_shards.ends_at IS 'when its ids end';
COMMENT ON COLUMN ids.id_shards.can_generate IS 'whether ids of the shard may be generated here';
COMMENT ON COLUMN ids.id_shards.reason IS 'why ids may not be generated here; NULL if they may';

ALTER DEFAULT PRIVILEGES IN SCHEMA ids REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
ALTER DEFAULT PRIVILEGES IN SCHEMA ids REVOKE SELECT ON TABLES FROM PUBLIC;
COMMIT;

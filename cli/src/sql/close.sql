SET LOCAL lock_timeout = '500ms';
SET LOCAL statement_timeout = '1s';
-- Acquire all locks for which this may have to wait. Lock the schema's row as well, because its owner could otherwise rename
-- the schema and create another one.
DO $do$
DECLARE
    s name := current_setting('move.schema');
    item record;
    tables text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = s) THEN
        RAISE EXCEPTION 'there is no schema %', quote_ident(s);
    END IF;
    -- A change of its privileges locks a schema as well, for a role that is no superuser.
    IF current_setting('is_superuser')::boolean THEN
        PERFORM FROM pg_namespace WHERE nspname = s FOR UPDATE;
    ELSE
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO CURRENT_USER', s);
    END IF;
    SELECT rolname, (rolsuper OR rolname = current_user) AND prokind = 'f' AS is_ours, obj_description(p.oid, 'pg_proc') AS comment INTO item
    FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = pronamespace JOIN pg_roles AS r ON r.oid = proowner
    WHERE proname = 'shard_is_elsewhere' AND pronargs = 0 AND nspname = s;
    IF NOT item.is_ours THEN
        RAISE EXCEPTION 'schema % has a routine shard_is_elsewhere() of role %: drop it', quote_ident(s), quote_ident(item.rolname);
    ELSIF item.comment IS NOT NULL THEN
        RAISE EXCEPTION 'schema % is closed already', quote_ident(s);
    END IF;
    SELECT string_agg(format('%I.%I', s, relname), ', ' ORDER BY relname) INTO tables
    FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace WHERE nspname = s AND relkind IN ('r', 'p');
    IF tables IS NOT NULL THEN
        EXECUTE 'LOCK TABLE ' || tables || ' IN SHARE ROW EXCLUSIVE MODE';
    END IF;
    -- This only locks the sequence: it waits for open transactions that have generated ids.
    FOR item IN
        SELECT relname FROM pg_sequence JOIN pg_class AS c ON c.oid = seqrelid JOIN pg_namespace AS n ON n.oid = relnamespace
        WHERE nspname = s AND seqtypid = 'bigint'::regtype AND seqincrement = 1 AND seqmax >= 1125899906842623 AND NOT seqcycle
        ORDER BY relname
    LOOP
        EXECUTE format('ALTER SEQUENCE %I.%I NO CYCLE', s, item.relname);
    END LOOP;
END $do$;
-- A transaction that has created a table holds a lock on the schema, and the table is not visible yet.
DO $do$
BEGIN
    IF EXISTS (SELECT FROM pg_locks JOIN pg_namespace AS n ON n.oid = objid
               WHERE locktype = 'object' AND classid = 'pg_namespace'::regclass AND granted AND pid <> pg_backend_pid()
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                 AND nspname = current_setting('move.schema')) THEN
        RAISE EXCEPTION 'another transaction has created objects in schema %', quote_ident(current_setting('move.schema'))
            USING ERRCODE = 'lock_not_available';
    END IF;
END $do$;
SET LOCAL statement_timeout = 0;
DO $do$
DECLARE
    s name := current_setting('move.schema');
    given text := current_setting('move.sequences');
    item record;
    last bigint;
BEGIN
    EXECUTE format('CREATE OR REPLACE FUNCTION %I.shard_is_elsewhere() RETURNS trigger LANGUAGE plpgsql AS %L', s, format($f$
BEGIN
    RAISE EXCEPTION 'shard %s is not here: it is moving to another server, or has moved'
        USING ERRCODE = '25006', HINT = 'Read the map again, and write where that says.';
END $f$, current_setting('move.shard')));
    EXECUTE format('COMMENT ON FUNCTION %I.shard_is_elsewhere() IS %L', s, 'closed by instagram_id_shards');
    FOR item IN
        SELECT relname, tgname IS NOT NULL AS is_taken
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
            LEFT JOIN (pg_trigger JOIN pg_proc AS p ON p.oid = tgfoid AND (proname <> 'shard_is_elsewhere' OR pronargs <> 0))
                ON tgrelid = c.oid AND tgname = 'shard_is_elsewhere'
        WHERE nspname = s AND relkind IN ('r', 'p')
    LOOP
        IF item.is_taken THEN
            RAISE EXCEPTION 'table %.% has a trigger shard_is_elsewhere of its own: rename it', quote_ident(s), quote_ident(item.relname);
        END IF;
        EXECUTE format('CREATE OR REPLACE TRIGGER shard_is_elsewhere BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %1$I.%2$I
            FOR EACH STATEMENT EXECUTE FUNCTION %1$I.shard_is_elsewhere()', s, item.relname);
    END LOOP;
    -- MINVALUE must be less than MAXVALUE, and START must be between them. The first ALTER SEQUENCE fails unless the relation is
    -- a sequence, and locks it. Otherwise the owner could replace it with a view, whose functions the SELECT would run.
    FOR item IN
        SELECT relname, seqmin, seqmax, seqstart
        FROM pg_sequence JOIN pg_class AS c ON c.oid = seqrelid JOIN pg_namespace AS n ON n.oid = relnamespace
        WHERE nspname = s AND seqtypid = 'bigint'::regtype AND seqincrement = 1 AND seqmax >= 1125899906842623 AND NOT seqcycle
        ORDER BY relname
    LOOP
        IF given <> '' AND given::jsonb -> item.relname::text IS DISTINCT FROM jsonb_build_array(item.seqmin, item.seqmax, item.seqstart) THEN
            RAISE EXCEPTION 'the sequences have changed' USING ERRCODE = '40001';
        END IF;
        EXECUTE format('ALTER SEQUENCE %I.%I NO CYCLE', s, item.relname);
        EXECUTE format('SELECT last_value FROM %I.%I', s, item.relname) INTO STRICT last;
        EXECUTE format('ALTER SEQUENCE %I.%I MINVALUE %s MAXVALUE %s START %s', s, item.relname,
            least(item.seqmin, last - 1), last, least(item.seqstart, last));
    END LOOP;
END $do$;

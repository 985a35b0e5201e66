-- Checks that no row of an old copy, whose tables are locked, was written after it was closed, and
-- that the copy on the new server had as many.
DO $do$
DECLARE
    s name := current_setting('move.schema');
    function oid := format('%I.shard_is_elsewhere()', s)::regprocedure;
    snapshot pg_snapshot := substring(obj_description(function, 'pg_proc') FROM 'snapshot (.*)$');
    newest bigint := pg_snapshot_xmax(pg_current_snapshot())::text;
    one record;
    moved jsonb := nullif(current_setting('move.rows', true), '');
    counted bigint;
    is_written bool;
BEGIN
    SET LOCAL row_security = off;
    FOR one IN SELECT format('%I.%I', s, relname) AS name, relkind, tgenabled,
            t.xmin = (SELECT xmin FROM pg_description WHERE classoid = 'pg_proc'::regclass AND objoid = function) AS is_of_closing
        FROM pg_class AS c LEFT JOIN pg_trigger AS t ON tgrelid = c.oid AND tgname = 'shard_is_elsewhere' WHERE c.oid = ANY (current_setting('move.locked')::oid[])
    LOOP
        -- Each row that is not in the snapshot of the closing was written later. The row has
        -- the lower half of the number of its transaction; the upper half is that of the newest
        -- transaction, or one less.
        -- But a frozen row keeps the number that it had, which can be older than 2^32 transactions.
        -- On a server that has used as many, a table was not written if nothing has changed the
        -- trigger since the closing.
        is_written := snapshot IS NULL OR one.tgenabled IS DISTINCT FROM 'A';
        IF NOT is_written AND one.relkind = 'r' THEN
            EXECUTE format('SELECT count(*), coalesce(bool_or(r.writer > 2
                AND NOT pg_visible_in_snapshot(greatest($2 - ($2 %% 4294967296 - r.writer + 4294967296) %% 4294967296, 3)::text::xid8, $1)), false)
                FROM ONLY %s AS t CROSS JOIN LATERAL (VALUES (t.xmin::text::bigint)) AS r (writer)', one.name)
                INTO counted, is_written USING snapshot, newest;
            is_written := is_written AND NOT (newest > 4294967295 AND one.is_of_closing);
        END IF;
        IF is_written THEN
            RAISE EXCEPTION 'table % was not closed by the move, or was written later', one.name
                USING HINT = 'Copy the rows that you need to the new server, and drop the table.';
        ELSIF (moved ->> one.name)::bigint <> counted THEN
            RAISE EXCEPTION 'table % has % rows, but the copy on the new server had % when it was opened', one.name, counted, moved ->> one.name
                USING HINT = format('Copy the missing rows to the new server. Then drop schema %I here, and run clean again.', s);
        END IF;
    END LOOP;
END $do$;

-- Locks nothing if the shard is closed already. Otherwise alter_sequences.sql locks the sequences: it
-- waits for open transactions that have called nextval() or next_id().
DO $do$
DECLARE
    s name := current_setting('move.schema');
BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = s) THEN
        RAISE EXCEPTION 'there is no schema %', quote_ident(s);
    END IF;
    CASE current_setting('move.mark')
        WHEN 'foreign' THEN RAISE EXCEPTION 'schema % has a routine shard_is_elsewhere() of another role: drop it', quote_ident(s);
        WHEN 'closed' THEN RAISE EXCEPTION 'schema % is closed already', quote_ident(s);
        ELSE
    END CASE;
    PERFORM set_config('move.statements', ARRAY(
        SELECT format('ALTER SEQUENCE %I.%I %s', s, relname, CASE WHEN seqcycle THEN 'CYCLE' ELSE 'NO CYCLE' END)
        FROM pg_sequence JOIN pg_class AS c ON c.oid = seqrelid JOIN pg_namespace AS n ON n.oid = relnamespace
        WHERE nspname = s ORDER BY relname)::text, true);
END $do$;

-- Runs the statements in move.statements, each of which is an ALTER SEQUENCE. This locks the sequence
-- and writes its row of pg_class, as a GRANT does, so that no other session can write it later. A GRANT
-- in progress fails it, which therefore is repeated. A lock on the row would not do: a GRANT waits for
-- it while it holds a lock that ALTER SEQUENCE needs.
DO $do$
DECLARE
    statement text;
BEGIN
    FOREACH statement IN ARRAY current_setting('move.statements')::text[] LOOP
        FOR try IN 1..1000 LOOP
            BEGIN
                EXECUTE statement;
                EXIT;
            EXCEPTION WHEN internal_error THEN
                IF try = 1000 OR SQLERRM <> 'tuple concurrently updated' THEN
                    RAISE;
                END IF;
            END;
        END LOOP;
    END LOOP;
END $do$;

\set ECHO none
-- Included by each test. Results have no frames of tables, so that a longer value changes one line. Times do not depend on the
-- environment. The output begins where a test has prepared its roles and helpers, with \set ECHO all.
\pset format unaligned
\pset tuples_only on
\set SHOW_CONTEXT never
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
-- raises(statement): the SQLSTATE, message, detail and hint that a statement fails with.
CREATE OR REPLACE FUNCTION raises(statement text, OUT state text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    message := 'no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
        hint = PG_EXCEPTION_HINT;
END $$;

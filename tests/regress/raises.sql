-- raises(statement): the SQLSTATE, message and hint that a statement fails with. Included by the tests.
CREATE FUNCTION raises(statement text, OUT state text, OUT message text, OUT hint text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    message := 'no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
END $$;

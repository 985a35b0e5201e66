-- Reads the server's log. The variable log is the path of the file.
\set ON_ERROR_STOP on
CREATE TEMP TABLE lines (line jsonb);
-- Reads each line as CSV with one column. No quote and no delimiter occurs in it, and backslashes are not changed.
COPY lines FROM :'log' WITH (FORMAT csv, QUOTE E'\x01', DELIMITER E'\x02');
CREATE TABLE smith.log AS SELECT entry.* FROM lines, jsonb_to_record(line) AS entry (
    "user" text, error_severity text, state_code text, message text, context text, statement text,
    func_name text, file_name text, file_line_num int);

-- Internal errors. The column is_ours shows whether the extension raised the error:
--   true   Rust code raised it, its context names a function of the extension or of a shard, or its statement is not
--          from sqlsmith
--   NULL   PostgreSQL's code raised it. The extension may have called that code: sqlsmith.sh determines this
CREATE TABLE smith.internal AS
    SELECT row_number() OVER () AS number, "user" AS role, state_code, message, statement, context, func_name,
        file_name || ':' || file_line_num AS location,
        CASE WHEN file_name LIKE '%.rs' OR "user" IS NULL OR "user" NOT LIKE 'sqlsmith_%' OR EXISTS (
            SELECT FROM smith.functions WHERE context ~ ('(^|\W)' || proname || '(\W|$)')) THEN true END AS is_ours,
        'by its location or its context' AS because
    FROM smith.log WHERE state_code LIKE 'XX%' AND error_severity IN ('ERROR', 'FATAL', 'PANIC');

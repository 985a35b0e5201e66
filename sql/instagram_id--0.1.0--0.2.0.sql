-- 0.2.0 adds instagram_id_version(): with it a query can tell whether the library is newer than what the database has.
\echo Use "ALTER EXTENSION instagram_id UPDATE" to load this file. \quit

CREATE FUNCTION instagram_id_version() RETURNS text STRICT STABLE PARALLEL SAFE LANGUAGE c
AS 'MODULE_PATHNAME', 'instagram_id_version_wrapper';

COMMENT ON FUNCTION instagram_id_version() IS
'version of the library; where pg_extension has an older one, ALTER EXTENSION instagram_id UPDATE is to be run';

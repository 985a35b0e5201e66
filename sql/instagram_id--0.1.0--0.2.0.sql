-- 0.2.0 adds instagram_id_version(), which shows whether a session still uses the library from before an upgrade.
\echo Use "ALTER EXTENSION instagram_id UPDATE" to load this file. \quit

CREATE FUNCTION instagram_id_version() RETURNS text STRICT STABLE PARALLEL SAFE LANGUAGE c
AS 'MODULE_PATHNAME', 'instagram_id_version_wrapper';

COMMENT ON FUNCTION instagram_id_version() IS
'version of the library that the session has loaded';

-- Rules for all objects that the extension installs. Each query returns the objects that break a rule, so none.
\getenv tests PG_ABS_SRCDIR
\set prelude :tests '/prelude.sql'
\i :prelude
SET client_min_messages = warning;
CREATE SCHEMA rules;
CREATE VIEW rules.member AS
SELECT d.classid, d.objid FROM pg_depend AS d JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
WHERE d.deptype = 'e' AND e.extname = 'instagram_id';
CREATE VIEW rules.function AS
SELECT p.oid::regprocedure AS function, p.*, l.lanname AS language, obj_description(p.oid, 'pg_proc') AS comment
FROM rules.member JOIN pg_proc AS p ON p.oid = objid JOIN pg_language AS l ON l.oid = p.prolang
WHERE classid = 'pg_proc'::regclass;
CREATE VIEW rules.view AS
SELECT c.oid::regclass AS view, c.* FROM rules.member JOIN pg_class AS c ON c.oid = objid WHERE classid = 'pg_class'::regclass;
\set ECHO all

-- The views are not empty.
SELECT count(*) > 40 AS functions, (SELECT count(*) > 0 FROM rules.view) AS views FROM rules.function;

-- It installs functions and views, and their types.
SELECT pg_describe_object(classid, objid, 0) FROM rules.member
WHERE classid NOT IN ('pg_proc'::regclass, 'pg_class'::regclass, 'pg_type'::regclass);
SELECT view, relkind FROM rules.view WHERE relkind <> 'v';
SELECT objid::regtype AS type FROM rules.member JOIN pg_type AS t ON t.oid = objid
WHERE classid = 'pg_type'::regclass AND typrelid NOT IN (SELECT oid FROM rules.view)
    AND typelem NOT IN (SELECT reltype FROM rules.view);

-- Everything has a comment. A function whose name begins with _ is a part of another one, which its comment names.
SELECT function FROM rules.function WHERE comment IS NULL;
SELECT function, comment FROM rules.function WHERE proname LIKE '\_%' AND comment NOT LIKE '%; a part of %';
SELECT view, attname FROM rules.view JOIN pg_attribute ON attrelid = view WHERE col_description(view, attnum) IS NULL;
SELECT view FROM rules.view WHERE obj_description(view, 'pg_class') IS NULL;
-- Every argument and every result column has a name.
SELECT function FROM rules.function WHERE pronargs > 0 AND (proargnames IS NULL OR '' = ANY (proargnames));

-- The functions run with the privileges of the caller, and change no setting.
SELECT function FROM rules.function WHERE prosecdef OR proconfig IS NOT NULL;
-- In SQL only with a body that was parsed when it was created, so that search_path has no effect.
SELECT function, language FROM rules.function WHERE NOT (language = 'c' OR language = 'sql' AND prosqlbody IS NOT NULL);
-- A function that changes something does not run in a parallel worker. A window function never does; it is volatile because
-- PostgreSQL would repeat its rows otherwise. One that depends on nothing does, and a function in C
-- then also returns NULL for NULL, except a window function.
SELECT function FROM rules.function WHERE provolatile = 'v' AND proparallel <> 'u' AND prokind <> 'w';
SELECT function FROM rules.function WHERE provolatile = 'i' AND (proparallel <> 's' OR language = 'c' AND prokind = 'f' AND NOT proisstrict);
-- The leakproof functions are those in C that decode any bigint: they depend on nothing, and raise no error.
SELECT function FROM rules.function WHERE proleakproof <> (provolatile = 'i' AND language = 'c' AND proargtypes = '20');

-- The owner of the extension owns them.
SELECT function FROM rules.function, pg_extension WHERE extname = 'instagram_id' AND proowner <> extowner;
SELECT view FROM rules.view, pg_extension WHERE extname = 'instagram_id' AND relowner <> extowner;
-- Every role may use them, also if functions are not executable by default when the extension is created.
CREATE VIEW rules.refused AS
SELECT function::text AS object FROM rules.function WHERE NOT has_function_privilege('public', function, 'EXECUTE')
UNION ALL
SELECT view::text FROM rules.view WHERE NOT has_table_privilege('public', view, 'SELECT');
SELECT * FROM rules.refused;
BEGIN;
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
DROP EXTENSION instagram_id CASCADE;
CREATE EXTENSION instagram_id;
SELECT * FROM rules.refused;
-- The rule can be broken.
CREATE FUNCTION rules.other() RETURNS int LANGUAGE sql RETURN 1;
ALTER EXTENSION instagram_id ADD FUNCTION rules.other();
SELECT * FROM rules.refused;
ROLLBACK;
DROP SCHEMA rules CASCADE;

-- The setting, which is defined when the library is loaded.
SELECT id_shard(0);
SELECT name, setting, min_val, max_val, context, vartype FROM pg_settings WHERE name LIKE 'instagram\_id.%' ORDER BY name;
SELECT extversion = default_version AS current, extrelocatable, superuser, trusted
FROM pg_extension JOIN pg_available_extensions ON name = extname JOIN pg_available_extension_versions AS v ON v.name = extname AND v.version = extversion
WHERE extname = 'instagram_id';

-- All objects that the extension installs. A change here is a change of the interface, and needs an upgrade script.
SET TimeZone = 'UTC';
SELECT p.oid::regprocedure AS function,
       CASE WHEN p.proretset THEN 'setof ' ELSE '' END || p.prorettype::regtype AS returns,
       l.lanname AS language,
       CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END AS volatility,
       p.proisstrict AS strict,
       CASE p.proparallel WHEN 's' THEN 'safe' WHEN 'r' THEN 'restricted' ELSE 'unsafe' END AS parallel,
       p.proleakproof AS leakproof,
       coalesce(p.proargnames::text, '') AS arguments
FROM pg_depend AS d JOIN pg_proc AS p ON p.oid = d.objid JOIN pg_language AS l ON l.oid = p.prolang
WHERE d.deptype = 'e' AND d.classid = 'pg_proc'::regclass AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'instagram_id')
ORDER BY p.proname, p.pronargs;
-- Functions, a view (on PostgreSQL 18 and later with its row type and the array type of that), and nothing else.
SELECT classid::regclass, count(*) FROM pg_depend
WHERE deptype = 'e' AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'instagram_id') AND classid <> 'pg_type'::regclass GROUP BY 1;
SELECT attname, format_type(atttypid, atttypmod), col_description(attrelid, attnum) FROM pg_attribute WHERE attrelid = 'id_shards'::regclass ORDER BY attnum;
SELECT has_table_privilege('public', 'id_shards', 'SELECT') AS for_everyone;
-- Each function has a comment.
SELECT p.oid::regprocedure FROM pg_depend AS d JOIN pg_proc AS p ON p.oid = d.objid
WHERE d.deptype = 'e' AND d.classid = 'pg_proc'::regclass AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'instagram_id')
  AND obj_description(p.oid, 'pg_proc') IS NULL;
-- The names of the library's functions must not change between versions.
SELECT string_agg(p.prosrc, ', ' ORDER BY p.prosrc) FROM pg_depend AS d JOIN pg_proc AS p ON p.oid = d.objid JOIN pg_language AS l ON l.oid = p.prolang
WHERE d.deptype = 'e' AND d.classid = 'pg_proc'::regclass AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'instagram_id') AND l.lanname = 'c';
-- The settings, which are defined when the library is loaded.
SELECT id_shard(0);
SELECT name, setting, min_val, max_val, context, vartype FROM pg_settings WHERE name LIKE 'instagram\_id.%' ORDER BY name;
SELECT extversion = default_version AS current, extrelocatable, superuser, trusted
FROM pg_extension JOIN pg_available_extensions ON name = extname JOIN pg_available_extension_versions AS v ON v.name = extname AND v.version = extversion
WHERE extname = 'instagram_id';

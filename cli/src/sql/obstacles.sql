-- The objects of the schema $1 that no move can carry over, with the statement that changes it. $2:
-- the role of the command on the target, or empty if that is a superuser. $3: what to say of columns
-- of type money, or empty.
WITH RECURSIVE {own}, {members}, tables AS MATERIALIZED (
    SELECT c.oid, relreplident, format('%I.%I', $1::text, relname) AS name,
        EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.oid AND attgenerated <> '') AS has_generated
    FROM pg_class AS c WHERE relnamespace = quote_ident($1::text)::regnamespace AND relkind = 'r'
), parts (relation, attname, type, collid, modifier) AS (
    -- The type of each column, and the types of which it consists.
    SELECT c.oid, attname, atttypid, attcollation, atttypmod FROM pg_class AS c JOIN pg_attribute ON attrelid = c.oid
    WHERE relnamespace = quote_ident($1::text)::regnamespace AND relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
    UNION
    SELECT relation, attname, part, part_collid, part_modifier FROM parts JOIN pg_type AS t ON t.oid = type CROSS JOIN LATERAL (
        SELECT typbasetype, collid, typtypmod WHERE typtype = 'd'
        UNION ALL SELECT typelem, collid, modifier WHERE typcategory = 'A'
        UNION ALL SELECT rngsubtype, rngcollation, -1 FROM pg_range WHERE t.oid IN (rngtypid, rngmultitypid)
        UNION ALL SELECT atttypid, attcollation, atttypmod FROM pg_attribute WHERE typtype = 'c' AND attrelid = typrelid AND attnum > 0 AND NOT attisdropped) AS p (part, part_collid, part_modifier)
), equalities (type, is_exact) AS MATERIALIZED (
    -- Support function 4 says that equal values are the same, unlike 1.0 and 1.00.
    SELECT opcintype, amproc IS NOT NULL FROM pg_opclass
        LEFT JOIN pg_amproc ON amprocfamily = opcfamily AND amproclefttype = opcintype AND amprocrighttype = opcintype AND amprocnum = 4
    WHERE opcdefault AND opcmethod = 403
), inexact AS MATERIALIZED (
    SELECT DISTINCT relation, attname FROM parts AS p JOIN pg_type AS t ON t.oid = p.type LEFT JOIN equalities AS e ON e.type = t.oid
        LEFT JOIN pg_collation AS l ON l.oid = collid
    -- Values of bpchar without a length differ in blanks that no comparison sees.
    WHERE typtype = 'b' AND typcategory <> 'A' AND (NOT collisdeterministic OR t.oid = 'bpchar'::regtype AND modifier = -1 OR NOT coalesce(is_exact, EXISTS (
        SELECT FROM pg_cast JOIN equalities AS c ON c.type = casttarget
        WHERE castsource = t.oid AND castmethod = 'b' AND castcontext = 'i' AND c.is_exact)))
), keys AS MATERIALIZED (
    -- A generated column is not replicated.
    SELECT indrelid, indisprimary, indisreplident, EXISTS (
        SELECT FROM unnest(indkey) WITH ORDINALITY AS k (number, n) JOIN pg_attribute ON attrelid = indrelid AND attnum = number
        WHERE n <= indnkeyatts AND attgenerated <> '') AS is_generated
    FROM pg_index JOIN tables AS t ON indrelid = t.oid WHERE indisvalid AND indimmediate
), not_full (relation) AS MATERIALIZED (
    -- The new server looks rows up by the primary key even then.
    SELECT indrelid FROM keys WHERE indisprimary AND is_generated
    -- From 18 on, the old server rejects updates and deletes then.
    UNION SELECT oid FROM tables WHERE has_generated AND current_setting('server_version_num')::int >= 180000
), ways_out (relation, way_out) AS MATERIALIZED (
    SELECT t.oid, CASE
        WHEN EXISTS (SELECT FROM keys WHERE indrelid = t.oid AND indisprimary AND NOT is_generated) THEN format('ALTER TABLE %s REPLICA IDENTITY DEFAULT', t.name)
        WHEN EXISTS (SELECT FROM keys WHERE indrelid = t.oid AND indisprimary) THEN 'add a unique index without generated columns, and set REPLICA IDENTITY USING INDEX'
        WHEN t.oid IN (SELECT relation FROM inexact UNION SELECT relation FROM not_full) THEN 'add a primary key, and set REPLICA IDENTITY DEFAULT'
        ELSE format('add a primary key, or ALTER TABLE %s REPLICA IDENTITY FULL', t.name) END
    FROM tables AS t
), defaults (relation, attname, class, object, tree, way_out) AS NOT MATERIALIZED (
    SELECT adrelid, attname, 'pg_attrdef'::regclass, d.oid, adbin, CASE attgenerated WHEN '' THEN 'DROP DEFAULT' ELSE 'DROP EXPRESSION' END
    FROM pg_attrdef AS d JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
    UNION ALL
    -- That of a domain, unless the column has its own.
    SELECT attrelid, attname, 'pg_type', t.oid, typdefaultbin, 'SET DEFAULT NULL'
    FROM pg_attribute JOIN pg_class AS c ON c.oid = attrelid AND relkind IN ('r', 'p') JOIN pg_type AS t ON t.oid = atttypid
    WHERE typtype = 'd' AND typdefaultbin IS NOT NULL AND NOT atthasdef AND NOT attisdropped
), views (oid, view) AS (
    -- The materialized views, and the views that they read.
    SELECT oid, oid FROM pg_class WHERE relnamespace = quote_ident($1::text)::regnamespace AND relkind = 'm'
    UNION
    SELECT refobjid, view FROM views AS v JOIN pg_rewrite AS w ON ev_class = v.oid
        JOIN pg_depend ON classid = 'pg_rewrite'::regclass AND objid = w.oid AND refclassid = 'pg_class'::regclass
        JOIN pg_class AS c ON c.oid = refobjid AND relkind = 'v'
), {acls}
SELECT format('table %s has no primary key or replica identity that is valid, not deferrable and without generated columns, '
              'so its updates and deletes could not follow: %s', t.name, way_out)
FROM tables AS t JOIN ways_out ON relation = t.oid WHERE relreplident <> 'f' AND NOT EXISTS (
    SELECT FROM keys WHERE indrelid = t.oid AND NOT is_generated AND CASE relreplident WHEN 'd' THEN indisprimary WHEN 'i' THEN indisreplident END)
UNION ALL
SELECT format('table %s has REPLICA IDENTITY FULL and generated columns, so its updates and deletes could not follow: %s', t.name, way_out)
FROM tables AS t JOIN ways_out ON relation = t.oid WHERE relreplident = 'f' AND t.oid IN (SELECT relation FROM not_full)
UNION ALL
-- With a primary key, the new server looks only for that.
SELECT format('table %s has REPLICA IDENTITY FULL, but no exact equality for column %I, so its updates and deletes could change other rows or none: %s', t.name, attname, way_out)
FROM tables AS t JOIN inexact AS i ON i.relation = t.oid JOIN ways_out AS o ON o.relation = t.oid
WHERE relreplident = 'f' AND t.oid NOT IN (SELECT indrelid FROM keys WHERE indisprimary)
UNION ALL
-- This runs the constraint as the role of the session, whose rights the owner would get.
SELECT format('constraint %I of %s is NOT VALID, so the copy could reject rows: in a session of role %I, ALTER %s %2$s VALIDATE CONSTRAINT %1$I', conname,
              coalesce(r.oid::regclass::text, t.oid::regtype::text), pg_get_userbyid(coalesce(relowner, typowner)), CASE WHEN r.oid IS NULL THEN 'DOMAIN' ELSE 'TABLE' END)
FROM pg_constraint AS con LEFT JOIN pg_class AS r ON r.oid = conrelid LEFT JOIN pg_type AS t ON t.oid = contypid
WHERE connamespace = quote_ident($1::text)::regnamespace AND contype IN ('c', 'n') AND NOT convalidated
    AND coalesce((to_jsonb(con) ->> 'conenforced')::boolean, true)
UNION ALL
-- As an adopted function, a rule or a policy can. Defaults of columns follow.
SELECT DISTINCT format('%s uses sequence %s, which is not in the same schema, so it would be another one on each server: use one in the same schema, or ALTER SEQUENCE %2$s SET SCHEMA %3$I',
              pg_describe_object(class, object, 0), s.oid::regclass, $1::text)
FROM own JOIN pg_depend ON classid = class AND objid = object AND refclassid = 'pg_class'::regclass
    JOIN pg_class AS s ON s.oid = refobjid AND relkind = 'S'
WHERE class NOT IN ('pg_attrdef'::regclass, 'pg_type'::regclass) AND relnamespace <> quote_ident($1::text)::regnamespace
UNION ALL
SELECT format('column %I of %s uses %s, which is not in the same schema, so inserts would fail after the move or repeat values: '
              'use one in the same schema, or ALTER TABLE %2$s ALTER COLUMN %1$I %4$s',
              attname, c.oid::regclass, pg_describe_object(refclassid, refobjid, 0), way_out)
FROM defaults JOIN pg_depend ON classid = class AND objid = object JOIN pg_class AS c ON c.oid = relation
    LEFT JOIN pg_class AS s ON refclassid = 'pg_class'::regclass AND s.oid = refobjid AND s.relkind = 'S'
    LEFT JOIN pg_proc AS p ON refclassid = 'pg_proc'::regclass AND p.oid = refobjid
WHERE coalesce(s.relnamespace, p.pronamespace) <> c.relnamespace
    AND (quote_ident($1::text)::regnamespace IN (s.relnamespace, p.pronamespace) OR s.oid IS NOT NULL AND c.relnamespace = quote_ident($1::text)::regnamespace)
UNION ALL
-- A default next_id(5) refers to the extension only, so this looks for the constant 5 (of int4, in
-- the bytes of a Datum) in the expression's tree. That of next_id(), whose number is a setting of
-- the server, has none. Any role can choose the default of a table of its own, and pg_get_expr could
-- crash the server or lock the table.
SELECT format('column %1$I of %2$s of role %3$s ' || CASE
        WHEN has_number IS NULL THEN 'has a default that is too long to look for next_id(%4$s) in it: '
        WHEN pronargs = 0 THEN 'uses next_id(), whose shard is a setting of the server: use next_id(%4$s), or '
        WHEN has_number THEN 'uses next_id(%4$s), whose shard is not in the same schema, so inserts would fail after the move or repeat values: use one in the same schema, or '
        ELSE 'uses next_id of another shard than %4$s, so inserts would fail after the move or repeat values: use next_id(%4$s), or '
        END || 'ALTER TABLE %2$s ALTER COLUMN %1$I %5$s', attname, c.oid::regclass, relowner::regrole, shard, way_out)
FROM pg_extension AS e
    JOIN pg_depend AS m ON m.refclassid = 'pg_extension'::regclass AND m.refobjid = e.oid AND m.deptype = 'e' AND m.classid = 'pg_proc'::regclass
    JOIN pg_proc AS p ON p.oid = m.objid AND proname = 'next_id'
    JOIN pg_depend AS u ON u.refclassid = 'pg_proc'::regclass AND u.refobjid = p.oid
    JOIN defaults ON u.classid = class AND u.objid = object JOIN pg_class AS c ON c.oid = relation
    CROSS JOIN LATERAL CAST(current_setting('move.shard') AS int) AS shard
    CROSS JOIN LATERAL (SELECT CASE WHEN octet_length(tree::text) <= 16384 THEN tree::text COLLATE "C"
        ~ format(':consttype 23 [^{}]*:constvalue 4 \[ (%s|%s) %s 0 0 ', shard % 256, shard % 256 - 256, shard / 256) END) AS f (has_number)
WHERE extname = 'instagram_id' AND has_number IS DISTINCT FROM (relnamespace = quote_ident($1::text)::regnamespace)
UNION ALL
-- A range type has a cast of its own.
SELECT format('%s would be lost, since pg_dump leaves out casts; create it again after the move: DROP CAST (%s AS %s)',
              pg_describe_object('pg_cast'::regclass, c.oid, 0), castsource::regtype, casttarget::regtype)
FROM pg_cast AS c WHERE EXISTS (SELECT FROM pg_type WHERE oid IN (castsource, casttarget) AND typnamespace = quote_ident($1::text)::regnamespace)
    AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_cast'::regclass AND objid = c.oid AND deptype IN ('i', 'e'))
UNION ALL
SELECT format('%s would be lost, since pg_dump leaves out transforms; create it again after the move: DROP TRANSFORM FOR %s LANGUAGE %I',
              pg_describe_object('pg_transform'::regclass, f.oid, 0), trftype::regtype, lanname)
FROM pg_transform AS f JOIN pg_language AS l ON l.oid = trflang JOIN pg_type AS t ON t.oid = trftype
WHERE typnamespace = quote_ident($1::text)::regnamespace
UNION ALL
-- pg_dump writes such a trigger by its name, which contains an OID.
SELECT format('trigger %I of a foreign key is enabled in another way on %s than on its partitioned table, so the schema could not be created on the new server: '
              'as a superuser, ALTER TABLE %2$s %s TRIGGER %1$I', t.tgname, t.tgrelid::regclass,
              CASE p.tgenabled WHEN 'O' THEN 'ENABLE' WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END)
FROM pg_trigger AS t JOIN pg_trigger AS p ON p.oid = t.tgparentid JOIN pg_class AS c ON c.oid = t.tgrelid
WHERE relnamespace = quote_ident($1::text)::regnamespace AND t.tgisinternal AND t.tgenabled <> p.tgenabled
UNION ALL
SELECT format('materialized view %s calls %s, whose body is read with the search_path of the caller, so it could not be refreshed on the new server: '
              'ALTER FUNCTION %2$s SET search_path = %3$I, public', view::regclass, p.oid::regprocedure, $1::text)
FROM views AS v JOIN pg_rewrite AS w ON ev_class = v.oid
    JOIN pg_depend ON classid = 'pg_rewrite'::regclass AND objid = w.oid AND refclassid = 'pg_proc'::regclass
    JOIN pg_proc AS p ON p.oid = refobjid
-- From 17 on, PostgreSQL itself refreshes without the search_path of the session.
WHERE current_setting('server_version_num')::int < 170000 AND prosqlbody IS NULL
  AND prolang NOT IN (SELECT oid FROM pg_language WHERE lanname IN ('internal', 'c'))
  AND NOT EXISTS (SELECT FROM unnest(proconfig) AS setting WHERE setting LIKE 'search\_path=%')
  AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'e')
UNION ALL
SELECT format('role %I has granted %s on %s to %s, and lacks USAGE on schema %I, so the grant could not be repeated: GRANT USAGE ON SCHEMA %5$I TO %1$I',
              rolname, privilege_type || suffix, object, coalesce(nullif(grantee, 0)::regrole::text, 'public'), $1::text)
FROM acls CROSS JOIN aclexplode(acl) JOIN pg_roles AS r ON r.oid = grantor
WHERE grantor <> owner AND $2::text = '' AND NOT has_schema_privilege(grantor, quote_ident($1::text)::regnamespace, 'USAGE')
UNION ALL
SELECT format('role %I has granted %s on %s to another role, which a role that is no superuser cannot repeat: '
              'grant it as the owner after REVOKE GRANT OPTION FOR %2$s ON %3$s FROM %1$I CASCADE', rolname, privilege_type || suffix, object)
FROM acls CROSS JOIN aclexplode(acl) JOIN pg_roles AS r ON r.oid = grantor
WHERE grantor <> owner AND $2::text NOT IN ('', rolname)
UNION ALL
-- pg_dump writes the grants in the order in which they are stored.
SELECT format('role %I has granted %s on %s to %s before it got its present grant option, so the grant could not be repeated: revoke all that it has granted to that role there, and grant it again',
              rolname, privilege_type || suffix, object, coalesce(nullif(grantee, 0)::regrole::text, 'public'))
FROM acls AS a CROSS JOIN aclexplode(acl) WITH ORDINALITY AS g (grantor, grantee, privilege_type, is_grantable, n) JOIN pg_roles AS r ON r.oid = grantor
WHERE grantor <> owner AND NOT EXISTS (
    -- That on a column can also come from the table, whose grants come first.
    SELECT FROM acls AS before CROSS JOIN aclexplode(before.acl) WITH ORDINALITY AS e (grantor, grantee, privilege_type, is_grantable, n)
    WHERE before.object = a.object AND e.grantee = g.grantor AND e.privilege_type = g.privilege_type AND e.is_grantable
        AND (before.suffix = a.suffix AND e.n < g.n OR before.suffix = '' AND a.suffix <> ''))
UNION ALL
-- pg_dump leaves these out.
SELECT format('the privileges on the row type of %s would be lost: revoke those of other roles, and GRANT USAGE ON TYPE %1$s TO PUBLIC', t.oid::regtype)
FROM pg_type AS t JOIN pg_class AS c ON c.oid = typrelid CROSS JOIN acldefault('T', typowner) AS d
WHERE typnamespace = quote_ident($1::text)::regnamespace AND relkind <> 'c' AND NOT (coalesce(typacl, d) @> d AND d @> coalesce(typacl, d))
UNION ALL
SELECT format('function %s of range type %s would have the name of that type: as a superuser, ALTER FUNCTION %1$s RENAME TO %3$I', p.oid::regprocedure, t.oid::regtype, of_type)
FROM pg_proc AS p JOIN pg_depend ON classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'i' AND refclassid = 'pg_type'::regclass
    JOIN pg_range ON refobjid IN (rngtypid, rngmultitypid) JOIN pg_type AS t ON t.oid = rngtypid JOIN pg_type AS m ON m.oid = rngmultitypid
    CROSS JOIN LATERAL (SELECT CASE WHEN prorettype = t.oid THEN t.typname ELSE m.typname END) AS n (of_type)
WHERE pronamespace = quote_ident($1::text)::regnamespace AND proname <> of_type
UNION ALL
SELECT format('types %s and %s are not both in schema %I: ALTER TYPE %s SET SCHEMA %3$I', t.oid::regtype, m.oid::regtype, $1::text,
              CASE WHEN t.typnamespace = quote_ident($1::text)::regnamespace THEN m.oid ELSE t.oid END::regtype)
FROM pg_range JOIN pg_type AS t ON t.oid = rngtypid JOIN pg_type AS m ON m.oid = rngmultitypid
WHERE t.typnamespace <> m.typnamespace AND quote_ident($1::text)::regnamespace IN (t.typnamespace, m.typnamespace)
UNION ALL
-- The fields of its rows in other columns are replicated by their position.
SELECT format('the columns of %s would get another order, since pg_dump writes inherited ones first, in the order of the parents; let it inherit again after the move: ALTER TABLE %1$s NO INHERIT %2$s',
              inhrelid::regclass, inhparent::regclass)
FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid AND NOT relispartition CROSS JOIN LATERAL (
    SELECT min(attnum) FILTER (WHERE attinhcount = 0), max(attnum) FILTER (WHERE attinhcount > 0),
        array_agg(attname ORDER BY attnum) FILTER (WHERE attinhcount > 0)
    FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped) AS a (first_own, last_inherited, inherited)
    CROSS JOIN LATERAL (SELECT array_agg(attname ORDER BY place) FROM (
        SELECT attname, min(ARRAY[inhseqno, attnum]) FROM pg_inherits AS i JOIN pg_attribute ON attrelid = i.inhparent
        WHERE i.inhrelid = c.oid AND attnum > 0 AND NOT attisdropped GROUP BY attname) AS o (attname, place)) AS o (in_order)
WHERE relnamespace = quote_ident($1::text)::regnamespace AND (first_own < last_inherited OR inherited <> in_order)
UNION ALL
SELECT format('partition %s is about to be detached: ALTER TABLE %s DETACH PARTITION %1$s FINALIZE', inhrelid::regclass, inhparent::regclass)
FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid WHERE inhdetachpending AND relnamespace = quote_ident($1::text)::regnamespace
UNION ALL
SELECT problem FROM members
UNION ALL
SELECT format('the partitions of %s depend on a hash of enum values or of OIDs such as regclass, which is another one on each server: partition it in another way', partrelid::regclass)
FROM pg_partitioned_table JOIN pg_class AS c ON c.oid = partrelid
WHERE relnamespace = quote_ident($1::text)::regnamespace AND partstrat = 'h'
    AND EXISTS (
        SELECT FROM unnest(partattrs::int2[], partclass::oid[]) AS k (number, class) JOIN pg_opclass AS o ON o.oid = class
            LEFT JOIN pg_attribute AS a ON attrelid = partrelid AND attnum = number AND number > 0
        -- Of an expression only the class is known.
        WHERE CASE WHEN attnum IS NULL THEN opcintype = ANY ('{anyenum,anyarray,record,anyrange,anymultirange}'::regtype[])
                   ELSE EXISTS (SELECT FROM parts AS p JOIN pg_type AS t ON t.oid = p.type
                                WHERE relation = partrelid AND p.attname = a.attname
                                AND (typtype = 'e' OR typnamespace = 'pg_catalog'::regnamespace AND typname LIKE 'reg%')) END)
UNION ALL
SELECT format('table %I.%I is %s, which is not replicated', $1::text, relname,
              CASE WHEN relkind = 'f' THEN 'a foreign table' ELSE 'unlogged' END)
FROM pg_class WHERE relnamespace = quote_ident($1::text)::regnamespace AND (relkind = 'f' OR relkind IN ('r', 'p') AND relpersistence = 'u')
UNION ALL
SELECT format('sequence %1$s is unlogged, so a crash could repeat its values: ALTER SEQUENCE %1$s SET LOGGED', oid::regclass)
FROM pg_class WHERE relnamespace = quote_ident($1::text)::regnamespace AND relkind = 'S' AND relpersistence = 'u'
UNION ALL
SELECT format('trigger %I of %I.%I fires for the replication, too (ENABLE ALWAYS or REPLICA): ALTER TABLE %2$I.%3$I ENABLE TRIGGER %1$I', tgname, $1::text, relname)
FROM pg_trigger JOIN pg_class AS c ON c.oid = tgrelid
WHERE relnamespace = quote_ident($1::text)::regnamespace AND tgenabled IN ('A', 'R') AND tgname <> 'shard_is_elsewhere'
UNION ALL
SELECT format('trigger %1$I of %2$s of role %3$s uses next_id_trigger() of %4$s, so inserts would fail after the move: drop it%5$s', tgname, c.oid::regclass, relowner::regrole,
              CASE WHEN is_this THEN 'shard ' || shard || ' in another schema' ELSE 'another shard' END, CASE WHEN NOT is_this THEN ', or create it for shard ' || shard END)
FROM pg_extension AS e
    JOIN pg_depend AS m ON m.refclassid = 'pg_extension'::regclass AND m.refobjid = e.oid AND m.deptype = 'e' AND m.classid = 'pg_proc'::regclass
    JOIN pg_proc AS p ON p.oid = m.objid AND proname = 'next_id_trigger'
    JOIN pg_trigger ON tgfoid = p.oid AND tgparentid = 0 JOIN pg_class AS c ON c.oid = tgrelid
    CROSS JOIN LATERAL CAST(current_setting('move.shard') AS int) AS shard
    -- The arguments are texts, each with a zero byte at its end; a number counts in its shortest form.
    CROSS JOIN LATERAL (SELECT substr(tgargs, 1, length(shard::text) + 1) = convert_to(shard::text, 'SQL_ASCII') || '\x00') AS n (is_this)
WHERE extname = 'instagram_id' AND is_this <> (relnamespace = quote_ident($1::text)::regnamespace)
UNION ALL
SELECT format('trigger %1$I of %2$I.%3$I has the name of the trigger that closes a shard: ALTER TRIGGER %1$I ON %2$I.%3$I RENAME TO another', tgname, $1::text, relname)
FROM pg_trigger JOIN pg_class AS c ON c.oid = tgrelid JOIN pg_proc AS p ON p.oid = tgfoid
WHERE relnamespace = quote_ident($1::text)::regnamespace AND tgname = 'shard_is_elsewhere' AND (proname <> tgname OR pronargs <> 0)
UNION ALL
SELECT format('rule %I of %I.%I is enabled for the replication, too (ALWAYS or REPLICA): ALTER TABLE %2$I.%3$I ENABLE RULE %1$I', rulename, $1::text, relname)
FROM pg_rewrite JOIN pg_class AS c ON c.oid = ev_class WHERE relnamespace = quote_ident($1::text)::regnamespace AND ev_enabled IN ('A', 'R')
UNION ALL
SELECT format('row-level security of table %I.%I applies to role %I, so the copy could lack rows; until the move is done: ALTER TABLE %1$I.%2$I NO FORCE ROW LEVEL SECURITY',
              $1::text, relname, CASE WHEN row_security_active(c.oid) THEN current_user ELSE rolname END)
FROM pg_class AS c JOIN pg_roles AS r ON r.oid = relowner
WHERE relnamespace = quote_ident($1::text)::regnamespace
  AND (row_security_active(c.oid) OR relrowsecurity AND relforcerowsecurity AND NOT rolsuper AND NOT rolbypassrls)
UNION ALL
SELECT format('table %1$I.%2$I receives rows by subscription %3$I: refresh that without this table, or DROP SUBSCRIPTION %3$I', $1::text, relname, subname)
FROM pg_subscription_rel JOIN pg_class AS c ON c.oid = srrelid JOIN pg_subscription AS s ON s.oid = srsubid
WHERE relnamespace = quote_ident($1::text)::regnamespace
UNION ALL
{owners}
UNION ALL
SELECT format('%s and its partition or child %s are not both in schema %I', inhparent::regclass, inhrelid::regclass, $1::text)
FROM pg_inherits JOIN pg_class AS p ON p.oid = inhparent JOIN pg_class AS c ON c.oid = inhrelid
WHERE p.relkind IN ('r', 'p') AND p.relnamespace <> c.relnamespace
  AND quote_ident($1::text)::regnamespace IN (p.relnamespace, c.relnamespace)
UNION ALL
SELECT format('foreign key %I of %s leads out of schema %I or into it', conname, conrelid::regclass, $1::text)
FROM pg_constraint JOIN pg_class AS p ON p.oid = confrelid JOIN pg_class AS c ON c.oid = conrelid
WHERE contype = 'f' AND p.relnamespace <> c.relnamespace AND quote_ident($1::text)::regnamespace IN (p.relnamespace, c.relnamespace)
UNION ALL
SELECT $3::text WHERE $3 <> '' AND EXISTS (SELECT FROM parts WHERE type = 'money'::regtype)

-- The definition of the schema: each object, and a hash over its rows in the catalogs. OIDs and
-- names are part of it, so a table that is created again or swaps its name with another one
-- differs. Left out are columns that change by themselves (by ANALYZE, VACUUM FULL, CLUSTER,
-- TRUNCATE or REFRESH), the OIDs of indexes, which REINDEX CONCURRENTLY replaces, indexes that are
-- not valid, which pg_dump leaves out too, and what closes a shard.
-- Changes of rows are lost if one of these is changed meanwhile, even if it is changed back: the name
-- and schema of a table, which its type repeats; the columns; the labels of an enum and the columns
-- of a composite type, in any schema; and what is published. So the transaction that has written
-- these rows counts, and not what they contain. Those of pg_class would not do, as VACUUM FULL and
-- TRUNCATE write them.
-- A GRANT of a role that has nothing to grant writes a row, too. So a privilege counts for what it
-- says, and the name of a table is that of the array type, on which nobody can grant anything.
WITH RECURSIVE n AS MATERIALIZED (SELECT * FROM pg_namespace WHERE nspname = current_setting('move.schema')
), relations AS MATERIALIZED (
    SELECT c.* FROM pg_class AS c JOIN n ON n.oid = relnamespace WHERE relkind NOT IN ('i', 'I', 't')
), types AS MATERIALIZED (
    SELECT t.* FROM pg_type AS t JOIN n ON n.oid = typnamespace
    WHERE NOT EXISTS (SELECT FROM pg_type AS e WHERE e.oid = t.typelem AND e.typarray = t.oid) AND typrelid NOT IN (SELECT oid FROM relations WHERE relkind <> 'c')
), attributes AS MATERIALIZED (
    SELECT attrelid, attnum, atttypid, a.xmin FROM pg_attribute AS a JOIN relations AS r ON r.oid = attrelid WHERE attnum > 0
), parts (type) AS (
    -- The types of columns, and the types of which they consist, in any schema. None of those that
    -- PostgreSQL has itself consists of an enum.
    SELECT atttypid FROM attributes WHERE atttypid >= 16384
    UNION
    SELECT part FROM parts JOIN pg_type AS t ON t.oid = type LEFT JOIN pg_range ON t.oid IN (rngtypid, rngmultitypid)
        LEFT JOIN pg_attribute ON attrelid = typrelid AND attnum > 0
        CROSS JOIN LATERAL unnest(ARRAY[typelem, typbasetype, rngsubtype, atttypid]) AS part WHERE part >= 16384
), functions AS MATERIALIZED (
    SELECT p.* FROM pg_proc AS p JOIN n ON n.oid = pronamespace WHERE NOT (proname = 'shard_is_elsewhere' AND pronargs = 0)
-- Each fact with the catalog row that it describes, and with the object to which that belongs.
), facts (class, object, part_class, part, fact) AS (
    SELECT 'pg_namespace'::regclass, n.oid, 'pg_namespace'::regclass, n.oid, concat(to_jsonb(n) - 'nspacl', coalesce(nspacl, acldefault('n', nspowner))) FROM n
    UNION ALL
    SELECT 'pg_class', oid, 'pg_class', oid, concat(to_jsonb(r) - '{relpages,reltuples,relallvisible,relallfrozen,relfrozenxid,relminmxid,relhasrules,
        relhassubclass,relhasindex,relhastriggers,relfilenode,reltoastrelid,relispopulated,relacl}'::text[],
        coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", relowner)),
        (SELECT reloptions FROM pg_class AS t WHERE t.oid = r.reltoastrelid)) FROM relations AS r
    UNION ALL
    SELECT 'pg_class', attrelid, 'pg_attribute', 0, concat_ws(' ', attnum, xmin) FROM attributes
    UNION ALL
    SELECT 'pg_type', type, 'pg_type', 0, concat(
        (SELECT array_agg((oid, xmin) ORDER BY oid) FROM pg_enum WHERE enumtypid = type),
        (SELECT array_agg((attnum, xmin) ORDER BY attnum) FROM pg_attribute
         WHERE attrelid = (SELECT typrelid FROM pg_type AS t WHERE t.oid = type) AND attnum > 0))
    FROM parts
    UNION ALL
    SELECT 'pg_class', r.oid, 'pg_type', 0, concat(a.xmin, coalesce(t.typacl, acldefault('T', t.typowner)))
    FROM relations AS r JOIN pg_type AS t ON t.oid = reltype LEFT JOIN pg_type AS a ON a.oid = t.typarray
    UNION ALL
    SELECT 'pg_publication', p.oid, 'pg_publication', p.oid, p.xmin::text FROM pg_publication AS p WHERE pubname = current_setting('move.name')
    UNION ALL
    SELECT 'pg_class', prrelid, 'pg_publication_rel', 0, m.xmin::text FROM pg_publication_rel AS m JOIN relations AS r ON r.oid = prrelid
    WHERE prpubid = (SELECT oid FROM pg_publication WHERE pubname = current_setting('move.name'))
    UNION ALL
    SELECT 'pg_class', adrelid, 'pg_attrdef', d.oid, d::text FROM pg_attrdef AS d JOIN relations AS r ON r.oid = adrelid
    UNION ALL
    SELECT 'pg_class', conrelid, 'pg_constraint', c.oid, (to_jsonb(c) - 'conindid')::text
    FROM pg_constraint AS c JOIN relations AS r ON r.oid = conrelid
    UNION ALL
    SELECT 'pg_type', contypid, 'pg_constraint', c.oid, c::text FROM pg_constraint AS c JOIN types AS t ON t.oid = contypid
    UNION ALL
    SELECT 'pg_class', indrelid, 'pg_class', indexrelid, concat_ws(' ', pg_get_indexdef(indexrelid), indisprimary, indisexclusion, indimmediate,
        indisvalid, indisreplident, i.relname, i.reltablespace, (SELECT array_agg(coalesce(attstattarget, -1) ORDER BY attnum) FROM pg_attribute WHERE attrelid = indexrelid))
    FROM pg_index JOIN relations AS r ON r.oid = indrelid JOIN pg_class AS i ON i.oid = indexrelid WHERE indisvalid OR i.relkind = 'I'
    UNION ALL
    -- On the target, where there is no publication, a trigger that was enabled for the replication
    -- meanwhile could have changed rows, so there the transaction counts.
    SELECT 'pg_class', tgrelid, 'pg_trigger', t.oid, concat(to_jsonb(t) - 'tgconstrindid', CASE
        WHEN NOT tgisinternal AND NOT EXISTS (SELECT FROM pg_publication WHERE pubname = current_setting('move.name')) THEN t.xmin END)
    FROM pg_trigger AS t JOIN relations AS r ON r.oid = tgrelid WHERE tgname <> 'shard_is_elsewhere'
    UNION ALL
    SELECT 'pg_class', ev_class, 'pg_rewrite', w.oid, w::text FROM pg_rewrite AS w JOIN relations AS r ON r.oid = ev_class
    UNION ALL
    SELECT 'pg_class', polrelid, 'pg_policy', p.oid, p::text FROM pg_policy AS p JOIN relations AS r ON r.oid = polrelid
    UNION ALL
    SELECT 'pg_class', r.oid, 'pg_inherits', 0, i::text FROM pg_inherits AS i JOIN relations AS r ON r.oid IN (inhrelid, inhparent)
    UNION ALL
    SELECT 'pg_class', partrelid, 'pg_partitioned_table', 0, p::text FROM pg_partitioned_table AS p JOIN relations AS r ON r.oid = partrelid
    UNION ALL
    SELECT 'pg_class', seqrelid, 'pg_sequence', 0, s::text FROM pg_sequence AS s JOIN relations AS r ON r.oid = seqrelid
    UNION ALL
    -- The column that owns a sequence, and the extensions of ALTER ... DEPENDS ON EXTENSION.
    SELECT 'pg_class', r.oid, 'pg_depend', 0, concat_ws(' ', refclassid, refobjid, refobjsubid)
    FROM relations AS r JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.objid = r.oid AND (deptype = 'x' OR deptype = 'a' AND relkind = 'S')
    UNION ALL
    SELECT 'pg_proc', f.oid, 'pg_depend', 0, refobjid::text
    FROM functions AS f JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = f.oid AND deptype = 'x'
    UNION ALL
    SELECT 'pg_class', stxrelid, 'pg_statistic_ext', s.oid, s::text FROM pg_statistic_ext AS s JOIN relations AS r ON r.oid = stxrelid
    UNION ALL
    SELECT 'pg_class', srrelid, 'pg_subscription_rel', 0, srsubid::text FROM pg_subscription_rel JOIN relations AS r ON r.oid = srrelid
    WHERE srsubid NOT IN (SELECT oid FROM pg_subscription WHERE subname = current_setting('move.name'))
    UNION ALL
    SELECT 'pg_proc', oid, 'pg_proc', oid, concat(to_jsonb(f) - 'proacl', coalesce(proacl, acldefault('f', proowner))) FROM functions AS f
    UNION ALL
    SELECT 'pg_proc', f.oid, 'pg_aggregate', 0, a::text FROM pg_aggregate AS a JOIN functions AS f ON f.oid = aggfnoid
    UNION ALL
    SELECT 'pg_type', oid, 'pg_type', oid, concat(to_jsonb(t) - 'typacl', coalesce(typacl, acldefault('T', typowner))) FROM types AS t
    UNION ALL
    SELECT 'pg_type', enumtypid, 'pg_enum', 0, concat_ws(' ', e.oid, e.xmin) FROM pg_enum AS e JOIN types AS t ON t.oid = enumtypid
    UNION ALL
    SELECT 'pg_type', rngtypid, 'pg_range', 0, r::text FROM pg_range AS r JOIN types AS t ON t.oid = rngtypid
    UNION ALL
    -- Any role can create a cast between these types and its own.
    SELECT 'pg_type', t.oid, 'pg_cast', c.oid, c::text FROM pg_type AS t JOIN n ON n.oid = t.typnamespace JOIN pg_cast AS c ON t.oid IN (castsource, casttarget)
        JOIN pg_type AS o ON o.oid = CASE t.oid WHEN castsource THEN casttarget ELSE castsource END
    WHERE o.typnamespace = n.oid OR pg_has_role(o.typowner, t.typowner, 'USAGE')
    UNION ALL
    SELECT 'pg_type', t.oid, 'pg_transform', f.oid, f::text FROM pg_transform AS f JOIN pg_type AS t ON t.oid = trftype JOIN n ON n.oid = typnamespace
    UNION ALL
    SELECT 'pg_operator', o.oid, 'pg_operator', o.oid, o::text FROM pg_operator AS o JOIN n ON n.oid = oprnamespace
    UNION ALL
    SELECT 'pg_opclass', o.oid, 'pg_opclass', o.oid, o::text FROM pg_opclass AS o JOIN n ON n.oid = opcnamespace
    UNION ALL
    SELECT 'pg_opfamily', o.oid, 'pg_opfamily', o.oid, concat(o,
        (SELECT array_agg(a ORDER BY a.oid) FROM pg_amop AS a WHERE amopfamily = o.oid),
        (SELECT array_agg(a ORDER BY a.oid) FROM pg_amproc AS a WHERE amprocfamily = o.oid))
    FROM pg_opfamily AS o JOIN n ON n.oid = opfnamespace
    UNION ALL
    SELECT 'pg_collation', c.oid, 'pg_collation', c.oid, c::text FROM pg_collation AS c JOIN n ON n.oid = collnamespace
    UNION ALL
    SELECT 'pg_conversion', c.oid, 'pg_conversion', c.oid, c::text FROM pg_conversion AS c JOIN n ON n.oid = connamespace
    UNION ALL
    SELECT 'pg_ts_config', c.oid, 'pg_ts_config', c.oid, concat(c,
        (SELECT array_agg(m ORDER BY maptokentype, mapseqno) FROM pg_ts_config_map AS m WHERE mapcfg = c.oid))
    FROM pg_ts_config AS c JOIN n ON n.oid = cfgnamespace
    UNION ALL
    SELECT 'pg_ts_dict', d.oid, 'pg_ts_dict', d.oid, d::text FROM pg_ts_dict AS d JOIN n ON n.oid = dictnamespace
    UNION ALL
    SELECT 'pg_ts_parser', p.oid, 'pg_ts_parser', p.oid, p::text FROM pg_ts_parser AS p JOIN n ON n.oid = prsnamespace
    UNION ALL
    SELECT 'pg_ts_template', t.oid, 'pg_ts_template', t.oid, t::text FROM pg_ts_template AS t JOIN n ON n.oid = tmplnamespace
    UNION ALL
    -- Any role can set those of the objects that it will create, in any schema.
    SELECT 'pg_namespace', n.oid, 'pg_default_acl', a.oid, a::text FROM pg_default_acl AS a JOIN n ON n.oid = defaclnamespace
    WHERE has_schema_privilege(defaclrole, n.oid, 'CREATE')
)
SELECT jsonb_object_agg(pg_describe_object(class, object, 0), hash) FROM (
    SELECT class, object, sum(hashtextextended(fact, 0))::text AS hash FROM (
        SELECT class, object, fact FROM facts
        UNION ALL
        SELECT class, object, concat_ws(' ', objsubid, description) FROM facts JOIN pg_description ON classoid = part_class AND objoid = part
        UNION ALL
        SELECT class, object, concat_ws(' ', objsubid, provider, label) FROM facts JOIN pg_seclabel ON classoid = part_class AND objoid = part
    ) AS facts GROUP BY class, object
) AS hashes

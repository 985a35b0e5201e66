WITH RECURSIVE super AS MATERIALIZED (SELECT oid FROM pg_roles WHERE rolsuper OR rolname = current_user
), tables AS MATERIALIZED (
    SELECT c.oid, relnamespace, format('%I.%I', nspname, relname) AS name
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace WHERE nspname = $1::text AND relkind IN ('r', 'p')
-- All objects of the schema. A constant of a type in the definition of a view, a function or a policy is read by the
-- type's input function, which checks the constraints of domains, when a dump is restored.
), objects (class, object) AS MATERIALIZED (
    SELECT 'pg_class'::regclass, c.oid FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace WHERE nspname = $1::text
    UNION ALL
    SELECT 'pg_rewrite'::regclass, r.oid FROM pg_rewrite AS r JOIN pg_class AS c ON c.oid = ev_class
        JOIN pg_namespace AS n ON n.oid = relnamespace WHERE nspname = $1::text
    UNION ALL
    SELECT 'pg_attrdef'::regclass, d.oid FROM pg_attrdef AS d JOIN pg_class AS c ON c.oid = adrelid
        JOIN pg_namespace AS n ON n.oid = relnamespace WHERE nspname = $1::text
    UNION ALL
    SELECT 'pg_trigger'::regclass, t.oid FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = tgrelid
        JOIN pg_namespace AS n ON n.oid = relnamespace WHERE nspname = $1::text
    UNION ALL
    SELECT 'pg_policy'::regclass, p.oid FROM pg_policy AS p JOIN pg_class AS c ON c.oid = polrelid
        JOIN pg_namespace AS n ON n.oid = relnamespace WHERE nspname = $1::text
    UNION ALL
    SELECT 'pg_constraint'::regclass, o.oid FROM pg_constraint AS o JOIN pg_namespace AS n ON n.oid = connamespace WHERE nspname = $1::text
    UNION ALL
    SELECT 'pg_proc'::regclass, p.oid FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = pronamespace WHERE nspname = $1::text
), types (type) AS (
    SELECT atttypid FROM pg_attribute JOIN tables ON attrelid = oid WHERE attnum > 0 AND NOT attisdropped
    UNION
    SELECT t.oid FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = typnamespace
    WHERE nspname = $1::text AND typtype IN ('d', 'r', 'm')
    UNION
    SELECT refobjid FROM pg_depend JOIN objects ON class = classid AND object = objid WHERE refclassid = 'pg_type'::regclass
    UNION
    SELECT part FROM types JOIN pg_type AS t ON t.oid = type CROSS JOIN LATERAL (
        SELECT typbasetype UNION ALL SELECT typelem
        UNION ALL SELECT atttypid FROM pg_attribute WHERE attrelid = typrelid AND attnum > 0 AND NOT attisdropped
        UNION ALL SELECT rngsubtype FROM pg_range WHERE t.oid IN (rngtypid, rngmultitypid)
    ) AS parts (part) WHERE part <> 0
), trees (used_by, tree) AS (
    SELECT format('constraint %I of %s', conname, coalesce(name, contypid::regtype::text)), conbin::text
    FROM pg_constraint LEFT JOIN tables ON tables.oid = conrelid
    WHERE conbin IS NOT NULL AND (name IS NOT NULL OR contypid IN (SELECT type FROM types))
    UNION ALL
    SELECT format('column %I of %s', attname, name), adbin::text
    FROM pg_attrdef JOIN tables ON tables.oid = adrelid JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
    WHERE attgenerated <> '' OR $2::int < 16
    UNION ALL
    SELECT format('type %s', oid::regtype), typdefaultbin::text FROM pg_type JOIN types ON type = oid WHERE typdefaultbin IS NOT NULL
    UNION ALL
    SELECT format('index %s', indexrelid::regclass), concat(indexprs::text, indpred::text) FROM pg_index JOIN tables ON oid = indrelid
    UNION ALL
    SELECT format('the partition key of %s', name), partexprs::text FROM pg_partitioned_table JOIN tables ON oid = partrelid
), functions (used_by, function) AS (
    SELECT used_by, found[1]::oid FROM trees, regexp_matches(tree, ':(?:opfuncid|funcid|aggfnoid|winfnoid) ([0-9]+)', 'g') AS found
    UNION
    SELECT used_by, oprcode FROM trees, regexp_matches(tree, ':opno ([0-9]+)', 'g') AS found, pg_operator WHERE oid = found[1]::oid
    UNION
    SELECT format('type %s', rngtypid::regtype), f FROM pg_range JOIN types ON type IN (rngtypid, rngmultitypid),
        LATERAL (VALUES (rngcanonical), (rngsubdiff)) AS functions (f)
    UNION
    SELECT used_by, called FROM functions JOIN pg_proc ON oid = function, LATERAL (
        SELECT found[1]::oid FROM regexp_matches(prosqlbody::text, ':(?:opfuncid|funcid|aggfnoid|winfnoid) ([0-9]+)', 'g') AS found
        UNION SELECT oprcode FROM regexp_matches(prosqlbody::text, ':opno ([0-9]+)', 'g') AS found, pg_operator WHERE oid = found[1]::oid
    ) AS calls (called)
), bodies (used_by, tree) AS (
    SELECT used_by, tree FROM trees UNION SELECT used_by, prosqlbody::text FROM functions JOIN pg_proc ON oid = function
)
SELECT format('trigger %I of %s fires for the replication, too (ENABLE ALWAYS or REPLICA): ALTER TABLE %2$s ENABLE TRIGGER %1$I', tgname, name)
FROM pg_trigger JOIN tables ON tables.oid = tgrelid WHERE tgenabled IN ('A', 'R')
UNION
SELECT format('rule %I of %s is enabled for the replication, too (ALWAYS or REPLICA): ALTER TABLE %2$s ENABLE RULE %1$I', rulename, name)
FROM pg_rewrite JOIN tables ON tables.oid = ev_class WHERE ev_enabled IN ('A', 'R')
UNION
SELECT CASE WHEN p.oid < 16384 OR proowner IN (SELECT oid FROM super)
    THEN format('%s uses function %s, which must not run as superuser: PostgreSQL 15 would, while it replicates', used_by, p.oid::regprocedure)
    ELSE format('%s uses function %s of role %I, who is no superuser, but the replication may run it as one: ALTER FUNCTION %2$s OWNER TO a superuser, if you trust it',
                used_by, p.oid::regprocedure, pg_get_userbyid(proowner)) END
FROM functions JOIN pg_proc AS p ON p.oid = function
    LEFT JOIN (pg_depend JOIN pg_extension AS e ON e.oid = refobjid)
        ON objid = p.oid AND classid = 'pg_proc'::regclass AND refclassid = 'pg_extension'::regclass AND deptype = 'e'
WHERE CASE
    -- Input functions of composite types and domains run the constraints of the domains in them.
    WHEN p.oid < 16384 THEN $2::int < 16 AND (proname ~ '^(domain|array|anyarray|record|range|multirange)_(in|recv)$|^pg_input_'
        OR NOT (provolatile = 'i' OR provolatile = 's' AND proname !~ 'json|xml'
            OR proname IN ('clock_timestamp', 'timeofday', 'random', 'gen_random_uuid', 'nextval')))
    WHEN proowner NOT IN (SELECT oid FROM super) THEN
        NOT (prosqlbody IS NOT NULL AND prosqlbody::text !~ ':relid [1-9]' AND pronamespace IN (SELECT oid FROM pg_namespace WHERE nspname = $1::text))
    WHEN extname NOT IN ('instagram_id', 'pgcrypto', 'uuid-ossp') THEN $2::int < 16 AND provolatile <> 'i'
    ELSE false END
UNION
-- The owner of a domain in another schema could add a constraint to it. Types inside expressions are not inspected.
SELECT format('%s uses type %s of role %I, who is no superuser: ALTER TYPE %2$s OWNER TO a superuser, if you trust it', used_by, t.oid::regtype, pg_get_userbyid(typowner))
FROM (
    SELECT 'a column' AS used_by, type, false AS is_inside FROM types
    UNION ALL
    SELECT used_by, CASE WHEN typtype = 'b' AND typelem <> 0 THEN typelem ELSE oid END, true
    FROM bodies, regexp_matches(tree, ':(?:resulttype|consttype|array_typeid|row_typeid) ([0-9]+)', 'g') AS found
        JOIN pg_type ON oid = found[1]::oid
) AS used JOIN pg_type AS t ON t.oid = type
WHERE typowner NOT IN (SELECT oid FROM super) AND typtype IN ('d', 'c', 'r', 'm')
  AND CASE WHEN is_inside THEN type NOT IN (SELECT type FROM types)
           ELSE typtype = 'd' AND typnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname = $1::text) END

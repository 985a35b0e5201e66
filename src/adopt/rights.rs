//! Whether the roles that can insert before an adoption can insert after it.

use crate::adopt::key_column::KeyColumn;
use crate::error::{Error, listed};
use crate::pg::catalog::{self, Function};
use crate::pg::deadline::Deadline;
use crate::pg::guc;
use crate::pg::locks;
use crate::pg::names;
use crate::pg::roles;
use crate::pg::spi::{select, select_by_index};
use crate::shard::definition::Definition;
use pgrx::pg_sys::{self, Oid};

/// A role in an access control list, as SQL names it.
const ROLE_NAME: &str = "CASE r WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(r)) END";

/// The predefined role whose members can write to all tables and sequences, if it has members.
const WRITERS_OF_ALL: &str =
    "SELECT roleid FROM pg_auth_members WHERE roleid = 'pg_write_all_data'::regrole";

/// How many views or partitions above each other are followed from a table to the roles that can
/// insert into it. A role could create thousands of views, each on the one before.
const DEPTH_MAX: u32 = 32;

/// The extension's function that a shard's own next_id() calls.
fn shard_next_id(own_schema: Oid) -> Option<Function> {
    catalog::function_in(
        own_schema,
        "shard_next_id",
        &[pg_sys::INT4OID, pg_sys::REGCLASSOID, pg_sys::TIMESTAMPTZOID],
    )
}

/// Checks that all callers of the function can call the extension's function as well. The adopted
/// function calls that with its caller's privileges, or its owner's if it is SECURITY DEFINER.
/// Callers keep EXECUTE on the function itself and their privileges on the sequence; they need
/// EXECUTE on the other function.
///
/// The callers are the grantees and their members. If PUBLIC is a grantee, the roles with
/// privileges on the sequence count instead. Privileges are inherited, so it is enough to check the
/// grantees.
pub fn check_callers(function: &Function, sequence: Oid, own_schema: Oid) -> Result<(), Error> {
    let Some(needs) = shard_next_id(own_schema) else { return Ok(()) };
    let query = format!(
        "WITH f AS (
             SELECT proowner, prosecdef, coalesce(proacl, acldefault('f', proowner)) AS acl FROM pg_proc WHERE oid = $1
         ), grantees AS (
             SELECT grantee FROM f, aclexplode(acl) WHERE privilege_type = 'EXECUTE'
         ), callers AS (
             SELECT proowner AS r FROM f WHERE prosecdef
             UNION SELECT grantee FROM f, grantees WHERE NOT prosecdef AND grantee <> 0
             UNION SELECT s.grantee FROM f, pg_class AS c, aclexplode(coalesce(c.relacl, acldefault('s', c.relowner))) AS s
                 WHERE NOT prosecdef AND c.oid = $2 AND s.privilege_type IN ('USAGE', 'UPDATE')
                 AND EXISTS (SELECT FROM grantees WHERE grantee = 0)
             UNION SELECT w.roleid FROM f, ({WRITERS_OF_ALL}) AS w
                 WHERE NOT prosecdef AND EXISTS (SELECT FROM grantees WHERE grantee = 0)
         )
         SELECT {ROLE_NAME} FROM callers
         WHERE NOT CASE r WHEN 0 THEN has_function_privilege('public', $3, 'EXECUTE')
             ELSE has_function_privilege(r, $3, 'EXECUTE') END
         ORDER BY 1"
    );
    let arguments = [function.oid.into(), sequence.into(), needs.oid.into()];
    let mut roles = select(&query, &arguments, |row| row.get::<String>(1));
    if roles.is_empty() {
        return Ok(());
    }
    if roles.iter().any(|role| role == "PUBLIC") {
        roles = vec!["PUBLIC".into()]; // this includes all others
    }
    let (function, needs) = (names::function(function.oid), names::function(needs.oid));
    Err(Error::CallersWithoutExecute { function, needs, roles })
}

/// Checks the privileges of the function's owner. The functions of the shard, which name its
/// sequence, are created as this role.
pub fn check_owner_can_create(
    function: &Function,
    sequence: Oid,
    own_schema: Oid,
) -> Result<(), Error> {
    roles::check_may_create_in(function.schema, function.owner)?;
    let used = catalog::relation(sequence).map(|sequence| sequence.schema);
    let mut used = used.into_iter().chain([own_schema]);
    used.try_for_each(|schema| roles::check_may_use_schema(schema, function.owner))
}

/// The table and all updatable views through which a role can insert into it; and its partitions,
/// if they get the default, too.
///
/// Any role can create a view of the table, and permit all to insert through it. So a view counts
/// if its owner has the rights of the table's. Until then PostgreSQL is not asked whether it is
/// updatable, for which it locks the view. For this it also reads all views below. So views on
/// views count only up to [`DEPTH_MAX`], and a view that also reads a view beside those does not
/// count.
///
/// # Errors
///
/// Another session has locked such a view.
fn places_of(table: Oid, with_partitions: bool) -> Result<Vec<Oid>, Error> {
    let query = "SELECT DISTINCT next.place, next.is_view FROM unnest($1) AS p(place), LATERAL (
             SELECT inhrelid, false FROM pg_inherits WHERE inhparent = p.place AND $4
             UNION ALL SELECT w.ev_class, true FROM pg_depend AS d JOIN pg_rewrite AS w ON w.oid = d.objid
                 JOIN pg_class AS v ON v.oid = w.ev_class AND v.relkind = 'v'
                 WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
                 AND d.refobjid = p.place AND pg_has_role(v.relowner, (SELECT relowner FROM pg_class WHERE oid = $3), 'USAGE')
                 AND NOT EXISTS (SELECT FROM pg_depend AS o JOIN pg_class AS beside ON beside.oid = o.refobjid
                     WHERE o.classid = 'pg_rewrite'::regclass AND o.objid = w.oid AND o.refclassid = 'pg_class'::regclass
                     AND beside.relkind = 'v' AND beside.oid NOT IN (p.place, v.oid))) AS next(place, is_view)
         WHERE next.place <> ALL ($2) ORDER BY 1";
    let limit = Deadline::after(guc::lock_limit());
    let (mut places, mut last) = (vec![table], vec![table]);
    for _ in 0..DEPTH_MAX {
        let next = || {
            let (last, known) = (last.clone(), places.clone());
            let arguments = [last.into(), known.into(), table.into(), with_partitions.into()];
            select_by_index(query, &arguments, |row| {
                Some((row.get::<Oid>(1)?, row.get::<bool>(2)?))
            })
        };
        let mut found = vec![];
        for (place, is_view) in next() {
            if !is_view || is_updatable(place, table, limit)? {
                found.push((place, is_view));
            }
        }
        // A view may have got another definition before it was locked.
        let now = next();
        found.retain(|place| now.contains(place));
        last = found.into_iter().map(|(place, _)| place).collect();
        places.extend(&last);
        if last.is_empty() {
            break;
        }
    }
    Ok(places)
}

/// Whether a role can insert through this view of the table. The locks that this takes are released
/// again: any role can create so many views that the server has no more locks.
fn is_updatable(view: Oid, table: Oid, limit: Deadline) -> Result<bool, Error> {
    let query = "SELECT pg_relation_is_updatable($1, false) & 8 <> 0";
    let answer = guc::with_lock_timeout(limit.left(), || {
        locks::released_in_time(|| {
            locks::lock_relation(view, pg_sys::AccessShareLock);
            select(query, &[view.into()], |row| row.get::<bool>(1)) == [true]
        })
    });
    answer.ok_or_else(|| {
        let owner = catalog::relation(view).map_or(Oid::INVALID, |view| view.owner);
        let (view, table) = (names::relation(view), names::relation(table));
        Error::ViewLocked { view, owner: names::role(owner), table }
    })
}

/// The query for the roles that can insert into one of the relations $1 and lack privileges: each
/// with whether it may use the schema $2, use the sequence $3, and execute the functions $4 and $5.
/// With $6, the function $4 has the rights of its owner.
fn writers_without_rights() -> String {
    format!(
        // Through a view with security_invoker, only roles insert that can insert below it.
        "WITH places(place) AS (
             SELECT oid FROM pg_class AS c WHERE oid = ANY ($1) AND NOT EXISTS (
                 SELECT FROM pg_options_to_table(reloptions) WHERE option_name = 'security_invoker' AND option_value::bool)
         ), writers(r) AS (
             SELECT c.relowner FROM places JOIN pg_class AS c ON c.oid = place
             UNION SELECT grantee FROM places JOIN pg_class AS c ON c.oid = place, aclexplode(c.relacl)
                 WHERE privilege_type = 'INSERT'
             UNION SELECT grantee FROM places JOIN pg_attribute AS a ON a.attrelid = place, aclexplode(a.attacl)
                 WHERE privilege_type = 'INSERT'
             UNION {WRITERS_OF_ALL}
         ), has AS (
             SELECT r, x.* FROM writers, LATERAL (SELECT
                 CASE r WHEN 0 THEN has_schema_privilege('public', $2, 'USAGE')
                     ELSE has_schema_privilege(r, $2, 'USAGE') END,
                 CASE WHEN $6 THEN true
                     WHEN r = 0 THEN has_sequence_privilege('public', $3, 'USAGE, UPDATE')
                     ELSE has_sequence_privilege(r, $3, 'USAGE, UPDATE') END,
                 CASE r WHEN 0 THEN has_function_privilege('public', $4, 'EXECUTE')
                     ELSE has_function_privilege(r, $4, 'EXECUTE') END,
                 CASE WHEN $6 THEN true
                     WHEN r = 0 THEN has_function_privilege('public', $5, 'EXECUTE')
                     ELSE has_function_privilege(r, $5, 'EXECUTE') END) AS x(schema, sequence, own, shared)
         )
         SELECT {ROLE_NAME}, schema, sequence, own, shared FROM has
         WHERE NOT (schema AND sequence AND own AND shared) ORDER BY 1"
    )
}

/// Checks that each role that can insert into the table can also generate ids of the shard. That
/// includes roles that insert through an updatable view, because a default runs with the privileges
/// of the inserting role.
pub fn check_writers(
    key: &KeyColumn,
    definition: &Definition,
    own_schema: Oid,
) -> Result<(), Error> {
    let table = key.column.table;
    let Some(next_id) = catalog::function_in(definition.schema, "next_id", &[]) else {
        return Ok(());
    };
    let Some(needs) = shard_next_id(own_schema) else { return Ok(()) };
    let sequence = definition.sequence.oid;
    let arguments = [
        places_of(table, key.changes_partitions())?.into(),
        definition.schema.into(),
        sequence.into(),
        next_id.oid.into(),
        needs.oid.into(),
        next_id.is_security_definer.into(),
    ];
    let found = select(&writers_without_rights(), &arguments, |row| {
        let has: [bool; 4] = [row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?];
        Some((row.get::<String>(1)?, has))
    });
    let Some((role, _)) = found.first() else { return Ok(()) };
    let rights = [
        format!("USAGE ON SCHEMA {}", names::schema(definition.schema)),
        format!("USAGE ON SEQUENCE {}", names::relation(sequence)),
        format!("EXECUTE ON FUNCTION {}", names::function(next_id.oid)),
        format!("EXECUTE ON FUNCTION {}", names::function(needs.oid)),
    ];
    let mut grants = vec![];
    for (n, right) in rights.iter().enumerate() {
        let roles: Vec<&str> =
            found.iter().filter(|(_, has)| !has[n]).map(|(role, _)| role.as_str()).collect();
        if !roles.is_empty() {
            grants.push(format!("GRANT {right} TO {}", listed(&roles, ", ")));
        }
    }
    Err(Error::WriterWithoutRights {
        role: role.clone(),
        table: names::relation(table),
        schema: names::schema(definition.schema),
        grants,
    })
}

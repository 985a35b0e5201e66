//! Other users of the sequence of a shard. By another rule than the shard's, they can generate the
//! same ids, or move the shard's clock.

use crate::adopt::adopted::{self, SEARCHED_MAX, mentions_nextval};
use crate::pg::catalog::{self, Function};
use crate::pg::names;
use crate::pg::roles;
use crate::pg::spi::select;
use crate::sequence::check;
use crate::shard::columns::{Column, columns_of_owners, columns_with_nextval};
use crate::shard::ddl;
use crate::shard::definition::{self, Definition};
use instagram_id_core::layout::Shard;
use instagram_id_core::plpgsql;
use pgrx::pg_sys::{self, Oid};
use std::fmt;

pub enum User {
    /// Its default names the sequence.
    Column(Column),
    Shard(Definition),
    Routine(Function),
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let owner = match self {
            User::Column(column) => {
                write!(f, "column {}", column.qualified())?;
                catalog::relation(column.table).map_or(Oid::INVALID, |table| table.owner)
            }
            User::Shard(definition) => {
                write!(f, "shard {}", definition.shard.number())?;
                definition.owner
            }
            User::Routine(routine) => {
                write!(f, "routine {}", names::function(routine.oid))?;
                routine.owner
            }
        };
        write!(f, " of role {}", names::role(owner))
    }
}

/// Finds a default that names the sequence, a routine that calls `nextval` on it, or a shard on it
/// by its definition or by another function with its ids, apart from the functions for which
/// `is_ours` returns true. On a sequence that is closed to `nextval`, and so is a clock already,
/// only other shards than this one count, also by an original whose owner may use the sequence.
///
/// Any role can name a sequence. So a default counts if the owner of its table may use the
/// sequence, and a routine if its owner may, or if it is in the sequence's schema. A body that
/// PostgreSQL has not parsed must have `nextval` and the sequence's name. Names that are composed
/// at run time, and calls by clients, cannot be found.
pub fn find(
    sequence: Oid,
    shard: Shard,
    own_schema: Oid,
    is_ours: impl Fn(&Function) -> bool,
) -> Option<User> {
    let is_closed = check::is_closed_to_nextval(sequence);
    let columns = if is_closed { vec![] } else { columns_of_owners(sequence, true) };
    let is_of_shard = |function: &Function| {
        ddl::ids_of(function, own_schema).is_some()
            || roles::may_generate(sequence, function.owner)
                && adopted::read_original(function)
                    .is_ok_and(|read| !adopted::may_be_of(&read, shard))
    };
    first(columns).or_else(|| find_function(sequence, is_ours, is_of_shard))
}

/// The same as [`find`], but of the defaults only those that call `nextval`, and not those with ids
/// of a shard.
pub fn find_nextval(sequence: Oid, is_ours: impl Fn(&Function) -> bool) -> Option<User> {
    first(columns_with_nextval(sequence)).or_else(|| find_function(sequence, is_ours, |_| false))
}

fn first(columns: Vec<Column>) -> Option<User> {
    columns.into_iter().next().map(User::Column)
}

/// On a sequence that is closed to `nextval`, only the functions count for which `is_of_shard`
/// returns true.
fn find_function(
    sequence: Oid,
    is_ours: impl Fn(&Function) -> bool,
    is_of_shard: impl Fn(&Function) -> bool,
) -> Option<User> {
    let is_open = !check::is_closed_to_nextval(sequence);
    let mut others = dependents(sequence);
    others.retain(|one| !is_ours(&one.function));
    let counts = |one: &Dependent| {
        is_open && one.calls_nextval || one.has_it_as_value && is_of_shard(&one.function)
    };
    let shard = others.iter().find_map(|one| definition::read(&one.function)).map(User::Shard);
    let dependent = || others.into_iter().find(counts).map(|one| one.function);
    let by_text = || routine_naming(sequence, |one| !is_ours(one) && (is_open || is_of_shard(one)));
    shard.or_else(|| dependent().or_else(by_text).map(User::Routine))
}

/// Finds what generates ids from the sequence by any rule, as far as dependencies show this, and
/// whose owner may use the sequence. A routine that only reads its row does not count.
pub fn find_dependent(sequence: Oid, is_ours: impl Fn(&Function) -> bool) -> Option<User> {
    let is_other = |one: &Dependent| one.has_it_as_value && !is_ours(&one.function);
    let dependent = || dependents(sequence).into_iter().find(is_other);
    first(columns_of_owners(sequence, true))
        .or_else(|| dependent().map(|one| User::Routine(one.function)))
}

/// A routine whose parsed body names the sequence, in its schema or of an owner who may use it.
struct Dependent {
    function: Function,
    calls_nextval: bool,
    /// Whether it has the sequence as a constant, not only its row, and its owner may use it.
    has_it_as_value: bool,
}

const HAS_RIGHT: &str = "has_sequence_privilege(p.proowner, $1, 'USAGE, UPDATE')";

fn dependents(sequence: Oid) -> Vec<Dependent> {
    let has = |node: &str| {
        format!(
            "(octet_length(body) > {SEARCHED_MAX} OR strpos(body COLLATE \"C\", ':{node} ') > 0)"
        )
    };
    let Some(relation) = catalog::relation(sequence) else { return vec![] };
    let query = format!(
        "SELECT oid, {}, has_right AND {} FROM (
             SELECT p.oid, {HAS_RIGHT} AS has_right, p.prosqlbody::text AS body FROM pg_depend AS d JOIN pg_proc AS p ON p.oid = d.objid
             WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = $1
             AND d.deptype = 'n' AND p.prosqlbody IS NOT NULL AND (p.pronamespace = $2 OR {HAS_RIGHT}) OFFSET 0) AS p
         ORDER BY 1",
        has(&format!("funcid {}", pg_sys::F_NEXTVAL)),
        has(&format!("consttype {}", pg_sys::REGCLASSOID.to_u32())),
    );
    select(&query, &[sequence.into(), relation.schema.into()], |row| {
        let function = catalog::function(row.get(1)?)?;
        Some(Dependent { function, calls_nextval: row.get(2)?, has_it_as_value: row.get(3)? })
    })
}

/// A routine that counts, and whose unparsed body has `nextval` and the name of the sequence.
fn routine_naming(sequence: Oid, counts: impl Fn(&Function) -> bool) -> Option<Function> {
    let relation = catalog::relation(sequence)?;
    let [schema, name] = [names::raw_schema(relation.schema), names::raw_relation(sequence)];
    // Bodies of roles without the right are read up to the limit for originals.
    let longest =
        format!("CASE WHEN {HAS_RIGHT} THEN {SEARCHED_MAX} ELSE {} END", catalog::TEXT_MAX);
    let query = format!(
        "SELECT p.oid FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
         WHERE l.lanname NOT IN ('internal', 'c') AND p.prosqlbody IS NULL
         AND CASE WHEN (p.pronamespace = $2 OR {HAS_RIGHT}) THEN {} END ORDER BY 1",
        mentions_nextval(&longest)
    );
    let arguments = [sequence.into(), relation.schema.into()];
    let candidates = select(&query, &arguments, |row| row.get::<Oid>(1));
    let names_it = |function: &Function| {
        let source = catalog::source(function.oid, SEARCHED_MAX).unwrap_or_default();
        plpgsql::mentions(&source, &schema, &name)
    };
    let mut candidates = candidates.into_iter().filter_map(catalog::function);
    candidates.find(|function| counts(function) && names_it(function))
}

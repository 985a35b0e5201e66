//! The tables whose expressions PostgreSQL evaluates when it changes a table with partitions.
//!
//! Such a change runs with the rights of the table's owner. To attach or detach a partition,
//! PostgreSQL also plans queries on the tables that foreign keys connect with it, and reads the
//! partition keys above it and the CHECK constraints of a default partition. Their indexes,
//! constraints and keys call functions that their owners have chosen. So each of these tables must
//! belong to a role with the rights of that owner, by the rule of [`trust`](crate::shard::trust).
//! For the same reason the caller must not have rights that the owner lacks, since the code would
//! run in the caller's session. No catalog shows what an expression calls, so this does not depend
//! on what there is.

use crate::error::Error;
use crate::pg::catalog;
use crate::pg::locks::{self, Attempts};
use crate::pg::names;
use crate::pg::spi::select_by_index;
use crate::shard::trust::Trust;
use pgrx::pg_sys::{self, Oid};

/// A change of a table with partitions.
#[derive(Clone, Copy)]
pub enum Change {
    /// A new partition is attached.
    Attach,
    /// This partition is detached.
    Detach(Oid),
    /// This partition is dropped. No foreign key references it.
    Drop(Oid),
    /// The table is altered together with its partitions.
    Alter,
}

/// A table with such expressions.
#[derive(PartialEq)]
struct Related {
    oid: Oid,
    tie: Tie,
    /// Whether it is above a table that has the tie itself.
    is_above: bool,
}

/// How it is related to the table that is changed.
#[derive(Clone, Copy, PartialEq)]
enum Tie {
    Ancestor,
    Referencing,
    Referenced,
    Partition,
    /// It is only locked: of these, PostgreSQL evaluates nothing.
    LockedAgainstWriters,
    Removed,
}

/// PostgreSQL locks the default partition when another one is removed.
const DEFAULT_PARTITION: &str =
    "SELECT 6, partdefid FROM pg_partitioned_table WHERE partrelid = $1";

const TIES: [Tie; 7] = [
    Tie::Ancestor,
    Tie::Referencing,
    Tie::Referenced,
    Tie::Partition,
    Tie::LockedAgainstWriters, // without its partitions
    Tie::LockedAgainstWriters,
    Tie::Removed,
];

impl Change {
    /// The query for the tables that have a tie themselves: the number of the tie, and the table.
    /// $1 is the table that is changed, $2 the partition of it that is detached.
    fn query(self) -> String {
        match self {
            Change::Attach => format!(
                "SELECT 0, $1
                 UNION SELECT 2, confrelid FROM pg_constraint WHERE contype = 'f' AND conrelid = $1
                 UNION SELECT 3, partdefid FROM pg_partitioned_table WHERE partrelid = $1
                 UNION SELECT 4, conrelid FROM {} AS c
                 WHERE NOT EXISTS (SELECT FROM pg_constraint AS above WHERE above.oid = c.conparentid AND above.conrelid <> c.conrelid)",
                catalog::foreign_keys_on("$1")
            ),
            Change::Detach(_) => format!(
                "SELECT 0, $1
                 UNION SELECT v.tie, v.oid FROM {} AS c, LATERAL (VALUES (1, conrelid), (3, confrelid)) AS v(tie, oid)
                 WHERE conparentid <> 0
                 UNION SELECT 5, confrelid FROM pg_constraint WHERE contype = 'f' AND conrelid = $2
                 UNION SELECT 6, $2 UNION {DEFAULT_PARTITION}",
                catalog::foreign_keys_on("$2")
            ),
            Change::Drop(_) => format!("SELECT 6, $2 UNION {DEFAULT_PARTITION}"),
            Change::Alter => "SELECT 3, $1".into(),
        }
    }

    fn partition(self) -> Option<Oid> {
        match self {
            Change::Detach(partition) | Change::Drop(partition) => Some(partition),
            Change::Attach | Change::Alter => None,
        }
    }
}

/// The related tables, each before those below it, and last those that are locked against readers.
/// All partitions of these tables are related, too, and all tables whose partitions they are.
fn related(table: Oid, change: Change) -> Vec<Related> {
    let query = format!(
        "WITH RECURSIVE tied(tie, oid) AS ({}), tree(tie, oid, level) AS (
             SELECT tie, oid, 0 FROM tied
             UNION SELECT tie, next.oid, level + next.step FROM tree CROSS JOIN LATERAL (
                 SELECT inhparent, -1 FROM pg_inherits WHERE inhrelid = tree.oid AND level <= 0
                 UNION ALL SELECT inhrelid, 1 FROM pg_inherits WHERE inhparent = tree.oid AND level >= 0 AND tie NOT IN (0, 4)
             ) AS next(oid, step) CROSS JOIN LATERAL (
                 SELECT relispartition FROM pg_class WHERE pg_class.oid = CASE step WHEN 1 THEN next.oid ELSE tree.oid END OFFSET 0) AS c
             WHERE c.relispartition
         ) SELECT tie, oid, level < 0 FROM tree WHERE oid <> 0 ORDER BY tie IN (3, 6), tie, level, oid",
        change.query()
    );
    select_by_index(&query, &[table.into(), change.partition().into()], |row| {
        let tie = TIES[row.get::<i32>(1)? as usize];
        Some(Related { oid: row.get(2)?, tie, is_above: row.get(3)? })
    })
}

/// Whether foreign keys reference a table.
pub fn is_referenced(table: Oid) -> bool {
    let query = format!("SELECT true FROM {} AS c LIMIT 1", catalog::foreign_keys_on("$1"));
    !select_by_index(&query, &[table.into()], |row| row.get::<bool>(1)).is_empty()
}

/// Checks that no related table belongs to a role without the rights of the table's owner, and that
/// the change runs no code in the session of a caller whose rights the owner lacks.
pub fn check(table: Oid, change: Change) -> Result<(), Error> {
    check_trust(table, change, &related(table, change))
}

/// The same, and locks the related tables until the transaction ends, so that they and their owners
/// stay as they are: all that PostgreSQL locks for the change. The caller must have locked the
/// table against changes of its foreign keys, and of those that reference it.
pub fn lock_and_check(table: Oid, change: Change, attempts: &Attempts) -> Result<(), Error> {
    let mut locked: Vec<Related> = vec![];
    loop {
        // Before a lock as well: the owner of such a table could hold a lock on it as long as it
        // likes.
        let mut related = related(table, change);
        check_trust(table, change, &related)?;
        related.retain(|one| !locked.contains(one));
        if related.is_empty() {
            return Ok(());
        }
        related.iter().for_each(|one| attempts.lock(one.oid, one.lock()));
        locked.append(&mut related);
    }
}

/// The same in [`Attempts`], until one has all these locks.
pub fn lock_all_and_check(table: Oid, change: Change) -> Result<(), Error> {
    let lock = |attempts: &Attempts| lock_and_check(table, change, attempts);
    locks::lock_all(lock)?.map_err(locks::not_available)
}

fn check_trust(table: Oid, change: Change, related: &[Related]) -> Result<(), Error> {
    let Some(owner) = catalog::relation(table).map(|relation| relation.owner) else {
        return Ok(()); // then the change fails
    };
    let trust = Trust::by_rights_of(owner);
    related
        .iter()
        .filter(|one| !matches!(one.tie, Tie::LockedAgainstWriters | Tie::Removed))
        .try_for_each(|one| trust.check_table(table, one.oid, || one.tie.sentence(table)))?;
    match change {
        Change::Attach | Change::Detach(_) => check_caller(table, owner),
        Change::Drop(_) | Change::Alter => Ok(()),
    }
}

/// Checks that the caller has no rights that the table's owner lacks.
pub fn check_caller(table: Oid, owner: Oid) -> Result<(), Error> {
    if catalog::has_rights_of(owner, catalog::current_role()) {
        return Ok(());
    }
    Err(Error::CodeOfOwner {
        table: names::relation(table),
        owner: names::role(owner),
        caller: names::current_role(),
    })
}

impl Related {
    /// The lock that PostgreSQL takes on such a table, or one that keeps other sessions from giving
    /// it other partitions.
    fn lock(&self) -> u32 {
        match self.tie {
            Tie::Ancestor => pg_sys::AccessShareLock,
            _ if self.is_above => pg_sys::AccessShareLock,
            // DETACH drops triggers of these tables.
            Tie::Referencing => pg_sys::AccessExclusiveLock,
            Tie::Referenced | Tie::LockedAgainstWriters => pg_sys::ShareRowExclusiveLock,
            Tie::Partition | Tie::Removed => pg_sys::AccessExclusiveLock,
        }
    }
}

impl Tie {
    fn sentence(self, table: Oid) -> String {
        let table = names::relation(table);
        match self {
            Tie::Ancestor => format!("Table {table} is a partition of it."),
            Tie::Referencing => format!("A foreign key of it references table {table}."),
            Tie::Referenced => format!("A foreign key of table {table} references it."),
            Tie::Partition | Tie::LockedAgainstWriters | Tie::Removed => {
                format!("It is a partition of table {table}.")
            }
        }
    }
}

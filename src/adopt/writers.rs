//! Waits for writers and for the clock.

use crate::adopt::adopted::KEPT;
use crate::error::Error;
use crate::pg::catalog::{self, Function};
use crate::pg::guc;
use crate::pg::lock_waits;
use crate::pg::locks::{self, Attempts, Busy};
use crate::pg::names;
use crate::pg::roles;
use crate::pg::spi::{self, select_by_index};
use crate::pg::wait_event::{self, WaitEvent};
use crate::sequence::IdSequence;
use crate::sequence::placement;
use crate::sequence::read;
use crate::shard::columns::{Column, newest_id, newest_id_only};
use instagram_id_core::hlc::{self, FIRST_DAY_MS, VALUE_MAX};
use instagram_id_core::layout::Shard;
use pgrx::pg_sys::{self, Oid};
use pgrx::spi::quote_identifier;
use std::cell::Cell;
use std::iter;
use std::slice;
use std::time::{Duration, Instant};

/// How long `unadopt_shard` waits for the clock to catch up, as long as nobody waits for it.
pub const CATCH_UP: Duration = Duration::from_secs(2);

/// Waits until the clock has passed the last value of a sequence, for at most this long. The
/// original takes its time from the clock, and would repeat ids ahead of it.
pub fn wait_for_the_clock(
    shard: Shard,
    sequence: IdSequence,
    longest: Duration,
) -> Result<(), Error> {
    let Some(last_value) = last_value(sequence.oid)? else { return Ok(()) };
    let ahead_ms = || hlc::ms_of(last_value) - names::now_ms(sequence.epoch);
    let until = Instant::now() + longest;
    while ahead_ms() >= 0 {
        // The clock may also be set back meanwhile.
        let left = until.saturating_duration_since(Instant::now());
        if ahead_ms() > left.as_millis() as i64 {
            let ahead = names::duration((ahead_ms() + 999) / 1000);
            return Err(Error::ShardAhead { shard: shard.number(), ahead });
        }
        wait_event::pause(WaitEvent::ClockTick, Duration::from_millis(1));
    }
    Ok(())
}

/// Checks that a clock still has the time of its last id. Otherwise nothing shows how far its ids
/// are ahead of the present time: they can be in any table, or in none.
pub fn check_not_reset(sequence: IdSequence) -> Result<(), Error> {
    let IdSequence { oid, epoch } = sequence;
    // Copies on the nodes of a cluster have values of their own.
    if placement::of(oid).has_copies() {
        return Ok(());
    }
    let last_value = last_value(oid)?;
    let now_ms = names::now_ms(epoch);
    // On the first days after its epoch, a clock has smaller values.
    let from = hlc::first_of(FIRST_DAY_MS.min(now_ms / 2));
    if last_value.is_some_and(|last| (from..=VALUE_MAX).contains(&last)) {
        return Ok(());
    }
    let (name, now) = (names::relation(oid), hlc::first_of(now_ms));
    let is_bounded = catalog::sequence_options(oid).is_some_and(|options| options.seqmax < now);
    Err(Error::ClockReset { name, now, is_bounded })
}

/// The last value of a sequence. The error names it if another session keeps it locked.
fn last_value(sequence: Oid) -> Result<Option<i64>, Error> {
    locks::in_time_for(Busy::Relation(sequence), || read::last_value(sequence))
}

/// The largest key in these columns, and its column.
///
/// # Errors
///
/// Those of [`newest_id`]. Or Citus stores the rows of a table elsewhere, also on other nodes.
pub fn newest_key(columns: &[Column]) -> Result<Option<(i64, String)>, Error> {
    check_is_here(columns)?;
    newest_id(columns)
}

/// The same for one column, without the tables that inherit from its table.
pub fn newest_key_only(column: &Column) -> Result<Option<(i64, String)>, Error> {
    check_is_here(slice::from_ref(column))?;
    newest_id_only(column)
}

/// Checks that the rows of these tables are not stored by Citus, perhaps on other nodes.
fn check_is_here(columns: &[Column]) -> Result<(), Error> {
    match placement::first_distributed(columns.iter().map(|column| column.table)) {
        None => Ok(()),
        Some(table) => Err(match catalog::relation(table).map(|relation| relation.schema) {
            Some(schema) if placement::is_distributed(schema) => {
                Error::SchemaDistributed { name: names::schema(schema) }
            }
            _ => Error::TableDistributed { name: names::relation(table) },
        }),
    }
}

/// The number of columns that a table of another role may have among those that are read. Without
/// indexes, the whole table is read for each of them while writers wait.
const COLUMNS_OF_OTHERS_MAX: usize = 8;

/// Checks that roles without the rights of the caller do not have too many of the tables that are
/// locked together because this function fills these columns, or too many of these columns in one
/// of them. They could otherwise use up the locks of the server. Such a role can also attach
/// partitions while an attempt to lock them waits.
pub fn check_tables_of_others(function: &Function, columns: &[Column]) -> Result<(), Error> {
    let tree = catalog::tree_of("unnest($1)");
    let query = format!(
        "SELECT relowner, count(*), count(DISTINCT relnamespace) FROM ({tree}) AS t JOIN pg_class ON oid = t.relid
         GROUP BY 1 ORDER BY 2 DESC, 1"
    );
    let tables: Vec<Oid> = columns.iter().map(|column| column.table).collect();
    let mut counts = select_by_index(&query, &[tables.into()], |row| {
        Some((row.get::<Oid>(1)?, row.get::<i64>(2)?, row.get::<i64>(3)?))
    });
    let is_other = |owner: Oid| {
        owner != function.owner && !catalog::has_rights_of(owner, catalog::current_role())
    };
    counts.retain(|(owner, ..)| is_other(*owner));
    for columns in by_table(columns).filter(|columns| columns.len() > COLUMNS_OF_OTHERS_MAX) {
        let table = columns[0].table;
        if let Some(relation) = catalog::relation(table).filter(|table| is_other(table.owner)) {
            return Err(Error::TooManyColumns {
                table: names::relation(table),
                owner: names::role(relation.owner),
                count: columns.len(),
                function: names::function(function.oid),
                max: COLUMNS_OF_OTHERS_MAX,
            });
        }
    }
    let (count, max) = (counts.iter().map(|(_, tables, _)| tables).sum(), locks::half_of_all());
    // Each schema is locked, too.
    if count + counts.iter().map(|(.., schemas)| schemas).sum::<i64>() <= max {
        return Ok(());
    }
    let roles = counts.iter().map(|(owner, ..)| names::role(*owner)).collect();
    Err(Error::TooManyTables { function: names::function(function.oid), roles, count, max })
}

/// How tables are locked while their columns are read and changed.
#[derive(Clone, Copy)]
pub enum TableLock {
    /// Keeps writers out.
    AgainstWriters,
    /// To alter the table and its partitions, but not tables that inherit from it: their owners
    /// could hold a lock on them.
    ToAlter,
    /// To alter the table alone. Its partitions, whose keys are read, are locked against writers.
    ToAlterOnly,
}

impl TableLock {
    fn mode(self) -> (u32, &'static str) {
        match self {
            TableLock::AgainstWriters => (pg_sys::ShareRowExclusiveLock, "SHARE ROW EXCLUSIVE"),
            TableLock::ToAlter | TableLock::ToAlterOnly => {
                (pg_sys::AccessExclusiveLock, "ACCESS EXCLUSIVE")
            }
        }
    }
}

/// The statement that locks the tables of these columns.
pub fn lock_tables(columns: &[Column], lock: TableLock) -> Option<String> {
    let tables: Vec<_> =
        by_table(columns).map(|columns| names::relation(columns[0].table)).collect();
    let only = if matches!(lock, TableLock::ToAlterOnly) { "ONLY " } else { "" };
    (!tables.is_empty())
        .then(|| format!("LOCK TABLE {only}{} IN {} MODE", tables.join(", "), lock.mode().1))
}

/// Takes the locks that keep writers out: on the tables of these columns, and on the sequences.
///
/// An insert locks first the table and then the sequence. A transaction that calls the function and
/// then writes to a table does it the other way round, so that each of the two orders would wait
/// for some writers that wait for it. So most attempts lock the tables and then each sequence if it
/// is free at that moment, which under load it soon is for one of them. If each moment has a
/// transaction that has called the function, only a wait succeeds, in the order in which these can
/// end: after the tables if they only call it, and before the tables if they also write.
///
/// The tables are locked by their OIDs. Each name could be that of another relation by the time
/// that its lock is available, such as a view, which LOCK TABLE would follow to tables of others.
///
/// `check` is called again before many partitions are locked. Callers read again what they have
/// read before, since it may have changed.
pub fn lock_out_writers(
    columns: &[Column],
    lock: TableLock,
    sequences: &[Oid],
    check: impl Fn() -> Result<(), Error>,
) -> Result<(), Error> {
    for sequence in sequences.iter().filter_map(|oid| catalog::relation(*oid)) {
        locks::lock_schema_in_time(sequence.schema)?;
    }
    let attempts_before = Cell::new(0);
    locks::lock_all(|attempts| {
        let number = attempts_before.replace(attempts_before.get() + 1);
        let (sequences_first, wait_ms) = match number % 64 {
            31 => (false, 50),
            63 => (true, 100),
            _ => (false, 1),
        };
        let wait = Duration::from_millis(wait_ms).min(guc::lock_limit());
        let lock_sequences = || {
            for sequence in sequences {
                attempts.lock(*sequence, lock.mode().0);
                attempts.lock_rows(*sequence, iter::empty());
            }
        };
        let unchecked = Cell::new(by_table(columns).count());
        let check = |count: usize| {
            unchecked.set(unchecked.get() + count);
            if unchecked.get() as i64 <= locks::half_of_all() {
                return Ok(());
            }
            unchecked.set(0);
            check()
        };
        let lock_each_table =
            || by_table(columns).try_for_each(|columns| lock_table(columns, lock, attempts, check));
        if sequences_first {
            // Short enough to be no deadlock for the writers that wait for it.
            return guc::with_lock_timeout(wait, || {
                lock_sequences();
                lock_each_table()
            });
        }
        lock_each_table()?;
        guc::with_lock_timeout(wait, lock_sequences);
        Ok(())
    })?
    .map_err(writers_busy)?;
    lock_on_other_nodes(columns, lock);
    Ok(())
}

/// Checks that the current role may lock the tables of these columns against writers.
pub fn check_may_lock(columns: &[Column]) -> Result<(), Error> {
    for table in by_table(columns).map(|columns| columns[0].table) {
        let Some(relation) = catalog::relation(table) else { continue };
        let is_owner = catalog::has_rights_of(catalog::current_role(), relation.owner);
        if !is_owner && !roles::may_lock(table) {
            return Err(Error::NotTableOwner(names::relation(table)));
        }
        locks::check_schema_of(table)?;
    }
    Ok(())
}

/// Takes these locks on the tables of these columns, and returns the columns. Those of tables that
/// other sessions keep locked, or in schemas that the caller may not use, go to `leave_out`, with
/// the reason: other roles must not be able to prevent that the rest is locked.
pub fn lock_out_writers_if_available(
    columns: &[Column],
    lock: TableLock,
    leave_out: impl Fn(&Column, Error),
) -> Result<Vec<Column>, Error> {
    let may_lock = |column: &&Column| {
        let refused = locks::check_schema_of(column.table).map_err(|why| leave_out(column, why));
        refused.is_ok()
    };
    let columns: Vec<_> = columns.iter().filter(may_lock).cloned().collect();
    let groups: Vec<_> = by_table(&columns).collect();
    let busy = locks::lock_available(&groups, |columns, attempts| {
        lock_table(columns, lock, attempts, |_| Ok(()))
    })?;
    let mut locked = vec![];
    for (columns, busy) in groups.into_iter().zip(busy) {
        match busy {
            None => locked.extend_from_slice(columns),
            Some(busy) => columns.iter().for_each(|column| leave_out(column, writers_busy(busy))),
        }
    }
    lock_on_other_nodes(&locked, lock);
    Ok(locked)
}

/// Sorts columns that several functions fill, so that those of a table follow each other, as all of
/// this file needs them, and names each once.
pub fn in_order_of_tables(mut columns: Vec<Column>) -> Vec<Column> {
    columns.sort_by(|one, next| {
        one.table.to_u32().cmp(&next.table.to_u32()).then_with(|| one.name.cmp(&next.name))
    });
    columns.dedup();
    columns
}

/// Groups of these columns by their table.
fn by_table(columns: &[Column]) -> impl Iterator<Item = &[Column]> {
    columns.chunk_by(|one, next| one.table == next.table)
}

/// Within an attempt: takes the lock on the table of these columns, and keeps its name. If they are
/// to be altered, also locks their rows in the catalogs.
fn lock_table(
    columns: &[Column],
    lock: TableLock,
    attempts: &Attempts,
    check: impl Fn(usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let table = columns[0].table;
    // Without the table, the callers notice the change.
    let Some(relation) = catalog::relation(table) else { return Ok(()) };
    let mode = lock.mode().0;
    check_may_lock(columns)?;
    let locked = match lock {
        TableLock::ToAlter | TableLock::ToAlterOnly if !relation.is_partitioned => {
            attempts.lock(table, mode);
            vec![table]
        }
        TableLock::ToAlterOnly => {
            attempts.lock(table, mode);
            attempts.lock_with_children(table, pg_sys::ShareRowExclusiveLock, check)?;
            vec![table]
        }
        _ => attempts.lock_with_children(table, mode, check)?,
    };
    attempts.lock_schema_of(table)?;
    if !matches!(lock, TableLock::AgainstWriters) {
        let names = || columns.iter().map(|column| column.name.as_str());
        locked.iter().for_each(|one| attempts.lock_rows(*one, names()));
    }
    Ok(())
}

/// Citus takes the locks on the other nodes, too.
fn lock_on_other_nodes(columns: &[Column], lock: TableLock) {
    if let Some(statement) = lock_tables(columns, lock)
        && catalog::has_citus()
    {
        locks::waiting_briefly(|| spi::run(&statement));
    }
}

fn writers_busy(busy: Busy) -> Error {
    match busy {
        Busy::Relation(relation) => Error::WritersBusy { name: names::relation(relation) },
        _ => locks::not_available(busy),
    }
}

/// Runs `f`, which replaces or drops these functions of the shard, and creates others, while
/// writers are kept out. Each role with CREATE on the schema can keep one of their names busy as
/// long as it likes.
pub fn change_functions<T>(
    shard: Shard,
    function: &Function,
    changed: &[Oid],
    f: impl FnOnce() -> T,
) -> Result<T, Error> {
    let until = Instant::now() + locks::SHORT.min(guc::lock_limit());
    let left = || until.saturating_duration_since(Instant::now());
    let locked = || {
        // The object before its row: from 18 on, a GRANT waits for the row while it has a lock on
        // the object, for which DROP FUNCTION waits.
        for function in changed {
            guc::with_lock_timeout(left(), || {
                let mode = pg_sys::AccessExclusiveLock;
                locks::lock_object(pg_sys::ProcedureRelationId, *function, 0, mode);
            });
            guc::with_lock_timeout(left(), || locks::lock_row_of_function(*function));
        }
        lock_waits::limit(left(), f)
    };
    locks::in_time(locked).ok_or_else(|| Error::FunctionsLocked {
        shard: shard.number(),
        function: names::function(function.oid),
        schema: names::schema(function.schema),
        kept: quote_identifier(format!("{KEPT}{}", function.name)),
    })
}

//! Locks on relations and other objects.
#![allow(non_snake_case)]

use crate::error::Error;
use crate::pg::catalog;
use crate::pg::guc;
use crate::pg::lock_waits;
use crate::pg::names;
use crate::pg::raw::Raw;
use crate::pg::roles;
use crate::pg::spi::select_by_index;
use crate::pg::subtransaction;
use crate::pg::wait_event::{self, WaitEvent};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{self, Oid};
use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::time::{Duration, Instant};

/// The longest that a session waits for a lock while other sessions wait for locks that it has.
pub const SHORT: Duration = Duration::from_millis(500);

const PAUSE_MIN: Duration = Duration::from_millis(3);

impl Raw<'_> {
    /// `storage/lmgr.h`, as used in `commands/sequence.c`: locks a sequence until the transaction
    /// ends, even if a subtransaction that asked for the lock is rolled back.
    #[inline]
    pub unsafe fn LockRelationForTransaction(self, relid: Oid, lockmode: pg_sys::LOCKMODE) {
        // SAFETY: resource owners exist inside a transaction, and an error resets
        // CurrentResourceOwner itself.
        unsafe {
            let owner = pg_sys::CurrentResourceOwner;
            pg_sys::CurrentResourceOwner = pg_sys::TopTransactionResourceOwner;
            self.LockRelationOid(relid, lockmode);
            pg_sys::CurrentResourceOwner = owner;
        }
    }
}

/// Keeps the schema from being dropped or renamed until the transaction ends. Returns whether it
/// still exists. It waits for [`guc::lock_limit`] at most, and then raises an error.
///
/// A statement looks its names up again after each wait for a lock. Without this, the owner of the
/// schema could give the name to another schema meanwhile, and with it to his own objects.
///
/// The row is locked `FOR SHARE`, for which a GRANT waits: after `FOR KEY SHARE`, PostgreSQL can
/// let a session that has called GRANT rename the row that it has put in place of the locked one.
pub fn lock_schema(schema: Oid) -> bool {
    let deadline = Instant::now() + guc::lock_limit();
    let class = pg_sys::NamespaceRelationId;
    guc::with_lock_timeout(deadline.saturating_duration_since(Instant::now()), || {
        lock_object(class, schema, 0, pg_sys::AccessShareLock);
    });
    lock_row_until(deadline, &Row::of(class, schema), pg_sys::LockTupleMode::LockTupleShare)
}

/// The same, with an error that names the schema. Not within an attempt, which PostgreSQL's own
/// error ends.
pub fn lock_schema_in_time(schema: Oid) -> Result<bool, Error> {
    check_may_lock_schema(schema)?;
    in_time_for(Busy::Schema(schema), || lock_schema(schema))
}

/// A role that may not use the schema can pass OIDs of what it owns there, but must not keep others
/// from changing the schema.
fn check_may_lock_schema(schema: Oid) -> Result<(), Error> {
    match catalog::schema_owner(schema) {
        Some(_) => roles::check_may_use_schema(schema, catalog::current_role()),
        None => Ok(()),
    }
}

/// The row of an object in its catalog.
struct Row {
    catalog: Oid,
    index: Oid,
    /// The column of the index that contains the OID of the object.
    column: pg_sys::AttrNumber,
    object: Oid,
    /// The number of the object's part, if the index has a second column for that.
    part: Option<pg_sys::AttrNumber>,
}

impl Row {
    fn of(catalog: Oid, object: Oid) -> Row {
        // SAFETY: looks into a constant table, which has an entry for each of the catalogs below.
        let (index, column) = unsafe {
            (pg_sys::get_object_oid_index(catalog), pg_sys::get_object_attnum_oid(catalog))
        };
        Row { catalog, index, column, object, part: None }
    }

    fn of_column(relation: Oid, number: pg_sys::AttrNumber) -> Row {
        Row {
            catalog: pg_sys::AttributeRelationId,
            index: pg_sys::AttributeRelidNumIndexId.into(),
            column: pg_sys::Anum_pg_attribute_attrelid as pg_sys::AttrNumber,
            object: relation,
            part: Some(number),
        }
    }

    fn keys(&self) -> Vec<pg_sys::ScanKeyData> {
        // SAFETY: the operators compare OIDs and int2.
        unsafe {
            let mut keys = vec![catalog::oid_key(self.column, self.object)];
            if let Some(part) = self.part {
                let column = pg_sys::Anum_pg_attribute_attnum as pg_sys::AttrNumber;
                keys.push(catalog::key(column, pg_sys::F_INT2EQ, part.into()));
            }
            keys
        }
    }
}

/// Locks the row of a function that will be replaced or dropped, until the transaction ends. Each
/// role that has a privilege on the function can write the row by a GRANT, even one without effect,
/// and PostgreSQL does not let a statement change a row that was written after it has begun.
pub fn lock_row_of_function(function: Oid) {
    let deadline = Instant::now() + guc::lock_limit();
    let row = Row::of(pg_sys::ProcedureRelationId, function);
    lock_row_until(deadline, &row, pg_sys::LockTupleMode::LockTupleExclusive);
}

/// The same for the rows of a relation that is altered or dropped, and of these of its columns.
pub fn lock_rows_of_relation<'a>(relation: Oid, columns: impl Iterator<Item = &'a str>) {
    let deadline = Instant::now() + guc::lock_limit();
    let mode = pg_sys::LockTupleMode::LockTupleExclusive;
    lock_row_until(deadline, &Row::of(pg_sys::RelationRelationId, relation), mode);
    for number in columns.filter_map(|name| catalog::column_number(relation, name)) {
        lock_row_until(deadline, &Row::of_column(relation, number), mode);
    }
}

/// Locks a row, which others can write again and again. Returns whether it still exists.
fn lock_row_until(deadline: Instant, row: &Row, mode: pg_sys::LockTupleMode::Type) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match guc::with_lock_timeout(left, || lock_row(row, mode)) {
            Some(pg_sys::TM_Result::TM_Updated) => continue,
            None | Some(pg_sys::TM_Result::TM_Deleted) => return false,
            // Locked, or this transaction has created or changed the object itself.
            Some(_) => return true,
        }
    }
}

/// Locks a row of a catalog, as `SELECT FOR ...` does; `None` if there is none.
///
/// Those that change a row of pg_class wait for it while they hold a lock on its position. So that
/// this session can change it, it takes that lock first, as they do.
///
/// PostgreSQL locks whatever is at a position, also if there is no row any more. So the position is
/// not that of a cache, which may be outdated: it is found under a snapshot, which keeps the row
/// from being removed, while a lock keeps the catalog from being rewritten.
fn lock_row(row: &Row, mode: pg_sys::LockTupleMode::Type) -> Option<pg_sys::TM_Result::Type> {
    let share = pg_sys::RowShareLock as pg_sys::LOCKMODE;
    let wait = pg_sys::LockWaitPolicy::LockWaitBlock;
    let follow_updates = false;
    let is_of_relation = row.catalog == pg_sys::RelationRelationId;
    let of_position = pg_sys::ExclusiveLock as pg_sys::LOCKMODE;
    // SAFETY: a scan of a catalog by an index. The keys outlive it. The row that it has found stays
    // where it is until the scan has ended. An error ends the scan and releases the snapshot with
    // the transaction.
    unsafe {
        let relation = pg_sys::table_open(row.catalog, share);
        let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot());
        let mut keys = row.keys();
        let (count, first) = (keys.len() as c_int, keys.as_mut_ptr());
        let scan = pg_sys::systable_beginscan(relation, row.index, true, snapshot, count, first);
        let found = pg_sys::systable_getnext(scan);
        let result = (!found.is_null()).then(|| {
            let (mut buffer, mut failure) = (0, pg_sys::TM_FailureData::default());
            let mut tuple = pg_sys::HeapTupleData { t_self: (*found).t_self, ..Default::default() };
            if is_of_relation {
                pg_sys::LockTuple(relation, &mut tuple.t_self, of_position);
            }
            let result = pg_sys::heap_lock_tuple(
                relation,
                &mut tuple,
                pg_sys::GetCurrentCommandId(false),
                mode,
                wait,
                follow_updates,
                &mut buffer,
                &mut failure,
            );
            pg_sys::ReleaseBuffer(buffer);
            if is_of_relation && result == pg_sys::TM_Result::TM_Updated {
                pg_sys::UnlockTuple(relation, &mut tuple.t_self, of_position);
            }
            result
        });
        pg_sys::systable_endscan(scan);
        pg_sys::UnregisterSnapshot(snapshot);
        pg_sys::table_close(relation, share);
        pg_sys::AcceptInvalidationMessages();
        result
    }
}

/// Checks that the current role may use the schema of a relation, if that exists.
pub fn check_schema_of(relation: Oid) -> Result<(), Error> {
    catalog::relation(relation).map_or(Ok(()), |relation| check_may_lock_schema(relation.schema))
}

/// Locks a relation until the transaction ends. A lock on a dropped relation has no effect.
pub fn lock_relation(relation: Oid, mode: u32) {
    // SAFETY: takes a lock.
    unsafe { pg_sys::LockRelationOid(relation, mode as pg_sys::LOCKMODE) }
}

/// Locks the relation until the transaction ends, unless another session has a lock that conflicts
/// with this one. Returns whether it is locked.
pub fn lock_unless_locked(relation: Oid, mode: u32) -> bool {
    // SAFETY: takes a lock, or none.
    unsafe { pg_sys::ConditionalLockRelationOid(relation, mode as pg_sys::LOCKMODE) }
}

/// Locks the relation until the transaction ends. The error names it if the lock is not available
/// in time.
pub fn lock_in_time(relation: Oid, mode: u32) -> Result<(), Error> {
    // A subtransaction for each relation would take longer with each lock of the session.
    if lock_unless_locked(relation, mode) {
        return Ok(());
    }
    in_time_for(Busy::Relation(relation), || lock_relation(relation, mode))
}

/// Half of the number of objects that all sessions together can lock.
pub fn half_of_all() -> i64 {
    // SAFETY: reads variables that do not change while the server runs.
    unsafe { i64::from(pg_sys::max_locks_per_xact) * i64::from(pg_sys::MaxBackends) / 2 }
}

/// Runs `f` in a subtransaction. `None` if a lock was not available in time.
pub fn in_time<T>(f: impl FnOnce() -> T) -> Option<T> {
    subtransaction::catching(is_timeout, f).ok()
}

/// The same, with the error for this object.
pub fn in_time_for<T>(busy: Busy, f: impl FnOnce() -> T) -> Result<T, Error> {
    in_time(f).ok_or_else(|| not_available(busy))
}

/// The same as [`in_time`] for an `f` that only reads: its locks are released again.
pub fn released_in_time<T>(f: impl FnOnce() -> T) -> Option<T> {
    subtransaction::catching_undone(is_timeout, f).ok()
}

fn is_timeout(state: PgSqlErrorCode) -> bool {
    state == PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE
}

/// Runs `f`, which waits for locks for about [`SHORT`], twice as long at most.
pub fn waiting_briefly<T>(f: impl FnOnce() -> T) -> T {
    lock_waits::limit(SHORT.min(guc::lock_limit()), f)
}

/// Attempts to take several locks: all of them, or none.
///
/// Other sessions queue behind the locks that an attempt has taken and the one that it waits for.
/// So it lasts at most [`SHORT`], a failed one releases all locks, and the pause after it is as
/// long, so that the others can proceed. A deadlock also ends the attempt. All attempts together
/// have the limit [`guc::lock_limit`].
pub struct Attempts {
    /// The longest time of an attempt.
    longest: Duration,
    left: Duration,
    started: Cell<Instant>,
    /// The object that another session had locked last.
    busy: Cell<Busy>,
}

/// An object that another session has locked.
#[derive(Clone, Copy)]
pub enum Busy {
    Relation(Oid),
    Function(Oid),
    Schema(Oid),
}

const NOTHING: Busy = Busy::Relation(Oid::INVALID);

impl Attempts {
    pub fn new() -> Attempts {
        Attempts::of_at_most(SHORT)
    }

    fn of_at_most(longest: Duration) -> Attempts {
        let (started, busy) = (Cell::new(Instant::now()), Cell::new(NOTHING));
        Attempts { longest, left: guc::lock_limit(), started, busy }
    }

    /// Takes the locks in `lock`, which returns whether to keep them. Returns whether this session
    /// has them all.
    pub fn attempt(
        &self,
        lock: impl FnOnce(&Attempts) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let mut result = Ok(false);
        self.started.set(Instant::now());
        let got_them = subtransaction::in_subtransaction(|| {
            result = lock(self);
            matches!(result, Ok(true))
        });
        result.map(|_| got_them)
    }

    /// Runs `f`, which waits for a lock that the attempts need, for at most as long as an attempt,
    /// and counts its time. If it fails, [`Attempts::pause`] counts it.
    pub fn counting<T>(&mut self, f: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.started.set(Instant::now());
        let result = lock_waits::limit(self.left.min(self.longest), f);
        if result.is_ok() {
            self.left = self.left.saturating_sub(self.started.get().elapsed());
        }
        result
    }

    /// Pauses after a failed attempt. If the time is over, returns what another session has locked.
    pub fn pause(&mut self) -> Result<(), Busy> {
        let pause = self.started.get().elapsed().max(PAUSE_MIN);
        self.left = self.left.saturating_sub(pause * 2);
        if self.left.is_zero() {
            return Err(self.busy.get());
        }
        wait_event::pause(WaitEvent::TableLocks, pause);
        Ok(())
    }

    /// Within an attempt: runs `f`, which waits for a lock on this relation, or for those that go
    /// with it, or changes the relation. Its waits have the rest of the attempt's time.
    pub fn wait<T>(&self, relation: Oid, f: impl FnOnce() -> T) -> T {
        self.wait_for(Busy::Relation(relation), f)
    }

    fn wait_for<T>(&self, busy: Busy, f: impl FnOnce() -> T) -> T {
        self.busy.set(busy);
        let left = self.longest.saturating_sub(self.started.get().elapsed());
        lock_waits::limit(guc::lock_limit().min(left), f)
    }

    /// Within an attempt: locks a relation, or a dropped one without effect.
    pub fn lock(&self, relation: Oid, mode: u32) {
        self.wait(relation, || lock_relation(relation, mode));
    }

    /// Within an attempt: locks the schema of a relation, if that exists.
    pub fn lock_schema_of(&self, relation: Oid) -> Result<(), Error> {
        if let Some(relation) = catalog::relation(relation) {
            check_may_lock_schema(relation.schema)?;
            self.wait_for(Busy::Schema(relation.schema), || lock_schema(relation.schema));
        }
        Ok(())
    }

    /// Within an attempt: locks the rows of a locked relation and of these of its columns, before
    /// they are altered.
    pub fn lock_rows<'a>(&self, relation: Oid, columns: impl Iterator<Item = &'a str>) {
        self.wait(relation, || lock_rows_of_relation(relation, columns));
    }

    /// Within an attempt: locks a table, and all tables that inherit from it or are its partitions,
    /// after `check` of their number each time that there are more of them. Returns them.
    pub fn lock_with_children(
        &self,
        table: Oid,
        mode: u32,
        check: impl Fn(usize) -> Result<(), Error>,
    ) -> Result<Vec<Oid>, Error> {
        self.lock(table, mode);
        let mut locked = vec![table];
        // A table gets no other children while it is locked, but they may get some.
        if catalog::relation(table).is_some_and(|relation| !relation.may_have_children) {
            return Ok(locked);
        }
        let query = catalog::tree_of("$1");
        loop {
            let mut found = select_by_index(&query, &[table.into()], |row| row.get::<Oid>(1));
            found.retain(|one| !locked.contains(one));
            if found.is_empty() {
                return Ok(locked);
            }
            check(found.len())?;
            found.iter().for_each(|one| self.lock(*one, mode));
            locked.append(&mut found);
        }
    }
}

/// Makes [`Attempts`] until one has all locks. Otherwise returns what another session has locked.
/// Once other sessions wait for these locks, each further wait lasts at most [`SHORT`].
pub fn lock_all(lock: impl Fn(&Attempts) -> Result<(), Error>) -> Result<Result<(), Busy>, Error> {
    let mut attempts = Attempts::new();
    while !attempts.attempt(|attempts| lock(attempts).map(|()| true))? {
        if let Err(busy) = attempts.pause() {
            return Ok(Err(busy));
        }
    }
    guc::limit_later_waits(SHORT);
    Ok(Ok(()))
}

/// The same for the locks of these items, such as the columns of a table. If no attempt has got all
/// of them, takes those of as many items as possible, within [`SHORT`]: first what is available at
/// once. Returns for each item without its locks what another session has locked.
pub fn lock_available<T>(
    items: &[T],
    lock: impl Fn(&T, &Attempts) -> Result<(), Error>,
) -> Result<Vec<Option<Busy>>, Error> {
    let lock_them = |attempts: &Attempts| items.iter().try_for_each(|item| lock(item, attempts));
    if lock_all(lock_them)?.is_ok() {
        return Ok(vec![None; items.len()]);
    }
    let started = Instant::now();
    let mut busy = vec![Some(NOTHING); items.len()];
    for limit in [Duration::ZERO, SHORT.min(guc::lock_limit())] {
        let count = busy.iter().flatten().count();
        let share = limit.saturating_sub(started.elapsed()) / count.max(1) as u32;
        for (item, busy) in items.iter().zip(&mut busy).filter(|(_, busy)| busy.is_some()) {
            let attempts = Attempts::of_at_most(share);
            let got_them = attempts.attempt(|attempts| lock(item, attempts).map(|()| true))?;
            *busy = (!got_them).then(|| attempts.busy.get());
        }
    }
    guc::limit_later_waits(SHORT);
    Ok(busy)
}

/// The error for a lock that was not available.
pub fn not_available(busy: Busy) -> Error {
    match busy {
        Busy::Relation(oid) => {
            let owner = catalog::relation(oid).map_or(Oid::INVALID, |relation| relation.owner);
            let object = format!("relation {}", names::relation(oid));
            Error::ObjectLocked { object, owner: names::role(owner) }
        }
        Busy::Function(oid) => {
            let owner = catalog::function(oid).map_or(Oid::INVALID, |function| function.owner);
            let object = format!("function {}", names::function(oid));
            Error::ObjectLocked { object, owner: names::role(owner) }
        }
        Busy::Schema(schema) => Error::SchemaLocked {
            schema: names::schema(schema),
            owner: names::role(catalog::schema_owner(schema).unwrap_or(Oid::INVALID)),
        },
    }
}

/// Keeps the function from being dropped, renamed, moved or given to another role until the
/// transaction ends. Its owner can still replace its body. In the mode `ShareUpdateExclusiveLock`
/// only one session at a time has the lock. The error names the function if the lock is not
/// available in time.
pub fn lock_function(function: Oid, mode: u32) -> Result<(), Error> {
    let lock = || lock_object(pg_sys::ProcedureRelationId, function, 0, mode);
    in_time_for(Busy::Function(function), lock)
}

/// Locks an object of this database until the transaction ends, or a part of it. PostgreSQL locks
/// an object as a whole, part 0, and no other part of an extension.
pub fn lock_object(class: Oid, object: Oid, part: u16, mode: u32) {
    // SAFETY: takes a lock.
    unsafe { pg_sys::LockDatabaseObject(class, object, part, mode as pg_sys::LOCKMODE) }
}

/// Runs `f` while this session holds, for each relation, a lock that belongs to it and conflicts
/// only with itself. `None` if another session holds one of them.
///
/// Meanwhile the session sends nothing to its client. A client that does not read what it is sent
/// makes its session wait, without any limit, and the settings of a session decide how much it is
/// sent. An error is sent after the locks are released. A client whose session ends meanwhile does
/// not learn why.
pub fn with_locks_beside<T>(relids: &[Oid], f: impl FnOnce() -> T) -> Option<T> {
    const BESIDE: u16 = 1;
    let mode = pg_sys::ExclusiveLock as pg_sys::LOCKMODE;
    let tag = |relid: &Oid| pg_sys::LOCKTAG {
        locktag_field4: BESIDE,
        ..lock_tag(pg_sys::LockTagType::LOCKTAG_OBJECT, [pg_sys::RelationRelationId, *relid])
    };
    let held = Cell::new(0);
    // SAFETY: locks on relations themselves have other tags. As in `LockDatabaseObject`, changes
    // that another session has made under the lock are noticed. An error of PostgreSQL leaves `f`
    // as a panic. It is raised again once the locks and both variables are as before, as in a
    // PG_CATCH block.
    unsafe {
        let owner = pg_sys::CurrentResourceOwner;
        let none = pg_sys::CommandDest::DestNone;
        let client = ptr::replace(&raw mut pg_sys::whereToSendOutput, none);
        let result = catch_unwind(AssertUnwindSafe(|| {
            let not_available = pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL;
            for relid in relids {
                if pg_sys::LockAcquire(&tag(relid), mode, false, true) == not_available {
                    return None;
                }
                held.set(held.get() + 1);
            }
            pg_sys::AcceptInvalidationMessages();
            Some(f())
        }));
        pg_sys::CurrentResourceOwner = owner;
        for relid in &relids[..held.get()] {
            pg_sys::LockRelease(&tag(relid), mode, false);
        }
        pg_sys::whereToSendOutput = client;
        result.unwrap_or_else(|error| resume_unwind(error))
    }
}

/// Releases the locks on a relation that this transaction has created, so that creating thousands
/// of them does not overflow the lock table. Other sessions cannot see the relation before the
/// commit, and the locks would end there anyway.
///
/// # Safety
///
/// This transaction has created the relation, and changes it no more.
pub unsafe fn release_locks_on_new_relation(relid: Oid) {
    // SAFETY: promised by the caller.
    unsafe { release_locks(pg_sys::LockTagType::LOCKTAG_RELATION, [relid, Oid::INVALID]) }
}

/// The same for an object of another class, such as a schema.
///
/// # Safety
///
/// As for the relation.
pub unsafe fn release_locks_on_new_object(class: Oid, object: Oid) {
    // SAFETY: promised by the caller.
    unsafe { release_locks(pg_sys::LockTagType::LOCKTAG_OBJECT, [class, object]) }
}

/// `storage/lock.h`: `SET_LOCKTAG_RELATION`, `SET_LOCKTAG_OBJECT`
fn lock_tag(kind: pg_sys::LockTagType::Type, [field2, field3]: [Oid; 2]) -> pg_sys::LOCKTAG {
    pg_sys::LOCKTAG {
        // SAFETY: a backend that runs SQL has a database.
        locktag_field1: unsafe { pg_sys::MyDatabaseId }.to_u32(),
        locktag_field2: field2.to_u32(),
        locktag_field3: field3.to_u32(),
        locktag_field4: 0,
        locktag_type: kind as u8,
        locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
    }
}

unsafe fn release_locks(kind: pg_sys::LockTagType::Type, object: [Oid; 2]) {
    // SAFETY: the tag names an object of this database; a lock is released only while this backend
    // holds it.
    unsafe {
        let tag = lock_tag(kind, object);
        for mode in pg_sys::AccessShareLock as c_int..=pg_sys::AccessExclusiveLock as c_int {
            while LockHeldByMe(&tag, mode) && pg_sys::LockRelease(&tag, mode, false) {}
        }
    }
}

/// `storage/lock.h`: `LockHeldByMe`, which from 17 on has a parameter to look for stronger locks as
/// well.
unsafe fn LockHeldByMe(tag: &pg_sys::LOCKTAG, mode: pg_sys::LOCKMODE) -> bool {
    // SAFETY: looks only into this backend's lock table.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        return pg_sys::LockHeldByMe(tag, mode);
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        return pg_sys::LockHeldByMe(tag, mode, false);
    }
}

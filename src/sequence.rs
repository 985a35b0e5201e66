//! The page of a sequence: lock it, read the state, apply the rule, make it durable, let go.
//!
//! This is `nextval_internal` of PostgreSQL's commands/sequence.c with the rule of [`tick`] in place of `+ 1`.
//! Locks, rights, WAL and critical section are as there. One thing is left to `nextval`: it also mends the xmax
//! of a sequence that an ancient release let someone `SELECT FOR UPDATE`, which nothing here looks at.

use crate::citus::{self, Standing};
use crate::definition::{self, Definition};
use crate::epoch::{Epoch, US_PER_MS};
use crate::error::{Error, Unfit};
use crate::known::{self, Era, Facts, Known, Permit, Safe, Valid};
use crate::layout::Shard;
use crate::sys::{self, AccessShareLock, CommitLevel, NoLock, RowExclusiveLock, guarded};
use crate::tick::{self, Next, Run, State, VALUE_MAX};
use crate::{catalog, names, shard};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::pg_sys::{self, Oid};
use pgrx::{PgLogLevel, PgSqlErrorCode};
use std::cell::Cell;
use std::time::Duration;

/// How far a sequence may be ahead of the clock without a warning: further than crashes and a clock that is kept
/// right take it.
pub const WARN_AHEAD_MS: i64 = 60_000;

const UPDATE: Option<pg_sys::AclMode> = Some(pg_sys::ACL_UPDATE as pg_sys::AclMode);

thread_local! {
    /// Whether this session has been told that a sequence is ahead of the clock.
    static HAS_WARNED: Cell<bool> = const { Cell::new(false) };
}

/// A sequence, and the instant that its milliseconds count from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock {
    pub sequence: Oid,
    pub epoch: Epoch,
}

/// What to take, from where, and for whom the error speaks.
#[derive(Clone, Copy)]
pub struct Request {
    /// Whose ids they become.
    pub shard: Shard,
    pub source: Source,
    pub site: Site,
    /// At most this many values, at least 1.
    pub want: i64,
    /// The SQL function, as error messages name it.
    pub function: &'static str,
}

/// Which sequence.
#[derive(Clone, Copy)]
pub enum Source {
    /// The shard's own, whichever that is when it is locked.
    OfShard,
    Clock(Clock),
}

/// Where in a Citus cluster, in which every node has a copy of a sequence.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Site {
    /// On the node that is the sequence's home, and when that has taken it over from all others.
    Home,
    /// The same, for someone who tells how far the sequence came, also where a node is lost that would know.
    AsTold,
    /// On the node that stores the row. That is the home, which during a move a session may know before the node does.
    OfRow,
    /// On each node from its own copy, as if there were no other.
    EachNode,
    /// On whichever node this is, to look at its copy or to shut it.
    AnyNode,
}

impl Site {
    /// Whether ids are made there from the one copy that is open.
    fn wants_open(self) -> bool {
        matches!(self, Site::Home | Site::AsTold | Site::OfRow)
    }

    /// Whether it counts what Citus's catalogs say.
    pub fn must_be_home(self) -> bool {
        matches!(self, Site::Home | Site::AsTold)
    }
}

/// What a closed copy tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shut {
    /// A value greater than all that it has issued.
    pub above: i64,
    pub taken_by: Taker,
}

/// The node that took a copy over last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taker {
    Nobody,
    /// The node of this group, 0 to [`Taker::GROUP_MAX`].
    Node(i32),
    /// There was one, and something that knows nothing of it has written to the sequence since: `nextval`, or `setval` of a
    /// dump or `pg_upgrade`.
    Unknown,
}

impl Taker {
    const GROUP_MAX: i32 = (1 << 30) - 3;

    /// The node of a group, if that can be put on record.
    pub fn node(group: i32) -> Option<Taker> {
        (0..=Taker::GROUP_MAX).contains(&group).then_some(Taker::Node(group))
    }

    /// As a column of a result has it: NULL for nobody, -1 where it is not known.
    pub fn to_column(self) -> Option<i32> {
        match self {
            Taker::Nobody => None,
            Taker::Node(group) => Some(group),
            Taker::Unknown => Some(-1),
        }
    }

    pub fn of_column(column: Option<i32>) -> Option<Taker> {
        match column {
            None => Some(Taker::Nobody),
            Some(-1) => Some(Taker::Unknown),
            Some(group) => Taker::node(group),
        }
    }
}

/// The number of one node's try to open its copy, 0 to [`Attempt::MAX`], drawn at random. It tells the steps of this try
/// from those of another one, and from messages that come late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attempt(i32);

impl Attempt {
    const BITS: u32 = 30;
    pub const MAX: i32 = (1 << Self::BITS) - 1;

    pub fn new(number: i32) -> Option<Attempt> {
        (0..=Attempt::MAX).contains(&number).then_some(Attempt(number))
    }

    pub fn random() -> Attempt {
        Attempt(sys::random_i32() & Attempt::MAX)
    }

    pub fn number(self) -> i32 {
        self.0
    }
}

/// What came of one visit to the sequence.
#[derive(Clone, Copy)]
enum Outcome {
    Taken {
        run: Run,
        ahead_ms: i64,
    },
    Wait(Wait),
    /// While the lock was waited for something changed; the shard's sequence may be another by now.
    LookAgain,
}

/// Ticks to wait for, and what that pays for: leaving this state.
#[derive(Clone, Copy)]
struct Wait {
    state: State,
    /// The page's position in WAL. It tells a state that has stayed from one that has come back, by setval: what
    /// was issued in between may be of the very millisecond that the wait was to get past.
    lsn: pg_sys::XLogRecPtr,
    /// Microseconds from the epoch to the clock as it stood.
    clock_us: i64,
    /// How many of the clock's ticks from there.
    ticks: i64,
}

/// Why nothing was taken. Plain data, so that it can leave the guard.
#[derive(Clone, Copy)]
enum Refusal {
    Missing,
    NotSequence,
    Unfit(Unfit),
    NoRight {
        update: bool,
    },
    ReadOnly,
    Parallel,
    BadMagic,
    Exhausted {
        last_value: i64,
        min_value: i64,
    },
    ClockBeforeEpoch,
    ClockPastField,
    /// The role lacks UPDATE, and it is not known to be for the shard and epoch of the request that the sequence is.
    NotPermitted,
    /// It has not been asked yet what Citus makes of it.
    StandingUnknown,
    /// Another node is its home.
    Elsewhere,
    /// A copy that has not been taken over from the other nodes yet, or one that was.
    Shut,
    /// A copy from when this node was that group.
    OfAnotherGroup(i32),
    /// The sequence of a shard, or one that was handed over, where each node is to have its own.
    OfAShard,
}

/// Takes the next values of a sequence, waiting for the clock's ticks as the rule asks.
///
/// Between two visits nothing is held but the sequence's relation lock, which like `nextval`'s lasts until the
/// transaction ends and stands in no other caller's way.
pub fn take(request: Request) -> Result<Run, Error> {
    let mut paid = None;
    let mut looked_again_from = None;
    let mut has_permit = false;
    loop {
        let (clock, found) = match request.source {
            Source::Clock(clock) => (clock, None),
            Source::OfShard => {
                let found = known::era();
                let clock = shard::clock_of(request.shard)?;
                // What is still the shard's clock when that is locked is so for good.
                (clock, (looked_again_from != Some(clock)).then_some(found))
            }
        };
        // Written in place: what is handed back through the guard by value is copied on the way, at 5 % of a call.
        let mut visited = Err(Refusal::Missing);
        // What was found for this call holds for its next visit, also where by then it is not remembered any more.
        let permitted = std::mem::take(&mut has_permit);
        known::with(clock.sequence, |known| {
            // SAFETY: `visit` keeps the guard's rules: it panics nowhere and owns nothing with a destructor.
            unsafe { guarded(|| visited = visit(request, clock, found, permitted, paid, known)) }
        });
        match visited {
            Ok(Outcome::Taken { run, ahead_ms }) => {
                if ahead_ms > WARN_AHEAD_MS {
                    warn_once(clock, run);
                }
                return Ok(run);
            }
            Ok(Outcome::LookAgain) => looked_again_from = Some(clock),
            Ok(Outcome::Wait(wait)) => {
                wait_for_ticks(wait, clock.epoch);
                paid = Some(wait);
            }
            Err(Refusal::NotPermitted) => {
                find_permit(clock, request.shard)?;
                has_permit = true;
            }
            Err(refusal) => ask_around(refusal, clock, request.site, i64::MIN, request.function)?,
        }
    }
}

/// Finds out whether a role that may use a sequence, and no more than that, may take ids of this shard and epoch from it.
/// By another epoch a sequence could be taken years ahead of the clock, to the end of its ids. So one that serves a shard is
/// for that, and another one that is in the schema of a shard counts from the shard's epoch.
///
/// # Errors
///
/// 42501 where it serves another shard, or counts from another epoch.
#[cold]
fn find_permit(clock: Clock, shard: Shard) -> Result<(), Error> {
    let era = known::era();
    let refuse = |of: &Definition, serves: bool| {
        let (name, role) = (names::relation(clock.sequence), names::current_role());
        let epoch = names::time(of.clock.epoch.at());
        Err(Error::SequenceServesAnother { name, shard: of.shard.number(), serves, epoch, role })
    };
    let served = definition::served_by(clock.sequence);
    let beside = if served.is_empty() { definition::in_schema_of(clock.sequence) } else { vec![] };
    let is_epoch = |of: &&Definition| of.clock.epoch == clock.epoch;
    let permit = match (served.first(), beside.first()) {
        (None, None) => Permit::Any,
        (Some(first), _) if !served.iter().filter(is_epoch).any(|of| of.shard == shard) => {
            return refuse(first, true);
        }
        (None, Some(first)) if !beside.iter().any(|of| is_epoch(&of)) => return refuse(first, false),
        _ => Permit::Only(shard, clock.epoch),
    };
    known::remember_permit(clock.sequence, era, permit);
    Ok(())
}

/// Does something about a refusal, after which it is worth another visit; otherwise returns its error. A copy that it opens
/// goes on above `floor`.
#[cold]
fn ask_around(
    refusal: Refusal,
    clock: Clock,
    site: Site,
    floor: i64,
    function: &'static str,
) -> Result<(), Error> {
    match refusal {
        Refusal::StandingUnknown => citus::find_standing(clock.sequence),
        Refusal::Elsewhere => citus::check_home(clock.sequence)?,
        Refusal::Shut => citus::take_over(clock, site, floor, function)?,
        refusal => return Err(explain(refusal, clock, function)),
    }
    Ok(())
}

/// Visits a sequence as often as it takes; a copy that must be opened for it goes on above `floor`.
fn persist<T: Copy>(
    clock: Clock,
    site: Site,
    floor: i64,
    function: &'static str,
    visit: impl Fn(&mut Known) -> Result<T, Refusal>,
) -> Result<T, Error> {
    loop {
        // SAFETY: what is visited here keeps the guard's rules, as `visit` does.
        let visited = known::with(clock.sequence, |known| unsafe { guarded(|| visit(known)) });
        match visited {
            Ok(result) => return Ok(result),
            Err(refusal) => ask_around(refusal, clock, site, floor, function)?,
        }
    }
}

/// Sees to it that the next value of a sequence is greater than `value`, 0 to [`VALUE_MAX`], and returns the last
/// value as it is then. A sequence that is there already stays as it is. `function` is who asks, for errors.
///
/// Like `setval` it wants UPDATE on the sequence, and is not undone by a rollback. Unlike that it never goes back,
/// is logged ahead of the clock as [`take`] is, and heeds no MINVALUE.
pub fn advance(clock: Clock, value: i64, function: &'static str) -> Result<i64, Error> {
    let site = Site::AsTold;
    persist(clock, site, value, function, |known| {
        // SAFETY: inside `guarded`.
        unsafe {
            visit_page(clock.sequence, site, UPDATE, known, |page, known| {
                page.advance_to(clock.epoch, value, known)
            })
        }
    })
}

/// Begins to open a closed copy: from here on [`raise`] and [`open`] notice whether another node has closed it meanwhile.
/// Returns what it tells, or `None` where it is open already.
pub fn begin_to_open(
    clock: Clock,
    site: Site,
    attempt: Attempt,
    function: &'static str,
) -> Result<Option<Shut>, Error> {
    persist(clock, site, i64::MIN, function, |known| {
        // SAFETY: inside `guarded`.
        unsafe {
            visit_page(clock.sequence, site, None, known, |page, known| page.begin_to_open(attempt, known))
        }
    })
}

/// Has a copy that is being opened tell that others have issued values below `floor`. Returns false where since
/// [`begin_to_open`] another node has closed it. By then that is safe from a crash.
pub fn raise(
    clock: Clock,
    site: Site,
    attempt: Attempt,
    floor: i64,
    function: &'static str,
) -> Result<bool, Error> {
    persist(clock, site, i64::MIN, function, |known| {
        // SAFETY: inside `guarded`.
        unsafe {
            visit_page(clock.sequence, site, None, known, |page, known| page.raise(attempt, floor, known))
        }
    })
}

/// Opens a copy, for values greater than what it tells; returns false where since [`begin_to_open`] another node has
/// closed it.
pub fn open(clock: Clock, site: Site, attempt: Attempt, function: &'static str) -> Result<bool, Error> {
    persist(clock, site, i64::MIN, function, |known| {
        // SAFETY: inside `guarded`.
        unsafe {
            visit_page(clock.sequence, site, None, known, |page, known| {
                page.open(clock.epoch, attempt, known)
            })
        }
    })
}

/// Closes a copy for another node's attempt to open its own; returns what it tells. Who took it over last stays on record
/// until [`name_taker`]. By then that is safe from a crash. Wants UPDATE on the sequence.
pub fn close(sequence: Oid, attempt: Attempt, function: &'static str) -> Result<Shut, Error> {
    // SAFETY: inside `guarded`, with the page locked.
    on_any_node(sequence, function, |page, known| unsafe { page.close(attempt, known) })
}

/// Puts on record which node takes the copy over. Returns false, and does nothing, where the copy is not
/// closed for that attempt any more. By then that is safe from a crash. Wants UPDATE on the sequence.
pub fn name_taker(
    sequence: Oid,
    taker: Taker,
    attempt: Attempt,
    function: &'static str,
) -> Result<bool, Error> {
    // SAFETY: inside `guarded`, with the page locked.
    on_any_node(sequence, function, |page, known| unsafe { page.name_taker(taker, attempt, known) })
}

fn on_any_node<T: Copy>(
    sequence: Oid,
    function: &'static str,
    act: impl Fn(SequencePage<'_>, &mut Known) -> Result<T, Refusal>,
) -> Result<T, Error> {
    let clock = Clock { sequence, epoch: Epoch::ORIGINAL };
    let site = Site::AnyNode;
    persist(clock, site, i64::MIN, function, |known| {
        // SAFETY: inside `guarded`.
        unsafe { visit_page(sequence, site, UPDATE, known, &act) }
    })
}

/// Whether a role has UPDATE on a sequence, and so could set it to any value.
pub fn may_be_updated_by(sequence: Oid, role: Oid) -> bool {
    // SAFETY: `may` panics nowhere and owns nothing.
    unsafe { guarded(|| sys::may(sequence, role, pg_sys::ACL_UPDATE as pg_sys::AclMode)) }
}

/// Locks a sequence against being dropped or altered, to the transaction's end; returns whether it is still there.
pub fn lock(sequence: Oid) -> bool {
    known::with(sequence, |known| {
        // SAFETY: as in `take`.
        unsafe { guarded(|| lock_for_transaction(sequence, known)) }
    });
    catalog::relation(sequence).is_some()
}

/// Checks that a sequence is one that ids can be made from, and locks it to the transaction's end.
pub fn examine(sequence: Oid) -> Result<(), Error> {
    let clock = Clock { sequence, epoch: Epoch::ORIGINAL };
    let site = Site::AnyNode;
    persist(clock, site, i64::MIN, "create_shard()", |known| {
        // SAFETY: inside `guarded`.
        unsafe {
            lock_for_transaction(sequence, known);
            admit(sequence, site, known).map(|_| ())
        }
    })
}

/// The last value of a sequence, without waiting for it or writing to it; `None` where it was never called, or
/// where this role or server cannot see it.
pub fn last_value(sequence: Oid) -> Option<i64> {
    state(sequence).filter(|state| state.is_called).map(|state| state.last_value)
}

/// The same with a sequence that was never called, and where that is to start.
fn state(sequence: Oid) -> Option<State> {
    // SAFETY: as in `take`.
    unsafe { guarded(|| look(sequence)) }
}

/// Reads the state as `pg_sequence_last_value` does, and keeps no lock.
///
/// # Safety
///
/// Inside [`guarded`].
unsafe fn look(sequence: Oid) -> Option<State> {
    // SAFETY: an open relation has its pg_class row; a sequence has block 0, and on it one tuple.
    unsafe {
        let relation = sys::try_relation_open(sequence, AccessShareLock);
        if relation.is_null() {
            return None;
        }
        let row = &*(*relation).rd_rel;
        let any = (pg_sys::ACL_SELECT | pg_sys::ACL_USAGE | pg_sys::ACL_UPDATE) as pg_sys::AclMode;
        // After a standby has replayed it, an unlogged sequence has no file.
        let has_file =
            row.relpersistence as u8 == pg_sys::RELPERSISTENCE_PERMANENT || !sys::RecoveryInProgress();
        let state = if row.relkind as u8 == pg_sys::RELKIND_SEQUENCE
            && row.relpersistence as u8 != pg_sys::RELPERSISTENCE_TEMP
            && has_file
            && sys::may(sequence, sys::GetUserId(), any)
        {
            let buffer = sys::ReadBuffer(relation, 0);
            sys::lock_buffer_shared(buffer);
            let data = sys::sequence_tuple(pg_sys::BufferGetPage(buffer))
                .map(|(tuple, _)| *sys::sequence_data(tuple));
            sys::UnlockReleaseBuffer(buffer);
            data.map(|data| State { last_value: data.last_value, is_called: data.is_called != 0 })
        } else {
            None
        };
        sys::relation_close(relation, AccessShareLock);
        forget_relation(sequence);
        state
    }
}

/// Goes to the sequence's page and takes what the rule gives.
///
/// # Safety
///
/// Inside [`guarded`].
unsafe fn visit(
    request: Request,
    clock: Clock,
    found: Option<Era>,
    permitted: bool,
    paid: Option<Wait>,
    known: &mut Known,
) -> Result<Outcome, Refusal> {
    // SAFETY: each raw call has what its PostgreSQL counterpart asks for at the same place of nextval_internal.
    unsafe {
        lock_for_transaction(clock.sequence, known);
        if found.is_some_and(|era| era != known::era()) {
            return Ok(Outcome::LookAgain);
        }
        let facts = admit(clock.sequence, request.site, known)?;
        // A shard's own clock was found by the shard's number.
        if matches!(request.source, Source::Clock(_))
            && !known.permit.allows(request.shard, clock.epoch)
            && !permitted
        {
            return Err(Refusal::NotPermitted);
        }
        // Before the lock, which is held for a shorter time then. Who has waited for the page goes on in the millisecond in
        // which he came, where that still has room.
        let came_us = elapsed_us(clock.epoch);
        let page = SequencePage::lock(clock.sequence, &facts, known)?;
        let outcome = page.take(clock.epoch, request.site, came_us, request.want, paid, known);
        let lsn = sys::PageGetLSN(page.page);
        page.unlock();
        if let Ok(Outcome::Taken { .. }) = outcome {
            make_safe(&facts, lsn, known);
        }
        spare_the_caches(clock.sequence, known);
        outcome
    }
}

/// Goes to the sequence's page and does something else than to take values, for who has this right beside the usual.
///
/// # Safety
///
/// Inside [`guarded`], as is `act`.
unsafe fn visit_page<T: Copy>(
    sequence: Oid,
    site: Site,
    right: Option<pg_sys::AclMode>,
    known: &mut Known,
    act: impl FnOnce(SequencePage<'_>, &mut Known) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    // SAFETY: as for `visit`.
    unsafe {
        lock_for_transaction(sequence, known);
        let facts = admit(sequence, site, known)?;
        if right.is_some_and(|right| !sys::may(sequence, sys::GetUserId(), right)) {
            return Err(Refusal::NoRight { update: true });
        }
        let page = SequencePage::lock(sequence, &facts, known)?;
        let result = act(page, known);
        let lsn = sys::PageGetLSN(page.page);
        page.unlock();
        make_safe(&facts, lsn, known);
        spare_the_caches(sequence, known);
        result
    }
}

/// Microseconds from the epoch to now.
unsafe fn elapsed_us(epoch: Epoch) -> i64 {
    // SAFETY: reads the clock.
    epoch.elapsed_us(unsafe { sys::GetCurrentTimestamp() })
}

/// Whether the sequence may be written now, here, by this role.
unsafe fn admit(sequence: Oid, site: Site, known: &mut Known) -> Result<Facts, Refusal> {
    // SAFETY: as for `visit`.
    unsafe {
        let facts = check(sequence, known)?;
        if pg_sys::XactReadOnly && !facts.is_local_temp {
            return Err(Refusal::ReadOnly);
        }
        if sys::IsInParallelMode() {
            return Err(Refusal::Parallel);
        }
        if facts.is_elsewhere && site.must_be_home() {
            return Err(Refusal::Elsewhere);
        }
        if facts.is_of_schema && site == Site::EachNode {
            return Err(Refusal::OfAShard);
        }
        Ok(facts)
    }
}

/// Locks the sequence against being dropped or altered, once a transaction.
unsafe fn lock_for_transaction(sequence: Oid, known: &mut Known) {
    // SAFETY: as for `visit`.
    unsafe {
        let transaction = sys::local_transaction_id();
        if known.locked_in != transaction {
            sys::LockRelationForTransaction(sequence, RowExclusiveLock);
            known.locked_in = transaction;
        }
    }
}

/// Checks that this is a sequence fit to be a clock and that the current role may use it; at once where that
/// was found out before and nothing has changed since.
unsafe fn check(sequence: Oid, known: &mut Known) -> Result<Facts, Refusal> {
    // SAFETY: as for `visit`; an open relation has its pg_class row.
    unsafe {
        let now = Valid { era: known::era(), role: sys::GetUserId(), transaction: 0 };
        if let Some((valid, facts)) = known.checked
            && (valid == now || valid == Valid { transaction: known.locked_in, ..now })
        {
            return Ok(facts);
        }
        known.looked = true;
        let relation = sys::try_relation_open(sequence, NoLock);
        if relation.is_null() {
            return Err(Refusal::Missing);
        }
        let is_sequence = (*(*relation).rd_rel).relkind as u8 == pg_sys::RELKIND_SEQUENCE;
        let mut facts = Facts {
            locator: sys::rd_locator(relation),
            min_value: 0,
            needs_wal: sys::RelationNeedsWAL(relation),
            is_local_temp: (*relation).rd_islocaltemp,
            is_copy: false,
            is_elsewhere: false,
            is_of_schema: false,
            has_range_of_node: false,
        };
        sys::relation_close(relation, NoLock);
        if !is_sequence {
            return Err(Refusal::NotSequence);
        }
        let either = (pg_sys::ACL_USAGE | pg_sys::ACL_UPDATE) as pg_sys::AclMode;
        if !sys::may(sequence, now.role, either) {
            return Err(Refusal::NoRight { update: false });
        }
        let update = pg_sys::ACL_UPDATE as pg_sys::AclMode;
        let permit = if facts.is_local_temp || sys::may(sequence, now.role, update) {
            Permit::Any
        } else {
            known::permit(sequence)
        };
        let Some(options) = sys::pg_sequence_row(sequence) else {
            return Err(Refusal::Missing);
        };
        if !facts.is_local_temp && sys::has_citus() {
            let Some(standing) = known::standing(sequence) else {
                // In parallel mode no query can be run.
                let in_parallel = sys::IsInParallelMode();
                return Err(if in_parallel { Refusal::Parallel } else { Refusal::StandingUnknown });
            };
            if let Standing::Copy { group, at_home, is_of_schema } = standing {
                facts.is_copy = true;
                facts.is_elsewhere = !at_home;
                facts.is_of_schema = is_of_schema;
                let range = citus::group_of_range(options.seqmin, options.seqmax);
                if let Some(of) = range.filter(|of| *of != group) {
                    return Err(Refusal::OfAnotherGroup(of));
                }
                facts.has_range_of_node = range.is_some();
            }
        }
        let unfit = Unfit {
            not_bigint: options.seqtypid != pg_sys::INT8OID,
            increment: (options.seqincrement != 1).then_some(options.seqincrement),
            max: (options.seqmax < VALUE_MAX && !facts.has_range_of_node).then_some(options.seqmax),
            min: None, // the clock moves: checked with every value
            cycle: options.seqcycle != 0,
        };
        if unfit != Unfit::default() {
            return Err(Refusal::Unfit(unfit));
        }
        facts.min_value = if facts.has_range_of_node { 0 } else { options.seqmin };
        // What has no WAL in this transaction may have it in the next.
        let transaction = if facts.needs_wal { 0 } else { known.locked_in };
        known.checked = Some((Valid { transaction, ..now }, facts));
        known.permit = permit;
        Ok(facts)
    }
}

/// Sees to it that the WAL record which covers the values just taken is safe when this transaction has committed: on
/// disk, and with synchronous replication on the standbys, as far as `synchronous_commit` asks.
///
/// The transaction that wrote the record sees to that with its commit. Another one may live on the values that the
/// record logged ahead, write nothing itself, and hand them out before anyone has; a crash or a failover would then
/// issue them again. So a session that first finds a record that is new to it flushes it, once, holding no lock on the
/// page; and where commits wait for standbys its own does, too. The commit may ask for more than the call did, say after
/// a function with `SET synchronous_commit = off`: what is left to do then is noted for [`known::settle_debts`].
#[inline(always)]
unsafe fn make_safe(facts: &Facts, lsn: pg_sys::XLogRecPtr, known: &mut Known) {
    // SAFETY: as for `visit`.
    unsafe {
        // Nearly always there is nothing to do: no commit could ask for more.
        let is_safe = known.safe.is_some_and(|safe| safe.covers(lsn, sys::highest_commit_level()));
        if facts.needs_wal && !is_safe {
            make_safer(lsn, known);
        }
    }
}

#[cold]
unsafe fn make_safer(lsn: pg_sys::XLogRecPtr, known: &mut Known) {
    // SAFETY: as for `visit`; the position is that of a record on a page with WAL.
    unsafe {
        let level = sys::commit_level();
        if !known.safe.is_some_and(|safe| safe.covers(lsn, level)) {
            if level != CommitLevel::OFF {
                sys::XLogFlush(lsn);
            }
            if level.waits_for_standbys() {
                sys::make_commit_wait_for(lsn);
            }
            known.safe = Some(Safe::when_committed(lsn, level));
        }
        known::note_debt(known.safe, lsn);
    }
}

/// Takes out of PostgreSQL's caches again what only the look at this sequence has put there. What it said is
/// in `known`, in a fiftieth of the space: a session may use thousands of sequences.
unsafe fn spare_the_caches(sequence: Oid, known: &mut Known) {
    // SAFETY: as for `visit`; the caches fetch again what someone else still needs.
    unsafe {
        if known.looked && known.checked.is_some_and(|(_, facts)| !facts.is_local_temp) {
            forget_relation(sequence);
        }
        known.looked = false;
    }
}

unsafe fn forget_relation(sequence: Oid) {
    // SAFETY: as for `spare_the_caches`.
    unsafe {
        sys::RelationCacheInvalidateEntry(sequence);
        for cache in [pg_sys::SysCacheIdentifier::RELOID, pg_sys::SysCacheIdentifier::SEQRELID] {
            sys::drop_from_syscache(cache, sequence);
        }
    }
}

/// The `last_value` of a closed copy is this and what it tells. No id has such a value. So `nextval`, which opens any
/// sequence, does not open it for `next_id`, and what it tells is in a dump, and outlasts `pg_upgrade`.
const CLOSED: i64 = 1 << 61;

/// What a closed copy has for `last_value`.
fn closed_value(above: i64) -> i64 {
    CLOSED + above.clamp(0, VALUE_MAX + 1)
}

/// What a closed copy tells by its `last_value`; `None` for any other copy, and for those that 0.3.0 has closed.
fn told_by(last_value: i64) -> Option<i64> {
    // Room for as many calls of `nextval` as there are values.
    (CLOSED..CLOSED + 2 * VALUE_MAX).contains(&last_value).then(|| last_value - CLOSED)
}

/// What a closed copy of a sequence has for `log_cnt`, which means nothing to PostgreSQL while it is not called: 0 where it
/// is as Citus has made it, and otherwise a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark {
    taken_by: Taker,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Closed,
    /// Closed for an attempt of another node, which has not put its name on record yet.
    ClosedFor(Attempt),
    /// About to be opened by this node.
    Opening(Attempt),
}

impl Mark {
    /// Set in a mark; those of 0.3.0 are smaller.
    const FLAG: i64 = 1 << 62;
    const TAKER_SHIFT: u32 = 2 + Attempt::BITS;

    fn to_log_cnt(self) -> i64 {
        let (stage, attempt) = match self.stage {
            Stage::Closed => (0, 0),
            Stage::Opening(Attempt(number)) => (1, number),
            Stage::ClosedFor(Attempt(number)) => (2, number),
        };
        let taker = match self.taken_by {
            Taker::Nobody => 0,
            Taker::Unknown => 1,
            Taker::Node(group) => i64::from(group) + 2,
        };
        Mark::FLAG | taker << Mark::TAKER_SHIFT | i64::from(attempt) << 2 | stage
    }

    /// What a closed copy has; `None` where it is as Citus has made it.
    fn of_log_cnt(log_cnt: i64) -> Option<Mark> {
        if log_cnt & Mark::FLAG == 0 {
            // 0.3.0 has 2 for nobody, 2 more for each group, and an odd number while it opens.
            let group = i32::try_from((log_cnt - 2) / 2 - 1).ok();
            let taken_by = group.and_then(Taker::node).unwrap_or(Taker::Nobody);
            return (log_cnt != 0).then_some(Mark { taken_by, stage: Stage::Closed });
        }
        let taken_by = match (log_cnt & !Mark::FLAG) >> Mark::TAKER_SHIFT {
            0 => Taker::Nobody,
            1 => Taker::Unknown,
            group => Taker::Node((group - 2) as i32),
        };
        let attempt = Attempt((log_cnt >> 2) as i32 & Attempt::MAX);
        let stage = match log_cnt & 3 {
            1 => Stage::Opening(attempt),
            2 => Stage::ClosedFor(attempt),
            _ => Stage::Closed,
        };
        Some(Mark { taken_by, stage })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_as_they_were_written() {
        let attempts = [Attempt(0), Attempt(1), Attempt(Attempt::MAX)];
        let stages = attempts
            .into_iter()
            .flat_map(|attempt| [Stage::Closed, Stage::ClosedFor(attempt), Stage::Opening(attempt)]);
        let takers = [0, 1, Taker::GROUP_MAX].map(Taker::Node);
        for stage in stages {
            for taken_by in takers.into_iter().chain([Taker::Nobody, Taker::Unknown]) {
                let mark = Mark { taken_by, stage };
                assert!(mark.to_log_cnt() > 0);
                assert_eq!(Mark::of_log_cnt(mark.to_log_cnt()), Some(mark));
                assert_eq!(Taker::of_column(taken_by.to_column()), Some(taken_by));
            }
        }
        assert_eq!(Mark::of_log_cnt(0), None);
        assert_eq!([-2, Taker::GROUP_MAX + 1].map(|group| Taker::of_column(Some(group))), [None, None]);
    }

    #[test]
    fn marks_of_0_3_0_are_understood() {
        let old = |group: i64, opening: i64| 2 + 2 * (group + 1) + opening;
        for opening in [0, 1] {
            for (group, taken_by) in [(-1, Taker::Nobody), (0, Taker::Node(0)), (7, Taker::Node(7))] {
                let mark = Mark { taken_by, stage: Stage::Closed };
                assert_eq!(Mark::of_log_cnt(old(group, opening)), Some(mark));
            }
        }
    }

    #[test]
    fn closed_copies_tell_what_they_were_closed_with() {
        for above in [0, 1, 5000, VALUE_MAX, VALUE_MAX + 1] {
            assert_eq!(told_by(closed_value(above)), Some(above));
        }
        assert_eq!(
            [i64::MIN, i64::MAX].map(|above| told_by(closed_value(above))),
            [Some(0), Some(VALUE_MAX + 1)]
        );
        assert_eq!([0, 1, VALUE_MAX, VALUE_MAX + 1, CLOSED - 1, i64::MAX].map(told_by), [None; 6]);
        let tells = |last_value, log_cnt, is_called| {
            SequencePage::tell(sys::FormData_pg_sequence_data { last_value, log_cnt, is_called })
        };
        let mark = Mark { taken_by: Taker::Node(3), stage: Stage::Closed };
        assert_eq!(tells(closed_value(7), mark.to_log_cnt(), 0), Shut { above: 7, taken_by: Taker::Node(3) });
        // As Citus has made it, open, opened by nextval(), from a dump, by a session with 0.3.0 since, of 0.3.0.
        assert_eq!(tells((3 << 48) + 1, 0, 0), Shut { above: 0, taken_by: Taker::Nobody });
        assert_eq!(tells(7, 32, 1), Shut { above: 8, taken_by: Taker::Nobody });
        assert_eq!(tells(closed_value(7), 32, 1), Shut { above: 8, taken_by: Taker::Unknown });
        assert_eq!(tells(closed_value(7), 0, 0), Shut { above: 7, taken_by: Taker::Unknown });
        assert_eq!(tells(closed_value(7), 3, 0), Shut { above: 7, taken_by: Taker::Unknown });
        assert_eq!(tells(7, 10, 0), Shut { above: 7, taken_by: Taker::Node(3) });
    }
}

/// A sequence's one page, pinned and locked exclusively.
///
/// Without a destructor, since an error leaves by `longjmp`: then the transaction's abort lets go of the page.
#[derive(Clone, Copy)]
struct SequencePage<'a> {
    facts: &'a Facts,
    buffer: pg_sys::Buffer,
    page: pg_sys::Page,
    tuple: pg_sys::HeapTupleHeader,
    tuple_len: u32,
}

impl<'a> SequencePage<'a> {
    /// In the buffer where it last was, if it still is there; else wherever the buffer manager has it or puts it.
    #[inline(always)]
    unsafe fn lock(sequence: Oid, facts: &'a Facts, known: &mut Known) -> Result<SequencePage<'a>, Refusal> {
        // SAFETY: a sequence has block 0, and on it one tuple; a pinned buffer's page stays in place.
        unsafe {
            const MAIN: pg_sys::ForkNumber::Type = pg_sys::ForkNumber::MAIN_FORKNUM;
            let is_recent = known.buffer != pg_sys::InvalidBuffer as pg_sys::Buffer
                && sys::ReadRecentBuffer(facts.locator, MAIN, 0, known.buffer);
            if !is_recent {
                known.looked = true;
                let relation = sys::relation_open(sequence, NoLock);
                known.buffer = sys::ReadBuffer(relation, 0);
                sys::relation_close(relation, NoLock);
            }
            let buffer = known.buffer;
            lock_exclusively(buffer);
            let page = pg_sys::BufferGetPage(buffer);
            let Some((tuple, tuple_len)) = sys::sequence_tuple(page) else {
                sys::UnlockReleaseBuffer(buffer);
                return Err(Refusal::BadMagic);
            };
            Ok(SequencePage { facts, buffer, page, tuple, tuple_len })
        }
    }

    unsafe fn unlock(self) {
        // SAFETY: locked and pinned by `lock`.
        unsafe { sys::UnlockReleaseBuffer(self.buffer) }
    }

    /// Reads the state, asks the rule, and where it gives values records and applies them.
    ///
    /// The caller came when the clock was at `came_us`, in microseconds from the epoch. Where that is not enough for a value
    /// the clock is read again: a wait must count from a moment at which the page was seen as it is. What others issued
    /// until then, before someone set the sequence back, is of no later millisecond than the lead allows.
    unsafe fn take(
        self,
        epoch: Epoch,
        site: Site,
        came_us: i64,
        want: i64,
        paid: Option<Wait>,
        known: &mut Known,
    ) -> Result<Outcome, Refusal> {
        // SAFETY: the page is locked; as for `visit`.
        unsafe {
            let data = self.data();
            let mut state = State { last_value: data.last_value, is_called: data.is_called != 0 };
            if !state.is_called {
                if site.wants_open() && self.is_shut(data) {
                    return Err(Refusal::Shut);
                }
                if data.log_cnt != 0 || told_by(data.last_value).is_some() {
                    return Err(Refusal::OfAShard);
                }
                if self.facts.has_range_of_node {
                    state.last_value = 0;
                }
            }
            let lsn = sys::PageGetLSN(self.page);
            let paid = paid.filter(|wait| wait.lsn == lsn).map(|wait| wait.state);
            let ask = |clock_us: i64| tick::next(state, clock_us.div_euclid(US_PER_MS), want, paid);
            let (mut clock_us, mut next) = (came_us, ask(came_us));
            let min = self.facts.min_value;
            if !matches!(next, Next::Take(run) if run.first >= min) {
                clock_us = elapsed_us(epoch);
                next = ask(clock_us);
            }
            let now_ms = clock_us.div_euclid(US_PER_MS);
            let run = match next {
                Next::Take(run) => run,
                Next::Wait { ticks } => return Ok(Outcome::Wait(Wait { state, lsn, clock_us, ticks })),
                Next::Exhausted if told_by(state.last_value).is_some() => {
                    return Err(if site.wants_open() { Refusal::Shut } else { Refusal::OfAShard });
                }
                Next::Exhausted => {
                    let (last_value, min_value) = (state.last_value, self.facts.min_value);
                    return Err(Refusal::Exhausted { last_value, min_value });
                }
                Next::ClockBeforeEpoch => return Err(Refusal::ClockBeforeEpoch),
                Next::ClockPastField => return Err(Refusal::ClockPastField),
            };
            if run.first < min {
                return Err(Refusal::Unfit(Unfit { min: Some(min), ..Unfit::default() }));
            }
            let must_record = !state.is_called || !self.is_covered_by_wal(known);
            let plan = tick::durability(state.last_value, data.log_cnt, run.last(), now_ms, must_record);
            self.step(run.last(), plan, known);
            Ok(Outcome::Taken { run, ahead_ms: tick::ms_of(run.first) - now_ms })
        }
    }

    /// Makes `value` the last one, unless the sequence has been called and is there or further; returns the last
    /// one then.
    unsafe fn advance_to(self, epoch: Epoch, value: i64, known: &mut Known) -> Result<i64, Refusal> {
        // SAFETY: the page is locked; as for `visit`.
        unsafe {
            let data = self.data();
            if self.is_shut(data) {
                return Err(Refusal::Shut);
            }
            if data.is_called != 0 && data.last_value >= value {
                return Ok(data.last_value);
            }
            let now_ms = elapsed_us(epoch).div_euclid(US_PER_MS);
            self.step(value, tick::durability(data.last_value, 0, value, now_ms, true), known);
            Ok(value)
        }
    }

    /// Whether this copy must be opened first. One that was closed tells by itself, also in a session that has not heard of
    /// Citus yet.
    fn is_shut(self, data: sys::FormData_pg_sequence_data) -> bool {
        told_by(data.last_value).is_some() || data.is_called == 0 && (self.facts.is_copy || data.log_cnt != 0)
    }

    /// The mark of a closed copy. One of 0.3.0 that stands beside what a later version tells is of a session that has
    /// that library still, which has lost the taker.
    fn mark(data: sys::FormData_pg_sequence_data) -> Option<Mark> {
        let is_lost =
            data.is_called != 0 || data.log_cnt & Mark::FLAG == 0 && told_by(data.last_value).is_some();
        if is_lost { None } else { Mark::of_log_cnt(data.log_cnt) }
    }

    /// What a copy tells, closed or not. Where one starts that was never called is no time; what Citus lets the copies of
    /// group 2 and above start with would be years ahead.
    fn tell(data: sys::FormData_pg_sequence_data) -> Shut {
        let is_called = data.is_called != 0;
        match (told_by(data.last_value), SequencePage::mark(data)) {
            (told, Some(mark)) => Shut { above: told.unwrap_or(data.last_value), taken_by: mark.taken_by },
            (Some(told), None) => Shut { above: told + i64::from(is_called), taken_by: Taker::Unknown },
            (None, None) if is_called => {
                Shut { above: data.last_value.saturating_add(1), taken_by: Taker::Nobody }
            }
            (None, None) => Shut { above: 0, taken_by: Taker::Nobody },
        }
    }

    /// See [`begin_to_open`].
    unsafe fn begin_to_open(self, attempt: Attempt, known: &mut Known) -> Result<Option<Shut>, Refusal> {
        // SAFETY: the page is locked; as for `visit`.
        unsafe {
            let data = self.data();
            if !self.is_shut(data) {
                return Ok(None);
            }
            let tells = SequencePage::tell(data);
            let mark = Mark { taken_by: tells.taken_by, stage: Stage::Opening(attempt) };
            self.write_shut(tells.above, mark, known);
            Ok(Some(tells))
        }
    }

    /// See [`raise`].
    unsafe fn raise(self, attempt: Attempt, floor: i64, known: &mut Known) -> Result<bool, Refusal> {
        // SAFETY: as for `begin_to_open`.
        unsafe {
            let data = self.data();
            let Some(mark) = SequencePage::mark(data).filter(|mark| mark.stage == Stage::Opening(attempt))
            else {
                return Ok(false);
            };
            self.write_shut(SequencePage::tell(data).above.max(floor), mark, known);
            self.flush();
            Ok(true)
        }
    }

    /// See [`open`].
    unsafe fn open(self, epoch: Epoch, attempt: Attempt, known: &mut Known) -> Result<bool, Refusal> {
        // SAFETY: as for `begin_to_open`.
        unsafe {
            let data = self.data();
            if SequencePage::mark(data).is_none_or(|mark| mark.stage != Stage::Opening(attempt)) {
                return Ok(false);
            }
            let now_ms = elapsed_us(epoch).div_euclid(US_PER_MS);
            let floor = SequencePage::tell(data).above.min(VALUE_MAX);
            self.step(floor, tick::durability(data.last_value, 0, floor, now_ms, true), known);
            Ok(true)
        }
    }

    /// See [`close`].
    unsafe fn close(self, attempt: Attempt, known: &mut Known) -> Result<Shut, Refusal> {
        // SAFETY: as for `begin_to_open`.
        unsafe {
            let tells = SequencePage::tell(self.data());
            let mark = Mark { taken_by: tells.taken_by, stage: Stage::ClosedFor(attempt) };
            self.write_shut(tells.above, mark, known);
            self.flush();
            Ok(tells)
        }
    }

    /// See [`name_taker`].
    unsafe fn name_taker(self, taker: Taker, attempt: Attempt, known: &mut Known) -> Result<bool, Refusal> {
        // SAFETY: as for `begin_to_open`.
        unsafe {
            let data = self.data();
            if SequencePage::mark(data).is_none_or(|mark| mark.stage != Stage::ClosedFor(attempt)) {
                return Ok(false);
            }
            let mark = Mark { taken_by: taker, stage: Stage::Closed };
            self.write_shut(SequencePage::tell(data).above, mark, known);
            self.flush();
            Ok(true)
        }
    }

    /// Puts the record just written on disk, whatever `synchronous_commit` says: a crash must not undo it.
    unsafe fn flush(self) {
        if self.facts.needs_wal {
            // SAFETY: the record is on the page, with its position.
            unsafe { sys::XLogFlush(sys::PageGetLSN(self.page)) }
        }
    }

    /// Closes this copy, or changes its mark: `above` is where it would go on.
    unsafe fn write_shut(self, above: i64, mark: Mark, known: &mut Known) {
        // SAFETY: in the order of `step`.
        unsafe {
            let data = sys::sequence_data(self.tuple);
            if self.facts.needs_wal {
                sys::GetTopTransactionId();
            }
            sys::START_CRIT_SECTION();
            sys::MarkBufferDirty(self.buffer);
            *data = sys::FormData_pg_sequence_data {
                last_value: closed_value(above),
                log_cnt: mark.to_log_cnt(),
                is_called: 0,
            };
            if self.facts.needs_wal {
                self.log();
            }
            sys::END_CRIT_SECTION();
            if self.facts.needs_wal {
                known.logged_file = sys::file_number(self.facts.locator);
                known.safe = Some(Safe::when_committed(sys::PageGetLSN(self.page), sys::commit_level()));
            }
        }
    }

    /// Writes what is on the page to WAL.
    unsafe fn log(self) {
        // SAFETY: the page is locked and dirty, in a critical section.
        unsafe {
            sys::log_sequence_tuple(self.facts.locator, self.buffer, self.page, self.tuple, self.tuple_len);
        }
    }

    /// What the page holds.
    unsafe fn data(self) -> sys::FormData_pg_sequence_data {
        // SAFETY: the page is locked, and was found to be a sequence's.
        unsafe { *sys::sequence_data(self.tuple) }
    }

    /// Whether `log_cnt` can be believed: WAL that a crash would replay holds a record of this very file.
    ///
    /// Records from before the last checkpoint's redo point are not replayed. And a file that came into being
    /// as a copy (a database made from a template, a sequence made logged) has the `log_cnt` of the original,
    /// but no record of its own: so every backend's first value from a file is recorded.
    unsafe fn is_covered_by_wal(self, known: &Known) -> bool {
        // SAFETY: the page is locked.
        unsafe {
            known.logged_file == sys::file_number(self.facts.locator)
                && sys::PageGetLSN(self.page) > sys::GetRedoRecPtr()
        }
    }

    /// Makes `new_value` the sequence's last one: first in WAL, ahead of it, then on the page.
    unsafe fn step(self, new_value: i64, plan: tick::Durability, known: &mut Known) {
        // SAFETY: the order is nextval_internal's. The transaction id is assigned before the critical section,
        // in which an error would be a panic, so that the commit waits for the record to be flushed. The buffer
        // is dirty before the record is inserted, lest a checkpoint miss it; no one sees the page with the
        // logged values, since it is locked until the true ones are back.
        unsafe {
            let data = sys::sequence_data(self.tuple);
            let record = plan.record.filter(|_| self.facts.needs_wal);
            if record.is_some() {
                sys::GetTopTransactionId();
            }
            sys::START_CRIT_SECTION();
            sys::MarkBufferDirty(self.buffer);
            (*data).is_called = 1;
            if let Some(logged_value) = record {
                (*data).last_value = logged_value;
                (*data).log_cnt = 0;
                self.log();
            }
            (*data).last_value = new_value;
            // What has no WAL has nothing logged ahead; it may get WAL later, with this page as it stands.
            (*data).log_cnt = if self.facts.needs_wal { plan.log_cnt } else { 0 };
            sys::END_CRIT_SECTION();
            if record.is_some() {
                known.logged_file = sys::file_number(self.facts.locator);
                known.safe = Some(Safe::when_committed(sys::PageGetLSN(self.page), sys::commit_level()));
            }
        }
    }
}

/// Locks a page that others, as a rule, hold for less than a tenth of a microsecond at a time: where several sessions want
/// it at once it is sooner had by trying again for some microseconds than by being put to sleep and woken.
unsafe fn lock_exclusively(buffer: pg_sys::Buffer) {
    const TRIES: usize = 20;
    const PAUSES_BETWEEN: usize = 8;
    // SAFETY: the caller has pinned the buffer.
    unsafe {
        for _ in 0..TRIES {
            if sys::ConditionalLockBuffer(buffer) {
                return;
            }
            (0..PAUSES_BETWEEN).for_each(|_| std::hint::spin_loop());
        }
        sys::lock_buffer_exclusively(buffer);
    }
}

/// Sleeps until the clock has ticked so often (at most so many ms), then lets a cancel or a timeout through.
fn wait_for_ticks(Wait { clock_us, ticks, .. }: Wait, epoch: Epoch) {
    let now_us = epoch.elapsed_us(names::now());
    let last_tick_us = (clock_us.div_euclid(US_PER_MS) + ticks) * US_PER_MS;
    // The clock may have been set in between; ticks of real time never take longer than this.
    let left_us = (last_tick_us - now_us).clamp(0, ticks * US_PER_MS);
    sys::pgstat_report_wait_start(pg_sys::PG_WAIT_EXTENSION);
    std::thread::sleep(Duration::from_micros(left_us as u64));
    sys::pgstat_report_wait_end();
    pgrx::check_for_interrupts!();
}

/// Warns that ids are of a time to come, the first time in a session that makes such ids.
#[cold]
fn warn_once(clock: Clock, run: Run) {
    // By the clock as it is now: the session may have come long before it got the page.
    let now_ms = clock.epoch.elapsed_us(names::now()).div_euclid(US_PER_MS);
    let ahead_ms = tick::ms_of(run.first) - now_ms;
    if ahead_ms <= WARN_AHEAD_MS || HAS_WARNED.replace(true) {
        return;
    }
    let name = format!("sequence {}", names::relation(clock.sequence));
    let message = names::ahead_of_clock(&name, ahead_ms / 1000);
    ErrorReport::new(PgSqlErrorCode::ERRCODE_WARNING, message, "instagram_id")
        .set_hint(
            "Check the clock of the server. The view shards shows how far each shard is ahead; ids stay unique and in order.",
        )
        .report(PgLogLevel::WARNING);
}

/// The error for a refusal.
fn explain(refusal: Refusal, clock: Clock, function: &'static str) -> Error {
    let Clock { sequence, epoch } = clock;
    let name = || names::relation(sequence);
    let clock_and_epoch = || (names::time(names::now()), names::time(epoch.at()));
    match refusal {
        Refusal::Missing => Error::SequenceMissing(sequence),
        Refusal::NotSequence => Error::NotSequence(name()),
        // Closed where nothing else is wrong with it: who moves a shard ends its sequence where that stands, for good.
        Refusal::Unfit(unfit) => match unfit.max {
            Some(max)
                if unfit == (Unfit { max: Some(max), ..Unfit::default() })
                    && state(sequence).is_some_and(|state| {
                        state.last_value >= max && told_by(state.last_value).is_none()
                    }) =>
            {
                Error::Closed { name: name(), max }
            }
            _ => Error::Unfit { name: name(), unfit },
        },
        Refusal::NoRight { update } => {
            Error::NoRightOnSequence { name: name(), role: names::current_role(), update }
        }
        Refusal::ReadOnly => Error::ReadOnly {
            function,
            // SAFETY: asks shared memory, without effect.
            standby: unsafe { sys::RecoveryInProgress() },
        },
        Refusal::Parallel => Error::Parallel(function),
        Refusal::BadMagic => Error::BadMagic(name()),
        Refusal::Exhausted { last_value, min_value } => {
            Error::Exhausted { name: name(), last_value, min_value }
        }
        Refusal::ClockBeforeEpoch => {
            let (time, epoch) = clock_and_epoch();
            Error::ClockBeforeEpoch { time, epoch }
        }
        Refusal::ClockPastField => {
            let (time, epoch) = clock_and_epoch();
            Error::ClockPastField { time, epoch }
        }
        Refusal::OfAShard => Error::SequenceOfAShard(name()),
        Refusal::OfAnotherGroup(group) => Error::CopyOfAnotherGroup { name: name(), group },
        Refusal::NotPermitted | Refusal::StandingUnknown | Refusal::Elsewhere | Refusal::Shut => {
            unreachable!("something can be done about it")
        }
    }
}

//! A model of sessions that generate ids from one sequence: its page, the WAL, crashes, standbys,
//! and clocks that jump.
//!
//! The code of the extension determines the next value ([`hlc::visit`]), the WAL record
//! ([`hlc::durability`]), the time that a session waits ([`hlc::Wait`]), and the flushes
//! ([`CommitTracker`]). The model adds:
//!
//! - the lock on the page: a visit is one step, and the session may read the clock long before
//! - the lock on the sequence: a RESTART waits until all transactions that use the sequence have
//!   ended
//! - WAL, checkpoints and recovery as in PostgreSQL: a record replaces the whole page, and recovery
//!   replays the records after the redo point of the last completed checkpoint
//! - a standby, which has received all or part of the flushed WAL
//!
//! An id counts as acknowledged when its transaction has committed with `synchronous_commit` on.

use crate::checker::{Protocol, Size};
use instagram_id_core::copy::Tuple;
use instagram_id_core::durable::{CommitLevel, CommitTracker, DurableRecord, Lsn, Wal};
use instagram_id_core::epoch::US_PER_MS;
use instagram_id_core::hlc::{self, LEAD_MS, LOG_AHEAD_MIN_MS, LOG_AHEAD_MS, Next, Seen, Wait};
use instagram_id_core::layout::{SEQ_BITS, SEQ_MAX};
use stateright::{Model, Property};
use std::fmt;

/// The clock at the start, in milliseconds since the epoch.
const NOW: i64 = 480_000_000_000;
/// More values than a millisecond has.
const MANY: i64 = 2000;
const SESSIONS: usize = 2;
/// The number of values that PostgreSQL's nextval logs ahead.
const SEQ_LOG_VALS: i64 = 32;

// The properties.
const UNIQUE: &str = "no id is issued twice";
const INCREASING: &str = "each id is greater than every acknowledged id";
const NOT_AHEAD: &str = "no id is further ahead of the clock than documented";
const AVAILABLE: &str = "a session that runs alone gets an id, greater than every acknowledged id";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A session that has waited compares only the state of the page, not its LSN.
    WaitPaysForEqualState,
    /// A wait starts when the session reads the clock, instead of when it visits the page.
    NoSecondLook,
    /// The wait after a reset is one tick, and does not include the lead.
    ShortWaitAfterReset,
    /// A session does not wait after a reset.
    NoWaitAfterReset,
    /// A session does not wait before it takes a value that is ahead of the clock by more than the
    /// lead.
    NoWaitForTheClock,
    /// The WAL record contains the issued value, instead of a later one.
    NothingLoggedAhead,
    /// A value that was logged ahead is issued without a new record, even if a checkpoint has begun
    /// since.
    CheckpointIgnored,
    /// A value is issued without a record, even if the backend's last record was for another file
    /// of the sequence.
    FileIgnored,
    /// A session does not flush a record that another transaction has written.
    RecordNotFlushed,
    /// A session flushes such a record only on this server. Its commit does not wait for the
    /// standby.
    StandbyNotAwaited,
    /// A record counts as durable, even if its transaction was rolled back.
    RollbackTrusted,
    /// A record that was used under `synchronous_commit = off` is not flushed at a commit that
    /// requires it.
    CommitDoesNoRest,
    /// A record that a transaction has written counts as durable even if the transaction commits at
    /// a lower level.
    LowerCommitTrusted,
    /// The page is marked dirty only after the redo point was read.
    DirtyAfterRedo,
    /// The WAL record is ten seconds ahead of the clock.
    LoggedTooFarAhead,
}

/// The number of times that each event may still occur.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Budget {
    visits: u8,
    ticks: u8,
    jumps: u8,
    crashes: u8,
    promotions: u8,
    checkpoints: u8,
    rollbacks: u8,
    resets: u8,
    restarts: u8,
    copies: u8,
    nextvals: u8,
    /// The number of values that a session may ask for in one visit.
    wants: Wants,
    /// Whether a checkpoint can begin while a session holds the lock on the page.
    splits_visits: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum Wants {
    #[default]
    One,
    Many,
    OneOrMany,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Phase {
    /// Outside a transaction.
    Idle,
    /// Holds the lock on the sequence, in a transaction, and has read the clock.
    Arrived { clock_us: i64, waited_on: Option<Wait> },
    /// Sleeps until this real millisecond.
    Waiting { wait: Wait, until_ms: i64 },
    /// Holds the lock on the page, and has decided which values to take and whether a record is
    /// due.
    Locked { run: hlc::Run, now_ms: i64, must_record: bool },
    /// Has taken values from the page with this LSN, and has released the page.
    Taken { lsn: Lsn },
    /// Has made the record durable, and returned the values to the client.
    Returned,
    /// Has committed on this server, and waits until the standby confirms the WAL up to this
    /// position.
    Confirming { lsn: Lsn },
}

/// The `synchronous_commit` of a transaction, during the call and at the commit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Levels {
    On,
    Off,
    OffInCall,
    OffAtCommit,
}

impl Levels {
    fn in_call(self) -> CommitLevel {
        match self {
            Levels::On | Levels::OffAtCommit => CommitLevel::REMOTE_APPLY,
            Levels::Off | Levels::OffInCall => CommitLevel::OFF,
        }
    }

    fn at_commit(self) -> CommitLevel {
        match self {
            Levels::On | Levels::OffInCall => CommitLevel::REMOTE_APPLY,
            Levels::Off | Levels::OffAtCommit => CommitLevel::OFF,
        }
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Levels::On => "",
            Levels::Off => " with synchronous_commit = off",
            Levels::OffInCall => " with synchronous_commit = off, which it sets on later",
            Levels::OffAtCommit => " with synchronous_commit = on, which it sets off later",
        })
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Session {
    /// Of its last transaction.
    levels: Levels,
    phase: Phase,
    /// The largest value of its transaction.
    largest: Option<i64>,
    tracker: CommitTracker,
    /// The last record that this backend has made durable.
    durable: Option<DurableRecord>,
    /// The file for which this backend has written a record.
    logged_file: Option<u8>,
    /// Whether its transaction has an id. Then it writes a commit record.
    has_id: bool,
}

impl Session {
    fn new() -> Session {
        let (levels, tracker, phase) = (Levels::On, CommitTracker::NEW, Phase::Idle);
        Session {
            levels,
            phase,
            largest: None,
            tracker,
            durable: None,
            logged_file: None,
            has_id: false,
        }
    }
}

/// The page of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Page {
    tuple: Tuple,
    lsn: Lsn,
    file: u8,
}

/// Whether commits on this server wait for the standby.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Standby {
    Synchronous,
    Asynchronous,
}

/// The checkpoint that is running.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Checkpoint {
    None,
    /// Has set the redo point.
    Begun,
    /// Has determined which pages are dirty, and writes only these.
    Chosen {
        writes_page: bool,
    },
}

/// An `ALTER SEQUENCE RESTART` whose transaction has not ended, and the state before it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Restart {
    session: usize,
    old: Page,
    old_on_disk: Page,
    old_issued: i64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    /// Milliseconds of real time.
    real_ms: i64,
    /// The error of the clock, in milliseconds.
    offset_ms: i64,
    page: Page,
    /// The page in the data file.
    on_disk: Page,
    /// The page in each record, or `None` for the end of a transaction. The position of a record is
    /// its index plus one.
    wal: Vec<Option<Page>>,
    flushed: Lsn,
    /// The position up to which the standby has received WAL.
    received: Lsn,
    standby: Standby,
    /// The levels that a transaction may have.
    levels: &'static [Levels],
    /// Whether the page has changes that are not in the data file.
    is_dirty: bool,
    checkpoint: Checkpoint,
    /// The redo point of the last checkpoint that has begun.
    redo: Lsn,
    /// The redo point of the last completed checkpoint, from which recovery starts.
    recovery_from: Lsn,
    restart: Option<Restart>,
    sessions: [Session; SESSIONS],
    budget: Budget,
    /// The largest value issued since the last crash, and the largest acknowledged value.
    issued: i64,
    acknowledged: i64,
    /// The number of milliseconds that the sequence may be ahead of the clock.
    ahead_max_ms: i64,
    violation: Option<Violation>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Violation {
    Repeated,
    NotAboveAcknowledged,
    TooFarAhead,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    Arrive(usize, Levels),
    Continue(usize),
    Visit(usize, i64),
    Change(usize),
    Wake(usize),
    MakeDurable(usize),
    Commit(usize),
    Confirm(usize),
    Rollback(usize),
    Restart(usize),
    Tick(i64),
    Jump(i64),
    Reset,
    CopyFile,
    Nextval,
    BeginCheckpoint,
    ChoosePages,
    EndCheckpoint,
    Receive,
    Crash { is_all_wal_on_disk: bool },
    Promote,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Arrive(i, levels) => {
                write!(f, "session {i} begins a transaction{levels}, and reads the clock")
            }
            Action::Continue(i) => {
                write!(f, "session {i} reads the clock, in the same transaction")
            }
            Action::Visit(i, 1) => write!(f, "session {i} visits the page, and asks for one value"),
            Action::Visit(i, _) => {
                write!(f, "session {i} visits the page, and asks for all values of a millisecond")
            }
            Action::Change(i) => write!(f, "session {i} changes the page, and releases it"),
            Action::Wake(i) => write!(f, "session {i} wakes up, and reads the clock"),
            Action::MakeDurable(i) => {
                write!(f, "session {i} makes the record durable, and returns the value")
            }
            Action::Commit(i) => write!(f, "session {i} commits"),
            Action::Confirm(i) => {
                write!(f, "session {i} gets the standby's confirmation of its commit")
            }
            Action::Rollback(i) => write!(f, "session {i} rolls back"),
            Action::Restart(i) => {
                write!(f, "session {i} begins a transaction, and runs ALTER SEQUENCE RESTART")
            }
            Action::Tick(ms) => write!(f, "{ms} ms of time passes"),
            Action::Jump(ms) => write!(f, "the clock jumps by {ms} ms"),
            Action::Reset => write!(f, "a client sets the sequence to 1 with setval()"),
            Action::CopyFile => write!(f, "the sequence gets a new file, with a copy of its page"),
            Action::Nextval => write!(f, "a client calls nextval()"),
            Action::BeginCheckpoint => write!(f, "a checkpoint begins"),
            Action::ChoosePages => write!(f, "the checkpoint determines whether the page is dirty"),
            Action::EndCheckpoint => {
                write!(f, "the checkpoint writes the page if it was dirty, and ends")
            }
            Action::Receive => write!(f, "the standby receives the flushed WAL"),
            Action::Crash { is_all_wal_on_disk: true } => {
                write!(f, "the server crashes; all of its WAL is on disk")
            }
            Action::Crash { .. } => {
                write!(f, "the server crashes; only the flushed WAL is on disk")
            }
            Action::Promote => write!(f, "the server is lost, and the standby is promoted"),
        }
    }
}

/// The WAL of the state, for one session.
struct ModelWal<'a> {
    flushed: &'a mut Lsn,
    has_id: &'a mut bool,
}

impl Wal for ModelWal<'_> {
    fn flush(&mut self, lsn: Lsn) {
        *self.flushed = lsn.max(*self.flushed);
    }

    // The commit record follows that position. So a commit that waits for its own record also waits
    // for that position.
    fn make_commit_wait_for(&mut self, _lsn: Lsn) {
        *self.has_id = true;
    }
}

impl State {
    fn clock_us(&self) -> i64 {
        (NOW + self.real_ms + self.offset_ms) * US_PER_MS
    }

    fn highest_level(&self) -> CommitLevel {
        match self.standby {
            Standby::Synchronous => CommitLevel::REMOTE_APPLY,
            Standby::Asynchronous => CommitLevel::LOCAL,
        }
    }

    /// Writes a record with the page as it would be with this tuple, and sets the page's LSN.
    fn log(&mut self, tuple: Tuple) {
        self.page.lsn = self.wal.len() as Lsn + 1;
        self.wal.push(Some(Page { tuple, ..self.page }));
    }

    /// A session visits the page.
    fn visit(&mut self, i: usize, want: i64, fault: Option<Fault>) {
        let Phase::Arrived { clock_us: arrived_us, waited_on } = self.sessions[i].phase.clone()
        else {
            return;
        };
        let Page { tuple, lsn, file } = self.page;
        let state = hlc::State { last_value: tuple.last_value, is_called: tuple.is_called };
        let is = |of: Fault| fault == Some(of);
        // With this fault the session ignores the LSN of the page.
        let seen = Seen { state, lsn: if is(Fault::WaitPaysForEqualState) { 0 } else { lsn } };
        let now_us = if is(Fault::NoSecondLook) { arrived_us } else { self.clock_us() };
        let (mut next, mut clock_us) = hlc::visit(seen, arrived_us, || now_us, want, 0, waited_on);
        if let Next::Wait { ticks } = next {
            let is_reset = ticks > 1;
            if is(Fault::NoWaitAfterReset) && is_reset || is(Fault::NoWaitForTheClock) && !is_reset
            {
                let waited_on = Some(Wait { seen, clock_us, ticks });
                (next, clock_us) = hlc::visit(seen, now_us, || now_us, want, 0, waited_on);
            } else if is(Fault::ShortWaitAfterReset) {
                next = Next::Wait { ticks: 1 };
            }
        }
        let run = match next {
            Next::Take(run) => run,
            Next::Wait { ticks } => {
                let wait = Wait { seen, clock_us, ticks };
                // Rounded up to whole milliseconds.
                let left_ms = (wait.left_us(self.clock_us()) + US_PER_MS - 1) / US_PER_MS;
                self.sessions[i].phase = Phase::Waiting { wait, until_ms: self.real_ms + left_ms };
                return;
            }
            refused => unreachable!("{refused:?}"),
        };
        self.check(run);

        // The real session marks the page dirty before it reads the redo point.
        self.is_dirty |= !is(Fault::DirtyAfterRedo);
        let is_covered = (self.sessions[i].logged_file == Some(file) || is(Fault::FileIgnored))
            && (lsn > self.redo || is(Fault::CheckpointIgnored));
        let now_ms = clock_us.div_euclid(US_PER_MS);
        let must_record = !tuple.is_called || !is_covered;
        self.sessions[i].phase = Phase::Locked { run, now_ms, must_record };
        if !self.budget.splits_visits {
            self.change(i, fault);
        }
    }

    /// A session changes the page that it has locked, and releases it.
    fn change(&mut self, i: usize, fault: Option<Fault>) {
        let Phase::Locked { run, now_ms, must_record } = self.sessions[i].phase else { return };
        let Page { tuple, file, .. } = self.page;
        let plan =
            hlc::durability(tuple.last_value, tuple.log_cnt, run.last(), now_ms, must_record);
        if let Some(record) = plan.record {
            let last_value = match fault {
                Some(Fault::NothingLoggedAhead) => run.last(),
                Some(Fault::LoggedTooFarAhead) => record + (10_000 << SEQ_BITS),
                _ => record,
            };
            self.log(Tuple { last_value, log_cnt: 0, is_called: true });
            let level = self.sessions[i].levels.in_call().min(self.highest_level());
            let session = &mut self.sessions[i];
            session.has_id = true;
            session.logged_file = Some(file);
            session.durable = Some(session.tracker.when_committed(self.page.lsn, level));
        }
        self.page.tuple = Tuple { last_value: run.last(), log_cnt: plan.log_cnt, is_called: true };
        self.is_dirty = true;
        let session = &mut self.sessions[i];
        session.largest = session.largest.max(Some(run.last()));
        session.phase = Phase::Taken { lsn: self.page.lsn };
    }

    /// Checks values that are about to be issued.
    fn check(&mut self, run: hlc::Run) {
        let now_ms = self.clock_us().div_euclid(US_PER_MS);
        if run.first <= self.acknowledged {
            self.violation = Some(Violation::NotAboveAcknowledged);
        } else if run.first <= self.issued {
            self.violation = Some(Violation::Repeated);
        } else if hlc::ms_of(run.last()) > now_ms + self.ahead_max_ms {
            self.violation = Some(Violation::TooFarAhead);
        }
        self.issued = run.last();
    }

    fn make_durable(&mut self, i: usize, fault: Option<Fault>) {
        let highest = self.highest_level();
        let (session, flushed) = (&mut self.sessions[i], &mut self.flushed);
        let Phase::Taken { lsn } = session.phase else { return };
        let mut level = session.levels.in_call().min(highest);
        if fault == Some(Fault::StandbyNotAwaited) {
            level = level.min(CommitLevel::LOCAL);
        }
        let is_durable = session.tracker.covers(session.durable, lsn, highest);
        if !is_durable && fault != Some(Fault::RecordNotFlushed) {
            let wal = &mut ModelWal { flushed, has_id: &mut session.has_id };
            session.durable = session.tracker.use_record(session.durable, lsn, level, wal);
        }
        session.phase = Phase::Returned;
    }

    fn commit(&mut self, i: usize, fault: Option<Fault>) {
        let level = self.sessions[i].levels.at_commit().min(self.highest_level());
        let (session, flushed) = (&mut self.sessions[i], &mut self.flushed);
        if fault != Some(Fault::CommitDoesNoRest) {
            let local = fault == Some(Fault::StandbyNotAwaited);
            let level = if local { level.min(CommitLevel::LOCAL) } else { level };
            let writes_record = session.has_id;
            let wal = &mut ModelWal { flushed, has_id: &mut session.has_id };
            session.tracker.before_commit(level, writes_record, wal);
        }
        if !session.has_id {
            return self.end(i, level, fault);
        }
        self.wal.push(None);
        let lsn = self.wal.len() as Lsn;
        if level != CommitLevel::OFF {
            self.flushed = lsn;
        }
        if level.waits_for_standbys() {
            self.sessions[i].phase = Phase::Confirming { lsn };
        } else {
            self.end(i, level, fault);
        }
    }

    /// Ends a transaction that has committed at this level.
    fn end(&mut self, i: usize, level: CommitLevel, fault: Option<Fault>) {
        let session = &mut self.sessions[i];
        let is_trusted = fault == Some(Fault::LowerCommitTrusted);
        session.tracker.end(if is_trusted { CommitLevel::REMOTE_APPLY } else { level });
        session.phase = Phase::Idle;
        session.has_id = false;
        let largest = session.largest.take();
        if level != CommitLevel::OFF {
            self.acknowledged = self.acknowledged.max(largest.unwrap_or(i64::MIN));
        }
        self.restart = None;
    }

    fn roll_back(&mut self, i: usize, fault: Option<Fault>) {
        let session = &mut self.sessions[i];
        let is_trusted = fault == Some(Fault::RollbackTrusted);
        session.tracker.end(if is_trusted { CommitLevel::REMOTE_APPLY } else { CommitLevel::OFF });
        session.phase = Phase::Idle;
        session.has_id = false;
        session.largest = None;
        self.undo_restart();
    }

    /// Restores the state before a RESTART. No other transaction has used the new file.
    fn undo_restart(&mut self) {
        if let Some(Restart { old, old_on_disk, old_issued, .. }) = self.restart.take() {
            (self.page, self.on_disk, self.issued) = (old, old_on_disk, old_issued);
            self.is_dirty = true;
        }
    }

    fn restart(&mut self, i: usize) {
        let (old, old_on_disk, old_issued) = (self.page, self.on_disk, self.issued);
        self.restart = Some(Restart { session: i, old, old_on_disk, old_issued });
        self.page.file += 1;
        self.page.tuple = Tuple { last_value: 1, log_cnt: 0, is_called: false };
        self.log(self.page.tuple);
        self.on_disk = self.page;
        self.sessions[i].has_id = true;
        self.sessions[i].phase = Phase::Returned;
    }

    /// PostgreSQL's `setval` to 1, in a transaction that commits immediately.
    fn reset(&mut self) {
        self.page.tuple = Tuple { last_value: 1, log_cnt: 0, is_called: true };
        self.is_dirty = true;
        self.log(self.page.tuple);
        self.wal.push(None);
        self.flushed = self.wal.len() as Lsn;
    }

    /// Copies the file, as `SET LOGGED` or the creation of a database from a template does. The new
    /// page has the old `log_cnt`, but its WAL record contains the page itself and not a later
    /// value.
    fn copy_file(&mut self) {
        self.page.file += 1;
        self.log(self.page.tuple);
        self.wal.push(None);
        self.flushed = self.wal.len() as Lsn;
        self.on_disk = self.page;
    }

    /// PostgreSQL's `nextval`, in a transaction that does not commit.
    fn nextval(&mut self) {
        let Tuple { last_value, mut log_cnt, is_called } = self.page.tuple;
        let value = last_value + i64::from(is_called);
        if log_cnt < 1 || !is_called || self.page.lsn <= self.redo {
            log_cnt = SEQ_LOG_VALS;
            self.log(Tuple { last_value: value + log_cnt, log_cnt: 0, is_called: true });
        } else {
            log_cnt -= 1;
        }
        self.page.tuple = Tuple { last_value: value, log_cnt, is_called: true };
        self.is_dirty = true;
        // It opens the next millisecond without a wait.
        self.ahead_max_ms += 1;
        if value <= self.issued {
            self.violation = Some(Violation::Repeated);
        }
        self.issued = value;
    }

    fn end_checkpoint(&mut self) {
        if self.checkpoint == (Checkpoint::Chosen { writes_page: true }) {
            (self.on_disk, self.is_dirty) = (self.page, false);
        }
        // The old file of an unfinished RESTART still exists.
        if let Some(restart) = &mut self.restart {
            restart.old_on_disk = restart.old;
        }
        // A checkpoint flushes its own record and all WAL before it.
        self.flushed = self.wal.len() as Lsn;
        self.recovery_from = self.redo;
        self.checkpoint = Checkpoint::None;
    }

    /// Recovers from a data file and the WAL between two positions. The data file is that of the
    /// last checkpoint, or that of a backup.
    fn recover(&mut self, end: Lsn, from: Lsn, data_file: Page) {
        self.undo_restart();
        let file = self.page.file;
        self.wal.truncate(end as usize);
        let replayed =
            self.wal[from as usize..].iter().rev().flatten().find(|page| page.file == file);
        self.page = replayed.copied().unwrap_or(data_file);
        self.on_disk = self.page;
        // Recovery ends with a checkpoint.
        (self.flushed, self.redo, self.recovery_from) = (end, end, end);
        (self.checkpoint, self.is_dirty) = (Checkpoint::None, false);
        self.received = self.received.min(end);
        self.sessions = self.sessions.clone().map(|_| Session::new());
        self.issued = self.acknowledged;
        // The first crash takes the sequence a second ahead of the clock, and each later one adds
        // 50 ms.
        self.ahead_max_ms = self.ahead_max_ms.max(LOG_AHEAD_MS) + LOG_AHEAD_MIN_MS;
    }

    /// Whether a session gets a new value, after one wait at most, if the other sessions do
    /// nothing.
    fn can_continue(&self) -> bool {
        let mut state = self.clone();
        let i = state.restart.map_or(0, |restart| restart.session);
        // The others release the page.
        (0..SESSIONS).for_each(|other| state.change(other, None));
        state.budget.splits_visits = false;
        state.sessions[i].phase = Phase::Arrived { clock_us: state.clock_us(), waited_on: None };
        state.visit(i, 1, None);
        if let Phase::Waiting { wait, until_ms } = state.sessions[i].phase {
            if wait.ticks > 1 + LEAD_MS {
                return false;
            }
            state.real_ms = state.real_ms.max(until_ms);
            state.sessions[i].phase =
                Phase::Arrived { clock_us: state.clock_us(), waited_on: Some(wait) };
            state.visit(i, 1, None);
        }
        matches!(state.sessions[i].phase, Phase::Taken { .. }) && state.violation == self.violation
    }
}

/// The model: its first state, with the budget, and the fault that is built in.
pub struct Sequence {
    start: State,
    fault: Option<Fault>,
}

impl Sequence {
    fn start(tuple: Tuple, standby: Standby, levels: &'static [Levels], budget: Budget) -> State {
        let page = Page { tuple, lsn: 0, file: 0 };
        State {
            real_ms: 0,
            offset_ms: 0,
            page,
            on_disk: page,
            wal: vec![],
            flushed: 0,
            received: 0,
            standby,
            levels,
            is_dirty: false,
            checkpoint: Checkpoint::None,
            redo: 0,
            recovery_from: 0,
            restart: None,
            sessions: [Session::new(), Session::new()],
            budget,
            issued: if tuple.is_called { tuple.last_value } else { 0 },
            acknowledged: if tuple.is_called { tuple.last_value } else { 0 },
            ahead_max_ms: LEAD_MS.max(hlc::ms_of(tuple.last_value) - NOW),
            violation: None,
        }
    }
}

impl Model for Sequence {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start.clone()]
    }

    #[expect(clippy::too_many_lines, reason = "each kind of action in turn")]
    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let budget = &state.budget;
        let is_allowed = |i: usize| state.restart.is_none_or(|restart| restart.session == i);
        let is_locked =
            state.sessions.iter().any(|session| matches!(session.phase, Phase::Locked { .. }));
        for i in 0..SESSIONS {
            match &state.sessions[i].phase {
                Phase::Idle if budget.visits > 0 && is_allowed(i) => {
                    actions.extend(state.levels.iter().map(|levels| Action::Arrive(i, *levels)));
                }
                Phase::Idle => {}
                Phase::Locked { .. } => actions.push(Action::Change(i)),
                Phase::Arrived { .. } if budget.visits > 0 && !is_locked => {
                    if budget.wants != Wants::Many {
                        actions.push(Action::Visit(i, 1));
                    }
                    if budget.wants != Wants::One {
                        actions.push(Action::Visit(i, MANY));
                    }
                }
                Phase::Waiting { until_ms, .. } if state.real_ms >= *until_ms => {
                    actions.push(Action::Wake(i))
                }
                Phase::Arrived { .. } | Phase::Waiting { .. } => {}
                Phase::Taken { .. } => actions.push(Action::MakeDurable(i)),
                Phase::Returned => {
                    actions.push(Action::Commit(i));
                    // Takes another value in the same transaction.
                    if budget.visits > 0 {
                        actions.push(Action::Continue(i));
                    }
                    if budget.rollbacks > 0 {
                        actions.push(Action::Rollback(i));
                    }
                }
                Phase::Confirming { lsn } if state.received >= *lsn => {
                    actions.push(Action::Confirm(i))
                }
                Phase::Confirming { .. } => {}
            }
        }
        // These require that no session holds the lock on the sequence.
        if state.sessions.iter().all(|session| session.phase == Phase::Idle) {
            if budget.restarts > 0 {
                actions.push(Action::Restart(0));
            }
            if budget.copies > 0 {
                actions.push(Action::CopyFile);
            }
        }
        let is_free = state.restart.is_none() && !is_locked;
        // As documented, a reset may repeat ids after a crash or a jump of the clock.
        let can_crash = budget.crashes > 0 && budget.resets == 0 && budget.restarts == 0;
        let can_promote = budget.promotions > 0;
        let writes_page = matches!(state.checkpoint, Checkpoint::Chosen { writes_page: true });
        let events = [
            (budget.ticks > 0, Action::Tick(1)),
            (budget.jumps > 0, Action::Jump(-2)),
            (budget.jumps > 0, Action::Jump(1)),
            (budget.jumps > 0, Action::Jump(1500)),
            (budget.resets > 0 && is_free, Action::Reset),
            (budget.nextvals > 0 && is_free, Action::Nextval),
            (
                budget.checkpoints > 0 && state.checkpoint == Checkpoint::None,
                Action::BeginCheckpoint,
            ),
            (state.checkpoint == Checkpoint::Begun, Action::ChoosePages),
            (
                matches!(state.checkpoint, Checkpoint::Chosen { .. })
                    && !(writes_page && is_locked),
                Action::EndCheckpoint,
            ),
            (
                (can_promote || state.standby == Standby::Synchronous)
                    && state.received < state.flushed,
                Action::Receive,
            ),
            (can_crash, Action::Crash { is_all_wal_on_disk: false }),
            (
                can_crash && state.flushed < state.wal.len() as Lsn,
                Action::Crash { is_all_wal_on_disk: true },
            ),
            (can_promote && is_free, Action::Promote),
        ];
        actions.extend(
            events.into_iter().filter(|(is_possible, _)| *is_possible).map(|(_, action)| action),
        );
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each action")]
    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let budget = &mut state.budget;
        match action {
            Action::Arrive(i, levels) => {
                state.sessions[i].levels = levels;
                let clock_us = state.clock_us();
                state.sessions[i].phase = Phase::Arrived { clock_us, waited_on: None };
            }
            Action::Continue(i) => {
                let clock_us = state.clock_us();
                state.sessions[i].phase = Phase::Arrived { clock_us, waited_on: None };
            }
            Action::Wake(i) => {
                let Phase::Waiting { wait, .. } = state.sessions[i].phase else { return None };
                let clock_us = state.clock_us();
                state.sessions[i].phase = Phase::Arrived { clock_us, waited_on: Some(wait) };
            }
            Action::Visit(i, want) => {
                budget.visits -= 1;
                state.visit(i, want, self.fault);
            }
            Action::Change(i) => state.change(i, self.fault),
            Action::MakeDurable(i) => state.make_durable(i, self.fault),
            Action::Commit(i) => state.commit(i, self.fault),
            Action::Confirm(i) => state.end(i, CommitLevel::REMOTE_APPLY, self.fault),
            Action::Rollback(i) => {
                budget.rollbacks -= 1;
                state.roll_back(i, self.fault);
            }
            Action::Restart(i) => {
                budget.restarts -= 1;
                state.restart(i);
            }
            Action::Tick(ms) => {
                budget.ticks -= 1;
                state.real_ms += ms;
            }
            Action::Jump(ms) => {
                budget.jumps -= 1;
                state.offset_ms += ms;
                state.ahead_max_ms += (-ms).max(0);
            }
            Action::Reset => {
                budget.resets -= 1;
                state.reset();
            }
            Action::CopyFile => {
                budget.copies -= 1;
                state.copy_file();
            }
            Action::Nextval => {
                budget.nextvals -= 1;
                state.nextval();
            }
            Action::BeginCheckpoint => {
                budget.checkpoints -= 1;
                state.redo = state.wal.len() as Lsn;
                state.checkpoint = Checkpoint::Begun;
                if !state.budget.splits_visits {
                    state.checkpoint = Checkpoint::Chosen { writes_page: state.is_dirty };
                }
            }
            Action::ChoosePages => {
                state.checkpoint = Checkpoint::Chosen { writes_page: state.is_dirty }
            }
            Action::EndCheckpoint => state.end_checkpoint(),
            Action::Receive => state.received = state.flushed,
            Action::Crash { is_all_wal_on_disk } => {
                budget.crashes -= 1;
                let end = if is_all_wal_on_disk { state.wal.len() as Lsn } else { state.flushed };
                state.undo_restart();
                let (from, data_file) = (state.recovery_from, state.on_disk);
                state.recover(end, from, data_file);
            }
            Action::Promote => {
                budget.promotions -= 1;
                // A promotion takes longer than the lead.
                state.real_ms += LEAD_MS + 1;
                let backup = self.start.page;
                let end = state.received;
                state.recover(end, 0, backup);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(UNIQUE, |_, state: &State| {
                state.violation != Some(Violation::Repeated)
            }),
            Property::always(INCREASING, |_, state: &State| {
                state.violation != Some(Violation::NotAboveAcknowledged)
            }),
            Property::always(NOT_AHEAD, |_, state: &State| {
                state.violation != Some(Violation::TooFarAhead)
            }),
            Property::always(AVAILABLE, |_, state: &State| state.can_continue()),
        ]
    }
}

impl Protocol for Sequence {
    type Fault = Fault;

    #[expect(clippy::too_many_lines, reason = "a list")]
    fn scenarios(size: Size, fault: Option<Fault>) -> Vec<Sequence> {
        let more = u8::from(size == Size::Large);
        let at = |ms: i64, seq: i64| Tuple {
            last_value: (NOW + ms) << 10 | seq,
            log_cnt: 0,
            is_called: true,
        };
        let used = at(-5, 7);
        let full = at(0, i64::from(SEQ_MAX));
        // This sequence is ahead of the clock. Otherwise the clock would hide a loss of state.
        let ahead = at(3_600_000, 7);
        let none = Budget::default;
        let crashing =
            Budget { visits: 4 + more, crashes: 1 + more, checkpoints: 1, rollbacks: 1, ..none() };
        use Levels::{Off, OffAtCommit, OffInCall, On};
        use Standby::{Asynchronous, Synchronous};
        let starts = vec![
            // Crashes and checkpoints.
            Sequence::start(used, Asynchronous, &[On], Budget { ticks: more, ..crashing.clone() }),
            Sequence::start(
                ahead,
                Asynchronous,
                &[On, Off, OffInCall, OffAtCommit],
                Budget { visits: 3, checkpoints: more, ..crashing.clone() },
            ),
            // A checkpoint begins while a session holds the lock on the page.
            Sequence::start(
                ahead,
                Asynchronous,
                &[On],
                Budget {
                    visits: 3 + 2 * more,
                    checkpoints: 2,
                    crashes: 1,
                    splits_visits: true,
                    ..none()
                },
            ),
            // Calls of nextval, and a clock that jumps, each with a crash.
            Sequence::start(
                ahead,
                Asynchronous,
                &[On],
                Budget { visits: 3, nextvals: 1 + more, ticks: more, ..crashing.clone() },
            ),
            Sequence::start(
                used,
                Asynchronous,
                &[On],
                Budget { visits: 2 + 2 * more, jumps: 2 + more, crashes: 1, ..none() },
            ),
            // A synchronous standby that is promoted, before or after a crash.
            Sequence::start(
                ahead,
                Synchronous,
                &[On, OffInCall],
                Budget {
                    promotions: 1,
                    visits: 3,
                    checkpoints: more,
                    rollbacks: more,
                    ..crashing.clone()
                },
            ),
            Sequence::start(
                ahead,
                Synchronous,
                &[On],
                Budget { promotions: 1, visits: 3 + more, ..crashing },
            ),
            // An asynchronous standby. The server has not crashed, so the sequence is ahead by no
            // more than the lead.
            Sequence::start(
                full,
                Asynchronous,
                &[On],
                Budget {
                    visits: 3 + more,
                    promotions: 1,
                    ticks: 1,
                    checkpoints: more,
                    wants: Wants::OneOrMany,
                    ..none()
                },
            ),
            // A clock that jumps.
            Sequence::start(
                full,
                Asynchronous,
                &[On],
                Budget {
                    visits: 3 + more,
                    ticks: 1,
                    jumps: 1,
                    nextvals: 1,
                    wants: Wants::OneOrMany,
                    ..none()
                },
            ),
            // Calls of setval.
            Sequence::start(
                full,
                Asynchronous,
                &[On],
                Budget {
                    visits: 4 + 2 * more,
                    ticks: 2 + more,
                    resets: 2 + more,
                    wants: Wants::Many,
                    ..none()
                },
            ),
            // A RESTART that commits, is rolled back, or is interrupted by a crash. The next
            // scenario copies the file.
            Sequence::start(
                used,
                Asynchronous,
                &[On],
                Budget {
                    visits: 3 + more,
                    ticks: 2,
                    restarts: 1,
                    rollbacks: 1,
                    crashes: 1,
                    checkpoints: more,
                    ..none()
                },
            ),
            Sequence::start(
                used,
                Asynchronous,
                &[On],
                Budget {
                    visits: 3 + more,
                    copies: 1,
                    crashes: 1 + more,
                    checkpoints: 1 + more,
                    ..none()
                },
            ),
        ];
        starts.into_iter().map(|start| Sequence { start, fault }).collect()
    }

    fn faults() -> &'static [(&'static str, &'static [Fault])] {
        &[
            (
                UNIQUE,
                &[Fault::WaitPaysForEqualState, Fault::NoSecondLook, Fault::ShortWaitAfterReset],
            ),
            (INCREASING, &[Fault::NoWaitAfterReset]),
            (NOT_AHEAD, &[Fault::NoWaitForTheClock]),
            (
                AVAILABLE,
                &[
                    Fault::NothingLoggedAhead,
                    Fault::CheckpointIgnored,
                    Fault::FileIgnored,
                    Fault::RecordNotFlushed,
                    Fault::StandbyNotAwaited,
                    Fault::RollbackTrusted,
                    Fault::CommitDoesNoRest,
                    Fault::LowerCommitTrusted,
                    Fault::DirtyAfterRedo,
                    Fault::LoggedTooFarAhead,
                ],
            ),
        ]
    }
}

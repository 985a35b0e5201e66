//! A model of the portable edition: calls in PL/pgSQL under a mutex, the library that takes over,
//! crashes, and clocks that jump.
//!
//! [`hlc::next`] determines the next value; a live test compares the rule in SQL with it. The model
//! adds:
//!
//! - the steps of a call, with a crash or a cancel between any two of them: read the clock, take
//!   the mutex, read the sequence, `setval`, release the mutex
//! - WAL: `setval` writes a record, and the commit flushes it
//! - the take-over, whose transaction waits for the mutex and drops it. A call that waited for it
//!   continues in C, which takes a value in one step; [`sequence`](crate::sequence) is the model of
//!   that
//! - the loop in which a call waits for the clock

use crate::checker::{Protocol, Size};
use instagram_id_core::hlc::{self, Next};
use instagram_id_core::layout::{SEQ_BITS, SEQ_MAX};
use stateright::{Model, Property};
use std::fmt;

/// The clock at the start, in milliseconds since the epoch.
const NOW: i64 = 480_000_000_000;
const SESSIONS: usize = 2;

// The properties.
const UNIQUE: &str = "no id is issued twice";
const INCREASING: &str = "each id is greater than every acknowledged id";
const PROMPT: &str = "a wait ends after its ticks, whatever the clock does";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Calls take no mutex.
    NoMutex,
    /// The value is read before the call takes the mutex, and not again.
    NoSecondRead,
    /// The mutex is released before `setval`.
    SetvalOutside,
    /// The functions are replaced, and the take-over does not wait for the mutex.
    NoFence,
    /// A call whose mutex is gone goes on without it, instead of calling the library.
    MutexGoneIgnored,
    /// A value may be covered by the record of another session, as with `nextval`, which logs
    /// values ahead. The commit of a transaction without a record flushes nothing.
    RecordOfAnother,
    /// The commit does not flush: `synchronous_commit = off`.
    CommitNotFlushed,
    /// A call does not wait after a reset.
    NoWaitAfterReset,
    /// A call sleeps until a time, as `pg_sleep` does on PostgreSQL 15, instead of reading the
    /// clock again and again.
    Sleep,
}

/// The number of times that each event may still occur.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Budget {
    calls: u8,
    ticks: u8,
    jumps: u8,
    crashes: u8,
    cancels: u8,
    resets: u8,
    take_overs: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    Idle,
    /// Has read the clock. The first visit of a call decides by this time, later ones by a time
    /// that they read.
    Arrived {
        arrived_ms: Option<i64>,
        waited_on: Option<hlc::State>,
        read: hlc::State,
    },
    /// Holds the mutex, and has read the clock and the sequence.
    Read {
        now_ms: i64,
        read: hlc::State,
        is_first: bool,
        waited_on: Option<hlc::State>,
    },
    /// Has called `setval`, and holds the mutex.
    Set {
        value: i64,
        lsn: usize,
    },
    /// Reads the clock until it has ticked.
    Waiting {
        read: hlc::State,
        began_ms: i64,
        ticks: i64,
        /// Milliseconds of real time since it began, or since the clock jumped.
        waited_ms: i64,
    },
    /// Has released the mutex. The record that it has written ends at this position of the WAL.
    Taken {
        value: i64,
        lsn: usize,
    },
}

/// How far the take-over is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Edition {
    Portable,
    /// Its transaction holds the mutex.
    TakingOver,
    Library,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    now_ms: i64,
    sequence: hlc::State,
    /// The state in each record, and how many of them are flushed.
    wal: Vec<hlc::State>,
    flushed: usize,
    holder: Option<usize>,
    edition: Edition,
    sessions: [Phase; SESSIONS],
    budget: Budget,
    /// The largest value issued since the last crash, and the largest acknowledged value.
    issued: i64,
    acknowledged: i64,
    violation: Option<&'static str>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    Arrive(usize),
    Lock(usize),
    Set(usize),
    Release(usize),
    Wake(usize),
    Commit(usize),
    Cancel(usize),
    Reset,
    BeginTakeOver,
    EndTakeOver,
    Tick,
    Jump(i64),
    Crash { is_all_wal_on_disk: bool },
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Arrive(i) => write!(f, "session {i} calls next_id(), and reads the clock"),
            Action::Lock(i) => write!(f, "session {i} takes the mutex, and reads the sequence"),
            Action::Set(i) => write!(f, "session {i} calls setval(), if there is a value"),
            Action::Release(i) => write!(f, "session {i} releases the mutex"),
            Action::Wake(i) => write!(f, "session {i} sees that the clock has ticked"),
            Action::Commit(i) => write!(f, "session {i} commits"),
            Action::Cancel(i) => write!(f, "the call of session {i} is canceled"),
            Action::Reset => write!(f, "the owner sets the sequence to 1"),
            Action::BeginTakeOver => write!(f, "the take-over drops the mutex"),
            Action::EndTakeOver => write!(f, "the take-over commits"),
            Action::Tick => write!(f, "1 ms of time passes"),
            Action::Jump(ms) => write!(f, "the clock jumps by {ms} ms"),
            Action::Crash { is_all_wal_on_disk: true } => {
                write!(f, "the server crashes; all of its WAL is on disk")
            }
            Action::Crash { .. } => {
                write!(f, "the server crashes; only the flushed WAL is on disk")
            }
        }
    }
}

#[derive(Clone, Debug)]
pub struct Portable {
    start: State,
    fault: Option<Fault>,
}

impl Portable {
    fn start(last_value: i64, budget: Budget) -> State {
        let sequence = hlc::State { last_value, is_called: true };
        State {
            now_ms: NOW,
            sequence,
            wal: vec![sequence],
            flushed: 1,
            holder: None,
            edition: Edition::Portable,
            sessions: [Phase::Idle; SESSIONS],
            budget,
            issued: last_value,
            acknowledged: last_value,
            violation: None,
        }
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Takes the mutex, if there is one to take, and reads the sequence.
    fn lock(&self, state: &mut State, i: usize) {
        let Phase::Arrived { arrived_ms, waited_on, read } = state.sessions[i] else { return };
        if state.edition == Edition::Library && !self.is(Fault::MutexGoneIgnored) {
            self.call_library(state, i, waited_on);
            return;
        }
        if !self.is(Fault::NoMutex) && state.edition != Edition::Library {
            state.holder = Some(i);
        }
        let read = if self.is(Fault::NoSecondRead) { read } else { state.sequence };
        let now_ms = arrived_ms.unwrap_or(state.now_ms);
        state.sessions[i] = Phase::Read { now_ms, read, is_first: arrived_ms.is_some(), waited_on };
        if self.is(Fault::SetvalOutside) {
            state.holder = None;
        }
    }

    /// Decides by what was read, and calls `setval`. A first visit without a value is followed by
    /// another one, which reads the clock.
    fn set(&self, state: &mut State, i: usize) {
        let Phase::Read { now_ms, read, is_first, waited_on } = state.sessions[i] else { return };
        match hlc::next(read, now_ms, 1, waited_on) {
            Next::Take(run) => {
                let lsn = self.issue(state, run.first);
                state.sessions[i] = Phase::Set { value: run.first, lsn };
                return;
            }
            Next::Wait { ticks } if ticks > 1 && self.is(Fault::NoWaitAfterReset) => {
                state.sessions[i] =
                    Phase::Arrived { arrived_ms: None, waited_on: Some(read), read };
            }
            _ if is_first => {
                state.sessions[i] = Phase::Arrived { arrived_ms: None, waited_on: None, read }
            }
            Next::Wait { ticks } => {
                let began_ms =
                    if self.is(Fault::Sleep) { now_ms } else { now_ms.min(state.now_ms) };
                state.sessions[i] = Phase::Waiting { read, began_ms, ticks, waited_ms: 0 };
            }
            refused => unreachable!("{refused:?}"),
        }
        if state.holder == Some(i) {
            state.holder = None;
        }
    }

    /// The library takes a value in one step.
    fn call_library(&self, state: &mut State, i: usize, waited_on: Option<hlc::State>) {
        let read = state.sequence;
        match hlc::next(read, state.now_ms, 1, waited_on) {
            Next::Take(run) => {
                let lsn = self.issue(state, run.first);
                state.sessions[i] = Phase::Taken { value: run.first, lsn };
            }
            Next::Wait { ticks } => {
                state.sessions[i] =
                    Phase::Waiting { read, began_ms: state.now_ms, ticks, waited_ms: 0 };
            }
            refused => unreachable!("{refused:?}"),
        }
    }

    /// Changes the sequence. Returns the end of the record that it has written.
    fn issue(&self, state: &mut State, value: i64) -> usize {
        if value <= state.acknowledged {
            state.violation = Some(INCREASING);
        } else if value <= state.issued {
            state.violation = Some(UNIQUE);
        }
        state.issued = state.issued.max(value);
        state.sequence = hlc::State { last_value: value, is_called: true };
        let logs_ahead = self.is(Fault::RecordOfAnother);
        if logs_ahead && state.wal.last().is_some_and(|logged| logged.last_value >= value) {
            return 0;
        }
        let last_value = value + i64::from(logs_ahead);
        state.wal.push(hlc::State { last_value, is_called: true });
        state.wal.len()
    }

    /// All that waits reads the clock. The loop begins again when the clock was set back.
    fn poll(&self, state: &mut State, passed_ms: i64) {
        let now = state.now_ms;
        for phase in &mut state.sessions {
            if let Phase::Waiting { began_ms, waited_ms, .. } = phase {
                *waited_ms = if passed_ms == 0 { 0 } else { *waited_ms + passed_ms };
                if !self.is(Fault::Sleep) {
                    *began_ms = now.min(*began_ms);
                }
            }
        }
    }

    fn crash(&self, state: &mut State, is_all_wal_on_disk: bool) {
        let end = if is_all_wal_on_disk { state.wal.len() } else { state.flushed };
        state.wal.truncate(end);
        state.flushed = end;
        state.sequence = state.wal[end - 1];
        state.sessions = [Phase::Idle; SESSIONS];
        state.holder = None;
        if state.edition == Edition::TakingOver {
            state.edition = Edition::Portable;
        }
        state.issued = state.acknowledged;
    }
}

impl Model for Portable {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start.clone()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.violation.is_some() {
            return;
        }
        let budget = &state.budget;
        let is_free = state.holder.is_none() && state.edition == Edition::Portable;
        let can_call = is_free || state.edition == Edition::Library || self.is(Fault::NoMutex);
        let can_drop = is_free || state.edition == Edition::Portable && self.is(Fault::NoFence);
        for (i, phase) in state.sessions.iter().enumerate() {
            match *phase {
                Phase::Idle if budget.calls > 0 => actions.push(Action::Arrive(i)),
                Phase::Arrived { .. } if can_call => actions.push(Action::Lock(i)),
                Phase::Read { .. } => actions.push(Action::Set(i)),
                Phase::Set { .. } => actions.push(Action::Release(i)),
                Phase::Waiting { began_ms, ticks, .. } if state.now_ms >= began_ms + ticks => {
                    actions.push(Action::Wake(i));
                }
                Phase::Taken { .. } => actions.push(Action::Commit(i)),
                _ => (),
            }
            if budget.cancels > 0 && *phase != Phase::Idle {
                actions.push(Action::Cancel(i));
            }
        }
        let crash = |is_all_wal_on_disk| Action::Crash { is_all_wal_on_disk };
        let events = [
            (budget.ticks > 0, Action::Tick),
            (budget.jumps > 0, Action::Jump(-3)),
            (budget.jumps > 0, Action::Jump(1)),
            (budget.resets > 0, Action::Reset),
            (budget.take_overs > 0 && can_drop, Action::BeginTakeOver),
            (state.edition == Edition::TakingOver, Action::EndTakeOver),
            (budget.crashes > 0, crash(false)),
            (budget.crashes > 0 && state.flushed < state.wal.len(), crash(true)),
        ];
        actions.extend(
            events.into_iter().filter(|(is_possible, _)| *is_possible).map(|(_, action)| action),
        );
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each action")]
    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Arrive(i) => {
                state.budget.calls -= 1;
                let arrived_ms = Some(state.now_ms);
                state.sessions[i] =
                    Phase::Arrived { arrived_ms, waited_on: None, read: state.sequence };
            }
            Action::Lock(i) => self.lock(&mut state, i),
            Action::Set(i) => self.set(&mut state, i),
            Action::Release(i) => {
                let Phase::Set { value, lsn } = state.sessions[i] else { return None };
                if state.holder == Some(i) {
                    state.holder = None;
                }
                state.sessions[i] = Phase::Taken { value, lsn };
            }
            Action::Wake(i) => {
                let Phase::Waiting { read, .. } = state.sessions[i] else { return None };
                state.sessions[i] =
                    Phase::Arrived { arrived_ms: None, waited_on: Some(read), read };
            }
            Action::Commit(i) => {
                let Phase::Taken { value, lsn } = state.sessions[i] else { return None };
                if !self.is(Fault::CommitNotFlushed) {
                    state.flushed = state.flushed.max(lsn);
                }
                state.acknowledged = state.acknowledged.max(value);
                state.sessions[i] = Phase::Idle;
            }
            Action::Cancel(i) => {
                state.budget.cancels -= 1;
                if state.holder == Some(i) {
                    state.holder = None;
                }
                state.sessions[i] = Phase::Idle;
            }
            Action::Reset => {
                state.budget.resets -= 1;
                state.sequence = hlc::State { last_value: 1, is_called: true };
                state.wal.push(state.sequence);
                state.flushed = state.wal.len();
            }
            Action::BeginTakeOver => {
                state.budget.take_overs -= 1;
                state.edition = Edition::TakingOver;
            }
            Action::EndTakeOver => {
                state.edition = Edition::Library;
                state.flushed = state.wal.len();
            }
            Action::Tick => {
                state.budget.ticks -= 1;
                state.now_ms += 1;
                self.poll(&mut state, 1);
            }
            Action::Jump(ms) => {
                state.budget.jumps -= 1;
                state.now_ms += ms;
                self.poll(&mut state, 0);
            }
            Action::Crash { is_all_wal_on_disk } => {
                state.budget.crashes -= 1;
                self.crash(&mut state, is_all_wal_on_disk);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(UNIQUE, |_, state: &State| state.violation != Some(UNIQUE)),
            Property::always(INCREASING, |_, state: &State| state.violation != Some(INCREASING)),
            Property::always(PROMPT, |_, state: &State| {
                state.sessions.iter().all(|phase| match *phase {
                    Phase::Waiting { began_ms, ticks, waited_ms, .. } => {
                        waited_ms < ticks || state.now_ms >= began_ms + ticks
                    }
                    _ => true,
                })
            }),
        ]
    }
}

impl Protocol for Portable {
    type Fault = Fault;

    fn scenarios(size: Size, fault: Option<Fault>) -> Vec<Portable> {
        let more = u8::from(size == Size::Large);
        let at = |ms: i64, seq: i64| (NOW + ms) << SEQ_BITS | seq;
        // Ahead of the clock, where the clock cannot hide a loss.
        let ahead = at(3_600_000, 7);
        // The next value opens a millisecond that is ahead by more than the lead.
        let full = at(1, i64::from(SEQ_MAX));
        let none = Budget::default;
        let starts = [
            // Crashes and cancels.
            (ahead, Budget { calls: 4 + more, crashes: 1 + more, cancels: 1 + more, ..none() }),
            // The library takes over, also before or after a crash.
            (
                ahead,
                Budget { calls: 4 + more, crashes: 1, cancels: 1, take_overs: 1 + more, ..none() },
            ),
            // A clock that jumps while calls wait, and the library that takes over.
            (full, Budget { calls: 3 + more, ticks: 4 + more, jumps: 2, take_overs: 1, ..none() }),
            // A reset. As documented, it may repeat ids after a crash, a jump of the clock, or
            // another reset.
            (
                at(0, 7),
                Budget { calls: 4 + more, ticks: 4 + more, resets: 1, take_overs: 1, ..none() },
            ),
        ];
        starts
            .into_iter()
            .map(|(last, budget)| Portable { start: Portable::start(last, budget), fault })
            .collect()
    }

    fn faults() -> &'static [(&'static str, &'static [Fault])] {
        &[
            (
                UNIQUE,
                &[
                    Fault::NoMutex,
                    Fault::NoSecondRead,
                    Fault::SetvalOutside,
                    Fault::NoFence,
                    Fault::MutexGoneIgnored,
                    Fault::NoWaitAfterReset,
                ],
            ),
            (INCREASING, &[Fault::RecordOfAnother, Fault::CommitNotFlushed]),
            (PROMPT, &[Fault::Sleep]),
        ]
    }
}

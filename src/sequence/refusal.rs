//! Why a sequence could not be used.

use crate::error::{Error, Unfit};
use crate::pg::names;
use crate::pg::spi::select;
use crate::sequence::{IdSequence, read};
use instagram_id_core::copy;
use instagram_id_core::hlc::{self, FIRST_DAY_MS, State};
use pgrx::pg_sys::{self, Oid};

/// Why nothing was done. Plain data, so that it can leave [`guarded`](crate::pg::raw::guarded).
#[derive(Clone, Copy)]
pub enum Refusal {
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
    /// The copy was created for this group, which is not this node's by its catalogs.
    CopyOfAnotherGroup(i32),
    /// Each node was to use its own copy, but the sequence serves a shard or was taken over.
    ServesShard,
    /// The role lacks UPDATE, and its permit does not cover the shard and epoch, or was not looked
    /// up yet.
    NotPermitted,
    /// The role lacks UPDATE, and the sequence is a counter.
    Counter {
        last_value: i64,
    },
    /// The placement was not looked up yet.
    PlacementUnknown,
    /// Another node owns the schema.
    NotPlacedHere,
    /// The copy is closed: it has to be taken over from the other nodes.
    Closed,
}

impl Refusal {
    /// The error for a refusal that cannot be resolved. The caller must resolve those of the last
    /// arm itself.
    pub fn error(self, sequence: IdSequence) -> Error {
        let IdSequence { oid: sequence, epoch } = sequence;
        let name = || names::relation(sequence);
        let clock_and_epoch = || (names::time(names::now()), names::time(epoch.at()));
        match self {
            Refusal::Missing => Error::SequenceMissing(sequence),
            Refusal::NotSequence => Error::NotSequence(name()),
            Refusal::Unfit(unfit) => match unfit.max {
                Some(max) if is_ended_by_max(unfit, max, read::state(sequence)) => {
                    Error::ClosedByMove { name: name(), max }
                }
                _ => Error::Unfit { name: name(), unfit },
            },
            Refusal::NoRight { update } => {
                Error::NoRightOnSequence { name: name(), role: names::current_role(), update }
            }
            Refusal::ReadOnly => Error::ReadOnly {
                name: name(),
                // SAFETY: reads shared memory, without side effects.
                standby: unsafe { pg_sys::RecoveryInProgress() },
            },
            Refusal::Parallel => Error::Parallel(name()),
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
            Refusal::ServesShard => Error::SequenceOfAShard(name()),
            Refusal::Counter { last_value } => {
                Error::SequenceIsCounter { name: name(), last_value, role: names::current_role() }
            }
            Refusal::CopyOfAnotherGroup(group) => Error::CopyOfAnotherGroup { name: name(), group },
            Refusal::NotPermitted
            | Refusal::PlacementUnknown
            | Refusal::NotPlacedHere
            | Refusal::Closed => {
                unreachable!("the caller resolves it")
            }
        }
    }

    /// The refusal in a few words, for the view `id_shards`; `None` for a refusal that the view
    /// does not show.
    pub fn reason(self, state: Option<State>) -> Option<String> {
        match self {
            Refusal::Unfit(unfit) => Some(match unfit.max {
                Some(max) if is_ended_by_max(unfit, max, state) => CLOSED_BY_A_MOVE.into(),
                _ => format!("sequence altered: {}", unfit.reasons()),
            }),
            Refusal::Exhausted { .. } => Some("end of ids".into()),
            Refusal::ClockBeforeEpoch => Some("the clock is before the epoch".into()),
            Refusal::ClockPastField => Some("the clock is past the end of ids".into()),
            _ => None,
        }
    }
}

/// The reason of a sequence that a move has closed.
pub const CLOSED_BY_A_MOVE: &str = "closed by a move";

/// Whether a move has closed the sequence: its only fault is a MAXVALUE at which it ends.
fn is_ended_by_max(unfit: Unfit, max: i64, state: Option<State>) -> bool {
    unfit == Unfit { max: Some(max), ..Unfit::default() }
        && state.is_some_and(|state| ends_at(max, state))
}

/// Checks that no move has closed the sequence, even if its value was set back since. No counter
/// has a MAXVALUE as great as an id's state.
pub fn check_not_closed(sequence: Oid) -> Result<(), Error> {
    let query = "SELECT seqmax FROM pg_sequence WHERE seqrelid = $1 AND NOT seqcycle";
    let max = select(query, &[sequence.into()], |row| row.get::<i64>(1));
    let ends = |max| read::state(sequence).is_some_and(|state| ends_at(max, state));
    let is_closed =
        |max: &i64| *max < hlc::VALUE_MAX && (hlc::ms_of(*max) >= FIRST_DAY_MS || ends(*max));
    match max.into_iter().find(is_closed) {
        Some(max) => Err(Error::ClosedByMove { name: names::relation(sequence), max }),
        None => Ok(()),
    }
}

/// Whether the last value has reached this MAXVALUE, as in a sequence that a move has closed.
fn ends_at(max: i64, state: State) -> bool {
    state.last_value >= max && !copy::is_closed(state.last_value)
}

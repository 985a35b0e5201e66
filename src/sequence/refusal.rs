//! Why a sequence could not be used.

use crate::error::{Error, Unfit};
use crate::pg::catalog;
use crate::pg::names;
use crate::pg::transaction;
use crate::sequence::read;
use instagram_id_core::copy;
use instagram_id_core::epoch::Epoch;
use instagram_id_core::hlc::State;
use pgrx::pg_sys::Oid;

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
    },
    ClockBeforeEpoch(Epoch),
    ClockPastField(Epoch),
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
    pub fn error(self, sequence: Oid) -> Error {
        let name = || names::relation(sequence);
        let now = || names::time(names::now());
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
            Refusal::ReadOnly => {
                Error::ReadOnly { name: name(), standby: transaction::is_standby() }
            }
            Refusal::Parallel => Error::Parallel(name()),
            Refusal::BadMagic => Error::BadMagic(name()),
            Refusal::Exhausted { last_value } => {
                let min_value =
                    catalog::sequence_options(sequence).map_or(1, |options| options.seqmin);
                Error::Exhausted { name: name(), last_value, min_value }
            }
            Refusal::ClockBeforeEpoch(epoch) => {
                Error::ClockBeforeEpoch { time: now(), epoch: names::time(epoch.at()) }
            }
            Refusal::ClockPastField(epoch) => {
                Error::ClockPastField { time: now(), epoch: names::time(epoch.at()) }
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
            Refusal::ClockBeforeEpoch(_) => Some("the clock is before the epoch".into()),
            Refusal::ClockPastField(_) => Some("the clock is past the end of ids".into()),
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

/// Whether the last value has reached this MAXVALUE, as in a sequence that a move has closed.
pub fn ends_at(max: i64, state: State) -> bool {
    state.last_value >= max && !copy::is_closed(state.last_value)
}

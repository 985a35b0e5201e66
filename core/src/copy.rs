//! The record in a sequence's tuple of whether the sequence is open or closed.
//!
//! On a cluster each node has a copy of a sequence. At most one of them is *open*: ids are
//! generated from it. A closed copy records in its own tuple the value with which it would
//! continue, the node that took it over last, and the stage of an attempt to open it. So this state
//! is logged with the page. A dump and `pg_upgrade` keep the value, but not the rest.
//!
//! A node opens its copy in steps: [`Tuple::begin_opening`] on its own copy, [`Tuple::close`] on
//! all others, [`check_last_holders`], [`Tuple::raise_floor`] on its own, [`Tuple::record_holder`]
//! on the others, and [`Tuple::open`]. `citus::takeover` in the extension describes why no id is
//! repeated.

use crate::hlc::{self, VALUE_MAX, WARN_AHEAD_MS};

/// The fields of a sequence's tuple, as in PostgreSQL's `FormData_pg_sequence_data`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tuple {
    pub last_value: i64,
    pub log_cnt: i64,
    pub is_called: bool,
}

/// The state that a copy of a sequence records.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CopyState {
    /// Greater than every value that it has issued.
    pub next_value: i64,
    pub last_holder: LastHolder,
}

/// The node that took a copy over last.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LastHolder {
    Nobody,
    /// The node of this group, 0 to [`LastHolder::GROUP_MAX`].
    Node(i32),
    /// There was one, but its record was overwritten: by `nextval`, or by the `setval` of a dump or
    /// of `pg_upgrade`.
    Unknown,
}

impl LastHolder {
    const GROUP_MAX: i32 = (1 << 30) - 3;

    /// The node of a group, if the group fits into the record.
    pub fn node(group: i32) -> Option<LastHolder> {
        (0..=LastHolder::GROUP_MAX).contains(&group).then_some(LastHolder::Node(group))
    }

    /// As a column of a result: NULL for nobody, -1 for unknown.
    pub fn to_column(self) -> Option<i32> {
        match self {
            LastHolder::Nobody => None,
            LastHolder::Node(group) => Some(group),
            LastHolder::Unknown => Some(-1),
        }
    }

    pub fn of_column(column: Option<i32>) -> Option<LastHolder> {
        match column {
            None => Some(LastHolder::Nobody),
            Some(-1) => Some(LastHolder::Unknown),
            Some(group) => LastHolder::node(group),
        }
    }
}

/// The number of one node's attempt to open its copy, 0 to [`Attempt::MAX`], drawn at random. It
/// distinguishes the steps of this attempt from those of another one, and from messages that arrive
/// late.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Attempt(i32);

impl Attempt {
    const BITS: u32 = 30;
    pub const MAX: i32 = (1 << Self::BITS) - 1;

    pub fn new(number: i32) -> Option<Attempt> {
        (0..=Attempt::MAX).contains(&number).then_some(Attempt(number))
    }

    /// The attempt with a random number. Only the low bits are used.
    pub fn of_random(number: i32) -> Attempt {
        Attempt(number & Attempt::MAX)
    }

    pub fn number(self) -> i32 {
        self.0
    }
}

/// Citus gives each group above 0 a range of 2^48 values; see `AlterSequenceMinMax` in its
/// `worker_data_fetch_protocol.c`.
pub const RANGE_BITS: u32 = 48;

/// The first value of a group's range.
pub fn first_of_range(group: i64) -> i64 {
    (group << RANGE_BITS) + 1
}

/// The `last_value` of a closed copy is this plus the value with which it would continue. No id has
/// so large a value. So `nextval`, which does not recognize closed copies, cannot open one for
/// `next_id`.
const CLOSED: i64 = 1 << 61;

/// The `last_value` of a closed copy that would continue with `next_value`.
pub fn closed_last_value(next_value: i64) -> i64 {
    CLOSED + next_value.clamp(0, VALUE_MAX + 1)
}

/// The value with which a closed copy would continue; `None` for an open copy.
pub fn closed_next_value(last_value: i64) -> Option<i64> {
    // nextval() may have been called on it, at most as often as there are values.
    (CLOSED..CLOSED + 2 * VALUE_MAX).contains(&last_value).then(|| last_value - CLOSED)
}

/// Whether a copy with this `last_value` is closed.
pub fn is_closed(last_value: i64) -> bool {
    closed_next_value(last_value).is_some()
}

/// The content of `log_cnt` in a closed copy. PostgreSQL ignores it as long as `is_called` is
/// false. It is 0 if the copy is still as Citus created it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mark {
    pub last_holder: LastHolder,
    pub stage: Stage,
}

/// The stage of an attempt to open a copy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    Closed,
    /// Closed for an attempt of another node, which has not recorded itself as the holder yet.
    ClosedFor(Attempt),
    /// This node is about to open it, or its last attempt to do so has ended before that.
    Opening(Attempt),
    /// The last attempt of this node to open it has failed, because the node of this group cannot
    /// be reached.
    Failed(i32),
}

impl Mark {
    /// Set in every mark, so that no mark is 0.
    const FLAG: i64 = 1 << 62;
    const HOLDER_SHIFT: u32 = 2 + Attempt::BITS;

    pub fn to_log_cnt(self) -> i64 {
        let (stage, number) = match self.stage {
            Stage::Closed => (0, 0),
            Stage::Opening(Attempt(number)) => (1, number),
            Stage::ClosedFor(Attempt(number)) => (2, number),
            Stage::Failed(group) => (3, group),
        };
        let holder = match self.last_holder {
            LastHolder::Nobody => 0,
            LastHolder::Unknown => 1,
            LastHolder::Node(group) => i64::from(group) + 2,
        };
        Mark::FLAG | holder << Mark::HOLDER_SHIFT | i64::from(number) << 2 | stage
    }

    /// The mark of a closed copy; `None` if the copy is still as Citus created it, or its mark was
    /// overwritten.
    fn of_log_cnt(log_cnt: i64) -> Option<Mark> {
        if log_cnt & Mark::FLAG == 0 {
            return None;
        }
        let last_holder = match (log_cnt & !Mark::FLAG) >> Mark::HOLDER_SHIFT {
            0 => LastHolder::Nobody,
            1 => LastHolder::Unknown,
            group => LastHolder::Node((group - 2) as i32),
        };
        let attempt = Attempt((log_cnt >> 2) as i32 & Attempt::MAX);
        let stage = match log_cnt & 3 {
            1 => Stage::Opening(attempt),
            2 => Stage::ClosedFor(attempt),
            3 => Stage::Failed(attempt.0),
            _ => Stage::Closed,
        };
        Some(Mark { last_holder, stage })
    }
}

impl Tuple {
    /// A closed copy, which would continue with `next_value`.
    fn closed(next_value: i64, mark: Mark) -> Tuple {
        Tuple {
            last_value: closed_last_value(next_value),
            log_cnt: mark.to_log_cnt(),
            is_called: false,
        }
    }

    /// Whether this copy must be opened before ids are generated from it. Its value alone shows
    /// that it is closed, even to a session that has not yet received the catalog change that made
    /// it one of several copies (`is_copy`).
    pub fn is_closed(self, is_copy: bool) -> bool {
        is_closed(self.last_value) || !self.is_called && is_copy
    }

    /// The mark in this tuple. `nextval` overwrites it when it sets `is_called`.
    pub fn mark(self) -> Option<Mark> {
        if self.is_called { None } else { Mark::of_log_cnt(self.log_cnt) }
    }

    /// Whether this copy is as Citus has created it on the node of a group above 0. From group 8192
    /// on its value would be that of a closed copy.
    fn is_new_copy(self) -> bool {
        let group = self.last_value >> RANGE_BITS;
        !self.is_called
            && self.log_cnt == 0
            && group > 0
            && self.last_value == first_of_range(group)
    }

    /// The state of this copy, closed or open. The start value of a sequence that was never called
    /// is ignored, because Citus gives the copies of group 2 and above start values that would be
    /// years ahead of the clock.
    pub fn copy_state(self) -> CopyState {
        match closed_next_value(self.last_value).filter(|_| !self.is_new_copy()) {
            Some(next) => CopyState {
                next_value: next + i64::from(self.is_called),
                last_holder: self.mark().map_or(LastHolder::Unknown, |mark| mark.last_holder),
            },
            None if self.is_called => CopyState {
                next_value: self.last_value.saturating_add(1),
                last_holder: LastHolder::Nobody,
            },
            None => CopyState { next_value: 0, last_holder: LastHolder::Nobody },
        }
    }

    /// Begins to open a closed copy. The later steps of this attempt fail if another node closes it
    /// in the meantime. `None` if the copy is already open.
    pub fn begin_opening(self, is_copy: bool, attempt: Attempt) -> Option<Tuple> {
        let CopyState { next_value, last_holder } = self.copy_state();
        let mark = Mark { last_holder, stage: Stage::Opening(attempt) };
        self.is_closed(is_copy).then(|| Tuple::closed(next_value, mark))
    }

    /// Makes a copy that is being opened continue at `floor` or above, because other copies have
    /// issued values below it. If it continues without the last holder, `taker` is its own node,
    /// which it records: from now on no more is known than in this copy. `None` if another node has
    /// closed it since the attempt began.
    pub fn raise_floor(
        self,
        taker: Option<LastHolder>,
        attempt: Attempt,
        floor: i64,
    ) -> Option<Tuple> {
        let mark = self.mark().filter(|mark| mark.stage == Stage::Opening(attempt))?;
        let mark = Mark { last_holder: taker.unwrap_or(mark.last_holder), ..mark };
        Some(Tuple::closed(self.copy_state().next_value.max(floor), mark))
    }

    /// The `last_value` that opens this copy. It is greater than all issued values. `None` if
    /// another node has closed the copy since the attempt began.
    pub fn open(self, attempt: Attempt) -> Option<i64> {
        self.mark().filter(|mark| mark.stage == Stage::Opening(attempt))?;
        Some(self.copy_state().next_value.min(VALUE_MAX))
    }

    /// Ends an attempt of this node that has failed, because the node of that group cannot be
    /// reached. Later steps of the attempt fail. `None` if there is none: another node has closed
    /// the copy, or it is open. Also for a group that a mark cannot contain.
    pub fn give_up(self, unreached: i32) -> Option<Tuple> {
        LastHolder::node(unreached)?;
        let Mark { last_holder, .. } =
            self.mark().filter(|mark| matches!(mark.stage, Stage::Opening(_)))?;
        let mark = Mark { last_holder, stage: Stage::Failed(unreached) };
        Some(Tuple::closed(self.copy_state().next_value, mark))
    }

    /// Closes this copy for another node's attempt to open its own copy. The recorded last holder
    /// does not change until [`Tuple::record_holder`].
    pub fn close(self, attempt: Attempt) -> Tuple {
        let CopyState { next_value, last_holder } = self.copy_state();
        Tuple::closed(next_value, Mark { last_holder, stage: Stage::ClosedFor(attempt) })
    }

    /// Records the node that takes the sequence over, and the value above which it begins. If that
    /// node is lost, this is the least that the others know of its ids. `None` if the copy is no
    /// longer closed for that attempt.
    pub fn record_holder(self, holder: LastHolder, attempt: Attempt, floor: i64) -> Option<Tuple> {
        self.mark().filter(|mark| mark.stage == Stage::ClosedFor(attempt))?;
        let mark = Mark { last_holder: holder, stage: Stage::Closed };
        Some(Tuple::closed(self.copy_state().next_value.max(floor), mark))
    }
}

/// The value at which a node that opens its copy continues, or above: at least 1, so that only a
/// copy that was never opened reports 0.
pub fn floor_above(known: i64) -> i64 {
    known.max(1)
}

/// The reason why a copy must not be opened. The lost or disabled copy may have issued ids that no
/// other copy records.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HolderProblem {
    /// The node of this group is the last holder, and has not reported the state of its copy.
    Lost(i32),
    /// The node of this group is the last holder, and has reported a copy that was never opened:
    /// its own was replaced by a new one.
    Replaced(i32),
    /// Every copy has lost the record of its last holder.
    Unknown,
    /// The node of this group is the last holder, and is disabled. Its copy may be open, and would
    /// continue from its own value when the node is activated again.
    Disabled(i32),
}

/// Checks that each recorded last holder has reported the state of its copy. A node that has not
/// reported may have issued more values, and so has one whose copy is a new one. A holder is
/// recorded on every node, so if one copy has lost the record, others still have it.
///
/// If no copy has a record, one that was opened and records nobody is that of the last holder:
/// a node that takes over from it is recorded there first.
///
/// `copies` are all copies, including the one to open, and `reported` gives the value that the node
/// of a group has reported. With `is_floor_given` the user has passed a value above all issued
/// ones, so a lost holder does not matter.
pub fn check_last_holders(
    copies: &[CopyState],
    is_floor_given: bool,
    reported: impl Fn(i32) -> Option<i64>,
    is_disabled: impl Fn(i32) -> bool,
) -> Result<(), HolderProblem> {
    let mut named = named_holders(copies);
    if is_floor_given {
        return named
            .find(|group| is_disabled(*group))
            .map_or(Ok(()), |group| Err(HolderProblem::Disabled(group)));
    }
    let has = |holder, floor| {
        copies.iter().any(|copy| copy.last_holder == holder && copy.next_value >= floor)
    };
    let is_unknown = named.clone().next().is_none()
        && has(LastHolder::Unknown, 0)
        && !has(LastHolder::Nobody, floor_above(0));
    match unreported_holders(copies, &reported).first() {
        Some(group) => Err(HolderProblem::Lost(*group)),
        None if is_unknown => Err(HolderProblem::Unknown),
        None => named
            .find(|group| reported(*group) < Some(floor_above(0)))
            .map_or(Ok(()), |group| Err(HolderProblem::Replaced(group))),
    }
}

/// The groups of all recorded last holders that have not reported the state of their copies. A node
/// that was left out of attempts can record an earlier holder than the others do.
pub fn unreported_holders(copies: &[CopyState], reported: impl Fn(i32) -> Option<i64>) -> Vec<i32> {
    named_holders(copies).filter(|group| reported(*group).is_none()).collect()
}

fn named_holders(copies: &[CopyState]) -> impl Iterator<Item = i32> + Clone {
    copies.iter().filter_map(|copy| match copy.last_holder {
        LastHolder::Node(group) => Some(group),
        LastHolder::Nobody | LastHolder::Unknown => None,
    })
}

/// The first value after the last holders in `lost` were removed from the cluster without having
/// reported. It is above the values of all copies. It is also above `floor`, those of the copies
/// that record a lost holder, the newest id in the tables, and the clock of this node, by a margin.
/// The lost node can have issued more ids, which are in no table: by its own clock, which differs
/// from this one, or ahead of its clock. Without a warning no sequence is ahead of the clock by
/// more than the margin. The values of other copies may contain it already, from an earlier
/// attempt.
pub fn floor_without_holder(
    copies: &[CopyState],
    lost: &[i32],
    floor: i64,
    newest: i64,
    now_ms: i64,
) -> i64 {
    let is_of_lost =
        |copy: &&CopyState| lost.iter().any(|group| copy.last_holder == LastHolder::Node(*group));
    let of_lost = copies.iter().filter(is_of_lost).map(|copy| copy.next_value);
    let highest =
        of_lost.fold(floor, i64::max).max(newest.saturating_add(1)).max(hlc::first_of(now_ms));
    let above = highest.saturating_add(hlc::first_of(WARN_AHEAD_MS));
    copies.iter().map(|copy| copy.next_value).fold(above, i64::max).min(VALUE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floor_is_above_everything_that_is_known() {
        let margin = hlc::first_of(WARN_AHEAD_MS);
        let now = hlc::first_of(1000);
        let copy =
            |group, next_value| CopyState { next_value, last_holder: LastHolder::Node(group) };
        let without_1 = |copies: &[CopyState], floor, newest, now_ms| {
            floor_without_holder(copies, &[1], floor, newest, now_ms)
        };
        for (of_lost, newest, highest) in
            [(0, i64::MIN, now), (now + 5, 7, now + 5), (0, now + 6, now + 7)]
        {
            let lost = copy(1, of_lost);
            assert_eq!(without_1(&[lost], i64::MIN, newest, 1000), highest + margin);
            let known = highest + margin + 1;
            assert_eq!(without_1(&[lost, copy(2, known)], i64::MIN, newest, 1000), known);
        }
        assert_eq!(without_1(&[], now + 5, i64::MIN, 1000), now + 5 + margin);
        assert_eq!(without_1(&[copy(1, VALUE_MAX)], i64::MIN, 0, 0), VALUE_MAX);
    }

    #[test]
    fn attempts_keep_their_number() {
        assert_eq!(Attempt::new(5).map(Attempt::number), Some(5));
        assert_eq!(Attempt::of_random(-1).number(), Attempt::MAX);
        assert_eq!(Attempt::of_random(i32::MIN).number(), 0);
    }

    #[test]
    fn copies_are_closed_however_often_nextval_was_called() {
        for calls in [0, 1, VALUE_MAX] {
            let last_value = closed_last_value(VALUE_MAX - 1) + calls;
            assert_eq!(closed_next_value(last_value), Some(VALUE_MAX - 1 + calls));
            assert!(is_closed(last_value));
        }
        for last_value in [0, 1, VALUE_MAX, CLOSED - 1] {
            assert!(!is_closed(last_value));
        }
    }

    #[test]
    fn marks_are_read_as_they_were_written() {
        let attempts = [Attempt(0), Attempt(1), Attempt(Attempt::MAX)];
        let failed = [0, 1, LastHolder::GROUP_MAX].map(Stage::Failed);
        let stages = attempts
            .into_iter()
            .flat_map(|attempt| [Stage::Closed, Stage::ClosedFor(attempt), Stage::Opening(attempt)])
            .chain(failed);
        let holders = [0, 1, LastHolder::GROUP_MAX].map(LastHolder::Node);
        for stage in stages {
            for last_holder in holders.into_iter().chain([LastHolder::Nobody, LastHolder::Unknown])
            {
                let mark = Mark { last_holder, stage };
                assert!(mark.to_log_cnt() > 0);
                assert_eq!(Mark::of_log_cnt(mark.to_log_cnt()), Some(mark));
                assert_eq!(LastHolder::of_column(last_holder.to_column()), Some(last_holder));
            }
        }
        assert_eq!(Mark::of_log_cnt(0), None);
        assert_eq!(
            [-2, LastHolder::GROUP_MAX + 1].map(|group| LastHolder::of_column(Some(group))),
            [None, None]
        );
    }

    #[test]
    fn only_the_attempt_that_is_recorded_goes_on() {
        let [first, second] = [Attempt(1), Attempt(2)];
        let used = Tuple { last_value: 5000, log_cnt: 7, is_called: true };
        let opening = used.close(first).begin_opening(true, second).unwrap();
        assert_eq!((opening.raise_floor(None, first, 9000), opening.open(first)), (None, None));
        let raised = |taker, floor| opening.raise_floor(taker, second, floor).unwrap();
        assert_eq!(raised(None, 9000).open(second), Some(9000));
        assert_eq!(raised(None, 9).open(second), Some(5001));
        let taker = LastHolder::Node(2);
        assert_eq!(raised(None, 9).copy_state().last_holder, opening.copy_state().last_holder);
        assert_eq!(raised(Some(taker), 9).copy_state().last_holder, taker);
        assert_eq!(opening.open(second), Some(5001));
        let closed = used.close(first);
        assert_eq!(closed.record_holder(LastHolder::Node(1), second, 0), None);
        let recorded = |floor| closed.record_holder(LastHolder::Node(1), first, floor).unwrap();
        assert_eq!([0, 9000].map(|floor| recorded(floor).copy_state().next_value), [5001, 9000]);
        // After it has given up, its later steps have no effect; the next attempt continues from
        // the same value.
        let failed = opening.give_up(3).unwrap();
        assert_eq!(failed.mark().unwrap().stage, Stage::Failed(3));
        assert_eq!((failed.raise_floor(None, second, 9000), failed.open(second)), (None, None));
        assert_eq!(failed.copy_state(), opening.copy_state());
        assert_eq!(failed.begin_opening(true, first).unwrap().open(first), Some(5001));
        assert_eq!([used, closed, failed].map(|tuple| tuple.give_up(3)), [None; 3]);
        assert_eq!([-1, LastHolder::GROUP_MAX + 1].map(|group| opening.give_up(group)), [None; 2]);
    }

    #[test]
    fn closed_copies_record_what_they_were_closed_with() {
        for next in [0, 1, 5000, VALUE_MAX, VALUE_MAX + 1] {
            assert_eq!(closed_next_value(closed_last_value(next)), Some(next));
        }
        assert_eq!(
            [i64::MIN, i64::MAX].map(|next| closed_next_value(closed_last_value(next))),
            [Some(0), Some(VALUE_MAX + 1)]
        );
        assert_eq!(
            [0, 1, VALUE_MAX, VALUE_MAX + 1, CLOSED - 1, i64::MAX].map(closed_next_value),
            [None; 6]
        );
        let state = |last_value, log_cnt, is_called| {
            Tuple { last_value, log_cnt, is_called: is_called == 1 }.copy_state()
        };
        let expected = |next_value, last_holder| CopyState { next_value, last_holder };
        let node = LastHolder::Node(3);
        let mark = Mark { last_holder: node, stage: Stage::Closed }.to_log_cnt();
        assert_eq!(state(closed_last_value(7), mark, 0), expected(7, node));
        // It has the value of a new copy of group 8192, whose log_cnt is 0.
        assert_eq!(state(closed_last_value(1), mark, 0), expected(1, node));
        // As Citus has created it; open.
        for group in [3, 8191, 8192, 8199, 8200] {
            assert_eq!(state((group << 48) + 1, 0, 0), expected(0, LastHolder::Nobody));
        }
        assert_eq!(state(7, 32, 1), expected(8, LastHolder::Nobody));
        // Called by nextval(), and from a dump.
        assert_eq!(state(closed_last_value(7), 32, 1), expected(8, LastHolder::Unknown));
        assert_eq!(state(closed_last_value(7), 0, 0), expected(7, LastHolder::Unknown));
    }

    #[test]
    fn every_recorded_holder_must_have_reported() {
        use LastHolder::{Nobody, Node, Unknown};
        // The nodes of groups 1 and 4 have reported, 4 a new copy; that of group 3 is disabled.
        let reported = |group| match group {
            1 => Some(floor_above(0)),
            4 => Some(0),
            _ => None,
        };
        let copies = |holders: &[LastHolder]| -> Vec<CopyState> {
            holders.iter().map(|holder| CopyState { next_value: 0, last_holder: *holder }).collect()
        };
        let check = |holders: &[LastHolder], is_floor_given| {
            check_last_holders(&copies(holders), is_floor_given, reported, |group| group == 3)
        };
        for holders in [&[][..], &[Nobody], &[Node(1), Nobody, Unknown]] {
            assert_eq!(check(holders, false), Ok(()), "{holders:?}");
        }
        for (holders, problem) in [
            ([Node(1), Node(2)], HolderProblem::Lost(2)),
            ([Unknown, Node(2)], HolderProblem::Lost(2)),
            ([Node(4), Node(2)], HolderProblem::Lost(2)),
            ([Node(1), Node(4)], HolderProblem::Replaced(4)),
            ([Nobody, Unknown], HolderProblem::Unknown),
        ] {
            assert_eq!(check(&holders, false), Err(problem), "{holders:?}");
        }
        // With a floor above all ids, a lost holder does not matter, but one that may return does.
        for holders in [&[Unknown][..], &[Node(1), Node(2)], &[Node(4)]] {
            assert_eq!(check(holders, true), Ok(()), "{holders:?}");
        }
        assert_eq!(check(&[Node(2), Node(3)], true), Err(HolderProblem::Disabled(3)));
        let holders = [Unknown, Node(2), Node(1), Nobody, Node(3)];
        assert_eq!(unreported_holders(&copies(&holders), reported), [2, 3]);
        // nextval() has overwritten all records but that of the open copy.
        let mut opened = copies(&[Nobody, Unknown, Unknown]);
        opened[0].next_value = 5;
        assert_eq!(check_last_holders(&opened, false, reported, |_| false), Ok(()));
        // As Citus creates it, on any node.
        for group in [0, 1, 8192] {
            let copy = Tuple { last_value: first_of_range(group), log_cnt: 0, is_called: false };
            assert_eq!(copy.copy_state().next_value, 0);
        }
    }
}

//! The rule that generates ids: a sequence is a hybrid logical clock (Kulkarni et al., 2014).
//!
//! A shard's sequence stores the last issued value, `ms << 10 | seq`: the id without its shard. The
//! next value is the last one plus one. If the clock is ahead of that, the value moves to the
//! clock's millisecond and keeps the low bits of the last one plus one. So each value is larger
//! than the one before it, whatever the clock does.
//!
//! It differs from the published algorithm ("Logical Physical Clocks", OPODIS 2014) in four ways:
//!
//! - The counter does not restart at 0 in a new millisecond. It counts on modulo 1024, as in
//!   Instagram's function.
//! - The counter has only 10 bits. An overflow carries into the milliseconds.
//! - The carry is limited: the sequence runs at most one millisecond ahead of the clock,
//!   [`LEAD_MS`]. To open a later millisecond, a caller waits for the next tick of the clock,
//!   without holding locks, and asks again. If a crash, `setval` or a clock that was set back has
//!   put the sequence further ahead, it advances no faster than the clock from there. Without a
//!   lead, callers far below 1024 values per millisecond would wait, too: the low bits overflow
//!   once in 1024 values, however few of them each millisecond has had.
//! - Sessions exchange no messages. They share the clock through the page of the sequence, and WAL
//!   records make it durable; see [`durability`]. A received timestamp is replaced by
//!   `advance_shard`, which raises the value.
//!
//! The functions are pure: they take the state and the clock and return the decision. The property
//! tests below run many sessions against clocks that jump, in the server of
//! [`model`](crate::model).

use crate::epoch::US_PER_MS;
use crate::layout::{ISSUED_MS_MAX, SEQ_BITS, SEQ_MAX};

/// Values that fit one millisecond.
pub const VALUES_PER_MS: i64 = 1 << SEQ_BITS;

/// The largest value a sequence issues, 2^50 - 1. Ids above it would be negative.
pub const VALUE_MAX: i64 = ((ISSUED_MS_MAX as i64) << SEQ_BITS) | SEQ_MAX as i64;

/// How far ahead of the clock a value may be without a wait. One millisecond is enough: if fewer
/// than 1024 values are generated in each millisecond, the counter overflows at most once before
/// the clock catches up.
///
/// Users rely on it: guarantees 3 and 9 of docs/use/guarantees.md promise one millisecond, and
/// docs/inside/performance.md explains it under "Why a sequence may be ahead of the clock".
pub const LEAD_MS: i64 = 1;

/// A sequence this far behind the clock may have been reset, so its state does not show which
/// values were issued in the present millisecond.
const STALE_MS: i64 = 3_600_000;

/// How far ahead of the clock a WAL record is written. A busy sequence writes one record in that
/// time. After a crash it resumes at most this far ahead of the clock.
pub const LOG_AHEAD_MS: i64 = 1000;

/// How far ahead of the sequence a WAL record is written when the sequence is already
/// [`LOG_AHEAD_MS`] ahead of the clock. Short, so that repeated crashes do not move it further and
/// further ahead.
pub const LOG_AHEAD_MIN_MS: i64 = 50;

/// How far a sequence may be ahead of the clock before a session warns. With a correct clock,
/// crashes do not take it this far.
pub const WARN_AHEAD_MS: i64 = 60_000;

/// Values of the first day after an epoch are those of a counter, not of a clock.
pub const FIRST_DAY_MS: i64 = 24 * 3_600_000;

const _: () = assert!(VALUE_MAX == (1 << 50) - 1);

/// The millisecond of a value.
pub const fn ms_of(value: i64) -> i64 {
    value >> SEQ_BITS
}

/// The first value of a millisecond.
pub const fn first_of(ms: i64) -> i64 {
    ms << SEQ_BITS
}

/// The fields of a sequence's tuple that describe the issued ids.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct State {
    pub last_value: i64,
    /// False until the first value. Until then `last_value` is the start, not an issued value.
    pub is_called: bool,
}

/// Consecutive values within one millisecond: `first` and the `len - 1` values after it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Run {
    pub first: i64,
    pub len: i64,
}

impl Run {
    pub fn last(self) -> i64 {
        self.first + self.len - 1
    }
}

/// The decision for one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Issue these.
    Take(Run),
    /// Wait for this many ticks of the clock, then ask again with the state seen now as
    /// `waited_on`. If sessions ask for more values than a millisecond holds, a caller may find the
    /// next millisecond used up as well, and wait again.
    Wait { ticks: i64 },
    /// The sequence has reached the end of the positive half of the time field.
    Exhausted,
    /// The clock is before the epoch.
    ClockBeforeEpoch,
    /// The clock is past the end of the positive half of the time field.
    ClockPastField,
}

/// The next values after `state`: at most `want`, which is at least 1.
///
/// `now_ms` is the clock in milliseconds since the epoch. It may be the caller's arrival time, read
/// before the state. An answer other than [`Next::Take`] is valid only if the clock was read
/// together with the state.
///
/// `waited_on` is the state that the caller last waited for. A wait permits a step from exactly
/// that state: the first waiting session opens the next millisecond, and the others find it open.
#[inline]
pub fn next(state: State, now_ms: i64, want: i64, waited_on: Option<State>) -> Next {
    if state.is_called && state.last_value >= VALUE_MAX {
        return Next::Exhausted;
    }
    // As in nextval, a sequence that was never called starts at last_value, and a called one after
    // it.
    let candidate = state.last_value.wrapping_add(state.is_called as i64);
    let candidate_ms = candidate >> SEQ_BITS;
    let has_waited = waited_on == Some(state);

    // A sequence that is ahead of the clock continues even if the clock is before the epoch. A
    // negative value is not a time, so it is never ahead.
    let first = if state.is_called && candidate_ms >= now_ms.max(0) {
        let opens_a_millisecond = candidate & SEQ_MAX as i64 == 0;
        if opens_a_millisecond && candidate_ms > now_ms + LEAD_MS && !has_waited {
            return Next::Wait { ticks: 1 };
        }
        candidate
    } else {
        if now_ms < 0 {
            return Next::ClockBeforeEpoch;
        }
        if now_ms > ISSUED_MS_MAX as i64 {
            return Next::ClockPastField;
        }
        // After RESTART, setval or DROP and CREATE, the state does not show which values were
        // issued in the present millisecond and in the LEAD_MS after it. So wait until both are
        // over. A shard in use never waits here, because its state is never this old.
        let is_current = state.is_called && candidate_ms >= now_ms - STALE_MS;
        if !is_current && !has_waited {
            return Next::Wait { ticks: 1 + LEAD_MS };
        }
        first_of(now_ms) | (candidate & SEQ_MAX as i64)
    };
    let left_in_ms = VALUES_PER_MS - (first & SEQ_MAX as i64);
    Next::Take(Run { first, len: want.min(left_in_ms) })
}

/// Whether a sequence is used as a counter, such as that of a serial column: its value is too small
/// for a clock. A sequence that is at its minimum was never used, or was set back to follow the
/// clock again.
///
/// On a worker of a Citus cluster a counter begins at the first value of the node's range,
/// `range_from`. This range is that of years of a clock, so on the first day of these years a
/// counter cannot be told from a clock. `now` is the first value of the present by the original's
/// epoch. Otherwise this does not depend on an epoch, because the caller could choose one by which
/// any value is that of the present.
pub fn is_counter(state: State, min_value: i64, range_from: Option<i64>, now: i64) -> bool {
    let State { last_value, is_called } = state;
    let is_on_first_day = |from, value: i64| value >= from && ms_of(value - from) < FIRST_DAY_MS;
    let is_in_range = range_from.is_some_and(|from| {
        last_value > from && is_on_first_day(from, last_value) && !is_on_first_day(from, now)
    });
    is_called && (is_in_range || last_value > min_value && ms_of(last_value) < FIRST_DAY_MS)
}

/// A page as a session saw it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Seen {
    pub state: State,
    /// The page's LSN. It distinguishes an unchanged page from one whose state `setval` has
    /// restored. Values issued before that `setval` may belong to the millisecond that a session
    /// waited for.
    pub lsn: u64,
}

/// A wait for clock ticks. After the wait the session may take a value if the page is still as the
/// session saw it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Wait {
    pub seen: Seen,
    /// Microseconds from the epoch to the time at which the page was seen.
    pub clock_us: i64,
    /// Milliseconds to wait from that time.
    pub ticks: i64,
}

impl Wait {
    /// Microseconds to wait from now until the last tick. The result is at most the length of the
    /// ticks, because the clock may have been set back since.
    pub fn left_us(self, now_us: i64) -> i64 {
        let last_tick_us = (self.clock_us.div_euclid(US_PER_MS) + self.ticks) * US_PER_MS;
        (last_tick_us - now_us).clamp(0, self.ticks * US_PER_MS)
    }
}

/// Decides one visit to the page with [`next`]. The session arrived at `arrived_us`, in
/// microseconds from the epoch. `waited_on` is its last wait. Also returns the time on which the
/// decision is based.
///
/// A session that waited for the page lock still uses its arrival millisecond if there is room. If
/// that gives no value of at least `min_value`, the clock is read again. A wait must start at a
/// time when the page was already in its present state: values issued before the sequence was set
/// back are ahead of that time by at most the lead.
#[inline(always)]
pub fn visit(
    seen: Seen,
    arrived_us: i64,
    read_clock: impl FnOnce() -> i64,
    want: i64,
    min_value: i64,
    waited_on: Option<Wait>,
) -> (Next, i64) {
    let waited_on = waited_on.filter(|wait| wait.seen.lsn == seen.lsn).map(|wait| wait.seen.state);
    let ask = |clock_us: i64| next(seen.state, clock_us.div_euclid(US_PER_MS), want, waited_on);
    match ask(arrived_us) {
        Next::Take(run) if run.first >= min_value => (Next::Take(run), arrived_us),
        _ => {
            let clock_us = read_clock();
            (ask(clock_us), clock_us)
        }
    }
}

/// How to make a step to a later value durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Durability {
    /// The value to write to WAL before the step is applied; `None` if an earlier record covers it.
    pub record: Option<i64>,
    /// The new `log_cnt`: how many more values fit before the next record is due.
    pub log_cnt: i64,
}

/// Decides whether the step from `last_value` to `new_value` needs a WAL record, with the clock at
/// `now_ms`.
///
/// `log_cnt` keeps the meaning that core gives it. It is a distance from `last_value`, not an
/// absolute value, so plain `nextval()` and `setval()` work on the same sequence. `must_record` is
/// set if crash recovery would not replay a record that covers the state.
pub fn durability(
    last_value: i64,
    log_cnt: i64,
    new_value: i64,
    now_ms: i64,
    must_record: bool,
) -> Durability {
    let step = new_value.saturating_sub(last_value);
    if !must_record && step <= log_cnt {
        return Durability { record: None, log_cnt: log_cnt - step };
    }
    let ahead_of_clock = now_ms.saturating_add(LOG_AHEAD_MS).saturating_mul(VALUES_PER_MS);
    let ahead_of_value = new_value + LOG_AHEAD_MIN_MS * VALUES_PER_MS;
    let record = ahead_of_clock.max(ahead_of_value).min(VALUE_MAX);
    Durability { record: Some(record), log_cnt: record - new_value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Event, SESSIONS, Server, called};
    use proptest::prelude::*;

    const NOW: i64 = 480_000_000_000; // ms since the original epoch, in 2026

    fn value(ms: i64, seq: i64) -> i64 {
        ms << SEQ_BITS | seq
    }

    #[track_caller]
    fn takes(state: State, waited_on: bool, first: i64) {
        let waited_on = waited_on.then_some(state);
        assert_eq!(next(state, NOW, 1, waited_on), Next::Take(Run { first, len: 1 }));
    }

    #[track_caller]
    fn waits(state: State, ticks: i64) {
        assert_eq!(next(state, NOW, 1, None), Next::Wait { ticks });
        // A wait for another state does not permit a step from this one.
        assert_eq!(next(state, NOW, 1, Some(called(state.last_value - 1))), Next::Wait { ticks });
    }

    /// The other tests hold for any lead.
    #[test]
    fn the_lead_is_the_published_one() {
        assert_eq!(
            LEAD_MS, 1,
            "docs/use/guarantees.md promises ids at most one millisecond ahead of the clock"
        );
    }

    #[test]
    fn small_values_are_those_of_a_counter() {
        let day = value(86_400_000, 0);
        for value in [2, 1_000_000, day - 1] {
            assert!(is_counter(called(value), 1, None, 5000), "{value}");
        }
        for value in [day, value(NOW, 7), VALUE_MAX, i64::MAX, 1] {
            assert!(!is_counter(called(value), 1, None, 5000), "{value}");
        }
        assert!(is_counter(called(-7), i64::MIN, None, 5000));
        assert!(!is_counter(State { last_value: 1000, is_called: false }, 1, None, 5000));
        // The range of a worker, on other days than its first one.
        let first = (1 << 48) + 1;
        for (value, now, is_one) in [
            (first + 1, first - 1, true),
            (first + day - 1, first + day, true),
            (first + 1, first + day - 1, false),
            (first, first + day, false),
            (first + day, first + day, false),
            (5000, first + day, true),
        ] {
            assert_eq!(is_counter(called(value), 0, Some(first), now), is_one, "{value} {now}");
        }
    }

    #[test]
    fn behind_the_clock_takes_its_millisecond_and_counts_on() {
        takes(called(value(NOW - 1, 7)), false, value(NOW, 8));
        takes(called(value(NOW - 60_000, 1023)), false, value(NOW, 0));
        takes(called(value(NOW - STALE_MS, 41)), false, value(NOW, 42));
    }

    #[test]
    fn in_the_clocks_millisecond_takes_the_next_value() {
        takes(called(value(NOW, 7)), false, value(NOW, 8));
        takes(called(value(NOW - 1, 1023)), false, value(NOW, 0));
    }

    #[test]
    fn ahead_of_the_clock_takes_what_is_open_and_pays_for_more() {
        takes(called(value(NOW + 5, 7)), false, value(NOW + 5, 8));
        takes(called(value(NOW + LEAD_MS - 1, 1023)), false, value(NOW + LEAD_MS, 0));
        waits(called(value(NOW + LEAD_MS, 1023)), 1);
        waits(called(value(NOW + 86_400_000, 1023)), 1);
        takes(called(value(NOW + LEAD_MS, 1023)), true, value(NOW + LEAD_MS + 1, 0));
        takes(called(value(NOW + 86_400_000, 1023)), true, value(NOW + 86_400_001, 0));
    }

    #[test]
    fn a_sequence_without_a_recent_time_waits_for_the_lead_to_be_over() {
        let never_called = State { last_value: 1, is_called: false };
        waits(never_called, 1 + LEAD_MS);
        takes(never_called, true, value(NOW, 1));
        waits(called(5000), 1 + LEAD_MS); // a counter: 5000 plain nextvals
        takes(called(5000), true, value(NOW, 905));
        waits(called(value(NOW - STALE_MS - 1, 4)), 1 + LEAD_MS);
        takes(called(i64::MIN), true, value(NOW, 1));
    }

    #[test]
    fn never_called_follows_the_clock_wherever_its_start_lies() {
        let ahead = State { last_value: (3 << 48) + 1, is_called: false };
        takes(ahead, true, value(NOW, 1));
        takes(State { last_value: i64::MAX, is_called: false }, true, value(NOW, 1023));
        // A start value near the clock does not show which values were issued.
        waits(ahead, 1 + LEAD_MS);
        waits(State { last_value: value(NOW - 10, 5), is_called: false }, 1 + LEAD_MS);
        waits(State { last_value: value(NOW, 5), is_called: false }, 1 + LEAD_MS);
    }

    #[test]
    fn a_wait_pays_for_the_whole_state() {
        let (started, called) = (State { last_value: 1, is_called: false }, called(1));
        assert_eq!(next(called, NOW, 1, Some(started)), Next::Wait { ticks: 1 + LEAD_MS });
        assert_eq!(next(started, NOW, 1, Some(called)), Next::Wait { ticks: 1 + LEAD_MS });
    }

    #[test]
    fn a_first_value_below_the_minimum_reads_the_clock_again() {
        let seen = Seen { state: called(value(NOW - 1, 7)), lsn: 1 };
        let (arrived, later) = (NOW * US_PER_MS, (NOW + 1) * US_PER_MS);
        let first = value(NOW, 8);
        let visit = |min_value| visit(seen, arrived, || later, 1, min_value, None);
        assert_eq!(visit(first), (Next::Take(Run { first, len: 1 }), arrived));
        assert_eq!(visit(first + 1), (Next::Take(Run { first: value(NOW + 1, 8), len: 1 }), later));
    }

    #[test]
    fn a_run_stays_within_its_millisecond() {
        let from = |seq| next(called(value(NOW, seq)), NOW, 2000, None);
        let from_before = next(called(value(NOW - 1, 1023)), NOW, 2000, None);
        assert_eq!(from_before, Next::Take(Run { first: value(NOW, 0), len: 1024 }));
        assert_eq!(from(0), Next::Take(Run { first: value(NOW, 1), len: 1023 }));
        assert_eq!(from(1022), Next::Take(Run { first: value(NOW, 1023), len: 1 }));
        assert_eq!(from(1023), Next::Take(Run { first: value(NOW + 1, 0), len: 1024 }));
    }

    #[test]
    fn ends_at_the_fields_end() {
        let end = ISSUED_MS_MAX as i64;
        let at = |state, now_ms| next(state, now_ms, 1, Some(state));
        for ms in [end - 1, end] {
            let last = Next::Take(Run { first: value(end, 6), len: 1 });
            assert_eq!(at(called(value(ms, 5)), end), last);
        }
        assert_eq!(at(called(VALUE_MAX), end), Next::Exhausted);
        assert_eq!(at(called(VALUE_MAX), NOW), Next::Exhausted);
        assert_eq!(at(called(VALUE_MAX + 1), NOW), Next::Exhausted);
        assert_eq!(at(called(i64::MAX), NOW), Next::Exhausted);
        assert_eq!(at(called(value(end, 5)), end + 1), Next::ClockPastField);
        assert_eq!(at(called(5), i64::MAX / 1000), Next::ClockPastField);
    }

    #[test]
    fn a_clock_before_the_epoch_has_no_time_to_give() {
        assert_eq!(next(called(5), -1, 1, None), Next::Take(Run { first: 6, len: 1 }));
        assert_eq!(next(called(-1), -2, 1, None), Next::Wait { ticks: 1 });
        assert_eq!(next(called(-2), -1, 1, None), Next::ClockBeforeEpoch);
        assert_eq!(next(called(-5000), -1_000_000, 1, None), Next::ClockBeforeEpoch);
        assert_eq!(next(called(-3), 0, 1, None), Next::Take(Run { first: 1022, len: 1 }));
        assert_eq!(
            next(State { last_value: 1, is_called: false }, -1, 1, None),
            Next::ClockBeforeEpoch
        );
    }

    #[test]
    fn wal_is_logged_ahead() {
        #[track_caller]
        fn check(
            last_value: i64,
            log_cnt: i64,
            new_value: i64,
            must_record: bool,
            record: Option<i64>,
            left: i64,
        ) {
            let plan = durability(last_value, log_cnt, new_value, NOW, must_record);
            assert_eq!(plan, Durability { record, log_cnt: left });
        }
        let v = value(NOW, 7);
        check(v - 1, 10, v, false, None, 9);
        check(v - 10, 10, v, false, None, 0);
        // One second ahead of the clock.
        let ahead = value(NOW + LOG_AHEAD_MS, 0);
        check(v - 11, 10, v, false, Some(ahead), ahead - v);
        check(v - 1, 10, v, true, Some(ahead), ahead - v);
        check(i64::MIN, 0, v, false, Some(ahead), ahead - v);
        // The sequence is already there: 50 ms further.
        let v = value(NOW + LOG_AHEAD_MS, 7);
        let further = value(NOW + LOG_AHEAD_MS + LOG_AHEAD_MIN_MS, 7);
        check(v - 1, 0, v, false, Some(further), further - v);
        // Never past the last value.
        check(VALUE_MAX - 4, 0, VALUE_MAX - 3, false, Some(VALUE_MAX), 3);
        check(VALUE_MAX - 1, 0, VALUE_MAX, false, Some(VALUE_MAX), 0);
    }

    /// A session that waited for the page lock still uses its arrival millisecond, and then the
    /// next, while there is room.
    #[test]
    fn who_came_early_fills_his_millisecond() {
        let mut server = Server::new(called(value(NOW, 5)), NOW);
        for session in 0..3 {
            server.handle(Event::Come { session });
        }
        server.handle(Event::Pass { ms: 3 });
        server.ask(0, 5000);
        assert_eq!(server.page, called(value(NOW, 1023)));
        server.ask(1, 5000);
        assert_eq!(server.page, called(value(NOW + LEAD_MS, 1023)));
        server.ask(2, 1);
        assert_eq!(server.page, called(value(NOW + 3, 0)));
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            12 => (0..SESSIONS, prop_oneof![Just(1), 1..1024i64, 1..5000i64])
                .prop_map(|(session, want)| Event::Ask { session, want }),
            4 => (0..SESSIONS).prop_map(|session| Event::Come { session }),
            6 => (0..3i64).prop_map(|ms| Event::Pass { ms }),
            1 => (-100_000_000..100_000_000i64).prop_map(|ms| Event::Jump { ms }),
            1 => (-3..3i64).prop_map(|ms| Event::Jump { ms }),
            1 => Just(Event::Crash),
            1 => Just(Event::Checkpoint),
            1 => Just(Event::Nextval),
        ]
    }

    fn start() -> impl Strategy<Value = State> {
        prop_oneof![
            Just(State { last_value: 1, is_called: false }),
            Just(called(5000)),
            Just(called(-5000)),
            (-5000..5000i64, 0..1024i64).prop_map(|(ms, seq)| called(value(NOW + ms, seq))),
            (1..4i64).prop_map(|group| State { last_value: (group << 48) + 1, is_called: false }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Under all of these events, values never repeat and only grow, and the value in WAL is
        /// never below an issued one. So a crash repeats nothing. The model asserts it.
        #[test]
        fn values_only_grow(page in start(), events in prop::collection::vec(event(), 1..300)) {
            let mut server = Server::new(page, NOW);
            for event in events {
                server.handle(event);
            }
            prop_assert_eq!(server.refused, None);
        }

        /// As long as the clock is not set, the sequence gets no further ahead of it than it was at
        /// first, or than [`LEAD_MS`], however many sessions ask. A crash moves it up to a second
        /// ahead, and each further crash only a little more.
        #[test]
        fn never_ahead_faster_than_the_clock(
            lead in -100..1000i64,
            seq in 0..1024i64,
            events in prop::collection::vec(event(), 1..300),
        ) {
            let mut server = Server::new(called(value(NOW + lead, seq)), NOW);
            let mut bound = lead.max(LEAD_MS);
            for event in events {
                match event {
                    Event::Jump { .. } | Event::Nextval => continue,
                    Event::Crash => bound = bound.max(LOG_AHEAD_MS) + LOG_AHEAD_MIN_MS,
                    _ => {}
                }
                server.handle(event);
                let lead_now = (server.page.last_value >> SEQ_BITS) - server.clock();
                prop_assert!(lead_now <= bound, "lead grew from {} to {}", lead, lead_now);
            }
        }

        /// Sessions that ask for no more than the limit never wait, whenever in a millisecond they
        /// ask.
        #[test]
        fn below_the_limit_no_one_waits(
            seq in 0..1024i64,
            wants in prop::collection::vec(0..=1024i64, 1..100),
            parts in 1..5i64,
        ) {
            let mut server = Server::new(called(value(NOW, seq)), NOW);
            let mut wanted = 0;
            for want in wants {
                server.handle(Event::Pass { ms: 1 });
                wanted += want;
                while server.count_issued < wanted {
                    let before = server.count_issued;
                    server.ask(0, (want / parts).max(1).min(wanted - before));
                    prop_assert!(server.count_issued > before, "waits at {:?}", server.page);
                }
            }
        }

        /// Sessions that ask for as much as possible get 1024 values for each millisecond that
        /// passes, and once the 1024 values of the lead.
        #[test]
        fn full_speed_is_the_formats_limit(lead in 0..50i64, ms in 1..100i64) {
            let mut server = Server::new(called(value(NOW + lead, 1023)), NOW);
            for _ in 0..ms {
                for session in 0..SESSIONS {
                    server.ask(session, 5000);
                }
                server.handle(Event::Pass { ms: 1 });
                for _ in 0..2 {
                    for session in 0..SESSIONS {
                        server.ask(session, 5000);
                    }
                }
            }
            let ms = ms + (LEAD_MS - lead).max(0);
            prop_assert_eq!(server.count_issued, ms * VALUES_PER_MS);
        }
    }

    /// A clock that is set back during a wait does not prolong it.
    #[test]
    fn a_wait_takes_no_longer_than_its_ticks() {
        let seen = Seen { state: called(value(NOW, 5)), lsn: 1 };
        let wait = Wait { seen, clock_us: NOW * US_PER_MS + 300, ticks: 2 };
        let left_us = |us| wait.left_us(NOW * US_PER_MS + us);
        assert_eq!([300, 1999, 2000, 5000].map(left_us), [1700, 1, 0, 0]);
        assert_eq!(left_us(-3_600_000_000), 2 * US_PER_MS);
    }
}

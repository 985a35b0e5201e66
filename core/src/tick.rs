//! The generator's rule: the next value of a sequence that is a logical clock.
//!
//! A shard's sequence holds the last issued `value = ms << 10 | seq`, the id without its shard. The next value
//! is the last one plus one, or that plus one's low bits under the clock's millisecond where the clock is
//! ahead. So every value is larger than the one before it whatever the clock does, and the sequence field goes
//! on counting by one modulo 1024.
//!
//! A sequence may open the millisecond after the clock's: the low bits come to their end once in 1024 values, however
//! few of them a millisecond has had, and whoever makes fewer than the limit allows is not to wait for it. Opening one
//! later than that must be paid for: the caller waits for the clock's next tick, holding nothing, and asks again. So a
//! sequence is never ahead of the clock by more than this one millisecond, its lead, unless something took it there,
//! and from there it runs no faster than the clock.
//!
//! Pure: the state and the clock come in, the decision goes out. The property tests below run whole fleets of
//! sessions against clocks that jump, in the model of [`fleet`](crate::fleet).

use crate::layout::{ISSUED_MS_MAX, SEQ_BITS, SEQ_MAX};

/// Values that fit one millisecond.
pub const VALUES_PER_MS: i64 = 1 << SEQ_BITS;

/// The largest value a sequence issues, 2^50 - 1; the ids above it would be negative.
pub const VALUE_MAX: i64 = ((ISSUED_MS_MAX as i64) << SEQ_BITS) | SEQ_MAX as i64;

/// How far ahead of the clock a value may be without a wait. One millisecond is enough: a sequence that makes fewer than
/// 1024 values in each can open but one that the clock has not reached before the clock does.
pub const LEAD_MS: i64 = 1;

/// A state this far behind the clock says nothing about the millisecond that the clock is in.
const STALE_MS: i64 = 3_600_000;

/// How far ahead of the clock WAL is written. A busy sequence writes one record in that time, and after a crash
/// it resumes at most this far ahead of the clock.
pub const LOG_AHEAD_MS: i64 = 1000;

/// How far ahead of the sequence WAL is written where the sequence itself is that far ahead of the clock. Short,
/// so that a row of crashes does not take it further and further.
pub const LOG_AHEAD_MIN_MS: i64 = 50;

const _: () = assert!(VALUE_MAX == (1 << 50) - 1);

/// The millisecond of a value.
pub const fn ms_of(value: i64) -> i64 {
    value >> SEQ_BITS
}

/// What a sequence's tuple says of the ids issued from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    pub last_value: i64,
    /// False until the first value: then `last_value` is where to start, not what was issued.
    pub is_called: bool,
}

/// Consecutive values within one millisecond, `first` and the `len - 1` after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    pub first: i64,
    pub len: i64,
}

impl Run {
    pub fn last(self) -> i64 {
        self.first + self.len - 1
    }
}

/// What the rule says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Issue these.
    Take(Run),
    /// Wait for this many ticks of the clock, then ask again with the state seen now as `paid`. Where more is asked of
    /// a sequence than a millisecond holds, a caller may find the next one used up too, and wait again.
    Wait { ticks: i64 },
    /// The sequence has come to the end of the time field, less its sign.
    Exhausted,
    /// The clock is before the epoch.
    ClockBeforeEpoch,
    /// The clock is past the end of the time field, less its sign.
    ClockPastField,
}

/// The next values after `state`, at most `want` (at least 1) of them, when the clock shows `now_ms`
/// milliseconds since the epoch, or did when the caller came. An answer other than [`Next::Take`] is good only for a
/// clock that was read when the state was.
///
/// `paid` is the state that the caller last waited for. A wait pays for leaving just that state: whoever
/// of those waiting comes first opens the next millisecond, the others find it open.
pub fn next(state: State, now_ms: i64, want: i64, paid: Option<State>) -> Next {
    if state.is_called && state.last_value >= VALUE_MAX {
        return Next::Exhausted;
    }
    // As nextval does: a sequence never called starts at last_value, a called one follows it.
    let candidate = state.last_value.wrapping_add(state.is_called as i64);
    let candidate_ms = candidate >> SEQ_BITS;
    let has_paid = paid == Some(state);

    // A clock before the epoch does not stop a sequence that is ahead of it; a negative value is no time at all.
    let first = if state.is_called && candidate_ms >= now_ms.max(0) {
        let opens_a_millisecond = candidate & SEQ_MAX as i64 == 0;
        if opens_a_millisecond && candidate_ms > now_ms + LEAD_MS && !has_paid {
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
        // RESTART and setval can take away what the sequence knew of the clock's present millisecond and of its lead,
        // in which it may have issued ids. Some ticks later these are over. The same goes for a sequence made
        // anew. It costs a shard in use nothing: its state is never this old.
        let knows_the_present = state.is_called && candidate_ms >= now_ms - STALE_MS;
        if !knows_the_present && !has_paid {
            return Next::Wait { ticks: 1 + LEAD_MS };
        }
        now_ms << SEQ_BITS | (candidate & SEQ_MAX as i64)
    };
    let left_in_ms = VALUES_PER_MS - (first & SEQ_MAX as i64);
    Next::Take(Run { first, len: want.min(left_in_ms) })
}

/// How a step from one value to a later one is made durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Durability {
    /// The value to write to WAL before the step is applied; `None` where an earlier record covers it.
    pub record: Option<i64>,
    /// What `log_cnt` becomes: the values that may follow before the next record is due.
    pub log_cnt: i64,
}

/// Decides whether going from `last_value` to `new_value`, while the clock shows `now_ms`, needs a WAL record.
///
/// `log_cnt` keeps core's meaning, a distance from `last_value` and no absolute value, so plain `nextval()` and
/// `setval()` work on the same sequence. `must_record` is for a state that no WAL record which a crash would
/// replay covers.
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
    use crate::fleet::{Event, SESSIONS, Server, called};
    use proptest::prelude::*;

    const NOW: i64 = 480_000_000_000; // ms since the original epoch, in 2026

    fn value(ms: i64, seq: i64) -> i64 {
        ms << SEQ_BITS | seq
    }

    #[track_caller]
    fn takes(state: State, paid: bool, first: i64) {
        let paid = paid.then_some(state);
        assert_eq!(next(state, NOW, 1, paid), Next::Take(Run { first, len: 1 }));
    }

    #[track_caller]
    fn waits(state: State, ticks: i64) {
        assert_eq!(next(state, NOW, 1, None), Next::Wait { ticks });
        // A wait for another state pays for nothing here.
        assert_eq!(next(state, NOW, 1, Some(called(state.last_value - 1))), Next::Wait { ticks });
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
        takes(called(value(NOW, 1023)), false, value(NOW + 1, 0));
        waits(called(value(NOW + 1, 1023)), 1);
        waits(called(value(NOW + 86_400_000, 1023)), 1);
        takes(called(value(NOW + 1, 1023)), true, value(NOW + 2, 0));
        takes(called(value(NOW + 86_400_000, 1023)), true, value(NOW + 86_400_001, 0));
    }

    #[test]
    fn a_sequence_without_a_recent_time_waits_for_the_lead_to_be_over() {
        let never_called = State { last_value: 1, is_called: false };
        waits(never_called, 2);
        takes(never_called, true, value(NOW, 1));
        waits(called(5000), 2); // a counter: 5000 plain nextvals
        takes(called(5000), true, value(NOW, 905));
        waits(called(value(NOW - STALE_MS - 1, 4)), 2);
        takes(called(i64::MIN), true, value(NOW, 1));
    }

    #[test]
    fn never_called_follows_the_clock_wherever_its_start_lies() {
        let ahead = State { last_value: (3 << 48) + 1, is_called: false };
        takes(ahead, true, value(NOW, 1));
        takes(State { last_value: i64::MAX, is_called: false }, true, value(NOW, 1023));
        // Nor does a start near the clock say that the present millisecond is known.
        waits(ahead, 2);
        waits(State { last_value: value(NOW - 10, 5), is_called: false }, 2);
        waits(State { last_value: value(NOW, 5), is_called: false }, 2);
    }

    #[test]
    fn a_wait_pays_for_the_whole_state() {
        let (started, called) = (State { last_value: 1, is_called: false }, called(1));
        assert_eq!(next(called, NOW, 1, Some(started)), Next::Wait { ticks: 2 });
        assert_eq!(next(started, NOW, 1, Some(called)), Next::Wait { ticks: 2 });
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
        assert_eq!(at(called(value(end, 5)), end), Next::Take(Run { first: value(end, 6), len: 1 }));
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
        assert_eq!(next(State { last_value: 1, is_called: false }, -1, 1, None), Next::ClockBeforeEpoch);
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
        // A second ahead of the clock.
        let ahead = value(NOW + LOG_AHEAD_MS, 0);
        check(v - 11, 10, v, false, Some(ahead), ahead - v);
        check(v - 1, 10, v, true, Some(ahead), ahead - v);
        check(i64::MIN, 0, v, false, Some(ahead), ahead - v);
        // Where the sequence is there already, a little further.
        let v = value(NOW + LOG_AHEAD_MS, 7);
        let further = value(NOW + LOG_AHEAD_MS + LOG_AHEAD_MIN_MS, 7);
        check(v - 1, 0, v, false, Some(further), further - v);
        // Never past the last value.
        check(VALUE_MAX - 4, 0, VALUE_MAX - 3, false, Some(VALUE_MAX), 3);
        check(VALUE_MAX - 1, 0, VALUE_MAX, false, Some(VALUE_MAX), 0);
    }

    /// Of the millisecond in which others issued values after a session had come and before someone set the sequence
    /// back, that session knows nothing: its wait counts from when it saw the sequence.
    #[test]
    fn who_came_early_waits_no_less() {
        let mut server = Server::new(called(value(NOW, 5)), NOW);
        server.handle(Event::Come { session: 0 });
        server.handle(Event::Pass { ms: 5 });
        server.ask(1, 100);
        server.set(5);
        for _ in 0..3 {
            server.ask(0, 1);
            assert_eq!((server.count_issued, server.page), (100, called(5)));
        }
        server.handle(Event::Pass { ms: 1 + LEAD_MS });
        server.ask(0, 1);
        assert_eq!(server.page, called(value(NOW + 5 + 1 + LEAD_MS, 6)));
    }

    /// A sequence that is set to its start has forgotten the millisecond that it opened before the clock came to it.
    #[test]
    fn a_lead_that_is_forgotten_is_waited_for() {
        let mut server = Server::new(called(value(NOW, 1023)), NOW);
        server.ask(0, 1024);
        assert_eq!(server.page, called(value(NOW + LEAD_MS, 1023)));
        server.set(1);
        for _ in 0..5 {
            server.handle(Event::Ask { session: 0, want: 1 }); // the model looks for repeated values
            server.handle(Event::Pass { ms: 1 });
        }
        assert_eq!(server.count_issued, 1024 + 4 - LEAD_MS);
    }

    /// Who has waited for the page goes on in the millisecond in which he came, as long as it has room, and in the next.
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

        /// Through all of these events: no value twice, none out of order, and what WAL holds is never below what was
        /// handed out, so a crash repeats nothing. The model checks it.
        #[test]
        fn values_only_grow(page in start(), events in prop::collection::vec(event(), 1..300)) {
            let mut server = Server::new(page, NOW);
            for event in events {
                server.handle(event);
            }
            prop_assert_eq!(server.refused, None);
        }

        /// While the clock is left alone the sequence never leads it by more than it did at first, however many
        /// sessions push; and where it did not lead at first by no more than its lead. A crash takes it to a second ahead,
        /// and one after the other but a little further.
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

        /// Sessions that ask for no more than the limit allows, at whatever moments of a millisecond, never wait.
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

        /// Sessions that ask for all they can get receive 1024 values for each millisecond that passes, and those of the
        /// lead once.
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
}

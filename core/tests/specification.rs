//! The bits of ids, the arithmetic of times and the short codes, compared with the description in
//! the README, computed in numbers that cannot overflow.

use instagram_id_core::epoch::Epoch;
use instagram_id_core::layout::{MS_MAX, value_of};
use instagram_id_core::layout::{Seq, Shard, id_of, ms_of, pack, seq_of, shard_for, shard_of};
use instagram_id_core::shortcode;
use proptest::prelude::*;

/// All ids; those of a millisecond, of 8192 shards; and those of one shard in it.
const ALL: i128 = 1 << 64;
const PER_MS: i128 = 8192 * PER_SHARD;
const PER_SHARD: i128 = 1024;
const FIELD_MS: i128 = 1 << 41;

/// The first and last finite `timestamptz`: 4714-11-24 BC, and the microsecond before 294277 AD.
const FIRST_TIME: i64 = -211_813_488_000_000_000;
const LAST_TIME: i64 = 9_223_371_331_199_999_999;

/// Milliseconds, shard and sequence field of an id, read as an unsigned number.
fn fields(id: i64) -> (i128, i128, i128) {
    let id = i128::from(id).rem_euclid(ALL);
    (id / PER_MS, id / PER_SHARD % 8192, id % PER_SHARD)
}

/// The time as a number, if it is finite.
fn finite(time: i64) -> Option<i128> {
    (FIRST_TIME..=LAST_TIME).contains(&time).then_some(time.into())
}

/// The millisecond from the epoch that contains a time, or with `up` the first that starts at or
/// after it.
fn ms(time: i64, epoch: i64, up: bool) -> Option<i128> {
    let elapsed = finite(time)? - finite(epoch)?;
    let ms = if up { -(-elapsed).div_euclid(1000) } else { elapsed.div_euclid(1000) };
    (0..FIELD_MS).contains(&ms).then_some(ms)
}

fn digit(n: i128) -> char {
    let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    digits.chars().nth(n as usize).expect("a digit of 64")
}

fn code_of(id: i64) -> String {
    let mut rest = i128::from(id).rem_euclid(ALL);
    let mut code = String::new();
    while rest > 0 || code.is_empty() {
        code.insert(0, digit(rest % 64));
        rest /= 64;
    }
    code
}

fn id_of_code(code: &str) -> Option<i64> {
    let number = code.chars().try_fold(0, |number: i128, char| {
        let n = (0..64).find(|&n| digit(n) == char)?;
        Some((number * 64 + n).min(ALL))
    });
    let number = number.filter(|&number| number < ALL && !code.is_empty())?;
    Some(number as u64 as i64)
}

/// Any `timestamptz`, often an infinity or the first or last time.
fn any_time() -> impl Strategy<Value = i64> {
    let edges = prop::sample::select(vec![i64::MIN, i64::MAX, FIRST_TIME, LAST_TIME]);
    prop_oneof![edges, FIRST_TIME..=LAST_TIME]
}

/// An epoch, and a time that is often near an edge of the time field from this epoch on.
fn epoch_and_time() -> impl Strategy<Value = (i64, i64)> {
    let epoch = prop_oneof![any_time(), Just(Epoch::ORIGINAL.at())];
    let edges = prop::sample::select(vec![0, 1 << 40, 1 << 41]);
    let elapsed = prop_oneof![0..=MS_MAX as i64, edges];
    (epoch, elapsed, -1001..=1001i64, any_time()).prop_flat_map(|(epoch, elapsed, us, any)| {
        let near = epoch.saturating_add(elapsed * 1000 + us);
        (Just(epoch), prop_oneof![3 => Just(near), 1 => Just(any)])
    })
}

/// A number near those of shards, often one at an edge of them or of the sequence field.
fn number_or_edge() -> impl Strategy<Value = i32> {
    prop_oneof![-2..=8200, prop::sample::select(vec![-1, 0, 1023, 1024, 8191, 8192, 8193])]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn ids_have_the_fields(id: i64) {
        let (ms, shard, seq) = (ms_of(id), shard_of(id), seq_of(id));
        let numbers = (ms.into(), shard.number().into(), seq.number().into());
        prop_assert_eq!(fields(id), numbers);
        prop_assert_eq!(pack(ms, shard, seq), id);
        prop_assert_eq!(id_of(value_of(id), shard), id);
    }

    #[test]
    fn shards_are_those_of_the_keys(key: i64, shards in number_or_edge()) {
        let is_valid = (1..=8192).contains(&shards);
        let expected = is_valid.then(|| i128::from(key).rem_euclid(shards.into()));
        prop_assert_eq!(shard_for(key, shards).map(|shard| i128::from(shard.number())), expected);
        prop_assert_eq!(Shard::new(shards).is_some(), (0..=8191).contains(&shards));
        prop_assert_eq!(Seq::new(shards).is_some(), (0..=1023).contains(&shards));
    }

    #[test]
    fn times_have_the_milliseconds((at, time) in epoch_and_time(), id: i64) {
        let Some(epoch) = Epoch::new(at) else {
            prop_assert_eq!(finite(at), None);
            return Ok(());
        };
        prop_assert_eq!(epoch.ms_at(time).ok().map(i128::from), ms(time, at, false));
        prop_assert_eq!(epoch.ms_from(time).ok().map(i128::from), ms(time, at, true));
        let expected = i128::from(at) + fields(id).0 * 1000;
        let expected = Some(expected).filter(|&time| time <= i128::from(LAST_TIME));
        prop_assert_eq!(epoch.time_of(ms_of(id)).map(i128::from), expected);
    }

    #[test]
    fn codes_are_numbers_in_base_64(id: i64, code in "A{0,99}[A-Za-z0-9_-]{0,13}[+=é ]?") {
        prop_assert_eq!(shortcode::encode(id), code_of(id));
        prop_assert_eq!(shortcode::decode(&code).ok(), id_of_code(&code));
    }
}

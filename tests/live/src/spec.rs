//! A second implementation of the pure functions from the README's description, in arithmetic that
//! cannot overflow and independent of the extension's code. Used by the tests of values and,
//! through `#[path]`, by the fuzzer in `fuzz/`.
//!
//! Times are microseconds since 2000-01-01 00:00 UTC, as PostgreSQL stores a `timestamptz`.

/// The infinities of `timestamptz`.
pub const INFINITY: i64 = i64::MAX;
pub const MINUS_INFINITY: i64 = i64::MIN;
/// Its first and last finite times: 4714-11-24 BC, and the microsecond before 294277 AD.
pub const FIRST_TIME: i64 = -211_813_488_000_000_000;
pub const LAST_TIME: i64 = 9_223_371_331_199_999_999;

/// 2000-01-01 in Unix milliseconds, and the original code's epoch.
pub const UNIX_MS_OF_2000: i64 = 946_684_800_000;
pub const ORIGINAL_EPOCH: i64 = (1_314_220_021_721 - UNIX_MS_OF_2000) * 1000;

/// Milliseconds of the 41-bit field, and of the part of it in which ids are not negative.
pub const FIELD_MS: i64 = 2_199_023_255_552;
pub const POSITIVE_MS: i64 = 1_099_511_627_776;

const PER_MS: i128 = 8_388_608; // ids in a millisecond: of 8192 shards, 1024 each
const PER_SHARD: i128 = 1024;
const ALL: i128 = 1 << 64;

/// The SQLSTATEs that a call may report: if it has several faults, any one of them.
pub type Faults = Vec<&'static str>;

pub const OUT_OF_RANGE: &str = "22023";
pub const NO_SUCH_TIME: &str = "22008";
pub const MALFORMED: &str = "22P02";
pub const FULL: &str = "2200H";

/// Milliseconds, shard and sequence field of an id, read as an unsigned number.
pub fn fields(id: i64) -> (i128, i128, i128) {
    let id = i128::from(id).rem_euclid(ALL);
    (id / PER_MS, id / PER_SHARD % 8192, id % PER_SHARD)
}

fn id_of(ms: i128, shard: i32, seq: i32) -> i64 {
    let id = ms * PER_MS + i128::from(shard) * PER_SHARD + i128::from(seq);
    i64::try_from(id).or_else(|_| i64::try_from(id - ALL)).expect("64 bits")
}

pub fn is_finite(time: i64) -> bool {
    time != INFINITY && time != MINUS_INFINITY
}

pub fn id_time(id: i64, epoch: i64) -> Result<i64, Faults> {
    let time = i128::from(epoch) + fields(id).0 * 1000;
    if !is_finite(epoch) || time > i128::from(LAST_TIME) {
        return Err(vec![NO_SUCH_TIME]);
    }
    Ok(i64::try_from(time).expect("a timestamptz"))
}

/// The millisecond from the epoch that contains a time, or with `up` the first that starts at or
/// after it.
fn ms(time: i64, epoch: i64, up: bool) -> Result<i128, Faults> {
    let elapsed = i128::from(time) - i128::from(epoch);
    let ms = if up { -(-elapsed).div_euclid(1000) } else { elapsed.div_euclid(1000) };
    let is_in_field = (0..i128::from(FIELD_MS)).contains(&ms);
    if is_finite(time) && is_finite(epoch) && is_in_field {
        Ok(ms)
    } else {
        Err(vec![NO_SUCH_TIME])
    }
}

pub fn make_id(time: i64, shard: i32, seq: i32, epoch: i64) -> Result<i64, Faults> {
    let ms = ms(time, epoch, false);
    let mut faults = ms.clone().err().unwrap_or_default();
    if !(0..=8191).contains(&shard) || !(0..=1023).contains(&seq) {
        faults.push(OUT_OF_RANGE);
    }
    if faults.is_empty() { Ok(id_of(ms?, shard, seq)) } else { Err(faults) }
}

pub fn id_floor(time: i64, epoch: i64) -> Result<i64, Faults> {
    Ok(id_of(ms(time, epoch, true)?, 0, 0))
}

/// The end of an empty range is its start.
pub fn id_range_end(from: i64, to: i64, epoch: i64) -> Result<i64, Faults> {
    let (start, end) = (ms(from, epoch, true)?, ms(to, epoch, true)?);
    let turn = i128::from(POSITIVE_MS);
    match to <= from {
        true => Ok(id_of(start, 0, 0)),
        false if start < turn && turn <= end => Err(vec![NO_SUCH_TIME]),
        false => Ok(id_of(end, 0, 0)),
    }
}

/// The AND of its two bounds by SQL's rules, so the result can be NULL if an argument is. `None` is
/// NULL.
pub fn id_between(
    id: Option<i64>,
    from: Option<i64>,
    to: Option<i64>,
    epoch: Option<i64>,
) -> Result<Option<bool>, Faults> {
    let (Some(from), Some(epoch)) = (from, epoch) else { return Ok(None) };
    let start = id_floor(from, epoch)?;
    if id.is_some_and(|id| id < start) {
        return Ok(Some(false));
    }
    let Some(to) = to else { return Ok(None) };
    let end = id_range_end(from, to, epoch)?;
    Ok(id.map(|id| id < end))
}

pub fn shard_for(key: i64, shards: i32) -> Result<i32, Faults> {
    match shards {
        1..=8192 => {
            Ok(i32::try_from(i128::from(key).rem_euclid(i128::from(shards))).expect("a shard"))
        }
        _ => Err(vec![OUT_OF_RANGE]),
    }
}

/// The digits of short codes: those of base64 with - and _ as the last two, as in RFC 4648 for
/// URLs.
fn digit(n: u8) -> char {
    match n {
        0..26 => char::from(b'A' + n),
        26..52 => char::from(b'a' + n - 26),
        52..62 => char::from(b'0' + n - 52),
        62 => '-',
        63 => '_',
        _ => unreachable!("a digit of 64"),
    }
}

/// The id as an unsigned number, in digits of base 64.
pub fn id_to_shortcode(id: i64) -> String {
    let mut rest = i128::from(id).rem_euclid(ALL);
    let mut code = vec![];
    while rest > 0 || code.is_empty() {
        code.push(digit(u8::try_from(rest % 64).expect("a digit")));
        rest /= 64;
    }
    code.into_iter().rev().collect()
}

pub fn shortcode_to_id(code: &str) -> Result<i64, Faults> {
    let malformed = || vec![MALFORMED];
    let mut number: i128 = 0;
    for char in code.chars() {
        let n = (0..64).find(|&n| digit(n) == char).ok_or_else(malformed)?;
        // A number out of range stays out of range.
        number = (number * 64 + i128::from(n)).min(ALL);
    }
    match number {
        _ if code.is_empty() => Err(malformed()),
        ALL.. => Err(malformed()),
        _ => Ok(i64::try_from(number).or_else(|_| i64::try_from(number - ALL)).expect("64 bits")),
    }
}

/// The faults of `backfill_id` for the rows of a window, in their order: times, shards and epochs,
/// with `None` for NULL.
///
/// # Errors
///
/// The faults of the rows; or that no increasing ids exist for a shard: its times are not in order,
/// or one of its milliseconds has more than 1,024 rows.
pub fn backfill_faults(rows: &[[Option<i64>; 3]]) -> Faults {
    let mut faults = vec![];
    let mut of_shard: std::collections::BTreeMap<i64, Vec<i128>> =
        std::collections::BTreeMap::new();
    for &[time, shard, epoch] in rows {
        if shard.is_some_and(|shard| !(0..=8191).contains(&shard)) {
            faults.push(OUT_OF_RANGE);
        }
        if epoch.is_some_and(|epoch| !is_finite(epoch)) {
            faults.push(NO_SUCH_TIME);
        }
        if let (Some(time), Some(epoch)) = (time, epoch) {
            match (ms(time, epoch, false), shard) {
                (Err(why), _) => faults.extend(why),
                (Ok(ms), Some(shard)) => of_shard.entry(shard).or_default().push(ms),
                (Ok(_), None) => {}
            }
        }
    }
    for times in of_shard.values() {
        if !times.is_sorted() {
            faults.push(OUT_OF_RANGE);
        }
        let mut counts: std::collections::BTreeMap<i128, usize> = std::collections::BTreeMap::new();
        for ms in times {
            *counts.entry(*ms).or_default() += 1;
        }
        if counts.values().any(|&count| count > PER_SHARD as usize) {
            faults.push(FULL);
        }
    }
    faults
}

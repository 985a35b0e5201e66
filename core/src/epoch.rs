//! Time arithmetic: PostgreSQL's microseconds to milliseconds since an epoch, and back.
//!
//! A `timestamptz` is a number of microseconds since 2000-01-01 00:00 UTC; the two extremes of
//! `i64` are the infinities. All arithmetic here is on integers and independent of time zones.

use crate::layout::MS_MAX;

/// Microseconds since 2000-01-01 00:00 UTC, as `timestamptz` stores them.
pub type TimestampUs = i64;

pub const US_PER_MS: i64 = 1000;

/// 2000-01-01 00:00 UTC in Unix milliseconds: PostgreSQL's zero.
const POSTGRES_ZERO_UNIX_MS: i64 = 946_684_800_000;

/// The `timestamptz` range as PostgreSQL checks it: 4714-11-24 BC inclusive to 294277 AD exclusive.
const TIMESTAMP_MIN: TimestampUs = -211_813_488_000_000_000;
const TIMESTAMP_END: TimestampUs = 9_223_371_331_200_000_000;

/// Why a time does not fit into an epoch's 41 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutOfField {
    Infinite,
    BeforeEpoch,
    PastField,
}

/// The instant that an id's time field counts from. Always finite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epoch(TimestampUs);

impl Epoch {
    /// The original code's epoch, 2011-08-24 21:07:01.721 UTC.
    pub const ORIGINAL: Epoch = Epoch((1_314_220_021_721 - POSTGRES_ZERO_UNIX_MS) * US_PER_MS);

    /// `None` if it is an infinity.
    pub const fn new(at: TimestampUs) -> Option<Epoch> {
        if is_finite(at) { Some(Epoch(at)) } else { None }
    }

    /// `None` if the time is outside the range of `timestamptz`.
    pub const fn from_unix_ms(ms: i64) -> Option<Epoch> {
        match ms.checked_sub(POSTGRES_ZERO_UNIX_MS) {
            Some(ms) => match ms.checked_mul(US_PER_MS) {
                Some(at) => Epoch::new(at),
                None => None,
            },
            None => None,
        }
    }

    pub const fn at(self) -> TimestampUs {
        self.0
    }

    /// Microseconds from the epoch to `time`, negative before it.
    ///
    /// Saturates if the two are further apart than an `i64` holds, which is far outside every id's
    /// time field.
    pub const fn elapsed_us(self, time: TimestampUs) -> i64 {
        time.saturating_sub(self.0)
    }

    /// The millisecond that contains `time`.
    pub const fn ms_at(self, time: TimestampUs) -> Result<u64, OutOfField> {
        if !is_finite(time) {
            return Err(OutOfField::Infinite);
        }
        in_field(self.elapsed_us(time).div_euclid(US_PER_MS))
    }

    /// The first millisecond that starts at or after `time`.
    pub const fn ms_from(self, time: TimestampUs) -> Result<u64, OutOfField> {
        if !is_finite(time) {
            return Err(OutOfField::Infinite);
        }
        let elapsed = self.elapsed_us(time);
        let partial = elapsed.rem_euclid(US_PER_MS) != 0;
        in_field(elapsed.div_euclid(US_PER_MS) + partial as i64)
    }

    /// Whether all 41 bits of milliseconds from this epoch on are valid `timestamptz` values.
    pub const fn has_whole_field(self) -> bool {
        self.time_of(MS_MAX).is_some()
    }

    /// The instant at which millisecond `ms` starts; `None` if that is outside the range of
    /// `timestamptz`. Only an epoch tens of thousands of years ahead can cause that.
    pub const fn time_of(self, ms: u64) -> Option<TimestampUs> {
        debug_assert!(ms <= MS_MAX);
        match self.0.checked_add(ms as i64 * US_PER_MS) {
            Some(time) if time < TIMESTAMP_END => Some(time),
            _ => None,
        }
    }
}

const fn is_finite(time: TimestampUs) -> bool {
    TIMESTAMP_MIN <= time && time < TIMESTAMP_END
}

const fn in_field(ms: i64) -> Result<u64, OutOfField> {
    if ms < 0 {
        Err(OutOfField::BeforeEpoch)
    } else if ms as u64 > MS_MAX {
        Err(OutOfField::PastField)
    } else {
        Ok(ms as u64)
    }
}

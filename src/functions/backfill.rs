//! `backfill_id(time, shard) OVER (ORDER BY time)`: ids for existing rows, at the times of the
//! rows.
//!
//! The rule is that of the generator, with the row's time in place of the clock and without waits.
//! Each id is larger than the one before it in the same shard, the sequence field counts on from
//! one id to the next, and it is an error if a millisecond has more rows than it has room for. The
//! rows of a millisecond are counted when it begins, so that the sequence field starts low enough
//! for the last of them.

use crate::arguments;
use crate::error::{Error, or_raise};
use crate::pg::errors;
use crate::pg::names;
use crate::pg::window::{self, Window};
use instagram_id_core::epoch::{Epoch, TimestampUs, US_PER_MS};
use instagram_id_core::hlc::VALUES_PER_MS;
use instagram_id_core::layout::{self, SEQ_BITS, SEQ_MAX, Shard};
use pgrx::pg_sys::{self, Datum};
use pgrx::prelude::*;
use rustc_hash::FxHashMap;

/// Why a row gets no id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NoId {
    /// A millisecond with more rows than it has room for.
    Full,
    /// The shard already has an id of a later millisecond.
    Earlier,
}

/// The millisecond and the shard of rows that get no ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Refused {
    why: NoId,
    ms: u64,
    shard: Shard,
    epoch: Epoch,
}

impl From<Refused> for Error {
    fn from(Refused { why, ms, shard, epoch }: Refused) -> Error {
        let time = names::time(epoch.at() + ms as i64 * US_PER_MS);
        let shard = shard.number();
        match why {
            NoId::Full => Error::MillisecondFull { time, shard },
            NoId::Earlier => Error::TimeGoesBack { time, shard },
        }
    }
}

/// The first of `count` values of a shard in the millisecond `ms`, after `last`. Values are `ms <<
/// 10 | seq`, as in a sequence.
fn first_value(last: Option<i64>, ms: u64, count: i64) -> Result<i64, NoId> {
    let start = (ms as i64) << SEQ_BITS;
    let next = last.map_or(start, |last| last + 1);
    if last.is_some_and(|last| last >> SEQ_BITS > ms as i64) {
        Err(NoId::Earlier)
    } else if last.is_some_and(|last| last >> SEQ_BITS == ms as i64) {
        if next + count <= start + VALUES_PER_MS { Ok(next) } else { Err(NoId::Full) }
    } else if count <= VALUES_PER_MS {
        Ok(start + (next & i64::from(SEQ_MAX)).min(VALUES_PER_MS - count))
    } else {
        Err(NoId::Full)
    }
}

/// The part of a row that is needed here. Without a millisecond or a shard it gets no id.
#[derive(Clone, Copy)]
struct Row {
    millisecond: Option<(u64, Epoch)>,
    shard: Option<Shard>,
}

impl Row {
    /// The start of its millisecond, independent of the epoch it is counted from.
    fn instant(&self) -> Option<TimestampUs> {
        self.millisecond.map(|(ms, epoch)| epoch.at() + ms as i64 * US_PER_MS)
    }
}

/// Consecutive rows of one millisecond. Only their numbers are kept: the rows of one millisecond
/// can be millions.
#[derive(Default)]
struct Group {
    /// The start of their millisecond. A row without one is a group of its own.
    instant: Option<TimestampUs>,
    len: usize,
    /// How many rows there still are of each shard, and the shard's millisecond.
    left: FxHashMap<Shard, Left>,
}

struct Left {
    ms: u64,
    rows: i64,
}

/// PostgreSQL counts rows ahead of the current one in 32 bits.
const GROUP_MAX: usize = 1 << 30;

impl Group {
    /// Adds the next row, unless another group begins with it. Returns an error as soon as the
    /// millisecond has too many rows, before the rest of them are read.
    fn add(&mut self, row: &Row) -> Result<bool, Refused> {
        let is_of_group = self.len == 0 || row.instant().is_some() && row.instant() == self.instant;
        if !is_of_group || self.len == GROUP_MAX {
            return Ok(false);
        }
        if let (Some((ms, epoch)), Some(shard)) = (row.millisecond, row.shard) {
            let left = self.left.entry(shard).or_insert(Left { ms, rows: 0 });
            // A shard with two epochs, for which the instant has two numbers.
            if left.ms != ms {
                return Ok(false);
            }
            left.rows += 1;
            if left.rows > VALUES_PER_MS {
                return Err(Refused { why: NoId::Full, ms, shard, epoch });
            }
        }
        self.instant = row.instant();
        self.len += 1;
        Ok(true)
    }

    /// Takes one row of the shard. Returns how many there were. It is 1 for a row that was not
    /// counted, as with an argument that changes between two evaluations.
    fn take(&mut self, shard: Shard) -> i64 {
        let Some(left) = self.left.get_mut(&shard) else { return 1 };
        let rows = left.rows;
        left.rows -= 1;
        if left.rows == 0 {
            self.left.remove(&shard);
        }
        rows
    }
}

/// The state of one call in one statement, kept from row to row.
///
/// It outlives the partitions of its window. So no id repeats with `PARTITION BY`, nor if the
/// window is run again for each row of another table.
#[derive(Default)]
struct Backfill {
    /// The last value of each shard.
    last: FxHashMap<Shard, i64>,
    /// The rows of the present millisecond that have no id yet.
    group: Group,
    /// The position in the partition at which the group ends.
    end: i64,
}

impl Backfill {
    /// The id of the current row.
    fn id(&mut self, window: Window) -> Result<Option<i64>, Error> {
        let position = window.position();
        let row = row(window, 0)?.unwrap_or_else(|| unreachable!("the current row exists"));
        let is_new_partition = position == 0;
        if is_new_partition || position >= self.end {
            window.release_earlier_rows();
            self.group = count_group(window, &row)?;
            self.end = position + self.group.len as i64;
        }
        Ok(self.id_of(&row)?)
    }

    /// The id of the next row of the group.
    fn id_of(&mut self, row: &Row) -> Result<Option<i64>, Refused> {
        let (Some((ms, epoch)), Some(shard)) = (row.millisecond, row.shard) else {
            return Ok(None);
        };
        let last = self.last.get(&shard).copied();
        let value = first_value(last, ms, self.group.take(shard));
        let value = value.map_err(|why| Refused { why, ms, shard, epoch })?;
        self.last.insert(shard, value);
        Ok(Some(layout::id_of(value, shard)))
    }
}

/// Counts the rows of the current row's millisecond, from the current row on.
fn count_group(window: Window, first: &Row) -> Result<Group, Error> {
    let mut group = Group::default();
    group.add(first)?;
    // PostgreSQL frees the memory used to compute a row's arguments when it moves on to the next
    // row, but here the arguments of many rows are computed during one. Most milliseconds have only
    // one row and end at the next, so a memory context is created from the third row on only.
    let mut memory = None;
    while let Some(row) = match group.len {
        1 => row(window, 1)?,
        offset => window::in_memory_of_its_own(&mut memory, || row(window, offset))?,
    } {
        if !group.add(&row)? {
            break;
        }
    }
    Ok(group)
}

/// The row at this offset from the current one; `None` after the end of the partition.
fn row(window: Window, offset: usize) -> Result<Option<Row>, Error> {
    let original = Some(Epoch::ORIGINAL.at().into());
    let values = match window.arguments() {
        2 => window.values(offset).map(|[time, shard]| [time, shard, original]),
        _ => window.values(offset),
    };
    let Some([time, shard, epoch]) = values else { return Ok(None) };
    let shard = shard.map(|shard| arguments::shard(shard.value() as i32)).transpose()?;
    let epoch = epoch
        .map(|epoch| Epoch::new(epoch.value() as TimestampUs).ok_or_else(|| Error::EpochInfinite))
        .transpose()?;
    let millisecond_of = |(time, epoch): (Datum, Epoch)| {
        let time = time.value() as TimestampUs;
        epoch
            .ms_at(time)
            .map(|ms| (ms, epoch))
            .map_err(|why| arguments::out_of_field(why, time, epoch))
    };
    let millisecond = time.zip(epoch).map(millisecond_of).transpose()?;
    Ok(Some(Row { millisecond, shard }))
}

/// `backfill_id(time, shard [, epoch]) OVER (ORDER BY time)`: an id for each row, at its time to
/// the millisecond. The ids of a shard grow in the order of the window. The result is NULL for a
/// row without a time or shard.
#[pg_extern(sql = false)]
fn backfill_id(fcinfo: pg_sys::FunctionCallInfo) -> Option<i64> {
    or_raise(|| {
        // SAFETY: `fcinfo` is that of the current call.
        let window = unsafe { Window::of_call(fcinfo) }.ok_or_else(|| Error::NotOverWindow)?;
        // SAFETY: the state of this call is a Backfill, and this is the only reference to it.
        let state = unsafe { window::state_of_call::<Backfill>(fcinfo) };
        // The arguments of the rows are expressions of the query.
        errors::keep(|| state.id(window))
    })
}

#[cfg(test)]
mod unit_tests {
    use super::*;
    use proptest::prelude::*;

    fn value(ms: i64, seq: i64) -> i64 {
        ms << SEQ_BITS | seq
    }

    #[test]
    fn the_field_counts_on() {
        assert_eq!(first_value(None, 7, 1), Ok(value(7, 0)));
        assert_eq!(first_value(Some(value(7, 0)), 7, 1), Ok(value(7, 1)));
        assert_eq!(first_value(Some(value(7, 1)), 9, 1), Ok(value(9, 2)));
        assert_eq!(first_value(Some(value(7, 1023)), 9, 1), Ok(value(9, 0)));
    }

    #[test]
    fn the_field_starts_low_enough_for_all() {
        assert_eq!(first_value(Some(value(7, 1000)), 8, 23), Ok(value(8, 1001)));
        assert_eq!(first_value(Some(value(7, 1000)), 8, 24), Ok(value(8, 1000)));
        assert_eq!(first_value(Some(value(7, 1000)), 8, 1024), Ok(value(8, 0)));
        assert_eq!(first_value(None, 8, 1024), Ok(value(8, 0)));
    }

    #[test]
    fn refusals() {
        assert_eq!(first_value(None, 8, 1025), Err(NoId::Full));
        assert_eq!(first_value(Some(value(7, 0)), 8, 1025), Err(NoId::Full));
        assert_eq!(first_value(Some(value(8, 1022)), 8, 1), Ok(value(8, 1023)));
        assert_eq!(first_value(Some(value(8, 1023)), 8, 1), Err(NoId::Full));
        assert_eq!(first_value(Some(value(8, 1000)), 8, 24), Err(NoId::Full));
        assert_eq!(first_value(Some(value(8, 0)), 7, 1), Err(NoId::Earlier));
    }

    fn row(ms: u64, epoch: Epoch, shard: i32) -> Row {
        Row { millisecond: Some((ms, epoch)), shard: Shard::new(shard) }
    }

    /// The ids of these rows, which are one group.
    fn ids_of(backfill: &mut Backfill, rows: &[Row]) -> Vec<i64> {
        backfill.group = Group::default();
        for row in rows {
            assert!(backfill.group.add(row).unwrap());
        }
        let ids = rows.iter().filter_map(|row| backfill.id_of(row).unwrap()).collect();
        assert!(backfill.group.left.is_empty());
        ids
    }

    /// Two shards count the same millisecond from different epochs, and its rows still form one
    /// group.
    #[test]
    fn a_millisecond_of_two_epochs() {
        let later = Epoch::new(Epoch::ORIGINAL.at() + 5 * US_PER_MS).unwrap();
        let of_both = [row(9, Epoch::ORIGINAL, 1), row(4, later, 2), row(9, Epoch::ORIGINAL, 1)];
        let mut backfill = Backfill::default();
        backfill.last.insert(Shard::new(1).unwrap(), value(8, 1022));
        let ids = ids_of(&mut backfill, &of_both);
        let seqs = ids.iter().map(|&id| (layout::ms_of(id), layout::seq_of(id).number()));
        assert_eq!(seqs.collect::<Vec<_>>(), [(9, 1022), (4, 0), (9, 1023)]);
    }

    #[test]
    fn a_group_ends_with_its_millisecond() {
        let later = Epoch::new(Epoch::ORIGINAL.at() + 5 * US_PER_MS).unwrap();
        let mut group = Group::default();
        assert_eq!(group.add(&row(9, Epoch::ORIGINAL, 1)), Ok(true));
        assert_eq!(group.add(&row(4, later, 2)), Ok(true));
        assert_eq!(group.add(&row(5, later, 2)), Ok(false));
        assert_eq!(group.add(&row(4, Epoch::ORIGINAL, 2)), Ok(false));
        // The same instant, but another epoch of the same shard.
        assert_eq!(group.add(&row(4, later, 1)), Ok(false));
        assert_eq!(group.add(&Row { millisecond: None, shard: None }), Ok(false));
        assert_eq!(group.len, 2);
        let mut group = Group::default();
        for _ in 0..VALUES_PER_MS {
            assert_eq!(group.add(&row(9, Epoch::ORIGINAL, 1)), Ok(true));
        }
        let refused = group.add(&row(9, Epoch::ORIGINAL, 1)).unwrap_err();
        assert_eq!((refused.why, refused.ms), (NoId::Full, 9));
    }

    #[test]
    fn rows_that_were_not_counted_get_other_ids() {
        let mut backfill = Backfill::default();
        let first = ids_of(&mut backfill, &[row(9, Epoch::ORIGINAL, 1)]);
        let next = backfill.id_of(&row(9, Epoch::ORIGINAL, 1)).unwrap();
        assert!(next > Some(first[0]));
    }

    proptest! {
        /// Up to 1,024 rows of a shard fit into a millisecond, whatever rows came before. Their ids
        /// grow and have the right millisecond and shard.
        #[test]
        fn ids_grow(counts in prop::collection::vec((1..3u64, 0..3usize, 1..=1024usize), 1..20)) {
            let mut backfill = Backfill::default();
            let mut last = [i64::MIN; 3];
            let mut ms = 0;
            for (step, shards, count) in counts {
                ms += step;
                let of: Vec<i32> = (0..count).flat_map(|_| (0..=shards).map(|n| n as i32)).collect();
                let rows: Vec<Row> = of.iter().map(|shard| row(ms, Epoch::ORIGINAL, *shard)).collect();
                let ids = ids_of(&mut backfill, &rows);
                prop_assert_eq!(ids.len(), of.len());
                for (id, shard) in ids.into_iter().zip(of) {
                    prop_assert_eq!((layout::ms_of(id), i32::from(layout::shard_of(id).number())), (ms, shard));
                    prop_assert!(id > last[shard as usize]);
                    last[shard as usize] = id;
                }
            }
        }
    }
}

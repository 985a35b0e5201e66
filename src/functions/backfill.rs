//! `backfill_id(time, shard) OVER (ORDER BY time)`: ids for existing rows, at the times of the rows.
//!
//! The rule is that of the generator, with the row's time in place of the clock and without waits. Each id is larger
//! than the one before it in the same shard, the sequence field counts on from one id to the next, and it is an error
//! if a millisecond has more rows than it has room for. All rows of a millisecond are read at once, so that the
//! sequence field starts low enough for the last of them.

use crate::arguments;
use crate::error::{Error, or_raise};
use crate::pg::names;
use crate::pg::sys::{self, Window};
use instagram_id_core::epoch::{Epoch, TimestampUs, US_PER_MS};
use instagram_id_core::hlc::VALUES_PER_MS;
use instagram_id_core::layout::{self, SEQ_BITS, SEQ_MAX, Shard};
use pgrx::pg_sys::{self, Datum};
use pgrx::prelude::*;
use rustc_hash::FxHashMap;

/// Why a row gets no id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refusal {
    /// A millisecond with more rows than it has room for.
    Full,
    /// The shard already has an id of a later millisecond.
    Earlier,
}

/// The millisecond and the shard of rows that get no ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Refused {
    why: Refusal,
    ms: u64,
    shard: Shard,
    epoch: Epoch,
}

impl From<Refused> for Error {
    fn from(Refused { why, ms, shard, epoch }: Refused) -> Error {
        let time = names::time(epoch.at() + ms as i64 * US_PER_MS);
        let shard = shard.number();
        match why {
            Refusal::Full => Error::MillisecondFull { time, shard },
            Refusal::Earlier => Error::TimeGoesBack { time, shard },
        }
    }
}

/// The first of `count` values of a shard in the millisecond `ms`, after `last`. Values are `ms << 10 | seq`, as in a
/// sequence.
fn first_value(last: Option<i64>, ms: u64, count: i64) -> Result<i64, Refusal> {
    let start = (ms as i64) << SEQ_BITS;
    let next = last.map_or(start, |last| last + 1);
    if last.is_some_and(|last| last >> SEQ_BITS > ms as i64) {
        Err(Refusal::Earlier)
    } else if last.is_some_and(|last| last >> SEQ_BITS == ms as i64) {
        if next + count <= start + VALUES_PER_MS { Ok(next) } else { Err(Refusal::Full) }
    } else if count <= VALUES_PER_MS {
        Ok(start + (next & i64::from(SEQ_MAX)).min(VALUES_PER_MS - count))
    } else {
        Err(Refusal::Full)
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

/// Consecutive rows of one millisecond.
#[derive(Default)]
struct Group {
    rows: Vec<Row>,
    /// How many rows there are of each shard and millisecond.
    counts: FxHashMap<(Shard, u64), i64>,
}

impl Group {
    fn takes(&self, row: &Row) -> bool {
        self.rows.first().is_none_or(|first| first.instant().is_some() && first.instant() == row.instant())
    }

    /// Adds a row. Returns an error as soon as the millisecond has too many rows, before the rest of them are read.
    fn add(&mut self, row: Row) -> Result<(), Refused> {
        self.rows.push(row);
        if let (Some((ms, epoch)), Some(shard)) = (row.millisecond, row.shard) {
            let count = self.counts.entry((shard, ms)).or_default();
            *count += 1;
            if *count > VALUES_PER_MS {
                return Err(Refused { why: Refusal::Full, ms, shard, epoch });
            }
        }
        Ok(())
    }
}

/// The state of one call in one statement, kept from row to row.
///
/// It outlives the partitions of its window. So no id repeats with `PARTITION BY`, nor if the window is run again for
/// each row of another table.
#[derive(Default)]
struct Backfill {
    /// The last value of each shard.
    last: FxHashMap<Shard, i64>,
    /// The ids of the rows of one millisecond, from position `from` in the partition on.
    ids: Vec<Option<i64>>,
    from: i64,
}

impl Backfill {
    /// The id of the current row.
    fn id(&mut self, window: Window) -> Result<Option<i64>, Error> {
        let position = window.position();
        let is_new_partition = position == 0;
        if is_new_partition || position >= self.from + self.ids.len() as i64 {
            self.ids = self.ids_of(rows_of_a_millisecond(window)?)?;
            self.from = position;
        }
        Ok(self.ids[(position - self.from) as usize])
    }

    /// The ids of a group of rows, in their order.
    fn ids_of(&mut self, group: Group) -> Result<Vec<Option<i64>>, Refused> {
        let mut left = group.counts;
        let mut id_of = |row: &Row| {
            let (Some((ms, epoch)), Some(shard)) = (row.millisecond, row.shard) else { return Ok(None) };
            let left = left.entry((shard, ms)).or_default();
            let last = self.last.get(&shard).copied();
            let value = first_value(last, ms, *left).map_err(|why| Refused { why, ms, shard, epoch })?;
            *left -= 1;
            self.last.insert(shard, value);
            Ok(Some(layout::id_of(value, shard)))
        };
        group.rows.iter().map(&mut id_of).collect()
    }
}

/// The rows of the current row's millisecond, from the current row on.
fn rows_of_a_millisecond(window: Window) -> Result<Group, Error> {
    let mut group = Group::default();
    // PostgreSQL frees the memory used to compute a row's arguments when it moves on to the next row, but here the
    // arguments of many rows are computed during one. Most milliseconds have only one row and end at the next, so a
    // memory context is created from the third row on only.
    let mut memory = None;
    while let Some(row) = match group.rows.len() {
        offset @ ..2 => row(window, offset)?,
        offset => sys::in_memory_of_its_own(&mut memory, || row(window, offset))?,
    } {
        if !group.takes(&row) {
            break;
        }
        group.add(row)?;
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
        epoch.ms_at(time).map(|ms| (ms, epoch)).map_err(|why| arguments::out_of_field(why, time, epoch))
    };
    let millisecond = time.zip(epoch).map(millisecond_of).transpose()?;
    Ok(Some(Row { millisecond, shard }))
}

/// `backfill_id(time, shard [, epoch]) OVER (ORDER BY time)`: an id for each row, at its time to the millisecond. The
/// ids of a shard grow in the order of the window. The result is NULL for a row without a time or shard.
///
/// # Errors
///
/// 2200H for more than 1,024 rows of a shard in one millisecond, 22023 if a shard's times are not in order or for a
/// shard outside 0..8191, 22008 for a time before the epoch or past the field's 41 bits, 42809 if it is called without
/// a window.
#[pg_extern(sql = false)]
fn backfill_id(fcinfo: pg_sys::FunctionCallInfo) -> Option<i64> {
    or_raise(|| {
        // SAFETY: `fcinfo` is that of the current call.
        let window = unsafe { Window::of_call(fcinfo) }.ok_or_else(|| Error::NotOverWindow)?;
        // SAFETY: the state of this call is a Backfill, and this is the only reference to it.
        let state = unsafe { sys::state_of_call::<Backfill>(fcinfo) };
        state.id(window)
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
        assert_eq!(first_value(None, 8, 1025), Err(Refusal::Full));
        assert_eq!(first_value(Some(value(7, 0)), 8, 1025), Err(Refusal::Full));
        assert_eq!(first_value(Some(value(8, 1022)), 8, 1), Ok(value(8, 1023)));
        assert_eq!(first_value(Some(value(8, 1023)), 8, 1), Err(Refusal::Full));
        assert_eq!(first_value(Some(value(8, 1000)), 8, 24), Err(Refusal::Full));
        assert_eq!(first_value(Some(value(8, 0)), 7, 1), Err(Refusal::Earlier));
    }

    fn row(ms: u64, epoch: Epoch, shard: i32) -> Row {
        Row { millisecond: Some((ms, epoch)), shard: Shard::new(shard) }
    }

    /// Rows of these milliseconds and shards.
    fn group(of: &[(u64, i32)]) -> Group {
        let mut group = Group::default();
        for &(ms, shard) in of {
            assert!(group.add(row(ms, Epoch::ORIGINAL, shard)).is_ok());
        }
        group
    }

    /// Two shards count the same millisecond from different epochs, and its rows still form one group.
    #[test]
    fn a_millisecond_of_two_epochs() {
        let later = Epoch::new(Epoch::ORIGINAL.at() + 5 * US_PER_MS).unwrap();
        let of_both = [row(9, Epoch::ORIGINAL, 1), row(4, later, 2), row(9, Epoch::ORIGINAL, 1)];
        let mut group = Group::default();
        for row in of_both {
            assert!(group.takes(&row));
            assert!(group.add(row).is_ok());
        }
        assert!(!group.takes(&row(5, later, 2)) && !group.takes(&row(4, Epoch::ORIGINAL, 2)));
        let mut backfill = Backfill::default();
        backfill.last.insert(Shard::new(1).unwrap(), value(8, 1022));
        let ids: Vec<i64> = backfill.ids_of(group).unwrap().into_iter().flatten().collect();
        let seqs = ids.iter().map(|&id| (layout::ms_of(id), layout::seq_of(id).number()));
        assert_eq!(seqs.collect::<Vec<_>>(), [(9, 1022), (4, 0), (9, 1023)]);
    }

    proptest! {
        /// Up to 1,024 rows of a shard fit into a millisecond, whatever rows came before. Their ids grow and have the
        /// right millisecond and shard.
        #[test]
        fn ids_grow(counts in prop::collection::vec((1..3u64, 0..3usize, 1..=1024usize), 1..20)) {
            let mut backfill = Backfill::default();
            let mut last = [i64::MIN; 3];
            let mut ms = 0;
            for (step, shards, count) in counts {
                ms += step;
                let of: Vec<(u64, i32)> = (0..count).flat_map(|_| (0..=shards).map(move |n| (ms, n as i32))).collect();
                let ids = backfill.ids_of(group(&of)).unwrap();
                prop_assert_eq!(ids.len(), of.len());
                for (id, (ms, shard)) in ids.into_iter().zip(of) {
                    let id = id.unwrap();
                    prop_assert_eq!((layout::ms_of(id), i32::from(layout::shard_of(id).number())), (ms, shard));
                    prop_assert!(id > last[shard as usize]);
                    last[shard as usize] = id;
                }
            }
        }
    }
}

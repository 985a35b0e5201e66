//! Partitions by the time in the ids: `create_partitions`, `drop_partitions`.
//!
//! What there is to do follows from the bounds of the partitions that are there, not from their names, so the two can be
//! run again, beside each other and on tables whose partitions were made by hand. Days, weeks and months are UTC's, for
//! sessions of all time zones must agree on them.

use crate::arguments::{self, not_null};
use crate::catalog::{self, Range, Relation};
use crate::definition;
use crate::epoch::{Epoch, OutOfField, TimestampUs};
use crate::error::{Argument, Error};
use crate::layout::{self, ISSUED_MS_MAX, Seq, Shard};
use crate::names;
use crate::oid_types::Regclass;
use crate::query::{self, select};
use crate::settings;
use crate::shard;
use crate::sys;
use pgrx::pg_sys::{self, Oid, panic::ErrorReport};
use pgrx::prelude::*;
use pgrx::spi::{quote_identifier, quote_literal, quote_qualified_identifier};

/// The most periods ahead; 27 years of days.
const AHEAD_MAX: i32 = 10_000;

/// A table that is partitioned by ranges of a bigint, locked.
struct Parent {
    oid: Oid,
    relation: Relation,
}

/// `create_partitions("table", every, ahead, from_time, epoch)`: makes the partitions for the present day, week or month
/// (`every`) and that many ahead, as far as there are none yet; with `from_time` also those from then on. Returns what it
/// has made.
///
/// A period for a part of which there is a partition gets one for the rest. Without an epoch it counts from that of the
/// shard whose schema the table is in, otherwise from the original's.
///
/// Each partition is made beside the table and then attached, so that neither readers nor writers of the table wait
/// for it, nor it for them. (Two things PostgreSQL locks for that, until the transaction ends: a default partition,
/// against all, and tables that the table's foreign keys refer to, against writers.) It belongs to the table's owner,
/// and is made with the owner's rights.
///
/// # Errors
///
/// 22004 without a table, 42809 for one that is not partitioned by ranges of a bigint, 42501 for who is not its owner,
/// 22023 for a period other than these or a number ahead outside 0..10000, 22008 for a `from_time` before the epoch or
/// infinite, 42P07 where something else has a partition's name.
#[pg_extern(volatile, parallel_unsafe)]
fn create_partitions(
    table: Option<Regclass>,
    every: default!(Option<&str>, "'month'"),
    ahead: default!(Option<i32>, "3"),
    from_time: default!(Option<TimestampWithTimeZone>, "NULL"),
    epoch: default!(Option<TimestampWithTimeZone>, "NULL"),
) -> Result<SetOfIterator<'static, Regclass>, ErrorReport> {
    let table = not_null(table, Argument::Table)?;
    let every = not_null(every, Argument::Every)?;
    let ahead = not_null(ahead, Argument::Ahead)?;
    if !["day", "week", "month"].contains(&every) {
        return Err(Error::PeriodUnknown(quote_literal(every)).into());
    }
    if !(0..=AHEAD_MAX).contains(&ahead) {
        return Err(Error::AheadOutOfRange(ahead).into());
    }
    let epoch = epoch.map(arguments::epoch).transpose()?;
    shard::prevent_if_read_only("create_partitions()");
    let made = settings::with(settings::OWN_NAMES, || {
        let parent = Parent::lock(table.0, pg_sys::ShareUpdateExclusiveLock)?;
        let epoch = epoch.unwrap_or_else(|| parent.epoch());
        let now = names::now();
        let from = match from_time {
            Some(from) => {
                let from = from.into();
                epoch.ms_at(from).map_err(|why| arguments::out_of_field(why, from, epoch))?;
                from.min(now)
            }
            None => now,
        };
        let boundaries = boundaries(every, from, now, ahead);
        let mut missing = vec![];
        let existing: Vec<Range> = catalog::partitions(parent.oid).iter().map(|it| it.range).collect();
        for period in boundaries.windows(2) {
            // Where ids end a period ends with them.
            if let Some(from) = bound(epoch, period[0]) {
                missing.extend(gaps(Range { from: Some(from), to: bound(epoch, period[1]) }, &existing));
            }
        }
        let made: Result<Vec<Regclass>, Error> =
            missing.into_iter().map(|range| parent.attach_new(range, epoch)).collect();
        made
    })?;
    Ok(SetOfIterator::new(made))
}

/// `drop_partitions("table", before, epoch, detach)`: drops the partitions whose ids are all of times before that one, or
/// with `detach` makes them tables of their own. Returns their names.
///
/// Where by that epoch there is no partition for the ids that are made now, they have another epoch, or the table is over:
/// then nothing is dropped.
///
/// Partitions that begin with MINVALUE or below the epoch are left, for what is in them has no time, and so is a default
/// partition. Like `DROP TABLE` of a partition it waits for whoever uses the table, and then locks it until the
/// transaction ends, but only where there is something to drop.
///
/// # Errors
///
/// 22004 without a table or time, 55000 where there is no partition for the present, 22023 for a time in the future, 22008 for one
/// that is infinite, 42809 for a table that is not partitioned by ranges of a bigint, 42501 for who is not its owner.
#[pg_extern(volatile, parallel_unsafe)]
fn drop_partitions(
    table: Option<Regclass>,
    before: Option<TimestampWithTimeZone>,
    epoch: default!(Option<TimestampWithTimeZone>, "NULL"),
    detach: default!(Option<bool>, "false"),
) -> Result<SetOfIterator<'static, String>, ErrorReport> {
    let table = not_null(table, Argument::Table)?;
    let before: TimestampUs = not_null(before, Argument::Before)?.into();
    let detach = not_null(detach, Argument::Detach)?;
    let epoch = epoch.map(arguments::epoch).transpose()?;
    shard::prevent_if_read_only("drop_partitions()");
    let dropped = settings::with(settings::OWN_NAMES, || {
        let parent = Parent::lock(table.0, pg_sys::AccessShareLock)?;
        let epoch = epoch.unwrap_or_else(|| parent.epoch());
        if epoch.ms_at(before) == Err(OutOfField::Infinite) {
            return Err(Error::TimeInfinite(names::time(before)));
        }
        if before > names::now() {
            return Err(Error::DropsFuture(names::time(before)));
        }
        if parent.partitions_to_drop(before, epoch)?.is_empty() {
            return Ok(vec![]);
        }
        // Now for the lock that DROP TABLE takes, and all anew. Two that held the first and wanted the other would
        // wait for each other.
        parent.unlock(pg_sys::AccessShareLock);
        let parent = Parent::lock(table.0, pg_sys::AccessExclusiveLock)?;
        let over = parent.partitions_to_drop(before, epoch)?;
        Ok(over.into_iter().map(|partition| parent.remove(partition, detach)).collect::<Vec<String>>())
    })?;
    Ok(SetOfIterator::new(dropped))
}

impl Parent {
    /// Locks the table for this transaction, or until it is unlocked.
    fn lock(oid: Oid, mode: u32) -> Result<Parent, Error> {
        check_owner(oid)?;
        // SAFETY: the lock lasts to the transaction's end.
        unsafe { pg_sys::LockRelationOid(oid, mode as pg_sys::LOCKMODE) };
        // It may be another's by now, or gone.
        let relation = check_owner(oid)?;
        let why_not = match catalog::partition_key(oid) {
            None => "it is not partitioned",
            Some(key) if !key.is_by_range => "it is partitioned in another way",
            Some(key) if key.columns != 1 => "its key has several columns",
            Some(key) if key.is_expression => "its key is an expression",
            Some(key) if !key.is_bigint => "its key is of another type",
            Some(_) => return Ok(Parent { oid, relation }),
        };
        Err(Error::NotPartitionedById { table: names::relation(oid), why: why_not.into() })
    }

    /// Gives up the lock of that mode again.
    fn unlock(self, mode: u32) {
        // SAFETY: `lock` has taken it.
        unsafe { pg_sys::UnlockRelationOid(self.oid, mode as pg_sys::LOCKMODE) };
    }

    /// The epoch of the shard whose schema the table is in, or the original's.
    fn epoch(&self) -> Epoch {
        let function = catalog::function_in(self.relation.schema, "epoch", &[]);
        function.and_then(|function| definition::epoch_of(&function)).unwrap_or(Epoch::ORIGINAL)
    }

    /// Makes a partition.
    fn attach_new(&self, range: Range, epoch: Epoch) -> Result<Regclass, Error> {
        let name = self.partition_name(range, epoch)?;
        let (table, schema) = (names::relation(self.oid), names::raw_schema(self.relation.schema));
        let partition = quote_qualified_identifier(&schema, &name);
        let from = range.from.map_or("MINVALUE".into(), |id| id.to_string());
        let to = range.to.map_or("MAXVALUE".into(), |id| id.to_string());
        // CREATE TABLE ... PARTITION OF would lock out the table's readers. What that takes over and LIKE does not, indexes,
        // foreign keys, triggers and identities, comes with ATTACH; storage is seen to here.
        let make = format!(
            "CREATE TABLE {partition} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING GENERATED \
                 INCLUDING STORAGE INCLUDING COMPRESSION){}; \
             ALTER TABLE {table} ATTACH PARTITION {partition} FOR VALUES FROM ({from}) TO ({to})",
            self.storage()
        );
        // Indexes and constraints may call functions of the owner's.
        sys::with_rights_of(self.relation.owner, || query::run(&make));
        Ok(Regclass(catalog::relation_oid(&name, self.relation.schema)))
    }

    /// The clauses that give a partition its table's access method and tablespace.
    fn storage(&self) -> String {
        let clause = |keyword, name: Option<String>| {
            name.map_or(String::new(), |name| format!(" {keyword} {}", quote_identifier(name)))
        };
        let access_method = names::access_method(self.relation.access_method);
        let tablespace = names::tablespace(self.relation.tablespace);
        clause("USING", access_method) + &clause("TABLESPACE", tablespace)
    }

    /// The table's name and the day that the partition begins with, and the time where that is not midnight; the table's
    /// name is cut off where that would be too long for a name. A number follows where the table has a partition of
    /// that name, which began in the same second.
    fn partition_name(&self, range: Range, epoch: Epoch) -> Result<String, Error> {
        let begins = range.from.and_then(|id| epoch.time_of(layout::ms_of(id))).unwrap_or(epoch.at());
        let query = "SELECT to_char(utc, CASE WHEN utc = date_trunc('day', utc) THEN '\"p\"YYYYMMDD' ELSE '\"p\"YYYYMMDD_HH24MISS' END)
             FROM (SELECT $1 AT TIME ZONE 'UTC' AS utc) AS t";
        let label: String =
            select(query, &[names::timestamp(begins).into()], |row| row.get(1)).pop().unwrap_or_default();
        let mut name = names::with_label(self.oid, &label);
        for number in 2.. {
            let taken = catalog::relation_oid(&name, self.relation.schema);
            if taken == Oid::INVALID {
                break;
            }
            if !catalog::partitions(self.oid).iter().any(|partition| partition.oid == taken) {
                let name = names::relation(taken);
                return Err(Error::PartitionNameTaken { name, table: names::relation(self.oid) });
            }
            name = names::with_label(self.oid, &format!("{label}_{number}"));
        }
        Ok(name)
    }

    /// Those whose ids all come before that time, in their order. Where by that epoch no partition is for the ids that are
    /// made now, they have another one, or the table is over, and nothing is dropped.
    fn partitions_to_drop(&self, before: TimestampUs, epoch: Epoch) -> Result<Vec<Oid>, Error> {
        let (end, now) = (bound(epoch, before), bound(epoch, names::now()));
        let is_over = |range: Range| {
            let ends = range.to.is_some_and(|to| end.is_none_or(|end| to <= end));
            range.from.is_some_and(|from| from >= 0) && ends
        };
        // One that goes on to MAXVALUE is for now, but would be by any epoch: it counts if it begins after that time, too.
        let is_for_now = |range: Range| match range.to {
            Some(to) => now.is_some_and(|now| to > now),
            None => now.is_some() && range.from >= end,
        };
        let partitions = catalog::partitions(self.oid);
        let over: Vec<Oid> = partitions.iter().filter(|it| is_over(it.range)).map(|it| it.oid).collect();
        if over.is_empty() || partitions.iter().any(|it| is_for_now(it.range)) {
            Ok(over)
        } else {
            Err(Error::NoPresentPartition {
                table: names::relation(self.oid),
                epoch: names::time(epoch.at()),
            })
        }
    }

    /// Drops a partition, or detaches it. Returns its name.
    fn remove(&self, partition: Oid, detach: bool) -> String {
        // SAFETY: the lock lasts to the transaction's end. Only under it does the name stay this partition's.
        unsafe { pg_sys::LockRelationOid(partition, pg_sys::AccessExclusiveLock as pg_sys::LOCKMODE) };
        let name = names::relation(partition);
        // SAFETY: asks the catalogs.
        let is_foreign = unsafe { pg_sys::get_rel_relkind(partition) as u8 } == pg_sys::RELKIND_FOREIGN_TABLE;
        // What foreign keys refer to cannot be dropped. Once it is detached, for which none of its rows may be referred to,
        // none of them is about it.
        if detach || is_referenced(partition) {
            let detach = format!("ALTER TABLE {} DETACH PARTITION {name}", names::relation(self.oid));
            // The search for such references may call functions of the owner's.
            sys::with_rights_of(self.relation.owner, || query::run(&detach));
        }
        if !detach {
            query::run(&format!("DROP {}TABLE {name}", if is_foreign { "FOREIGN " } else { "" }));
        }
        name
    }
}

/// Whether there are foreign keys to that table.
fn is_referenced(table: Oid) -> bool {
    let query = "SELECT true FROM pg_constraint WHERE contype = 'f' AND confrelid = $1 LIMIT 1";
    !select(query, &[table.into()], |row| row.get::<bool>(1)).is_empty()
}

fn check_owner(table: Oid) -> Result<Relation, Error> {
    let relation = catalog::relation(table).ok_or(Error::TableMissing(table))?;
    if catalog::has_rights_of(catalog::current_role(), relation.owner) {
        Ok(relation)
    } else {
        Err(Error::NotTableOwner(names::relation(table)))
    }
}

/// Where periods begin, from the one that `from` is in to that many after the one that `now` is in, and where the last
/// one ends.
fn boundaries(every: &str, from: TimestampUs, now: TimestampUs, ahead: i32) -> Vec<TimestampUs> {
    let query = "SELECT begins AT TIME ZONE 'UTC'
         FROM CAST('1 ' || $1 AS interval) AS period,
              generate_series(date_trunc($1, $2 AT TIME ZONE 'UTC'),
                              date_trunc($1, $3 AT TIME ZONE 'UTC') + ($4 + 1) * period, period) AS begins";
    let arguments = [every.into(), names::timestamp(from).into(), names::timestamp(now).into(), ahead.into()];
    select(query, &arguments, |row| row.get::<TimestampWithTimeZone>(1).map(i64::from))
}

/// The first id of a time; of one before the epoch that of the epoch; `None` where ids have ended.
fn bound(epoch: Epoch, time: TimestampUs) -> Option<i64> {
    match epoch.ms_from(time) {
        Ok(ms) if ms <= ISSUED_MS_MAX => Some(layout::pack(ms, Shard::MIN, Seq::MIN)),
        Err(OutOfField::BeforeEpoch) => Some(0),
        _ => None,
    }
}

/// What of a range none of the others covers, which are in order and apart from each other.
fn gaps(range: Range, taken: &[Range]) -> Vec<Range> {
    // None begins before all and ends after all.
    let is_before =
        |end: Option<i64>, from: Option<i64>| end.zip(from).is_some_and(|(end, from)| end <= from);
    let mut gaps = vec![];
    let mut from = range.from;
    for other in taken {
        if is_before(other.to, from) {
            continue;
        }
        if is_before(range.to, other.from) {
            break;
        }
        if other.from > from {
            gaps.push(Range { from, to: other.from });
        }
        from = other.to;
        if from.is_none() {
            return gaps;
        }
    }
    if range.to.is_none() || from < range.to {
        gaps.push(Range { from, to: range.to });
    }
    gaps
}

extension_sql!(
    r#"
COMMENT ON FUNCTION create_partitions(regclass, text, integer, timestamptz, timestamptz) IS
'makes the partitions of a table by the time in its ids, by day, week or month, as far as they are missing; returns what it has made';
COMMENT ON FUNCTION drop_partitions(regclass, timestamptz, timestamptz, boolean) IS
'drops or detaches the partitions of a table whose ids are all of times before this one; returns their names';
"#,
    name = "comments_partition",
    requires = [create_partitions, drop_partitions],
);

#[cfg(test)]
mod unit_tests {
    use super::*;
    use proptest::prelude::*;

    fn range(from: i64, to: i64) -> Range {
        Range { from: Some(from), to: Some(to) }
    }

    #[test]
    fn gaps_of_a_range() {
        assert_eq!(gaps(range(10, 20), &[]), [range(10, 20)]);
        assert_eq!(gaps(range(10, 20), &[range(10, 20)]), []);
        assert_eq!(gaps(range(10, 20), &[range(0, 30)]), []);
        assert_eq!(gaps(range(10, 20), &[range(0, 10), range(20, 30)]), [range(10, 20)]);
        assert_eq!(gaps(range(10, 20), &[range(0, 12), range(15, 17)]), [range(12, 15), range(17, 20)]);
        assert_eq!(gaps(range(10, 20), &[range(12, 25)]), [range(10, 12)]);
    }

    #[test]
    fn gaps_beside_ranges_without_an_end() {
        let below = Range { from: None, to: Some(12) };
        let above = Range { from: Some(15), to: None };
        let all = Range { from: None, to: None };
        assert_eq!(gaps(range(10, 20), &[below, above]), [range(12, 15)]);
        assert_eq!(gaps(range(10, 20), &[all]), []);
        assert_eq!(gaps(above, &[below]), [above]);
        assert_eq!(gaps(above, &[above]), []);
        assert_eq!(gaps(above, &[range(10, 16)]), [Range { from: Some(16), to: None }]);
    }

    proptest! {
        /// A number of the range is either taken or in one gap.
        #[test]
        fn gaps_fill_up(from in 0..50i64, len in 1..50i64, edges in prop::collection::btree_set(0..100i64, 0..8)) {
            let edges: Vec<i64> = edges.into_iter().collect();
            let taken: Vec<Range> = edges.chunks_exact(2).map(|edge| range(edge[0], edge[1])).collect();
            let gaps = gaps(range(from, from + len), &taken);
            let holds = |ranges: &[Range], n| {
                ranges.iter().filter(|it| it.from.unwrap() <= n && n < it.to.unwrap()).count()
            };
            for n in -1..102 {
                let is_wanted = from <= n && n < from + len && holds(&taken, n) == 0;
                prop_assert_eq!(holds(&gaps, n), usize::from(is_wanted));
            }
        }
    }
}

//! `create_id_partitions`, `drop_old_id_partitions`: partitions by the time in the ids.
//!
//! Both work from the bounds of the existing partitions, not from their names. So they can be run
//! again, run concurrently, and used on tables whose partitions were created by hand. Days, weeks
//! and months are in UTC, because sessions in all time zones must agree on them.

use crate::adopt::adopted;
use crate::arguments::{self, not_null};
use crate::error::{self, Error};
use crate::pg::catalog::{self, Relation};
use crate::pg::deadline::Deadline;
use crate::pg::default::default_of;
use crate::pg::dependents;
use crate::pg::guc;
use crate::pg::locks::{self, Attempts, Busy};
use crate::pg::names;
use crate::pg::parsed_body::Expression;
use crate::pg::partitions::{self, Range};
use crate::pg::reg_types::Regclass;
use crate::pg::roles;
use crate::pg::spi::{self, select};
use crate::pg::subtransaction;
use crate::pg::text::Word;
use crate::pg::transaction::prevent_if_read_only;
use crate::shard::definition;
use crate::shard::generated::{self, Generated};
use crate::shard::lookup;
use crate::shard::related::{self, Change};
use crate::shard::trust::Trust;
use instagram_id_core::epoch::{Epoch, OutOfField, TimestampUs};
use instagram_id_core::hlc::FIRST_DAY_MS;
use instagram_id_core::layout::{self, ISSUED_MS_MAX, Seq, Shard, TIME_SHIFT};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{self, Oid, panic::ErrorReport};
use pgrx::prelude::*;
use pgrx::spi::{quote_identifier, quote_qualified_identifier};
use std::iter;
use std::time::Duration;

/// The maximum number of periods ahead: 27 years of days.
const AHEAD_MAX: i32 = 10_000;

/// A table partitioned by ranges of a bigint, locked.
struct Parent {
    oid: Oid,
    relation: Relation,
}

/// `create_id_partitions("table", every, ahead, from_time, epoch)`: creates the missing partitions
/// for the current day, week or month (`every`) and for the next `ahead` periods; with `from_time`,
/// also those from that time on. Returns the partitions that it has created.
///
/// If a part of a period has a partition already, the rest gets one of its own. The default epoch
/// is that of the ids that the default of the key generates, then that of the shard in whose schema
/// the table is, otherwise the original's.
///
/// Each partition is created as a separate table and then attached. So the call does not block
/// readers and writers of the table, and does not wait for them. Until the transaction ends,
/// though, PostgreSQL locks two kinds of tables for it: a default partition against all access, and
/// the tables connected by foreign keys against writers. For these locks the call waits 10 seconds,
/// or for the session's `lock_timeout` if that is shorter, but not while it has some of them. The
/// partition belongs to the table's owner and is created with the owner's privileges.
///
/// # Errors
///
/// The table is NULL, is not partitioned by ranges of a bigint, or the caller does not own it. The
/// period is another one, or the number ahead is not 0 to 10,000. By the epoch, no period has ids.
/// `from_time` is before the epoch or infinite. Code of a role without the rights of the table's
/// owner, or of the caller, would run; see [`related`].
#[pg_extern(sql = false)]
fn create_id_partitions(
    table: Option<Regclass>,
    every: Option<Word>,
    ahead: Option<i32>,
    from_time: Option<TimestampWithTimeZone>,
    epoch: Option<TimestampWithTimeZone>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> Result<SetOfIterator<'static, Regclass>, ErrorReport> {
    let own_schema = catalog::schema_of_this_function(fcinfo);
    let table = not_null(table, "table")?;
    let every = not_null(every, "every")?;
    let ahead = not_null(ahead, "ahead")?;
    let Some(every) = every.whole().filter(|every| ["day", "week", "month"].contains(every)) else {
        return Err(Error::PeriodUnknown(every.shown()).into());
    };
    if !(0..=AHEAD_MAX).contains(&ahead) {
        return Err(Error::AheadOutOfRange(ahead).into());
    }
    let epoch = epoch.map(arguments::epoch).transpose()?;
    prevent_if_read_only("create_id_partitions()");
    let made: Result<Vec<Regclass>, Error> = guc::with(guc::OWN_SETTINGS, || {
        let parent = Parent::lock(table.0, pg_sys::ShareUpdateExclusiveLock)?;
        // Also if nothing is missing yet, so that a job does not fail later.
        related::check_caller(parent.oid, parent.relation.owner)?;
        let epoch = epoch.map_or_else(|| parent.epoch(own_schema), Ok)?;
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
        if boundaries.windows(2).all(|it| bound(epoch, it[0]) == bound(epoch, it[1])) {
            // No period has ids.
            arguments::workable_epoch(names::timestamp(epoch.at()))?;
        }
        let missing = parent.missing(&boundaries, epoch);
        parent.announce_unfinished();
        if missing.is_empty() {
            return Ok(vec![]);
        }
        roles::check_may_create_in(parent.relation.schema, parent.relation.owner)?;
        // First what waits for other roles: each with CREATE on the schema can keep a name busy.
        let limit = Deadline::after(guc::lock_limit());
        let create = |range| Ok::<_, Error>((parent.create_table(range, epoch, limit)?, range));
        let tables = missing.into_iter().map(create).collect::<Result<Vec<_>, _>>()?;
        let attach = |(table, range): &(Oid, Range)| parent.attach(*table, *range);
        let attached = locks::lock_all(|attempts| {
            related::lock_and_check(parent.oid, Change::Attach, attempts)?;
            // Now other sessions wait for this one.
            attempts.wait(parent.oid, || tables.iter().for_each(attach));
            Ok(())
        })?;
        attached.map_err(locks::not_available)?;
        Ok(tables.into_iter().map(|(table, _)| Regclass(table)).collect())
    });
    Ok(SetOfIterator::new(made?))
}

/// `drop_old_id_partitions("table", before, epoch, detach)`: drops the partitions that contain only
/// ids of times before `before`, or with `detach` turns them into separate tables. Returns their
/// names.
///
/// If by this epoch no partition is for ids that are generated now, the ids have another epoch, or
/// the table is no longer used. Then nothing is dropped. Without the argument `epoch` this is also
/// so if the partitions up to that one have a gap: `create_id_partitions` may have created the
/// newer ones by another epoch than that of the rows in the older ones.
///
/// Partitions that begin with MINVALUE, below the epoch or on its first day stay: they can have
/// keys of a serial, which have no time. A default partition stays as well, and so does one whose
/// DETACH CONCURRENTLY has not ended. As `DROP TABLE` on a partition does, the call waits for all
/// sessions that use the table, and then locks it until the transaction ends. It does so only if
/// there is a partition to drop, in attempts of half a second, for 10 seconds at most, or for the
/// session's `lock_timeout` if that is shorter.
///
/// # Errors
///
/// The table is NULL, is not partitioned by ranges of a bigint, has no partition for the current
/// time or a gap before that, or the caller does not own it. The time is NULL, in the future, or
/// infinite. Code of a role without the rights of the table's owner, or of the caller, would run;
/// see [`related`].
#[pg_extern(sql = false)]
fn drop_old_id_partitions(
    table: Option<Regclass>,
    before: Option<TimestampWithTimeZone>,
    epoch: Option<TimestampWithTimeZone>,
    detach: Option<bool>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> Result<SetOfIterator<'static, String>, ErrorReport> {
    let own_schema = catalog::schema_of_this_function(fcinfo);
    let table = not_null(table, "table")?;
    let before: TimestampUs = not_null(before, "before")?.into();
    let detach = not_null(detach, "detach")?;
    let given_epoch = epoch.map(arguments::epoch).transpose()?;
    prevent_if_read_only("drop_old_id_partitions()");
    let dropped: Result<Vec<String>, Error> = guc::with(guc::OWN_SETTINGS, || {
        let parent = Parent::lock(table.0, pg_sys::AccessShareLock)?;
        if detach {
            related::check_caller(parent.oid, parent.relation.owner)?;
        }
        let epoch = given_epoch.map_or_else(|| parent.epoch(own_schema), Ok)?;
        let to_drop =
            |parent: &Parent| parent.partitions_to_drop(before, epoch, given_epoch.is_some());
        if epoch.ms_at(before) == Err(OutOfField::Infinite) {
            return Err(Error::TimeInfinite(names::time(before)));
        }
        if before > names::now() {
            return Err(Error::DropsFuture(names::time(before)));
        }
        parent.announce_unfinished();
        let over = to_drop(&parent)?;
        if over.is_empty() {
            return Ok(vec![]);
        }
        // All other sessions would wait behind this one for a table that it must not touch.
        for partition in &over {
            parent.check_may_remove(*partition, detach)?;
            related::check(parent.oid, removal_of(*partition, detach))?;
        }
        check_dependents(&over, detach)?;
        // Take the lock that DROP TABLE takes, and start again. The first lock is released before,
        // because two sessions that both held it and waited for the second lock would deadlock.
        parent.unlock(pg_sys::AccessShareLock);
        let mut attempts = Attempts::new();
        loop {
            let lock = || Parent::lock(table.0, pg_sys::AccessExclusiveLock);
            let parent = match attempts.counting(lock) {
                Err(busy @ Error::ObjectLocked { .. }) => {
                    attempts.pause().map_err(|_| busy)?;
                    continue;
                }
                locked => locked?,
            };
            // Now all other sessions that use the table wait for this one.
            let over = to_drop(&parent)?;
            let mut removed = vec![];
            let are_removed = attempts.attempt(|attempts| {
                parent.lock_to_remove(&over, detach, attempts)?;
                let remove = |partition: &Oid| {
                    attempts.wait(*partition, || parent.remove(*partition, detach))
                };
                removed = over.iter().map(remove).collect();
                Ok(true)
            })?;
            if are_removed {
                return Ok(removed);
            }
            parent.unlock(pg_sys::AccessExclusiveLock);
            attempts.pause().map_err(locks::not_available)?;
        }
    });
    Ok(SetOfIterator::new(dropped?))
}

/// An epoch that a default names.
struct Given {
    epoch: Epoch,
    /// The function that names it, with its schema and its owner; `None` for the default itself.
    by: Option<(Oid, Oid, Oid)>,
}

impl Parent {
    /// Locks the table until it is unlocked or the transaction ends. Any role that can use the
    /// schema can hold a lock, and tables that the caller's transaction has locked before wait.
    fn lock(oid: Oid, mode: u32) -> Result<Parent, Error> {
        // The schema first, as a transaction does that grants privileges on it and then changes
        // the table.
        let schema = roles::own_table(oid)?.schema;
        guc::with_lock_limit(|| locks::lock_schema_in_time(schema))?;
        let lock = || locks::lock_relation(oid, mode);
        guc::with_lock_limit(|| locks::in_time_for(Busy::Relation(oid), lock))?;
        // Its owner or its schema may have changed by now, or it may be gone.
        let relation = roles::own_table(oid)?;
        if relation.schema != schema {
            return Err(Error::TableChanged(names::relation(oid)));
        }
        let why_not = match partitions::partition_key(oid) {
            None => "It is not partitioned.",
            Some(key) if !key.is_by_range => "It is partitioned in another way.",
            Some(key) if key.columns != 1 => "Its key has several columns.",
            Some(key) if key.column == 0 => "Its key is an expression.",
            Some(key) if !key.is_bigint => "Its key is of another type.",
            Some(_) => return Ok(Parent { oid, relation }),
        };
        Err(Error::NotPartitionedById { table: names::relation(oid), why: why_not.into() })
    }

    /// Releases the lock of that mode.
    fn unlock(self, mode: u32) {
        // SAFETY: `lock` took it, in a subtransaction that has passed it on to this transaction.
        // The query has an owner of its own for its locks, which is restored.
        unsafe {
            let owner = pg_sys::CurrentResourceOwner;
            pg_sys::CurrentResourceOwner = pg_sys::CurTransactionResourceOwner;
            pg_sys::UnlockRelationOid(self.oid, mode as pg_sys::LOCKMODE);
            pg_sys::CurrentResourceOwner = owner;
        }
    }

    /// The epoch of the ids that the default of the key generates. If it generates none, that of
    /// the shard in whose schema the table is, or the original's.
    ///
    /// # Errors
    ///
    /// Those of [`Parent::epoch_of_default`] and [`Parent::epoch_of_schema`]; or the default
    /// generates ids of a role that is not trusted, with another epoch than that; or it may
    /// generate ids in a way that this does not read.
    fn epoch(&self, own_schema: Oid) -> Result<Epoch, Error> {
        let Some(Given { epoch, by }) = self.epoch_of_default(own_schema)? else {
            if partitions::key_may_get_ids(self.oid) {
                return Err(Error::EpochOfDefaultUnknown { table: names::relation(self.oid) });
            }
            return Ok(self.epoch_of_schema()?.unwrap_or(Epoch::ORIGINAL));
        };
        let Some((function, schema, owner)) = by else { return Ok(epoch) };
        let trust = Trust::of_table(&self.relation, schema, false);
        if trust.accepts(schema, owner)
            || self.epoch_of_schema()?.unwrap_or(Epoch::ORIGINAL) == epoch
        {
            return Ok(epoch);
        }
        let owner = if trust.accepts_owner(schema, owner) {
            catalog::schema_owner(schema).unwrap_or(Oid::INVALID)
        } else {
            owner
        };
        Err(Error::EpochOfDefaultNotTrusted {
            table: names::relation(self.oid),
            function: names::function(function),
            epoch: names::time_in_utc(epoch.at()),
            owner: names::role(owner),
            role: names::role(self.relation.owner),
        })
    }

    /// The epoch of the ids that the default of the key generates, by a function of a shard or in
    /// the original way. `None` if it generates none, or those of the shard that a setting names,
    /// which this session does not have.
    ///
    /// # Errors
    ///
    /// Those of [`definition::find`] and [`adopted::epoch_of`], or the shard does not exist.
    fn epoch_of_default(&self, own_schema: Oid) -> Result<Option<Given>, Error> {
        let key = partitions::partition_key(self.oid).map(|key| key.column);
        let call = key.and_then(|key| default_of(self.oid, key)).and_then(Expression::call);
        let Some((callee, arguments)) = call else { return Ok(None) };
        let Some(function) = catalog::function(callee) else { return Ok(None) };
        let given = |(oid, schema, owner), epoch| Given { epoch, by: Some((oid, schema, owner)) };
        let by_function = |epoch| given((callee, function.schema, function.owner), epoch);
        let shard = match generated::by_call(&function, &arguments, own_schema) {
            Some(Generated::Function(_, sequence)) => {
                return Ok(Some(by_function(sequence.epoch)));
            }
            Some(Generated::Sequence(_, epoch) | Generated::Node(epoch)) => {
                return Ok(epoch.map(|epoch| Given { epoch, by: None }));
            }
            Some(Generated::Setting) => guc::shard(),
            Some(Generated::Number(shard)) => shard,
            None => return Ok(adopted::epoch_of(&function)?.map(by_function)),
        };
        let Some(shard) = shard else { return Ok(None) };
        let found = lookup::definition_of(shard)?;
        Ok(Some(given((found.function, found.schema, found.owner), found.sequence.epoch)))
    }

    /// The epoch of the shard in whose schema the table is, if there is one. If the shard's
    /// definition was dropped, its `epoch()` is still there.
    ///
    /// # Errors
    ///
    /// Shards in the schema have several epochs, or only a role that is not trusted gives an epoch.
    fn epoch_of_schema(&self) -> Result<Option<Epoch>, Error> {
        let schema = self.relation.schema;
        let trust = Trust::of_table(&self.relation, schema, false);
        let definitions = definition::in_schema(schema);
        let mut given: Vec<_> =
            definitions.iter().map(|it| (it.function, it.owner, it.sequence.epoch)).collect();
        if !given.iter().any(|(_, owner, _)| trust.accepts(schema, *owner)) {
            let function = catalog::function_in(schema, "epoch", &[]);
            given.extend(
                function.and_then(|it| Some((it.oid, it.owner, definition::epoch_of(&it)?))),
            );
        }
        let mut epochs: Vec<Epoch> = vec![];
        for (_, owner, epoch) in &given {
            if trust.accepts(schema, *owner) && !epochs.contains(epoch) {
                epochs.push(*epoch);
            }
        }
        let table = || names::relation(self.oid);
        match (epochs.as_slice(), given.iter().find(|(.., epoch)| *epoch != Epoch::ORIGINAL)) {
            ([epoch], _) => Ok(Some(*epoch)),
            ([], None) => Ok(None),
            ([], Some((function, owner, epoch))) => Err(Error::EpochNotTrusted {
                table: table(),
                function: names::function(*function),
                owner: names::role(*owner),
                epoch: names::time(epoch.at()),
                role: names::role(self.relation.owner),
            }),
            (several, _) => {
                let epochs = several.iter().map(|epoch| names::time_in_utc(epoch.at())).collect();
                Err(Error::EpochAmbiguous { table: table(), schema: names::schema(schema), epochs })
            }
        }
    }

    /// A NOTICE for each partition that is being detached.
    fn announce_unfinished(&self) {
        for partition in partitions::being_detached(self.oid) {
            let (partition, table) = (names::relation(partition), names::relation(self.oid));
            Error::DetachUnfinished { partition, table }.notice();
        }
    }

    /// The ranges of the periods between these times that no partition covers.
    fn missing(&self, boundaries: &[TimestampUs], epoch: Epoch) -> Vec<Range> {
        let existing: Vec<Range> =
            partitions::partitions(self.oid).iter().map(|it| it.range).collect();
        let mut missing = vec![];
        for period in boundaries.windows(2) {
            // The last period is cut off where ids end.
            if let Some(from) = bound(epoch, period[0]) {
                let range = Range { from: Some(from), to: bound(epoch, period[1]) };
                missing.extend(gaps(range, &existing));
            }
        }
        missing
    }

    /// Creates the table that becomes a partition, under the first name that no other role keeps
    /// busy. Its name is the table's and the day on which the partition begins, with the time if
    /// that is not midnight. If the result is too long for a name, the table's name is truncated.
    ///
    /// A number follows if the name is taken: by a partition that begins in the same second, or by
    /// an object of any role with CREATE on the schema, which must not prevent new partitions. For
    /// a name that such a role has not committed, PostgreSQL waits.
    fn create_table(&self, range: Range, epoch: Epoch, limit: Deadline) -> Result<Oid, Error> {
        let schema = self.relation.schema;
        let storage = self.storage();
        let label = partition_label(range, epoch);
        for number in 1.. {
            // After each wait, because the owner of the schema could have renamed it.
            let table = names::relation(self.oid);
            let numbered = match number {
                1 => label.clone(),
                ..=NUMBERED_MAX => format!("{label}_{number}"),
                // A role cannot have created all of these.
                _ => format!("{label}_{}", names::now() % 1_000_000_000),
            };
            let name = names::with_label(self.oid, &numbered);
            if catalog::is_name_taken(&name, schema) {
                continue;
            }
            // CREATE TABLE ... PARTITION OF would block the table's readers. ATTACH adds what LIKE
            // does not copy: indexes, foreign keys, triggers and identities. The storage clauses
            // are added here.
            let create = format!(
                "CREATE TABLE {} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING GENERATED \
                     INCLUDING STORAGE INCLUDING COMPRESSION){storage}",
                quote_qualified_identifier(&names::raw_schema(schema), &name)
            );
            let Err(said) = create_in_time(|| self.run_as_owner(&create)) else {
                return Ok(catalog::relation_oid(&name, schema));
            };
            if limit.is_over() {
                let name = names::with_label(self.oid, &label);
                return Err(Error::PartitionNameLocked { table, name, said });
            }
        }
        unreachable!("a loop without an end")
    }

    /// Attaches an empty table as a partition. PostgreSQL checks its foreign keys with a query,
    /// which an error about policies of the referenced tables must not prevent.
    fn attach(&self, partition: Oid, range: Range) {
        let from = range.from.map_or("MINVALUE".into(), |id| id.to_string());
        let to = range.to.map_or("MAXVALUE".into(), |id| id.to_string());
        let statement = format!(
            "ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({from}) TO ({to})",
            names::relation(self.oid),
            names::relation(partition)
        );
        guc::with(&[(c"row_security", "on")], || self.run_as_owner(&statement));
    }

    /// Runs a statement in which PostgreSQL may evaluate expressions of the table, and of related
    /// tables.
    fn run_as_owner(&self, statement: &str) {
        roles::as_role(self.relation.owner, || spi::run(statement));
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

    /// The partitions whose ids all come before that time, in their order. It is an error if by
    /// this epoch no partition is for ids that are generated now or later, or, unless the epoch was
    /// given, if there is a gap before that partition.
    fn partitions_to_drop(
        &self,
        before: TimestampUs,
        epoch: Epoch,
        is_given: bool,
    ) -> Result<Vec<Oid>, Error> {
        let (end, now) = (bound(epoch, before), bound(epoch, names::now()));
        // Keys of a serial or an identity are as small as ids of the first day, and have no time.
        const FIRST_DAY: i64 = FIRST_DAY_MS << TIME_SHIFT;
        let is_of_ids = |range: Range| range.from.is_some_and(|from| from >= FIRST_DAY);
        let is_over = |range: Range| {
            is_of_ids(range) && range.to.is_some_and(|to| end.is_none_or(|end| to <= end))
        };
        // A partition up to MAXVALUE contains the present by any epoch, so it counts only if it
        // begins at `before` or later.
        let is_for_now = |range: Range| match range.to {
            Some(to) => now.is_some_and(|now| to > now),
            None => now.is_some() && range.from >= end,
        };
        let partitions = partitions::partitions(self.oid);
        // Queries on the table do not see their rows any more.
        let leaving = partitions::being_detached(self.oid);
        let over: Vec<Oid> = partitions
            .iter()
            .filter(|it| is_over(it.range) && !leaving.contains(&it.oid))
            .map(|it| it.oid)
            .collect();
        let (table, at) = (|| names::relation(self.oid), || names::time(epoch.at()));
        let time = |bound| time_of(epoch, bound).map_or_else(String::new, names::time);
        if over.is_empty() {
            return Ok(over);
        } else if !partitions.iter().any(|it| is_for_now(it.range)) {
            return Err(Error::NoPresentPartition { table: table(), epoch: at() });
        }
        let until_now = |range: &Range| range.to.is_some_and(|to| now.is_none_or(|now| to <= now));
        let mut pairs = partitions.windows(2).map(|pair| [pair[0].range, pair[1].range]);
        let gap =
            pairs.find(|[one, next]| is_of_ids(*one) && until_now(one) && one.to != next.from);
        match gap {
            Some([one, next]) if !is_given => Err(Error::PartitionsNotConnected {
                table: table(),
                epoch: at(),
                from: time(one.to),
                to: time(next.from),
            }),
            _ => Ok(over),
        }
    }

    /// Checks that the caller may use the schema of a partition and drop it, or that the owner of
    /// the table may name it, to detach it.
    fn check_may_remove(&self, partition: Oid, detach: bool) -> Result<(), Error> {
        locks::check_schema_of(partition)?;
        let Some(Relation { owner, schema, .. }) = catalog::relation(partition) else {
            return Ok(());
        };
        if let Change::Detach(_) = removal_of(partition, detach) {
            roles::check_may_use_schema(schema, self.relation.owner)?;
        }
        let role = catalog::current_role();
        let may_drop = catalog::has_rights_of(role, owner) || catalog::owns_schema(schema, role);
        if may_drop || detach {
            Ok(())
        } else {
            Err(Error::NotTableOwner(names::relation(partition)))
        }
    }

    /// Within an attempt: takes all locks that the removal of these partitions needs beside that on
    /// the table. Their names and references are stable only then.
    fn lock_to_remove(
        &self,
        partitions: &[Oid],
        detach: bool,
        attempts: &Attempts,
    ) -> Result<(), Error> {
        for partition in partitions {
            attempts.lock(*partition, pg_sys::AccessExclusiveLock);
            attempts.lock_schema_of(*partition)?;
            attempts.lock_rows(*partition, iter::empty());
            related::lock_and_check(self.oid, removal_of(*partition, detach), attempts)?;
        }
        check_dependents(partitions, detach)
    }

    /// Drops a partition, or detaches it. Returns its name.
    fn remove(&self, partition: Oid, detach: bool) -> String {
        let name = names::relation(partition);
        // SAFETY: a catalog lookup.
        let is_foreign =
            unsafe { pg_sys::get_rel_relkind(partition) as u8 } == pg_sys::RELKIND_FOREIGN_TABLE;
        if let Change::Detach(_) = removal_of(partition, detach) {
            let table = names::relation(self.oid);
            self.run_as_owner(&format!("ALTER TABLE {table} DETACH PARTITION {name}"));
        }
        if !detach {
            spi::run(&format!("DROP {}TABLE {name}", if is_foreign { "FOREIGN " } else { "" }));
        }
        name
    }
}

/// How a partition is removed. A table referenced by foreign keys cannot be dropped. Detaching it
/// removes those references, and fails if any row is referenced.
fn removal_of(partition: Oid, detach: bool) -> Change {
    if detach || related::is_referenced(partition) {
        Change::Detach(partition)
    } else {
        Change::Drop(partition)
    }
}

/// Checks that nothing depends on partitions that are dropped.
fn check_dependents(partitions: &[Oid], detach: bool) -> Result<(), Error> {
    match detach {
        true => Ok(()),
        false => dependents::check(pg_sys::RelationRelationId, partitions, true),
    }
}

/// How many numbers a name gets, if other objects have it.
const NUMBERED_MAX: i32 = 30;

/// The longest wait for a name. A session that creates an object of this name usually commits or
/// ends sooner, and there are other names.
const NAME_LIMIT: Duration = Duration::from_millis(100);

/// Creates a table. Returns the error, and leaves nothing, if its name seems to be that of an
/// object which another transaction has just created.
fn create_in_time(create: impl FnOnce()) -> Result<(), String> {
    let is_of_name = |state| {
        matches!(
            state,
            PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE
                | PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION
                | PgSqlErrorCode::ERRCODE_DUPLICATE_TABLE
                | PgSqlErrorCode::ERRCODE_DUPLICATE_OBJECT
        )
    };
    guc::with_lock_timeout(NAME_LIMIT.min(guc::lock_limit()), || {
        let created = subtransaction::catching(is_of_name, create);
        created.map_err(|report| error::report_in_one_line(&report))
    })
}

/// `p` and the day on which a partition begins, with the time if that is not midnight.
fn partition_label(range: Range, epoch: Epoch) -> String {
    let begins = time_of(epoch, range.from).unwrap_or(epoch.at());
    let query = "SELECT to_char(utc, CASE WHEN utc = date_trunc('day', utc) THEN '\"p\"YYYYMMDD' ELSE '\"p\"YYYYMMDD_HH24MISS' END)
         FROM (SELECT $1 AT TIME ZONE interval '0' AS utc) AS t";
    select(query, &[names::timestamp(begins).into()], |row| row.get(1)).pop().unwrap_or_default()
}

/// The start of each period, from the one that contains `from` to the one `ahead` periods after the
/// one that contains `now`, and the end of the last.
fn boundaries(every: &str, from: TimestampUs, now: TimestampUs, ahead: i32) -> Vec<TimestampUs> {
    let query = "SELECT begins AT TIME ZONE interval '0'
         FROM CAST('1 ' || $1 AS interval) AS period,
              generate_series(date_trunc($1, $2 AT TIME ZONE interval '0'),
                              date_trunc($1, $3 AT TIME ZONE interval '0') + ($4 + 1) * period, period) AS begins";
    let arguments =
        [every.into(), names::timestamp(from).into(), names::timestamp(now).into(), ahead.into()];
    select(query, &arguments, |row| row.get::<TimestampWithTimeZone>(1).map(i64::from))
}

/// The time of a bound, if it has one.
fn time_of(epoch: Epoch, bound: Option<i64>) -> Option<TimestampUs> {
    bound.and_then(|id| epoch.time_of(layout::ms_of(id)))
}

/// The first id of a time. For a time before the epoch it is that of the epoch; `None` if it is
/// past the end of ids.
fn bound(epoch: Epoch, time: TimestampUs) -> Option<i64> {
    match epoch.ms_from(time) {
        Ok(ms) if ms <= ISSUED_MS_MAX => Some(layout::pack(ms, Shard::MIN, Seq::MIN)),
        Err(OutOfField::BeforeEpoch) => Some(0),
        _ => None,
    }
}

/// The parts of a range that are not covered by `taken`, which must be sorted and without overlaps.
fn gaps(range: Range, taken: &[Range]) -> Vec<Range> {
    // `None` is MINVALUE as a start and MAXVALUE as an end.
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
        assert_eq!(
            gaps(range(10, 20), &[range(0, 12), range(15, 17)]),
            [range(12, 15), range(17, 20)]
        );
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
        /// Each number of the range is either taken or in exactly one gap.
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

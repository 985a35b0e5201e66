//! Decides when the WAL that ids depend on is made durable, so that no crash or failover repeats an
//! acknowledged id.
//!
//! The commit of a transaction makes the records that it has written durable at the level that it
//! requires. But another transaction may use values that such a record covers, write no WAL itself,
//! and return them to its client before that commit. So each session flushes a record when it first
//! uses the record. If its commit waits for standbys, the commit also waits for this record.
//!
//! A commit may require a higher level than the call, for example after a function with `SET
//! synchronous_commit = off`. The commit then makes the record durable at that level.

/// A position in the WAL.
pub type Lsn = u64;

/// The level of `synchronous_commit`, which determines how long a commit waits. The levels and
/// their order are those of PostgreSQL's `SyncCommitLevel`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CommitLevel(u8);

impl CommitLevel {
    /// The commit does not wait.
    pub const OFF: CommitLevel = CommitLevel(0);
    /// The commit waits until its record is on this server's disk.
    pub const LOCAL: CommitLevel = CommitLevel(1);
    /// The commit waits until the standbys have replayed its record.
    pub const REMOTE_APPLY: CommitLevel = CommitLevel(4);
    /// The number of levels.
    const COUNT: usize = Self::REMOTE_APPLY.0 as usize + 1;

    /// The level with this number, at most `REMOTE_APPLY`.
    pub fn of_number(number: i32) -> CommitLevel {
        CommitLevel(number.clamp(0, i32::from(Self::REMOTE_APPLY.0)) as u8)
    }

    pub fn waits_for_standbys(self) -> bool {
        self > CommitLevel::LOCAL
    }
}

/// A WAL record that is durable at this level, or will be when the current transaction of this
/// backend commits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DurableRecord {
    lsn: Lsn,
    level: CommitLevel,
    /// `CommitTracker::unkept` at that time. If it has increased since, the record may be less
    /// durable.
    unkept: u64,
}

/// The operations that make WAL durable.
pub trait Wal {
    /// Flushes the WAL up to this position to this server's disk.
    fn flush(&mut self, lsn: Lsn);
    /// Makes the commit of the current transaction wait for the WAL up to this position, as for WAL
    /// of its own.
    fn make_commit_wait_for(&mut self, lsn: Lsn);
}

/// Tracks the WAL that the transaction of a backend depends on, and how durable it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CommitTracker {
    /// The highest level at which the commit of this transaction is expected to make a record
    /// durable.
    expected: CommitLevel,
    /// The number of transactions that were rolled back, or committed at a lower level than
    /// expected.
    unkept: u64,
    /// The WAL positions that values of this transaction depend on, by the level at which each is
    /// durable.
    depends_on: [Lsn; CommitLevel::COUNT],
}

impl CommitTracker {
    pub const NEW: CommitTracker = CommitTracker {
        expected: CommitLevel::OFF,
        unkept: 0,
        depends_on: [0; CommitLevel::COUNT],
    };

    /// Whether the record at `lsn` is known to be as durable as a commit at this level would make
    /// it.
    #[inline(always)]
    pub fn covers(&self, record: Option<DurableRecord>, lsn: Lsn, level: CommitLevel) -> bool {
        record.is_some_and(|record| {
            record.lsn == lsn && record.level >= level && record.unkept == self.unkept
        })
    }

    /// The record at `lsn`, expecting that the current transaction will commit at this level.
    pub fn when_committed(&mut self, lsn: Lsn, level: CommitLevel) -> DurableRecord {
        self.expected = self.expected.max(level);
        DurableRecord { lsn, level, unkept: self.unkept }
    }

    /// Makes the record at `lsn` durable at this level, because it covers a value that was just
    /// taken. `level` is that of a commit at this time. `known` is the last record that this
    /// backend has made durable.
    pub fn use_record(
        &mut self,
        known: Option<DurableRecord>,
        lsn: Lsn,
        level: CommitLevel,
        wal: &mut impl Wal,
    ) -> Option<DurableRecord> {
        let mut record = known;
        if !self.covers(record, lsn, level) {
            if level != CommitLevel::OFF {
                wal.flush(lsn);
            }
            if level.waits_for_standbys() {
                wal.make_commit_wait_for(lsn);
            }
            record = Some(self.when_committed(lsn, level));
        }
        let level = record.map_or(CommitLevel::OFF, |record| record.level);
        let position = &mut self.depends_on[usize::from(level.0)];
        *position = lsn.max(*position);
        record
    }

    /// Whether the transaction has neither used nor written a record, so that its end has nothing
    /// to do.
    #[inline(always)]
    pub fn is_idle(&self) -> bool {
        self.expected == CommitLevel::OFF && self.depends_on.iter().all(|lsn| *lsn == 0)
    }

    /// Makes the records that this transaction depends on as durable as its commit will be. PREPARE
    /// does not need this, because it flushes all WAL before its own record at any level.
    pub fn before_commit(
        &self,
        level: CommitLevel,
        writes_commit_record: bool,
        wal: &mut impl Wal,
    ) {
        let lsn = self.depends_on[..usize::from(level.0)].iter().copied().max().unwrap_or(0);
        if lsn == 0 {
            return;
        }
        if level.waits_for_standbys() || writes_commit_record {
            wal.make_commit_wait_for(lsn);
        } else {
            wal.flush(lsn);
        }
    }

    /// Ends the transaction. `level` is that of its commit, or [`CommitLevel::OFF`] if it was
    /// rolled back.
    pub fn end(&mut self, level: CommitLevel) {
        self.depends_on = [0; CommitLevel::COUNT];
        if level < std::mem::replace(&mut self.expected, CommitLevel::OFF) {
            self.unkept += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMOTE: CommitLevel = CommitLevel::REMOTE_APPLY;

    /// The calls that a tracker has made.
    #[derive(Default, PartialEq, Debug)]
    struct Calls {
        flushed: Vec<Lsn>,
        waited: Vec<Lsn>,
    }

    impl Wal for Calls {
        fn flush(&mut self, lsn: Lsn) {
            self.flushed.push(lsn);
        }
        fn make_commit_wait_for(&mut self, lsn: Lsn) {
            self.waited.push(lsn);
        }
    }

    fn calls(flushed: &[Lsn], waited: &[Lsn]) -> Calls {
        Calls { flushed: flushed.into(), waited: waited.into() }
    }

    #[test]
    fn record_is_flushed_once() {
        let mut tracker = CommitTracker::NEW;
        let mut wal = Calls::default();
        let first = tracker.use_record(None, 10, CommitLevel::LOCAL, &mut wal);
        let again = tracker.use_record(first, 10, CommitLevel::LOCAL, &mut wal);
        assert_eq!((first, &wal), (again, &calls(&[10], &[])));
        tracker.before_commit(CommitLevel::LOCAL, false, &mut wal);
        tracker.end(CommitLevel::LOCAL);
        // The next record, and the same one for a commit that waits for standbys.
        tracker.use_record(first, 20, CommitLevel::LOCAL, &mut wal);
        tracker.use_record(first, 10, REMOTE, &mut wal);
        assert_eq!(wal, calls(&[10, 20, 10], &[10]));
    }

    #[test]
    fn commit_does_the_rest() {
        assert!(CommitTracker::NEW.is_idle());
        for (level, has_record, expected) in [
            (CommitLevel::OFF, false, calls(&[], &[])),
            (CommitLevel::LOCAL, false, calls(&[10], &[])),
            (CommitLevel::LOCAL, true, calls(&[], &[10])),
            (REMOTE, false, calls(&[], &[10])),
        ] {
            let mut tracker = CommitTracker::NEW;
            let mut wal = Calls::default();
            tracker.use_record(None, 10, CommitLevel::OFF, &mut wal);
            assert!(!tracker.is_idle());
            tracker.before_commit(level, has_record, &mut wal);
            assert_eq!(wal, expected, "{level:?}");
        }
    }

    /// The records of two sequences; a session may use that of the later record first.
    #[test]
    fn commit_waits_for_the_latest_record_of_its_transaction() {
        let mut tracker = CommitTracker::NEW;
        let mut wal = Calls::default();
        tracker.use_record(None, 20, CommitLevel::OFF, &mut wal);
        tracker.use_record(None, 10, CommitLevel::OFF, &mut wal);
        tracker.before_commit(CommitLevel::LOCAL, false, &mut wal);
        tracker.end(CommitLevel::LOCAL);
        // The next transaction has no record.
        tracker.before_commit(CommitLevel::LOCAL, false, &mut wal);
        assert_eq!(wal, calls(&[20], &[]));
    }

    #[test]
    fn rollback_or_lower_level_makes_the_record_unknown() {
        let (off, local) = (CommitLevel::OFF, CommitLevel::LOCAL);
        for (expected, level, is_covered) in [
            (local, off, false),
            (local, local, true),
            (local, REMOTE, true),
            (REMOTE, local, false),
        ] {
            let mut tracker = CommitTracker::NEW;
            let record = Some(tracker.when_committed(10, expected));
            assert!(!tracker.is_idle());
            tracker.end(level);
            assert!(tracker.is_idle());
            assert_eq!(tracker.covers(record, 10, expected), is_covered, "{expected:?}, {level:?}");
        }
    }

    /// A record that a function has flushed with `SET synchronous_commit = local` must still reach
    /// the standbys if the commit waits for them.
    #[test]
    fn commit_waits_for_a_record_used_at_a_lower_level() {
        for has_record in [false, true] {
            let mut tracker = CommitTracker::NEW;
            let mut wal = Calls::default();
            tracker.use_record(None, 10, CommitLevel::LOCAL, &mut wal);
            tracker.before_commit(REMOTE, has_record, &mut wal);
            assert_eq!(wal, calls(&[10], &[10]));
        }
    }
}

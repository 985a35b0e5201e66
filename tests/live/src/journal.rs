//! The record of every id as its client received it, and what must be true of it all.

use crate::ms_of;
use postgres::types::ToSql;
use postgres::{Client, SimpleQueryMessage};
use std::fs::OpenOptions;
use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// 2011-08-24 21:07:01.721 UTC, the epoch that ids count from unless told otherwise, in Unix milliseconds.
const ORIGINAL_EPOCH: i64 = 1_314_220_021_721;

/// What one session has received, in its order.
#[derive(Default)]
pub struct Received {
    pub ids: Vec<i64>,
    statements: Vec<Statement>,
}

/// A statement that has returned, so that its transaction is committed.
#[derive(Clone, Copy)]
struct Statement {
    started: Moment,
    ended: Moment,
    /// Where its ids end in those of the session.
    end: usize,
}

/// A moment on the client's two clocks.
#[derive(Clone, Copy)]
pub struct Moment {
    /// The one that nobody sets: what ended before it has come before what started after it.
    instant: Instant,
    unix_ms: i64,
}

impl Moment {
    pub fn now() -> Moment {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Moment { instant: Instant::now(), unix_ms: unix.as_millis() as i64 }
    }
}

impl Received {
    /// Runs a statement, or several at once, and records the ids that come back. Where it fails, nothing is.
    pub fn run(&mut self, client: &mut Client, statement: &str) -> Result<(), postgres::Error> {
        let started = Moment::now();
        let messages = client.simple_query(statement)?;
        let ended = Moment::now();
        let ids = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap().parse().unwrap()),
            _ => None,
        });
        self.note(ids, started, ended);
        Ok(())
    }

    /// The same for a prepared statement.
    pub fn run_prepared(
        &mut self,
        client: &mut Client,
        statement: &postgres::Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<(), postgres::Error> {
        let started = Moment::now();
        let rows = client.query(statement, parameters)?;
        let ended = Moment::now();
        self.note(rows.iter().map(|row| row.get(0)), started, ended);
        Ok(())
    }

    pub fn note(&mut self, ids: impl IntoIterator<Item = i64>, started: Moment, ended: Moment) {
        self.ids.extend(ids);
        self.statements.push(Statement { started, ended, end: self.ids.len() });
    }

    /// How long each statement took.
    pub fn times(&self) -> impl Iterator<Item = Duration> {
        self.statements.iter().map(|statement| statement.ended.instant - statement.started.instant)
    }

    /// Each statement with its ids.
    fn statements(&self) -> impl Iterator<Item = (Statement, &[i64])> {
        let mut begin = 0;
        self.statements.iter().map(move |&statement| {
            let ids = &self.ids[begin..statement.end];
            begin = statement.end;
            (statement, ids)
        })
    }
}

/// How near the clock the times of the ids must be.
#[derive(Clone, Copy)]
pub enum Clock {
    /// At most this many milliseconds before their statement started, and after it ended.
    Within { behind: i64, ahead: i64 },
    /// The scenario sets the server's clock, or the sequence.
    Set,
}

impl Clock {
    /// In good health the ids follow the clock, and are ahead of it by their lead at most.
    pub const IN_STEP: Clock = Clock::Within { behind: 0, ahead: 1 };
}

/// What came of a scenario. All is well where the last five are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub ids: usize,
    pub sessions: usize,
    /// Crashes, clocks set, and whatever else a scenario does to its servers.
    pub faults: usize,
    /// Ids that are there already.
    pub duplicates: usize,
    /// Ids not larger than their predecessor in a statement, and statements with an id not larger than one that
    /// some session had received before they started.
    pub inversions: usize,
    /// Ids of another shard, or negative.
    pub strangers: usize,
    /// Where nothing got lost on the way to the clients: ids whose sequence field does not follow upon that of the
    /// id before.
    pub gaps: usize,
    /// Statements with ids further from the clock than they may be.
    pub untimely: usize,
}

/// The record of a scenario on one sequence, of the original epoch.
pub struct Journal {
    scenario: String,
    /// Whose ids these are; 5 unless told otherwise.
    pub shard: i64,
    pub faults: usize,
    pub clock: Clock,
    /// Whether the clients have received every id that was made.
    pub is_complete: bool,
    sessions: Vec<Received>,
}

impl Journal {
    pub fn new(scenario: impl Into<String>, clock: Clock) -> Journal {
        Journal {
            scenario: scenario.into(),
            shard: 5,
            faults: 0,
            clock,
            is_complete: false,
            sessions: vec![],
        }
    }

    pub fn add(&mut self, sessions: impl IntoIterator<Item = Received>) {
        self.sessions.extend(sessions);
    }

    /// The largest id so far.
    pub fn largest(&self) -> i64 {
        self.sessions.iter().flat_map(|session| &session.ids).copied().max().unwrap_or(0)
    }

    /// Counts what is wrong, and shows it beside what was done.
    pub fn figures(&self) -> Figures {
        let mut ids: Vec<i64> = self.sessions.iter().flat_map(|session| &session.ids).copied().collect();
        ids.sort_unstable();
        let follows = |pair: &&[i64]| (pair[0] + 1) & 1023 == pair[1] & 1023;
        let (behind, ahead) = self.distance_from_clock();
        let figures = Figures {
            ids: ids.len(),
            sessions: self.sessions.len(),
            faults: self.faults,
            duplicates: ids.windows(2).filter(|pair| pair[0] == pair[1]).count(),
            inversions: self.inversions_in_statements() + self.inversions_between_statements(),
            strangers: ids.iter().filter(|&id| (id >> 10) & 8191 != self.shard || *id < 0).count(),
            gaps: if self.is_complete { ids.windows(2).filter(|pair| !follows(pair)).count() } else { 0 },
            untimely: self.untimely(),
        };
        println!(
            "{}: {} ids, {} sessions, {} faults, {} duplicates, {} inversions",
            self.scenario,
            figures.ids,
            figures.sessions,
            figures.faults,
            figures.duplicates,
            figures.inversions
        );
        if !ids.is_empty() && matches!(self.clock, Clock::Within { .. }) {
            println!("    at most {behind} ms behind and {ahead} ms ahead of the clock");
        }
        figures
    }

    /// Checks that nothing is wrong, and adds the figures to the file that `FIGURES` names.
    #[track_caller]
    pub fn check(&self) -> Figures {
        let figures = self.figures();
        let Figures { ids, sessions, faults, .. } = figures;
        assert!(ids > 0, "{}: no ids at all", self.scenario);
        assert_eq!(figures, Figures { ids, sessions, faults, ..Figures::default() }, "{}", self.scenario);
        if let Some(path) = std::env::var_os("FIGURES") {
            let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
            writeln!(file, "{}\t{ids}\t{sessions}\t{faults}", self.scenario).unwrap();
        }
        figures
    }

    fn inversions_in_statements(&self) -> usize {
        let statements = self.sessions.iter().flat_map(Received::statements);
        statements.map(|(_, ids)| ids.windows(2).filter(|pair| pair[0] >= pair[1]).count()).sum()
    }

    /// Whatever had been received, by any session, before a statement started is smaller than the statement's ids.
    fn inversions_between_statements(&self) -> usize {
        let with_ids =
            || self.sessions.iter().flat_map(Received::statements).filter(|(_, ids)| !ids.is_empty());
        let mut starts: Vec<(Instant, i64)> =
            with_ids().map(|(s, ids)| (s.started.instant, *ids.iter().min().unwrap())).collect();
        let mut ends: Vec<(Instant, i64)> =
            with_ids().map(|(s, ids)| (s.ended.instant, *ids.iter().max().unwrap())).collect();
        starts.sort_unstable();
        ends.sort_unstable();
        let mut ended = ends.into_iter().peekable();
        let mut largest_before = i64::MIN;
        starts
            .into_iter()
            .filter(|&(started, smallest)| {
                while let Some((_, largest)) = ended.next_if(|&(end, _)| end <= started) {
                    largest_before = largest_before.max(largest);
                }
                smallest <= largest_before
            })
            .count()
    }

    fn untimely(&self) -> usize {
        let Clock::Within { behind, ahead } = self.clock else { return 0 };
        let statements = self.sessions.iter().flat_map(Received::statements);
        statements.filter_map(distance_from_clock).filter(|&(b, a)| b > behind || a > ahead).count()
    }

    /// How far ids were at most behind and ahead of the clock, in milliseconds.
    fn distance_from_clock(&self) -> (i64, i64) {
        let statements = self.sessions.iter().flat_map(Received::statements);
        let distances = statements.filter_map(distance_from_clock);
        distances.fold((0, 0), |most, (behind, ahead)| (most.0.max(behind), most.1.max(ahead)))
    }
}

fn distance_from_clock((statement, ids): (Statement, &[i64])) -> Option<(i64, i64)> {
    let first = ORIGINAL_EPOCH + ms_of(*ids.iter().min()?);
    let last = ORIGINAL_EPOCH + ms_of(*ids.iter().max()?);
    Some((statement.started.unix_ms - first, last - statement.ended.unix_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD_5: i64 = 5 << 10;

    fn at(ms: i64) -> Moment {
        let instant = *START.get_or_init(Instant::now) + Duration::from_millis(ms as u64);
        Moment { instant, unix_ms: ORIGINAL_EPOCH + ms }
    }
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();

    fn id(ms: i64, seq: i64) -> i64 {
        ms << 23 | SHARD_5 | seq
    }

    /// A session by its statements: from when, to when, what.
    fn session(statements: &[(i64, i64, &[i64])]) -> Received {
        let mut received = Received::default();
        for &(started, ended, ids) in statements {
            received.note(ids.iter().copied(), at(started), at(ended));
        }
        received
    }

    #[track_caller]
    fn figures(sessions: impl IntoIterator<Item = Received>) -> Figures {
        let mut journal = Journal::new("test", Clock::IN_STEP);
        journal.is_complete = true;
        journal.add(sessions);
        let mut figures = journal.figures();
        (figures.ids, figures.sessions) = (0, 0);
        figures
    }

    #[test]
    fn a_good_record_has_no_faults() {
        let a = session(&[(10, 12, &[id(10, 1), id(10, 2)]), (12, 14, &[id(14, 5)])]);
        let b = session(&[(10, 13, &[id(10, 3), id(13, 4)]), (14, 14, &[])]);
        assert_eq!(figures([a, b]), Figures::default());
    }

    #[test]
    fn each_fault_is_seen() {
        let once = session(&[(10, 12, &[id(10, 1), id(11, 2)])]);
        let again = session(&[(10, 12, &[id(11, 2), id(11, 3)])]);
        let seen = Figures { duplicates: 1, gaps: 1, ..Figures::default() };
        assert_eq!(figures([once, again]), seen);

        let backwards = session(&[(10, 12, &[id(11, 2), id(11, 1)])]);
        assert_eq!(figures([backwards]), Figures { inversions: 1, ..Figures::default() });

        let in_a_session = session(&[(10, 11, &[id(11, 2)]), (11, 12, &[id(11, 1)])]);
        assert_eq!(figures([in_a_session]), Figures { inversions: 1, ..Figures::default() });

        let earlier = session(&[(10, 11, &[id(11, 2)])]);
        let later = session(&[(11, 12, &[id(11, 1)])]);
        assert_eq!(figures([later, earlier]), Figures { inversions: 1, ..Figures::default() });
        // Side by side either may come first.
        let beside = session(&[(10, 12, &[id(11, 2)])]);
        let later = session(&[(11, 12, &[id(11, 1)])]);
        assert_eq!(figures([later, beside]), Figures::default());

        let a_strangers = session(&[(10, 12, &[id(10, 1) + (1 << 10), id(11, 2)])]);
        assert_eq!(figures([a_strangers]), Figures { strangers: 1, ..Figures::default() });

        let with_a_gap = session(&[(10, 12, &[id(10, 1), id(10, 3)])]);
        assert_eq!(figures([with_a_gap]), Figures { gaps: 1, ..Figures::default() });

        let late = session(&[(10, 12, &[id(10, 1), id(14, 2)])]);
        assert_eq!(figures([late]), Figures { untimely: 1, ..Figures::default() });
        let early = session(&[(10, 12, &[id(9, 1), id(12, 2)])]);
        assert_eq!(figures([early]), Figures { untimely: 1, ..Figures::default() });
    }
}

//! The record of every id as its client received it, and the checks on it.

use crate::ms_of;
use postgres::types::ToSql;
use postgres::{Client, SimpleQueryMessage};
use std::fs::OpenOptions;
use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// 2011-08-24 21:07:01.721 UTC in Unix milliseconds, the default epoch of ids.
const ORIGINAL_EPOCH: i64 = 1_314_220_021_721;

/// The ids that one session has received, in order.
#[derive(Default)]
pub struct Received {
    pub ids: Vec<i64>,
    statements: Vec<Statement>,
}

/// A statement that has returned, whose transaction is therefore committed.
#[derive(Clone, Copy)]
struct Statement {
    started: Moment,
    ended: Moment,
    /// The number of ids that the session has received up to its end.
    end: usize,
}

/// A moment on the client's two clocks.
#[derive(Clone, Copy)]
pub struct Moment {
    /// The monotonic clock, which gives the order of moments.
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
    /// Runs one or several statements and records the ids they return. Records nothing on an error.
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

    /// Same for a prepared statement.
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

    /// The duration of each statement.
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

/// How close to the clock the times of the ids must be.
#[derive(Clone, Copy)]
pub enum Clock {
    /// At most this many milliseconds before the start of their statement, and after its end.
    Within { behind: i64, ahead: i64 },
    /// The scenario sets the server's clock or the sequence.
    Set,
}

impl Clock {
    /// Without faults the ids follow the clock, and are ahead of it by at most their lead.
    pub const IN_STEP: Clock = Clock::Within { behind: 0, ahead: 1 };
}

/// The results of a scenario. The last five must be 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub ids: usize,
    pub sessions: usize,
    /// Crashes, changes of the clock, and other faults that a scenario causes.
    pub faults: usize,
    /// Ids that were received before.
    pub duplicates: usize,
    /// Ids not larger than their predecessor in a statement, and statements with an id not larger
    /// than one that some session had received before they started.
    pub inversions: usize,
    /// Ids of another shard, and negative ids.
    pub strangers: usize,
    /// If the clients have received every id: ids whose sequence field is not the successor of the
    /// previous id's.
    pub gaps: usize,
    /// Statements with ids too far from the clock.
    pub untimely: usize,
}

/// The record of a scenario on one sequence with the original epoch.
pub struct Journal {
    scenario: String,
    /// The shard of the ids; 5 by default.
    pub shard: i64,
    pub faults: usize,
    pub clock: Clock,
    /// Whether the clients have received every generated id.
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

    /// Counts the faults, and prints them with the scenario.
    pub fn figures(&self) -> Figures {
        let mut ids: Vec<i64> =
            self.sessions.iter().flat_map(|session| &session.ids).copied().collect();
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
            gaps: if self.is_complete {
                ids.windows(2).filter(|pair| !follows(pair)).count()
            } else {
                0
            },
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

    /// Checks that there are no faults, and appends the figures to the file that `FIGURES` names.
    #[track_caller]
    pub fn check(&self) -> Figures {
        let figures = self.figures();
        let Figures { ids, sessions, faults, .. } = figures;
        assert!(ids > 0, "{}: no ids at all", self.scenario);
        assert_eq!(
            figures,
            Figures { ids, sessions, faults, ..Figures::default() },
            "{}",
            self.scenario
        );
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

    /// Ids that any session had received before a statement started must be smaller than the
    /// statement's ids.
    fn inversions_between_statements(&self) -> usize {
        let with_ids = || {
            self.sessions.iter().flat_map(Received::statements).filter(|(_, ids)| !ids.is_empty())
        };
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

    /// The largest distances of ids behind and ahead of the clock, in milliseconds.
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

    /// A session from its statements: start, end, ids.
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
    fn correct_record_has_no_faults() {
        let a = session(&[(10, 12, &[id(10, 1), id(10, 2)]), (12, 14, &[id(14, 5)])]);
        let b = session(&[(10, 13, &[id(10, 3), id(13, 4)]), (14, 14, &[])]);
        assert_eq!(figures([a, b]), Figures::default());
    }

    #[test]
    fn every_fault_is_detected() {
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
        // Concurrent statements may come in either order.
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

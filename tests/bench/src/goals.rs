//! The goals of the extension, each with a more ambitious target. A missed goal is reported but is
//! not a failure, because a busy machine misses some.

use crate::calls::DECODERS;
use crate::contestants::Contestant::*;
use crate::results::Results;
use crate::rounds::Spread;
use crate::shards::{Among, Caller, FEW};
use crate::tables::Key;
use crate::transactions::Transaction;
use std::fmt;

#[derive(Clone)]
pub struct Goal {
    pub what: String,
    bound: Bound,
    target: f64,
    measured: Spread,
}

#[derive(Clone)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

#[allow(clippy::too_many_lines)] // a table of goals
pub fn of(results: &Results) -> Vec<Goal> {
    let share =
        |sessions| results.in_bulk(sessions, 1).each(|run| run.share_of_limit).spread(ShardsNextId);
    let insert = results.of_tables(|filled| filled.insert_seconds);
    let mut goals = vec![
        at_least("1 session in bulk on one sequence: share of the limit", 0.98, 0.995, share(1)),
        at_least("8 sessions in bulk on one sequence: share of the limit", 0.98, 0.995, share(8)),
        at_most(
            "CPU time of next_id(5), relative to nextval",
            1.10,
            0.80,
            results.calls.ratio(NextId, Nextval),
        ),
        at_most(
            "CPU time of insta5.next_id(), relative to the PL/pgSQL original",
            1.0 / 12.0,
            1.0 / 20.0,
            results.calls.ratio(ShardsNextId, Original),
        ),
        at_most(
            "CPU time of a transaction with insta5.next_id(), relative to SELECT 1",
            1.15,
            1.10,
            results.transactions.ratio(Transaction::Made(ShardsNextId), Transaction::Constant),
        ),
        at_most(
            "INSERT of many rows with DEFAULT insta5.next_id(): time relative to bigserial",
            1.05,
            1.0,
            insert.ratio(Key::Made(ShardsNextId), Key::Bigserial),
        ),
    ];
    goals.extend(DECODERS.map(|[ours, inline]| {
        at_most(
            &format!("CPU time of {}, relative to the same expression inline", ours.expression),
            1.5,
            1.0,
            results.decoders.ratio(ours, inline),
        )
    }));
    goals.extend([
        at_most(
            "WAL of a million ids in bulk, relative to nextval",
            1e-3,
            1e-4,
            results.wal.ratio(NextId, Nextval),
        ),
        at_most(
            "CPU time of next_id(n) in a database of 8,192 shards, relative to one of 128",
            1.1,
            1.0,
            results.shards.ratio(
                Among { called: FEW, by: Caller::NextId },
                Among { called: FEW, by: Caller::NextIdOfFew },
            ),
        ),
    ]);
    goals
}

pub fn at_least(what: &str, bound: f64, target: f64, measured: impl Into<Spread>) -> Goal {
    Goal { what: what.into(), bound: Bound::AtLeast(bound), target, measured: measured.into() }
}

pub fn at_most(what: &str, bound: f64, target: f64, measured: impl Into<Spread>) -> Goal {
    Goal { what: what.into(), bound: Bound::AtMost(bound), target, measured: measured.into() }
}

impl Goal {
    pub fn bound(&self) -> String {
        match self.bound {
            Bound::AtLeast(bound) => format!("at least {}", short(bound)),
            Bound::AtMost(bound) => format!("at most {}", short(bound)),
        }
    }

    pub fn target(&self) -> String {
        short(self.target)
    }

    /// The median of the rounds, and their range.
    pub fn measured(&self) -> String {
        let Spread { median, lowest, highest } = self.measured;
        let [median, lowest, highest] = [median, lowest, highest].map(short);
        if lowest == highest { median } else { format!("{median} ({lowest} to {highest})") }
    }

    pub fn verdict(&self) -> &'static str {
        let reaches = |goal: f64| match self.bound {
            Bound::AtLeast(_) => self.measured.median >= goal,
            Bound::AtMost(_) => self.measured.median <= goal,
        };
        let (Bound::AtLeast(bound) | Bound::AtMost(bound)) = self.bound;
        match (reaches(bound), reaches(self.target)) {
            (_, true) => "target reached",
            (true, false) => "goal reached",
            (false, false) => "missed",
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (what, measured, bound) = (&self.what, short(self.measured.median), self.bound());
        write!(f, "{measured:>10}  {what}: {bound}, target {}: {}", self.target(), self.verdict())
    }
}

/// With three decimals; small ratios as one in so many.
fn short(value: f64) -> String {
    match value {
        _ if value > 0.0 && value < 0.2 => format!("1/{}", thousands((1.0 / value).round())),
        _ => format!("{value:.3}"),
    }
}

/// An integer with thousands separators.
pub fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).unwrap()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts() {
        let verdicts =
            |goal: fn(f64) -> Goal, measured: [f64; 3]| measured.map(|value| goal(value).verdict());
        let share = |value| at_least("share", 0.98, 0.995, value);
        assert_eq!(
            verdicts(share, [0.97, 0.98, 0.996]),
            ["missed", "goal reached", "target reached"]
        );
        let cost = |value| at_most("cost", 1.1, 0.8, value);
        assert_eq!(verdicts(cost, [1.2, 1.1, 0.8]), ["missed", "goal reached", "target reached"]);
        assert_eq!(cost(f64::NAN).verdict(), "missed");
        assert_eq!(cost(0.8).measured(), "0.800");
        let of_rounds = Spread { median: 0.8, lowest: 0.1, highest: 1.2 };
        assert_eq!(at_most("cost", 1.1, 0.8, of_rounds).measured(), "0.800 (1/10 to 1.200)");
    }

    #[test]
    fn numbers() {
        assert_eq!(
            [0.0, 7.0, 1234.0, 1_024_000.4].map(thousands),
            ["0", "7", "1,234", "1,024,000"]
        );
        assert_eq!(
            [0.05, 1.0 / 21950.0, 0.98, 1.1].map(short),
            ["1/20", "1/21,950", "0.980", "1.100"]
        );
    }
}

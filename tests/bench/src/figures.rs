//! The main figures of a run in a file, with which the run of another commit compares its own.
//!
//! They are ratios, shares and counts, because times of two runs differ for more reasons than the extension. The file
//! has a line for each figure, with its fields separated by tabs.

use crate::calls::DECODERS;
use crate::contestants::Contestant::*;
use crate::first_ids::{First, NEXTVAL, STATEMENTS};
use crate::goals::thousands;
use crate::results::Results;
use crate::rounds::Spread;
use crate::shards::{Among, CALLED, Caller, DATABASES};
use crate::tables::Key;
use crate::transactions::Transaction;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The figures of one run.
pub struct Figures(Vec<Figure>);

#[derive(Debug, Clone, PartialEq)]
struct Figure {
    name: String,
    is_better: Better,
    spread: Spread,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Better {
    Lower,
    Higher,
}

/// A figure in both runs.
struct Change {
    name: String,
    before: Spread,
    now: Spread,
    verdict: &'static str,
}

const COLUMNS: &str = "figure\tbetter\tmedian\tlowest\thighest\trounds";

impl Figures {
    pub fn of(results: &Results) -> Figures {
        let mut figures = vec![];
        let mut add = |name: String, is_better, spread| figures.push(Figure { name, is_better, spread });
        let ours = [NextId, ShardsNextId];
        for maker in ours {
            let name = maker.name();
            let calls = results.calls.ratio(maker, Nextval);
            add(format!("CPU time of a call of {name}, to nextval"), Better::Lower, calls);
        }
        for [decoder, inline] in DECODERS {
            let name = format!("CPU time of {}, to the same expression inline", decoder.expression);
            add(name, Better::Lower, results.decoders.ratio(decoder, inline));
        }
        for maker in [NextId, ShardsNextId, Nextval] {
            let name = format!("CPU time of a transaction with {}, to SELECT 1", maker.name());
            let ratio = results.transactions.ratio(Transaction::Made(maker), Transaction::Constant);
            add(name, Better::Lower, ratio);
        }
        for (load, runs) in results.in_bulk.iter().filter(|(load, _)| load.sequences == 1) {
            for maker in ours {
                let name = format!("{} in bulk, {load}: share of the limit", maker.name());
                add(name, Better::Higher, runs.each(|run| run.share_of_limit).spread(maker));
            }
        }
        for (load, rates) in &results.one_a_transaction {
            for maker in ours {
                let name = format!("{} one per transaction, {load}: rate to nextval", maker.name());
                add(name, Better::Higher, rates.ratio(maker, Nextval));
            }
        }
        let of_tables = [
            ("INSERT, time", results.of_tables(|filled| filled.insert_seconds)),
            ("INSERT, CPU time", results.of_tables(|filled| filled.insert_cpu_seconds)),
            ("COPY, time", results.of_tables(|filled| filled.copy_seconds)),
            ("size of the index", results.of_tables(|filled| filled.index_mb)),
        ];
        for (what, figure) in of_tables {
            for maker in ours {
                let name = format!("{what} with the key {}, to bigserial", maker.name());
                add(name, Better::Lower, figure.ratio(Key::Made(maker), Key::Bigserial));
            }
        }
        for maker in ours {
            let name = maker.name();
            add(format!("WAL of a million ids of {name}, bytes"), Better::Lower, results.wal.spread(maker));
            let memory = results.memory.each(|growth| growth.one_sequence_kb).spread(maker);
            add(
                format!("memory of a session that has used one sequence by {name}, kB"),
                Better::Lower,
                memory,
            );
            let memory = results.memory.each(|growth| growth.all_sequences_kb).spread(maker);
            add(format!("memory of a session that has used all by {name}, kB"), Better::Lower, memory);
        }
        for (_, shards) in DATABASES {
            for statement in STATEMENTS.into_iter().filter(|statement| *statement != NEXTVAL) {
                let [first, nextval] = [statement, NEXTVAL].map(|statement| First { statement, shards });
                let begin = format!("{statement} first in a session, {} shards", thousands(shards as f64));
                let ms = results.first_ids.each(|cost| cost.cpu_ms);
                add(format!("{begin}: CPU time to nextval"), Better::Lower, ms.ratio(first, nextval));
                let kb = results.first_ids.each(|cost| cost.kb);
                add(format!("{begin}: memory, kB"), Better::Lower, kb.spread(first));
            }
        }
        for called in CALLED {
            let [ours, plain] = [Caller::NextId, Caller::Nextval].map(|by| Among { called, by });
            let name =
                format!("CPU time of next_id(n), {} shards in turn, to nextval", thousands(called as f64));
            add(name, Better::Lower, results.shards.ratio(ours, plain));
        }
        Figures(figures)
    }

    pub fn write(&self, path: &Path) {
        let mut text = format!("{COLUMNS}\n");
        for Figure { name, is_better, spread: Spread { median, lowest, highest, rounds } } in &self.0 {
            let better = if *is_better == Better::Lower { "lower" } else { "higher" };
            writeln!(text, "{name}\t{better}\t{median:.4}\t{lowest:.4}\t{highest:.4}\t{rounds}").unwrap();
        }
        fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    pub fn read(path: &Path) -> Figures {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Figures::parse(&text).unwrap_or_else(|| panic!("{} is no file of figures", path.display()))
    }

    fn parse(text: &str) -> Option<Figures> {
        let lines = text.strip_prefix(COLUMNS)?.trim_start().lines();
        let figure = |line: &str| {
            let [name, better, median, lowest, highest, rounds] = line.split('\t').collect::<Vec<_>>()[..]
            else {
                return None;
            };
            let is_better = match better {
                "lower" => Better::Lower,
                "higher" => Better::Higher,
                _ => return None,
            };
            let spread = Spread {
                median: median.parse().ok()?,
                lowest: lowest.parse().ok()?,
                highest: highest.parse().ok()?,
                rounds: rounds.parse().ok()?,
            };
            Some(Figure { name: name.into(), is_better, spread })
        };
        lines.map(figure).collect::<Option<_>>().map(Figures)
    }

    /// A line for each figure that `baseline` also has: before, now, the change, and what it means.
    pub fn compared_with(&self, baseline: &Figures) -> String {
        let changes = self.since(baseline);
        let mut text = String::new();
        for Change { name, before, now, verdict } in &changes {
            let percent = (now.median / before.median - 1.0) * 100.0;
            let percent = if percent.is_finite() { format!("{percent:+.0} %") } else { String::new() };
            writeln!(text, "{name}: {} before, {} now, {percent} {verdict}", cell(*before), cell(*now))
                .unwrap();
        }
        let marked = changes.iter().filter(|change| !change.verdict.is_empty()).count();
        writeln!(text, "{marked} of {} figures changed beyond the noise", changes.len()).unwrap();
        text
    }

    fn since(&self, baseline: &Figures) -> Vec<Change> {
        let both = self.0.iter().filter_map(|now| {
            let before = baseline.0.iter().find(|before| before.name == now.name)?;
            Some((before.spread, now))
        });
        both.map(|(before, now)| Change {
            name: now.name.clone(),
            before,
            now: now.spread,
            verdict: match smallest_change(&now.name, before) {
                smallest if (now.spread.median - before.median).abs() < smallest => "",
                _ => verdict(before, now.spread, now.is_better),
            },
        })
        .collect()
    }
}

/// A smaller change of the median is not marked. The rounds of a run show the same memory, but two runs of one build
/// differ by some pages.
fn smallest_change(figure: &str, before: Spread) -> f64 {
    if figure.ends_with(", kB") { 16.0 } else { 0.01 * before.median }
}

/// A change counts if no round of one run is within the range of the other, and if this would be rare by chance.
fn verdict(before: Spread, now: Spread, is_better: Better) -> &'static str {
    let (is_lower, is_higher) = (now.highest < before.lowest, now.lowest > before.highest);
    match is_better {
        _ if !is_lower && !is_higher => "",
        _ if chance(before.rounds, now.rounds) > 0.01 => "",
        Better::Lower if is_lower => "better",
        Better::Higher if is_higher => "better",
        _ => "worse",
    }
}

/// How probable it is that so many rounds of two equal builds lie apart: two of all their orders.
fn chance(before: usize, now: usize) -> f64 {
    2.0 / (1..=now).map(|n| (before + n) as f64 / n as f64).product::<f64>()
}

/// A figure with three decimals, or as an integer if it is large.
fn cell(spread: Spread) -> String {
    let number = |value: f64| if value.abs() < 100.0 { format!("{value:.3}") } else { thousands(value) };
    let Spread { median, lowest, highest, .. } = spread;
    format!("{} ({} to {})", number(median), number(lowest), number(highest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn spread(lowest: f64, median: f64, highest: f64) -> Spread {
        Spread { median, lowest, highest, rounds: 5 }
    }

    #[test]
    fn changes_beyond_the_noise_are_marked() {
        let before = spread(0.9, 1.0, 1.1);
        let later = [spread(1.0, 1.1, 1.2), spread(0.7, 0.8, 0.85), spread(1.11, 1.2, 1.3)];
        let verdicts = |is_better| later.map(|now| verdict(before, now, is_better));
        assert_eq!(verdicts(Better::Lower), ["", "better", "worse"]);
        assert_eq!(verdicts(Better::Higher), ["", "worse", "better"]);
        let of_few_rounds = later.map(|now| verdict(before, Spread { rounds: 3, ..now }, Better::Lower));
        assert_eq!(of_few_rounds, ["", "", ""]);
        assert_eq!(
            [(5, 5), (3, 3), (1, 1)].map(|(before, now)| (1.0 / chance(before, now)).round()),
            [126.0, 10.0, 1.0]
        );
    }

    #[test]
    fn small_changes_are_not_marked() {
        let figures = |memory: f64, share: f64| {
            let both = [("memory, kB", Better::Lower, memory), ("share", Better::Higher, share)];
            let figure = |(name, is_better, value): (&str, _, _)| Figure {
                name: name.into(),
                is_better,
                spread: spread(value, value, value),
            };
            Figures(both.map(figure).into())
        };
        let verdicts = |memory, share| {
            let changes = figures(memory, share).since(&figures(40.0, 0.99));
            changes.into_iter().map(|change| change.verdict).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(52.0, 0.991), ["", ""]);
        assert_eq!(verdicts(56.0, 0.97), ["worse", "worse"]);
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let figure = |name: &str, is_better, spread| Figure { name: name.into(), is_better, spread };
        let figures = vec![
            figure("cost, to nextval", Better::Lower, spread(0.5, 0.75, 1.25)),
            figure("share", Better::Higher, spread(0.5, 0.5, 0.5)),
        ];
        let written = Figures(figures);
        let path = std::env::temp_dir().join(format!("figures-{}.tsv", std::process::id()));
        written.write(&path);
        let read = Figures::read(&path);
        fs::remove_file(&path).unwrap();
        assert_eq!(read.0, written.0);
        let said = read.compared_with(&written);
        assert!(said.contains("cost, to nextval: 0.750 (0.500 to 1.250) before"), "{said}");
        assert!(said.ends_with("0 of 2 figures changed beyond the noise\n"), "{said}");
    }

    #[test]
    fn a_broken_file_is_refused() {
        assert!(Figures::parse(&format!("{COLUMNS}\na\tlower\t1\t1\t1\t5\n")).is_some());
        for line in ["a\tlower\t1\t1\t1", "a\tless\t1\t1\t1\t5", "a\tlower\tx\t1\t1\t5"] {
            assert!(Figures::parse(&format!("{COLUMNS}\n{line}\n")).is_none(), "{line}");
        }
    }
}

//! The main figures of a run in a file, with which a run of a later version compares its own.
//!
//! They are ratios, shares and counts, because times of two runs differ for more reasons than the extension. The file
//! has a line for each figure, with its fields separated by tabs.

use crate::calls::DECODERS;
use crate::contestants::Contestant::*;
use crate::copies::Way;
use crate::first_ids::{First, NEXTVAL, STATEMENTS};
use crate::goals::thousands;
use crate::results::Results;
use crate::rounds::Spread;
use crate::shards::{Among, CALLED, Caller, DATABASES};
use crate::tables::Key;
use crate::transactions::Transaction;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The figures of one version of the extension.
pub struct Figures {
    pub version: String,
    /// When and where they were measured.
    pub source: String,
    figures: Vec<Figure>,
}

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

/// A figure in both versions.
pub struct Change {
    pub name: String,
    pub before: Spread,
    pub now: Spread,
    pub verdict: &'static str,
}

const COLUMNS: &str = "figure\tbetter\tmedian\tlowest\thighest\trounds";

impl Figures {
    pub fn of(results: &Results, source: &str) -> Figures {
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
        for (what, figure) in [
            ("time", results.copies.each(|load| load.seconds)),
            ("CPU time", results.copies.each(|load| load.cpu_seconds)),
        ] {
            let name = format!("COPY with ids of next_ids beside it, {what} to bigserial");
            add(name, Better::Lower, figure.ratio(Way::IdsBeside, Way::Bigserial));
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
        Figures { version: results.extension.clone(), source: source.replace('\n', " "), figures }
    }

    pub fn write(&self, folder: &Path, major: u32) {
        let mut text = format!("# {}\t{}\n{COLUMNS}\n", self.version, self.source);
        for Figure { name, is_better, spread: Spread { median, lowest, highest, rounds } } in &self.figures {
            let better = if *is_better == Better::Lower { "lower" } else { "higher" };
            writeln!(text, "{name}\t{better}\t{median:.4}\t{lowest:.4}\t{highest:.4}\t{rounds}").unwrap();
        }
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join(format!("{}-{major}.tsv", self.version)), text).unwrap();
    }

    pub fn read(path: &Path) -> Figures {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Figures::parse(&text).unwrap_or_else(|| panic!("{} is no file of figures", path.display()))
    }

    fn parse(text: &str) -> Option<Figures> {
        let (title, text) = text.strip_prefix("# ")?.split_once('\n')?;
        let (version, source) = title.split_once('\t')?;
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
        let figures = lines.map(figure).collect::<Option<_>>()?;
        Some(Figures { version: version.into(), source: source.into(), figures })
    }

    /// The figures that `baseline` also has.
    pub fn since(&self, baseline: &Figures) -> Vec<Change> {
        let both = self.figures.iter().filter_map(|now| {
            let before = baseline.figures.iter().find(|before| before.name == now.name)?;
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

/// A smaller change of the median is not marked. The rounds of a run show the same memory, but two runs of one version
/// differ by some pages.
fn smallest_change(figure: &str, before: Spread) -> f64 {
    if figure.ends_with(", kB") { 16.0 } else { 0.01 * before.median }
}

/// A change counts if no round of one version is within the range of the other, and if this would be rare by chance.
fn verdict(before: Spread, now: Spread, is_better: Better) -> &'static str {
    let (is_lower, is_higher) = (now.highest < before.lowest, now.lowest > before.highest);
    match is_better {
        _ if !is_lower && !is_higher => "",
        _ if chance(before.rounds, now.rounds) > 0.01 => "",
        Better::Lower if is_lower => "better",
        Better::Higher if is_higher => "better",
        _ => "**worse**",
    }
}

/// How probable it is that so many rounds of two equal versions lie apart: two of all their orders.
fn chance(before: usize, now: usize) -> f64 {
    2.0 / (1..=now).map(|n| (before + n) as f64 / n as f64).product::<f64>()
}

/// The file of the newest version before this one in `folder`, for the same major.
pub fn newest_before(folder: &Path, version: &str, major: u32) -> Option<PathBuf> {
    let version_of = |path: &Path| {
        let name = path.file_name()?.to_str()?.strip_suffix(&format!("-{major}.tsv"))?;
        numbers(name)
    };
    let files = fs::read_dir(folder).ok()?.map(|entry| entry.unwrap().path());
    let older = files.filter(|path| version_of(path).is_some_and(|of| Some(of) < numbers(version)));
    older.max_by_key(|path| version_of(path))
}

fn numbers(version: &str) -> Option<Vec<u32>> {
    version.split('.').map(|number| number.parse().ok()).collect()
}

/// A figure of the table: three decimals, or an integer if it is large.
pub fn cell(spread: Spread) -> String {
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
        assert_eq!(verdicts(Better::Lower), ["", "better", "**worse**"]);
        assert_eq!(verdicts(Better::Higher), ["", "**worse**", "better"]);
        let of_few_rounds = later.map(|now| verdict(before, Spread { rounds: 3, ..now }, Better::Lower));
        assert_eq!(of_few_rounds, ["", "", ""]);
        assert_eq!(
            [(5, 5), (3, 3), (1, 1)].map(|(before, now)| (1.0 / chance(before, now)).round()),
            [126.0, 10.0, 1.0]
        );
    }

    #[test]
    fn small_changes_are_not_marked() {
        let figures = |memory: f64, share: f64| Figures {
            version: String::new(),
            source: String::new(),
            figures: [("memory, kB", Better::Lower, memory), ("share", Better::Higher, share)]
                .map(|(name, is_better, value)| Figure {
                    name: name.into(),
                    is_better,
                    spread: spread(value, value, value),
                })
                .into(),
        };
        let verdicts = |memory, share| {
            let changes = figures(memory, share).since(&figures(40.0, 0.99));
            changes.into_iter().map(|change| change.verdict).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(52.0, 0.991), ["", ""]);
        assert_eq!(verdicts(56.0, 0.97), ["**worse**", "**worse**"]);
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let figure = |name: &str, is_better, spread| Figure { name: name.into(), is_better, spread };
        let figures = vec![
            figure("cost, to nextval", Better::Lower, spread(0.5, 0.75, 1.25)),
            figure("share", Better::Higher, spread(0.5, 0.5, 0.5)),
        ];
        let folder = std::env::temp_dir().join(format!("figures-{}", std::process::id()));
        let written = Figures { version: "0.4.0".into(), source: "here".into(), figures };
        written.write(&folder, 15);
        let older = Figures { version: "0.10.0".into(), source: String::new(), figures: vec![] };
        older.write(&folder, 15);
        let found = newest_before(&folder, "0.10.0", 15).unwrap();
        let read = Figures::read(&found);
        assert_eq!(newest_before(&folder, "0.4.0", 15), None);
        assert_eq!(newest_before(&folder, "0.10.0", 18), None);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            (read.version, read.source, read.figures),
            (written.version, written.source, written.figures)
        );
    }

    #[test]
    fn a_broken_file_is_refused() {
        assert!(Figures::parse(&format!("# 0.4.0\there\n{COLUMNS}\na\tlower\t1\t1\t1\t5\n")).is_some());
        for line in ["a\tlower\t1\t1\t1", "a\tless\t1\t1\t1\t5", "a\tlower\tx\t1\t1\t5"] {
            assert!(Figures::parse(&format!("# 0.4.0\there\n{COLUMNS}\n{line}\n")).is_none(), "{line}");
        }
    }
}

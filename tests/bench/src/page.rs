//! The page with the figures, and its part for one PostgreSQL.

use crate::calls::DECODERS;
use crate::contestants::{Contestant, SEQUENCES};
use crate::goals::{self, thousands};
use crate::plot;
use crate::results::{Results, with_duplicates};
use crate::rounds::Rounds;
use crate::sessions::{Kept, LIMIT};
use crate::shards::{Among, CALLED, Caller, FEW, SHARDS};
use crate::tables::{Key, RANGE};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The page, and the place in it for the figures of one PostgreSQL.
pub struct Page {
    path: PathBuf,
    before: String,
    after: String,
}

impl Page {
    /// Finds the two marks of this major version in the page.
    pub fn open(path: &str, major: u32) -> Page {
        let begin = format!("<!-- figures of PostgreSQL {major} -->\n");
        let end = format!("<!-- end of PostgreSQL {major} -->\n");
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let (begins, ends) = (text.find(&begin), text.find(&end));
        let (Some(begins), Some(ends)) = (begins, ends) else {
            panic!("{path} has no place for these figures, which is between the two lines\n{begin}{end}");
        };
        Page { path: path.into(), before: text[..begins + begin.len()].into(), after: text[ends..].into() }
    }

    /// Writes the figures into the page, and a plot beside it.
    pub fn write(&self, results: &Results) {
        let plot = format!("benchmarks-{}.svg", results.major);
        fs::write(self.path.with_file_name(&plot), plot::of(results)).unwrap();
        fs::write(&self.path, [&self.before, "\n", &figures(results, &plot), &self.after].concat()).unwrap();
    }
}

fn figures(results: &Results, plot: &str) -> String {
    let mut text = String::new();
    let mut section = |title: &str, table: Table| {
        writeln!(text, "### {title}, PostgreSQL {}\n\n{table}", results.major).unwrap();
    };
    section("Goals", goals_table(results));
    section("CPU time of a call", calls(results));
    section("Decoders", decoders(results));
    section("Ids per second in bulk", in_bulk(results));
    section("Ids per second, one per transaction", one_a_transaction(results));
    section(&format!("{} rows", thousands(results.rows as f64)), tables(results));
    section("WAL and memory", footprint(results));
    section("CPU time with up to 8,192 shards", shards(results));
    format!("{}\n\n![The figures of PostgreSQL {}]({plot})\n\n{text}", machine(results), results.major)
}

fn machine(results: &Results) -> String {
    let line = |path: &str, key: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("unknown").to_owned();
        line.trim_matches([' ', '\t', ':', '=', '"']).to_owned()
    };
    let cores = std::thread::available_parallelism().unwrap();
    let memory: f64 = line("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or(f64::NAN);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let date = Command::new("date").arg("+%Y-%m-%d").output().unwrap();
    let settings: Vec<String> =
        crate::SETTINGS.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    format!(
        "PostgreSQL {}, instagram_id {}, {}, {} rounds. {} with {cores} cores and {:.0} GiB, {}, Linux {}. Settings that differ \
         from the defaults: {}.",
        results.version,
        results.extension,
        String::from_utf8_lossy(&date.stdout).trim(),
        results.rounds,
        line("/proc/cpuinfo", "model name"),
        memory / 1048576.0,
        line("/etc/os-release", "PRETTY_NAME"),
        kernel.trim(),
        settings.join(", "),
    )
}

fn goals_table(results: &Results) -> Table {
    let mut table = Table::new(&["figure", "goal", "target", "measured", "result"]);
    for goal in goals::of(results) {
        table.row([&goal.what, &goal.bound(), &goal.target(), &goals::short(goal.measured), goal.verdict()]);
    }
    table
}

fn calls(results: &Results) -> Table {
    let mut table = Table::new(&["", "ns", "ratio to nextval", "ratio to the original"]);
    for maker in results.contestants() {
        table.row([
            maker.name(),
            &format!("{:.0}", results.calls.median(maker)),
            &results.calls.ratio(maker, Contestant::Nextval).to_string(),
            &results.calls.ratio(maker, Contestant::Original).to_string(),
        ]);
    }
    table.note(&format!("Measured over {SEQUENCES} sequences in turn, in one statement."));
    table
}

fn decoders(results: &Results) -> Table {
    let mut table = Table::new(&["function", "ns", "the same expression inline", "ns", "ratio"]);
    for [ours, inline] in DECODERS {
        table.row([
            &format!("`{}`", ours.expression),
            &format!("{:.1}", results.decoders.median(ours)),
            &format!("`{}`", inline.expression),
            &format!("{:.1}", results.decoders.median(inline)),
            &results.decoders.ratio(ours, inline).to_string(),
        ]);
    }
    table
}

fn in_bulk(results: &Results) -> Table {
    let mut table = by_load(results);
    for (load, runs) in &results.in_bulk {
        let cells = results.contestants().into_iter().map(|maker| {
            let rate = thousands(runs.each(|run| run.per_second).median(maker));
            with_duplicates(rate, &Kept::of_all(runs.of_one(maker)))
        });
        table.row([load.to_string()].into_iter().chain(cells));
    }
    for sessions in [1, 2, 8, 32] {
        let runs = results.in_bulk(sessions, 1);
        let ours = Contestant::ShardsNextId;
        let share = runs.each(|run| run.share_of_limit);
        let lowest = share.of_one(ours).iter().copied().fold(1.0, f64::min);
        let busy = |maker| runs.each(|run| run.busy_cores).median(maker);
        table.note(&format!(
            "{} on one sequence: `insta5.next_id()` reaches {:.4} of the limit (worst round: {lowest:.4}) and uses \
             {:.2} cores in the server. `nextval` uses {:.2}.",
            if sessions == 1 { "1 session".into() } else { format!("{sessions} sessions") },
            share.median(ours),
            busy(ours),
            busy(Contestant::Nextval),
        ));
    }
    table.note(&format!("The limit of one sequence is {} ids per second.", thousands(LIMIT)));
    table
}

fn one_a_transaction(results: &Results) -> Table {
    let mut table = by_load(results);
    for ((load, rates), (_, kept)) in results.one_a_transaction.iter().zip(&results.kept) {
        let cells = results.contestants().into_iter().map(|maker| {
            let ratio = rates.ratio(maker, Contestant::Nextval);
            let [kept] = kept.of_one(maker) else { unreachable!("kept in one round") };
            let rate = format!("{}; {ratio}", thousands(rates.median(maker)));
            with_duplicates(rate, kept)
        });
        table.row([load.to_string()].into_iter().chain(cells));
    }
    table.note(
        "Transactions per second by pgbench, with prepared statements, and their ratio to `nextval` in the same round. With one \
         session, client and server run in turn on idle cores, and most of the time is spent waking these.",
    );
    table
}

/// A column for each contestant.
fn by_load(results: &Results) -> Table {
    let names: Vec<&str> = results.contestants().into_iter().map(Contestant::name).collect();
    Table::new(&[&[""], &names[..]].concat())
}

fn tables(results: &Results) -> Table {
    let range = format!("read of the {} greatest keys, ms", thousands(RANGE as f64));
    let columns =
        ["key", "INSERT, s", "ratio to bigserial", "CPU time of INSERT, s", "COPY, s", "ratio to bigserial"];
    let sizes = ["table, MB", "index, MB", "read of a row by key, µs", range.as_str()];
    let mut table = Table::new(&[&columns[..], &sizes[..]].concat());
    let insert = results.of_tables(|filled| filled.insert_seconds);
    let copy = results.of_tables(|filled| filled.copy_seconds);
    let median = |figure: Rounds<Key>, key, decimals: usize| format!("{:.decimals$}", figure.median(key));
    for key in results.tables.contestants() {
        if let Some(failure) = results.failure_of(key) {
            table.note(&format!("{}: fails with \"{failure}\".", key.name()));
            continue;
        }
        table.row([
            key.name(),
            &format!("{:.1}", insert.median(key)),
            &insert.ratio(key, Key::Bigserial).to_string(),
            &median(results.of_tables(|filled| filled.insert_cpu_seconds), key, 1),
            &format!("{:.1}", copy.median(key)),
            &copy.ratio(key, Key::Bigserial).to_string(),
            &median(results.of_tables(|filled| filled.table_mb), key, 0),
            &median(results.of_tables(|filled| filled.index_mb), key, 0),
            &median(results.of_tables(|filled| filled.point_read_us), key, 2),
            &median(results.of_tables(|filled| filled.range_read_ms), key, 1),
        ]);
    }
    table
}

fn footprint(results: &Results) -> Table {
    let all = format!("memory of a session that has used {SEQUENCES} sequences, kB");
    let columns =
        ["", "WAL of a million ids, bytes", "memory of a session that has used one, kB", all.as_str()];
    let mut table = Table::new(&columns);
    for maker in results.contestants() {
        table.row([
            maker.name(),
            &thousands(results.wal.median(maker)),
            &thousands(results.memory.each(|growth| growth.one_sequence_kb).median(maker)),
            &thousands(results.memory.each(|growth| growth.all_sequences_kb).median(maker)),
        ]);
    }
    table.note(
        "When a statement names a function, the parser looks up all functions of that name, and PostgreSQL caches them. Here these \
         are some hundreds of functions `next_id`, which take a megabyte.",
    );
    table
}

fn shards(results: &Results) -> Table {
    let mut table = Table::new(&["shards called in turn", "next_id(n), ns", "nextval(n), ns", "ratio"]);
    let shards = &results.shards;
    for called in CALLED {
        let [ours, plain] = [Caller::NextId, Caller::Nextval].map(|by| Among { called, by });
        table.row([
            thousands(called as f64),
            format!("{:.0}", shards.median(ours)),
            format!("{:.0}", shards.median(plain)),
            shards.ratio(ours, plain).to_string(),
        ]);
    }
    let few = Among { called: FEW, by: Caller::NextIdOfFew };
    let all = thousands(SHARDS as f64);
    let ratio = shards.ratio(Among { called: FEW, by: Caller::NextId }, few);
    table.note(&format!(
        "Measured in a database of {all} shards. In a database of only {FEW} shards, a call that uses these in turn costs {:.0} \
         ns; with {all} shards in the database it costs {ratio} times as much.",
        shards.median(few),
    ));
    table
}

/// A table in Markdown, and the text below it.
struct Table {
    text: String,
    notes: Vec<String>,
}

impl Table {
    fn new(columns: &[&str]) -> Table {
        let mut table = Table { text: String::new(), notes: vec![] };
        table.row(columns);
        table.row(columns.iter().enumerate().map(|(column, _)| if column == 0 { "---" } else { "---:" }));
        table
    }

    fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        for cell in cells {
            write!(self.text, "| {} ", cell.as_ref()).unwrap();
        }
        self.text.push_str("|\n");
    }

    fn note(&mut self, note: &str) {
        self.notes.push(note.into());
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}", self.text)?;
        self.notes.iter().try_for_each(|note| write!(f, "\n{note}\n"))
    }
}

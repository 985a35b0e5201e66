//! The page with the figures, and its part for one PostgreSQL.

use crate::calls::DECODERS;
use crate::contestants::{Contestant, SEQUENCES};
use crate::first_ids::{Cost, First, STATEMENTS};
use crate::forms::{self, CALLS};
use crate::goals::{self, thousands};
use crate::order::{ALONE, CRASHES, IN_BULK, Later, TURNS};
use crate::plot;
use crate::results::{Results, with_duplicates};
use crate::rounds::Rounds;
use crate::sessions::{Kept, LIMIT};
use crate::shards::{Among, CALLED, Caller, DATABASES, FEW, SHARDS};
use crate::summary;
use crate::tables::{Key, RANGE};
use crate::transactions::{CLIENTS, Transaction};
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

    /// Writes the figures into the page; beside it a plot, and the summary if this is the newest major of the page.
    pub fn write(&self, results: &Results) {
        let plot = format!("benchmarks-{}.svg", results.major);
        fs::write(self.path.with_file_name(&plot), plot::of(results)).unwrap();
        if self.is_of_newest_major(results.major) {
            fs::write(self.path.with_file_name("benchmarks.svg"), summary::of(results)).unwrap();
        }
        let text = figures(results, &plot);
        fs::write(&self.path, [&self.before, "\n", &text, &self.after].concat()).unwrap();
    }

    fn is_of_newest_major(&self, major: u32) -> bool {
        let marks = [&self.before, &self.after]
            .into_iter()
            .flat_map(|text| text.split("<!-- figures of PostgreSQL "));
        marks.filter_map(|text| text.split(' ').next()?.parse().ok()).all(|of: u32| of <= major)
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
    section("CPU time of a transaction", transactions(results));
    section("Ids per second in bulk", in_bulk(results));
    section("Ids per second, one per transaction", one_a_transaction(results));
    section(&format!("{} rows", thousands(results.rows as f64)), tables(results));
    section("WAL and memory", footprint(results));
    section("First id of a session", first_ids(results));
    section("CPU time with up to 8,192 shards", shards(results));
    section("Forms in which others publish figures", published_forms(results));
    section("A range of time in the form of TimescaleDB", time_ranges(results));
    section("Order, crashes and the clock", order(results));
    if !results.rivals.is_empty() {
        section("Other extensions", other_extensions(results));
    }
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

fn transactions(results: &Results) -> Table {
    let mut table = Table::new(&["SELECT", "µs", "ratio to `SELECT 1`", "ratio to nextval"]);
    let figure = &results.transactions;
    for transaction in figure.contestants() {
        table.row([
            transaction.name(),
            &format!("{:.1}", figure.median(transaction)),
            &figure.ratio(transaction, Transaction::Constant).to_string(),
            &figure.ratio(transaction, Transaction::Made(Contestant::Nextval)).to_string(),
        ]);
    }
    table.note(&format!(
        "CPU time of the sessions of {CLIENTS} clients, which run the prepared statement on one sequence. \
         `pg_sequence_last_value` also looks up a function, locks a sequence and reads its page.",
    ));
    table
}

fn in_bulk(results: &Results) -> Table {
    let mut table = by_load(results);
    for (load, runs) in &results.in_bulk {
        let cells = results.contestants().into_iter().map(|maker| {
            let rate = thousands(runs.each(|run| run.per_second).median(maker));
            with_duplicates(rate, &Kept::of_all(runs.of_one(maker).iter().map(|run| &run.kept)))
        });
        table.row([load.to_string()].into_iter().chain(cells));
    }
    for (load, runs) in results.in_bulk.iter().filter(|(load, _)| load.sequences == 1) {
        let ours = Contestant::ShardsNextId;
        let share = runs.each(|run| run.share_of_limit);
        let lowest = share.of_one(ours).iter().copied().fold(1.0, f64::min);
        let busy = |maker| runs.each(|run| run.busy_cores).median(maker);
        table.note(&format!(
            "{} on one sequence: `insta5.next_id()` reaches {:.4} of the limit (worst round: {lowest:.4}) and uses \
             {:.2} cores in the server. `nextval` uses {:.2}.",
            if load.sessions == 1 { "1 session".into() } else { format!("{} sessions", load.sessions) },
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

fn first_ids(results: &Results) -> Table {
    let of = DATABASES.map(|(_, shards)| thousands(shards as f64));
    let columns =
        of.iter().flat_map(|of| [format!("{of} shards: ms"), "CPU time, ms".into(), "memory, kB".into()]);
    let columns: Vec<String> = ["first statement".into()].into_iter().chain(columns).collect();
    let mut table = Table::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    let [ms, cpu_ms, kb] = [|cost: &Cost| cost.ms, |cost: &Cost| cost.cpu_ms, |cost: &Cost| cost.kb]
        .map(|figure| results.first_ids.each(figure));
    for statement in STATEMENTS {
        let cells = DATABASES.iter().flat_map(|&(_, shards)| {
            let first = First { statement, shards };
            let times = [&ms, &cpu_ms].map(|figure| format!("{:.2}", figure.median(first)));
            times.into_iter().chain([thousands(kb.median(first))])
        });
        table.row([format!("`{statement}`")].into_iter().chain(cells));
    }
    table.note(
        "Time until the client has the answer, and memory that the session then has more than before. The session has run \
         `SELECT now()` before. The first call of this extension loads its library. The default of `insta5.photos` is \
         `insta5.next_id()`, and that of `plain.photos` is `nextval`.",
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

fn published_forms(results: &Results) -> Table {
    let columns = [
        "",
        "EXPLAIN ANALYZE, ms",
        "ns per call",
        "ratio to nextval",
        "pgbench, per second",
        "ratio to nextval",
    ];
    let mut table = Table::new(&columns);
    for maker in results.contestants() {
        let ms = results.explained.median(maker);
        table.row([
            maker.name(),
            &thousands(ms),
            &thousands(ms * 1e6 / CALLS as f64),
            &results.explained.ratio(maker, Contestant::Nextval).to_string(),
            &thousands(results.by_pgbench.median(maker)),
            &results.by_pgbench.ratio(maker, Contestant::Nextval).to_string(),
        ]);
    }
    let call = Contestant::ShardsNextId.call(5);
    table.note(&format!(
        "The statements are `{}`, with the execution time that it shows, and `SELECT {call}` by `pgbench --client={}` in its \
         default protocol, without prepared statements; for the others with their calls.",
        forms::explain_analyze(&call),
        forms::CLIENTS,
    ));
    table.note(&format!(
        "One sequence of this extension generates at most 1,024 ids per millisecond. So a statement that takes a million ids from \
         one sequence takes at least {:.0} ms, which is {} ids per second, however fast the machine is. The call itself is \
         cheaper: see its CPU time above. Several sequences have no common limit.",
        CALLS as f64 / LIMIT * 1e3,
        thousands(LIMIT),
    ));
    table
}

fn time_ranges(results: &Results) -> Table {
    let mut table = Table::new(&["key", "query", "CPU time, ms", "ratio to uuid", "index, MB"]);
    let ranges = &results.ranges;
    for range in forms::RANGES {
        table.row([
            range.key,
            &format!("`{}`", range.query),
            &format!("{:.2}", ranges.ms.median(range)),
            &ranges.ms.ratio(range, forms::RANGES[0]).to_string(),
            &format!("{:.1}", ranges.index_mb.median(range)),
        ]);
    }
    table.note(&format!(
        "Three tables of {} rows, at the same times of one day. TimescaleDB is not installed on this server: \
         `to_uuidv7_boundary` is a function in SQL that returns what TimescaleDB documents for its function of this name. The \
         tables are ordinary ones, not hypertables.",
        thousands(ranges.rows as f64),
    ));
    table
}

fn order(results: &Results) -> Table {
    let columns = [
        "",
        "two sessions in turn",
        "after crashes",
        "clock set back: same session",
        "clock set back: new session",
        "clock set back: after a restart",
    ];
    let mut table = Table::new(&columns);
    let cell = |later: &Later| match (later.repeated, later.lower) {
        (0, 0) => "in order".into(),
        (0, lower) => format!("{} lower", thousands(lower as f64)),
        (repeated, lower) => {
            format!("{} repeated, {} lower", thousands(repeated as f64), thousands(lower as f64))
        }
    };
    for maker in results.contestants() {
        let [order] = results.order.of_one(maker) else { unreachable!("measured in one round") };
        let cells = [
            &order.in_turns,
            &order.after_crashes,
            &order.same_session,
            &order.new_session,
            &order.after_restart,
        ];
        table.row([maker.name().to_owned()].into_iter().chain(cells.map(cell)));
    }
    table.note(&format!(
        "The ids of one sequence. \"Repeated\" ids had been generated before; \"lower\" ones are lower than the greatest before them. \
         Two sessions generate {} ids in turn, and each id is compared with the one before. After each of {CRASHES} crashes, in \
         which all processes of the server are killed, a session generates {} ids, one per transaction; all earlier ids were \
         received by a client. Then a session generates {} ids in a statement, and the clock is set back to where it began, three \
         times.",
        thousands(TURNS as f64),
        thousands(ALONE as f64),
        thousands(IN_BULK as f64),
    ));
    table
}

fn other_extensions(results: &Results) -> Table {
    let mut table = Table::new(&["", "repository", "version", "commit"]);
    for rival in &results.rivals {
        let repository = format!("[{0}](https://github.com/{0})", rival.repository);
        table.row([rival.name, &repository, &rival.version, &rival.commit]);
        if let Some(note) = &rival.note {
            table.note(&format!("{}: {}", rival.name, note.trim()));
        }
    }
    let settings: Vec<String> =
        results.rivals_settings.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    table.note(&format!("Their settings: {}.", settings.join("; ")));
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

//! The page with the figures.

use crate::contestants::{Contestant, SEQUENCES};
use crate::first_ids::{Cost, First, STATEMENTS};
use crate::goals::{self, thousands};
use crate::order::{ALONE, CRASHES, IN_BULK, Later, TURNS};
use crate::results::{Results, with_duplicates};
use crate::rounds::Rounds;
use crate::sessions::{Kept, LIMIT, Run};
use crate::shards::{Among, CALLED, Caller, DATABASES, FEW, SHARDS};
use crate::summary;
use crate::tables::{Key, RANGE};
use crate::transactions::{CLIENTS, Transaction};
use instagram_id_live::pg_config_says;
use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::os::unix::process::parent_id;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

const BEGIN: &str = "<!-- figures -->\n";
const END: &str = "<!-- end of figures -->\n";

/// The page, and the place in it for the figures.
pub struct Page {
    path: PathBuf,
    before: String,
    after: String,
}

impl Page {
    /// Finds the two marks in the page.
    pub fn open(path: &str) -> Page {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let (Some(begins), Some(ends)) = (text.find(BEGIN), text.find(END)) else {
            panic!(
                "{path} has no place for these figures, which is between the two lines\n{BEGIN}{END}"
            );
        };
        Page {
            path: path.into(),
            before: text[..begins + BEGIN.len()].into(),
            after: text[ends..].into(),
        }
    }

    /// Writes the figures into the page, and the plot beside it.
    pub fn write(&self, results: &Results) {
        fs::write(self.path.with_file_name("benchmarks.svg"), summary::of(results)).unwrap();
        fs::write(&self.path, [&self.before, "\n", &figures(results), &self.after].concat())
            .unwrap();
    }
}

fn figures(results: &Results) -> String {
    let mut text = format!("{}\n\n![The cost of an id](benchmarks.svg)\n\n", machine(results));
    let mut section = |title: &str, table: Table| writeln!(text, "### {title}\n\n{table}").unwrap();
    section("Where others are better", others(results));
    section("Goals", goals_table(results));
    section("Cost of an id", costs(results));
    section("Ids per second", rates(results));
    section(&format!("{} rows", thousands(results.rows as f64)), tables(results));
    section("First id of a session", first_ids(results));
    section("CPU time with up to 8,192 shards", shards(results));
    section("Order, crashes and the clock", order(results));
    if !results.rivals.is_empty() {
        section("Other extensions", other_extensions(results));
    }
    let configured = pg_config_says("--configure");
    writeln!(text, "### How the server was built\n\n```\n{configured}\n```\n").unwrap();
    text
}

fn machine(results: &Results) -> String {
    let line = |path: &str, key: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line =
            text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("unknown").to_owned();
        line.trim_matches([' ', '\t', ':', '=', '"']).to_owned()
    };
    let cores = std::thread::available_parallelism().unwrap();
    let memory: f64 =
        line("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or(f64::NAN);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let date = Command::new("date").arg("+%Y-%m-%d").output().unwrap();
    let settings: Vec<String> =
        crate::SETTINGS.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    format!(
        "PostgreSQL {}, instagram_id {}, {}, {} rounds. {} with {cores} cores and {:.0} GiB, {}, Linux {}. Settings that differ \
         from the defaults: {}. A system call takes {:.0} ns.",
        results.version,
        results.extension,
        String::from_utf8_lossy(&date.stdout).trim(),
        results.rounds,
        line("/proc/cpuinfo", "model name"),
        memory / 1048576.0,
        line("/etc/os-release", "PRETTY_NAME"),
        kernel.trim(),
        settings.join(", "),
        system_call_ns(),
    )
}

/// How long one takes: a part of what `nextval`, UUIDs and reading the clock cost, which differs
/// between machines.
fn system_call_ns() -> f64 {
    const CALLS: u32 = 1_000_000;
    let start = Instant::now();
    for _ in 0..CALLS {
        black_box(parent_id());
    }
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

/// Less of a cost or of a size is better, and more of a rate. A size is almost the same in each
/// round.
#[derive(Clone, Copy, PartialEq)]
enum Figure {
    Cost,
    Rate,
    Size,
}

/// For each figure, the contestants that are better than `insta5.next_id()`.
fn others(results: &Results) -> Table {
    use Figure::{Cost, Rate, Size};
    let mut table = Table::new(&["figure", "`insta5.next_id()`", "better"]);
    let mut compare = |what: &str, decimals: usize, figure: Figure, rounds: &Rounds<Contestant>| {
        let better = better(figure, rounds);
        if !better.is_empty() {
            let ours = rounds.median(Contestant::ShardsNextId);
            let decimal = format!("{ours:.decimals$}");
            let ours = if decimals == 0 { thousands(ours) } else { decimal };
            table.row([what, &ours, &better]);
        }
    };
    let transactions = results.contestants().into_iter().map(Transaction::Made);
    let transactions = results.transactions.only(transactions, results.contestants());
    compare("CPU time of a call, ns", 0, Cost, &results.calls);
    compare("CPU time of a transaction, µs", 1, Cost, &transactions);
    compare("WAL of a million ids, bytes", 0, Size, &results.wal);
    let memory = results.memory.each(|growth| growth.one_sequence_kb);
    compare("memory of a session, kB", 0, Size, &memory);
    for (load, runs) in &results.in_bulk {
        let rates = runs.each(|run| run.per_second);
        compare(&format!("ids per second in bulk: {load}"), 0, Rate, &rates);
        let ns = runs.each(Run::cpu_ns);
        compare(&format!("CPU time of an id in bulk, ns: {load}"), 0, Cost, &ns);
    }
    for (load, rates) in &results.one_a_transaction {
        compare(&format!("ids per second, one per transaction: {load}"), 0, Rate, rates);
    }
    let all = results.memory.each(|growth| growth.all_sequences_kb);
    compare("kB with all sequences", 0, Size, &all);
    let is_made =
        |maker: &Contestant| results.tables.contestants().any(|key| key == Key::Made(*maker));
    let makers: Vec<Contestant> = results.contestants().into_iter().filter(is_made).collect();
    let of_makers = |figures: Rounds<Key>| {
        let keys = makers.iter().map(|maker| Key::Made(*maker)).chain([Key::Bigserial]);
        figures.only(keys, [&makers[..], &[Contestant::Nextval]].concat())
    };
    let insert = of_makers(results.of_tables(|filled| filled.insert_seconds));
    let many = format!("INSERT of {} rows, s", thousands(results.rows as f64));
    compare(&many, 2, Cost, &insert);
    let of_one_row = of_makers(results.of_one_row());
    compare("CPU time of an INSERT of one row, µs", 1, Cost, &of_one_row);
    table.note(&single_statements(results));
    table.note(
        "An id is listed as better if the median of its ratios to `insta5.next_id()` in the same round is better than 1, by however \
         little. This median is shown, and in parentheses in how many of the rounds it was better: about half of them can be chance. \
         WAL and memory hardly vary, and are shown in bytes and kB. Reads by the key are not listed: those of keys of the same size \
         are the same. The table of order, crashes and the clock shows what some of these ids lack. Ids of this extension and of \
         sequences can also repeat where the page of a sequence is lost or set back ([limitations](../use/guarantees.md)); random ones \
         cannot.",
    );
    table
}

/// The contestants with a better median of their ratios to `insta5.next_id()`, the best one first.
fn better(figure: Figure, rounds: &Rounds<Contestant>) -> String {
    let sign = if figure == Figure::Rate { -1.0 } else { 1.0 };
    let ratios = rounds.relative_to(Contestant::ShardsNextId);
    let mut better: Vec<(f64, String)> = vec![];
    for maker in rounds.contestants().filter(|maker| !maker.is_ours()) {
        let (of_rounds, ratio) = (ratios.of_one(maker), ratios.median(maker));
        let wins = of_rounds.iter().filter(|ratio| sign * **ratio < sign).count();
        let shown = match figure {
            Figure::Size => thousands(rounds.median(maker)),
            _ => format!("{ratio:.2} ({wins} of {})", of_rounds.len()),
        };
        if sign * ratio < sign {
            better.push((sign * ratio, format!("{} {shown}", maker.name())));
        }
    }
    better.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    better.into_iter().map(|(_, shown)| shown).collect::<Vec<_>>().join("; ")
}

/// How an INSERT of many rows, one of one row and the first id of a session compare, in a sentence
/// each.
fn single_statements(results: &Results) -> String {
    let insert = results.of_tables(|filled| filled.insert_seconds);
    let of_one_row = results.of_one_row();
    let [ours, identity] = [Key::Made(Contestant::ShardsNextId), Key::Identity];
    let first = |statement, shards| {
        results.first_ids.each(|cost| cost.ms).median(First { statement, shards })
    };
    let [few, many] = DATABASES.map(|(_, shards)| shards);
    let [_, next_id, _, nextval, ..] = STATEMENTS;
    format!(
        "INSERT of many rows takes {} of the time with bigserial, and {} with identity, which is the \
         same code. INSERT of one row takes {} of the CPU time with bigserial, and {} with identity. The \
         first id of a session takes {:.1} ms, and {:.1} ms in a database of {} shards; \
         `nextval` takes {:.1} ms.",
        insert.ratio(ours, Key::Bigserial),
        insert.ratio(identity, Key::Bigserial),
        of_one_row.ratio(ours, Key::Bigserial),
        of_one_row.ratio(identity, Key::Bigserial),
        first(next_id, few),
        first(next_id, many),
        thousands(many as f64),
        first(nextval, few),
    )
}

fn goals_table(results: &Results) -> Table {
    let mut table = Table::new(&["figure", "goal", "target", "measured", "result"]);
    for goal in goals::of(results) {
        table.row([&goal.what, &goal.bound(), &goal.target(), &goal.measured(), goal.verdict()]);
    }
    table
}

fn costs(results: &Results) -> Table {
    let all = format!("kB with {SEQUENCES} sequences");
    let mut table = Table::new(&[
        "",
        "call, ns",
        "ratio to nextval",
        "transaction, µs",
        "ratio to `SELECT 1`",
        "WAL of a million ids, bytes",
        "memory of a session, kB",
        &all,
    ]);
    for maker in results.contestants() {
        let transaction = Transaction::Made(maker);
        table.row([
            maker.name(),
            &format!("{:.0}", results.calls.median(maker)),
            &results.calls.ratio(maker, Contestant::Nextval).to_string(),
            &format!("{:.1}", results.transactions.median(transaction)),
            &results.transactions.ratio(transaction, Transaction::Constant).to_string(),
            &thousands(results.wal.median(maker)),
            &thousands(results.memory.each(|growth| growth.one_sequence_kb).median(maker)),
            &thousands(results.memory.each(|growth| growth.all_sequences_kb).median(maker)),
        ]);
    }
    table.note(&format!(
        "CPU time of a call over {SEQUENCES} sequences in turn, in one statement; of a transaction of {CLIENTS} clients on one \
         sequence. `SELECT 1` takes {:.1} µs. `pg_sequence_last_value`, which also looks up a function, locks a sequence and reads \
         its page, takes {} times as much. Memory is that of a session that has used one sequence, and all. When a statement names \
         a function, PostgreSQL caches all functions of that name: here hundreds of functions `next_id`, which take over half a megabyte.",
        results.transactions.median(Transaction::Constant),
        results.transactions.ratio(Transaction::LastValue, Transaction::Constant),
    ));
    table
}

fn rates(results: &Results) -> Table {
    let loads = |how: &str| {
        results.in_bulk.iter().map(move |(load, _)| format!("{how}: {load}")).collect::<Vec<_>>()
    };
    let columns = [vec![String::new()], loads("in bulk"), loads("one per transaction")].concat();
    let mut table = Table::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    for maker in results.contestants() {
        let in_bulk = results.in_bulk.iter().map(|(_, runs)| {
            let rates = runs.each(|run| run.per_second);
            let ratio = rates.ratio(maker, Contestant::Nextval);
            let rate = format!("{}; {ratio}", thousands(rates.median(maker)));
            with_duplicates(rate, &Kept::of_all(runs.of_one(maker).iter().map(|run| &run.kept)))
        });
        let single =
            results.one_a_transaction.iter().zip(&results.kept).map(|((_, rates), (_, kept))| {
                let [kept] = kept.of_one(maker) else { unreachable!("kept in one round") };
                let ratio = rates.ratio(maker, Contestant::Nextval);
                with_duplicates(format!("{}; {ratio}", thousands(rates.median(maker))), kept)
            });
        table.row([maker.name().to_owned()].into_iter().chain(in_bulk).chain(single));
    }
    for (load, runs) in &results.in_bulk {
        let ns = runs.each(Run::cpu_ns);
        let each = |maker: Contestant| format!("{} {:.0} ns", maker.name(), ns.median(maker));
        let all: Vec<String> = results.contestants().into_iter().map(each).collect();
        table.note(&format!("CPU time of an id in bulk, {load}: {}.", all.join("; ")));
    }
    for (load, runs) in results.in_bulk.iter().filter(|(load, _)| load.sequences == 1) {
        let share = runs.each(|run| run.share_of_limit).spread(Contestant::ShardsNextId);
        table.note(&format!(
            "In bulk, {load}: `insta5.next_id()` reaches {:.3} of the limit of {} ids per second over \
             the time that its ids span ({:.3} in the worst round), and {:.2} with the start and \
             the transfer of the ids.",
            share.median,
            thousands(LIMIT),
            share.lowest,
            runs.each(|run| run.per_second).median(Contestant::ShardsNextId) / LIMIT,
        ));
    }
    table.note(
        "One per transaction: transactions per second by pgbench, and their ratio to `nextval` in the same round. With one session, \
         client and server run in turn on idle cores, and most of the time is spent waking these.",
    );
    table
}

fn tables(results: &Results) -> Table {
    let range = format!("read of the {} greatest keys, ms", thousands(RANGE as f64));
    let columns = ["key", "INSERT, s", "ratio to bigserial", "CPU time of INSERT, s"];
    let sizes = ["table, MB", "index, MB", "read of a row by key, µs", range.as_str()];
    let of_one_row = ["CPU time of INSERT of one row, µs", "ratio to bigserial"];
    let mut table = Table::new(&[&columns[..], &sizes[..], &of_one_row[..]].concat());
    let insert = results.of_tables(|filled| filled.insert_seconds);
    let one_row = results.of_one_row();
    let median =
        |figure: Rounds<Key>, key, decimals: usize| format!("{:.decimals$}", figure.median(key));
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
            &median(results.of_tables(|filled| filled.table_mb), key, 0),
            &median(results.of_tables(|filled| filled.index_mb), key, 0),
            &median(results.of_tables(|filled| filled.point_read_us), key, 2),
            &median(results.of_tables(|filled| filled.range_read_ms), key, 1),
            &format!("{:.1}", one_row.median(key)),
            &one_row.ratio(key, Key::Bigserial).to_string(),
        ]);
    }
    let rate = results.inserts.each(|cost| cost.per_second);
    let [ours, identity] = [Key::Made(Contestant::ShardsNextId), Key::Identity];
    table.note(&format!(
        "INSERT of one row: {CLIENTS} clients, one row per transaction, in a new table. The rate is not listed for each \
         key, because it also depends on the clients, the scheduler, and how many commits share a flush of the WAL. Relative to \
         bigserial it is {} with `insta5.next_id()`, and {} with identity, which is the same code as bigserial.",
        rate.ratio(ours, Key::Bigserial),
        rate.ratio(identity, Key::Bigserial),
    ));
    table
}

fn first_ids(results: &Results) -> Table {
    let of = DATABASES.map(|(_, shards)| thousands(shards as f64));
    let columns = of
        .iter()
        .flat_map(|of| [format!("{of} shards: ms"), "CPU time, ms".into(), "memory, kB".into()]);
    let columns: Vec<String> = ["first statement".into()].into_iter().chain(columns).collect();
    let mut table = Table::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    let [ms, cpu_ms, kb] =
        [|cost: &Cost| cost.ms, |cost: &Cost| cost.cpu_ms, |cost: &Cost| cost.kb]
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
    let mut table =
        Table::new(&["shards called in turn", "next_id(n), ns", "nextval(n), ns", "ratio"]);
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
        table.row(
            columns.iter().enumerate().map(|(column, _)| if column == 0 { "---" } else { "---:" }),
        );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_by_the_median_of_the_ratios() {
        let makers = [Contestant::ShardsNextId, Contestant::Nextval, Contestant::Uuid4];
        let mut turns = 0.0;
        let rounds = Rounds::of("turns", 4, &makers, |maker| {
            turns += 1.0;
            match maker {
                Contestant::Nextval => 2.0,
                Contestant::Uuid4 if turns < 7.0 => 3.0,
                Contestant::Uuid4 => 4.5,
                _ => 4.0,
            }
        });
        let shown =
            [Figure::Cost, Figure::Rate, Figure::Size].map(|figure| better(figure, &rounds));
        let cost = "nextval 0.50 (4 of 4); gen_random_uuid() 0.94 (2 of 4)";
        assert_eq!(shown, [cost, "", "nextval 2; gen_random_uuid() 4"]);
    }
}

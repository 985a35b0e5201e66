//! Compares instagram_id with other ways to generate ids in PostgreSQL, and writes the figures into a page.
//!
//! `instagram_id_bench PAGE` starts a server of the PostgreSQL that `PG_CONFIG` names, which must have the extension
//! installed. It writes its figures between the two marks of this PostgreSQL in the page, and plots beside the page. These
//! variables change what it does:
//!
//! - `ROUNDS` (5) is how often each measurement runs. Quick ones run twice as often, or four times.
//! - `ROWS` (500000) is how many rows are inserted.
//! - `IDS` (512000) is how many ids the sessions of a load generate in bulk.
//! - `LONG=1` measures more loads, 5,000,000 rows and 2,048,000 ids, and the goals of `--goals`.
//! - `FIGURES` is a file into which the main figures are also written.
//! - `BASELINE` is such a file, with whose figures the new ones are compared.
//! - `RIVALS` is a folder with checkouts of other extensions, whose commits are written into the page.
//!
//! `instagram_id_bench --goals` runs only the measurements that have no table in the page, and prints the results
//! compared with the goals; with `TORTURE=1`, on ten times the rows.

mod backfill;
mod calls;
mod contestants;
mod copies;
mod ddl;
mod figures;
mod first_ids;
mod footprint;
mod forms;
mod goals;
mod limit;
mod order;
mod page;
mod plot;
mod ranges;
mod results;
mod rivals;
mod rounds;
mod session;
mod sessions;
mod shards;
mod summary;
mod tables;
mod transactions;
mod waits;

use contestants::Contestant;
use figures::Figures;
use goals::Goal;
use instagram_id_live::{Server, one};
use page::Page;
use results::Results;
use rivals::Rival;

/// Changes to PostgreSQL's defaults, so that neither a checkpoint nor autovacuum runs during a measurement.
const SETTINGS: [(&str, &str); 6] = [
    ("shared_buffers", "1GB"),
    ("max_wal_size", "16GB"),
    ("checkpoint_timeout", "1h"),
    ("autovacuum", "off"),
    ("jit", "off"),
    ("max_locks_per_transaction", "256"),
];

fn main() {
    let page = std::env::args().nth(1).expect("the page to write the figures into, or --goals");
    if page == "--goals" {
        show(&goals_without_a_page());
        return;
    }
    let is_long = std::env::var_os("LONG").is_some_and(|value| value == "1");
    let rounds = number("ROUNDS", 5);
    let rows = number("ROWS", if is_long { 5_000_000 } else { 500_000 }).max(2 * tables::RANGE);
    let ids = number("IDS", if is_long { 2_048_000 } else { 512_000 });
    let rivals = Rival::installed();
    let rivals_settings = rivals::settings(&rivals);
    let settings: Vec<(&str, &str)> =
        SETTINGS.into_iter().chain(rivals_settings.iter().map(|(name, value)| (*name, &value[..]))).collect();
    let server = Server::start(&settings);
    let mut client = server.connect();
    let version: String = one(&mut client, "SHOW server_version");
    let major = version.split('.').next().unwrap().parse().unwrap();
    let page = Page::open(&page, major);
    eprintln!("PostgreSQL {version}: {rounds} rounds, {} of quick measurements", 2 * rounds);
    contestants::set_up(&mut client, &rivals);
    shards::set_up(&server);
    let all = Contestant::all(major, &rivals);
    let loads = sessions::loads(is_long);
    let extension = "SELECT extversion FROM pg_extension WHERE extname = 'instagram_id'";
    let results = Results {
        version,
        rounds,
        extension: one(&mut client, extension),
        major,
        calls: calls::of_makers(&server, 2 * rounds, &all),
        decoders: calls::of_decoders(&server, 2 * rounds),
        transactions: transactions::cpu_time_of_one(&server, 4 * rounds, &all),
        wal: footprint::wal_of_a_million(&server, rounds, &all),
        memory: footprint::memory_of_a_session(&server, rounds, &all),
        first_ids: first_ids::cost(&server, 4 * rounds),
        in_bulk: loads
            .iter()
            .map(|&load| (load, sessions::in_bulk(&server, rounds, &all, load, ids)))
            .collect(),
        one_a_transaction: loads
            .iter()
            .map(|&load| (load, sessions::one_a_transaction(&server, rounds, &all, load, 1)))
            .collect(),
        kept: loads
            .iter()
            .map(|&load| (load, sessions::one_a_transaction_kept(&server, &all, load, 16_384)))
            .collect(),
        shards: shards::cost(&server, 2 * rounds),
        rows,
        tables: tables::filled(&server, rounds, &all, rows),
        explained: forms::explained(&server, rounds, &all),
        by_pgbench: forms::by_pgbench(&server, rounds, &all),
        ranges: forms::ranges(&server, 2 * rounds, rows.min(1_000_000)),
        order: order::of(&settings, &all, &rivals),
        rivals: rivals::describe(&mut client),
        rivals_settings,
    };
    page.write(&results);
    let figures = Figures::of(&results);
    if let Some(file) = std::env::var_os("FIGURES") {
        figures.write(file.as_ref());
    }
    if let Some(file) = std::env::var_os("BASELINE") {
        println!("{}", figures.compared_with(&Figures::read(file.as_ref())));
    }
    let mut goals = goals::of(&results);
    if is_long {
        goals.extend(goals_without_a_page());
    }
    show(&goals);
}

fn goals_without_a_page() -> Vec<Goal> {
    [limit::goals(), waits::goals(), backfill::goals(), copies::goals(), ranges::goals(), ddl::goals()]
        .concat()
}

fn show(goals: &[Goal]) {
    for goal in goals {
        println!("{goal}");
    }
    let missed = goals.iter().filter(|goal| goal.verdict() == "missed").count();
    println!("{} goals, {missed} of them missed", goals.len());
}

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |value| value.parse().expect(variable))
}

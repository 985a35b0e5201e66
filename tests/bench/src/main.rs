//! Compares instagram_id with other ways to generate ids in PostgreSQL, and writes the figures into
//! a page.
//!
//! `instagram_id_bench PAGE` starts a server of the PostgreSQL that `PG_CONFIG` names, which must
//! have the extension installed. It writes its figures between the two marks in the page, and a
//! plot beside the page. These variables change what it does:
//!
//! - `ROUNDS` (5) is how often each measurement runs. Quick ones run twice as often, or four times.
//! - `ROWS` (500000) is how many rows are inserted.
//! - `IDS` (512000) is how many ids the sessions of a load generate in bulk.
//! - `RIVALS` is a folder with checkouts of other extensions, whose commits are written into the
//!   page.
//!
//! `instagram_id_bench --goals` runs only the measurements that are not on the page, and prints the
//! results compared with the goals; with `TORTURE=1`, on ten times the rows.

mod calls;
mod contestants;
mod copies;
mod ddl;
mod first_ids;
mod footprint;
mod goals;
mod limit;
mod order;
mod page;
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
use goals::Goal;
use instagram_id_live::{Server, one};
use page::Page;
use results::Results;
use rivals::Rival;

/// Changes to PostgreSQL's defaults, so that neither a checkpoint nor autovacuum runs during a
/// measurement.
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
    let rounds = number("ROUNDS", 5);
    let rows = number("ROWS", 500_000).max(2 * tables::RANGE);
    let ids = number("IDS", 512_000);
    let rivals = Rival::installed();
    let rivals_settings = rivals::settings(&rivals);
    let settings: Vec<(&str, &str)> = SETTINGS
        .into_iter()
        .chain(rivals_settings.iter().map(|(name, value)| (*name, &value[..])))
        .collect();
    let server = Server::start(&settings);
    let mut client = server.connect();
    let version: String = one(&mut client, "SHOW server_version");
    let major = version.split('.').next().unwrap().parse().unwrap();
    let page = Page::open(&page);
    eprintln!("PostgreSQL {version}: {rounds} rounds, {} of quick measurements", 2 * rounds);
    contestants::set_up(&mut client, &rivals);
    shards::set_up(&server);
    let all = Contestant::all(major, &rivals);
    let extension = "SELECT extversion FROM pg_extension WHERE extname = 'instagram_id'";
    let results = Results {
        version,
        rounds,
        // First, because it fails without git.
        rivals: rivals::describe(&mut client),
        extension: one(&mut client, extension),
        major,
        calls: calls::of_makers(&server, 2 * rounds, &all),
        decoders: calls::of_decoders(&server, 2 * rounds),
        transactions: transactions::cpu_time_of_one(&server, 4 * rounds, &all),
        wal: footprint::wal_of_a_million(&server, rounds, &all),
        memory: footprint::memory_of_a_session(&server, rounds, &all),
        first_ids: first_ids::cost(&server, 4 * rounds),
        in_bulk: sessions::LOADS
            .iter()
            .map(|&load| (load, sessions::in_bulk(&server, rounds, &all, load, ids)))
            .collect(),
        one_a_transaction: sessions::LOADS
            .iter()
            .map(|&load| (load, sessions::one_a_transaction(&server, rounds, &all, load)))
            .collect(),
        kept: sessions::LOADS
            .iter()
            .map(|&load| (load, sessions::one_a_transaction_kept(&server, &all, load, 16_384)))
            .collect(),
        shards: shards::cost(&server, 2 * rounds),
        rows,
        inserts: transactions::of_inserts(&server, 4 * rounds, &all),
        tables: tables::filled(&server, rounds, &all, rows),
        order: order::of(&settings, &all, &rivals),
        rivals_settings,
    };
    page.write(&results);
    show(&goals::of(&results));
}

fn goals_without_a_page() -> Vec<Goal> {
    [limit::goals(), waits::goals(), copies::goals(), ranges::goals(), ddl::goals()].concat()
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

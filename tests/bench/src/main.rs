//! Compares instagram_id with other ways to generate ids in PostgreSQL, and writes the figures into a page.
//!
//! `instagram_id_bench PAGE` starts a server of the PostgreSQL that `PG_CONFIG` names, which must have the extension
//! installed. It writes its figures between the two marks of this PostgreSQL in the page, and a plot beside the page.
//! These variables change the size:
//!
//! - `ROUNDS` (5) is how often each measurement runs. Quick ones run twice as often, single transactions three times as
//!   often, slow ones half as often.
//! - `ROWS` (5000000) is how many rows are inserted.
//! - `IDS` (2048000) is how many ids the sessions of a load generate in bulk.
//!
//! `instagram_id_bench --goals` runs only the measurements that have no table in the page, and prints the results
//! compared with the goals; with `TORTURE=1`, on ten times the rows.

mod backfill;
mod calls;
mod contestants;
mod footprint;
mod goals;
mod limit;
mod page;
mod plot;
mod ranges;
mod results;
mod rounds;
mod session;
mod sessions;
mod shards;
mod tables;
mod waits;

use contestants::Contestant;
use goals::Goal;
use instagram_id_live::{Server, one};
use page::Page;
use results::Results;

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
    let rounds = number("ROUNDS", 5);
    let rows = number("ROWS", 5_000_000).max(2 * tables::RANGE);
    let ids = number("IDS", 2_048_000);
    let long = rounds.div_ceil(2);
    let server = Server::start(&SETTINGS);
    let mut client = server.connect();
    let version: String = one(&mut client, "SHOW server_version");
    let major = version.split('.').next().unwrap().parse().unwrap();
    let page = Page::open(&page, major);
    eprintln!("PostgreSQL {version}: {rounds} rounds, or {long} where one takes long");
    contestants::set_up(&mut client);
    let all = Contestant::all(major);
    let extension = "SELECT extversion FROM pg_extension WHERE extname = 'instagram_id'";
    let results = Results {
        version,
        rounds,
        extension: one(&mut client, extension),
        major,
        calls: calls::of_makers(&server, 2 * rounds, &all),
        decoders: calls::of_decoders(&server, 2 * rounds),
        wal: footprint::wal_of_a_million(&server, rounds, &all),
        memory: footprint::memory_of_a_session(&server, rounds, &all),
        in_bulk: sessions::LOADS.map(|load| (load, sessions::in_bulk(&server, long, &all, load, ids))),
        one_a_transaction: sessions::LOADS
            .map(|load| (load, sessions::one_a_transaction(&server, 3 * rounds, &all, load, 1))),
        kept: sessions::LOADS
            .map(|load| (load, sessions::one_a_transaction_kept(&server, &all, load, 16_384))),
        shards: shards::cost(&server, 2 * rounds),
        rows,
        tables: tables::filled(&server, long, &all, rows),
    };
    page.write(&results);
    show(&[goals::of(&results), goals_without_a_page()].concat());
}

fn goals_without_a_page() -> Vec<Goal> {
    [limit::goals(), waits::goals(), backfill::goals(), ranges::goals()].concat()
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

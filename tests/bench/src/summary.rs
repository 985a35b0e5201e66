//! The plot of the README: what an id of each kind costs, and whether ids repeat.

use crate::contestants::{Contestant, SEQUENCES};
use crate::goals::thousands;
use crate::results::Results;
use crate::rivals::Rival;
use crate::tables::Key;
use crate::transactions::CLIENTS;
use svg::Document;
use svg::node::element::{Description, Group, Rectangle, Text, Title};

/// The contestants in the plot, their names in it, and what their ids contain. Those that were not
/// measured are left out.
const SHOWN: [(Contestant, &str, &str); 8] = [
    (Contestant::Rival(Rival::PgSnowid), "pg_snowid", "time and node, 64 bits"),
    (Contestant::CachedNextval, "sequence, CACHE 50", "no time, shard or order, 64 bits"),
    (Contestant::Rival(Rival::PgxUlidMonotonic), "pgx_ulid, monotonic", "time, 128 bits"),
    (Contestant::ShardsNextId, "instagram_id", "time and shard, 64 bits, 1,024 a ms"),
    (Contestant::Nextval, "sequence (nextval)", "no time, no shard, 64 bits"),
    (Contestant::Rival(Rival::PgEdge), "pgEdge snowflake", "time and node, 64 bits"),
    (Contestant::Uuid7, "uuidv7()", "time, 128 bits"),
    (Contestant::Original, "Instagram's PL/pgSQL", "time and shard, 64 bits"),
];

const WIDTH: usize = 970;
const MARGIN: usize = 24;
const ROW: usize = 44;
const TOP: usize = 98;
/// Where the columns begin: the costs, and the repeated ids.
const COSTS: [usize; 2] = [250, 510];
const REPEATED: usize = 800;
/// The length of the longest bar.
const BAR: f64 = 130.0;
const OURS: &str = "#c13584";
const OTHERS: &str = "#b8bcc4";
const GRAY: &str = "#59636e";

pub fn of(results: &Results) -> String {
    let measured = results.contestants();
    let rows: Vec<(Contestant, &str, &str)> =
        SHOWN.into_iter().filter(|(contestant, ..)| measured.contains(contestant)).collect();
    let height = TOP + rows.len() * ROW + 44;
    let costs = [
        (
            "CPU time of a call, nextval = 1",
            Cost { of: &|maker| results.calls.ratio(maker, Contestant::Nextval).median },
        ),
        ("CPU time of an INSERT, bigserial = 1", Cost { of: &|maker| of_insert(results, maker) }),
    ];
    let mut document = Document::new()
        .set("viewBox", (0, 0, WIDTH, height))
        .set("font-family", "sans-serif")
        .set("font-size", 14)
        .set("fill", "#1f2328")
        .set("role", "img")
        .add(Title::new("The cost of an id"))
        .add(Description::new().add(svg::node::Text::new(description(results, &rows))))
        .add(card(height))
        .add(text(MARGIN, 38, "The cost of an id: shorter is better").set("font-size", 18));
    for (column, (title, cost)) in COSTS.into_iter().zip(costs) {
        document = document
            .add(text(column, TOP - 20, title).set("fill", GRAY))
            .add(bars(column, &rows, &cost));
    }
    document = document.add(text(REPEATED, TOP - 20, "repeated ids").set("fill", GRAY));
    for (row, &(maker, name, holds)) in rows.iter().enumerate() {
        let y = TOP + row * ROW;
        let weight = if maker.is_ours() { "bold" } else { "normal" };
        document = document
            .add(text(MARGIN, y + 14, name).set("font-weight", weight))
            .add(text(MARGIN, y + 31, holds).set("font-size", 12).set("fill", GRAY))
            .add(repeated(results, maker, y + 21));
    }
    let measured = format!(
        "PostgreSQL {}, instagram_id {}; a call over {SEQUENCES} sequences in turn; an INSERT of one row by each of {CLIENTS} clients, \
         with the commit",
        results.major, results.extension,
    );
    document =
        document.add(text(MARGIN, height - 18, &measured).set("font-size", 12).set("fill", GRAY));
    format!("{document}\n")
}

/// The cost of an INSERT of one row with this default, relative to that with bigserial.
fn of_insert(results: &Results, maker: Contestant) -> f64 {
    let key = if maker == Contestant::Nextval { Key::Bigserial } else { Key::Made(maker) };
    results.of_one_row().ratio(key, Key::Bigserial).median
}

/// One of the costs of a contestant.
struct Cost<'a> {
    of: &'a dyn Fn(Contestant) -> f64,
}

fn bars(column: usize, rows: &[(Contestant, &str, &str)], cost: &Cost) -> Group {
    // The original's bar is cut where the others would be too short to compare.
    let values: Vec<(Contestant, f64)> =
        rows.iter().map(|&(maker, ..)| (maker, (cost.of)(maker))).collect();
    let others = values.iter().filter(|(maker, _)| *maker != Contestant::Original);
    let of_others = others.map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
    let shown = values.iter().map(|(_, value)| *value).filter(|value| *value < 2.0 * of_others);
    let longest = shown.fold(of_others, f64::max);
    values.into_iter().enumerate().fold(Group::new(), |group, (row, (maker, value))| {
        let width = (value / longest * BAR).round().clamp(2.0, BAR);
        let y = TOP + row * ROW + 6;
        let cut = if value > longest { " (bar cut)" } else { "" };
        let says = format!("{value:.2}{cut}");
        let bar =
            Rectangle::new().set("x", column).set("y", y).set("width", width).set("height", 20);
        group.add(bar.set("fill", if maker.is_ours() { OURS } else { OTHERS })).add(text(
            column + width as usize + 6,
            y + 15,
            &says,
        ))
    })
}

fn repeated(results: &Results, maker: Contestant, y: usize) -> Text {
    let kept = results.kept(maker);
    match kept.duplicates {
        0 => text(REPEATED, y, "none"),
        some => {
            let says =
                format!("{} of {:.0} million", thousands(some as f64), kept.ids as f64 / 1e6);
            text(REPEATED, y, &says).set("fill", "#b42318").set("font-weight", "bold")
        }
    }
}

/// A light background, which is readable on a page of any color.
fn card(height: usize) -> Rectangle {
    let inside =
        Rectangle::new().set("x", 1).set("y", 1).set("width", WIDTH - 2).set("height", height - 2);
    inside.set("rx", 10).set("fill", "#fff").set("stroke", "#d0d7de")
}

/// The figures in words.
fn description(results: &Results, rows: &[(Contestant, &str, &str)]) -> String {
    let figures = rows.iter().map(|&(maker, name, _)| {
        format!(
            "{name}: a call {:.2}, an INSERT of one row {:.2}, {} repeated ids.",
            results.calls.ratio(maker, Contestant::Nextval).median,
            of_insert(results, maker),
            thousands(results.kept(maker).duplicates as f64),
        )
    });
    figures.collect::<Vec<_>>().join(" ")
}

fn text(x: usize, y: usize, says: &str) -> Text {
    Text::new(says).set("x", x).set("y", y)
}

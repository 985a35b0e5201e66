//! The plot: a panel of bars for each of the main figures.

use crate::contestants::Contestant;
use crate::goals::thousands;
use crate::results::{Results, with_duplicates};
use crate::rounds::Rounds;
use crate::sessions::{Kept, LIMIT};
use crate::tables::{Key, RANGE};
use crate::transactions::{CLIENTS, Transaction};
use svg::Document;
use svg::node::element::{Group, Line, Rectangle, Text};

struct Panel {
    title: String,
    bars: Vec<Bar>,
    /// The value at which a line crosses all bars, and its label.
    mark: Option<(f64, &'static str)>,
}

struct Bar {
    name: &'static str,
    value: f64,
    says: String,
    is_ours: bool,
}

const PANEL: usize = 540;
const NAMES: usize = 180;
const BARS: usize = 230;
const ROW: usize = 27;
const FIRST_ROW: usize = 42;

pub fn of(results: &Results) -> String {
    let mut height = 40;
    let mut drawn = Group::new();
    for pair in panels(results).chunks(2) {
        for (column, panel) in pair.iter().enumerate() {
            drawn =
                drawn.add(draw(panel).set("transform", format!("translate({}, {height})", column * PANEL)));
        }
        let rows = pair.iter().map(|panel| panel.bars.len()).max().unwrap_or(0);
        height += FIRST_ROW + rows * ROW + 40;
    }
    let document = Document::new()
        .set("viewBox", (0, 0, 2 * PANEL, height))
        .set("font-family", "sans-serif")
        .set("font-size", 13)
        .add(Rectangle::new().set("width", 2 * PANEL).set("height", height).set("fill", "white"))
        .add(text(20, 30, &format!("instagram_id on PostgreSQL {}", results.version)).set("font-size", 17))
        .add(drawn);
    format!("{document}\n")
}

fn panels(results: &Results) -> Vec<Panel> {
    let of_makers = |title: &str,
                     figure: &dyn Fn(Contestant) -> f64,
                     says: &dyn Fn(Contestant, f64) -> String| {
        let bar = |maker: Contestant| {
            let value = figure(maker);
            Bar { name: maker.name(), value, says: says(maker, value), is_ours: maker.is_ours() }
        };
        Panel { title: title.into(), bars: results.contestants().into_iter().map(bar).collect(), mark: None }
    };
    let of_keys = |title: &str, figure: Rounds<Key>, unit: &str| Panel {
        title: title.into(),
        bars: figure
            .contestants()
            .map(|key| {
                let fails = results.failure_of(key).is_some();
                let value = figure.median(key);
                let says = if fails { "fails: repeats keys".into() } else { format!("{value:.1} {unit}") };
                let is_ours = matches!(key, Key::Made(maker) if maker.is_ours());
                Bar { name: key.name(), value: if fails { 0.0 } else { value }, says, is_ours }
            })
            .collect(),
        mark: None,
    };
    let bulk = results.in_bulk(8, 1);
    let mut in_bulk = of_makers(
        "Ids per second in bulk: 8 sessions, one sequence",
        &|maker| bulk.each(|run| run.per_second).median(maker),
        &|maker, rate| {
            let kept = Kept::of_all(bulk.of_one(maker).iter().map(|run| &run.kept));
            with_duplicates(thousands(rate), &kept)
        },
    );
    in_bulk.mark = Some((LIMIT, "the format's limit"));
    let rows = thousands(results.rows as f64);
    vec![
        of_makers("CPU time of a call", &|maker| results.calls.median(maker), &|_, ns| format!("{ns:.0} ns")),
        of_makers(
            &format!("CPU time of a transaction with one id: {CLIENTS} clients"),
            &|maker| results.transactions.median(Transaction::Made(maker)),
            &|_, us| format!("{us:.1} µs"),
        ),
        in_bulk,
        of_keys(&format!("INSERT of {rows} rows"), results.of_tables(|filled| filled.insert_seconds), "s"),
        of_keys(
            &format!("Reading the {} greatest keys' rows", thousands(RANGE as f64)),
            results.of_tables(|filled| filled.range_read_ms),
            "ms",
        ),
        of_keys("Their primary key's index", results.of_tables(|filled| filled.index_mb), "MB"),
    ]
}

fn draw(panel: &Panel) -> Group {
    let longest = panel.bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let width = |value: f64| (value / longest * BARS as f64).round();
    let row_of = |row: usize| FIRST_ROW + row * ROW;
    let mut group = Group::new().add(text(20, 28, &panel.title).set("font-weight", "bold"));
    for (row, bar) in panel.bars.iter().enumerate() {
        let rectangle = Rectangle::new()
            .set("x", NAMES)
            .set("y", row_of(row))
            .set("width", width(bar.value).max(1.0))
            .set("height", ROW - 8)
            .set("fill", if bar.is_ours { "#c13584" } else { "#b8bcc4" });
        let name = text(NAMES - 8, row_of(row) + 14, bar.name).set("text-anchor", "end");
        group = group.add(name).add(rectangle);
    }
    if let Some((value, says)) = panel.mark.filter(|(value, _)| *value <= longest) {
        let (x, bottom) = (NAMES + width(value) as usize, row_of(panel.bars.len()));
        let line =
            Line::new().set("x1", x).set("x2", x).set("y1", 38).set("y2", bottom).set("stroke", "#405de6");
        group = group.add(line.set("stroke-dasharray", "4 3"));
        group = group.add(text(x, bottom + 12, says).set("text-anchor", "middle").set("fill", "#405de6"));
    }
    // Each value is drawn above a white edge, which interrupts the line behind it.
    panel.bars.iter().enumerate().fold(group, |group, (row, bar)| {
        let says = text(NAMES + width(bar.value) as usize + 5, row_of(row) + 14, &bar.says);
        group.add(says.clone().set("stroke", "white").set("stroke-width", 6)).add(says)
    })
}

fn text(x: usize, y: usize, says: &str) -> Text {
    Text::new(says).set("x", x).set("y", y)
}

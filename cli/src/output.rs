//! Output of the command: lines of text, with a progress bar on a terminal, or one JSON object per
//! line.

use crate::error::Error;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Interval between changes of the bar on a terminal, and between lines of progress elsewhere.
const EVERY: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];

/// Progress of the copy.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Progress {
    pub tables: i64,
    pub tables_copied: i64,
    /// Rows copied so far into tables that are not complete.
    pub rows: i64,
    /// Size of the tables on the source, in bytes.
    #[serde(default)]
    pub bytes: i64,
    /// Size of the tables on the target, in bytes.
    #[serde(default)]
    pub bytes_copied: i64,
    /// WAL that the target has not confirmed, in bytes.
    pub lag_bytes: Option<i64>,
}

impl Progress {
    pub fn has_all_tables(&self) -> bool {
        self.tables_copied == self.tables
    }
}

/// An event of a command, as `--json` prints it.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event<'a> {
    Step {
        message: &'a str,
    },
    Progress(&'a Progress),
    Moved {
        shard: u16,
        server: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        stopped_ms: Option<u128>,
    },
    Warning {
        message: &'a str,
    },
    Error {
        message: String,
        status: u8,
    },
}

pub struct Output {
    is_json: bool,
    /// The shard of one of several moves, whose steps and progress are not printed as text.
    shard: Option<u16>,
    is_terminal: bool,
    bar: RefCell<Option<ProgressBar>>,
    shown: Cell<Option<Instant>>,
}

impl Output {
    pub fn new(is_json: bool) -> Output {
        let is_terminal = std::io::stdout().is_terminal() && !is_json;
        Output {
            is_json,
            shard: None,
            is_terminal,
            bar: RefCell::default(),
            shown: Cell::default(),
        }
    }

    /// The output of one of several moves.
    pub fn of_move(is_json: bool, shard: u16) -> Output {
        Output { shard: Some(shard), is_terminal: false, ..Output::new(is_json) }
    }

    fn prefix(&self) -> String {
        self.shard.map(|shard| format!("    {shard}: ")).unwrap_or_default()
    }

    pub fn is_json(&self) -> bool {
        self.is_json
    }

    /// Reports the step that begins, or a result.
    pub fn step(&self, message: impl AsRef<str>) {
        let message = message.as_ref();
        if self.is_json {
            self.object(&Event::Step { message });
        } else if self.shard.is_none() {
            self.text(&format!("==> {}", printable(message)));
        }
    }

    pub fn moved(&self, shard: u16, server: &str, stopped: Option<Duration>) {
        let stopped_ms = stopped.map(|time| time.as_millis());
        if self.is_json {
            return self.object(&Event::Moved { shard, server, stopped_ms });
        }
        let stopped = stopped_ms.map(|ms| format!("writes were stopped for {ms} ms"));
        match (self.shard, stopped) {
            (Some(_), Some(stopped)) => self.text(&format!("{}{stopped}", self.prefix())),
            (_, Some(stopped)) => self.step(format!("Shard {shard} is on {server}; its {stopped}")),
            (_, None) => self.step(format!("Shard {shard} is on {server}")),
        }
    }

    /// Reports a problem that the user may want to fix while the command continues.
    pub fn warn(&self, message: &str) {
        if self.is_json {
            self.object(&Event::Warning { message });
        } else {
            let prefix = self.prefix();
            let _ = writeln!(std::io::stderr(), "{prefix}warning: {}", printable(message));
        }
    }

    pub fn error(&self, error: &Error) {
        self.end_progress();
        if self.is_json {
            self.object(&Event::Error {
                message: error.lines().join("\n"),
                status: error.status(),
            });
        } else {
            let lines: Vec<_> = error.lines().iter().map(|line| printable(line)).collect();
            let prefix = self.prefix();
            let lines = lines.join(&format!("\n{prefix}"));
            let _ = writeln!(std::io::stderr(), "{prefix}error: {lines}");
        }
    }

    /// Whether it is time to report progress, whose sizes are read only for this.
    pub fn wants_progress(&self) -> bool {
        let every = EVERY[usize::from(!self.is_terminal)];
        self.prints_progress() && self.shown.get().is_none_or(|shown| shown.elapsed() >= every)
    }

    fn prints_progress(&self) -> bool {
        self.is_json || self.shard.is_none()
    }

    pub fn progress(&self, progress: &Progress) {
        self.shown.set(Some(Instant::now()));
        if self.is_terminal {
            let mut bar = self.bar.borrow_mut();
            let bar = bar.get_or_insert_with(new_bar);
            bar.set_length(progress.bytes.max(progress.bytes_copied).max(1) as u64);
            bar.set_position(progress.bytes_copied as u64);
            let Progress { tables, tables_copied, .. } = progress;
            bar.set_message(format!(
                "{tables_copied} of {tables} tables; {} of WAL pending",
                lag(progress)
            ));
        } else {
            self.progress_line(progress);
        }
    }

    /// Reports the final progress of a copy, which is always printed.
    pub fn copied(&self, progress: &Progress) {
        self.end_progress();
        self.progress_line(progress);
    }

    fn progress_line(&self, progress: &Progress) {
        if self.is_json {
            self.object(&Event::Progress(progress));
        } else if self.prints_progress() {
            self.text(&format!("    {}", summary(progress)));
        }
    }

    fn end_progress(&self) {
        self.shown.set(None);
        if let Some(bar) = self.bar.borrow_mut().take() {
            bar.finish_and_clear();
        }
    }

    /// Prints a line of text. Ignores errors, because a closed pipe must not interrupt a move.
    pub fn text(&self, line: &str) {
        match &*self.bar.borrow() {
            Some(bar) => bar.suspend(|| drop(writeln!(std::io::stdout(), "{line}"))),
            None => drop(writeln!(std::io::stdout(), "{line}")),
        }
    }

    /// Prints rows with a header, each column as wide as its longest value.
    pub fn table<const N: usize>(&self, rows: &[[String; N]]) {
        let rows: Vec<_> =
            rows.iter().map(|row| row.each_ref().map(|value| printable(value))).collect();
        let width =
            |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<_> = (0..N).map(width).collect();
        for row in &rows {
            let cells = row.iter().zip(&widths).map(|(value, width)| format!("{value:<width$}"));
            self.text(cells.collect::<Vec<_>>().join("  ").trim_end());
        }
    }

    pub fn object(&self, object: &impl Serialize) {
        let mut text = serde_json::to_string(object).expect("texts and numbers");
        if let Some(shard) = self.shard {
            let mut object = serde_json::to_value(object).expect("texts and numbers");
            object["shard"] = shard.into();
            text = object.to_string();
        }
        self.text(&text);
    }
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
    let template = "    {bar:20} {decimal_bytes} of {decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left; {msg}";
    bar.with_style(ProgressStyle::with_template(template).expect("a template of indicatif"))
}

/// One line of progress.
pub fn summary(progress: &Progress) -> String {
    format!(
        "{} of {} tables copied, {} of {}, {} rows in tables being copied; {} of WAL pending",
        progress.tables_copied,
        progress.tables,
        size(progress.bytes_copied),
        size(progress.bytes),
        progress.rows,
        lag(progress),
    )
}

fn lag(progress: &Progress) -> String {
    progress.lag_bytes.map_or("an unknown amount".into(), size)
}

pub fn size(bytes: i64) -> String {
    match bytes as f64 {
        kilo if kilo < 1e6 => format!("{} kB", bytes / 1000),
        mega if mega < 1e9 => format!("{:.1} MB", mega / 1e6),
        giga => format!("{:.1} GB", giga / 1e9),
    }
}

/// Replaces control characters, which a terminal would interpret. Names can contain any character.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_not_printed() {
        assert_eq!(printable("a\n\x1b[2Jü\u{9b}"), "a??[2Jü?");
    }

    #[test]
    fn sizes() {
        assert_eq!(
            [0, 999_999, 1_500_000, 2_000_000_000].map(size),
            ["0 kB", "999 kB", "1.5 MB", "2.0 GB"]
        );
    }
}

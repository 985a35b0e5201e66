//! From an entry of the table to the error that PostgreSQL reports.

use crate::error::Error;
use pgrx::pg_sys::panic::{ErrorReport, ErrorReportWithLevel};
use pgrx::{PgLogLevel, PgSqlErrorCode as SqlState};

/// The longest message, DETAIL or HINT in bytes. Each name in them is short, but there can be many.
pub const PART_MAX: usize = 4096;

impl Error {
    /// SQLSTATE, message, DETAIL and HINT, each text cut off at its maximum.
    pub fn texts(&self) -> (SqlState, [String; 3]) {
        let (state, detail, hint) = self.parts();
        let texts = [self.to_string(), detail, hint];
        (
            state,
            texts.map(|text| if text.len() > PART_MAX { cut_off(&text, PART_MAX) } else { text }),
        )
    }

    /// The cause: the DETAIL, or the message of an error without one.
    pub fn reason(&self) -> String {
        let (_, [message, detail, _]) = self.texts();
        if detail.is_empty() { message } else { detail }
    }

    /// Reports a WARNING.
    #[track_caller]
    pub fn warn(self) {
        ErrorReport::from(self).report(PgLogLevel::WARNING);
    }

    /// Reports a NOTICE.
    #[track_caller]
    pub fn notice(self) {
        ErrorReport::from(self).report(PgLogLevel::NOTICE);
    }

    /// Message, DETAIL and HINT in one line.
    pub fn in_one_line(&self) -> String {
        let (_, [message, detail, hint]) = self.texts();
        one_line(&message, Some(&detail), Some(&hint))
    }
}

/// The same for an error of PostgreSQL.
pub fn report_in_one_line(report: &ErrorReportWithLevel) -> String {
    one_line(report.message(), report.detail(), report.hint())
}

/// The parts of an error in one line. A name in them can contain a line break.
fn one_line(message: &str, detail: Option<&str>, hint: Option<&str>) -> String {
    // Only the message ends without a period.
    let sentences = [detail, hint].into_iter().flatten().filter(|sentence| !sentence.is_empty());
    let rest = sentences.map(|sentence| format!(" {sentence}")).collect::<String>();
    let period = if rest.is_empty() { "" } else { "." };
    format!("{message}{period}{rest}").replace(['\n', '\r'], " ")
}

impl From<Error> for ErrorReport {
    #[cold]
    #[track_caller]
    fn from(error: Error) -> ErrorReport {
        let (state, [message, detail, hint]) = error.texts();
        let mut report = ErrorReport::new(state, message, "instagram_id");
        if !detail.is_empty() {
            report = report.set_detail(detail);
        }
        if !hint.is_empty() {
            report = report.set_hint(hint);
        }
        report
    }
}

/// Returns the value of `f`, or raises its error. For SQL functions that are called for every row.
///
/// pgrx also raises the error of a function that returns a `Result`. But then an `ErrorReport`, or
/// the space for one, is returned by value, which makes `next_id` measurably slower
/// (docs/inside/performance.md).
#[track_caller]
pub fn or_raise<T>(f: impl FnOnce() -> Result<T, Error>) -> T {
    match f() {
        Ok(value) => value,
        Err(error) => raise(error),
    }
}

#[cold]
#[track_caller]
fn raise(error: Error) -> ! {
    ErrorReport::from(error).report(PgLogLevel::ERROR);
    unreachable!("an error does not return")
}

/// A text of any length and content, shortened for a message.
pub fn shortened(text: &str) -> String {
    shown(text, 60)
}

/// A text of any content for a message: at most this many characters, in one line. Control
/// characters are escaped, because they could make one message look like several, or control the
/// terminal that shows it.
pub fn shown(text: &str, len: usize) -> String {
    let mut shown = String::new();
    let mut chars = text.chars();
    for char in chars.by_ref().take(len) {
        if char.is_control() {
            shown.extend(char.escape_default());
        } else {
            shown.push(char);
        }
    }
    if chars.next().is_some() { shown + "..." } else { shown }
}

/// A list for a message: the first items of it, and how many more there are.
pub fn listed<T: AsRef<str>>(items: &[T], separator: &str) -> String {
    const LEN: usize = 10;
    let mut list = items.iter().take(LEN).map(AsRef::as_ref).collect::<Vec<_>>().join(separator);
    if items.len() > LEN {
        list += &format!("{separator}and {} more", items.len() - LEN);
    }
    list
}

/// At most this many bytes of a text, and dots.
fn cut_off(text: &str, bytes: usize) -> String {
    format!("{}...", &text[..text.floor_char_boundary(bytes)])
}

//! Parts of messages.

/// A text as a literal of SQL, as PostgreSQL's `quote_literal` writes it.
pub fn literal(text: &str) -> String {
    let escape = if text.contains('\\') { "E" } else { "" };
    format!("{escape}'{}'", text.replace('\\', r"\\").replace('\'', "''"))
}

/// The privilege that a call needs on a sequence.
pub fn right(update: bool) -> &'static str {
    if update { "UPDATE" } else { "USAGE" }
}

/// An answer of another server as a sentence.
pub fn sentence(text: &str) -> String {
    let text = text.trim();
    format!("{text}{}", if text.ends_with('.') { "" } else { "." })
}

//! Parts of messages.

use instagram_id_core::layout::SHARD_MAX;

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

/// The hint for an argument of this name that must not be NULL.
pub fn null_hint(argument: &str) -> String {
    match argument {
        "shard" => return format!("Pass a shard from 0 to {SHARD_MAX}."),
        "sequence" => {
            "Pass a sequence, or use next_id(shard), which uses the sequence of the shard."
        }
        "count" => "Pass a count of 1 or more.",
        "id" => "Pass the id that the next id must exceed.",
        "table" => "Pass the name of a table.",
        "schema" => "Pass the name of a schema.",
        "before" => "Pass the time up to which partitions are dropped.",
        "for_group" | "attempt" | "floor" => "Only next_id() on another node calls this function.",
        _ => "Pass a value, or omit the argument to use its default.",
    }
    .into()
}

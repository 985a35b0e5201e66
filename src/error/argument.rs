//! The names of arguments, and the hints for those that must not be NULL.

use instagram_id_core::layout::SHARD_MAX;
use std::fmt::{self, Display};

/// An argument that must not be NULL.
#[derive(Clone, Copy, Debug)]
pub enum Argument {
    Shard,
    Sequence,
    Epoch,
    Count,
    Id,
    IfNotExists,
    DryRun,
    Recover,
    Table,
    Schema,
    Every,
    Ahead,
    Before,
    Detach,
    Group,
    Attempt,
    Floor,
}

impl Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Argument::Shard => "shard",
            Argument::Sequence => "sequence",
            Argument::Epoch => "epoch",
            Argument::Count => "count",
            Argument::Id => "id",
            Argument::IfNotExists => "if_not_exists",
            Argument::DryRun => "dry_run",
            Argument::Recover => "recover",
            Argument::Table => "table",
            Argument::Schema => "schema",
            Argument::Every => "every",
            Argument::Ahead => "ahead",
            Argument::Before => "before",
            Argument::Detach => "detach",
            Argument::Group => "for_group",
            Argument::Attempt => "attempt",
            Argument::Floor => "floor",
        })
    }
}

impl Argument {
    /// The hint for a NULL.
    pub fn hint(self) -> String {
        match self {
            Argument::Shard => return format!("Pass a shard from 0 to {SHARD_MAX}."),
            Argument::Sequence => {
                "Pass a sequence, or use next_id(shard), which uses the sequence of the shard."
            }
            Argument::Count => "Pass a count of 1 or more.",
            Argument::Id => "Pass the id that the next id must exceed.",
            Argument::Table => "Pass the name of a table.",
            Argument::Schema => "Pass the name of a schema.",
            Argument::Before => "Pass the time up to which partitions are dropped.",
            Argument::Group | Argument::Attempt | Argument::Floor => {
                "Only next_id() on another node calls this function."
            }
            Argument::Epoch
            | Argument::IfNotExists
            | Argument::DryRun
            | Argument::Recover
            | Argument::Every
            | Argument::Ahead
            | Argument::Detach => "Pass a value, or omit the argument to use its default.",
        }
        .into()
    }
}

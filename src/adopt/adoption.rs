//! An adoption: the original, and the shard that it becomes. [`original`](crate::adopt::original)
//! reads it, [`check`](crate::adopt::check) checks it, and [`carry_out`](crate::adopt::carry_out)
//! replaces the function.

use crate::adopt::adopted::{self, KEPT};
use crate::error::Error;
use crate::pg::catalog::{self, Function};
use crate::pg::names;
use crate::sequence::IdSequence;
use crate::sequence::check::is_closed_to_nextval;
use crate::shard::columns::{Callers, Column};
use crate::shard::ddl::ShardParts;
use crate::shard::definition::Definition;
use pgrx::pg_sys::Oid;

/// The original in a schema, and the shard that it becomes.
pub struct Adoption {
    pub function: Function,
    /// The function's body when it was read.
    pub source: Option<String>,
    pub parts: ShardParts,
    pub sequence: IdSequence,
    /// Name and owner of the sequence when it was read.
    pub sequence_was: Option<(String, Oid)>,
    pub columns: Vec<Column>,
    /// Which defaults were read for these.
    pub callers: Callers,
    /// The shard, if it exists already: then the function was replaced after an adoption, or is
    /// another function of the shard.
    pub existing: Option<Definition>,
    pub shard_from: KnownFrom,
    pub epoch_from: KnownFrom,
}

/// Where a constant of the original was found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum KnownFrom {
    /// In the body, and perhaps in an argument that agrees.
    Body,
    /// Only in an argument of the caller.
    Caller,
}

impl Adoption {
    /// The columns that the function fills.
    pub fn columns_filled(&self) -> Vec<Column> {
        self.callers.columns_of(self.function.oid)
    }

    /// Whether the function still has the name, body and tables that were read, and the sequence
    /// its name. The statements of an adoption name them.
    pub fn is_unchanged(&self) -> bool {
        let has_name = |now: Function| {
            now.name == self.function.name
                && now.schema == self.function.schema
                && names::raw_schema(now.schema) == self.parts.schema
                && now.owner == self.function.owner
        };
        catalog::function(self.function.oid).is_some_and(has_name)
            && catalog::source(self.function.oid, catalog::TEXT_MAX) == self.source
            && named(self.sequence.oid) == self.sequence_was
            && self.columns_filled() == self.columns
    }

    /// The clock of the shard's own functions.
    pub fn sequence_of_shard(&self) -> IdSequence {
        self.existing.as_ref().map_or(self.sequence, |existing| existing.sequence)
    }

    pub fn kept_name(&self) -> String {
        format!("{KEPT}{}", self.function.name)
    }

    /// The original kept by an earlier adoption of the function, which this one replaces. It
    /// generates no ids any more, since its sequence is closed to `nextval()`: the one that its
    /// body names, or else that of the same body. This has to be the sequence of the adoption,
    /// since nothing else shows which other one to open again. Any other function of this name is
    /// the user's own.
    pub fn kept_before(&self) -> Option<Function> {
        let kept = catalog::function_in(self.function.schema, &self.kept_name(), &[])?;
        let original = adopted::read_original(&kept).ok()?;
        let is_same = || catalog::source(kept.oid, catalog::TEXT_MAX) == self.source;
        let shown = adopted::sequence_shown(&original);
        let sequence = shown.or_else(|| is_same().then_some(self.sequence.oid))?;
        let is_kept = kept.owner == self.function.owner
            && sequence == self.sequence.oid
            && adopted::may_be_of(&original, self.parts.shard)
            && is_closed_to_nextval(sequence);
        is_kept.then_some(kept)
    }
}

/// The error for a function that another session has changed or dropped, with the name that it had.
pub fn changed_meanwhile(function: &Function) -> Error {
    Error::OriginalChanged(names::function_in(function.schema, &function.name, ""))
}

/// Name and owner of a sequence, if it exists.
pub fn named(sequence: Oid) -> Option<(String, Oid)> {
    catalog::relation(sequence).map(|relation| (names::relation(sequence), relation.owner))
}

//! An adoption: the original, and the shard that it becomes. [`original`](crate::adopt::original)
//! reads it, [`check`](crate::adopt::check) checks it, and [`carry_out`](crate::adopt::carry_out)
//! replaces the function.

use crate::adopt::adopted::{self, KEPT};
use crate::adopt::writers::in_order_of_tables;
use crate::pg::catalog::{self, Function};
use crate::pg::names;
use crate::pg::spi::select;
use crate::sequence::IdSequence;
use crate::sequence::check::is_closed_to_nextval;
use crate::shard::columns::{self, Callers, Column, Owners, TABLES};
use crate::shard::ddl::{self, ShardParts};
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
    /// The columns that the function fills, and those that an earlier adoption has given ids of the
    /// shard from the same sequence: by a function of its owner, by the number of the shard, or by
    /// a trigger. Of the latter, those of owners who may set the sequence anyway: any role that can
    /// create tables in the schema can name the number.
    pub fn columns_with_its_ids(&self) -> Vec<Column> {
        let mut columns = self.callers.columns_of(self.function.oid);
        let is_of_shard = |function: &Function| {
            let (own_schema, shard) = (self.parts.own_schema, self.parts.shard);
            ddl::makes_ids_of(function, own_schema, shard, self.sequence)
        };
        let mut functions = functions_on(self.sequence.oid, self.parts.owner);
        functions.retain(is_of_shard);
        if let Some(existing) = &self.existing {
            functions.extend(adopted::originals_on(existing, self.sequence.oid));
        }
        columns.extend(functions.iter().flat_map(|one| self.callers.columns_of(one.oid)));
        if let Some(existing) = &self.existing
            && existing.sequence == self.sequence
        {
            let (own_schema, owners) = (self.parts.own_schema, Owners::WithUpdate);
            columns.extend(columns::columns_by_number(TABLES, existing, own_schema, owners));
        }
        in_order_of_tables(columns)
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
            && self.columns_with_its_ids() == self.columns
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

/// The functions with a parsed body that name the sequence, and may belong to a shard of this
/// owner.
fn functions_on(sequence: Oid, owner: Oid) -> Vec<Function> {
    let query = "SELECT p.oid FROM pg_depend AS d JOIN pg_proc AS p ON p.oid = d.objid
         WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = $1
         AND p.prosqlbody IS NOT NULL AND pg_has_role(p.proowner, $2, 'USAGE') ORDER BY 1";
    select(query, &[sequence.into(), owner.into()], |row| catalog::function(row.get(1)?))
}

/// Name and owner of a sequence, if it exists.
pub fn named(sequence: Oid) -> Option<(String, Oid)> {
    catalog::relation(sequence).map(|relation| (names::relation(sequence), relation.owner))
}

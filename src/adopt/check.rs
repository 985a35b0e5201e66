//! The second part of an adoption: checks all that can be checked before the locks are taken.

use crate::adopt::adopted::{self, KEPT};
use crate::adopt::adoption::{Adoption, KnownFrom};
use crate::adopt::other_user::{self, User};
use crate::adopt::rights;
use crate::adopt::writers::{check_may_lock, check_not_reset, check_tables_of_others, newest_key};
use crate::error::Error;
use crate::pg::catalog::{self, Function};
use crate::pg::names;
use crate::pg::roles;
use crate::sequence::IdSequence;
use crate::sequence::check::{check_not_closed, check_not_ended, is_closed_to_nextval};
use crate::sequence::placement;
use crate::shard::columns::{self, Column, KEY_AHEAD_MAX_MS, check_not_ahead, columns_of_owners};
use crate::shard::ddl::{self, ShardParts};
use crate::shard::definition::Definition;
use crate::shard::trust::{self, Trust};
use instagram_id_core::hlc::FIRST_DAY_MS;
use instagram_id_core::layout;
use pgrx::pg_sys::{self, Oid};

/// An epoch that only the caller gives is accepted if, counted from it, the newest id is at most an
/// hour old or a minute ahead. A wrong time zone would shift the time by an hour or more.
const CLAIM_AGE_MAX_MS: i64 = 3_600_000;

const CLAIM_AHEAD_MAX_MS: i64 = 60_000;

impl Adoption {
    /// Checks that the caller trusts the owner of the shard, and that the function's owner may
    /// create it or, if it exists, has the rights of its owner.
    pub fn check_rights(&self, trust: Trust) -> Result<(), Error> {
        // First, because the hints of the other errors are for an owner that is trusted.
        self.check_trust(trust)?;
        if catalog::is_temporary_schema(self.function.schema) {
            let name = names::function(self.function.oid);
            return Err(Error::OriginalTemporary { kind: "function", name });
        }
        let Some(existing) = &self.existing else {
            return roles::check_may_create_in(self.function.schema, self.function.owner);
        };
        let definition = names::function(existing.function);
        if existing.schema == self.function.schema {
            let may_change = catalog::has_rights_of(self.function.owner, existing.owner);
            return if may_change { Ok(()) } else { Err(Error::NotOwner(definition)) };
        }
        let shard = self.parts.shard.number();
        if !catalog::has_rights_of(existing.owner, self.function.owner) {
            let (function, owner) = (definition, names::role(existing.owner));
            return Err(Error::ShardOfAnother { shard, function, owner, schema: None });
        }
        let (schema, function) =
            (names::schema(existing.schema), names::function(self.function.oid));
        Err(Error::ShardElsewhere { shard, schema, function })
    }

    /// Checks that the function can become the shard's.
    pub fn check(&self) -> Result<(), Error> {
        // Its ids would be generated on the node that stores its tables, which may be another one.
        if placement::is_distributed(self.function.schema) {
            let name = names::schema(self.function.schema);
            return Err(Error::SchemaDistributed { name });
        }
        if let Some(existing) = &self.existing {
            self.check_not_kept(existing)?;
            self.check_existing(existing)?;
        }
        self.check_kept_name()?;
        self.check_sequence()?;
        self.check_clock()?;
        check_tables_of_others(&self.function, &self.columns)?;
        self.parts.missing_functions_beside(
            &self.function.name,
            self.function.schema,
            self.sequence_of_shard(),
        )?;
        check_may_lock(&self.columns)?;
        rights::check_owner_can_create(&self.function, self.sequence.oid, self.parts.own_schema)?;
        roles::check_may_set(self.sequence.oid)?;
        rights::check_callers(&self.function, self.sequence.oid, self.parts.own_schema)
    }

    /// Checks that the function may generate ids of a shard that exists already in its schema.
    fn check_existing(&self, existing: &Definition) -> Result<(), Error> {
        let (function, shard) = (names::function(self.function.oid), self.parts.shard.number());
        let epoch = |sequence: IdSequence| names::time(sequence.epoch.at());
        let sequence = |sequence: IdSequence| names::relation(sequence.oid);
        let differs = |what, show: &dyn Fn(IdSequence) -> String| {
            let (read, is) = (show(self.sequence), show(existing.sequence));
            Err(Error::AdoptionDiffers { function: function.clone(), what, read, shard, is })
        };
        if self.sequence.epoch != existing.sequence.epoch {
            return differs("epoch", &epoch);
        }
        if self.sequence.oid != existing.sequence.oid && self.function.name == "next_id" {
            return differs("sequence", &sequence);
        }
        Ok(())
    }

    /// Checks that no move has closed the sequences, which must not be opened here, whether or not
    /// the shard is still defined, and that the sequence was not reset if it is a clock already.
    pub fn check_clock(&self) -> Result<(), Error> {
        check_not_ended(self.sequence.oid)?;
        self.existing
            .as_ref()
            .map_or(Ok(()), |existing| check_not_closed(existing.sequence.oid))?;
        self.check_not_reset()
    }

    /// Checks that the sequence was not reset, if it is a clock already.
    fn check_not_reset(&self) -> Result<(), Error> {
        let is_of_shard = |existing: &Definition| existing.sequence == self.sequence;
        let is_clock = self.existing.as_ref().is_some_and(is_of_shard)
            || is_closed_to_nextval(self.sequence.oid);
        if is_clock { check_not_reset(self.sequence) } else { Ok(()) }
    }

    /// Checks that the function is not itself the kept original of an adopted function, which
    /// `unadopt_shard()` then could not restore. Another function of such a name has an open
    /// sequence, from which nothing else generates ids of the shard.
    fn check_not_kept(&self, existing: &Definition) -> Result<(), Error> {
        let (schema, own_schema) = (existing.schema, self.parts.own_schema);
        if !self.function.name.starts_with(KEPT) {
            return Ok(());
        }
        let is_adopted = adopted::kept_of(&self.function).is_some_and(|function| {
            ddl::makes_ids_of(&function, own_schema, existing.shard, self.sequence)
        });
        if !is_adopted && !is_closed_to_nextval(self.sequence.oid) {
            return Ok(());
        }
        adopted::functions(existing, own_schema)?;
        let (shard, schema) = (existing.shard.number(), names::schema(schema));
        Err(Error::AdoptedAlready { shard, schema, is_adopted: true })
    }

    /// Checks that the original can be kept under another name.
    pub fn check_kept_name(&self) -> Result<(), Error> {
        let kept = self.kept_name();
        if kept.len() >= pg_sys::NAMEDATALEN as usize {
            return Err(Error::NameTooLong(kept));
        }
        if let Some(taken) = catalog::function_in(self.function.schema, &kept, &[])
            && self.kept_before().is_none()
        {
            let (function, shard) = (names::function(taken.oid), self.parts.shard.number());
            let is_own = taken.owner == self.function.owner;
            return Err(match adopted::closed_sequence_of(&taken).filter(|_| is_own) {
                Some(sequence) => {
                    Error::KeptElsewhere { function, sequence: names::relation(sequence) }
                }
                None => Error::FunctionExists { function, shard },
            });
        }
        Ok(())
    }

    /// Checks that the sequence is an ordinary one of the owner's, which serves nothing else.
    fn check_sequence(&self) -> Result<(), Error> {
        let sequence = self.sequence.oid;
        let relation = catalog::relation(sequence).ok_or(Error::SequenceMissing(sequence))?;
        let name = || names::relation(sequence);
        if !relation.is_sequence {
            return Err(Error::NotSequence(name()));
        }
        if relation.is_temporary {
            return Err(Error::OriginalTemporary { kind: "sequence", name: name() });
        }
        // The owner of the function must be able to change the sequence. No other role may move it.
        if !catalog::has_rights_of(self.function.owner, relation.owner)
            || !trust::is_of_shard(relation.owner, self.parts.owner)
        {
            return Err(Error::SequenceOfAnother {
                name: name(),
                function: names::function(self.function.oid),
            });
        }
        // PostgreSQL cannot separate it from the column.
        if let Some((column, true)) = columns::column_owning(sequence) {
            let other = User::Column(column).to_string();
            return Err(Error::SequenceShared { name: name(), other });
        }
        self.check_other_user(sequence)
    }

    /// Checks that no default, shard or function uses the sequence but the original, the one kept
    /// by an earlier adoption, and functions of the shard.
    fn check_other_user(&self, sequence: Oid) -> Result<(), Error> {
        let ShardParts { shard, own_schema, .. } = self.parts;
        let definition = self.existing.as_ref().map(|existing| existing.function);
        // Read once: other roles decide how many functions there are to look at.
        let kept = self.kept_before().map(|kept| kept.oid);
        let ours = [Some(self.function.oid), definition, kept];
        let is_ours = |function: &Function| {
            ours.contains(&Some(function.oid))
                || ddl::makes_ids_of(function, own_schema, shard, self.sequence)
        };
        let user = other_user::find(sequence, shard, own_schema, is_ours);
        let Some(user) = user else { return Ok(()) };
        let (name, other) = (names::relation(sequence), user.to_string());
        Err(match user {
            User::Routine(routine) if ddl::ids_of(&routine, own_schema).is_none() => {
                Error::OriginalsShareSequence { name, other }
            }
            _ => Error::SequenceShared { name, other },
        })
    }

    /// A NOTICE about defaults that name the sequence, if the owners of their tables lack USAGE and
    /// UPDATE on it. WARNINGs about a sequence that is not in the schema, and about a column with
    /// ids of another type than bigint.
    pub fn announce(&self) {
        let sequence = self.sequence.oid;
        let schema = self.function.schema;
        if catalog::relation(sequence).is_some_and(|relation| relation.schema != schema) {
            let (name, schema) = (names::relation(sequence), names::schema(schema));
            let warning = Error::SequenceElsewhere { name, schema };
            warning.warn();
        }
        if let Some(column) = self.columns.iter().find(|column| !column.is_bigint) {
            let shard = self.parts.shard.number();
            let warning = Error::KeysNotRead { column: column.qualified(), shard };
            warning.warn();
        }
        announce_ignored_defaults(sequence);
    }

    /// Checks that the caller trusts the owner of the shard; see [`trust`].
    pub fn check_trust(&self, trust: Trust) -> Result<(), Error> {
        match &self.existing {
            Some(existing) if existing.schema == self.function.schema => trust.check(existing),
            _ => trust.check_original(self.parts.shard, &self.function),
        }
    }

    /// The newest id and its column. Checks that new ids can follow it.
    pub fn newest_id(&self) -> Result<Option<(i64, String)>, Error> {
        let newest = newest_key(&self.columns)?;
        if [self.shard_from, self.epoch_from].contains(&KnownFrom::Caller) {
            if let Some((id, column)) = self.newest_own_id()? {
                self.check_claims(id, &column)?;
            }
            if let Some((id, column)) = &newest
                && self.check_claims(*id, column).is_err()
            {
                let (column, function) = (column.clone(), names::function(self.function.oid));
                Error::ClaimNotCompared { column, function }.warn();
            }
        }
        check_not_ahead(newest.as_ref(), self.sequence, KEY_AHEAD_MAX_MS)?;
        Ok(newest)
    }

    /// The newest id in the tables of owners with the rights of the function's owner, and its
    /// column. Any other role with USAGE on the schema can have tables with the default.
    fn newest_own_id(&self) -> Result<Option<(i64, String)>, Error> {
        let owner = self.function.owner;
        let is_own = |column: &&Column| {
            let table = catalog::relation(column.table);
            table.is_some_and(|table| catalog::has_rights_of(table.owner, owner))
        };
        newest_key(&self.columns.iter().filter(is_own).cloned().collect::<Vec<_>>())
    }

    /// Compares a constant that only the caller gives with the newest id. A constant in the body
    /// needs no such check: it describes what the function does, whatever is in its tables.
    fn check_claims(&self, id: i64, column: &str) -> Result<(), Error> {
        let ms = layout::ms_of(id) as i64;
        if id < 0 || ms < FIRST_DAY_MS {
            return Ok(()); // not an id
        }
        let (column, function) = (column.to_owned(), names::function(self.function.oid));
        let (is, asked) = (layout::shard_of(id).number(), self.parts.shard.number());
        if self.shard_from == KnownFrom::Caller && is != asked {
            return Err(Error::NewestOfAnotherShard { id, column, is, asked, function });
        }
        let ahead_ms = ms - names::now_ms(self.sequence.epoch);
        if self.epoch_from == KnownFrom::Caller
            && !(-CLAIM_AGE_MAX_MS..=CLAIM_AHEAD_MAX_MS).contains(&ahead_ms)
        {
            let epoch = self.sequence.epoch;
            let time = epoch
                .time_of(ms as u64)
                .map_or_else(|| "after the year 294276".into(), names::time);
            let epoch = names::time(epoch.at());
            return Err(Error::NewestOfAnotherTime { id, column, epoch, time, function });
        }
        Ok(())
    }
}

/// A NOTICE about defaults that name the sequence, if the owners of their tables lack USAGE and
/// UPDATE on it.
pub fn announce_ignored_defaults(sequence: Oid) {
    let ignored = columns_of_owners(sequence, false);
    if let Some(first) = ignored.first()
        && let Some(table) = catalog::relation(first.table)
    {
        let (name, owner) = (names::relation(sequence), names::role(table.owner));
        let (count, column) = (ignored.len(), first.qualified());
        let notice = Error::DefaultsIgnored { name, count, column, owner };
        notice.notice();
    }
}

//! `create_shard`, `advance_shard`, `claim_shard`.

use crate::adopt::other_user::{self, User};
use crate::arguments;
use crate::error::Error;
use crate::generator;
use crate::pg::catalog::{self, Function};
use crate::pg::guc;
use crate::pg::locks::{self, Busy};
use crate::pg::names;
use crate::pg::reg_types::Regnamespace;
use crate::pg::roles;
use crate::pg::spi;
use crate::pg::subtransaction;
use crate::pg::text::Word;
use crate::pg::transaction::prevent_if_read_only;
use crate::sequence::{IdSequence, read};
use crate::shard::columns;
use crate::shard::ddl::{self, ShardParts};
use crate::shard::definition::{self, Definition};
use crate::shard::lookup;
use crate::shard::trust::Trust;
use instagram_id_core::epoch::Epoch;
use instagram_id_core::hlc;
use instagram_id_core::layout::{self, Shard};
use pgrx::pg_sys::{self, Oid, panic::ErrorReport};
use pgrx::prelude::*;
use pgrx::spi::quote_identifier;

/// `create_shard(shard, schema, epoch, if_not_exists)`: creates a schema (`insta<shard>` by
/// default) with a sequence, `next_id()`, `id_time(id)`, `epoch()`, and `shard_<shard>()`, which
/// defines the shard. They belong to the caller, not to the extension, so pg_dump dumps them with
/// the schema.
///
/// The functions have parsed bodies. So they do not depend on search_path, are inlined into the
/// defaults and queries that call them, and are dumped after the objects that they use.
///
/// With `if_not_exists`, objects that exist already stay if they match, and the missing ones are
/// created. The owners of existing objects must be those that [`trust`](crate::shard::trust)
/// accepts.
#[pg_extern(sql = false)]
fn create_shard(
    shard: Option<i32>,
    schema: Option<Word>,
    epoch: Option<TimestampWithTimeZone>,
    if_not_exists: Option<bool>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> Result<Regnamespace, ErrorReport> {
    let shard = arguments::shard_not_null(shard)?;
    let schema = schema.map(arguments::schema_name).transpose()?;
    if let Some(name) = schema.as_ref().filter(|name| is_time(name)) {
        return Err(Error::SchemaIsTime { name: name.clone(), shard: shard.number() }.into());
    }
    let epoch = epoch.map(arguments::workable_epoch).transpose()?;
    let if_not_exists = arguments::not_null(if_not_exists, "if_not_exists")?;
    let own_schema = catalog::schema_of_this_function(fcinfo);
    prevent_if_read_only("create_shard()");
    guc::with_own_settings_and_limit(|| {
        let trust = Trust::of_caller(schema.is_some());
        let owner = catalog::current_role();
        let name = schema.clone().unwrap_or_else(|| definition::schema_name(shard));
        let new = ShardParts { shard, schema: name, own_schema, owner };
        let find = || -> Result<Found, Error> {
            let Some(existing) = definition::find(shard)? else {
                check_may_make(&new, if_not_exists, trust)?;
                return Ok(Found::Nothing);
            };
            check_same(&existing, if_not_exists, schema.as_deref(), epoch, trust)?;
            let parts = ShardParts::of(&existing, own_schema);
            if parts.missing_functions(existing.schema, existing.sequence)?.is_empty() {
                return Ok(Found::Complete(existing.schema));
            }
            parts.check_may_complete(&existing)?;
            Ok(Found::Incomplete(existing))
        };
        // First without a lock: most calls with if_not_exists find nothing to create, and the owner
        // of a shard that the caller does not trust could hold the locks on it. And a role that may
        // create nothing gets no lock: its session keeps locks until the client has read the error.
        let mut found = find()?;
        if !matches!(found, Found::Complete(_)) {
            ddl::lock_number(shard)?;
            found = find()?;
        }
        match found {
            Found::Complete(schema) => {
                trust.announce(shard, schema);
                Error::ShardKept(shard.number()).notice();
                return Ok(Regnamespace(schema));
            }
            Found::Incomplete(incomplete) => {
                // Before the lock that it would wait for itself.
                ddl::wait_for_other_generators(incomplete.schema, incomplete.sequence.oid)?;
                lookup::find_to_change(shard, pg_sys::AccessShareLock)?;
                // Rights, trust and parts may have changed until the locks were available.
                match find()? {
                    Found::Incomplete(now) if now == incomplete => {
                        ShardParts::of(&now, own_schema).complete(&now)?;
                    }
                    _ => return Err(Error::ShardChanged(shard.number()).into()),
                }
                trust.announce(shard, incomplete.schema);
                return Ok(Regnamespace(incomplete.schema));
            }
            Found::Nothing => {}
        }
        let check = |sequence| check_has_no_other_use(sequence, shard);
        let (made, existing) = new.make(epoch, trust, check)?;
        if let Some(sequence) = existing {
            warn_if_sequence_is_ahead(shard, sequence);
        }
        Ok(Regnamespace(made))
    })
}

/// What `create_shard` finds of a shard.
enum Found {
    Nothing,
    /// It is defined, but functions of it are missing.
    Incomplete(Definition),
    /// All of it, in this schema.
    Complete(Oid),
}

/// A WARNING if ids of the new shard will carry future timestamps: a role with USAGE on a sequence
/// that was there before could have taken values by any epoch.
fn warn_if_sequence_is_ahead(shard: Shard, sequence: IdSequence) {
    if let Some(last) = read::last_value(sequence.oid).filter(|last| *last <= hlc::VALUE_MAX) {
        generator::warn_if_ahead(shard, sequence.epoch, last);
    }
}

/// Checks that a sequence that becomes the clock of a shard belongs to no column, whose table could
/// reset or drop it, and that nothing else takes values from it, such as the original under another
/// name: its ids and those of the shard could be the same.
fn check_has_no_other_use(sequence: Oid, shard: Shard) -> Result<(), Error> {
    let name = names::relation(sequence);
    if let Some((column, _)) = columns::column_owning(sequence) {
        let other = User::Column(column).to_string();
        return Err(Error::SequenceShared { name, other });
    }
    // A `next_id()` there is refused by its name.
    let schema = catalog::relation(sequence).map(|relation| relation.schema);
    let is_next_id = |it: &Function| {
        it.name == "next_id" && it.parameters.is_empty() && Some(it.schema) == schema
    };
    match other_user::find_nextval(sequence, is_next_id) {
        None => Ok(()),
        Some(User::Routine(routine)) => {
            let (routine, shard) = (names::function(routine.oid), shard.number());
            Err(Error::SequenceUsed { name, routine, shard })
        }
        Some(other) => Err(Error::SequenceShared { name, other: other.to_string() }),
    }
}

/// Checks that the schema of a new shard does not exist, unless that is allowed, and that the
/// caller may create the shard in it.
fn check_may_make(new: &ShardParts, if_not_exists: bool, trust: Trust) -> Result<(), Error> {
    let existing = catalog::schema_oid(&new.schema);
    if existing == new.own_schema {
        return Err(Error::SchemaOfExtension(new.shard.number()));
    }
    if !if_not_exists && existing != Oid::INVALID {
        let (shard, name) = (new.shard.number(), new.schema.clone());
        let schema = quote_identifier(&name);
        // The hint is for a schema whose owner is trusted.
        trust.check_schema(new.shard, existing)?;
        return Err(Error::SchemaExists { shard, schema, name });
    }
    new.owner_in(existing, trust).map(|_| ())
}

/// Whether a name is a time and not that of a schema: the epoch in the place of the schema.
fn is_time(name: &str) -> bool {
    let begins_with_year =
        name.find('-') == Some(4) && name[..4].bytes().all(|byte| byte.is_ascii_digit());
    let query = "SELECT CAST($1 AS pg_catalog.timestamptz)";
    let read = || spi::select(query, &[name.into()], |row| row.get::<TimestampWithTimeZone>(1));
    begins_with_year
        && catalog::schema_oid(name) == Oid::INVALID
        && subtransaction::catching_errors(read).is_ok()
}

/// `advance_shard(shard, id)`: makes the shard's next id greater than this one, if it is not
/// already, and returns the shard's last id after that. It never moves the shard back. Use it after
/// a restore or a move, for ids that the sequence has no record of.
///
/// Like `setval` it takes effect at once, in all sessions, and a rollback does not undo it.
#[pg_extern(sql = false)]
fn advance_shard(shard: Option<i32>, id: Option<i64>) -> Result<i64, ErrorReport> {
    let shard = arguments::shard_not_null(shard)?;
    let id = arguments::not_null(id, "id")?;
    if id < 0 {
        return Err(Error::IdNegative(id).into());
    }
    let id_shard = layout::shard_of(id).number();
    if id_shard != shard.number() {
        return Err(Error::IdOfAnotherShard { id, id_shard, shard: shard.number() }.into());
    }
    let value = layout::value_of(id);
    if value >= hlc::VALUE_MAX {
        return Err(Error::IdIsTheLast(id).into());
    }
    let sequence = lookup::lock_sequence_of(shard)?;
    let last = generator::advance(sequence, value)?;
    generator::warn_if_ahead(shard, sequence.epoch, last);
    Ok(layout::id_of(last, shard))
}

/// `claim_shard(shard)`: records that this database generates the shard's ids from now on, after a
/// move or a restore; see the column `can_generate` of `id_shards`.
#[pg_extern(sql = false)]
fn claim_shard(shard: Option<i32>, fcinfo: pg_sys::FunctionCallInfo) -> Result<(), ErrorReport> {
    let shard = arguments::shard_not_null(shard)?;
    let own_schema = catalog::schema_of_this_function(fcinfo);
    prevent_if_read_only("claim_shard()");
    guc::with_own_settings_and_limit(|| {
        // First without a lock: a shard that belongs to another role is not locked.
        check_may_claim(&lookup::definition_of(shard)?)?;
        let found = lookup::find_to_change(shard, pg_sys::ShareUpdateExclusiveLock)?;
        let found = found.ok_or_else(|| lookup::missing(shard))?;
        check_may_claim(&found)?;
        let lock_row = || locks::lock_row_of_function(found.function);
        locks::in_time_for(Busy::Function(found.function), lock_row)?;
        spi::run(&ShardParts::of(&found, own_schema).definition(found.sequence).replace());
        // The statement names the sequence, whose schema can be another one and can be renamed.
        let now =
            catalog::function(found.function).and_then(|function| definition::read(&function));
        let is_claimed = |now: Definition| {
            now.home == definition::this_database() && now.sequence == found.sequence
        };
        if now.is_some_and(is_claimed) {
            Ok(())
        } else {
            Err(Error::ShardChanged(shard.number()).into())
        }
    })
}

/// Checks that the caller may replace the definition.
fn check_may_claim(definition: &Definition) -> Result<(), Error> {
    roles::check_owns_function(definition.function, definition.owner)?;
    roles::check_may_create_in(definition.schema, catalog::current_role())
}

/// Returns an error for an existing shard, unless the call has if_not_exists, its arguments match
/// the shard, and the caller trusts the owner of the shard.
fn check_same(
    existing: &Definition,
    if_not_exists: bool,
    schema: Option<&str>,
    epoch: Option<Epoch>,
    trust: Trust,
) -> Result<(), Error> {
    let shard = existing.shard.number();
    let name = names::raw_schema(existing.schema);
    if !if_not_exists {
        if Trust::of_caller(false).accepts(existing.schema, existing.owner) {
            return Err(Error::ShardExists { shard, schema: quote_identifier(name) });
        }
        let can_be_named = Trust::of_caller(true).accepts(existing.schema, existing.owner);
        let (function, owner) = (names::function(existing.function), names::role(existing.owner));
        return Err(Error::ShardOfAnother {
            shard,
            function,
            owner,
            schema: can_be_named.then_some(name),
        });
    }
    if let Some(asked) = schema.filter(|asked| *asked != name) {
        return Err(Error::ShardDiffers {
            shard,
            what: "schema",
            is: quote_identifier(name),
            asked: quote_identifier(asked),
        });
    }
    trust.check(existing)?;
    if let Some(asked) = epoch.filter(|asked| *asked != existing.sequence.epoch) {
        return Err(Error::ShardDiffers {
            shard,
            what: "epoch",
            is: names::time(existing.sequence.epoch.at()),
            asked: names::time(asked.at()),
        });
    }
    Ok(())
}

//! `adopt_shard`, `unadopt_shard`: a schema that runs the PL/pgSQL original is taken over, or given
//! back.
//!
//! A new id must not repeat an old one. A session that inserts through a column's default needs a
//! lock on the table before the default is planned. A session that has called `nextval` holds a
//! lock on the sequence until its transaction ends. So once we hold both locks, the only calls in
//! progress are those that have not reached their `nextval` yet. They fail there, however much
//! later they come: see [`CLOSED_TO_NEXTVAL`](crate::sequence::check::CLOSED_TO_NEXTVAL).

use crate::adopt::adopted::{self, Adopted};
use crate::adopt::adoption::changed_meanwhile;
use crate::adopt::carry_out::renamed;
use crate::adopt::check::announce_ignored_defaults;
use crate::adopt::original::{AdoptionRequest, check_may_replace};
use crate::adopt::other_user;
use crate::adopt::writers::{
    CATCH_UP, TableLock, change_functions, check_may_lock, check_not_reset, check_tables_of_others,
    in_order_of_tables, lock_out_writers, wait_for_the_clock,
};
use crate::arguments::{self, not_null};
use crate::error::Error;
use crate::pg::catalog::{self, Function};
use crate::pg::dependents;
use crate::pg::guc;
use crate::pg::locks;
use crate::pg::names;
use crate::pg::reg_types::{Regclass, Regnamespace, Regprocedure};
use crate::pg::roles;
use crate::pg::spi;
use crate::pg::text::Word;
use crate::pg::transaction::{prevent_if_read_only, prevent_in_parallel};
use crate::sequence::IdSequence;
use crate::sequence::check::{check_not_closed, is_closed_to_nextval};
use crate::shard::columns::{self, Callers, Column};
use crate::shard::ddl;
use crate::shard::definition::{self, Definition};
use crate::shard::lookup;
use crate::shard::trust;
use instagram_id_core::layout::{self, Shard};
use pgrx::pg_sys::{self, Oid, panic::ErrorReport};
use pgrx::prelude::*;

/// `adopt_shard(shard, schema, function, sequence, epoch, dry_run)`: takes over a schema that runs
/// the PL/pgSQL original. The function keeps its OID, name, owner and grants. The old body is kept
/// as `original_<name>()` for [`unadopt_shard`]. All new ids are greater than `starts_above`, which
/// is NULL in a dry run.
///
/// Shard, sequence and epoch are read from the function's body. An argument that also gives one of
/// them must agree. If the body does not plainly contain one, the argument is required. The next id
/// is greater than all ids that the original has generated.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn adopt_shard(
    shard: Option<i32>,
    schema: Option<Word>,
    function: Option<Regprocedure>,
    sequence: Option<Regclass>,
    epoch: Option<TimestampWithTimeZone>,
    dry_run: Option<bool>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> Result<
    TableIterator<
        'static,
        (
            name!(shard, i32),
            name!(schema, Regnamespace),
            name!(function, Regprocedure),
            name!(sequence, Regclass),
            name!(epoch, TimestampWithTimeZone),
            name!(newest_id, Option<i64>),
            name!(starts_above, Option<i64>),
            name!(script, String),
        ),
    >,
    ErrorReport,
> {
    let request = AdoptionRequest {
        shard: shard.map(arguments::shard).transpose()?,
        schema: schema.map(Word::into_name).transpose()?,
        function: function.map(|Regprocedure(oid)| oid),
        sequence: sequence.map(|Regclass(oid)| oid),
        epoch,
        own_schema: catalog::schema_of_this_function(fcinfo),
    };
    let dry_run = not_null(dry_run, "dry_run")?;
    guc::with_own_settings_and_limit(|| {
        let read = || {
            let adoption = request.read()?;
            adoption.check_rights(request.trust(&adoption.function))?;
            Ok::<_, Error>(adoption)
        };
        if dry_run {
            prevent_in_parallel("adopt_shard()");
        } else {
            prevent_if_read_only("adopt_shard()");
        }
        // Only the rights also before the lock: the session of a role that may not do this keeps it
        // until the client has read the error. All else could be half of what another session does,
        // which is also why an error counts only the second time.
        let mut adoption = read().or_else(|_| read())?;
        if !dry_run {
            let shard = adoption.parts.shard;
            ddl::lock_number(shard)?;
            adoption = read()?;
            if adoption.parts.shard != shard {
                return Err(changed_meanwhile(&adoption.function).into());
            }
        }
        adoption.check()?;
        let trust = request.trust(&adoption.function);
        adoption.announce();
        let script = adoption.script()?;
        let (newest, above) = if dry_run {
            (adoption.newest_id()?, None)
        } else {
            let (newest, above) = adoption.carry_out(trust)?;
            (newest, Some(layout::id_of(above, adoption.parts.shard)))
        };
        // The owner as it is under the locks.
        trust.announce(adoption.parts.shard, adoption.function.schema);
        let row = (
            adoption.parts.shard.number().into(),
            Regnamespace(adoption.function.schema),
            Regprocedure(adoption.function.oid),
            Regclass(adoption.sequence.oid),
            names::timestamp(adoption.sequence.epoch.at()),
            newest.map(|(newest, _)| newest),
            above,
            script,
        );
        Ok(TableIterator::once(row))
    })
}

/// `unadopt_shard(shard)`: restores the PL/pgSQL original in place, and drops what `adopt_shard`
/// has created.
#[pg_extern(sql = false)]
fn unadopt_shard(
    shard: Option<i32>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> Result<Regprocedure, ErrorReport> {
    let shard = arguments::shard_not_null(shard)?;
    let own_schema = catalog::schema_of_this_function(fcinfo);
    guc::with_own_settings_and_limit(|| {
        prevent_if_read_only("unadopt_shard()");
        // Before the lock: the session of a role that may not do this keeps it until the client has
        // read the error. As in adopt_shard(), an error counts only the second time.
        let callers = Callers::default();
        let read = || {
            let (definition, adopted, sequences) = find_adopted(shard, own_schema)?;
            let columns = columns_filled_by(&adopted, &callers);
            check_may_lock(&columns)?;
            Ok::<_, Error>((definition, adopted, sequences, columns))
        };
        read().or_else(|_| read())?;
        ddl::lock_number(shard)?;
        let found = read()?;
        let (definition, adopted, sequences, columns) = &found;
        let oids: Vec<Oid> = sequences.iter().map(|sequence| sequence.oid).collect();
        let wait = |longest| {
            sequences.iter().try_for_each(|sequence| {
                check_not_reset(*sequence)?;
                wait_for_the_clock(shard, *sequence, longest)
            })
        };
        let check = || check_tables_of_others(&adopted[0].function, columns);
        check()?;
        // First without the locks, so that no writer waits with us.
        wait(CATCH_UP)?;
        // Other roles decide how much there is to look at, so not under the locks either.
        let parts = parts_beside(definition, adopted);
        check_not_used_by_number(definition, &parts, own_schema)?;
        check_no_other_user(adopted, &parts)?;
        check_dependents(adopted, &parts)?;
        oids.iter().for_each(|sequence| announce_ignored_defaults(*sequence));
        locks::lock_schema_in_time(definition.schema)?;
        lock_out_writers(columns, TableLock::AgainstWriters, &oids, check)?;
        let changed_meanwhile = || changed_meanwhile(&adopted[0].function);
        let check_same = || {
            let now = definition::in_schema_by_number(definition.schema, shard);
            let is_same = now.as_ref() == Some(definition)
                && adopted::functions(definition, own_schema).is_ok_and(|now| now == *adopted)
                && sequences_to_lock(adopted)? == *sequences
                && columns_filled_by(adopted, &callers) == *columns;
            if is_same { Ok(()) } else { Err(changed_meanwhile()) }
        };
        check_same()?;
        wait(locks::SHORT)?;
        let parts = parts_beside(definition, adopted);
        let changed = changed_by_restoring(adopted, &parts);
        change_functions(shard, &adopted[0].function, &changed, || {
            // Again, since the wait for a function's row can have ended with its change.
            check_same()?;
            let ids = |parts: &[Function]| {
                parts.iter().map(|part| (part.oid, part.owner)).collect::<Vec<_>>()
            };
            if ids(&parts_beside(definition, adopted)) != ids(&parts) {
                return Err(changed_meanwhile());
            }
            restore(adopted, &parts, sequences)
        })??;
        Ok(Regprocedure(adopted[0].function.oid))
    })
}

/// An adopted shard, its functions and their sequences, which the caller may change.
fn find_adopted(
    shard: Shard,
    own_schema: Oid,
) -> Result<(Definition, Vec<Adopted>, Vec<IdSequence>), Error> {
    let definition = lookup::definition_of(shard)?;
    let adopted = adopted::functions(&definition, own_schema)?;
    let sequences = sequences_to_lock(&adopted)?;
    Ok((definition, adopted, sequences))
}

/// The sequences of adopted functions, after the checks that the caller may restore these.
fn sequences_to_lock(adopted: &[Adopted]) -> Result<Vec<IdSequence>, Error> {
    let mut sequences: Vec<IdSequence> = vec![];
    for one in adopted {
        check_may_replace(&one.function)?;
        one.check_name_in_original()?;
        one.check_sequence()?;
        // It must not be opened here, nor by a later adoption.
        check_not_closed(one.sequence.oid)?;
        roles::check_may_set(one.sequence.oid)?;
        roles::check_may_create_in(one.function.schema, one.function.owner)?;
        locks::check_schema_of(one.sequence.oid)?;
        if !sequences.contains(&one.sequence) {
            sequences.push(one.sequence);
        }
    }
    Ok(sequences)
}

/// Refuses to restore an original while something else uses its sequence, such as a default with
/// `next_id(shard, sequence)`: that generates ids by another rule than the original, or, of another
/// shard, sets the sequence back and forth between two ids of the original.
fn check_no_other_user(adopted: &[Adopted], parts: &[Function]) -> Result<(), Error> {
    let mut ours = dropped(adopted, parts);
    ours.extend(adopted.iter().map(|one| one.function.oid));
    let is_ours = |function: &Function| ours.contains(&function.oid);
    for sequence in adopted.iter().map(|one| one.sequence.oid) {
        if let Some(other) = other_user::find_dependent(sequence, is_ours) {
            let (name, other) = (names::relation(sequence), other.to_string());
            return Err(Error::StillUsed { name, other });
        }
    }
    Ok(())
}

/// Refuses to drop the definition of a shard that columns name by its number: no dependency keeps
/// it, and their next row would fail. Any role that can create tables in the schema can name the
/// number. So a column counts only if the owner of its table may use the sequence; a NOTICE names
/// another one, into which other roles may insert.
fn check_not_used_by_number(
    definition: &Definition,
    parts: &[Function],
    own_schema: Oid,
) -> Result<(), Error> {
    if parts.is_empty() {
        return Ok(());
    }
    let columns = columns::columns_by_number(definition, own_schema);
    let sequence = definition.sequence.oid;
    let counts = |column: &&Column| {
        catalog::relation(column.table)
            .is_some_and(|table| roles::may_generate(sequence, table.owner))
    };
    let (counting, others): (Vec<_>, Vec<_>) = columns.iter().partition(counts);
    let Some(column) = counting.first().or(others.first()) else { return Ok(()) };
    let (shard, name) = (definition.shard.number(), column.qualified());
    if counting.is_empty() {
        let count = others.len();
        Error::WasUsedByNumber { shard, column: name, count }.notice();
        return Ok(());
    }
    let table = catalog::relation(column.table);
    let owner = names::role(table.map_or(Oid::INVALID, |table| table.owner));
    Err(Error::UsedByNumber { shard, column: name, owner })
}

/// Checks that nothing depends on the functions that are dropped.
fn check_dependents(adopted: &[Adopted], parts: &[Function]) -> Result<(), Error> {
    dependents::check(pg_sys::ProcedureRelationId, &dropped(adopted, parts), false)
}

/// The functions that are dropped: these parts of the shard, and the kept originals.
fn dropped(adopted: &[Adopted], parts: &[Function]) -> Vec<Oid> {
    let kept = adopted.iter().map(|one| &one.kept);
    parts.iter().chain(kept).map(|function| function.oid).collect()
}

/// The functions that change if originals are restored, and these parts are dropped.
fn changed_by_restoring(adopted: &[Adopted], parts: &[Function]) -> Vec<Oid> {
    adopted.iter().map(|one| one.function.oid).chain(dropped(adopted, parts)).collect()
}

/// Drops the other functions of the shard, and restores the originals.
fn restore(adopted: &[Adopted], parts: &[Function], sequences: &[IdSequence]) -> Result<(), Error> {
    check_dependents(adopted, parts)?;
    let scripts: Vec<String> = adopted.iter().map(restoring_script).collect::<Result<_, _>>()?;
    // Drop the definition first: after that, later statements do not count as changes of a shard.
    for part in parts.iter().rev() {
        let drop = format!("DROP FUNCTION {}", names::function(part.oid));
        roles::as_role(part.owner, || spi::run(&drop));
    }
    for (one, script) in adopted.iter().zip(&scripts) {
        roles::as_role(one.function.owner, || spi::run(script));
    }
    for sequence in sequences.iter().filter(|sequence| is_closed_to_nextval(sequence.oid)) {
        spi::run(&format!("ALTER SEQUENCE {} INCREMENT 1", names::relation(sequence.oid)));
    }
    Ok(())
}

fn columns_filled_by(adopted: &[Adopted], callers: &Callers) -> Vec<Column> {
    let columns = adopted.iter().flat_map(|one| callers.columns_of(one.function.oid));
    in_order_of_tables(columns.collect())
}

/// The functions of a shard that are not among the adopted ones. Those of roles whose rights the
/// caller lacks, or that are not of the shard's owner, were created since, and stay. All stay if no
/// original has generated ids from the shard's own sequence: then the shard was there before the
/// adoptions.
fn parts_beside(definition: &Definition, adopted: &[Adopted]) -> Vec<Function> {
    if !adopted.iter().any(|one| one.sequence == definition.sequence) {
        return vec![];
    }
    let is_part = |function: &Function| {
        adopted.iter().all(|one| one.function.name != function.name)
            && trust::is_of_shard(function.owner, definition.owner)
            && catalog::has_rights_of(catalog::current_role(), function.owner)
    };
    let functions = ddl::functions_in(definition.schema, definition.shard);
    functions.into_iter().filter(is_part).collect()
}

/// The statements that restore an original under its name.
fn restoring_script(adopted: &Adopted) -> Result<String, Error> {
    let drop = format!("DROP FUNCTION {}", names::function(adopted.kept.oid));
    // Drop the copy first: without it the function is no longer one of the shard's.
    Ok(format!("{drop};\n{}", renamed(&adopted.kept, &adopted.function.name, true)?))
}

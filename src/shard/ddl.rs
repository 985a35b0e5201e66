//! The parts of a shard, and the statements that create them.

use crate::arguments;
use crate::error::Error;
use crate::pg::catalog::{self, Function};
use crate::pg::guc;
use crate::pg::locks::{self, Attempts, Busy};
use crate::pg::names;
use crate::pg::parsed_body::Expression;
use crate::pg::roles;
use crate::pg::spi;
use crate::sequence::{IdSequence, placement, read, visit};
use crate::shard::definition::{self, Definition};
use crate::shard::trust::{self, Object, Trust};
use instagram_id_core::epoch::Epoch;
use instagram_id_core::hlc::{self, FIRST_DAY_MS, VALUE_MAX};
use instagram_id_core::layout::Shard;
use pgrx::pg_sys::{self, Oid};
use pgrx::spi::{quote_identifier, quote_literal};
use std::ffi::CString;

/// The name of a shard's sequence, as in the original.
pub const SEQUENCE: &str = "table_id_seq";

/// Determines which parts a shard has, for a shard to create or complete.
pub struct ShardParts {
    pub shard: Shard,
    /// The name of its schema, unquoted.
    pub schema: String,
    /// The schema of the extension's functions.
    pub own_schema: Oid,
    /// The owner of the shard; see [`trust`].
    pub owner: Oid,
}

/// The greatest value of an id as MAXVALUE, so that monitoring tools see which share of the values
/// is used.
///
/// On a cluster the value of a closed copy is greater (see [`instagram_id_core::copy`]), and the
/// `setval` of a dump must accept it. So where Citus is loaded, even if it is not installed in this
/// database yet, the sequence has none.
fn max_value() -> String {
    let is_citus_loaded = guc::exists(c"citus.shard_count");
    if is_citus_loaded || catalog::has_citus() {
        String::new()
    } else {
        format!(" MAXVALUE {VALUE_MAX}")
    }
}

/// Checks that the role may create a schema, or objects in the existing one.
fn check_may_create(existing: Oid, role: Oid) -> Result<(), Error> {
    if existing != Oid::INVALID {
        return roles::check_may_create_in(existing, role);
    }
    let query = "SELECT quote_ident(current_database()) WHERE NOT has_database_privilege($1, current_database(), 'CREATE')";
    match spi::select(query, &[role.into()], |row| row.get::<String>(1)).pop() {
        Some(name) => Err(Error::NoCreateOnDatabase { name, role: names::role(role) }),
        None => Ok(()),
    }
}

/// A function in a shard's schema.
pub struct Part {
    pub name: String,
    parameters: &'static [Oid],
    pub create: String,
    comment: String,
    /// Whether an existing function matches this part.
    agrees: Box<dyn Fn(&Function) -> bool>,
}

impl Part {
    /// The statement that replaces the body of the existing function.
    pub fn replace(&self) -> String {
        self.create.replacen("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1)
    }
}

impl ShardParts {
    /// The parts of an existing shard.
    pub fn of(definition: &Definition, own_schema: Oid) -> ShardParts {
        let Definition { shard, owner, .. } = *definition;
        ShardParts { shard, schema: names::raw_schema(definition.schema), own_schema, owner }
    }

    /// Creates a shard that no schema defines yet: the schema, the sequence and the functions, as
    /// far as they are missing. Returns the schema, and a sequence that existed before, which must
    /// pass `check`, and be able to generate ids.
    pub fn make(
        mut self,
        epoch: Option<Epoch>,
        trust: Trust,
        check: impl Fn(Oid) -> Result<(), Error>,
    ) -> Result<(Oid, Option<IdSequence>), Error> {
        let mut schema = catalog::schema_oid(&self.schema);
        let is_new = schema == Oid::INVALID || !locks::lock_schema_in_time(schema)?;
        self.owner = self.owner_in(if is_new { Oid::INVALID } else { schema }, trust)?;
        if is_new {
            spi::run(&format!("CREATE SCHEMA {}", quote_identifier(&self.schema)));
            schema = catalog::schema_oid(&self.schema);
            let text = format!("logical shard {} of instagram_id", self.shard.number());
            comment_on(pg_sys::NamespaceRelationId, schema, &text);
        }
        let existing_sequence = catalog::relation_oid(SEQUENCE, schema);
        if existing_sequence != Oid::INVALID {
            self.check_owns(existing_sequence)?;
            check(existing_sequence)?;
            // Before the lock that it would wait for itself.
            wait_for_other_generators(schema, existing_sequence)?;
            locks::lock_in_time(existing_sequence, pg_sys::RowExclusiveLock)?;
            // The transactions that were waited for may have created another generator, or given
            // the sequence another name or owner.
            if catalog::relation_oid(SEQUENCE, schema) != existing_sequence {
                return Err(Error::ShardChanged(self.shard.number()));
            }
            self.check_owns(existing_sequence)?;
            placement::retry(existing_sequence, || visit::examine(existing_sequence))?;
            check(existing_sequence)?;
        }
        let left = self.epoch_left(schema, epoch)?;
        let epoch = match left.or(epoch) {
            Some(epoch) => epoch,
            None if is_clock(existing_sequence) => {
                let schema = quote_identifier(&self.schema);
                let sequence = names::relation(existing_sequence);
                return Err(Error::EpochUnknown { schema, sequence });
            }
            None => Epoch::ORIGINAL,
        };
        let sequence = self.as_owner(|| -> Result<Oid, Error> {
            let sequence = match existing_sequence {
                Oid::INVALID => self.make_sequence(schema),
                existing => existing,
            };
            self.make_functions(schema, IdSequence { oid: sequence, epoch })?;
            Ok(sequence)
        })?;
        if left.is_some() && existing_sequence == Oid::INVALID {
            let (shard, sequence) = (self.shard.number(), names::relation(sequence));
            Error::SequenceReplaced { shard, sequence }.warn();
        }
        // SAFETY: this transaction created them above.
        unsafe {
            if is_new {
                locks::release_locks_on_new_object(pg_sys::NamespaceRelationId, schema);
            }
            if existing_sequence == Oid::INVALID {
                locks::release_locks_on_new_relation(sequence);
            }
        }
        if !is_new {
            trust.announce(self.shard, schema);
        }
        let existing = IdSequence { oid: existing_sequence, epoch };
        Ok((schema, (existing.oid != Oid::INVALID).then_some(existing)))
    }

    /// The owner of a shard to be created in this schema, or in a new one.
    ///
    /// # Errors
    ///
    /// The caller does not trust the schema or parts of the shard in it, or the owner may not
    /// create the shard there.
    pub fn owner_in(&self, schema: Oid, trust: Trust) -> Result<Oid, Error> {
        let mut owner = self.owner;
        if schema != Oid::INVALID {
            trust.check_schema(self.shard, schema)?;
            owner = self.owner_of_parts(schema, trust)?;
        }
        self.check_may_create_in(schema, owner)?;
        Ok(owner)
    }

    /// The owner of a shard to be created in an existing schema, which may have parts of it: the
    /// owner of these parts, if that is one role that the caller trusts and whose privileges it
    /// has. Otherwise it is the caller, who can use only parts of roles with its privileges.
    fn owner_of_parts(&self, schema: Oid, trust: Trust) -> Result<Oid, Error> {
        let functions = functions_in(schema, self.shard).into_iter();
        let mut parts: Vec<_> =
            functions.map(|function| (Object::Function(function.oid), function.owner)).collect();
        let sequence = catalog::relation_oid(SEQUENCE, schema);
        if let Some(relation) = catalog::relation(sequence) {
            if !relation.is_sequence {
                return Err(Error::NotSequence(names::relation(sequence)));
            }
            parts.push((Object::Sequence(sequence), relation.owner));
        }
        let caller = catalog::current_role();
        let is_possible = |owner: &Oid| {
            trust.accepts_owner(schema, *owner)
                && catalog::has_rights_of(caller, *owner)
                && parts.iter().all(|(_, other)| trust::is_of_shard(*other, *owner))
        };
        let owner = parts.iter().map(|(_, owner)| *owner).find(is_possible).unwrap_or(caller);
        for &(part, owner_of_part) in &parts {
            trust::check_part(self.shard, part, owner_of_part, owner)?;
        }
        Ok(owner)
    }

    /// Checks that the owner of the shard has the rights of the owner of its sequence.
    fn check_owns(&self, sequence: Oid) -> Result<(), Error> {
        let owner = catalog::relation(sequence).map_or(Oid::INVALID, |relation| relation.owner);
        if catalog::has_rights_of(self.owner, owner) {
            Ok(())
        } else {
            Err(Error::NotSequenceOwner(names::relation(sequence)))
        }
    }

    /// The epoch of a part of the shard that DROP EXTENSION ... CASCADE or DROP SEQUENCE ...
    /// CASCADE has left: its `epoch()`. It must be workable, and must not contradict the one that
    /// is asked for.
    fn epoch_left(&self, schema: Oid, asked: Option<Epoch>) -> Result<Option<Epoch>, Error> {
        let function = catalog::function_in(schema, "epoch", &[]);
        let Some(left) = function.and_then(|function| definition::epoch_of(&function)) else {
            return Ok(None);
        };
        arguments::workable_epoch(names::timestamp(left.at()))?;
        match asked {
            Some(asked) if asked != left => Err(Error::EpochDiffers {
                schema: quote_identifier(&self.schema),
                is: names::time(left.at()),
                asked: names::time(asked.at()),
            }),
            _ => Ok(Some(left)),
        }
    }

    fn make_sequence(&self, schema: Oid) -> Oid {
        let quoted = quote_identifier(&self.schema);
        spi::run(&format!("CREATE SEQUENCE {quoted}.{SEQUENCE} AS pg_catalog.int8{}", max_value()));
        let sequence = catalog::relation_oid(SEQUENCE, schema);
        let text =
            format!("last issued id of shard {} without its shard bits", self.shard.number());
        comment_on(pg_sys::RelationRelationId, sequence, &text);
        sequence
    }

    /// Creates the missing functions of a defined shard, as its owner.
    pub fn complete(&self, definition: &Definition) -> Result<(), Error> {
        self.as_owner(|| self.make_functions(definition.schema, definition.sequence))
    }

    /// Checks that the caller may create the missing functions of a defined shard.
    pub fn check_may_complete(&self, definition: &Definition) -> Result<(), Error> {
        roles::check_owns_function(definition.function, self.owner)?;
        self.check_may_create_in(definition.schema, self.owner)
    }

    /// Checks that the owner may create the schema, or functions in it, which name those of the
    /// extension.
    fn check_may_create_in(&self, schema: Oid, owner: Oid) -> Result<(), Error> {
        check_may_create(schema, owner)?;
        roles::check_may_use_schema(self.own_schema, owner)
    }

    /// Runs `f` as the owner of the shard, so that new parts belong to that role. The caller has
    /// its privileges.
    fn as_owner<T>(&self, f: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        if self.owner == catalog::current_role() {
            return f();
        }
        roles::as_role(self.owner, f)
    }

    /// Creates the missing functions of the shard.
    pub fn make_functions(&self, schema: Oid, sequence: IdSequence) -> Result<(), Error> {
        let missing = self.missing_functions(schema, sequence)?;
        // One that was there may have been dropped while the caller waited for the locks that it
        // has now, and statements may still run it. So nobody uses the sequence until the commit.
        if missing.iter().any(|part| part.name == "next_id")
            && !locks::lock_unless_locked(sequence.oid, pg_sys::ShareRowExclusiveLock)
        {
            return Err(locks::not_available(Busy::Relation(sequence.oid)));
        }
        for part in &missing {
            spi::run(&part.create);
            if let Some(function) = catalog::function_in(schema, &part.name, part.parameters) {
                comment_on(pg_sys::ProcedureRelationId, function.oid, &part.comment);
            }
        }
        if !missing.is_empty() && !self.is_complete(schema, sequence) {
            return Err(Error::ShardChanged(self.shard.number()));
        }
        Ok(())
    }

    /// Whether the schema has all functions of the shard now. The statements that create them name
    /// the schema and the sequence: if one of the two was renamed at that moment, the functions are
    /// elsewhere. An event trigger may have given the parts to another role, but only all of them.
    fn is_complete(&self, schema: Oid, sequence: IdSequence) -> bool {
        let definition = catalog::function_in(schema, &definition::function_name(self.shard), &[]);
        definition.is_some_and(|definition| {
            let parts =
                ShardParts { schema: self.schema.clone(), owner: definition.owner, ..*self };
            parts.missing_functions(schema, sequence).is_ok_and(|missing| missing.is_empty())
        })
    }

    /// The missing functions, except the one of this name, which an adopted function will replace.
    pub fn missing_functions_beside(
        &self,
        name: &str,
        schema: Oid,
        sequence: IdSequence,
    ) -> Result<Vec<Part>, Error> {
        self.check_owner_of(sequence.oid)?;
        self.missing(schema, sequence, |part| part.name != name)
    }

    /// The missing functions of the shard.
    pub fn missing_functions(&self, schema: Oid, sequence: IdSequence) -> Result<Vec<Part>, Error> {
        self.check_owner_of(sequence.oid)?;
        self.missing(schema, sequence, |_| true)
    }

    /// Checks that the schema's `next_id()`, if there is one, is that of the shard.
    pub fn check_next_id(&self, schema: Oid, sequence: IdSequence) -> Result<(), Error> {
        self.missing(schema, sequence, |part| part.name == "next_id").map(|_| ())
    }

    fn check_owner_of(&self, sequence: Oid) -> Result<(), Error> {
        let Some(relation) = catalog::relation(sequence) else { return Ok(()) };
        trust::check_part(self.shard, Object::Sequence(sequence), relation.owner, self.owner)
    }

    fn missing(
        &self,
        schema: Oid,
        sequence: IdSequence,
        counts: impl Fn(&Part) -> bool,
    ) -> Result<Vec<Part>, Error> {
        let mut missing = vec![];
        for part in self.functions(sequence).into_iter().filter(counts) {
            match catalog::function_in(schema, &part.name, part.parameters) {
                // First the owner, because the hint about the body is for one that is trusted.
                Some(function) if schema != self.own_schema || (part.agrees)(&function) => {
                    let object = Object::Function(function.oid);
                    trust::check_part(self.shard, object, function.owner, self.owner)?;
                    if !(part.agrees)(&function) {
                        let (function, shard) =
                            (names::function(function.oid), self.shard.number());
                        return Err(Error::FunctionExists { function, shard });
                    }
                }
                // There the extension's own functions have these names, and must not be renamed or
                // dropped.
                Some(_) => {
                    return Err(Error::SchemaOfExtension(self.shard.number()));
                }
                None => missing.push(part),
            }
        }
        Ok(missing)
    }

    /// The faults of the shard's parts, as phrases: functions that are missing or do not match, and
    /// parts of other owners.
    pub fn faults(&self, schema: Oid, sequence: IdSequence) -> Vec<String> {
        let of_another = |name: String, owner: Oid| {
            (!trust::is_of_shard(owner, self.owner))
                .then(|| format!("{name} belongs to role {}", names::role(owner)))
        };
        let fault = |part: Part| match catalog::function_in(schema, &part.name, part.parameters) {
            Some(function) if (part.agrees)(&function) => {
                of_another(names::function(function.oid), function.owner)
            }
            Some(function) if part.name == "next_id" => Some(generates_others(function.oid)),
            Some(function) => Some(format!("{} is not the shard's", names::function(function.oid))),
            None => Some(is_missing(
                schema,
                &part.name,
                if part.parameters.is_empty() { "" } else { "bigint" },
            )),
        };
        let of_sequence = catalog::relation(sequence.oid)
            .and_then(|relation| of_another(names::relation(sequence.oid), relation.owner));
        of_sequence
            .into_iter()
            .chain(self.functions(sequence).into_iter().filter_map(fault))
            .collect()
    }

    /// The functions of a shard.
    ///
    /// Each contains the constants itself. When PostgreSQL looks up a function's name, it reads all
    /// functions of that name in all schemas. In a database of thousands of shards, creating one
    /// must not look up a name that each shard has, such as `epoch()`. For the same reason
    /// `next_id()` does not call the extension's `next_id`.
    pub fn functions(&self, sequence: IdSequence) -> [Part; 4] {
        let schema = quote_identifier(&self.schema);
        let own_schema = names::schema(self.own_schema);
        let own_oid = self.own_schema;
        let (shard, number) = (self.shard, self.shard.number());
        let epoch = names::time_in_utc(sequence.epoch.at());
        [
            Part {
                name: "epoch".into(),
                parameters: &[],
                create: format!(
                    "CREATE FUNCTION {schema}.epoch() RETURNS pg_catalog.timestamptz\n    \
                         LANGUAGE sql IMMUTABLE PARALLEL SAFE\n    \
                         RETURN '{epoch}'::pg_catalog.timestamptz"
                ),
                comment: format!("instant that the ids of shard {number} count from"),
                agrees: Box::new(move |function| {
                    definition::epoch_of(function) == Some(sequence.epoch)
                }),
            },
            Part {
                name: "next_id".into(),
                parameters: &[],
                create: format!(
                    "CREATE FUNCTION {schema}.next_id() RETURNS pg_catalog.int8\n    {}",
                    self.next_id(sequence)
                ),
                comment: format!("next id of shard {number}"),
                agrees: Box::new(move |function| makes_ids_of(function, own_oid, shard, sequence)),
            },
            Part {
                name: "id_time".into(),
                parameters: &[pg_sys::INT8OID],
                create: format!(
                    "CREATE FUNCTION {schema}.id_time(id pg_catalog.int8) RETURNS pg_catalog.timestamptz\n    \
                         LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE\n    \
                         RETURN {own_schema}.shard_id_time(id, '{epoch}'::pg_catalog.timestamptz)"
                ),
                comment: format!(
                    "time at which an id of shard {number} was generated, to the millisecond"
                ),
                agrees: Box::new(move |function| reads_times(function, own_oid, sequence.epoch)),
            },
            self.definition(sequence),
        ]
    }

    /// The function that defines the shard; see [`definition`].
    pub fn definition(&self, sequence: IdSequence) -> Part {
        let schema = quote_identifier(&self.schema);
        let (name, number) = (definition::function_name(self.shard), self.shard.number());
        let relation = quote_literal(names::relation(sequence.oid));
        let epoch = names::time_in_utc(sequence.epoch.at());
        Part {
            name: name.clone(),
            parameters: &[],
            create: format!(
                "CREATE FUNCTION {schema}.{name}\
                     (OUT sequence pg_catalog.regclass, OUT epoch pg_catalog.timestamptz, OUT home pg_catalog.text)\n    \
                     LANGUAGE sql IMMUTABLE PARALLEL SAFE\n    \
                     BEGIN ATOMIC\n    \
                     SELECT {relation}::pg_catalog.regclass AS sequence, \
                     '{epoch}'::pg_catalog.timestamptz AS epoch, '{}'::pg_catalog.text AS home;\n    \
                     END",
                definition::this_database()
            ),
            comment: format!(
                "defines shard {number} for instagram_id: its sequence, epoch and database"
            ),
            agrees: Box::new(move |function| {
                definition::read(function).is_some_and(|is| is.sequence == sequence)
            }),
        }
    }

    /// The part of CREATE FUNCTION after the name and the result, for a function that generates the
    /// shard's ids.
    pub fn next_id(&self, sequence: IdSequence) -> String {
        format!(
            "LANGUAGE sql VOLATILE PARALLEL UNSAFE\n    \
             RETURN {}.shard_next_id({}, {}::pg_catalog.regclass, '{}'::pg_catalog.timestamptz)",
            names::schema(self.own_schema),
            self.shard.number(),
            quote_literal(names::relation(sequence.oid)),
            names::time_in_utc(sequence.epoch.at())
        )
    }
}

/// The functions in a schema that have the names and parameters of the shard's functions.
pub fn functions_in(schema: Oid, shard: Shard) -> Vec<Function> {
    let definition = definition::function_name(shard);
    let names: [(&str, &[Oid]); 4] =
        [("epoch", &[]), ("next_id", &[]), ("id_time", &[pg_sys::INT8OID]), (&definition, &[])];
    names
        .iter()
        .filter_map(|(name, parameters)| catalog::function_in(schema, name, parameters))
        .collect()
}

/// A problem: a function should generate the shard's ids, and does not.
pub fn generates_others(function: Oid) -> String {
    format!("{} does not generate the shard's ids", names::function(function))
}

/// A problem: a function of the shard is missing.
pub fn is_missing(schema: Oid, name: &str, parameters: &str) -> String {
    format!("{} is missing", names::function_in(schema, name, parameters))
}

/// The clock from which the function generates ids of the shard, if its body is that of `next_id()`
/// in a [`ShardParts`].
pub fn sequence_of_ids(function: &Function, own_schema: Oid, shard: Shard) -> Option<IdSequence> {
    ids_of(function, own_schema).and_then(|(of, sequence)| (of == shard).then_some(sequence))
}

/// The shard whose ids the function generates, and the clock, if its body is that of `next_id()` in
/// a [`ShardParts`].
pub fn ids_of(function: &Function, own_schema: Oid) -> Option<(Shard, IdSequence)> {
    let types = [pg_sys::INT4OID, pg_sys::REGCLASSOID, pg_sys::TIMESTAMPTZOID];
    let arguments = calls(function, own_schema, "shard_next_id", &types)?;
    let [number, sequence, epoch] = arguments.as_slice() else { return None };
    let is_alike =
        function.is_volatile && function.returns == pg_sys::INT8OID && !function.returns_set;
    let number = number.constant(pg_sys::INT4OID).filter(|_| is_alike)?;
    let shard = Shard::new(i32::try_from(number.value()).ok()?)?;
    Some((
        shard,
        IdSequence { oid: sequence.oid(pg_sys::REGCLASSOID)?, epoch: Epoch::new(epoch.time()?)? },
    ))
}

/// Whether the function matches `next_id()` in a [`ShardParts`].
pub fn makes_ids_of(
    function: &Function,
    own_schema: Oid,
    shard: Shard,
    sequence: IdSequence,
) -> bool {
    sequence_of_ids(function, own_schema, shard) == Some(sequence)
}

/// Whether the function matches `id_time(id)` in a [`ShardParts`].
fn reads_times(function: &Function, own_schema: Oid, epoch: Epoch) -> bool {
    let types = [pg_sys::INT8OID, pg_sys::TIMESTAMPTZOID];
    let arguments = calls(function, own_schema, "shard_id_time", &types).unwrap_or_default();
    let [id, is] = arguments.as_slice() else { return false };
    function.returns == pg_sys::TIMESTAMPTZOID
        && !function.returns_set
        && !function.is_volatile
        && !function.is_security_definer
        && id.is_parameter(1)
        && is.time() == Some(epoch.at())
}

/// The arguments of the call, if the function does nothing but call the extension's function of
/// this name and these types.
fn calls(
    function: &Function,
    own_schema: Oid,
    name: &str,
    types: &[Oid],
) -> Option<Vec<Expression>> {
    let selected = function.selected()?;
    let [call] = selected.as_slice() else { return None };
    let (callee, arguments) = call.call()?;
    (callee == catalog::function_in(own_schema, name, types)?.oid).then_some(arguments)
}

/// Whether the value of a sequence, if it exists, is that of a clock and not of a counter.
fn is_clock(sequence: Oid) -> bool {
    sequence != Oid::INVALID
        && read::last_value(sequence).is_some_and(|last| hlc::ms_of(last) >= FIRST_DAY_MS)
}

/// Sets the comment of an object. The statement COMMENT ON would also lock it, and a transaction
/// that creates thousands of shards would hold too many locks.
fn comment_on(class: Oid, object: Oid, text: &str) {
    let text = CString::new(text).expect("a text without NUL");
    // SAFETY: the text is copied.
    unsafe { pg_sys::CreateComments(object, class, 0, text.as_ptr()) }
}

/// If the schema has no `next_id()`, waits for transactions that have taken values from the
/// sequence: a statement of the portable edition or of a PL/pgSQL original, whose functions were
/// dropped meanwhile, runs on and could repeat ids of the library.
pub fn wait_for_other_generators(schema: Oid, sequence: Oid) -> Result<(), Error> {
    if catalog::function_in(schema, "next_id", &[]).is_some() {
        return Ok(());
    }
    let (mut attempts, mut is_free) = (Attempts::new(), false);
    loop {
        // A failed attempt releases the lock, which is not needed any longer.
        attempts.attempt(|attempts| {
            attempts.lock(sequence, pg_sys::ShareRowExclusiveLock);
            is_free = true;
            Ok(false)
        })?;
        if is_free {
            return Ok(());
        }
        attempts.pause().map_err(locks::not_available)?;
    }
}

/// The number of locks that the shards share. The transaction that creates all 8192 takes each of
/// them once, and they fit into the lock table of a server with the default settings.
const LOCKS: u16 = 256;

/// Keeps other transactions from creating or adopting a shard of this number until the transaction
/// ends, so that two of them cannot create it in different schemas. They also wait with the numbers
/// that share its lock. The caller has checked that its role may create or change the shard.
///
/// # Errors
///
/// Another transaction holds the lock for too long. A role that can create a shard in any schema
/// could hold it as long as it likes.
pub fn lock_number(shard: Shard) -> Result<(), Error> {
    // SAFETY: a catalog lookup.
    let extension = unsafe { pg_sys::get_extension_oid(c"instagram_id".as_ptr(), false) };
    let part = 1 + shard.number() % LOCKS;
    let (class, mode) = (pg_sys::ExtensionRelationId, pg_sys::ShareUpdateExclusiveLock);
    let lock = || locks::lock_object(class, extension, part, mode);
    if guc::with_lock_limit(|| locks::in_time(lock)).is_some() {
        Ok(())
    } else {
        Err(Error::NumberLocked(shard.number()))
    }
}

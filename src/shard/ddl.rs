//! The parts of a shard, and the statements that create them.

use crate::arguments;
use crate::error::Error;
use crate::pg::catalog::{self, Expression, Function};
use crate::pg::names;
use crate::pg::spi;
use crate::pg::sys;
use crate::sequence::Clock;
use crate::shard::definition::{self, Definition};
use instagram_id_core::epoch::Epoch;
use instagram_id_core::hlc::VALUE_MAX;
use instagram_id_core::layout::Shard;
use pgrx::PgLogLevel;
use pgrx::datum::DatumWithOid;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::pg_sys::{self, Oid};
use pgrx::spi::{quote_identifier, quote_literal};
use std::ffi::CString;

/// The name of a shard's sequence, as in the original.
pub const SEQUENCE: &str = "table_id_seq";

/// A shard to create or complete.
pub struct Plan {
    pub shard: Shard,
    /// The name of its schema, unquoted.
    pub schema: String,
    /// The schema of the extension's functions.
    pub own_schema: Oid,
}

/// The greatest value of an id as MAXVALUE, so that monitoring tools see which share of the values is used.
///
/// On a cluster the value of a closed copy is greater (see [`instagram_id_core::copy`]), and the `setval` of a dump must
/// accept it. So where Citus is loaded, even if it is not installed in this database yet, the sequence has none.
fn max_value() -> String {
    // SAFETY: the name ends with a zero byte; NULL if there is no such setting.
    let is_citus_loaded =
        unsafe { !pg_sys::GetConfigOption(c"citus.shard_count".as_ptr(), true, false).is_null() };
    if is_citus_loaded || sys::has_citus() { String::new() } else { format!(" MAXVALUE {VALUE_MAX}") }
}

/// Checks that the role may create a schema, or objects in the existing one.
fn check_may_create(existing: Oid) -> Result<(), Error> {
    let role = names::current_role();
    let refused = |query: &str, arguments: &[DatumWithOid]| {
        spi::select(query, arguments, |row| row.get::<String>(1)).pop()
    };
    if existing == Oid::INVALID {
        let query = "SELECT quote_ident(current_database()) WHERE NOT has_database_privilege(current_database(), 'CREATE')";
        refused(query, &[]).map_or(Ok(()), |name| Err(Error::NoCreateOnDatabase { name, role }))
    } else {
        let query = "SELECT quote_ident(nspname) FROM pg_namespace WHERE oid = $1 AND NOT has_schema_privilege(oid, 'CREATE')";
        refused(query, &[existing.into()]).map_or(Ok(()), |name| Err(Error::NoCreateOnSchema { name, role }))
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

impl Plan {
    /// The plan of an existing shard.
    pub fn of(definition: &Definition, own_schema: Oid) -> Plan {
        Plan { shard: definition.shard, schema: names::raw_schema(definition.schema), own_schema }
    }

    /// Creates a shard that no schema defines yet: the schema, the sequence and the functions, as far as they are
    /// missing. Returns the schema. An existing sequence must pass `examine`.
    pub fn make(
        &self,
        epoch: Option<Epoch>,
        examine: impl Fn(Oid) -> Result<(), Error>,
    ) -> Result<Oid, Error> {
        let quoted = quote_identifier(&self.schema);
        let number = self.shard.number();
        let existing_schema = catalog::schema_oid(&self.schema);
        check_may_create(existing_schema)?;
        let mut schema = existing_schema;
        if schema == Oid::INVALID || !catalog::lock_schema(schema) {
            spi::run(&format!("CREATE SCHEMA {quoted}"));
            schema = catalog::schema_oid(&self.schema);
            comment_on(
                pg_sys::NamespaceRelationId,
                schema,
                &format!("logical shard {number} of instagram_id"),
            );
        }
        let existing_sequence = catalog::relation_oid(SEQUENCE, existing_schema);
        let mut sequence = existing_sequence;
        if sequence == Oid::INVALID {
            spi::run(&format!("CREATE SEQUENCE {quoted}.{SEQUENCE} AS pg_catalog.int8{}", max_value()));
            sequence = catalog::relation_oid(SEQUENCE, schema);
            let text = format!("last issued id of shard {number} without its shard bits");
            comment_on(pg_sys::RelationRelationId, sequence, &text);
        } else {
            examine(sequence)?;
            let owner = catalog::relation(sequence).map_or(Oid::INVALID, |relation| relation.owner);
            if !catalog::has_rights_of(catalog::current_role(), owner) {
                return Err(Error::NotSequenceOwner(names::relation(sequence)));
            }
        }
        // If DROP EXTENSION ... CASCADE or DROP SEQUENCE ... CASCADE has left a part of a shard, its epoch() is still
        // there.
        let left =
            catalog::function_in(schema, "epoch", &[]).and_then(|function| definition::epoch_of(&function));
        if let Some(left) = left {
            arguments::workable_epoch(names::timestamp(left.at()))?;
        }
        if let (Some(is), Some(asked)) = (left, epoch)
            && is != asked
        {
            return Err(Error::EpochDiffers {
                schema: quoted,
                is: names::time(is.at()),
                asked: names::time(asked.at()),
            });
        }
        if left.is_some() && existing_sequence == Oid::INVALID {
            let sequence = names::relation(sequence);
            ErrorReport::from(Error::SequenceReplaced { shard: number, sequence })
                .report(PgLogLevel::WARNING);
        }
        let epoch = left.or(epoch).unwrap_or(Epoch::ORIGINAL);
        self.make_functions(schema, Clock { sequence, epoch })?;
        // SAFETY: this transaction created them above.
        unsafe {
            if existing_schema == Oid::INVALID {
                sys::release_locks_on_new_object(pg_sys::NamespaceRelationId, schema);
            }
            if existing_sequence == Oid::INVALID {
                sys::release_locks_on_new_relation(sequence);
            }
        }
        Ok(schema)
    }

    /// Creates the missing functions of a defined shard. Returns whether there were any.
    pub fn complete(&self, definition: &Definition) -> Result<bool, Error> {
        self.make_functions(definition.schema, definition.clock)
    }

    /// Creates the missing functions of the shard. Returns whether there were any.
    pub fn make_functions(&self, schema: Oid, clock: Clock) -> Result<bool, Error> {
        let missing = self.missing_functions(schema, clock).map_err(|error| self.explained(error, schema))?;
        for part in &missing {
            spi::run(&part.create);
            if let Some(function) = catalog::function_in(schema, &part.name, part.parameters) {
                comment_on(pg_sys::ProcedureRelationId, function.oid, &part.comment);
            }
        }
        Ok(!missing.is_empty())
    }

    /// The missing functions, except the one of this name, which an adopted function will replace.
    pub fn missing_functions_beside(
        &self,
        name: &str,
        schema: Oid,
        clock: Clock,
    ) -> Result<Vec<Part>, Error> {
        let others = self.functions(clock).into_iter().filter(|part| part.name != name);
        self.missing_of(others, schema).map_err(|error| self.explained(error, schema))
    }

    /// Replaces the error for the schema of the extension: there the extension's own functions have these names, and
    /// must not be renamed or dropped.
    fn explained(&self, error: Error, schema: Oid) -> Error {
        match error {
            Error::FunctionExists { shard, schema: name, .. } if schema == self.own_schema => {
                Error::SchemaOfExtension { schema: name, shard }
            }
            error => error,
        }
    }

    /// The missing functions of the shard.
    ///
    /// # Errors
    ///
    /// 42723 for an existing function that does not match.
    pub fn missing_functions(&self, schema: Oid, clock: Clock) -> Result<Vec<Part>, Error> {
        self.missing_of(self.functions(clock).into_iter(), schema)
    }

    fn missing_of(&self, parts: impl Iterator<Item = Part>, schema: Oid) -> Result<Vec<Part>, Error> {
        let mut missing = vec![];
        for part in parts {
            match catalog::function_in(schema, &part.name, part.parameters) {
                Some(function) if (part.agrees)(&function) => {}
                Some(function) => {
                    let (function, schema) = (names::function(function.oid), self.schema.clone());
                    return Err(Error::FunctionExists { function, shard: self.shard.number(), schema });
                }
                None => missing.push(part),
            }
        }
        Ok(missing)
    }

    /// The shard's functions that are missing or do not match, as phrases.
    pub fn faults(&self, schema: Oid, clock: Clock) -> Vec<String> {
        let fault = |part: Part| match catalog::function_in(schema, &part.name, part.parameters) {
            Some(function) if (part.agrees)(&function) => None,
            Some(function) if part.name == "next_id" => Some(generates_others(&function)),
            Some(function) => Some(format!("{} is not the shard's", names::function(function.oid))),
            None => {
                Some(is_missing(schema, &part.name, if part.parameters.is_empty() { "" } else { "bigint" }))
            }
        };
        self.functions(clock).into_iter().filter_map(fault).collect()
    }

    /// The functions of a shard.
    ///
    /// Each contains the constants itself. When PostgreSQL looks up a function's name, it reads all functions of that
    /// name in all schemas. In a database of thousands of shards, creating one must not look up a name that each shard
    /// has, such as `epoch()`. For the same reason `next_id()` does not call the extension's `next_id`.
    pub fn functions(&self, clock: Clock) -> [Part; 4] {
        let schema = quote_identifier(&self.schema);
        let own_schema = names::schema(self.own_schema);
        let own_oid = self.own_schema;
        let (shard, number) = (self.shard, self.shard.number());
        let epoch = names::time(clock.epoch.at());
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
                agrees: Box::new(move |function| definition::epoch_of(function) == Some(clock.epoch)),
            },
            Part {
                name: "next_id".into(),
                parameters: &[],
                create: format!(
                    "CREATE FUNCTION {schema}.next_id() RETURNS pg_catalog.int8\n    {}",
                    self.next_id(clock)
                ),
                comment: format!("next id of shard {number}"),
                agrees: Box::new(move |function| makes_ids_of(function, own_oid, shard, clock)),
            },
            Part {
                name: "id_time".into(),
                parameters: &[pg_sys::INT8OID],
                create: format!(
                    "CREATE FUNCTION {schema}.id_time(id pg_catalog.int8) RETURNS pg_catalog.timestamptz\n    \
                         LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE\n    \
                         RETURN {own_schema}.shard_id_time(id, '{epoch}'::pg_catalog.timestamptz)"
                ),
                comment: format!("time at which an id of shard {number} was generated, to the millisecond"),
                agrees: Box::new(move |function| reads_times(function, own_oid, clock.epoch)),
            },
            self.definition(clock),
        ]
    }

    /// The function that defines the shard; see [`definition`].
    pub fn definition(&self, clock: Clock) -> Part {
        let schema = quote_identifier(&self.schema);
        let (name, number) = (definition::function_name(self.shard), self.shard.number());
        let sequence = quote_literal(names::relation(clock.sequence));
        let epoch = names::time(clock.epoch.at());
        Part {
            name: name.clone(),
            parameters: &[],
            create: format!(
                "CREATE OR REPLACE FUNCTION {schema}.{name}\
                     (OUT sequence pg_catalog.regclass, OUT epoch pg_catalog.timestamptz, OUT home pg_catalog.text)\n    \
                     LANGUAGE sql IMMUTABLE PARALLEL SAFE\n    \
                     BEGIN ATOMIC\n    \
                     SELECT {sequence}::pg_catalog.regclass AS sequence, \
                     '{epoch}'::pg_catalog.timestamptz AS epoch, '{}'::pg_catalog.text AS home;\n    \
                     END",
                definition::this_database()
            ),
            comment: format!("defines shard {number} for instagram_id: its sequence, epoch and database"),
            agrees: Box::new(move |function| definition::read(function).is_some_and(|is| is.clock == clock)),
        }
    }

    /// The part of CREATE FUNCTION after the name and the result, for a function that generates the shard's ids.
    pub fn next_id(&self, clock: Clock) -> String {
        format!(
            "LANGUAGE sql VOLATILE PARALLEL UNSAFE\n    \
             RETURN {}.shard_next_id({}, {}::pg_catalog.regclass, '{}'::pg_catalog.timestamptz)",
            names::schema(self.own_schema),
            self.shard.number(),
            quote_literal(names::relation(clock.sequence)),
            names::time(clock.epoch.at())
        )
    }
}

/// A problem: a function should generate the shard's ids, and does not.
pub fn generates_others(function: &Function) -> String {
    format!("{} does not generate the shard's ids", names::function(function.oid))
}

/// A problem: a function of the shard is missing.
pub fn is_missing(schema: Oid, name: &str, parameters: &str) -> String {
    format!("{}.{}({parameters}) is missing", names::schema(schema), quote_identifier(name))
}

/// The clock from which the function generates ids of the shard, if its body is that of `next_id()` in a [`Plan`].
pub fn clock_of_ids(function: &Function, own_schema: Oid, shard: Shard) -> Option<Clock> {
    ids_of(function, own_schema).and_then(|(of, clock)| (of == shard).then_some(clock))
}

/// The shard whose ids the function generates, and the clock, if its body is that of `next_id()` in a [`Plan`].
pub fn ids_of(function: &Function, own_schema: Oid) -> Option<(Shard, Clock)> {
    let arguments = calls(function, own_schema, "shard_next_id")?;
    let [number, sequence, epoch] = arguments.as_slice() else { return None };
    let is_alike = function.is_volatile && function.returns == pg_sys::INT8OID && !function.returns_set;
    let number = number.constant(pg_sys::INT4OID).filter(|_| is_alike)?;
    let shard = Shard::new(i32::try_from(number.value()).ok()?)?;
    Some((shard, Clock { sequence: sequence.oid(pg_sys::REGCLASSOID)?, epoch: Epoch::new(epoch.time()?)? }))
}

/// Whether the function matches `next_id()` in a [`Plan`].
pub fn makes_ids_of(function: &Function, own_schema: Oid, shard: Shard, clock: Clock) -> bool {
    clock_of_ids(function, own_schema, shard) == Some(clock)
}

/// Whether the function matches `id_time(id)` in a [`Plan`].
fn reads_times(function: &Function, own_schema: Oid, epoch: Epoch) -> bool {
    let arguments = calls(function, own_schema, "shard_id_time").unwrap_or_default();
    let [id, is] = arguments.as_slice() else { return false };
    function.returns == pg_sys::TIMESTAMPTZOID
        && !function.returns_set
        && !function.is_volatile
        && !function.is_security_definer
        && id.is_parameter(1)
        && is.time() == Some(epoch.at())
}

/// The arguments of the call, if the function does nothing but call the extension's function of this name.
fn calls(function: &Function, own_schema: Oid, name: &str) -> Option<Vec<Expression>> {
    let selected = function.selected()?;
    let [call] = selected.as_slice() else { return None };
    let (callee, arguments) = call.call()?;
    let callee = catalog::function(callee)?;
    (callee.schema == own_schema && callee.name == name).then_some(arguments)
}

/// Sets the comment of an object. The statement COMMENT ON would also lock it, and a transaction that creates thousands
/// of shards would hold too many locks.
fn comment_on(class: Oid, object: Oid, text: &str) {
    let text = CString::new(text).expect("a text without NUL");
    // SAFETY: the text is copied.
    unsafe { pg_sys::CreateComments(object, class, 0, text.as_ptr()) }
}

/// Locks out other changes of shards until the transaction ends, so that two transactions cannot create the same shard
/// in different schemas.
pub fn begin_change() {
    // SAFETY: the lock lasts to the transaction's end.
    unsafe {
        let extension = pg_sys::get_extension_oid(c"instagram_id".as_ptr(), false);
        let mode = pg_sys::ShareUpdateExclusiveLock as pg_sys::LOCKMODE;
        pg_sys::LockDatabaseObject(pg_sys::ExtensionRelationId, extension, 0, mode);
    }
}

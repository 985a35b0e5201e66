//! Every error, warning and notice of this extension, one entry each: SQLSTATE, message, DETAIL and
//! HINT.
//!
//! They follow PostgreSQL's error message style guide: the message is short and factual, the cause
//! goes to DETAIL, the way out to HINT. Names of database objects are quoted where SQL needs it and
//! nowhere else, as in `sequence insta5.table_id_seq`, so that they can be copied into a statement;
//! other texts that a caller has passed stand in double quotes.
//!
//! docs/use/errors.md lists them; `error::tests` compares it with the table, and checks the style.

mod parts;
mod report;
#[cfg(test)]
mod tests;
mod unfit;
mod why_kept;

use instagram_id_core::layout::{ISSUED_MS_MAX, SEQ_MAX, SHARD_MAX};
use instagram_id_core::shortcode::Malformed;
use parts::{literal, null_hint, right, sentence};
use pgrx::PgSqlErrorCode as SqlState;
use pgrx::pg_sys::Oid;
pub use report::{listed, or_raise, report_in_one_line, shortened, shown};
use thiserror::Error;
pub use unfit::Unfit;
pub use why_kept::WhyKept;

/// How tables get ids of a shard from a sequence that an adoption cannot take.
const BESIDE_THE_SHARD: &str = "To give the tables of the function ids of the shard, lock them, use ALTER SEQUENCE ... AS bigint \
    INCREMENT 1 NO MAXVALUE NO CYCLE for its sequence, and set their defaults to next_id(shard, sequence), with the epoch of the \
    function if that is not the default.";

/// The way out for a node that must hand over a sequence and does not answer.
const IF_A_NODE_IS_LOST: &str = "After a move each node must answer once. If a node is lost, replace it by its standby with \
    citus_update_node(). If it has no tenants, you can disable it, remove it, and run SELECT * FROM \
    take_over_shards(recover => true) on each node instead.";

/// Declares [`Error`] from a table. The message of an entry becomes thiserror's `#[error(…)]`.
/// `detail(…)` and `hint(…)` contain arguments of `format!`, with the fields in scope; both may be
/// omitted, and their text may be empty. The doc comment says when the error is raised, and is
/// printed in docs/use/errors.md.
macro_rules! errors {
    ($(
        $(#[doc = $when:literal])+
        $name:ident $(( $($item:ident: $item_type:ty),+ ))? $({ $($field:ident: $field_type:ty),+ })? => $state:ident,
            $message:literal $(, detail($($detail:tt)+))? $(, hint($($hint:tt)+))?;
    )+) => {
        /// An error, a warning or a notice.
        #[derive(Debug, Error)]
        pub enum Error {
            $( $(#[doc = $when])+ #[error($message)] $name $(( $($item_type),+ ))? $({ $($field: $field_type),+ })?, )+
        }

        impl Error {
            /// SQLSTATE, DETAIL and HINT.
            #[allow(unused_variables, clippy::useless_format)]
            fn parts(&self) -> (SqlState, String, String) {
                match self {$(
                    Error::$name $(( $($item),+ ))? $({ $($field),+ })? => (
                        SqlState::$state,
                        String::new() $(+ &format!($($detail)+))?,
                        String::new() $(+ &format!($($hint)+))?,
                    ),
                )+}
            }
        }

        #[cfg(test)]
        #[allow(unused_variables)]
        const ENTRIES: &[tests::Entry] = &[$( tests::Entry {
            name: stringify!($name),
            message: $message,
            items: &[$( $(stringify!($item)),+ )?],
            when: concat!($($when),+),
            example: |values| Error::$name
                $(( $(tests::Example::example(concat!(stringify!($name), ".", stringify!($item)), values)),+ ))?
                $({ $($field: tests::Example::example(concat!(stringify!($name), ".", stringify!($field)), values)),+ })?,
        } ),+];
    };
}

errors! {
    // Arguments.

    /// A shard is not 0 to 8191.
    ShardOutOfRange(shard: i32) => ERRCODE_INVALID_PARAMETER_VALUE,
        "shard {0} is out of range",
        hint("Shards are numbered from 0 to {SHARD_MAX}.");

    /// A sequence field is not 0 to 1023.
    SeqOutOfRange(seq: i32) => ERRCODE_INVALID_PARAMETER_VALUE,
        "sequence number {0} is out of range",
        hint("Sequence numbers range from 0 to {SEQ_MAX}.");

    /// `shard_for()` is called with a number of shards other than 1 to 8192.
    ShardsOutOfRange(shards: i32) => ERRCODE_INVALID_PARAMETER_VALUE,
        "number of shards {0} is out of range",
        hint("There can be 1 to {} shards.", u32::from(SHARD_MAX) + 1);

    /// `next_ids()` is called with a count of 0 or less.
    CountOutOfRange(count: i32) => ERRCODE_INVALID_PARAMETER_VALUE,
        "count must be greater than zero",
        detail("The count is {count}.");

    /// An argument that a function needs is NULL.
    Null(argument: &'static str) => ERRCODE_NULL_VALUE_NOT_ALLOWED,
        "{0} must not be null",
        hint("{}", null_hint(argument));

    /// `create_shard()` is called with an empty name.
    NameEmpty => ERRCODE_INVALID_NAME,
        "schema name must not be empty",
        hint("Pass a name, or omit it to use the default.");

    /// `create_shard()` is called with a name that PostgreSQL keeps for itself.
    NameReserved(name: String) => ERRCODE_RESERVED_NAME,
        "unacceptable schema name \"{0}\"",
        detail("The prefix \"pg_\" is reserved for system schemas.");

    /// `create_shard()` is called with a time in the place of the schema.
    SchemaIsTime { name: String, shard: u16 } => ERRCODE_INVALID_NAME,
        "schema name \"{name}\" is a time",
        detail("The second argument of create_shard() is the name of the schema."),
        hint("To create the shard with this epoch, use SELECT create_shard({shard}, epoch => {}).", literal(name));

    /// A name is longer than PostgreSQL allows.
    NameTooLong(name: String) => ERRCODE_NAME_TOO_LONG,
        "name \"{0}\" is too long",
        hint("A name has at most 63 bytes.");

    /// A name or another text of a database with an encoding other than UTF-8 is not valid UTF-8.
    NotUtf8(text: String) => ERRCODE_FEATURE_NOT_SUPPORTED,
        "text \"{0}\" is not in UTF-8",
        hint("In a database with another encoding, use only ASCII characters in names.");

    /// A text in the catalogs, such as the default of a column, or the answer of another node is
    /// longer than 1 MB.
    TextTooLong(bytes: usize) => ERRCODE_PROGRAM_LIMIT_EXCEEDED,
        "text of {0} bytes is too long",
        detail("The extension reads texts of at most 1 MB.");

    /// The server has no memory for a list of objects.
    OutOfMemory => ERRCODE_OUT_OF_MEMORY,
        "out of memory",
        detail("The extension could not enlarge a list of objects.");

    // Times and epochs.

    /// An epoch is `infinity` or `-infinity`.
    EpochInfinite => ERRCODE_DATETIME_FIELD_OVERFLOW,
        "epoch must be finite";

    /// A shard is created or adopted with an epoch in the future, or one so old that new ids would
    /// be negative; or `create_id_partitions()` is called with one by which no period has ids.
    EpochUnworkable { epoch: String, is_future: bool, earliest: String, now: String } => ERRCODE_DATETIME_FIELD_OVERFLOW,
        "epoch {epoch} cannot be used to generate ids",
        detail("{}", if *is_future { "It is in the future." } else { "Ids would be negative by now." }),
        hint("Use an epoch from {earliest} to {now}.");

    /// A time is `infinity` or `-infinity`.
    TimeInfinite(time: String) => ERRCODE_DATETIME_FIELD_OVERFLOW,
        "time {0} is not finite",
        hint("Pass a finite time. For a range without an end, compare the id with id_floor() of the other end.");

    /// A time is before the epoch.
    TimeBeforeEpoch { time: String, epoch: String } => ERRCODE_DATETIME_FIELD_OVERFLOW,
        "time {time} is before the epoch {epoch}",
        detail("The smallest id has the time of the epoch."),
        hint("For older rows, use a shard with an earlier epoch.");

    /// A time is more than 2^41 ms after the epoch.
    TimePastField { time: String, epoch: String } => ERRCODE_DATETIME_FIELD_OVERFLOW,
        "time {time} is out of range for the epoch {epoch}",
        detail("The time field of an id has 41 bits, which hold 69.7 years of milliseconds from the epoch."),
        hint("Use a later epoch.");

    /// The time of an id is past what a `timestamptz` holds.
    IdTimeOutOfRange { id: i64, epoch: String } => ERRCODE_DATETIME_FIELD_OVERFLOW,
        "time of id {id} is out of range for the epoch {epoch}",
        hint("Use the epoch that the id was generated with.");

    /// `id_between()` or `id_range_end()` is called with a range in which ids turn negative.
    RangeTurnsNegative { from: String, to: String } => ERRCODE_DATETIME_FIELD_OVERFLOW,
        "ids from {from} to {to} do not form one range",
        detail("Between these times ids turn negative."),
        hint("No ids are issued after that. For all ids from a time on, use id >= id_floor(time).");

    /// An id is generated, and the sequence has no time of its own to continue from.
    ClockBeforeEpoch { time: String, epoch: String } => ERRCODE_DATETIME_FIELD_OVERFLOW,
        "clock is before the epoch {epoch}",
        detail("The clock of the server is at {time}."),
        hint("Correct the clock, or use an epoch in the past.");

    /// An id is generated 2^40 ms after the epoch or later, where ids would turn negative.
    ClockPastField { time: String, epoch: String } => ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
        "clock is 2^40 ms or more past the epoch {epoch}",
        detail("The clock of the server is at {time}. Ids are issued for 34.8 years from their epoch."),
        hint("Use a later epoch, or correct the clock.");

    // Ids and short codes.

    /// `advance_shard()` is called with a negative id.
    IdNegative(id: i64) => ERRCODE_INVALID_PARAMETER_VALUE,
        "id {0} is negative",
        detail("Shards generate no negative ids.");

    /// `advance_shard()` is called with an id of another shard.
    IdOfAnotherShard { id: i64, id_shard: u16, shard: u16 } => ERRCODE_INVALID_PARAMETER_VALUE,
        "id {id} belongs to shard {id_shard}, not to shard {shard}",
        hint("Pass an id of shard {shard}, or advance shard {id_shard}.");

    /// `advance_shard()` is called with the last id that a shard can have.
    IdIsTheLast(id: i64) => ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
        "no id is greater than {0}",
        detail("The shard would have no ids left.");

    /// `shortcode_to_id()` is called with a text that is not a short code.
    ShortcodeMalformed { code: String, why: Malformed } => ERRCODE_INVALID_TEXT_REPRESENTATION,
        "invalid short code \"{code}\"",
        detail("{}", match why {
            Malformed::Empty => "It is empty.".into(),
            Malformed::NoDigit(char) => {
                format!("The character \"{}\" is not a digit of short codes.", shortened(&char.to_string()))
            }
            Malformed::Overflow => "It stands for more than 64 bits.".into(),
        }),
        hint("A short code has 1 to 11 of the characters A-Z, a-z, 0-9, - and _, as id_to_shortcode() returns it.");

    /// `backfill_id()` has more than 1024 rows of a shard with the same millisecond.
    MillisecondFull { time: String, shard: u16 } => ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
        "millisecond {time} of shard {shard} is full",
        detail("A millisecond of a shard has room for {} ids.", SEQ_MAX + 1),
        hint("Spread rows that share a time over the milliseconds after it, or give some of them another shard.");

    /// The window of `backfill_id()` is not in the order of the rows' times.
    TimeGoesBack { time: String, shard: u16 } => ERRCODE_INVALID_PARAMETER_VALUE,
        "time {time} of shard {shard} follows a later time",
        hint("Call backfill_id() OVER (ORDER BY that time), with one epoch for each shard. If you use PARTITION BY, use only the \
            shard.");

    /// `backfill_id()` is not called as a window function.
    NotOverWindow => ERRCODE_WRONG_OBJECT_TYPE,
        "backfill_id() requires an OVER clause",
        hint("Call it OVER (ORDER BY the time of the rows).");

    /// `_next_id()` is called, which has no meaning of its own.
    OnlyOutsideQueries => ERRCODE_FEATURE_NOT_SUPPORTED,
        "invalid use of _next_id()",
        detail("PostgreSQL calls it in place of next_id() in the default of a column."),
        hint("Call next_id() with the other arguments.");

    // Shards.

    /// `next_id()` is called without a shard, and no setting names one.
    ShardNotSet => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "instagram_id.shard is not set",
        hint("Name the shard, as in next_id(5), or set it with SET instagram_id.shard = 5.");

    /// No schema of the database defines the shard: a wrong number, another database, or the schema
    /// was dropped.
    ShardMissing { shard: u16, schema: String, schema_exists: bool } => ERRCODE_UNDEFINED_TABLE,
        "shard {shard} does not exist",
        detail("Schema {schema} does not {}.", if *schema_exists { "define it" } else { "exist" }),
        hint("{}", if *schema_exists {
            format!("Create the shard in that schema with SELECT create_shard({shard}, if_not_exists => true). If the schema runs \
                the PL/pgSQL original, adopt it with SELECT * FROM adopt_shard({shard}).")
        } else {
            format!("Create the shard with SELECT create_shard({shard}).")
        });

    /// Several schemas define the shard, say after one was copied.
    ShardAmbiguous { shard: u16, definitions: Vec<String> } => ERRCODE_AMBIGUOUS_FUNCTION,
        "shard {shard} is defined by more than one schema",
        detail("The functions that define it are {}.", listed(definitions, ", ")),
        hint("Keep the function of the shard that you trust, and drop the others.");

    /// `create_shard()` is called for a shard that exists.
    ShardExists { shard: u16, schema: String } => ERRCODE_DUPLICATE_OBJECT,
        "shard {shard} already exists",
        detail("Its schema is {schema}."),
        hint("Use if_not_exists => true to keep what the shard has and create what it lacks.");

    /// `create_shard()` is called for a shard of a role that the caller has no reason to trust.
    ShardOfAnother { shard: u16, function: String, owner: String, schema: Option<String> } => ERRCODE_DUPLICATE_OBJECT,
        "shard {shard} already exists",
        detail("Function {function} of role {owner} defines it."),
        hint("{}", match schema {
            Some(name) => format!("If role {owner} is trusted, use if_not_exists => true and schema => {}. Otherwise use DROP \
                ROUTINE {function}.", literal(name)),
            None => format!("Choose another number. If role {owner} is not trusted, you can use DROP ROUTINE {function}."),
        });

    /// A shard belongs to a role that the caller, or the owner of the table that would use it, has
    /// no reason to trust.
    ShardNotTrusted { shard: u16, function: String, owner: String, role: String, is_caller: bool } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "shard {shard} belongs to role {owner}",
        detail("Its functions run with the rights of their callers, such as {role}. Role {owner} can replace them, and has the \
            rights neither of role {role} nor of the owner of the schema."),
        hint("{} If nobody trusts role {owner}, use DROP ROUTINE {function}.", if *is_caller {
            format!("Call this as role {owner}, or as a role whose rights it has.")
        } else {
            format!("Use a shard of role {role}, which owns the table.")
        });

    /// A shard is created, adopted or used by a table in a schema of a role that the caller has no
    /// reason to trust.
    SchemaNotTrusted { shard: u16, schema: String, name: String, owner: String, role: String } =>
        ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "schema {schema} belongs to role {owner}",
        detail("Functions of shard {shard} run with the rights of their callers, such as {role}. Role {owner} can replace the \
            functions in its schema, and lacks the rights of role {role}."),
        hint("If role {owner} is trusted, name the schema with schema => {}.", literal(name));

    /// An object in the schema looks like a part of the shard, and belongs to a role without the
    /// rights of the shard's owner.
    PartOfAnother { kind: &'static str, name: String, owner: String, shard: u16, role: String } =>
        ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "{kind} {name} belongs to role {owner}",
        detail("Shard {shard} belongs to role {role}, whose rights role {owner} lacks."),
        hint("{}.", match *kind {
            "sequence" => format!("If role {owner} is trusted, use ALTER SEQUENCE {name} OWNER TO {role}, and revoke the privileges that it \
                has granted. Otherwise use DROP SEQUENCE {name}"),
            _ => format!("If role {role} is trusted, and role {owner} is not, use DROP ROUTINE {name}"),
        });

    /// `adopt_shard()` finds an original of a role that the caller has no reason to trust.
    OriginalNotTrusted { function: String, owner: String, role: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "function {function} belongs to role {owner}",
        detail("It runs with the rights of its callers, such as {role}. Role {owner} can replace it, and has the rights neither of \
            role {role} nor of the owner of the schema."),
        hint("If role {owner} is trusted, name the function with function => {}.", literal(function));

    /// A schema, a sequence or a function was renamed or replaced while a shard was created,
    /// completed, claimed or used.
    ShardChanged(shard: u16) => ERRCODE_OBJECT_IN_USE,
        "shard {0} changed concurrently",
        hint("Try again.");

    /// A function that creates, adopts or restores a shard has waited for 10 seconds, or for
    /// `lock_timeout` if that is shorter.
    NumberLocked(shard: u16) => ERRCODE_LOCK_NOT_AVAILABLE,
        "could not obtain the lock on shard number {0}",
        detail("A transaction is still open that has created, adopted or unadopted a shard of this number, or of one that differs \
            by a multiple of 256."),
        hint("Try again when it has ended; it is listed in pg_locks, or in pg_prepared_xacts.");

    /// `create_shard()` is called with `if_not_exists`, and the shard has another schema or epoch.
    ShardDiffers { shard: u16, what: &'static str, is: String, asked: String } => ERRCODE_DUPLICATE_OBJECT,
        "shard {shard} already exists with a different {what}",
        detail("Its {what} is {is}, not {asked}."),
        hint("Omit the {what} to use the shard as it is.");

    /// `adopt_table()` is called with another schema than that of the shard.
    ShardInAnotherSchema { shard: u16, is: String, asked: String } => ERRCODE_INVALID_PARAMETER_VALUE,
        "shard {shard} is not in schema {asked}",
        detail("Its schema is {is}.");

    /// `create_shard()` finds an `epoch()` in the schema that returns another epoch than the one
    /// passed.
    EpochDiffers { schema: String, is: String, asked: String } => ERRCODE_DUPLICATE_OBJECT,
        "function {schema}.epoch() already exists with a different epoch",
        detail("It returns {is}, not {asked}."),
        hint("Omit the epoch to use that one.");

    /// `create_shard()` is called without an epoch for a schema with a sequence that has generated
    /// ids, and `epoch()` is missing there.
    EpochUnknown { schema: String, sequence: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot determine the epoch of sequence {sequence}",
        detail("The sequence has generated ids, and no function {schema}.epoch() of the shard shows it."),
        hint("Pass the epoch of these ids in the argument epoch. A shard created without one counts from 2011-08-24 21:07:01.721+00.");

    /// `create_shard()` is called without `if_not_exists` for a schema that exists.
    SchemaExists { shard: u16, schema: String, name: String } => ERRCODE_DUPLICATE_SCHEMA,
        "schema {schema} already exists",
        hint("Use if_not_exists => true to create the shard in it. If it runs the PL/pgSQL original, adopt that with \
            SELECT * FROM adopt_shard({shard}, {}).", literal(name));

    /// The schema has a function with the name of one that the shard needs.
    FunctionExists { function: String, shard: u16 } => ERRCODE_DUPLICATE_FUNCTION,
        "function {function} already exists",
        detail("It is not the function that shard {shard} needs."),
        hint("{}", if function.ends_with(".next_id()") {
            format!("Drop it when all sessions that use it have ended. If it is the PL/pgSQL original, adopt it with \
                SELECT * FROM adopt_shard({shard}, function => {}).", literal(function))
        } else {
            "Rename or drop it.".to_owned()
        });

    /// `adopt_shard()` of a function that was adopted before, with another sequence, which nothing
    /// would open again.
    KeptElsewhere { function: String, sequence: String } => ERRCODE_DUPLICATE_FUNCTION,
        "function {function} already exists",
        detail("It is an original that an adoption has kept, and its sequence {sequence} is closed to nextval()."),
        hint("If nothing else generates ids from that, use ALTER SEQUENCE {sequence} INCREMENT 1. Then drop {function}.");

    /// A shard is created or adopted in the schema that the extension is installed in.
    SchemaOfExtension(shard: u16) => ERRCODE_DUPLICATE_FUNCTION,
        "shard {0} cannot share a schema with the extension",
        detail("Functions of the extension have names that the shard needs."),
        hint("Create the shard in a schema of its own. Or move the extension to one, as a superuser, with BEGIN; CREATE SCHEMA ids; \
            GRANT USAGE ON SCHEMA ids TO PUBLIC; ALTER EXTENSION instagram_id SET SCHEMA ids; COMMIT.");

    /// `adopt_table()` finds that functions of the shard were dropped.
    ShardIncomplete { shard: u16 } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "functions of shard {shard} are missing",
        hint("Create them with create_shard() and if_not_exists => true.");

    // Sequences.

    /// A sequence does not exist, or was dropped meanwhile.
    SequenceMissing(sequence: Oid) => ERRCODE_UNDEFINED_TABLE,
        "sequence with OID {0} does not exist",
        hint("Create a sequence with CREATE SEQUENCE, or a shard with its sequence with create_shard().");

    /// A relation that is passed as a sequence, or that an adopted function names as one, is of
    /// another kind, such as a table.
    NotSequence(name: String) => ERRCODE_WRONG_OBJECT_TYPE,
        "relation {0} is not a sequence",
        hint("Pass a sequence. If the relation has the name that the sequence of a shard needs, rename it.");

    /// The sequence was created or altered so that its value cannot follow the clock.
    Unfit { name: String, unfit: Unfit } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "sequence {name} cannot be used to generate ids",
        detail("{}", unfit.sentences()),
        hint("Use ALTER SEQUENCE {name}{}.", unfit.clauses());

    /// The shard is being moved to another server, or was, and the client uses the old one.
    ClosedByMove { name: String, max: i64 } => ERRCODE_READ_ONLY_SQL_TRANSACTION,
        "sequence {name} is closed",
        detail("It ends at MAXVALUE {max}, as after a move of its shard to another server."),
        hint("Generate ids on that server. If no other place generates ids of the shard, open the sequence with \
            ALTER SEQUENCE {name} AS bigint NO MAXVALUE.");

    /// The file of the sequence is damaged.
    BadMagic(name: String) => ERRCODE_DATA_CORRUPTED,
        "bad magic number in sequence {0}",
        hint("Restore the sequence from a backup, or drop it and create it again.");

    /// The sequence has reached the end of the time field, 34.8 years after the epoch, or was set
    /// there.
    Exhausted { name: String, last_value: i64, min_value: i64 } => ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
        "reached the last id of sequence {name}",
        detail("Its last value is {last_value}. Ids end {ISSUED_MS_MAX} ms after the epoch, where they would turn negative."),
        hint("If setval() or a wrong clock took the sequence there, and no table has ids that are ahead of the clock, use SELECT \
            setval({}, {min_value}, false) to let it follow the clock again.",
            literal(name));

    /// `node_next_id()` is called for the sequence of a shard.
    SequenceOfAShard(name: String) => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "sequence {0} is used by next_id()",
        hint("Pass node_next_id() a sequence that nothing else uses.");

    /// An id is generated in a read-only transaction, or on a standby.
    ReadOnly { name: String, standby: bool } => ERRCODE_READ_ONLY_SQL_TRANSACTION,
        "cannot change sequence {name} in a read-only transaction",
        detail("{}", if *standby { "This server is a standby." } else { "Each id that is generated changes the sequence." }),
        hint("{}", if *standby { "Generate ids on the primary." } else { "Use a READ WRITE transaction." });

    /// An id is generated in a parallel worker, or while parallel workers run.
    Parallel(name: String) => ERRCODE_INVALID_TRANSACTION_STATE,
        "cannot change sequence {0} during a parallel operation",
        hint("Generate ids in a query that does not run in parallel.");

    // Privileges.

    /// The caller has lost the rights of the owner of what it changes, while it waited.
    RightsRevoked(role: String) => ERRCODE_INSUFFICIENT_PRIVILEGE,
        "permission denied to act as role {0}";

    /// The role may not use the sequence.
    NoRightOnSequence { name: String, role: String, update: bool } => ERRCODE_INSUFFICIENT_PRIVILEGE,
        "permission denied for sequence {name}",
        detail("Role {role} lacks {} on it.", right(*update)),
        hint("Use GRANT {} ON SEQUENCE {name} TO {role}.", right(*update));

    /// A role with USAGE on a sequence calls `next_id()` with another shard or epoch than the
    /// sequence serves.
    SequenceServesAnother { name: String, shard: u16, serves: bool, epoch: String, role: String } =>
        ERRCODE_INSUFFICIENT_PRIVILEGE,
        "permission denied for sequence {name}",
        detail("It {} shard {shard} with the epoch {epoch}, and role {role} lacks UPDATE on it.",
            if *serves { "serves" } else { "is in the schema of" }),
        hint("{} With GRANT UPDATE ON SEQUENCE {name} TO {role} it can be used for any {}epoch.",
            if *serves { format!("Use next_id({shard}), or another sequence.") } else { "Use that epoch, or a sequence in another schema.".into() },
            if *serves { "shard and " } else { "" });

    /// A role with USAGE on a sequence calls `next_id()` with it, and the sequence counts from a
    /// small number. With `next_id()` it would jump to the present, for all that use it.
    SequenceIsCounter { name: String, last_value: i64, role: String } => ERRCODE_INSUFFICIENT_PRIVILEGE,
        "permission denied for sequence {name}",
        detail("Its last value {last_value} is that of a counter, and role {role} lacks UPDATE on it."),
        hint("Use another sequence. If this one should generate ids, call next_id() with it once as its owner.");

    /// The role may not use the schema of the shard, or that of the extension.
    NoRightOnSchema { name: String, role: String } => ERRCODE_INSUFFICIENT_PRIVILEGE,
        "permission denied for schema {name}",
        detail("Role {role} lacks USAGE on it."),
        hint("Use GRANT USAGE ON SCHEMA {name} TO {role}.");

    /// `create_shard()` is called by a role that may not create a schema.
    NoCreateOnDatabase { name: String, role: String } => ERRCODE_INSUFFICIENT_PRIVILEGE,
        "permission denied for database {name}",
        detail("Role {role} lacks CREATE on it."),
        hint("Use GRANT CREATE ON DATABASE {name} TO {role}.");

    /// `create_shard()` is called by a role that may not create the shard in an existing schema, or
    /// `adopt_shard()` for a function whose owner may not create others beside it.
    NoCreateOnSchema { name: String, role: String } => ERRCODE_INSUFFICIENT_PRIVILEGE,
        "permission denied for schema {name}",
        detail("Role {role} lacks CREATE on it."),
        hint("Use GRANT CREATE ON SCHEMA {name} TO {role}.");

    /// The shard, or the function to adopt, belongs to another role.
    NotOwner(function: String) => ERRCODE_INSUFFICIENT_PRIVILEGE,
        "must be owner of function {0}",
        hint("Ask its owner or a superuser.");

    /// The table belongs to another role.
    NotTableOwner(table: String) => ERRCODE_INSUFFICIENT_PRIVILEGE,
        "must be owner of table {0}",
        hint("Ask its owner or a superuser.");

    /// `create_shard()` finds a sequence of another role in the schema.
    NotSequenceOwner(sequence: String) => ERRCODE_INSUFFICIENT_PRIVILEGE,
        "must be owner of sequence {0}",
        hint("Ask its owner or a superuser.");

    /// `adopt_table()` finds a role that can insert into the table but could not generate ids.
    WriterWithoutRights { role: String, table: String, schema: String, grants: Vec<String> } => ERRCODE_INSUFFICIENT_PRIVILEGE,
        "role {role} cannot generate ids of schema {schema}",
        detail("It can insert into {table}, whose default would call {schema}.next_id()."),
        hint("If these roles may generate ids of the schema, use {}. Otherwise revoke INSERT from them.", listed(grants, "; "));

    /// `adopt_shard()` finds roles that can generate ids now, and could not afterwards.
    CallersWithoutExecute { function: String, needs: String, roles: Vec<String> } => ERRCODE_INSUFFICIENT_PRIVILEGE,
        "callers of function {function} lack EXECUTE on {needs}",
        detail("Function {function} would call it for these roles: {}.", listed(roles, ", ")),
        hint("Use GRANT EXECUTE ON FUNCTION {needs} TO {}.", listed(roles, ", "));

    /// `adopt_shard()` or `unadopt_shard()` finds that the owner of the function does not own the
    /// sequence.
    SequenceOfAnother { name: String, function: String } => ERRCODE_INSUFFICIENT_PRIVILEGE,
        "sequence {name} does not belong to the owner of function {function}",
        hint("If both owners are trusted, give both to one role with ALTER ... OWNER TO.");

    /// The owner of the function that defines a shard does not own the sequence of the shard.
    DefinitionOfAnother { name: String, function: String, owner: String, shard: u16, schema: String, role: String } =>
        ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "sequence {name} does not belong to the owner of function {function}",
        detail("The function defines shard {shard}. It belongs to role {owner}, and the sequence to role {role}."),
        hint("If role {owner} is not trusted, use DROP ROUTINE {function}. If the sequence is that of shard {shard}, complete the shard then \
            with create_shard({shard}, {}, if_not_exists => true). If both roles are trusted, give both to one of them.", literal(schema));

    // Adoption.

    /// The schema passed to `adopt_shard()` does not exist.
    SchemaMissing(schema: String) => ERRCODE_INVALID_SCHEMA_NAME,
        "schema {0} does not exist",
        hint("Name the schema with schema => '...'.");

    /// The function passed to `adopt_shard()` does not exist.
    FunctionMissing(function: Oid) => ERRCODE_UNDEFINED_FUNCTION,
        "function with OID {0} does not exist",
        hint("Name a function of a role that you trust in the argument function.");

    /// The function does something else than the PL/pgSQL function that Instagram published.
    NotOriginal { function: String, why: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "function {function} is not the PL/pgSQL original",
        detail("Function {function} {why}."),
        hint("If its ids have the published form, write the function plainly in this form, and adopt it then: \
            ((milliseconds - epoch) << 23) | (shard << 10) | (nextval('sequence') % 1024). Otherwise create a new shard, and use \
            that in the defaults of the tables.");

    /// The function passed to `adopt_shard()` takes arguments, such as a sequence for each table.
    OriginalTakesArguments { function: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "function {function} is not the PL/pgSQL original",
        detail("Function {function} takes arguments."),
        hint("{BESIDE_THE_SHARD}");

    /// `adopt_shard()` finds no function to adopt in the schema.
    OriginalMissing { schema: String, reasons: Vec<String> } => ERRCODE_UNDEFINED_FUNCTION,
        "schema {schema} does not contain the PL/pgSQL original",
        detail("{}", reasons.join(" ")),
        hint("Name a function of a role that you trust in the argument function.");

    /// `adopt_shard()` finds several functions to adopt in the schema.
    OriginalAmbiguous { functions: String } => ERRCODE_AMBIGUOUS_FUNCTION,
        "more than one function could be the PL/pgSQL original",
        detail("Candidates are {functions}."),
        hint("Name a function of a role that you trust in the argument function.");

    /// The body of the function does not plainly name its shard, sequence or epoch.
    OriginalSilent { function: String, constant: &'static str } => ERRCODE_NULL_VALUE_NOT_ALLOWED,
        "cannot determine the {constant} of function {function}",
        detail("{}", if *constant == "sequence" { "Its body names no sequence of the database as a constant, or several have that name.".into() }
            else { format!("Its body does not name the {constant} as a constant.") }),
        hint("Pass the {constant} as an argument.");

    /// An argument of `adopt_shard()` contradicts the function.
    OriginalDiffers { function: String, constant: &'static str, read: String, asked: String } => ERRCODE_INVALID_PARAMETER_VALUE,
        "function {function} has a different {constant}",
        detail("Its {constant} is {read}, not {asked}."),
        hint("Omit the {constant} to use that of the function.");

    /// `adopt_shard()` is called for a shard that has nothing to adopt.
    AdoptedAlready { shard: u16, schema: String, is_adopted: bool } => ERRCODE_DUPLICATE_OBJECT,
        "shard {shard} already exists",
        detail("Schema {schema} {}.", if *is_adopted { "was adopted before" } else { "has no function to adopt" }),
        hint("{}", if *is_adopted { format!("To restore the original, use SELECT unadopt_shard({shard}).") } else { String::new() });

    /// `adopt_shard()` is called for a function whose shard is in another schema.
    ShardElsewhere { shard: u16, schema: String, function: String } => ERRCODE_DUPLICATE_OBJECT,
        "shard {shard} already exists",
        detail("Its schema is {schema}, and function {function} is in another one."),
        hint("A shard has one schema. {BESIDE_THE_SHARD}");

    /// `adopt_shard()` is called for a function whose epoch or sequence is not that of its shard.
    AdoptionDiffers { function: String, what: &'static str, read: String, shard: u16, is: String } => ERRCODE_DUPLICATE_OBJECT,
        "function {function} has another {what} than shard {shard}",
        detail("The {what} of the function is {read}, that of the shard {is}."),
        hint("A shard has one epoch, and its next_id() uses its sequence. Change the function, or adopt it with a shard number \
            of its own.");

    /// A value in the table is more than a minute ahead of the clock, and new ids would follow it.
    KeyAhead { key: i64, column: String, time: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "key {key} in column {column} is ahead of the clock",
        detail("As an id it has the time {time}, and new ids would have to be greater."),
        hint("If it is not an id, delete or renumber its row in a session of the table's owner. If the clock is wrong, correct it. \
            If you trust the key, and new ids may carry future timestamps until then, first take the sequence above it.");

    /// `unadopt_shard()` is called while ids carry future timestamps.
    ShardAhead { shard: u16, ahead: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "shard {shard} is {ahead} ahead of the clock",
        detail("The original follows the clock, and would repeat ids."),
        hint("Try again when the clock has caught up.");

    /// `unadopt_shard()` is called after the sequence that the original names, or its schema, was
    /// renamed.
    OriginalNamesAnother { kept: String, named: String, sequence: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot restore the original of function {kept}",
        detail("Its body names the sequence \"{named}\", and the shard uses {sequence}."),
        hint("Give the schema and the sequence their former names, or replace the body of {kept} by one that names {sequence}.");

    /// `adopt_shard()` or `unadopt_shard()` finds that a migration has replaced an adopted
    /// function.
    AdoptedReplaced { function: String, kept: String, shard: u16 } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "function {function} was replaced since its adoption",
        detail("It does not generate ids of shard {shard} by the extension, and need not use the sequence that was adopted."),
        hint("If it is the PL/pgSQL original again, adopt it first with SELECT * FROM adopt_shard({shard}, function => {}). \
            If you need {kept} no longer, drop it.", literal(function));

    /// `adopt_shard()` or `unadopt_shard()` finds no function that was adopted, and its original.
    AdoptedDropped { function: String, kept: String, name: String, owner: String, other: Option<String> } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "function {function} was dropped, renamed or given away since its adoption",
        detail("Its original is kept as {kept}.{}", other.as_ref().map_or_else(String::new, |other| format!(" The function of that name belongs to role {other}."))),
        hint("{}ALTER FUNCTION {kept} RENAME TO {name}, grant EXECUTE on it as before, and adopt the shard again. \
            If {kept} is no original of an adopted function, or you need it no longer, rename or drop it.",
            other.as_ref().map_or_else(|| "If it was renamed, give it back its name. If it was dropped, use ".to_owned(), |other| format!(
                "If it was given to role {other}, and you trust that, use ALTER FUNCTION {function} OWNER TO {owner}. \
                If it was dropped, use DROP FUNCTION {function} and ")));

    /// `drop_old_id_partitions()`, `unadopt_shard()` or `adopt_table()` of an identity would drop
    /// what an object needs, such as a view of any role.
    DependsOnDropped { by: String, on: String, can_detach: bool } => ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
        "{by} depends on {on}",
        detail("The call would drop {on}."),
        hint("Drop {by} first{}.", if *can_detach { ", or use detach => true" } else { "" });

    /// `unadopt_shard()` is called for a shard without an original.
    NotAdopted { shard: u16, schema: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "shard {shard} has no original to restore",
        detail("Schema {schema} contains no adopted function whose original is kept."),
        hint("If a function generates ids in the original way again, adopt it again first.");

    /// `unadopt_shard()` would drop the definition of a shard that a column names by its number.
    UsedByNumber { shard: u16, column: String, owner: String } => ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
        "column {column} needs shard {shard}",
        detail("Its default or a trigger names the shard by its number, and the shard would be dropped."),
        hint("Let role {owner} give it another default, and drop a trigger of the table that calls next_id_trigger().");

    /// `unadopt_shard()` finds the default of a column, or a function, that generates ids from the
    /// sequence of the original, and would still do so.
    StillUsed { name: String, other: String } => ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
        "sequence {name} is also used by {other}",
        detail("It could still generate ids from the sequence, by another rule than the original, so ids of both could be the same."),
        hint("Change it not to name the sequence.");

    /// An adoption has waited for transactions that use the tables or the sequence: for 10 seconds,
    /// or for `lock_timeout` if that is shorter.
    WritersBusy { name: String } => ERRCODE_LOCK_NOT_AVAILABLE,
        "could not obtain locks against writers",
        detail("Transactions that have used {name} are still open."),
        hint("Try again when they have ended; they are listed in pg_locks, or in pg_prepared_xacts.");

    /// While `adopt_shard()` or `unadopt_shard()` keeps writers out, it has waited half a second
    /// for another transaction that creates or changes a function.
    FunctionsLocked { shard: u16, function: String, schema: String, kept: String } =>
        ERRCODE_LOCK_NOT_AVAILABLE,
        "could not change the functions of shard {shard}",
        detail("Another transaction is still open that creates, changes or grants {function}, or a function named {kept}, epoch, \
            id_time or shard_{shard} in schema {schema}."),
        hint("Try again when it has ended; it is listed in pg_locks, or in pg_prepared_xacts.");

    /// A function that needs the newest key of a table, or creates or removes partitions, has
    /// waited for the table, one that is connected with it by a foreign key, or a sequence that it
    /// drops. Or a function that changes a shard has waited for its sequence or a function of it:
    /// for 10 seconds, or for `lock_timeout` if that is shorter.
    ObjectLocked { object: String, owner: String } => ERRCODE_LOCK_NOT_AVAILABLE,
        "could not obtain a lock on {object}",
        detail("Another transaction has locked, used or changed it, and is still open. It belongs to role {owner}."),
        hint("Try again when it has ended; it is listed in pg_locks, or in pg_prepared_xacts.");

    /// `adopt_table()` has waited for a view through which a role can insert into the table: for 10
    /// seconds, or for `lock_timeout` if that is shorter.
    ViewLocked { view: String, owner: String, table: String } => ERRCODE_LOCK_NOT_AVAILABLE,
        "could not obtain a lock on view {view}",
        detail("It belongs to role {owner}, which can insert into table {table} through it. Another transaction has locked or changed it, \
            and is still open."),
        hint("Try again when it has ended; it is listed in pg_locks, or in pg_prepared_xacts.");

    /// A partition function has waited for the schema of the table: for 10 seconds, or for
    /// `lock_timeout` if that is shorter, or for half a second while others wait for it.
    SchemaLocked { schema: String, owner: String } => ERRCODE_LOCK_NOT_AVAILABLE,
        "could not obtain a lock on schema {schema}",
        detail("Another transaction has renamed or dropped it, or granted a privilege on it, and is still open. Its owner, role {owner}, \
            can rename it; each role that may use it can call GRANT."),
        hint("Try again when it has ended; pg_prepared_xacts lists those that are prepared.");

    /// A partition function that attaches or detaches partitions is called by a role whose rights
    /// the table's owner lacks.
    CodeOfOwner { table: String, owner: String, caller: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "table {table} belongs to role {owner}",
        detail("Its indexes, constraints and keys can call functions of that role, which lacks rights of the current role, {caller}."),
        hint("Call the function in a session of role {owner}, or after SET ROLE {owner} if you may use that, and trust the role with your session.");

    /// `create_id_partitions()` has tried names for a partition for 10 seconds, or for
    /// `lock_timeout` if that is shorter.
    PartitionNameLocked { table: String, name: String, said: String } => ERRCODE_LOCK_NOT_AVAILABLE,
        "could not create a partition of table {table}",
        detail("None of the names {name}, {name}_2 and so on was free. The last attempt failed with: {}", sentence(said)),
        hint("Try again when other transactions that create objects of these names have ended; they are listed in pg_locks, or \
            in pg_prepared_xacts.");

    /// `adopt_shard()` or `unadopt_shard()` would have to read too many columns in a table of a
    /// role that lacks the rights of the caller.
    TooManyColumns { table: String, owner: String, count: usize, function: String, max: usize } =>
        ERRCODE_PROGRAM_LIMIT_EXCEEDED,
        "table {table} of role {owner} has {count} columns that function {function} fills",
        detail("Writers wait while they are read. A table of a role without the rights of the caller can have at most {max}."),
        hint("Let role {owner} give the others another default.");

    /// `adopt_shard()` or `unadopt_shard()` would have to lock too many tables of roles that lack
    /// the rights of the caller.
    TooManyTables { function: String, roles: Vec<String>, count: i64, max: i64 } => ERRCODE_PROGRAM_LIMIT_EXCEEDED,
        "function {function} fills {count} tables of other roles",
        detail("Their owners are {}. An adoption or its reversal locks all tables of the function together, with their partitions \
            and the tables that inherit from them. At most {max} of them and their schemas, half of what the server can lock, may belong to roles \
            without the rights of the caller.", listed(roles, ", ")),
        hint("Let the roles drop the tables or their defaults, or drop the defaults with ALTER TABLE ... ALTER COLUMN ... DROP DEFAULT.");

    /// The function, or the tables with its ids, changed while `adopt_shard()` or `unadopt_shard()`
    /// waited for locks.
    OriginalChanged(function: String) => ERRCODE_OBJECT_IN_USE,
        "function {0} or its tables changed concurrently",
        hint("Try again.");

    /// The table was renamed, replaced, moved or given to another role while `adopt_shard()`,
    /// `adopt_table()` or another function waited for it.
    TableChanged(table: String) => ERRCODE_OBJECT_IN_USE,
        "table {0} changed concurrently",
        hint("Try again.");

    /// `adopt_shard()` is called for a temporary function, or for one with a temporary sequence.
    OriginalTemporary { kind: &'static str, name: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "{kind} {name} is temporary",
        detail("The shard would end with this session."),
        hint("Use another {kind}.");

    /// The sequence that would become the clock of a shard belongs to a column, or serves the
    /// default of a column or another shard.
    SequenceShared { name: String, other: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "sequence {name} is also used by {other}",
        detail("The clock of a shard can have no other use.");

    /// `adopt_shard()` or `unadopt_shard()` finds that a clock was set to a value that is not a
    /// time, by RESTART or `setval()`, or was never used.
    ClockReset { name: String, now: i64, is_bounded: bool } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "the value of sequence {name} is not that of a clock",
        detail("It is the clock of a shard already. After RESTART or setval() nothing shows how far its ids are ahead."),
        hint("If no id is ahead of the clock, use {}SELECT setval({}, {now}). Otherwise take the value of the largest id in all \
            tables with ids from it, which is max(id) >> 23 << 10 | 1023. Leave out keys that a role has chosen.",
            if *is_bounded { format!("ALTER SEQUENCE {name} AS bigint NO MAXVALUE; ") } else { String::new() }, literal(name));

    /// Another function or procedure calls `nextval()` on the sequence.
    OriginalsShareSequence { name: String, other: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "sequence {name} is also used by {other}",
        detail("It would become the clock of the shard, which that routine must not move."),
        hint("Drop it, or change it not to call nextval() on this sequence. If it uses another sequence of this name, write the \
            schema of that sequence into its body.");

    /// `create_shard()` finds a routine that calls `nextval()` on a sequence which was there
    /// before.
    SequenceUsed { name: String, routine: String, shard: u16 } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "sequence {name} is also used by routine {routine}",
        detail("It would become the clock of the shard, which that routine must not move."),
        hint("If this is the PL/pgSQL original of the shard, adopt it with SELECT * FROM adopt_shard({shard}, function => {}). If it uses \
            another sequence of this name, write the schema of that sequence into its body.", literal(routine));

    /// The shard passed to `adopt_shard()` is not that of the newest id.
    NewestOfAnotherShard { id: i64, column: String, is: u16, asked: u16, function: String } => ERRCODE_INVALID_PARAMETER_VALUE,
        "newest id {id} in column {column} belongs to shard {is}, not to shard {asked}",
        hint("Pass the shard that the function uses. If the table has ids of several shards, write the shard into the body of \
            {function} as a constant, which is not compared with ids.");

    /// The epoch passed to `adopt_shard()` does not fit the newest id.
    NewestOfAnotherTime { id: i64, column: String, epoch: String, time: String, function: String } =>
        ERRCODE_INVALID_PARAMETER_VALUE,
        "newest id {id} in column {column} does not match the epoch {epoch}",
        detail("With this epoch its time is {time}, which is not within the last hour."),
        hint("Pass the epoch that the function uses. If this is it, insert a row with the next id of the original first, or \
            write the epoch into the body of {function} as a constant.");

    /// WARNING of `adopt_shard()`: the newest id is in a table of a role without the rights of the
    /// owner of the function, and does not match the shard or epoch that was passed.
    ClaimNotCompared { column: String, function: String } => ERRCODE_WARNING,
        "the newest id in column {column} does not match the arguments",
        detail("Only ids in tables of the owner of function {function} are compared with a shard or an epoch that is passed.");

    /// The table passed to a function does not exist.
    TableMissing(table: Oid) => ERRCODE_UNDEFINED_TABLE,
        "table with OID {0} does not exist",
        hint("Pass a table that exists.");

    /// `adopt_table()` is called for a view, a foreign table, or another relation that is not a
    /// table; or a partition of a table whose ids are adopted is a foreign table.
    NotTable { name: String, kind: &'static str } => ERRCODE_WRONG_OBJECT_TYPE,
        "relation {name} is not a table",
        detail("It is {kind}."),
        hint("{}", match *kind {
            "a view" | "a materialized view" => "Pass a table, such as the one that it selects from.",
            "a foreign table" => "Pass a table, on the server that stores the rows.",
            "a foreign partition" => "Detach it from its table, and attach it again after the call.",
            _ => "Pass a table.",
        });

    /// `adopt_table()` is called for a partition. Only rows that are inserted into it directly
    /// would get its default.
    TableIsPartition { table: String, root: String } => ERRCODE_WRONG_OBJECT_TYPE,
        "table {table} is a partition",
        detail("Rows that are inserted into table {root} would not get its default."),
        hint("Pass table {root} in its place.");

    /// A schema that Citus has distributed is adopted, or a table in it.
    SchemaDistributed { name: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "schema {name} is distributed",
        detail("Its ids are generated on the node that stores its tables, by the trigger of each table."),
        hint("Adopt it before you distribute it, or after citus_schema_undistribute().");

    /// A table that Citus manages is adopted, or given back.
    TableDistributed { name: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "table {name} is managed by Citus",
        detail("Its rows are in other tables, also on other nodes. So the newest key is not known."),
        hint("Make it a local table with SELECT undistribute_table({}, cascade_via_foreign_keys => true), call the function, and \
            distribute it again.", literal(name));

    /// `adopt_table()` is called for a column whose default generates ids of the shard already.
    HasIdsAlready { column: String, shard: u16 } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "column {column} already has ids of shard {shard}",
        hint("With dry_run => true, the result shows the statement that undoes this, if there is one.");

    /// `adopt_table()` is called for a column with ids of a shard that has another epoch.
    EpochOfKeysDiffers { column: String, epoch: String, shard: u16, is: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "column {column} has ids of another epoch than those of shard {shard}",
        detail("They count from {epoch}, and those of the shard from {is}."),
        hint("Use a shard that was created with epoch => '{epoch}'.");

    /// The column passed to `adopt_table()` does not exist.
    ColumnMissing { table: String, column: String } => ERRCODE_UNDEFINED_COLUMN,
        "column {column} of table {table} does not exist",
        hint("Name the column with \"column\" => '...'.");

    /// `adopt_table()` is called without a column for a table without a primary key of one column.
    NoPrimaryKey(table: String) => ERRCODE_UNDEFINED_COLUMN,
        "table {0} has no primary key of one column",
        hint("Name the column with \"column\" => '...'.");

    /// The column passed to `adopt_table()` cannot hold ids.
    ColumnNotBigint { table: String, column: String, type_name: String, is_integer: bool } => ERRCODE_DATATYPE_MISMATCH,
        "column {column} of table {table} is of type {type_name}, not bigint",
        hint("{}", if *is_integer {
            "Change its type to bigint in a session of the table's owner, and then that of each column that references it in a session of the owner of its table."
        } else {
            "Values of other types than smallint and integer cannot become ids. Add a column of type bigint."
        });

    /// A foreign key references the column passed to `adopt_table()` from a column that cannot hold
    /// ids.
    ReferencesNotBigint { column: String, references: Vec<String> } => ERRCODE_DATATYPE_MISMATCH,
        "columns that reference {column} are not of type bigint",
        detail("They are {}. Rows that reference a new id could not be inserted.", listed(references, ", ")),
        hint("Change their types to bigint, each in a session of the owner of its table.");

    /// A default or a rule repeats the last key of the adopted column, by `currval()` of its
    /// sequence.
    KeyRepeated { sequence: String, by: String } => ERRCODE_OBJECT_IN_USE,
        "{by} may call currval() of sequence {sequence}",
        detail("After the adoption, that would not return the last key."),
        hint("Let the owner of the table change it.");

    /// The column passed to `adopt_table()` has another default, or none. Ids of another shard
    /// count only if the default is a plain call of its `next_id()`.
    NotSerial { column: String, default: Option<String> } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "column {column} is neither serial nor identity",
        detail("{}", match default {
            Some(default) => format!("Its default is {}.", shown(default, 300)),
            None => "It has no default.".to_owned(),
        }),
        hint("Give it a default that calls nextval() of a sequence above its keys, and nothing else, and call adopt_table() again in the same transaction.");

    /// The column passed to `adopt_table()` is a generated one.
    KeyGenerated(column: String) => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "column {0} is neither serial nor identity",
        detail("It is a generated column."),
        hint("Drop its expression, which PostgreSQL permits if the column is stored, give it a default that calls nextval() of a sequence above its keys, and nothing else, and call adopt_table() again in the same transaction.");

    /// Partitions share the identity of the table passed to `adopt_table()`, and one belongs to
    /// another role than the table.
    PartitionOfAnother { partition: String, owner: String, table: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "partition {partition} belongs to role {owner}",
        detail("It shares the identity of table {table}, which has another owner, and would get the default instead."),
        hint("Let both have one owner.");

    // Partitions.

    /// A partition function is called for another kind of table.
    NotPartitionedById { table: String, why: String } => ERRCODE_WRONG_OBJECT_TYPE,
        "table {table} is not partitioned by ranges of a bigint",
        detail("{why}"),
        hint("Create it with CREATE TABLE ... (id bigint, ...) PARTITION BY RANGE (id).");

    /// `create_id_partitions()` is called with another period.
    PeriodUnknown(period: String) => ERRCODE_INVALID_PARAMETER_VALUE,
        "period \"{0}\" is not recognized",
        hint("Use 'day', 'week' or 'month'.");

    /// `create_id_partitions()` is called with a number of periods other than 0 to 10000.
    AheadOutOfRange(ahead: i32) => ERRCODE_INVALID_PARAMETER_VALUE,
        "number of periods {0} is out of range",
        hint("Pass 0 to 10000 periods after the current one.");

    /// A partition function is called without an epoch, and only a role that the table does not
    /// trust gives one.
    EpochNotTrusted { table: String, function: String, owner: String, epoch: String, role: String } =>
        ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot determine the epoch of table {table}",
        detail("Function {function} gives {epoch}, but belongs to role {owner}, which has the rights neither of role {role} nor of the \
            owner of the schema."),
        hint("Pass the epoch of the ids in the argument epoch.");

    /// A partition function is called without an epoch, and the default of the key may generate ids
    /// in a way that it does not know.
    EpochOfDefaultUnknown { table: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot determine the epoch of table {table}",
        detail("The default of its key is neither a call of next_id() alone nor the original, or it is next_id() and instagram_id.shard is not set."),
        hint("Pass the epoch of the ids in the argument epoch.");

    /// A partition function is called without an epoch, and the default of the table generates ids
    /// of a role that the table does not trust, with another epoch than that of its schema.
    EpochOfDefaultNotTrusted { table: String, function: String, epoch: String, owner: String, role: String } =>
        ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot determine the epoch of table {table}",
        detail("Its default generates ids that count from {epoch}, as function {function} says. Role {owner} can replace the function, \
            and lacks the rights of role {role}."),
        hint("If this is the epoch of the ids, pass it with epoch => '{epoch}'.");

    /// A partition function is called without an epoch for a table in a schema with several shards.
    EpochAmbiguous { table: String, schema: String, epochs: Vec<String> } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot determine the epoch of table {table}",
        detail("Shards in schema {schema} have the epochs {}.", listed(epochs, ", ")),
        hint("Pass the epoch of the ids, as in epoch => '{}'.", epochs[0]);

    /// `drop_old_id_partitions()` is called with a time in the future.
    DropsFuture(time: String) => ERRCODE_INVALID_PARAMETER_VALUE,
        "time {0} is in the future",
        hint("Pass a time in the past. Use DROP TABLE to drop a partition that is in use.");

    /// `drop_old_id_partitions()` finds no partition for new ids, so its epoch may be wrong.
    NoPresentPartition { table: String, epoch: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "table {table} has no partition for the current time",
        detail("Its ids are taken to count from the epoch {epoch}."),
        hint("If they count from another epoch, pass that as the argument epoch. Otherwise create a partition with \
            create_id_partitions() first, or drop the old ones one by one.");

    /// Without the argument epoch, `drop_old_id_partitions()` finds no partition for a time between
    /// the old ones and the present.
    PartitionsNotConnected { table: String, epoch: String, from: String, to: String } =>
        ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "table {table} has a gap between its old partitions and the present",
        detail("It is from {from} to {to}, by the epoch {epoch}. Keys before it may have another epoch, or be no ids."),
        hint("If the keys before it count from that epoch, pass it as the argument epoch. Otherwise drop the old ones one by one.");

    /// A partition function or `convert_defaults_to_triggers()` would run code of a role without
    /// the rights of the table's owner.
    TableNotTrusted { table: String, owner: String, tie: String, own: String, role: String } =>
        ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "table {table} belongs to role {owner}",
        detail("{tie} PostgreSQL would evaluate expressions of its indexes, constraints and partition key with the rights of role \
            {role}, the owner of table {own}. Role {owner} lacks these rights."),
        hint("If a foreign key connects the tables, let role {owner} drop it. Otherwise move the rows and drop the table: DETACH \
            PARTITION would evaluate these expressions, too.");

    // Triggers.

    /// A trigger with `next_id_trigger()` was created in another way than the hint shows.
    TriggerMisused => ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
        "invalid use of next_id_trigger()",
        detail("It is for triggers BEFORE INSERT FOR EACH ROW, and takes a shard and a column of type bigint."),
        hint("Create the trigger BEFORE INSERT FOR EACH ROW. Write next_id_trigger('5', 'id') with the schema of the extension.");

    /// `adopt_new_tables()` is called otherwise than by an event trigger ON ddl_command_end.
    EventTriggerMisused => ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED,
        "invalid use of adopt_new_tables()",
        detail("It is for event triggers ON ddl_command_end."),
        hint("Create the event trigger ON ddl_command_end WHEN TAG IN ('CREATE TABLE'). Write the function with the schema of the extension.");

    /// The trigger names a column that its table does not have, as after the column was renamed.
    TriggerColumnMissing { trigger: String, table: String, column: String, has_citus: bool } =>
        ERRCODE_UNDEFINED_COLUMN,
        "column {column} of table {table} does not exist",
        detail("Trigger {trigger} fills this column. It refers to the column by its name, and does not follow a rename."),
        hint("Let the owner of the table, or of the one above it that has the trigger, create it again for the present name.{}",
            if *has_citus { " That needs the setting citus.enable_unsafe_triggers." } else { "" });

    /// The trigger is on a table of which several Citus nodes store each row, such as a reference
    /// table.
    TableReplicated { table: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "table {table} cannot get ids from a trigger",
        detail("Several nodes have a copy of each row, and each node would generate an id of its own."),
        hint("Keep the default of the column, which is evaluated once for a row.");

    /// The trigger is on a table that Citus has placed on other nodes than the one that owns the
    /// sequence: one that is distributed by a column, or a single-shard table of a schema that is
    /// not distributed.
    TablePlacedElsewhere { table: String, shard: u16, column: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "table {table} cannot get ids of shard {shard} from a trigger on this node",
        detail("The table is not placed with the schema of the shard, and another node generates the ids of the shard."),
        hint("Drop the trigger, and let each node generate ids of its own: CREATE SEQUENCE table_ids; ALTER TABLE {table} ALTER \
            COLUMN {column} SET DEFAULT node_next_id('table_ids').");

    // Citus.

    /// An id is generated on a node other than the one that owns the schema.
    PlacedElsewhere { name: String, node: Option<String>, placed_on: i32, group: i32, is_of_schema: bool } =>
        ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "sequence {name} cannot be used to generate ids on this node",
        detail("{} This node is group {group}.", match (node, is_of_schema) {
            (Some(node), true) => format!("Its schema is placed on node {node} (group {placed_on})."),
            (None, true) => format!("Its schema is placed on the node of group {placed_on}."),
            (Some(node), false) => format!("Its ids are generated on node {node} (group {placed_on}), the coordinator."),
            (None, false) => "Its ids are generated on the coordinator.".into(),
        }),
        hint("{}", if *is_of_schema {
            "Use SELECT convert_defaults_to_triggers(...) for the shard: rows of tables in its schema with ids of its own sequence \
             can then be inserted from every node, and get their ids on the node that stores them. Or generate ids on that node."
        } else {
            "Insert through that node, or use node_next_id() to let each node generate ids of its own."
        });

    /// A session on a Citus cluster uses the library of an earlier version, which it loaded before
    /// the extension was upgraded.
    LibraryOutdated { version: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "extension instagram_id has been upgraded to version {version}",
        detail("This session has loaded the library of version {}. On a Citus cluster it could repeat ids of other nodes.",
            env!("CARGO_PKG_VERSION")),
        hint("Connect again. If new sessions raise this error, too, install the files of version {version} on this node.");

    /// A node has the copies of another one, as a promoted clone has until Citus has sent it its
    /// metadata. Or it no longer has this metadata, as after stop_metadata_sync_to_node().
    CopyOfAnotherGroup { name: String, group: i32 } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "sequence {name} is a copy that was made for group {group}",
        detail("By its catalogs this node is not that of the group: it is a clone, or Citus has not sent it its metadata."),
        hint("Run SELECT start_metadata_sync_to_all_nodes() on the coordinator, as a superuser.");

    /// A node of a Citus cluster takes a sequence over in a transaction that has altered it before.
    SequenceAltered { name: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot take over sequence {name} in this transaction",
        detail("The transaction has altered the sequence. A rollback would undo what other nodes rely on."),
        hint("Commit, and try again.");

    /// A node of a Citus cluster generates the first id of a sequence, and the coordinator has not
    /// added itself to the cluster.
    CoordinatorUnknown { name: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot take over sequence {name}",
        detail("The coordinator is not in pg_dist_node."),
        hint("Run SELECT citus_set_coordinator_host('its name') on the coordinator.");

    /// The node that generated the ids of the sequence last was removed from the cluster.
    LastHolderLost { name: String, group: i32 } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot take over sequence {name}",
        detail("The node of group {group} was the last to generate ids from it, and is not an active node of the cluster."),
        hint("Activate that node again: no other node has all ids of the sequence. If it is lost for good \
            and has no tenants, disable it with citus_disable_node(), remove it with citus_remove_node(), and run SELECT * FROM \
            take_over_shards(recover => true) on each node. Or call advance_shard() with the largest id that it can have \
            generated. For a sequence of your own, use a new one in its place, whose ids begin at the clock.");

    /// The node that generated the ids of the sequence last has a new copy of it.
    LastHolderReplaced { name: String, group: i32 } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot take over sequence {name}",
        detail("The node of group {group} was the last to generate ids from it, but its copy is a new one: the \
            sequence was created anew there, as on a new server."),
        hint("Run SELECT * FROM take_over_shards(recover => true) on each node, or call advance_shard() with the largest id \
            that the node can have generated.");

    /// The node that generated the ids of the sequence last is disabled.
    LastHolderDisabled { name: String, group: i32 } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot take over sequence {name}",
        detail("The node of group {group} was the last to generate its ids, and is disabled."),
        hint("Activate it with citus_activate_node(). If it is lost for good and has no tenants, remove it with \
            citus_remove_node(), and run SELECT * FROM take_over_shards(recover => true) on each node, or call advance_shard() \
            again.");

    /// `nextval()`, `setval()` or a dump has overwritten every closed copy of the sequence.
    LastHolderUnknown { name: String } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot take over sequence {name}",
        detail("No copy records which node was the last to generate its ids: nextval(), setval() or a dump has overwritten \
            the record."),
        hint("Run SELECT * FROM take_over_shards(recover => true) on each node, or call advance_shard() with the largest id in \
            the tables of the shard. Leave out keys that a role has chosen. For a sequence of your own, use a new one in its place, whose ids begin at the clock.");

    /// After a move, a node cannot be asked for its copy of the sequence.
    NodeNotReached { name: String, node: String, group: i32, role: String, said: String } => ERRCODE_CONNECTION_EXCEPTION,
        "node {node} did not hand over sequence {name}",
        detail("The request to group {group} was made as role {role}. {}", sentence(said)),
        hint("After a move each node must accept a connection of this role: the role that generates the id if it has UPDATE on \
            the sequence, otherwise the owner of the sequence. It must be able to log in there. If the node is lost, \
            replace it by its standby with citus_update_node(). If it has no tenants, you can disable it, remove it, and run \
            SELECT * FROM take_over_shards(recover => true) on each node instead.");

    /// After a move, a node refuses to close its copy of the sequence, or to record the new holder.
    NotHandedOver { name: String, node: String, role: String, said: String } => ERRCODE_CONNECTION_EXCEPTION,
        "node {node} did not hand over sequence {name}",
        detail("The request was made as role {role}. {}", sentence(said)),
        hint("The role needs UPDATE on the sequence there. If the sequence was locked, try again. If Citus has not sent its \
            metadata to that node, run SELECT start_metadata_sync_to_all_nodes() on the coordinator.");

    /// The first id of a sequence is generated before the other nodes have the sequence.
    SequenceNotOnNode { name: String, node: String } => ERRCODE_CONNECTION_EXCEPTION,
        "node {node} did not hand over sequence {name}",
        detail("The sequence does not exist there, belongs to another role there, or the transaction that creates or distributes it is not committed."),
        hint("Commit first: insert the first row in another transaction than the one that creates or distributes the shard.");

    /// A node of a Citus cluster has another version of the extension, or none.
    NodeOutdated { name: String, node: String } => ERRCODE_CONNECTION_EXCEPTION,
        "node {node} did not hand over sequence {name}",
        detail("Version {} or later of instagram_id is not installed there.", env!("CARGO_PKG_VERSION")),
        hint("Install the files of this version there, and run ALTER EXTENSION instagram_id UPDATE.");

    /// A sequence was not taken over within the time that the setting
    /// `instagram_id.take_over_timeout` allows, or `take_over_shards()` for the wait for another
    /// session.
    TakeOverTimedOut { name: String, limit: String, nodes: Vec<String> } => ERRCODE_CONNECTION_EXCEPTION,
        "cannot take over sequence {name} within {limit}",
        detail("{}", if nodes.is_empty() {
            "Another session of this node was still taking it over.".into()
        } else {
            format!("Not all of these nodes have handed it over in time: {}.", nodes.join(", "))
        }),
        hint("{}", if nodes.is_empty() {
            "Try again.".into()
        } else {
            format!("{IF_A_NODE_IS_LOST} The setting instagram_id.take_over_timeout is the limit.")
        });

    /// A session has waited for another one, whose attempt to take the sequence over has failed.
    TakeOverFailed { name: String, node: String } => ERRCODE_CONNECTION_EXCEPTION,
        "cannot take over sequence {name}",
        detail("Another session of this node has tried, while this one waited: node {node} cannot be reached."),
        hint("{IF_A_NODE_IS_LOST}");

    /// `take_over_shards()` takes a sequence over while another node closes its copy.
    TakeOverOvertaken { name: String } => ERRCODE_OBJECT_IN_USE,
        "another node takes over sequence {name} at the same time",
        hint("Call take_over_shards() again.");

    /// A function that only other nodes call is called with a group that has no node.
    GroupUnknown(group: i32) => ERRCODE_INVALID_PARAMETER_VALUE,
        "group {0} has no node",
        hint("Only next_id() on another node calls this function.");

    /// A function that only other nodes call is called with a floor that is no value of a sequence.
    FloorOutOfRange(floor: i64) => ERRCODE_INVALID_PARAMETER_VALUE,
        "floor {0} is out of range",
        hint("Only next_id() on another node calls this function.");

    /// A function that only other nodes call is called with a wrong number.
    AttemptOutOfRange(attempt: i32) => ERRCODE_INVALID_PARAMETER_VALUE,
        "attempt {0} is out of range",
        hint("Only next_id() on another node calls this function.");

    // Warnings and notices.

    /// WARNING, once a session that generates ids more than a minute ahead: the clock is wrong, or
    /// was.
    SequenceIsAhead { name: String, ahead: String } => ERRCODE_WARNING,
        "sequence {name} is {ahead} ahead of the clock",
        detail("Its ids stay unique and in order, and carry future timestamps until the clock catches up."),
        hint("Check the clock of the server. The view id_shards shows how far each shard is ahead.");

    /// WARNING, with the setting `instagram_id.continue_without_lost_nodes`: the node that
    /// generated the ids of the sequence last was removed from the cluster.
    ContinuedWithoutHolder { name: String, group: i32 } => ERRCODE_WARNING,
        "sequence {name} continues without its last holder",
        detail("The node of group {group} was the last to generate its ids, and was removed from the cluster. Ids continue a \
            minute above those in the tables, and above the clock."),
        hint("Ids of that node that are in no table can be greater only if its clock was wrong by more than a minute, or if it \
            has warned that the sequence was ahead. Then use advance_shard().");

    /// WARNING of `advance_shard()`, which was called with an id more than a minute ahead.
    ShardIsAhead { shard: u16, ahead: String } => ERRCODE_WARNING,
        "shard {shard} is {ahead} ahead of the clock",
        detail("Its ids carry future timestamps until the clock catches up.");

    /// WARNING, once a session, of `node_next_id()`: a shard has the number of the node's group.
    GroupIsShard(group: u16) => ERRCODE_WARNING,
        "shard {0} has the same number as the group of this node",
        detail("An id of node_next_id() on this node can be equal to an id of that shard."),
        hint("Give shards numbers above all groups, such as 1000. A node gets another group when it is drained, removed, and \
            added again.");

    /// WARNING of `convert_defaults_to_triggers()`, which has left out a column.
    DefaultKept { column: String, why: WhyKept } => ERRCODE_WARNING,
        "column {column} keeps its default",
        detail("{why}");

    /// WARNING of `convert_defaults_to_triggers()`, which has converted the tables of one role.
    ConvertsTablesOfOneRole { shard: u16, roles: Vec<String> } => ERRCODE_WARNING,
        "tables of other roles keep their defaults",
        detail("A call converts the tables of one role, so that its users do not wait for locks of another. Left are tables of {}.",
            listed(roles, ", ")),
        hint("In another transaction, use SELECT convert_defaults_to_triggers({shard}) again, or in a session of one of these roles.");

    /// WARNING of the event trigger `adopt_new_tables()`, which has left the key of a new table
    /// unchanged.
    NewKeyKept { column: String, shard: u16, cause: String } => ERRCODE_WARNING,
        "column {column} does not get ids of shard {shard}",
        detail("The cause is: {}", sentence(cause)),
        hint("Once the cause is resolved, adopt the table with adopt_table(), with its schema as the argument schema.");

    /// WARNING of `create_shard()` for a schema with the epoch of a shard whose sequence was
    /// dropped.
    SequenceReplaced { shard: u16, sequence: String } => ERRCODE_WARNING,
        "sequence {sequence} was missing and has been created",
        detail("It does not know the ids that shard {shard} has generated before, so it could repeat them."),
        hint("Call advance_shard({shard}, ...) with the largest id of the shard. Leave out keys that a role has chosen.");

    /// NOTICE of a function that is called with the schema of a shard, or with a function: the role
    /// that owns it is trusted.
    OwnerTrusted { shard: u16, owner: String, object: String } => ERRCODE_SUCCESSFUL_COMPLETION,
        "shard {shard} trusts role {owner}",
        detail("Role {owner} owns {object}. It can replace functions of the shard, which run with the rights of their callers.");

    /// NOTICE of `adopt_table()`: a default or a rule, whose owner may not use the sequence of the
    /// keys.
    KeyRepeatedByOther { sequence: String, by: String } => ERRCODE_SUCCESSFUL_COMPLETION,
        "ignoring {by}, which may call currval() of sequence {sequence}",
        detail("Its owner may not do so, but the role that inserts may. After the adoption, currval() would not return the last key."),
        hint("Do not insert into its table as a role that may use the sequence.");

    /// NOTICE of `adopt_shard()` and `unadopt_shard()`: defaults name the sequence, but the owners
    /// of their tables may not use it.
    DefaultsIgnored { name: String, count: usize, column: String, owner: String } =>
        ERRCODE_SUCCESSFUL_COMPLETION,
        "ignoring defaults of other roles that name sequence {name}",
        detail("The owners of their tables have neither USAGE nor UPDATE on the sequence. The first of {count} is the default of \
            column {column} of role {owner}."),
        hint("Do not insert into these tables as a role with one of these privileges, since that could take values from the sequence.");

    /// WARNING of `adopt_shard()`: a column with ids is neither bigint nor a domain over it.
    KeysNotRead { column: String, shard: u16 } => ERRCODE_WARNING,
        "ids in column {column} are not read, since its type is not bigint",
        detail("New ids are greater than those in columns of type bigint, and than ids of the clock's time."),
        hint("If the shard has generated an id in it that is ahead of the clock, call advance_shard({shard}, ...) with that. Leave out \
            keys that a role has chosen.");

    /// WARNING of `adopt_shard()`: the sequence is not in the schema of the shard, which protects
    /// its epoch.
    SequenceElsewhere { name: String, schema: String } => ERRCODE_WARNING,
        "sequence {name} is not in schema {schema}, which becomes the shard",
        detail("A role with USAGE on the sequence can use it with any epoch, and so take it to the end of its ids."),
        hint("Grant USAGE on it to trusted roles only.");

    /// NOTICE of `unadopt_shard()`: columns of roles that may not use the sequence named the shard
    /// by its number.
    WasUsedByNumber { shard: u16, column: String, count: usize } => ERRCODE_SUCCESSFUL_COMPLETION,
        "column {column} gets no more ids of shard {shard}",
        detail("Its default or a trigger names the shard by its number, and the shard is dropped. The owner of the table may not use the \
            sequence, so this does not count.{}", if *count > 1 { format!(" There are {count} such columns.") } else { String::new() }),
        hint("Its owner can give it another default, and drop a trigger of the table that calls next_id_trigger().");

    /// NOTICE of `adopt_table()`: partitions of the table, or tables that inherit from it, have
    /// defaults of their own.
    BelowKept { below: String, table: String, count: usize } => ERRCODE_SUCCESSFUL_COMPLETION,
        "table {below} keeps its default",
        detail("It is below table {table}. Rows that are inserted into it directly continue with its keys.{}",
            if *count > 1 { format!(" There are {count} such tables.") } else { String::new() }),
        hint("Adopt a table that inherits by a call of its own. Change the default of a partition with ALTER TABLE ... SET DEFAULT.");

    /// NOTICE of `create_id_partitions()` and `drop_old_id_partitions()`: queries on the table do
    /// not read a partition any more, which covers its period and is not dropped.
    DetachUnfinished { partition: String, table: String } => ERRCODE_SUCCESSFUL_COMPLETION,
        "partition {partition} is being detached",
        detail("ALTER TABLE ... DETACH PARTITION ... CONCURRENTLY has not ended, or was interrupted. Queries on table {table} do not read the partition."),
        hint("If it was interrupted, use ALTER TABLE {table} DETACH PARTITION {partition} FINALIZE.");

    /// NOTICE of `create_shard()` with `if_not_exists`.
    ShardKept(shard: u16) => ERRCODE_DUPLICATE_OBJECT,
        "shard {0} already exists, skipping";
}

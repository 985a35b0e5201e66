//! Every error this extension raises: message, SQLSTATE and the way out.

use crate::layout::{ISSUED_MS_MAX, SEQ_MAX, SHARD_MAX};
use crate::shortcode::Malformed;
use pgrx::pg_sys::{Oid, panic::ErrorReport};
use pgrx::spi::{quote_identifier, quote_literal};
use pgrx::{PgLogLevel, PgSqlErrorCode as SqlState};
use std::fmt::{self, Display};
use thiserror::Error;

/// An error a user can meet. The values in it are shown in the message; names come quoted as SQL wants them.
#[derive(Debug, Error)]
pub enum Error {
    #[error("shard {0} is out of range")]
    ShardOutOfRange(i32),
    #[error("sequence number {0} is out of range")]
    SeqOutOfRange(i32),
    #[error("number of shards {0} is out of range")]
    ShardsOutOfRange(i32),
    #[error("cannot make {0} ids")]
    CountOutOfRange(i32),
    #[error("{0} must not be null")]
    Null(Argument),
    #[error("instagram_id.shard is not set")]
    ShardNotSet,
    #[error("shard {shard} does not exist: {}", if *schema_exists {
        format!("schema {schema} does not define it")
    } else {
        format!("there is no schema {schema}")
    })]
    ShardMissing { shard: u16, schema: String, schema_exists: bool },
    #[error("shard {shard} is in more than one schema: {}", schemas.join(", "))]
    ShardAmbiguous { shard: u16, schemas: Vec<String> },
    #[error("shard {shard} already exists: it is schema {schema}")]
    ShardExists { shard: u16, schema: String },
    #[error("shard {shard} already exists: function {function} of role {role} defines it")]
    ShardOfAnother { shard: u16, function: String, role: String },
    #[error("shard {shard} already exists with the {what} {is}, not {asked}")]
    ShardDiffers { shard: u16, what: &'static str, is: String, asked: String },
    #[error("function {schema}.epoch() already exists, and says {is}, not {asked}")]
    EpochDiffers { schema: String, is: String, asked: String },
    #[error("schema {} already exists", quote_identifier(schema))]
    SchemaExists { shard: u16, schema: String },
    #[error("function {function} already exists, and is not what shard {shard} needs")]
    FunctionExists { function: String, shard: u16, schema: String },
    #[error("schema {0} does not exist")]
    SchemaMissing(String),
    #[error("function with OID {0} does not exist")]
    FunctionMissing(Oid),
    #[error("function {function} is not the original: {why}")]
    NotOriginal { function: String, why: String },
    #[error("schema {schema} has no function that could be the original{}", reasons.iter().map(|reason| format!("; {reason}")).collect::<String>())]
    OriginalMissing { schema: String, reasons: Vec<String> },
    #[error("more than one function could be the original: {functions}")]
    OriginalAmbiguous { functions: String },
    #[error("the {constant} cannot be read from function {function}")]
    OriginalSilent { function: String, constant: Argument },
    #[error("function {function} has the {constant} {read}, not {asked}")]
    OriginalDiffers { function: String, constant: Argument, read: String, asked: String },
    #[error("the key {key} in {column} is of {time}, ahead of the clock")]
    KeyAhead { key: i64, column: String, time: String },
    #[error("shard {shard} is {ahead} ahead of the clock, by which the original goes")]
    ShardAhead { shard: u16, ahead: String },
    #[error("shard {shard} was not adopted: schema {schema} has no original to go back to")]
    NotAdopted { shard: u16, schema: String },
    #[error("could not lock out the writers")]
    WritersBusy { sequence: Option<String> },
    #[error("cannot PREPARE a transaction that has adopted a shard")]
    AdoptionPrepared,
    #[error("function {0}, or who uses it, has changed meanwhile")]
    OriginalChanged(String),
    #[error("table {0} has changed meanwhile")]
    TableChanged(String),
    #[error("sequence {0} is temporary")]
    SequenceTemporary(String),
    #[error("sequence {name} does not belong to the owner of function {function}")]
    SequenceOfAnother { name: String, function: String },
    #[error("sequence {name} is in use by {other}, too")]
    SequenceShared { name: String, other: String },
    #[error("shard {shard} has lost some of its functions")]
    ShardIncomplete { shard: u16 },
    #[error("role {role} may insert into {table}, but not make ids of schema {schema}")]
    WriterWithoutRights { role: String, table: String, schema: String, grants: Vec<String> },
    #[error("table with OID {0} does not exist")]
    TableMissing(Oid),
    #[error("{column} has ids of shard {shard} already")]
    HasIdsAlready { column: String, shard: u16 },
    #[error("column {column} of {table} does not exist")]
    ColumnMissing { table: String, column: String },
    #[error("{0} has no primary key of one column")]
    NoPrimaryKey(String),
    #[error("column {column} of {table} is of type {type_name}, not bigint")]
    ColumnNotBigint { table: String, column: String, type_name: String },
    #[error("{column} is no serial and no identity: its default is {default}")]
    NotSerial { column: String, default: String },
    #[error("a schema needs a name")]
    NameEmpty,
    #[error("unacceptable schema name {0}")]
    NameReserved(String),
    #[error("{0} is too long for a name")]
    NameTooLong(String),
    #[error("{}", if *is_future {
        format!("the epoch {epoch} is in the future")
    } else {
        format!("with the epoch {epoch} ids would be negative by now")
    })]
    EpochUnworkable { epoch: String, is_future: bool, earliest: String, now: String },
    #[error("id {id} is of shard {id_shard}, not of shard {shard}")]
    IdOfAnotherShard { id: i64, id_shard: u16, shard: u16 },
    #[error("id {0} is negative")]
    IdNegative(i64),
    #[error("there is no id greater than {0}")]
    IdIsTheLast(i64),
    #[error("sequence with OID {0} does not exist")]
    SequenceMissing(Oid),
    #[error("{0} is not a sequence")]
    NotSequence(String),
    #[error("sequence {name} cannot hold the clock: {}", unfit.reasons())]
    Unfit { name: String, unfit: Unfit },
    #[error("sequence {name} is closed: its MAXVALUE {max} is its last value")]
    Closed { name: String, max: i64 },
    #[error("bad magic number in sequence {0}")]
    BadMagic(String),
    #[error("permission denied for sequence {name}")]
    NoRightOnSequence { name: String, role: String, update: bool },
    #[error("must be owner of table {0}")]
    NotTableOwner(String),
    #[error("must be owner of sequence {0}")]
    NotSequenceOwner(String),
    #[error("must be owner of function {0}")]
    NotOwner(String),
    #[error("permission denied for schema {name}")]
    NoRightOnSchema { name: String, role: String },
    #[error("cannot execute {function} in a read-only transaction")]
    ReadOnly { function: &'static str, standby: bool },
    #[error("cannot execute {0} during a parallel operation")]
    Parallel(&'static str),
    #[error("an epoch cannot be infinite")]
    EpochInfinite,
    #[error("no id has the time {0}")]
    TimeInfinite(String),
    #[error("the time {time} is before the epoch {epoch}")]
    TimeBeforeEpoch { time: String, epoch: String },
    #[error("the time {time} is past the 41 bits of milliseconds that start at the epoch {epoch}")]
    TimePastField { time: String, epoch: String },
    #[error("the time of id {id} is out of range with the epoch {epoch}")]
    IdTimeOutOfRange { id: i64, epoch: String },
    #[error("millisecond {time} of shard {shard} is full: it has room for {} ids", SEQ_MAX + 1)]
    MillisecondFull { time: String, shard: u16 },
    #[error("the time {time} of shard {shard} comes after a later one")]
    TimeGoesBack { time: String, shard: u16 },
    #[error("backfill_id() is called without a window")]
    NotOverWindow,
    #[error("invalid short code \"{}\": {}", shortened(code), match why {
        Malformed::Empty => "it is empty".into(),
        Malformed::NoDigit(char) => format!("there is no digit \"{char}\""),
        Malformed::Overflow => "it stands for more than 64 bits".into(),
    })]
    ShortcodeMalformed { code: String, why: Malformed },
    #[error("table {table} is not partitioned by ranges of a bigint: {why}")]
    NotPartitionedById { table: String, why: String },
    #[error("cannot make partitions by {0}")]
    PeriodUnknown(String),
    #[error("cannot make partitions for {0} periods ahead")]
    AheadOutOfRange(i32),
    #[error("cannot drop partitions up to {0}, which is in the future")]
    DropsFuture(String),
    #[error("no partition of {table} is for the present by the epoch {epoch}")]
    NoPresentPartition { table: String, epoch: String },
    #[error("relation {name} already exists, and is no partition of {table}")]
    PartitionNameTaken { name: String, table: String },
    #[error("ids from {from} to {to} are not in one order: they turn negative in between")]
    RangeTurnsNegative { from: String, to: String },
    #[error("the clock, at {time}, is before the epoch {epoch}")]
    ClockBeforeEpoch { time: String, epoch: String },
    #[error("the clock, at {time}, is 2^40 ms or more past the epoch {epoch}")]
    ClockPastField { time: String, epoch: String },
    #[error("sequence {name} has used up the time field: its last value is {last_value}")]
    Exhausted { name: String, last_value: i64, min_value: i64 },
    #[error("sequence {name} is at home on {}, and this is the node of group {group}", match node {
        Some(node) => format!("node {node} (group {home})"),
        None => format!("the node of group {home}"),
    })]
    AtHomeElsewhere { name: String, node: Option<String>, home: i32, group: i32, is_of_schema: bool },
    #[error("sequence {name} is a copy from when this node was that of group {group}")]
    CopyOfAnotherGroup { name: String, group: i32 },
    #[error("sequence {name} cannot be taken over: the coordinator is not in pg_dist_node")]
    CoordinatorUnknown { name: String },
    #[error("sequence {name} was at home on the node of group {group} before, which is not in use")]
    LastHomeLost { name: String, group: i32 },
    #[error("sequence {name} was at home on the node of group {group} before, which is disabled")]
    LastHomeDisabled { name: String, group: i32 },
    #[error("it is not known which node sequence {name} was at home on before")]
    LastHomeUnknown { name: String },
    #[error("sequence {0} serves next_id()")]
    SequenceOfAShard(String),
    #[error("sequence {name} is not handed over by node {node} to role {role}: {}", said.trim())]
    NotHandedOver { name: String, node: String, role: String, said: String },
    #[error("there is no node of group {0}")]
    GroupUnknown(i32),
    #[error("the text \"{0}\" of this database is not in UTF-8")]
    NotUtf8(String),
    #[error("attempt {0} is out of range")]
    AttemptOutOfRange(i32),
    #[error("this node has instagram_id {}, which does not hand over sequences to older versions", env!("CARGO_PKG_VERSION"))]
    NodeOutdated,
    #[error("permission denied for sequence {name}: it {} shard {shard} with the epoch {epoch}", if *serves {
        "serves"
    } else {
        "is in the schema of"
    })]
    SequenceServesAnother { name: String, shard: u16, serves: bool, epoch: String, role: String },
    #[error("table {table} cannot get ids by a trigger: several nodes have a copy of each of its rows")]
    TableReplicated { table: String },
    #[error("assign_id() is not called as it is meant to be")]
    TriggerMisused,
    // Of adoption.
    #[error("shard {shard} already exists: it is schema {schema}")]
    AdoptedAlready { shard: u16, schema: String, is_adopted: bool },
    #[error("shard {shard} already exists: it is schema {schema}, and function {function} is not in it")]
    ShardElsewhere { shard: u16, schema: String, function: String, sequence: String, call: String },
    #[error("function {function} has the {what} {read}, but shard {shard} has {is}")]
    AdoptionDiffers { function: String, what: Argument, read: String, shard: u16, is: String },
    #[error("roles that can execute function {function} cannot execute {needs}: {}", roles.join(", "))]
    CallersWithoutExecute { function: String, needs: String, roles: Vec<String> },
    #[error("permission denied for schema {name}")]
    NoCreateOnSchema { name: String, role: String },
    #[error(
        "schema {} is the extension's own, whose functions have names that shard {shard} needs",
        quote_identifier(schema)
    )]
    SchemaOfExtension { schema: String, shard: u16 },
    #[error("function {function} already exists")]
    NextIdTaken { function: String, schema: String },
    #[error("sequence {name} is used by function {other}, too")]
    OriginalsShareSequence { name: String, function: String, other: String },
    #[error("the newest id {id} in {column} is of shard {is}, not {asked}")]
    NewestOfAnotherShard { id: i64, column: String, is: u16, asked: u16, function: String },
    #[error("by the epoch {epoch} the newest id {id} in {column} is of {time}, which is not the last hour")]
    NewestOfAnotherTime { id: i64, column: String, epoch: String, time: String, function: String },
}

impl Error {
    fn sqlstate(&self) -> SqlState {
        match self {
            Error::ShardOutOfRange(_)
            | Error::SeqOutOfRange(_)
            | Error::ShardsOutOfRange(_)
            | Error::CountOutOfRange(_)
            | Error::IdOfAnotherShard { .. }
            | Error::TimeGoesBack { .. }
            | Error::PeriodUnknown(_)
            | Error::AheadOutOfRange(_)
            | Error::DropsFuture(_)
            | Error::GroupUnknown(_)
            | Error::AttemptOutOfRange(_)
            | Error::IdNegative(_) => SqlState::ERRCODE_INVALID_PARAMETER_VALUE,
            Error::Null(_) => SqlState::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            Error::ShardNotSet
            | Error::Unfit { .. }
            | Error::AtHomeElsewhere { .. }
            | Error::CopyOfAnotherGroup { .. }
            | Error::LastHomeLost { .. }
            | Error::LastHomeUnknown { .. }
            | Error::LastHomeDisabled { .. }
            | Error::SequenceOfAShard(_)
            | Error::NodeOutdated
            | Error::TableReplicated { .. }
            | Error::CoordinatorUnknown { .. } => SqlState::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            Error::NotHandedOver { .. } => SqlState::ERRCODE_CONNECTION_EXCEPTION,
            Error::TriggerMisused => SqlState::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
            Error::ShardMissing { .. } | Error::SequenceMissing(_) | Error::TableMissing(_) => {
                SqlState::ERRCODE_UNDEFINED_TABLE
            }
            Error::ShardAmbiguous { .. } => SqlState::ERRCODE_AMBIGUOUS_FUNCTION,
            Error::ShardExists { .. }
            | Error::ShardOfAnother { .. }
            | Error::AdoptedAlready { .. }
            | Error::ShardElsewhere { .. }
            | Error::AdoptionDiffers { .. }
            | Error::ShardDiffers { .. }
            | Error::EpochDiffers { .. } => SqlState::ERRCODE_DUPLICATE_OBJECT,
            Error::SchemaExists { .. } => SqlState::ERRCODE_DUPLICATE_SCHEMA,
            Error::FunctionExists { .. } | Error::SchemaOfExtension { .. } | Error::NextIdTaken { .. } => {
                SqlState::ERRCODE_DUPLICATE_FUNCTION
            }
            Error::SchemaMissing(_) => SqlState::ERRCODE_INVALID_SCHEMA_NAME,
            Error::FunctionMissing(_) | Error::OriginalMissing { .. } => SqlState::ERRCODE_UNDEFINED_FUNCTION,
            Error::OriginalAmbiguous { .. } => SqlState::ERRCODE_AMBIGUOUS_FUNCTION,
            Error::OriginalSilent { .. } => SqlState::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            Error::OriginalDiffers { .. }
            | Error::NewestOfAnotherShard { .. }
            | Error::NewestOfAnotherTime { .. } => SqlState::ERRCODE_INVALID_PARAMETER_VALUE,
            Error::NotOriginal { .. }
            | Error::KeyAhead { .. }
            | Error::ShardAhead { .. }
            | Error::NotAdopted { .. }
            | Error::SequenceTemporary(_)
            | Error::SequenceShared { .. }
            | Error::OriginalsShareSequence { .. }
            | Error::ShardIncomplete { .. }
            | Error::HasIdsAlready { .. }
            | Error::NoPresentPartition { .. }
            | Error::NotSerial { .. } => SqlState::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            Error::AdoptionPrepared | Error::NotUtf8(_) => SqlState::ERRCODE_FEATURE_NOT_SUPPORTED,
            Error::OriginalChanged(_) | Error::TableChanged(_) => SqlState::ERRCODE_OBJECT_IN_USE,
            Error::WritersBusy { .. } => SqlState::ERRCODE_LOCK_NOT_AVAILABLE,
            Error::ColumnMissing { .. } | Error::NoPrimaryKey(_) => SqlState::ERRCODE_UNDEFINED_COLUMN,
            Error::ColumnNotBigint { .. } => SqlState::ERRCODE_DATATYPE_MISMATCH,
            Error::NameReserved(_) => SqlState::ERRCODE_RESERVED_NAME,
            Error::NameEmpty => SqlState::ERRCODE_INVALID_NAME,
            Error::NameTooLong(_) => SqlState::ERRCODE_NAME_TOO_LONG,
            Error::NotSequence(_) | Error::NotPartitionedById { .. } | Error::NotOverWindow => {
                SqlState::ERRCODE_WRONG_OBJECT_TYPE
            }
            Error::PartitionNameTaken { .. } => SqlState::ERRCODE_DUPLICATE_TABLE,
            Error::ShortcodeMalformed { .. } => SqlState::ERRCODE_INVALID_TEXT_REPRESENTATION,
            Error::BadMagic(_) => SqlState::ERRCODE_DATA_CORRUPTED,
            Error::NoRightOnSequence { .. }
            | Error::NoRightOnSchema { .. }
            | Error::NotTableOwner(_)
            | Error::NotSequenceOwner(_)
            | Error::SequenceOfAnother { .. }
            | Error::SequenceServesAnother { .. }
            | Error::WriterWithoutRights { .. }
            | Error::CallersWithoutExecute { .. }
            | Error::NoCreateOnSchema { .. }
            | Error::NotOwner(_) => SqlState::ERRCODE_INSUFFICIENT_PRIVILEGE,
            Error::ReadOnly { .. } | Error::Closed { .. } => SqlState::ERRCODE_READ_ONLY_SQL_TRANSACTION,
            Error::Parallel(_) => SqlState::ERRCODE_INVALID_TRANSACTION_STATE,
            Error::EpochInfinite
            | Error::EpochUnworkable { .. }
            | Error::TimeInfinite(_)
            | Error::TimeBeforeEpoch { .. }
            | Error::TimePastField { .. }
            | Error::IdTimeOutOfRange { .. }
            | Error::RangeTurnsNegative { .. }
            | Error::ClockBeforeEpoch { .. } => SqlState::ERRCODE_DATETIME_FIELD_OVERFLOW,
            Error::ClockPastField { .. }
            | Error::Exhausted { .. }
            | Error::IdIsTheLast(_)
            | Error::MillisecondFull { .. } => SqlState::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
        }
    }

    fn hint(&self) -> String {
        match self {
            Error::ShardOutOfRange(_) => format!("A shard is a number from 0 to {SHARD_MAX}."),
            Error::SeqOutOfRange(_) => format!("A sequence number is from 0 to {SEQ_MAX}."),
            Error::ShardsOutOfRange(_) => {
                format!("There can be 1 to {} shards.", SHARD_MAX as u32 + 1)
            }
            Error::CountOutOfRange(_) => "Ask for 1 or more.".into(),
            Error::Null(Argument::Shard) => format!("Pass a shard from 0 to {SHARD_MAX}."),
            Error::Null(Argument::Count) => "Pass a count of 1 or more.".into(),
            Error::Null(Argument::Sequence) => {
                "Pass a sequence; next_id(shard) uses the shard's own.".into()
            }
            Error::Null(
                Argument::Epoch | Argument::IfNotExists | Argument::DryRun | Argument::Every | Argument::Ahead | Argument::Detach,
            ) => "Pass a value, or leave it out.".into(),
            Error::Null(Argument::Group | Argument::Attempt) | Error::AttemptOutOfRange(_) | Error::GroupUnknown(_) => {
                "It is for next_id() on another node to call this.".into()
            }
            Error::Null(Argument::Schema) => "Name the schema.".into(),
            Error::Null(Argument::Table) => "Name the table.".into(),
            Error::Null(Argument::Before) => "Pass the time before which partitions are to go.".into(),
            Error::Null(Argument::Id) => "Pass the id that the next one is to be greater than.".into(),
            Error::ShardNotSet => {
                "Name the shard, as in next_id(5), or set it: SET instagram_id.shard = 5, \
                 or ALTER DATABASE ... SET instagram_id.shard = 5 for all new sessions."
                    .into()
            }
            Error::ShardMissing { shard, schema_exists: false, .. } => {
                format!("Create the shard with SELECT create_shard({shard}).")
            }
            Error::ShardMissing { shard, schema_exists: true, .. } => format!(
                "Create the shard in it with SELECT create_shard({shard}, if_not_exists => true), or where it runs the \
                 PL/pgSQL original take that over with SELECT * FROM adopt_shard({shard})."
            ),
            Error::ShardAmbiguous { shard, .. } => format!(
                "Call next_id() of the schema that you mean, or drop the function shard_{shard}() of the others."
            ),
            Error::ShardExists { .. } => {
                "Use it; with if_not_exists => true what it lacks is made, and what it has is left alone.".into()
            }
            Error::ShardOfAnother { function, role, .. } => format!(
                "If it is meant to, act as {role}, or give it to a role that may act for the database's owner. If not, \
                 DROP FUNCTION {function}."
            ),
            Error::ShardDiffers { what, .. } => format!("Leave the {what} out to use the shard as it is."),
            Error::EpochDiffers { .. } => "Leave the epoch out to use that one.".into(),
            Error::SchemaExists { shard, schema } => format!(
                "With if_not_exists => true the shard is made in it. Where it runs the PL/pgSQL original, take that over \
                 with SELECT * FROM adopt_shard({shard}, {}).",
                quote_literal(schema)
            ),
            Error::FunctionExists { function, shard, .. } if function.ends_with(".next_id()") => format!(
                "Rename or drop it. Where it is the PL/pgSQL original, take it over with \
                 SELECT * FROM adopt_shard({shard}, function => {}).",
                quote_literal(function)
            ),
            Error::FunctionExists { .. } => "Rename or drop it.".into(),
            Error::SchemaMissing(_) => "Name the schema with schema => '...'.".into(),
            Error::FunctionMissing(_) | Error::OriginalMissing { .. } | Error::OriginalAmbiguous { .. } => {
                "Name the function, as in function => 'insta5.next_id()'.".into()
            }
            Error::NotOriginal { .. } => {
                "Only a function that makes ids of the published form can be taken over. For another one make a new \
                 shard, and change the defaults of the tables to it."
                    .into()
            }
            Error::OriginalSilent { constant, .. } => format!("Name it with {constant} => ..."),
            Error::OriginalDiffers { constant, .. } => format!("Leave the {constant} out to use what the function has."),
            Error::KeyAhead { .. } => {
                "New ids would have to be greater still. If it is no id, delete or renumber its row; if the clock \
                 is wrong, set it."
                    .into()
            }
            Error::ShardAhead { .. } => "Try again when the clock has caught up.".into(),
            Error::NotAdopted { .. } => "Only what adopt_shard() has taken over can be given back.".into(),
            Error::WritersBusy { sequence } => format!(
                "Transactions that have used {}the tables must end first; pg_locks shows them.",
                sequence.as_ref().map_or_else(String::new, |sequence| format!("{sequence} or "))
            ),
            Error::AdoptionPrepared => "Adopt it in a transaction of its own, and commit that at once.".into(),
            Error::OriginalChanged(_) | Error::TableChanged(_) => "Try again.".into(),
            Error::SequenceTemporary(_) => "The shard would end with this session. Use another sequence.".into(),
            Error::SequenceOfAnother { .. } => "Give both to one role with ALTER ... OWNER TO.".into(),
            Error::SequenceShared { .. } => {
                "A shard's ids need a sequence of their own, since it becomes their clock.".into()
            }
            Error::ShardIncomplete { shard } => {
                format!("Make them again with SELECT create_shard({shard}, if_not_exists => true).")
            }
            Error::WriterWithoutRights { grants, .. } => format!("Grant it with {}.", grants.join("; ")),
            Error::TableMissing(_) => "Name a table that is there.".into(),
            Error::HasIdsAlready { .. } => "There is nothing left to do.".into(),
            Error::ColumnMissing { .. } => "Name the column with \"column\" => '...'.".into(),
            Error::NoPrimaryKey(_) => "Name the column with \"column\" => '...'.".into(),
            Error::ColumnNotBigint { table, column, .. } => {
                format!("Change it with ALTER TABLE {table} ALTER {column} TYPE bigint.")
            }
            Error::NotSerial { column, .. } => {
                format!("Where {column} is to have ids, set its default to the next_id() of the shard's schema.")
            }
            Error::NameEmpty => "Give the schema a name, or leave it out.".into(),
            Error::NameReserved(_) => "Names that begin with pg_ are PostgreSQL's own.".into(),
            Error::NameTooLong(_) => "A name has at most 63 bytes.".into(),
            Error::EpochUnworkable { earliest, now, .. } => {
                format!("Use an epoch from {earliest} to {now}.")
            }
            Error::IdOfAnotherShard { id_shard, .. } => {
                format!("Pass an id of this shard, or advance shard {id_shard}.")
            }
            Error::IdNegative(_) => "No shard makes negative ids.".into(),
            Error::IdIsTheLast(_) => "The shard would have no ids left.".into(),
            Error::SequenceMissing(_) => {
                "Create one with CREATE SEQUENCE, or a shard with its own with create_shard().".into()
            }
            Error::NotSequence(_) => {
                "Pass a sequence, one made by CREATE SEQUENCE or by create_shard().".into()
            }
            Error::Unfit { name, unfit } => {
                format!("Mend it with ALTER SEQUENCE {name}{}.", unfit.clauses())
            }
            Error::Closed { name, .. } => format!(
                "Its shard is moving to another server, or has moved: make ids there. If no other place makes ids of \
                 the shard, open it with ALTER SEQUENCE {name} NO MAXVALUE."
            ),
            Error::BadMagic(_) => {
                "Restore the sequence from a backup, or drop it and create it again.".into()
            }
            Error::NoRightOnSequence { name, role, update } => {
                let right = if *update { "UPDATE" } else { "USAGE" };
                format!("Grant it with GRANT {right} ON SEQUENCE {name} TO {role}.")
            }
            Error::NotOwner(_) | Error::NotTableOwner(_) | Error::NotSequenceOwner(_) => "Ask its owner, or a superuser.".into(),
            Error::NoRightOnSchema { name, role } => {
                format!("Grant it with GRANT USAGE ON SCHEMA {name} TO {role}.")
            }
            Error::ReadOnly { standby: true, .. } => {
                "This server is a standby; ids are made on the primary.".into()
            }
            Error::ReadOnly { standby: false, .. } => {
                "It writes to a sequence; use a transaction that is READ WRITE.".into()
            }
            Error::Parallel(_) => "Call it in a query that does not run in parallel.".into(),
            Error::EpochInfinite => "Give the epoch as a point in time.".into(),
            Error::TimeInfinite(_) => {
                "Give a point in time; for a range without an end, compare id with id_floor() on the other side only.".into()
            }
            Error::TimeBeforeEpoch { .. } => {
                "The smallest id stands for the epoch itself; a shard with older rows needs an earlier epoch."
                    .into()
            }
            Error::TimePastField { .. } => "The field lasts 69.7 years from its epoch.".into(),
            Error::IdTimeOutOfRange { .. } => "Use the epoch that the id was made with.".into(),
            Error::RangeTurnsNegative { .. } => {
                "Ids are not issued after that; for all from a time on, use id >= id_floor(time).".into()
            }
            Error::MillisecondFull { .. } => {
                "Spread rows that share a time over the milliseconds after it, or give some of them another shard.".into()
            }
            Error::TimeGoesBack { .. } => {
                "Call it OVER (ORDER BY that time), with one epoch for a shard, and with PARTITION BY the shard at most.".into()
            }
            Error::NotOverWindow => "Call it OVER (ORDER BY the rows' time).".into(),
            Error::ShortcodeMalformed { .. } => {
                "A short code has 1 to 11 of the characters A-Z, a-z, 0-9, - and _, as id_to_shortcode() makes it.".into()
            }
            Error::NotPartitionedById { .. } => {
                "Make it with CREATE TABLE ... (id bigint, ...) PARTITION BY RANGE (id).".into()
            }
            Error::PeriodUnknown(_) => "Make them by 'day', 'week' or 'month'.".into(),
            Error::AheadOutOfRange(_) => "Pass how many periods after the present one, 0 to 10000.".into(),
            Error::DropsFuture(_) => "Pass a time that is over; what is in use is dropped with DROP TABLE.".into(),
            Error::NoPresentPartition { table, .. } => format!(
                "Where its ids count from another epoch, name that with epoch => ...; otherwise make one with \
                 create_partitions() first, or drop the old ones of {table} one by one."
            ),
            Error::PartitionNameTaken { name, table } => {
                format!("Rename or drop {name}, or attach it to {table}.")
            }
            Error::ClockBeforeEpoch { .. } => {
                "Set the server's clock, or use an epoch that lies in the past.".into()
            }
            Error::ClockPastField { .. } => {
                "Ids are issued for 34.8 years from their epoch; use a later one, or set the server's clock.".into()
            }
            Error::Exhausted { name, min_value, .. } => format!(
                "Ids end {ISSUED_MS_MAX} ms after the epoch, where they would turn negative. \
                 If setval() took the sequence there by mistake, SELECT setval({}, {min_value}) \
                 lets it follow the clock again.",
                quote_literal(name)
            ),
            Error::AtHomeElsewhere { is_of_schema: true, .. } => {
                "Have the rows get their ids where they are stored, with SELECT create_id_triggers(...) for the shard; then they \
                 can be inserted from every node. Or make ids on that node."
                    .into()
            }
            Error::AtHomeElsewhere { is_of_schema: false, .. } => {
                "Insert by way of that node, or let each node make ids of its own with node_next_id().".into()
            }
            Error::CopyOfAnotherGroup { .. } => {
                "The node was added to the cluster with what it had as another one. Where it holds no tables, remove it, and add it \
                 with an empty database."
                    .into()
            }
            Error::TriggerMisused => {
                "Make it a trigger BEFORE INSERT FOR EACH ROW, with a shard and a column of type bigint: EXECUTE FUNCTION assign_id('5', 'id')."
                    .into()
            }
            Error::CoordinatorUnknown { .. } => {
                "Tell the workers of it: SELECT citus_set_coordinator_host('its name'), on the coordinator.".into()
            }
            Error::LastHomeDisabled { .. } => {
                "Activate it again with citus_activate_node(). If it is lost for good, remove it with citus_remove_node(), then call \
                 advance_shard() again."
                    .into()
            }
            Error::LastHomeUnknown { .. } => {
                "nextval(), setval() or a dump has written to every copy of the sequence that was closed. Say above which id to go on, with \
                 advance_shard() and, say, the largest one in the shard's tables."
                    .into()
            }
            Error::LastHomeLost { .. } => {
                "Only that node knows all ids of the sequence: activate it again. If it is lost for good, remove it with \
                 citus_remove_node(), and say above which id to go on with advance_shard() and, say, the largest one in the shard's \
                 tables."
                    .into()
            }
            Error::NotUtf8(_) => "In a database of another encoding use names of ASCII characters.".into(),
            Error::NodeOutdated => "Install the same version on all nodes, and run ALTER EXTENSION instagram_id UPDATE.".into(),
            Error::SequenceServesAnother { name, role, serves: false, .. } => format!(
                "Use that epoch, or a sequence in another schema. With GRANT UPDATE ON SEQUENCE {name} TO {role} it can be used for any epoch."
            ),
            Error::SequenceServesAnother { name, shard, role, .. } => format!(
                "Use next_id({shard}), or another sequence. With GRANT UPDATE ON SEQUENCE {name} TO {role} it can be used for any shard and epoch."
            ),
            Error::TableReplicated { .. } => {
                "Each node would fill in an id of its own. Keep the default of the column: it is worked out once for a row.".into()
            }
            Error::SequenceOfAShard(_) => "Give node_next_id() a sequence that nothing else uses.".into(),
            Error::NotHandedOver { .. } => {
                "Once after a move each node must answer to this role: the one that generates the id if it has UPDATE on the \
                 sequence, and otherwise the sequence's owner. It must be able to log in there. Where the shard was made or \
                 distributed in this transaction, commit that first. A node that is lost for good is taken out with \
                 citus_remove_node()."
                    .into()
            }
            Error::AdoptedAlready { is_adopted: false, .. } => {
                "It was made by create_shard(), and has no original to take over.".into()
            }
            Error::AdoptedAlready { shard, .. } => format!(
                "It was adopted, and that is done; SELECT unadopt_shard({shard}) brings the original back."
            ),
            Error::ShardElsewhere { sequence, call, .. } => format!(
                "A shard is one schema. The function's tables can have ids of it all the same: lock them, ALTER SEQUENCE \
                 {sequence} AS bigint INCREMENT 1 NO MAXVALUE NO CYCLE, and set their defaults to {call}."
            ),
            Error::AdoptionDiffers { .. } => {
                "A shard has one epoch, and its next_id() the shard's own sequence. Change the function, or make a shard of \
                 its own for it with another number."
                    .into()
            }
            Error::CallersWithoutExecute { needs, roles, .. } => {
                format!("Grant it with GRANT EXECUTE ON FUNCTION {needs} TO {}.", roles.join(", "))
            }
            Error::NoCreateOnSchema { name, role } => {
                format!("Grant it with GRANT CREATE ON SCHEMA {name} TO {role}.")
            }
            Error::SchemaOfExtension { schema, shard } => format!(
                "Move the extension to a schema of its own with CREATE SCHEMA ids; ALTER EXTENSION instagram_id SET SCHEMA \
                 ids. Then take the PL/pgSQL original over with SELECT * FROM ids.adopt_shard({shard}, {}).",
                quote_literal(schema)
            ),
            Error::NextIdTaken { schema, .. } => format!(
                "Use a schema of its own: CREATE SCHEMA ids; CREATE EXTENSION instagram_id SCHEMA ids. Where that function is \
                 the PL/pgSQL original, SELECT * FROM ids.adopt_shard(NULL, {}) takes it over then.",
                quote_literal(schema)
            ),
            Error::OriginalsShareSequence { function, other, .. } => format!(
                "It would go on with what is the shard's clock then. Drop it with DROP FUNCTION {other}, or have it call \
                 {function} instead of nextval()."
            ),
            Error::NewestOfAnotherShard { is, function, .. } => format!(
                "Name shard {is}. Where the table has ids of several shards, write the shard into the body of {function} as \
                 a constant: that counts without comparison."
            ),
            Error::NewestOfAnotherTime { function, .. } => format!(
                "Name the epoch that the function uses. If this is it, insert a row with the original's next id first, or \
                 write the epoch into the body of {function} as a constant."
            ),
        }
    }
}

impl From<Error> for ErrorReport {
    #[track_caller]
    fn from(error: Error) -> ErrorReport {
        ErrorReport::new(error.sqlstate(), error.to_string(), "instagram_id").set_hint(error.hint())
    }
}

/// What `f` gives, or its error raised: the edge of a function that is called for every row.
///
/// pgrx also raises the error of a function that returns a `Result`. But an `ErrorReport`, or the room for one, is handed
/// over by value then, which shows in what `next_id` costs (docs/performance.md).
#[track_caller]
pub fn or_raise<T>(f: impl FnOnce() -> Result<T, Error>) -> T {
    match f() {
        Ok(value) => value,
        Err(error) => raise(error),
    }
}

#[cold]
#[track_caller]
fn raise(error: Error) -> ! {
    ErrorReport::from(error).report(PgLogLevel::ERROR);
    unreachable!("an error does not return")
}

/// A text that may be of any length, as a message shows it.
fn shortened(text: &str) -> String {
    const LEN: usize = 60;
    match text.char_indices().nth(LEN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into(),
    }
}

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
    Table,
    Schema,
    Every,
    Ahead,
    Before,
    Detach,
    Group,
    Attempt,
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
            Argument::Table => "table",
            Argument::Schema => "schema",
            Argument::Every => "every",
            Argument::Ahead => "ahead",
            Argument::Before => "before",
            Argument::Detach => "detach",
            Argument::Group => "for_group",
            Argument::Attempt => "attempt",
        })
    }
}

/// What keeps a sequence from being a logical clock.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Unfit {
    pub not_bigint: bool,
    /// Its INCREMENT where that is not 1.
    pub increment: Option<i64>,
    /// Its MAXVALUE where that is too small.
    pub max: Option<i64>,
    /// Its MINVALUE where that is ahead of the clock.
    pub min: Option<i64>,
    pub cycle: bool,
}

impl Unfit {
    /// Each fault with what is wrong and the ALTER SEQUENCE clause that mends it.
    fn faults(&self) -> Vec<(String, &'static str)> {
        let mut faults = vec![];
        if self.not_bigint {
            faults.push(("it is no bigint".into(), "AS bigint"));
        }
        if let Some(increment) = self.increment {
            faults.push((format!("its INCREMENT is {increment}, not 1"), "INCREMENT 1"));
        }
        if let Some(max) = self.max {
            faults.push((format!("its MAXVALUE {max} is below 2^50 - 1"), "NO MAXVALUE"));
        }
        if let Some(min) = self.min {
            faults.push((format!("its MINVALUE {min} is ahead of the clock"), "NO MINVALUE"));
        }
        if self.cycle {
            faults.push(("it has CYCLE".into(), "NO CYCLE"));
        }
        faults
    }

    fn reasons(&self) -> String {
        self.faults().into_iter().map(|(reason, _)| reason).collect::<Vec<_>>().join("; ")
    }

    fn clauses(&self) -> String {
        self.faults().into_iter().map(|(_, clause)| format!(" {clause}")).collect()
    }
}

//! Every error this extension raises: message, SQLSTATE and the way out.

use crate::layout::{ISSUED_MS_MAX, SEQ_MAX, SHARD_MAX};
use crate::shard::SEQUENCE;
use pgrx::PgSqlErrorCode as SqlState;
use pgrx::pg_sys::{Oid, panic::ErrorReport};
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
    #[error("shard {shard} does not exist: there is no schema {schema}")]
    ShardMissing { shard: u16, schema: String },
    #[error("shard {shard} has no sequence: {sequence} does not exist")]
    ShardWithoutSequence { shard: u16, sequence: String },
    #[error("schema {schema} already exists")]
    ShardExists { shard: u16, schema: String },
    #[error("sequence with OID {0} does not exist")]
    SequenceMissing(Oid),
    #[error("{0} is not a sequence")]
    NotSequence(String),
    #[error("sequence {name} cannot hold the clock: {}", unfit.reasons())]
    Unfit { name: String, unfit: Unfit },
    #[error("bad magic number in sequence {0}")]
    BadMagic(String),
    #[error("permission denied for sequence {name}")]
    NoRightOnSequence { name: String, role: String },
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
    #[error("ids from {from} to {to} are not in one order: they turn negative in between")]
    RangeTurnsNegative { from: String, to: String },
    #[error("the clock, at {time}, is before the epoch {epoch}")]
    ClockBeforeEpoch { time: String, epoch: String },
    #[error("the clock, at {time}, is 2^40 ms or more past the epoch {epoch}")]
    ClockPastField { time: String, epoch: String },
    #[error("sequence {name} has used up the time field: its last value is {last_value}")]
    Exhausted { name: String, last_value: i64, min_value: i64 },
}

impl Error {
    fn sqlstate(&self) -> SqlState {
        match self {
            Error::ShardOutOfRange(_)
            | Error::SeqOutOfRange(_)
            | Error::ShardsOutOfRange(_)
            | Error::CountOutOfRange(_) => SqlState::ERRCODE_INVALID_PARAMETER_VALUE,
            Error::Null(_) => SqlState::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            Error::ShardNotSet | Error::Unfit { .. } => SqlState::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            Error::ShardMissing { .. } | Error::ShardWithoutSequence { .. } | Error::SequenceMissing(_) => {
                SqlState::ERRCODE_UNDEFINED_TABLE
            }
            Error::ShardExists { .. } => SqlState::ERRCODE_DUPLICATE_SCHEMA,
            Error::NotSequence(_) => SqlState::ERRCODE_WRONG_OBJECT_TYPE,
            Error::BadMagic(_) => SqlState::ERRCODE_DATA_CORRUPTED,
            Error::NoRightOnSequence { .. } | Error::NoRightOnSchema { .. } => {
                SqlState::ERRCODE_INSUFFICIENT_PRIVILEGE
            }
            Error::ReadOnly { .. } => SqlState::ERRCODE_READ_ONLY_SQL_TRANSACTION,
            Error::Parallel(_) => SqlState::ERRCODE_INVALID_TRANSACTION_STATE,
            Error::EpochInfinite
            | Error::TimeInfinite(_)
            | Error::TimeBeforeEpoch { .. }
            | Error::TimePastField { .. }
            | Error::IdTimeOutOfRange { .. }
            | Error::RangeTurnsNegative { .. }
            | Error::ClockBeforeEpoch { .. } => SqlState::ERRCODE_DATETIME_FIELD_OVERFLOW,
            Error::ClockPastField { .. } | Error::Exhausted { .. } => {
                SqlState::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED
            }
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
                "Pass a sequence, or leave it out to use the shard's own.".into()
            }
            Error::Null(Argument::Epoch) => "Pass a value, or leave it out.".into(),
            Error::ShardNotSet => {
                "Name the shard, as in next_id(5), or set it: SET instagram_id.shard = 5, \
                 or ALTER DATABASE ... SET instagram_id.shard = 5 for all new sessions."
                    .into()
            }
            Error::ShardMissing { shard, .. } => {
                format!("Create the shard with SELECT create_shard({shard}).")
            }
            Error::ShardWithoutSequence { shard, sequence } => {
                format!("Create it with CREATE SEQUENCE {sequence}, as create_shard({shard}) does in a new schema.")
            }
            Error::ShardExists { shard, schema } => format!(
                "Where it is the shard's, use it. Where only its function is lost: CREATE FUNCTION {schema}.next_id() \
                 RETURNS bigint LANGUAGE sql RETURN next_id({shard}, '{schema}.{SEQUENCE}')."
            ),
            Error::SequenceMissing(_) => {
                "Create one with CREATE SEQUENCE, or a shard with its own with create_shard().".into()
            }
            Error::NotSequence(_) => {
                "Pass a sequence, one made by CREATE SEQUENCE or by create_shard().".into()
            }
            Error::Unfit { name, unfit } => {
                format!("Mend it with ALTER SEQUENCE {name}{}.", unfit.clauses())
            }
            Error::BadMagic(_) => {
                "Restore the sequence from a backup, or drop it and create it again.".into()
            }
            Error::NoRightOnSequence { name, role } => {
                format!("Grant it with GRANT USAGE ON SEQUENCE {name} TO {role}.")
            }
            Error::NoRightOnSchema { name, role } => {
                format!("Grant it with GRANT USAGE ON SCHEMA {name} TO {role}.")
            }
            Error::ReadOnly { standby: true, .. } => {
                "This server is a standby; ids are made on the primary.".into()
            }
            Error::ReadOnly { standby: false, .. } => {
                "Making an id writes to its sequence; use a transaction that is READ WRITE.".into()
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
            Error::ClockBeforeEpoch { .. } => {
                "Set the server's clock, or use an epoch that lies in the past.".into()
            }
            Error::ClockPastField { .. } => {
                "Ids are issued for 34.8 years from their epoch; use a later one, or set the server's clock.".into()
            }
            Error::Exhausted { name, min_value, .. } => format!(
                "Ids end {ISSUED_MS_MAX} ms after the epoch, where they would turn negative. \
                 If setval() took the sequence there by mistake, SELECT setval('{}', {min_value}) \
                 lets it follow the clock again.",
                name.replace('\'', "''")
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

/// An argument that must not be NULL.
#[derive(Clone, Copy, Debug)]
pub enum Argument {
    Shard,
    Sequence,
    Epoch,
    Count,
}

impl Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Argument::Shard => "shard",
            Argument::Sequence => "sequence",
            Argument::Epoch => "epoch",
            Argument::Count => "count",
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

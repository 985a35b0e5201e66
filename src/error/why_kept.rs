//! The reasons for which a column keeps its default.

use crate::error::parts::sentence;
use thiserror::Error;

/// Why `convert_defaults_to_triggers()` leaves a column as it is: sentences for the DETAIL.
#[derive(Debug, Error)]
pub enum WhyKept {
    #[error("Its table belongs to another role.")]
    OfAnother,
    #[error("It is not of type bigint.")]
    NotBigint,
    #[error("It is a partition key, and the partition is chosen before triggers run.")]
    PartitionKey,
    #[error(
        "Its table, or one below it, has a rule for INSERT, which would see NULL instead of an id."
    )]
    Rule,
    #[error(
        "Its default is SECURITY DEFINER. The trigger would use the rights of the role that \
         inserts. If all such roles have USAGE on the schema and the sequence, use ALTER FUNCTION \
         ... SECURITY INVOKER."
    )]
    SecurityDefiner,
    #[error("Trigger {name} of table {table} would generate its ids instead.")]
    OtherTrigger { name: String, table: String },
    #[error("Partition {0} has another default for it, which would be dropped as well.")]
    OtherDefault(String),
    #[error(
        "The partition key of its table, or of a partition, has an expression, which this call \
         must not run. Call the function in a session of role {0}."
    )]
    ExpressionOf(String),
    #[error("Several nodes have a copy of each row, and each would generate an id of its own.")]
    Replicated,
    #[error(
        "Its table is not placed with the schema. node_next_id() lets each node generate ids of \
         its own."
    )]
    PlacedElsewhere,
    #[error("The conversion fails: {}", sentence(.0))]
    Fails(String),
}

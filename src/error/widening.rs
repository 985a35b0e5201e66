//! How columns of smaller types can hold ids.

use crate::error::report::listed;
use thiserror::Error;

/// A sentence or two for the HINT.
#[derive(Debug, Error)]
pub enum Widening {
    #[error("Use {}.", listed(.0, "; "))]
    Statements(Vec<String>),
    /// Tables of roles whose expressions such a statement would evaluate with the rights of others.
    #[error(
        "Before you change the type, drop the foreign keys and the inheritance that connect it \
         with tables of other roles: {}. The change would evaluate their expressions.",
        listed(.0, ", ")
    )]
    TablesOfOthers(Vec<String>),
    #[error(
        "Values of other types than smallint and integer cannot become ids. Add a column of type \
         bigint."
    )]
    AnotherColumn,
}

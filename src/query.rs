//! Statements that are put together here, and run through SPI.

use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;

/// Runs statements that were put together here.
pub fn run(statements: &str) {
    Spi::run(statements)
        .unwrap_or_else(|error| unreachable!("PostgreSQL reports a failed statement itself: {error}"));
}

/// The rows of a query, as far as `read` makes something of them.
pub fn select<T>(query: &str, arguments: &[DatumWithOid], read: impl Fn(&Row) -> Option<T>) -> Vec<T> {
    Spi::connect(|client| {
        let rows = client
            .select(query, None, arguments)
            .unwrap_or_else(|error| unreachable!("PostgreSQL reports a failed query itself: {error}"));
        rows.filter_map(|row| read(&Row(row))).collect()
    })
}

/// A row of a query's result.
pub struct Row<'a>(pgrx::spi::SpiHeapTupleData<'a>);

impl Row<'_> {
    pub fn get<T: FromDatum + IntoDatum>(&self, column: usize) -> Option<T> {
        self.0
            .get(column)
            .unwrap_or_else(|error| unreachable!("column {column} of a query made here: {error}"))
    }
}

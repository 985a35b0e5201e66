//! Runs generated statements through SPI.

use crate::pg::errors;
use crate::pg::guc;
use crate::pg::text::{self, push};
use pgrx::datum::DatumWithOid;
use pgrx::pg_sys::{self, AsPgCStr, Datum, Oid};
use pgrx::prelude::*;
use pgrx::spi::SpiHeapTupleData;
use pgrx::varlena::varlena_to_byte_slice;
use std::ffi::{c_char, c_int};

/// Runs generated statements.
pub fn run(statements: &str) {
    errors::keep(|| Spi::run(statements)).unwrap_or_else(|error| {
        unreachable!("PostgreSQL reports a failed statement itself: {error}")
    });
}

/// The values that `read` returns for the rows of a query, which sees what has been committed until
/// now. A row for which `read` returns `None` is left out.
///
/// The snapshot of the statement or the transaction may be older than a lock that it has waited
/// for. Not for functions that can run in a parallel query, where PostgreSQL takes no new snapshot.
pub fn select<T>(
    query: &str,
    arguments: &[DatumWithOid],
    read: impl Fn(&Row) -> Option<T>,
) -> Vec<T> {
    let mut types: Vec<Oid> = arguments.iter().map(DatumWithOid::oid).collect();
    let values = arguments.iter().map(DatumWithOid::datum);
    let (mut values, nulls): (Vec<_>, Vec<_>) = values
        .map(|value| match value {
            Some(value) => (value.sans_lifetime(), b' ' as c_char),
            None => (Datum::null(), b'n' as c_char),
        })
        .unzip();
    connected(|| {
        // SAFETY: SPI is connected, and the query is copied. The three arrays have an entry for
        // each argument. A failed query raises PostgreSQL's own error. SPI is not left before the
        // rows are read.
        unsafe {
            with_latest_snapshot(|| {
                let (count, types, values) =
                    (arguments.len() as c_int, types.as_mut_ptr(), values.as_mut_ptr());
                let query = query.as_pg_cstr();
                pg_sys::SPI_execute_with_args(query, count, types, values, nulls.as_ptr(), true, 0)
            });
            let (columns, rows) = returned();
            let row = |&tuple| {
                let data = SpiHeapTupleData::new(columns, tuple).ok().flatten().expect("a tuple");
                Row { data, columns, tuple }
            };
            let mut values = vec![];
            rows.iter()
                .filter_map(|tuple| read(&row(tuple)))
                .for_each(|value| push(&mut values, value));
            values
        }
    })
}

/// The same for a query of the catalogs that looks up many rows by indexes. If the statistics are
/// those of one large partitioned table, PostgreSQL would read all of `pg_inherits` for each of its
/// partitions. A subquery `LATERAL (... OFFSET 0)` is looked up for each row before it, and not the
/// other way round.
pub fn select_by_index<T>(
    query: &str,
    arguments: &[DatumWithOid],
    read: impl Fn(&Row) -> Option<T>,
) -> Vec<T> {
    guc::with(&[(c"enable_seqscan", "off")], || select(query, arguments, read))
}

/// Runs `f` with a snapshot taken now, in place of the transaction's.
fn with_latest_snapshot<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: the snapshot that is pushed is popped. An error pops it with its transaction or
    // subtransaction.
    unsafe {
        pg_sys::PushActiveSnapshot(pg_sys::GetLatestSnapshot());
        let result = f();
        pg_sys::PopActiveSnapshot();
        result
    }
}

/// The columns and the rows that SPI has returned last.
///
/// # Safety
///
/// A query must have been run. The rows must not be used after SPI was left.
unsafe fn returned<'a>() -> (pg_sys::TupleDesc, &'a [pg_sys::HeapTuple]) {
    // SAFETY: the tuple table of the query is as SPI documents it.
    unsafe {
        let table = &*pg_sys::SPI_tuptable;
        (table.tupdesc, std::slice::from_raw_parts(table.vals, pg_sys::SPI_processed as usize))
    }
}

/// Connects to SPI. An error of a statement leaves unchanged.
fn connected<T>(f: impl FnOnce() -> T) -> T {
    errors::keep(|| Spi::connect(|_| f()))
}

/// A row of a query's result.
pub struct Row<'a> {
    data: SpiHeapTupleData<'a>,
    columns: pg_sys::TupleDesc,
    tuple: pg_sys::HeapTuple,
}

impl Row<'_> {
    pub fn get<T: FromDatum + IntoDatum>(&self, column: usize) -> Option<T> {
        if T::type_oid() == pg_sys::TEXTOID {
            self.check_text(column);
        }
        self.data
            .get(column)
            .unwrap_or_else(|error| unreachable!("column {column} of a query made here: {error}"))
    }

    /// Raises an error for a text that is too long to be copied, or not UTF-8.
    fn check_text(&self, column: usize) {
        let mut is_null = false;
        // SAFETY: the row is one of these columns. Its column is a text, which PostgreSQL has the
        // memory for, or it raises an error.
        unsafe {
            let (column, is_null) = (column as c_int, &mut is_null);
            let datum = pg_sys::SPI_getbinval(self.tuple, self.columns, column, is_null);
            if !*is_null {
                let value = pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr());
                let value = varlena_to_byte_slice(value);
                text::check_length(value.len());
                text::utf8(value);
            }
        }
    }
}

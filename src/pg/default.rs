//! The default of a column, parsed and never run.

use crate::pg::catalog::IS_SHORT_DEFAULT;
use crate::pg::parsed_body::Expression;
use crate::pg::spi::select;
use pgrx::pg_sys::{self, AsPgCStr, AttrNumber, Oid};

/// The default of the column with this number, if it is short: [`IS_SHORT_DEFAULT`].
pub fn default_of(table: Oid, column: AttrNumber) -> Option<Expression> {
    let query = format!(
        "SELECT f.adbin::text FROM pg_attrdef AS f WHERE f.adrelid = $1 AND f.adnum = $2 AND {IS_SHORT_DEFAULT}"
    );
    let text = select(&query, &[table.into(), column.into()], |row| row.get::<String>(1)).pop()?;
    // SAFETY: the text is from pg_attrdef.adbin, and short enough for PostgreSQL's recursion.
    Some(unsafe { Expression::of_node(pg_sys::stringToNode(text.as_pg_cstr()).cast()) })
}

//! Values of several types, exchanged with the server exactly, in binary.

use postgres::types::private::BytesMut;
use postgres::types::{FromSql, IsNull, ToSql, Type};
use std::error::Error;

/// A value of any type that the functions take, as in the protocol: a timestamp as microseconds, an
/// object as its OID.
#[derive(Clone, PartialEq, Debug)]
pub enum Datum {
    Null,
    Int(i64),
    Text(String),
}

impl ToSql for Datum {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Datum::Null => return Ok(IsNull::Yes),
            Datum::Int(n) if *ty == Type::BOOL => out.extend_from_slice(&[*n as u8]),
            Datum::Int(n) if [Type::INT8, Type::TIMESTAMPTZ].contains(ty) => {
                out.extend_from_slice(&n.to_be_bytes());
            }
            Datum::Int(n) => out.extend_from_slice(&(*n as u32).to_be_bytes()),
            Datum::Text(text) => out.extend_from_slice(text.as_bytes()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    postgres::types::to_sql_checked!();
}

impl<'a> FromSql<'a> for Datum {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Datum, Box<dyn Error + Sync + Send>> {
        Ok(Datum::Int(match *raw {
            [byte] => byte.into(),
            [a, b, c, d] => i32::from_be_bytes([a, b, c, d]).into(),
            _ => i64::from_be_bytes(raw.try_into()?),
        }))
    }

    fn from_sql_null(_: &Type) -> Result<Datum, Box<dyn Error + Sync + Send>> {
        Ok(Datum::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// A row of arguments.
pub type Arguments = Vec<Datum>;

/// Rows of arguments as arrays, one for each column.
pub fn columns(rows: &[&Arguments], count: usize) -> Vec<Vec<Datum>> {
    (0..count).map(|n| rows.iter().map(|row| row[n].clone()).collect()).collect()
}

pub fn parameters(columns: &[Vec<Datum>]) -> Vec<&(dyn ToSql + Sync)> {
    columns.iter().map(|column| column as &(dyn ToSql + Sync)).collect()
}

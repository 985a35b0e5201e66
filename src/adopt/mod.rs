//! Adoption: brings a schema that runs the PL/pgSQL original, or a table with a serial key, over to
//! this extension.
//!
//! - `functions`: `adopt_shard`, `unadopt_shard`
//! - `table`: `adopt_table`
//! - `adoption`: an original, and the shard that it becomes
//! - `original`, `check`, `carry_out`: the parts of an adoption, one after the other
//! - `writers`: waits for writers and for the clock
//! - `adopted`: the adopted functions of a shard, and whether they still generate its ids
//! - `key_column`: the column that `adopt_table` converts, the statements, and the way back
//! - `new_key`: the key of a table that the present statement has created
//! - `other_user`: what else uses a sequence
//! - `references`: whether the columns that reference a key can hold ids
//! - `rights`: whether the roles that can insert before an adoption can insert after it

pub mod adopted;
mod adoption;
mod carry_out;
mod check;
mod functions;
pub mod key_column;
pub mod new_key;
mod original;
pub mod other_user;
mod references;
mod rights;
mod table;
pub mod writers;

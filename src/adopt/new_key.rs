//! The key of a table that the present statement has created.

use crate::adopt::key_column::KeyColumn;
use crate::adopt::rights;
use crate::adopt::table::{check_unchanged, next_id_of, set_default};
use crate::error::Error;
use crate::pg::locks;
use crate::pg::names;
use crate::pg::roles;
use crate::shard::definition::Definition;
use crate::shard::trust::Trust;
use pgrx::pg_sys::{self, Oid};

/// Makes ids of a shard the default of a key, and drops its own sequence, after the checks of
/// [`adopt_table`](crate::adopt::table::adopt_table). No statement names the shard here, so the
/// role that creates the table trusts its owner, and that of its schema, only if they have the
/// rights of this role.
pub fn adopt_new_key(
    table: Oid,
    name: &str,
    definition: &Definition,
    own_schema: Oid,
) -> Result<(), Error> {
    let trust = Trust::by_rights_of(roles::own_table(table)?.owner);
    let next_id = next_id_of(definition, own_schema, trust)?;
    let key = KeyColumn::find(table, Some(name.to_owned()), definition, own_schema)?;
    key.check_sources()?;
    rights::check_writers(&key, definition, own_schema)?;
    locks::waiting_briefly(|| locks::lock_function(next_id, pg_sys::AccessShareLock))?;
    check_unchanged(definition, own_schema, trust, next_id)?;
    let change = key.change(&names::schema(definition.schema));
    set_default(&change, None, definition)?;
    key.drop_sequence()
}

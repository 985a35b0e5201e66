//! The owners of a shard's parts: one rule for all functions that use objects which exist already.
//!
//! The parts are the sequence and the functions. PostgreSQL runs a function with the rights of its
//! caller, such as a role that inserts into a table whose default calls it, and the owner of the
//! function can replace its body at any time. So the text of a part does not matter as long as its
//! owner could change it: the rule is about owners.
//!
//! 1. Each part belongs to the owner of `shard_<N>()`, or to a role with the rights of that owner
//!    ([`check_part`]).
//! 2. A role that begins to rely on a shard accepts its owner only if the owner has the rights of
//!    that role, or those of the owner of the schema ([`Trust`]).
//! 3. It accepts a schema only if the owner of the schema has the rights of that role, or the
//!    caller names the schema. The owner of a schema can drop all functions in it, and create
//!    others.
//! 4. A caller that names a function accepts its owner, and that of its schema.
//!
//! A role has the rights of another one if it is that role, a superuser, or a member that inherits
//! its privileges: PostgreSQL's own checks of ownership apply the same condition. That the *caller*
//! has the rights of an owner is no reason to trust that owner. A superuser has the rights of all
//! roles.

use crate::error::Error;
use crate::pg::catalog::{self, Function, Relation};
use crate::pg::names;
use crate::shard::definition::Definition;
use instagram_id_core::layout::Shard;
use pgrx::pg_sys::Oid;

/// A part of a shard.
#[derive(Clone, Copy)]
pub enum Object {
    Function(Oid),
    Sequence(Oid),
}

/// Whether a part with this owner may belong to the shard of the other one.
pub fn is_of_shard(owner_of_part: Oid, owner_of_shard: Oid) -> bool {
    catalog::has_rights_of(owner_of_part, owner_of_shard)
}

/// Checks the owner of a part against that of the shard.
pub fn check_part(
    shard: Shard,
    part: Object,
    owner_of_part: Oid,
    owner_of_shard: Oid,
) -> Result<(), Error> {
    if is_of_shard(owner_of_part, owner_of_shard) {
        return Ok(());
    }
    let (kind, name) = match part {
        Object::Function(function) => ("function", names::function(function)),
        Object::Sequence(sequence) => ("sequence", names::relation(sequence)),
    };
    let (owner, role) = (names::role(owner_of_part), names::role(owner_of_shard));
    Err(Error::PartOfAnother { kind, name, owner, shard: shard.number(), role })
}

/// Whom a role trusts with functions that may run with its rights.
#[derive(Clone, Copy)]
pub struct Trust {
    role: Oid,
    /// Whether this is the caller, and not the owner of a table.
    is_caller: bool,
    schema: SchemaTrust,
    /// The owner of a function that the caller has named.
    named_owner: Option<Oid>,
}

/// Why a role trusts the owner of a schema, apart from the rights of that owner.
#[derive(Clone, Copy, PartialEq)]
enum SchemaTrust {
    /// There is no further reason.
    ByRights,
    /// The caller has named the schema, or a function in it.
    Named,
    /// The table is in the schema, and no partition. The owner of the schema can replace the table,
    /// with triggers that run with the rights of those who write to it. So all who use the table
    /// trust this owner already.
    OfTable,
}

impl Trust {
    /// That of the caller, who has named the schema or not.
    pub fn of_caller(names_schema: bool) -> Trust {
        let schema = if names_schema { SchemaTrust::Named } else { SchemaTrust::ByRights };
        Trust { role: catalog::current_role(), is_caller: true, schema, named_owner: None }
    }

    /// The same for a caller who has named a function with this owner.
    pub fn of_caller_who_names(owner: Oid) -> Trust {
        Trust { named_owner: Some(owner), ..Trust::of_caller(true) }
    }

    /// That of all who use a table: they trust its owner already. `schema` is the schema of the
    /// shard, which the caller has named or not.
    pub fn of_table(table: &Relation, schema: Oid, names_schema: bool) -> Trust {
        let schema = match (table.schema == schema, names_schema) {
            (true, _) => SchemaTrust::OfTable,
            (false, true) => SchemaTrust::Named,
            (false, false) => SchemaTrust::ByRights,
        };
        Trust { role: table.owner, is_caller: false, schema, named_owner: None }
    }

    /// That of a role for which nobody has named anything: it trusts only owners with its rights.
    pub fn by_rights_of(role: Oid) -> Trust {
        Trust { role, is_caller: false, schema: SchemaTrust::ByRights, named_owner: None }
    }

    /// Whether the role trusts this owner of a function in the schema.
    pub fn accepts(self, schema: Oid, owner: Oid) -> bool {
        self.accepts_owner(schema, owner)
            && (self.schema != SchemaTrust::ByRights || self.has_owner_with_rights(schema))
    }

    /// Whether the role trusts this owner, provided that it trusts the owner of the schema.
    pub fn accepts_owner(self, schema: Oid, owner: Oid) -> bool {
        catalog::has_rights_of(owner, self.role)
            || catalog::owns_schema(schema, owner)
            || self.named_owner == Some(owner)
    }

    fn has_owner_with_rights(self, schema: Oid) -> bool {
        catalog::schema_owner(schema).is_some_and(|owner| catalog::has_rights_of(owner, self.role))
    }

    /// Checks that the role trusts the owner of a shard, and the owner of its schema.
    pub fn check(self, definition: &Definition) -> Result<(), Error> {
        let Definition { shard, schema, owner, function, .. } = *definition;
        if !self.accepts_owner(schema, owner) {
            let (shard, owner, role) = (shard.number(), names::role(owner), names::role(self.role));
            return Err(Error::ShardNotTrusted {
                shard,
                function: names::function(function),
                owner,
                role,
                is_caller: self.is_caller,
            });
        }
        self.check_schema(shard, schema)
    }

    /// Checks that the role trusts the owner of a function that is about to be adopted, and the
    /// owner of its schema.
    pub fn check_original(self, shard: Shard, original: &Function) -> Result<(), Error> {
        if !self.accepts_owner(original.schema, original.owner) {
            let (owner, role) = (names::role(original.owner), names::role(self.role));
            return Err(Error::OriginalNotTrusted {
                function: names::function(original.oid),
                owner,
                role,
            });
        }
        self.check_schema(shard, original.schema)
    }

    /// Checks that the role trusts the owner of the schema.
    pub fn check_schema(self, shard: Shard, schema: Oid) -> Result<(), Error> {
        if self.schema != SchemaTrust::ByRights || self.has_owner_with_rights(schema) {
            return Ok(());
        }
        let (name, owner) = (names::raw_schema(schema), owner_of(schema));
        let (shard, schema, role) = (shard.number(), names::schema(schema), names::role(self.role));
        Err(Error::SchemaNotTrusted { shard, schema, name, owner, role })
    }

    /// Checks that the role trusts the owner of a table, if it still exists. Its code would run
    /// when the role's own table is changed. `tie` says why.
    pub fn check_table(
        self,
        own: Oid,
        table: Oid,
        tie: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        let owner = catalog::relation(table).map(|relation| relation.owner);
        let Some(owner) = owner.filter(|owner| !catalog::has_rights_of(*owner, self.role)) else {
            return Ok(());
        };
        let (table, own) = (names::relation(table), names::relation(own));
        let (owner, role) = (names::role(owner), names::role(self.role));
        Err(Error::TableNotTrusted { table, owner, tie: tie(), own, role })
    }

    /// A NOTICE for each owner that the role trusts for another reason than its rights, such as a
    /// name that the caller has passed.
    pub fn announce(self, shard: Shard, schema: Oid) {
        let (shard, name) = (shard.number(), names::schema(schema));
        let of_schema = catalog::schema_owner(schema);
        if self.schema != SchemaTrust::ByRights && !self.has_owner_with_rights(schema) {
            let owner = owner_of(schema);
            let trusted = Error::OwnerTrusted { shard, owner, object: format!("schema {name}") };
            trusted.notice();
        }
        let is_new =
            |owner: &Oid| Some(*owner) != of_schema && !catalog::has_rights_of(*owner, self.role);
        if let Some(owner) = self.named_owner.filter(is_new) {
            let owner = names::role(owner);
            let trusted = Error::OwnerTrusted { shard, owner, object: "the function".into() };
            trusted.notice();
        }
    }
}

/// The name of the owner of a schema.
fn owner_of(schema: Oid) -> String {
    names::role(catalog::schema_owner(schema).unwrap_or(Oid::INVALID))
}

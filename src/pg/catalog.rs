//! Schemas, relations, roles and functions in the system catalogs.
//!
//! The bodies of functions are parsed but never run, so that code written by their owners cannot do
//! anything.

use crate::pg::parsed_body::{Expression, selected};
use crate::pg::raw::{Raw, guarded};
use crate::pg::sys::{self, InvalidSubTransactionId, NoLock};
use crate::pg::text::push;
use pgrx::memcxt::PgMemoryContexts;
use pgrx::pg_sys::{self, AsPgCStr, Datum, Oid};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_int};

/// A condition: whether a default, of a row `f` of `pg_attrdef`, is short enough to be read, as a
/// call of `next_id()` is. PostgreSQL's recursion could not read every default of any role, nor
/// would it be fast. The length is stored beside the text, which is not read for it.
pub const IS_SHORT_DEFAULT: &str = "octet_length(f.adbin::text) <= 16384";

/// The schema of that name, or `InvalidOid`.
pub fn schema_oid(name: &str) -> Oid {
    // SAFETY: the name is copied to a C string.
    unsafe { pg_sys::get_namespace_oid(name.as_pg_cstr(), true) }
}

/// The relation of that name in a schema, or `InvalidOid`.
pub fn relation_oid(name: &str, schema: Oid) -> Oid {
    // SAFETY: the name is copied to a C string.
    unsafe { pg_sys::get_relname_relid(name.as_pg_cstr(), schema) }
}

/// The number of a column of a relation, if it exists.
pub fn column_number(relation: Oid, name: &str) -> Option<pg_sys::AttrNumber> {
    // SAFETY: a catalog lookup, and the name is copied to a C string.
    let number = unsafe { pg_sys::get_attnum(relation, name.as_pg_cstr()) };
    (number != 0).then_some(number)
}

/// The query for a table and all tables that inherit from it or are its partitions. `table` is an
/// expression for its OID. `pg_partition_tree()` would wait for locks on them.
pub fn tree_of(table: &str) -> String {
    format!(
        "WITH RECURSIVE tree(relid) AS (
             SELECT {table} UNION SELECT inhrelid FROM tree
                 CROSS JOIN LATERAL (SELECT inhrelid FROM pg_inherits WHERE inhparent = relid OFFSET 0) AS i
         ) SELECT relid FROM tree"
    )
}

/// The subquery for the foreign keys that reference a table, rows of `pg_constraint`. `table` is an
/// expression for its OID. Any role that can create tables decides how many there are in all, so
/// they are found by indexes.
pub fn foreign_keys_on(table: &str) -> String {
    format!(
        "(SELECT key.* FROM pg_depend AS by
             CROSS JOIN LATERAL (SELECT * FROM pg_constraint WHERE oid = by.objid OFFSET 0) AS key
         WHERE by.classid = 'pg_constraint'::regclass AND by.refclassid = 'pg_class'::regclass AND by.refobjid = {table}
         AND by.deptype = 'n' AND key.contype = 'f' AND key.confrelid = {table})"
    )
}

/// Whether a new table cannot have that name, which is the name of its type as well.
pub fn is_name_taken(name: &str, schema: Oid) -> bool {
    let (type_name, none) = (Datum::from(name.as_pg_cstr()), Datum::null());
    let types = pg_sys::SysCacheIdentifier::TYPENAMENSP as c_int;
    // SAFETY: a lookup in a syscache whose keys are a name, copied to a C string, and a schema.
    let is_type =
        unsafe { pg_sys::SearchSysCacheExists(types, type_name, schema.into(), none, none) };
    is_type || relation_oid(name, schema) != Oid::INVALID
}

/// Whether the role has USAGE on the schema.
pub fn may_use_schema(schema: Oid, role: Oid) -> bool {
    has_privilege(pg_sys::NamespaceRelationId, schema, role, pg_sys::ACL_USAGE)
}

/// Whether the role has CREATE on the schema.
pub fn may_create_in(schema: Oid, role: Oid) -> bool {
    has_privilege(pg_sys::NamespaceRelationId, schema, role, pg_sys::ACL_CREATE)
}

/// Whether the current role may call a function.
pub fn may_execute(function: Oid) -> bool {
    has_privilege(pg_sys::ProcedureRelationId, function, current_role(), pg_sys::ACL_EXECUTE)
}

/// Raises PostgreSQL's error about a function of this name that the role may not call.
pub fn refuse_execute(function: &str) {
    let (reason, kind) = (pg_sys::AclResult::ACLCHECK_NO_PRIV, pg_sys::ObjectType::OBJECT_FUNCTION);
    // SAFETY: the name is copied to a C string.
    unsafe { pg_sys::aclcheck_error(reason, kind, function.as_pg_cstr()) }
}

/// Whether the role has a privilege on a schema or a function, which `class` says.
fn has_privilege(class: Oid, object: Oid, role: Oid, privilege: u32) -> bool {
    let privilege = privilege as pg_sys::AclMode;
    // SAFETY: a catalog lookup. An object that was dropped in the meantime is an error raised by
    // PostgreSQL.
    let result = unsafe {
        #[cfg(feature = "pg15")]
        match class {
            pg_sys::NamespaceRelationId => pg_sys::pg_namespace_aclcheck(object, role, privilege),
            pg_sys::ProcedureRelationId => pg_sys::pg_proc_aclcheck(object, role, privilege),
            other => unreachable!("privileges on objects of class {other}"),
        }
        #[cfg(not(feature = "pg15"))]
        pg_sys::object_aclcheck(class, object, role, privilege)
    };
    result == pg_sys::AclResult::ACLCHECK_OK
}

/// Whether the role owns the schema or has its owner's privileges.
pub fn owns_schema(schema: Oid, role: Oid) -> bool {
    owns(pg_sys::NamespaceRelationId, schema, role)
}

/// Whether the role owns this database or has its owner's privileges, as pg_database_owner does.
pub fn owns_database(role: Oid) -> bool {
    // SAFETY: reads a variable of the backend.
    let database = unsafe { pg_sys::MyDatabaseId };
    role == pg_sys::ROLE_PG_DATABASE_OWNER.into()
        || owns(pg_sys::DatabaseRelationId, database, role)
}

/// Whether the role owns a schema or a database, which `class` says, or has its owner's privileges.
fn owns(class: Oid, object: Oid, role: Oid) -> bool {
    // SAFETY: as for `has_privilege`.
    unsafe {
        #[cfg(feature = "pg15")]
        match class {
            pg_sys::NamespaceRelationId => pg_sys::pg_namespace_ownercheck(object, role),
            pg_sys::DatabaseRelationId => pg_sys::pg_database_ownercheck(object, role),
            other => unreachable!("owners of objects of class {other}"),
        }
        #[cfg(not(feature = "pg15"))]
        pg_sys::object_ownercheck(class, object, role)
    }
}

/// The owner of a schema; `None` if it was dropped. For a schema of `pg_database_owner`, such as
/// `public`, that is the owner of this database, the only member that this role can have.
pub fn schema_owner(schema: Oid) -> Option<Oid> {
    use pg_sys::SysCacheIdentifier::{DATABASEOID, NAMESPACEOID};
    // SAFETY: each cache has rows of this catalog, which are valid until they are released.
    unsafe {
        let owner =
            field_of(NAMESPACEOID, schema, |row: &pg_sys::FormData_pg_namespace| row.nspowner);
        forget_schema(schema);
        if owner != Some(pg_sys::ROLE_PG_DATABASE_OWNER.into()) {
            return owner;
        }
        field_of(DATABASEOID, pg_sys::MyDatabaseId, |row: &pg_sys::FormData_pg_database| row.datdba)
    }
}

/// What `field` takes from the row with that OID in a catalog; `None` if there is no such row.
///
/// # Safety
///
/// `Row` must be the type of the cache's rows, and its key an OID.
unsafe fn field_of<Row, T>(
    cache: pg_sys::SysCacheIdentifier::Type,
    oid: Oid,
    field: fn(&Row) -> T,
) -> Option<T> {
    // SAFETY: promised by the caller.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(cache as c_int, oid.into());
        if tuple.is_null() {
            return None;
        }
        let field = field(&*pg_sys::GETSTRUCT(tuple).cast::<Row>());
        pg_sys::ReleaseSysCache(tuple);
        Some(field)
    }
}

/// The types below domains. Other roles decide how many columns have a type, and how many domains
/// stand one above the other. So each type is looked up once, and no domain is kept in the caches.
#[derive(Default)]
pub struct BaseTypes(RefCell<FxHashMap<Oid, Oid>>);

impl BaseTypes {
    /// The type below a domain, or the type itself; `InvalidOid` if it does not exist.
    pub fn of(&self, type_oid: Oid) -> Oid {
        let mut known = self.0.borrow_mut();
        let (mut chain, mut next) = (vec![], type_oid);
        let base = loop {
            pgrx::check_for_interrupts!();
            if let Some(base) = known.get(&next) {
                break *base;
            }
            chain.push(next);
            match type_below(next) {
                Some(Oid::INVALID) => break next,
                Some(below) => next = below,
                None => break Oid::INVALID,
            }
        };
        known.extend(chain.into_iter().map(|of| (of, base)));
        base
    }
}

/// The type on which a domain is based, `InvalidOid` for another type; `None` if there is none of
/// this OID.
fn type_below(type_oid: Oid) -> Option<Oid> {
    const CACHE: pg_sys::SysCacheIdentifier::Type = pg_sys::SysCacheIdentifier::TYPEOID;
    let below = |row: &pg_sys::FormData_pg_type| match row.typtype as u8 {
        pg_sys::TYPTYPE_DOMAIN => row.typbasetype,
        _ => Oid::INVALID,
    };
    // SAFETY: the rows and the key of that cache.
    let below = unsafe { field_of(CACHE, type_oid, below) };
    if below.is_some_and(|below| below != Oid::INVALID) {
        drop_from_syscache(CACHE, type_oid);
    }
    below
}

pub fn schema_exists(schema: Oid) -> bool {
    // SAFETY: a catalog lookup.
    let exists = unsafe { !pg_sys::get_namespace_name(schema).is_null() };
    forget_schema(schema);
    exists
}

/// The options of a sequence; `None` if there is no such sequence.
pub fn sequence_options(sequence: Oid) -> Option<sys::FormData_pg_sequence> {
    // SAFETY: a catalog look-up that does not panic and owns nothing with a destructor.
    unsafe { guarded(|raw| raw.pg_sequence_row(sequence)) }
}

/// Whether this transaction created the relation. Then no other session has seen it yet.
pub fn is_new(relid: Oid) -> bool {
    with_descriptor(relid, |relation| relation.rd_createSubid != InvalidSubTransactionId)
}

/// Whether this transaction has given an existing relation a new file. A rollback restores the old
/// file, with its content.
pub fn has_new_file(relid: Oid) -> bool {
    with_descriptor(relid, |relation| {
        relation.rd_createSubid == InvalidSubTransactionId
            && sys::first_file(relation) != InvalidSubTransactionId
    })
}

fn with_descriptor<T>(relid: Oid, f: impl FnOnce(&pg_sys::RelationData) -> T) -> T {
    // SAFETY: reads the descriptor of an open relation, which the caller has locked.
    unsafe {
        let relation = pg_sys::relation_open(relid, NoLock);
        let result = f(&*relation);
        pg_sys::relation_close(relation, NoLock);
        result
    }
}

/// A row of `pg_class`.
#[derive(Clone, Copy)]
pub struct Relation {
    pub schema: Oid,
    pub owner: Oid,
    pub is_sequence: bool,
    pub is_partitioned: bool,
    pub is_partition: bool,
    pub is_temporary: bool,
    pub is_foreign: bool,
    /// Whether other tables inherit from it or are its partitions, or did so before.
    pub may_have_children: bool,
    /// `InvalidOid` for a partitioned table that does not set it for its partitions.
    pub access_method: Oid,
    /// `InvalidOid` for the database's default.
    pub tablespace: Oid,
}

/// A relation by its OID.
pub fn relation(oid: Oid) -> Option<Relation> {
    const CACHE: pg_sys::SysCacheIdentifier::Type = pg_sys::SysCacheIdentifier::RELOID;
    let relation = |row: &pg_sys::FormData_pg_class| Relation {
        schema: row.relnamespace,
        owner: row.relowner,
        is_sequence: row.relkind as u8 == pg_sys::RELKIND_SEQUENCE,
        is_partitioned: row.relkind as u8 == pg_sys::RELKIND_PARTITIONED_TABLE,
        is_partition: row.relispartition,
        is_temporary: row.relpersistence as u8 == pg_sys::RELPERSISTENCE_TEMP,
        is_foreign: row.relkind as u8 == pg_sys::RELKIND_FOREIGN_TABLE,
        may_have_children: row.relhassubclass,
        access_method: row.relam,
        tablespace: row.reltablespace,
    };
    // SAFETY: the cache has rows of this catalog.
    unsafe {
        let relation = field_of(CACHE, oid, relation)?;
        drop_from_syscache(CACHE, oid);
        Some(relation)
    }
}

/// Whether a role is the other one or has its privileges.
pub fn has_rights_of(role: Oid, other: Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::has_privs_of_role(role, other) }
}

/// The role whose privileges are in effect.
pub fn current_role() -> Oid {
    // SAFETY: reads a variable of the backend.
    unsafe { pg_sys::GetUserId() }
}

pub fn is_temporary_schema(schema: Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::isAnyTempNamespace(schema) }
}

/// The OID of PL/pgSQL, or `InvalidOid`.
pub fn plpgsql() -> Oid {
    language(c"plpgsql")
}

/// The OID of the language SQL.
pub fn sql() -> Oid {
    language(c"sql")
}

fn language(name: &CStr) -> Oid {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::get_language_oid(name.as_ptr(), true) }
}

/// Evicts the sequence from PostgreSQL's relation and catalog caches. A session may use thousands
/// of sequences, and the extension's own cache needs a fiftieth of the space for each.
///
/// # Safety
///
/// The relation must not be open.
pub unsafe fn forget_sequence(raw: Raw, sequence: Oid) {
    // SAFETY: the caches load an evicted entry again when it is needed.
    unsafe {
        raw.RelationCacheInvalidateEntry(sequence);
        for cache in [pg_sys::SysCacheIdentifier::RELOID, pg_sys::SysCacheIdentifier::SEQRELID] {
            raw.drop_from_syscache(cache, sequence);
        }
    }
}

/// Evicts the schema from PostgreSQL's caches, for the same reason.
pub fn forget_schema(schema: Oid) {
    drop_from_syscache(pg_sys::SysCacheIdentifier::NAMESPACEOID, schema);
}

/// A row of `pg_proc`.
pub struct Function {
    pub oid: Oid,
    pub name: String,
    pub schema: Oid,
    pub owner: Oid,
    pub language: Oid,
    pub returns: Oid,
    /// The types of its input parameters.
    pub parameters: Vec<Oid>,
    pub returns_set: bool,
    pub is_volatile: bool,
    pub is_security_definer: bool,
    /// The text of its parsed body (`RETURN` or `BEGIN ATOMIC`), unless it is longer than
    /// [`TEXT_MAX`].
    parsed: Option<CString>,
}

impl Function {
    /// Whether its body was parsed when it was created, so that its text is not kept.
    pub fn has_parsed_body(&self) -> bool {
        self.parsed.is_some()
    }

    /// The expressions that it selects, if its body is one plain SELECT of expressions, without
    /// FROM, WHERE and other clauses.
    pub fn selected(&self) -> Option<Vec<Expression>> {
        let parsed = self.parsed.as_ref()?;
        // SAFETY: the text is from pg_proc.prosqlbody, and short enough for PostgreSQL's recursion.
        unsafe { selected(pg_sys::stringToNode(parsed.as_ptr()).cast()) }
    }
}

/// A parsed body created by this extension has 1 to 2 kB, an original less. A longer body is not
/// ours, and may be so long or so deeply nested that parsing it is slow or fails.
pub const TEXT_MAX: usize = 16_384;

/// Which functions to visit. An index finds them by name.
#[derive(Clone, Copy)]
pub enum Named<'a> {
    Exactly(&'a str),
    StartingWith(&'a str),
}

/// Visits the functions of that name without parameters, in all schemas except temporary ones, by
/// the current state of the catalog. The expressions of a function are valid only during its visit.
pub fn visit_functions(named: Named, mut visit: impl FnMut(&Function)) {
    let (name, operator, strategy, keys) = match named {
        Named::Exactly(name) => (name, pg_sys::F_NAMEEQ, pg_sys::BTEqualStrategyNumber, 2),
        Named::StartingWith(name) => {
            (name, pg_sys::F_NAMEGE, pg_sys::BTGreaterEqualStrategyNumber, 1)
        }
    };
    // SAFETY: a catalog scan, as in PostgreSQL's own code. The keys and their values outlive the
    // scan; an error ends the scan with the transaction.
    unsafe {
        let relation =
            pg_sys::table_open(pg_sys::ProcedureRelationId, pg_sys::AccessShareLock as c_int);
        let none = pg_sys::buildoidvector(std::ptr::null(), 0);
        // So that the index leaves out functions with parameters. A role can create any number of
        // them in one schema.
        let mut key = [name_key(name, strategy, operator), types_key(none)];
        let mut memory = PgMemoryContexts::new("instagram_id function");
        let index = Oid::from(pg_sys::ProcedureNameArgsNspIndexId);
        let none = std::ptr::null_mut();
        let scan = pg_sys::systable_beginscan(relation, index, true, none, keys, key.as_mut_ptr());
        loop {
            pgrx::check_for_interrupts!();
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            let row = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_proc>();
            if !name_of(row).to_bytes().starts_with(name.as_bytes()) {
                // The index continues with other names. With ignore_system_indexes there is none.
                if (*scan).irel.is_null() {
                    continue;
                }
                break;
            }
            if row.pronargs == 0 && !is_temporary_schema(row.pronamespace) {
                memory.switch_to(|_| visit(&function_of(tuple)));
                memory.reset();
            }
        }
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(relation, pg_sys::AccessShareLock as c_int);
    }
}

/// Visits the functions without parameters that depend on an object, in all schemas except
/// temporary ones, by the current state of the catalog. Their names begin with `prefix`, and
/// `may_own` accepts their schema and owner. Such an object is a relation that a parsed body
/// contains as a `regclass` constant, or the functions' schema. Returns false, and visits none, if
/// more functions than `max` depend on it, or four times as many objects.
///
/// Any role can create any number of functions that depend on a relation of others. The bodies of
/// other functions are not read.
pub fn visit_functions_that_need(
    (class, object): (Oid, Oid),
    prefix: &str,
    may_own: impl Fn(Oid, Oid) -> bool,
    max: usize,
    mut visit: impl FnMut(&Function),
) -> bool {
    let accepts = |row: &pg_sys::FormData_pg_proc| {
        row.pronargs == 0
            && name_of(row).to_bytes().starts_with(prefix.as_bytes())
            && !is_temporary_schema(row.pronamespace)
            && may_own(row.pronamespace, row.proowner)
    };
    // One snapshot for both catalogs: a function that is replaced meanwhile is seen as it was.
    // SAFETY: catalog scans, as in PostgreSQL's own code. An error ends the scans and releases the
    // snapshot with the transaction.
    unsafe {
        let lock = pg_sys::AccessShareLock as c_int;
        let functions = pg_sys::table_open(pg_sys::ProcedureRelationId, lock);
        // As of the caches.
        let snapshot = pg_sys::GetCatalogSnapshot(pg_sys::ProcedureRelationId);
        let snapshot = pg_sys::RegisterSnapshot(snapshot);
        let found = functions_that_need(class, object, snapshot, max);
        for &oid in found.iter().flatten() {
            // Other roles decide how many there are.
            pgrx::check_for_interrupts!();
            let mut key = [oid_key(pg_sys::Anum_pg_proc_oid as pg_sys::AttrNumber, oid)];
            let index = pg_sys::ProcedureOidIndexId;
            if let Some(function) = first_function(functions, index, snapshot, &mut key, accepts) {
                visit(&function);
            }
        }
        pg_sys::UnregisterSnapshot(snapshot);
        pg_sys::table_close(functions, lock);
        found.is_some()
    }
}

unsafe fn functions_that_need(
    class: Oid,
    object: Oid,
    snapshot: pg_sys::Snapshot,
    max: usize,
) -> Option<Vec<Oid>> {
    let (mut functions, mut objects, mut is_complete) = (vec![], 0, true);
    // SAFETY: a catalog scan. The keys outlive the scan.
    unsafe {
        let depend =
            pg_sys::table_open(sys::DependRelationId.into(), pg_sys::AccessShareLock as c_int);
        let mut keys = [
            oid_key(sys::Anum_pg_depend_refclassid, class),
            oid_key(sys::Anum_pg_depend_refobjid, object),
        ];
        let index = Oid::from(sys::DependReferenceIndexId);
        let scan = pg_sys::systable_beginscan(depend, index, true, snapshot, 2, keys.as_mut_ptr());
        loop {
            pgrx::check_for_interrupts!();
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            // Defaults of columns of any role can depend on it, too. They take less time.
            objects += 1;
            if functions.len() > max || objects > max.saturating_mul(4) {
                is_complete = false;
                break;
            }
            let row = &*pg_sys::GETSTRUCT(tuple).cast::<sys::FormData_pg_depend>();
            if row.classid == pg_sys::ProcedureRelationId {
                push(&mut functions, row.objid);
            }
        }
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(depend, pg_sys::AccessShareLock as c_int);
    }
    is_complete.then_some(functions)
}

/// The key of a scan for the rows with an OID in a column.
///
/// # Safety
///
/// The column is of type oid.
pub unsafe fn oid_key(column: pg_sys::AttrNumber, value: Oid) -> pg_sys::ScanKeyData {
    // SAFETY: the operator compares OIDs.
    unsafe { key(column, pg_sys::F_OIDEQ, value.into()) }
}

/// The same for a column whose values this function compares.
pub unsafe fn key(
    column: pg_sys::AttrNumber,
    equal: u32,
    value: pg_sys::Datum,
) -> pg_sys::ScanKeyData {
    let mut key = pg_sys::ScanKeyData::default();
    let strategy = pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber;
    // SAFETY: promised by the caller.
    unsafe { pg_sys::ScanKeyInit(&mut key, column, strategy, equal.into(), value) };
    key
}

/// The first function that a scan of `pg_proc`, which the caller has opened, finds by an index, if
/// its row is accepted. The body of another one is not read.
unsafe fn first_function(
    functions: pg_sys::Relation,
    index: u32,
    snapshot: pg_sys::Snapshot,
    keys: &mut [pg_sys::ScanKeyData],
    accepts: impl FnOnce(&pg_sys::FormData_pg_proc) -> bool,
) -> Option<Function> {
    // SAFETY: a catalog scan. The keys outlive the scan, until whose end the tuple is valid.
    unsafe {
        let (count, keys) = (keys.len() as c_int, keys.as_mut_ptr());
        let scan = pg_sys::systable_beginscan(functions, index.into(), true, snapshot, count, keys);
        let tuple = pg_sys::systable_getnext(scan);
        let is_accepted = !tuple.is_null() && accepts(&*pg_sys::GETSTRUCT(tuple).cast());
        let function = is_accepted.then(|| function_of(tuple));
        pg_sys::systable_endscan(scan);
        function
    }
}

/// A function by its OID. Callers read many in a loop, and other roles decide how many.
pub fn function(oid: Oid) -> Option<Function> {
    pgrx::check_for_interrupts!();
    const CACHE: pg_sys::SysCacheIdentifier::Type = pg_sys::SysCacheIdentifier::PROCOID;
    // SAFETY: the tuple is valid until it is released.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(CACHE as c_int, oid.into());
        if tuple.is_null() {
            return None;
        }
        let function = function_of(tuple);
        pg_sys::ReleaseSysCache(tuple);
        drop_from_syscache(CACHE, oid);
        Some(function)
    }
}

/// The body of a function as text, for languages other than SQL, unless it is longer than this.
pub fn source(oid: Oid, max: usize) -> Option<String> {
    // SAFETY: the tuple is valid until it is released.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::PROCOID as c_int;
        let tuple = pg_sys::SearchSysCache1(cache, oid.into());
        if tuple.is_null() {
            return None;
        }
        let source = attribute(tuple, pg_sys::Anum_pg_proc_prosrc, max);
        pg_sys::ReleaseSysCache(tuple);
        drop_from_syscache(pg_sys::SysCacheIdentifier::PROCOID, oid);
        Some(source?.to_string_lossy().into_owned())
    }
}

/// The function of that name and these input types in a schema. This is one look-up: if it is
/// replaced meanwhile, the old or the new one is found. It leaves nothing in the caches.
pub fn function_in(schema: Oid, name: &str, parameters: &[Oid]) -> Option<Function> {
    // SAFETY: a catalog scan, as in PostgreSQL's own code. The values of the keys outlive the scan;
    // an error ends it with the transaction.
    unsafe {
        let lock = pg_sys::AccessShareLock as c_int;
        let relation = pg_sys::table_open(pg_sys::ProcedureRelationId, lock);
        let types = pg_sys::buildoidvector(parameters.as_ptr(), parameters.len() as c_int);
        let mut keys = [
            name_key(name, pg_sys::BTEqualStrategyNumber, pg_sys::F_NAMEEQ),
            types_key(types),
            oid_key(pg_sys::Anum_pg_proc_pronamespace as pg_sys::AttrNumber, schema),
        ];
        let (index, newest) = (pg_sys::ProcedureNameArgsNspIndexId, std::ptr::null_mut());
        let function = first_function(relation, index, newest, &mut keys, |_| true);
        pg_sys::table_close(relation, lock);
        function
    }
}

unsafe fn name_key(name: &str, strategy: u32, operator: u32) -> pg_sys::ScanKeyData {
    let mut key = pg_sys::ScanKeyData::default();
    let column = pg_sys::Anum_pg_proc_proname as pg_sys::AttrNumber;
    let strategy = strategy as pg_sys::StrategyNumber;
    let name = Datum::from(name.as_pg_cstr());
    // SAFETY: the operator compares names with C strings, to which the name is copied.
    unsafe { pg_sys::ScanKeyInit(&mut key, column, strategy, operator.into(), name) };
    key
}

unsafe fn types_key(types: *mut pg_sys::oidvector) -> pg_sys::ScanKeyData {
    let mut key = pg_sys::ScanKeyData::default();
    let column = pg_sys::Anum_pg_proc_proargtypes as pg_sys::AttrNumber;
    let equal = pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber;
    let (operator, types) = (pg_sys::F_OIDVECTOREQ.into(), Datum::from(types));
    // SAFETY: the operator compares vectors.
    unsafe { pg_sys::ScanKeyInit(&mut key, column, equal, operator, types) };
    key
}

/// # Safety
///
/// `tuple` must be a tuple of `pg_proc`.
unsafe fn function_of(tuple: pg_sys::HeapTuple) -> Function {
    // SAFETY: promised by the caller.
    unsafe {
        let row = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_proc>();
        // The types follow the row's fixed part.
        let types = (&raw const (*row).proargtypes.values).cast::<Oid>();
        let parameters =
            std::slice::from_raw_parts(types, (*row).proargtypes.dim1 as usize).to_vec();
        let row = &*row;
        Function {
            oid: row.oid,
            name: name_of(row).to_string_lossy().into_owned(),
            schema: row.pronamespace,
            owner: row.proowner,
            language: row.prolang,
            returns: row.prorettype,
            parameters,
            returns_set: row.proretset,
            is_volatile: row.provolatile as u8 == pg_sys::PROVOLATILE_VOLATILE,
            is_security_definer: row.prosecdef,
            parsed: attribute(tuple, pg_sys::Anum_pg_proc_prosqlbody, TEXT_MAX),
        }
    }
}

fn name_of(row: &pg_sys::FormData_pg_proc) -> &CStr {
    // SAFETY: a name ends with a zero byte.
    unsafe { CStr::from_ptr(row.proname.data.as_ptr()) }
}

/// A text or node tree in a tuple of `pg_proc`, unless it is longer than this.
unsafe fn attribute(tuple: pg_sys::HeapTuple, number: u32, max: usize) -> Option<CString> {
    // SAFETY: the caller passes a tuple of pg_proc and the number of a column that is stored like a
    // text.
    unsafe {
        let mut is_null = false;
        let cache = pg_sys::SysCacheIdentifier::PROCOID as c_int;
        let datum =
            pg_sys::SysCacheGetAttr(cache, tuple, number as pg_sys::AttrNumber, &mut is_null);
        if is_null || pg_sys::toast_raw_datum_size(datum) - size_of::<u32>() > max {
            return None;
        }
        let text = pg_sys::text_to_cstring(datum.cast_mut_ptr());
        let copy = CStr::from_ptr(text).to_owned();
        pg_sys::pfree(text.cast());
        Some(copy)
    }
}

/// The schema of the function that PostgreSQL called. That is the schema of the extension.
pub fn schema_of_this_function(fcinfo: pg_sys::FunctionCallInfo) -> Oid {
    // SAFETY: PostgreSQL passes an fcinfo with an flinfo.
    schema_of_function(unsafe { (*(*fcinfo).flinfo).fn_oid })
}

/// The schema of a function, or `INVALID` if there is none.
pub fn schema_of_function(function: Oid) -> Oid {
    // SAFETY: looks up any OID.
    unsafe { pg_sys::get_func_namespace(function) }
}

/// [`Raw::has_citus`], under a guard of its own.
pub fn has_citus() -> bool {
    // SAFETY: it does not panic and owns nothing.
    unsafe { guarded(|raw| raw.has_citus()) }
}

/// [`Raw::drop_from_syscache`], under a guard of its own.
pub fn drop_from_syscache(cache: pg_sys::SysCacheIdentifier::Type, oid: Oid) {
    // SAFETY: it does not panic and owns nothing.
    unsafe { guarded(|raw| raw.drop_from_syscache(cache, oid)) }
}

/// Look-ups under the guard of their caller.
impl Raw<'_> {
    /// Whether Citus is installed in this database. If it is, its catalog of distributed objects
    /// exists in pg_catalog, where no other relation gets created by accident.
    pub unsafe fn has_citus(self) -> bool {
        // SAFETY: a lookup in a syscache whose keys are a name and a schema.
        unsafe {
            let (name, none) = (Datum::from(c"pg_dist_object".as_ptr()), Datum::null());
            let schema = Oid::from(pg_sys::PG_CATALOG_NAMESPACE).into();
            self.SearchSysCacheExists(
                pg_sys::SysCacheIdentifier::RELNAMENSP as c_int,
                name,
                schema,
                none,
                none,
            )
        }
    }

    /// Removes the row of that OID from this backend's syscache. PostgreSQL loads it again on the
    /// next lookup. PostgreSQL itself removes rows in the same way when another backend announces a
    /// change.
    pub unsafe fn drop_from_syscache(self, cache: pg_sys::SysCacheIdentifier::Type, oid: Oid) {
        // SAFETY: the only key of the cache is an OID. An entry in use stays until it is released.
        unsafe {
            let none = pg_sys::Datum::null();
            let hash = self.GetSysCacheHashValue(cache as c_int, oid.into(), none, none, none);
            self.SysCacheInvalidate(cache as c_int, hash);
        }
    }

    /// The row of a sequence in `pg_sequence`; `None` if there is none.
    pub unsafe fn pg_sequence_row(self, relid: Oid) -> Option<sys::FormData_pg_sequence> {
        // SAFETY: a syscache tuple is valid until it is released. Its data starts at t_hoff and has
        // this layout.
        unsafe {
            let cache = pg_sys::SysCacheIdentifier::SEQRELID as c_int;
            let tuple = self.SearchSysCache1(cache, relid.into());
            if tuple.is_null() {
                return None;
            }
            let row = *pg_sys::GETSTRUCT(tuple).cast::<sys::FormData_pg_sequence>();
            self.ReleaseSysCache(tuple);
            Some(row)
        }
    }
}

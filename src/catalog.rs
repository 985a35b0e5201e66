//! The system catalogs, as far as shards need them: schemas, relations, functions with what their bodies say, and
//! partitions.
//!
//! Bodies are read, never run: what a schema says of itself must not be able to do anything.

use crate::epoch::TimestampUs;
use crate::sys;
use pgrx::memcxt::PgMemoryContexts;
use pgrx::pg_sys::{self, AsPgCStr, Datum, NodeTag, Oid};
use pgrx::{PgList, is_a};
use std::ffi::{CStr, CString, c_int};

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

/// The relation that a qualified, quoted name means.
pub fn named(name: &str) -> Option<Oid> {
    let query = "SELECT to_regclass($1)::oid";
    pgrx::Spi::get_one_with_args(query, &[name.into()])
        .unwrap_or_else(|error| unreachable!("PostgreSQL reports a failed query itself: {error}"))
}

/// Whether the role has USAGE on the schema.
pub fn may_use_schema(schema: Oid, role: Oid) -> bool {
    let usage = pg_sys::ACL_USAGE as pg_sys::AclMode;
    // SAFETY: asks the catalogs; a schema dropped meanwhile is an error of PostgreSQL's own.
    let result = unsafe {
        #[cfg(feature = "pg15")]
        {
            pg_sys::pg_namespace_aclcheck(schema, role, usage)
        }
        #[cfg(not(feature = "pg15"))]
        {
            pg_sys::object_aclcheck(pg_sys::NamespaceRelationId, schema, role, usage)
        }
    };
    result == pg_sys::AclResult::ACLCHECK_OK
}

/// Whether the role owns the schema, or could act as its owner.
pub fn rules_schema(schema: Oid, role: Oid) -> bool {
    // SAFETY: as for `may_use_schema`.
    unsafe {
        #[cfg(feature = "pg15")]
        {
            pg_sys::pg_namespace_ownercheck(schema, role)
        }
        #[cfg(not(feature = "pg15"))]
        {
            pg_sys::object_ownercheck(pg_sys::NamespaceRelationId, schema, role)
        }
    }
}

/// Whether the role owns this database, or could act as its owner.
pub fn rules_database(role: Oid) -> bool {
    // SAFETY: asks the catalogs.
    unsafe {
        #[cfg(feature = "pg15")]
        {
            pg_sys::pg_database_ownercheck(pg_sys::MyDatabaseId, role)
        }
        #[cfg(not(feature = "pg15"))]
        {
            pg_sys::object_ownercheck(pg_sys::DatabaseRelationId, pg_sys::MyDatabaseId, role)
        }
    }
}

/// Keeps the schema from being dropped until the transaction ends; returns whether it is still there.
pub fn lock_schema(schema: Oid) -> bool {
    // SAFETY: takes a lock and asks the catalogs.
    unsafe {
        let mode = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
        pg_sys::LockDatabaseObject(pg_sys::NamespaceRelationId, schema, 0, mode);
    }
    schema_exists(schema)
}

pub fn schema_exists(schema: Oid) -> bool {
    // SAFETY: asks the catalogs.
    let exists = unsafe { !pg_sys::get_namespace_name(schema).is_null() };
    forget_schema(schema);
    exists
}

/// A row of `pg_class`.
#[derive(Clone, Copy)]
pub struct Relation {
    pub schema: Oid,
    pub owner: Oid,
    pub is_sequence: bool,
    pub is_temporary: bool,
    /// `InvalidOid` where a partitioned table leaves it to its partitions.
    pub access_method: Oid,
    /// `InvalidOid` for the database's own.
    pub tablespace: Oid,
}

/// A relation by its OID.
pub fn relation(oid: Oid) -> Option<Relation> {
    const CACHE: pg_sys::SysCacheIdentifier::Type = pg_sys::SysCacheIdentifier::RELOID;
    // SAFETY: the tuple is valid until it is released.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(CACHE as c_int, oid.into());
        if tuple.is_null() {
            return None;
        }
        let row = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>();
        let relation = Relation {
            schema: row.relnamespace,
            owner: row.relowner,
            is_sequence: row.relkind as u8 == pg_sys::RELKIND_SEQUENCE,
            is_temporary: row.relpersistence as u8 == pg_sys::RELPERSISTENCE_TEMP,
            access_method: row.relam,
            tablespace: row.reltablespace,
        };
        pg_sys::ReleaseSysCache(tuple);
        sys::drop_from_syscache(CACHE, oid);
        Some(relation)
    }
}

/// Whether a role is the other one, or has its rights.
pub fn has_rights_of(role: Oid, other: Oid) -> bool {
    // SAFETY: asks the catalogs.
    unsafe { pg_sys::has_privs_of_role(role, other) }
}

/// The role whose rights count now.
pub fn current_role() -> Oid {
    // SAFETY: reads a variable of the backend.
    unsafe { pg_sys::GetUserId() }
}

pub fn is_temporary_schema(schema: Oid) -> bool {
    // SAFETY: asks the catalogs.
    unsafe { pg_sys::isAnyTempNamespace(schema) }
}

/// The language PL/pgSQL, or `InvalidOid`.
pub fn plpgsql() -> Oid {
    // SAFETY: asks the catalogs.
    unsafe { pg_sys::get_language_oid(c"plpgsql".as_ptr(), true) }
}

/// Forgets again what this backend has read of the schema; see `spare_the_caches` in [`crate::sequence`].
pub fn forget_schema(schema: Oid) {
    // SAFETY: touches this backend's cache alone.
    unsafe { sys::drop_from_syscache(pg_sys::SysCacheIdentifier::NAMESPACEOID, schema) }
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
    /// The text of its parsed body (`RETURN` or `BEGIN ATOMIC`), unless that is longer than any that matters here.
    parsed: Option<CString>,
}

impl Function {
    /// What it selects, where its body is one plain SELECT of expressions, without FROM, WHERE or the like.
    pub fn selected(&self) -> Option<Vec<Expression>> {
        let parsed = self.parsed.as_ref()?;
        // SAFETY: this is what pg_proc.prosqlbody holds, and short enough for PostgreSQL's recursion.
        unsafe { selected(pg_sys::stringToNode(parsed.as_ptr()).cast()) }
    }
}

/// Parsed bodies made here have 1 to 2 kB, an original less. Longer ones are somebody else's, and may be so long, or so
/// deeply nested, that reading them takes a while or fails.
const TEXT_MAX: usize = 16_384;

/// Which functions to visit: an index finds them by name.
#[derive(Clone, Copy)]
pub enum Named<'a> {
    Exactly(&'a str),
    StartingWith(&'a str),
}

/// Visits the functions of that name, without parameters, that are in any schema but temporary ones, as the catalog
/// is now. What one selects is there only while it is visited.
pub fn visit_functions(named: Named, mut visit: impl FnMut(&Function)) {
    let (name, operator, strategy) = match named {
        Named::Exactly(name) => (name, pg_sys::F_NAMEEQ, pg_sys::BTEqualStrategyNumber),
        Named::StartingWith(name) => (name, pg_sys::F_NAMEGE, pg_sys::BTGreaterEqualStrategyNumber),
    };
    // SAFETY: a scan of a catalog as PostgreSQL's own code does it; the key and the name it points to outlive it.
    // An error on the way ends it with the transaction.
    unsafe {
        let relation = pg_sys::table_open(pg_sys::ProcedureRelationId, pg_sys::AccessShareLock as c_int);
        let mut key = pg_sys::ScanKeyData::default();
        pg_sys::ScanKeyInit(
            &mut key,
            pg_sys::Anum_pg_proc_proname as pg_sys::AttrNumber,
            strategy as pg_sys::StrategyNumber,
            operator.into(),
            Datum::from(name.as_pg_cstr()),
        );
        let mut memory = PgMemoryContexts::new("instagram_id function");
        let index = Oid::from(pg_sys::ProcedureNameArgsNspIndexId);
        let scan = pg_sys::systable_beginscan(relation, index, true, std::ptr::null_mut(), 1, &mut key);
        loop {
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            let row = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_proc>();
            if !name_of(row).to_bytes().starts_with(name.as_bytes()) {
                break; // the index goes on to other names
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

/// The functions that depend on an object of this class, say on a relation by a `regclass` constant in a parsed body, or on
/// the schema that they are in; as the catalog is now.
pub fn functions_that_need(class: Oid, object: Oid) -> Vec<Oid> {
    let mut functions = vec![];
    // SAFETY: a scan of a catalog as PostgreSQL's own code does it; the keys outlive it. An error on the way ends it with
    // the transaction.
    unsafe {
        let depend = pg_sys::table_open(sys::DependRelationId.into(), pg_sys::AccessShareLock as c_int);
        let mut keys = [pg_sys::ScanKeyData::default(); 2];
        let values = [(sys::Anum_pg_depend_refclassid, class), (sys::Anum_pg_depend_refobjid, object)];
        for (key, (column, value)) in keys.iter_mut().zip(values) {
            let equal = pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber;
            pg_sys::ScanKeyInit(key, column, equal, pg_sys::F_OIDEQ.into(), value.into());
        }
        let index = Oid::from(sys::DependReferenceIndexId);
        let scan =
            pg_sys::systable_beginscan(depend, index, true, std::ptr::null_mut(), 2, keys.as_mut_ptr());
        loop {
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            let row = &*pg_sys::GETSTRUCT(tuple).cast::<sys::FormData_pg_depend>();
            if row.classid == pg_sys::ProcedureRelationId {
                functions.push(row.objid);
            }
        }
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(depend, pg_sys::AccessShareLock as c_int);
    }
    functions
}

/// A function by its OID.
pub fn function(oid: Oid) -> Option<Function> {
    const CACHE: pg_sys::SysCacheIdentifier::Type = pg_sys::SysCacheIdentifier::PROCOID;
    // SAFETY: the tuple is valid until it is released.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(CACHE as c_int, oid.into());
        if tuple.is_null() {
            return None;
        }
        let function = function_of(tuple);
        pg_sys::ReleaseSysCache(tuple);
        sys::drop_from_syscache(CACHE, oid);
        Some(function)
    }
}

/// The body of a function as text, for other languages than SQL.
pub fn source(oid: Oid) -> Option<String> {
    // SAFETY: the tuple is valid until it is released.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::PROCOID as c_int;
        let tuple = pg_sys::SearchSysCache1(cache, oid.into());
        if tuple.is_null() {
            return None;
        }
        let source = attribute(tuple, pg_sys::Anum_pg_proc_prosrc);
        pg_sys::ReleaseSysCache(tuple);
        Some(source?.to_string_lossy().into_owned())
    }
}

/// The function of that name and these input types in a schema.
pub fn function_in(schema: Oid, name: &str, parameters: &[Oid]) -> Option<Function> {
    // SAFETY: the keys are those of this cache: a name, a vector of types and a schema; the name is copied.
    let oid = unsafe {
        let types = pg_sys::buildoidvector(parameters.as_ptr(), parameters.len() as c_int);
        pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::PROCNAMEARGSNSP as c_int,
            pg_sys::Anum_pg_proc_oid as pg_sys::AttrNumber,
            Datum::from(name.as_pg_cstr()),
            Datum::from(types),
            schema.into(),
            Datum::null(),
        )
    };
    function(oid)
}

/// # Safety
///
/// A tuple of `pg_proc`.
unsafe fn function_of(tuple: pg_sys::HeapTuple) -> Function {
    // SAFETY: the caller's promise.
    unsafe {
        let row = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_proc>();
        let types = &row.proargtypes;
        let parameters = types.values.as_slice(types.dim1 as usize).to_vec();
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
            parsed: attribute(tuple, pg_sys::Anum_pg_proc_prosqlbody),
        }
    }
}

fn name_of(row: &pg_sys::FormData_pg_proc) -> &CStr {
    // SAFETY: a name ends with a zero.
    unsafe { CStr::from_ptr(row.proname.data.as_ptr()) }
}

/// A text or node tree in a tuple of `pg_proc`, unless it is too long to be of interest.
unsafe fn attribute(tuple: pg_sys::HeapTuple, number: u32) -> Option<CString> {
    // SAFETY: the caller passes a tuple of pg_proc and the number of a column of it that is laid out as a text.
    unsafe {
        let mut is_null = false;
        let cache = pg_sys::SysCacheIdentifier::PROCOID as c_int;
        let datum = pg_sys::SysCacheGetAttr(cache, tuple, number as pg_sys::AttrNumber, &mut is_null);
        if is_null || pg_sys::toast_raw_datum_size(datum) > TEXT_MAX {
            return None;
        }
        let text = pg_sys::text_to_cstring(datum.cast_mut_ptr());
        let copy = CStr::from_ptr(text).to_owned();
        pg_sys::pfree(text.cast());
        Some(copy)
    }
}

/// What the one statement of a parsed body selects.
unsafe fn selected(body: *mut pg_sys::Node) -> Option<Vec<Expression>> {
    // SAFETY: the caller passes what pg_proc.prosqlbody holds: a query, or where it was written BEGIN ATOMIC a list
    // of a list of them.
    unsafe {
        let mut node = body;
        while is_a(node, NodeTag::T_List) {
            let list = PgList::<pg_sys::Node>::from_pg(node.cast());
            if list.len() != 1 {
                return None;
            }
            node = list.get_ptr(0)?;
        }
        // An empty list is a null pointer.
        if !is_a(node, NodeTag::T_Query) {
            return None;
        }
        let query = &*node.cast::<pg_sys::Query>();
        let is_plain = query.commandType == pg_sys::CmdType::CMD_SELECT
            && query.rtable.is_null()
            && query.cteList.is_null()
            && query.setOperations.is_null()
            && query.groupClause.is_null()
            && query.groupingSets.is_null()
            && query.havingQual.is_null()
            && query.windowClause.is_null()
            && query.distinctClause.is_null()
            && query.limitCount.is_null()
            && query.limitOffset.is_null()
            && (query.jointree.is_null() || (*query.jointree).quals.is_null());
        if !is_plain {
            return None;
        }
        let targets = PgList::<pg_sys::TargetEntry>::from_pg(query.targetList);
        Some(targets.iter_ptr().map(|target| Expression((*target).expr.cast())).collect())
    }
}

/// A part of a function's body.
#[derive(Clone, Copy)]
pub struct Expression(*mut pg_sys::Node);

impl Expression {
    /// Its value, where it is a constant of that type and not NULL.
    pub fn constant(self, of_type: Oid) -> Option<Datum> {
        // SAFETY: an expression's node is what its tag says.
        unsafe {
            if !is_a(self.0, NodeTag::T_Const) {
                return None;
            }
            let constant = &*self.0.cast::<pg_sys::Const>();
            (constant.consttype == of_type && !constant.constisnull).then_some(constant.constvalue)
        }
    }

    pub fn oid(self, of_type: Oid) -> Option<Oid> {
        Some(Oid::from(self.constant(of_type)?.value() as u32))
    }

    pub fn time(self) -> Option<TimestampUs> {
        Some(self.constant(pg_sys::TIMESTAMPTZOID)?.value() as TimestampUs)
    }

    /// Whether it is the function's parameter of that number, from 1.
    pub fn is_parameter(self, number: i32) -> bool {
        // SAFETY: as for `constant`.
        unsafe { is_a(self.0, NodeTag::T_Param) && (*self.0.cast::<pg_sys::Param>()).paramid == number }
    }

    pub fn text(self) -> Option<String> {
        let datum = self.constant(pg_sys::TEXTOID)?;
        // SAFETY: a constant of type text is one.
        let text = unsafe { CStr::from_ptr(pg_sys::text_to_cstring(datum.cast_mut_ptr())) };
        text.to_str().ok().map(str::to_owned)
    }

    /// The function that it calls, with the arguments.
    pub fn call(self) -> Option<(Oid, Vec<Expression>)> {
        // SAFETY: as for `constant`.
        unsafe {
            if !is_a(self.0, NodeTag::T_FuncExpr) {
                return None;
            }
            let call = &*self.0.cast::<pg_sys::FuncExpr>();
            let arguments = PgList::<pg_sys::Node>::from_pg(call.args);
            Some((call.funcid, arguments.iter_ptr().map(Expression).collect()))
        }
    }
}

/// What a table is partitioned by.
pub struct PartitionKey {
    pub is_by_range: bool,
    pub columns: usize,
    /// That the first of them is no column of the table.
    pub is_expression: bool,
    /// That the first of them is a bigint, in PostgreSQL's own order.
    pub is_bigint: bool,
}

/// A table's row of `pg_partitioned_table`, as the catalog is now; `None` where it is not partitioned.
///
/// The relation's descriptor would have it, too, but PostgreSQL evaluates an expression's constant parts for that.
pub fn partition_key(table: Oid) -> Option<PartitionKey> {
    // SAFETY: the tuple is valid until it is released; its columns are those of catalog/pg_partitioned_table.h, of
    // which none of these is ever NULL.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::PARTRELID as c_int;
        let tuple = pg_sys::SearchSysCache1(cache, table.into());
        if tuple.is_null() {
            return None;
        }
        let column = |number| pg_sys::SysCacheGetAttr(cache, tuple, number, &mut false);
        let strategy = column(sys::Anum_pg_partitioned_table_partstrat).value() as u8;
        let columns = &*column(sys::Anum_pg_partitioned_table_partattrs).cast_mut_ptr::<pg_sys::int2vector>();
        let classes = &*column(sys::Anum_pg_partitioned_table_partclass).cast_mut_ptr::<pg_sys::oidvector>();
        let count = columns.dim1 as usize;
        let (column, class) = (columns.values.as_slice(count)[0], classes.values.as_slice(count)[0]);
        pg_sys::ReleaseSysCache(tuple);
        Some(PartitionKey {
            is_by_range: strategy == b'r',
            columns: count,
            is_expression: column == 0,
            is_bigint: pg_sys::get_opclass_input_type(class) == pg_sys::INT8OID
                && pg_sys::get_opclass_family(class) == pg_sys::INTEGER_BTREE_FAM_OID,
        })
    }
}

/// A partition by a range of one bigint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Partition {
    pub oid: Oid,
    pub range: Range,
}

/// Bigints from the first up to, not including, the other. `None` is MINVALUE or MAXVALUE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    pub from: Option<i64>,
    pub to: Option<i64>,
}

/// The partitions of a table by ranges of one bigint, in their order, as the catalog is now; a default partition is none
/// of them.
///
/// The caller has locked the table, and has seen that it is partitioned so.
pub fn partitions(table: Oid) -> Vec<Partition> {
    // SAFETY: the table is locked and partitioned. Its descriptor is copied before anything else runs: arrays of nparts
    // partitions and of ndatums bounds, each of one key column; see `PartitionBoundInfoData` in partbounds.h.
    unsafe {
        let relation = pg_sys::table_open(table, pg_sys::NoLock as c_int);
        let descriptor = &*pg_sys::RelationGetPartitionDesc(relation, false);
        let mut partitions = vec![];
        if descriptor.nparts > 0 {
            let bounds = &*descriptor.boundinfo;
            let bound = |n: usize| {
                let kind = **bounds.kind.add(n);
                let value = kind == pg_sys::PartitionRangeDatumKind::PARTITION_RANGE_DATUM_VALUE;
                value.then(|| (**bounds.datums.add(n)).value() as i64)
            };
            // Of each bound, the partition that ends there.
            for n in 1..bounds.ndatums as usize {
                if let Ok(partition) = usize::try_from(*bounds.indexes.add(n)) {
                    let range = Range { from: bound(n - 1), to: bound(n) };
                    partitions.push(Partition { oid: *descriptor.oids.add(partition), range });
                }
            }
        }
        pg_sys::table_close(relation, pg_sys::NoLock as c_int);
        partitions
    }
}

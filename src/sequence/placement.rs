//! The node that owns a sequence's schema, and the nodes that store a table's rows, by Citus's
//! catalogs.

use crate::error::Error;
use crate::pg::catalog;
use crate::pg::guc;
use crate::pg::invalidation::{self, Cached};
use crate::pg::locks;
use crate::pg::names;
use crate::pg::spi::{Row, select};
use crate::sequence::cache::{self, Placement};
use crate::sequence::refusal::Refusal;
use instagram_id_core::version;
use pgrx::datum::DatumWithOid;
use pgrx::pg_sys::{self, Oid};
use rustc_hash::FxHashMap;
use std::cell::Cell;

/// The group of the coordinator.
pub const COORDINATOR: i32 = 0;

/// The placement of a sequence, by the present state of Citus's catalogs.
pub struct SequencePlacement {
    /// The group of this node.
    pub group: i32,
    /// The group of the node that owns the schema; `None` if the sequence has no copies.
    pub placed_on: Option<i32>,
    /// Whether that node has the schema's tables. Otherwise it is the coordinator.
    pub is_of_schema: bool,
    /// In a distributed schema: the colocation of the schema, and the sequence's name. All nodes
    /// use the same number, whatever name they have for the schema.
    pub in_colocation: Option<(i32, String)>,
}

impl SequencePlacement {
    /// Whether each node of the cluster has a copy of the sequence.
    pub fn has_copies(&self) -> bool {
        self.placed_on.is_some()
    }

    pub fn is_here(&self) -> bool {
        self.placed_on.is_none_or(|group| group == self.group)
    }
}

/// Another node of the cluster.
pub struct Node {
    pub host: String,
    pub port: i32,
    pub group: i32,
}

impl Node {
    pub fn name(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// The nodes that store the rows of a table with a trigger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowPlacement {
    /// The node that owns its schema, by Citus's catalogs.
    OfSchema,
    /// Nodes that Citus has chosen for this table: by a column of each row, or one node for the
    /// whole table.
    OfTable,
    /// This node, for a table that is not in Citus; the coordinator, for a local table in Citus's
    /// catalogs.
    Local,
    /// Several nodes for each row: a reference table, or one whose shards have several placements.
    Replicated,
}

thread_local! {
    /// The group of this node.
    static GROUP: Cell<Option<Cached<i32>>> = const { Cell::new(None) };
}

/// The group of this node; without Citus that of a coordinator.
pub fn local_group() -> i32 {
    let count = invalidation::settled_count();
    if let Some(group) = GROUP.get().and_then(Cached::get) {
        return group;
    }
    let group = if catalog::has_citus() {
        guc::with(guc::OWN_SETTINGS, || {
            let query = "SELECT coalesce((SELECT groupid FROM pg_dist_local_group), -1), 'pg_dist_local_group'::regclass::oid";
            let groups = select(query, &[], |row| {
                invalidation::watch(row.get(2)?);
                row.get(1)
            });
            groups[0]
        })
    } else {
        COORDINATOR
    };
    GROUP.set(Some(Cached::new(count, group)));
    group
}

/// Looks up the placement of a sequence, and caches it until an invalidation.
fn look_up(sequence: Oid) -> Result<(), Error> {
    let count = invalidation::settled_count();
    check_version()?;
    let SequencePlacement { group, placed_on, is_of_schema, .. } = by_catalogs(sequence);
    let placement = placed_on.map_or(Placement::Local, |placed_on| Placement::Copy {
        group,
        is_here: placed_on == group,
        is_of_schema,
    });
    cache::set_placement(sequence, Some(Cached::new(count, placement)));
    Ok(())
}

/// Checks that the extension is not newer than the library that this session has loaded. An older
/// library may not know how the nodes of the newer version hand over a sequence, and would repeat
/// ids.
fn check_version() -> Result<(), Error> {
    let query = "SELECT extversion FROM pg_extension WHERE extname = 'instagram_id'";
    let version = guc::with(guc::OWN_SETTINGS, || select(query, &[], |row| row.get::<String>(1)));
    let own = version::numbers(env!("CARGO_PKG_VERSION"));
    match version.into_iter().next() {
        Some(version) if version::numbers(&version) > own => {
            Err(Error::LibraryOutdated { version })
        }
        _ => Ok(()),
    }
}

/// Repeats a visit until it is not refused for a placement that must be looked up.
pub fn retry<T>(sequence: Oid, visit: impl Fn() -> Result<T, Refusal>) -> Result<T, Error> {
    loop {
        match visit() {
            Ok(result) => return Ok(result),
            Err(refusal) => resolve(refusal, sequence)?,
        }
    }
}

/// Resolves a refusal that concerns the placement, so that the visit can be repeated.
pub fn resolve(refusal: Refusal, sequence: Oid) -> Result<(), Error> {
    match refusal {
        Refusal::PlacementUnknown => look_up(sequence)?,
        Refusal::NotPlacedHere => check_again(sequence)?,
        refusal => return Err(refusal.error(sequence)),
    }
    Ok(())
}

/// Looks up again whether another node owns the schema of a sequence.
fn check_again(sequence: Oid) -> Result<(), Error> {
    // The cache may be out of date: without a table in the schema, there is no relation whose
    // invalidation announces a new placement.
    cache::set_placement(sequence, None);
    let placement = of(sequence);
    if placement.is_here() { Ok(()) } else { Err(placed_elsewhere(sequence, &placement)) }
}

/// The error for a sequence whose schema another node owns.
pub fn placed_elsewhere(sequence: Oid, placement: &SequencePlacement) -> Error {
    let SequencePlacement { group, placed_on, is_of_schema, .. } = *placement;
    let placed_on = placed_on.unwrap_or(COORDINATOR);
    let name = names::relation(sequence);
    let node = node_of(placed_on).filter(|_| placed_on != group).map(|node| node.name());
    Error::PlacedElsewhere { name, node, placed_on, group, is_of_schema }
}

/// Whether another session has locked one of the catalogs that are read here, so that a query would
/// wait for it. If not, they are locked until the transaction ends, as a query locks them.
pub fn is_locked() -> bool {
    const CATALOGS: [&str; 7] = [
        "pg_dist_local_group",
        "pg_dist_node",
        "pg_dist_object",
        "pg_dist_partition",
        "pg_dist_placement",
        "pg_dist_schema",
        "pg_dist_shard",
    ];
    let is_locked = |name: &&str| {
        let catalog = catalog::relation_oid(name, pg_sys::PG_CATALOG_NAMESPACE.into());
        catalog != Oid::INVALID && !locks::lock_unless_locked(catalog, pg_sys::AccessShareLock)
    };
    catalog::has_citus() && CATALOGS.iter().any(is_locked)
}

/// The node of a group, for a message.
pub fn name_of_group(group: i32) -> String {
    match node_of(group) {
        Some(node) => format!("{} (group {group})", node.name()),
        None => format!("of group {group}"),
    }
}

/// The placement of a sequence; without Citus that of a sequence without copies.
pub fn of(sequence: Oid) -> SequencePlacement {
    if catalog::has_citus() {
        by_catalogs(sequence)
    } else {
        SequencePlacement {
            group: COORDINATOR,
            placed_on: None,
            is_of_schema: false,
            in_colocation: None,
        }
    }
}

/// A subquery for the group of the node that has the tables of a schema, and for one of these
/// tables. The schema is that of `c`, a row of `pg_class`.
const PLACEMENT_OF_SCHEMA: &str = "SELECT p.groupid, t.logicalrelid
     FROM pg_dist_schema AS d JOIN pg_dist_partition AS t USING (colocationid)
     JOIN pg_dist_shard AS s USING (logicalrelid) JOIN pg_dist_placement AS p USING (shardid)
     WHERE d.schemaid = c.relnamespace AND p.shardstate = 1 ORDER BY p.groupid, t.logicalrelid LIMIT 1";

/// A condition: that `c`, a row of `pg_class`, is not a Citus shard on this node. Such a table is
/// used through its distributed table.
pub fn is_no_citus_shard() -> &'static str {
    if catalog::has_citus() {
        "NOT coalesce(relation_is_a_known_shard(c.oid), false)"
    } else {
        "true"
    }
}

/// Whether new tables of a schema are distributed with it.
pub fn is_distributed(schema: Oid) -> bool {
    let query = "SELECT true FROM pg_dist_schema WHERE schemaid = $1";
    has_row(query, &[schema.into()])
}

/// The functions among these that the nodes of a distributed schema do not have. Citus creates
/// functions there if they are created while it is installed, or if a table uses them.
pub fn functions_not_copied(schema: Oid, functions: impl Iterator<Item = Oid>) -> Vec<Oid> {
    if !is_distributed(schema) {
        return vec![];
    }
    let query = "SELECT objid FROM pg_dist_object WHERE classid = 'pg_proc'::regclass";
    let copied: Vec<Oid> = of_citus(query, &[], |row| row.get(1));
    functions.filter(|function| !copied.contains(function)).collect()
}

/// The first of these tables whose rows Citus stores in other tables.
pub fn first_distributed(tables: impl Iterator<Item = Oid>) -> Option<Oid> {
    let query = "SELECT logicalrelid::oid FROM pg_dist_partition WHERE logicalrelid = ANY ($1) ORDER BY 1 LIMIT 1";
    let tables = tables.collect::<Vec<Oid>>();
    of_citus(query, &[tables.into()], |row| row.get(1)).pop()
}

/// Whether Citus itself has opened this session, such as to create a table of another node here.
pub fn is_session_of_citus() -> bool {
    catalog::has_citus() && guc::is_application(&["citus_internal gpid=", "citus_rebalancer gpid="])
}

/// A condition: that `p` is a Citus shard, on this node, of the distributed table `c`. Both are
/// rows of `pg_class`, of one schema. The distributed table itself stores no rows.
pub fn is_citus_shard_of() -> &'static str {
    if catalog::has_citus() {
        "coalesce(relation_is_a_known_shard(p.oid), false)
             AND EXISTS (SELECT FROM pg_dist_shard AS s WHERE s.logicalrelid = c.oid
                 AND s.shardid::text = substring(p.relname FROM '_([0-9]+)$'))"
    } else {
        "false"
    }
}

/// Reads the placement from Citus's catalogs, and watches the relations that the result depends on.
/// The node with the tables of the sequence's schema owns the schema. If the schema is not
/// distributed or has no tables, the coordinator does.
fn by_catalogs(sequence: Oid) -> SequencePlacement {
    guc::with(guc::OWN_SETTINGS, || {
        let query = format!(
            "SELECT coalesce((SELECT groupid FROM pg_dist_local_group), -1),
                    EXISTS (SELECT FROM pg_dist_object
                            WHERE classid = 'pg_class'::regclass AND objid = $1 AND objsubid = 0),
                    placed.groupid, (SELECT colocationid FROM pg_dist_schema WHERE schemaid = c.relnamespace), c.relname::text,
                    placed.logicalrelid::oid, 'pg_dist_local_group'::regclass::oid, 'pg_dist_object'::regclass::oid
             FROM (VALUES (0)) AS one LEFT JOIN pg_class AS c ON c.oid = $1
             LEFT JOIN LATERAL ({PLACEMENT_OF_SCHEMA}) AS placed ON true"
        );
        let placement = |row: &Row| {
            [6, 7, 8]
                .into_iter()
                .filter_map(|column| row.get(column))
                .for_each(invalidation::watch);
            let (is_copy, of_schema) = (row.get(2)?, row.get(3));
            Some(SequencePlacement {
                group: row.get(1)?,
                placed_on: if is_copy { of_schema.or(Some(COORDINATOR)) } else { None },
                is_of_schema: of_schema.is_some(),
                in_colocation: row.get(4).zip(row.get(5)),
            })
        };
        select(&query, &[sequence.into()], placement).pop().expect("a row")
    })
}

/// Every sequence whose schema this node owns, and every sequence without copies, each with whether
/// it has copies; `None` without Citus.
pub fn placed_here() -> Option<FxHashMap<Oid, bool>> {
    if !catalog::has_citus() {
        return None;
    }
    guc::with(guc::OWN_SETTINGS, || {
        let query = format!(
            "SELECT c.oid, o.objid IS NOT NULL FROM pg_class AS c LEFT JOIN pg_dist_object AS o
                 ON o.classid = 'pg_class'::regclass AND o.objid = c.oid AND o.objsubid = 0
             LEFT JOIN LATERAL ({PLACEMENT_OF_SCHEMA}) AS placed ON true
             WHERE c.relkind = 'S' AND (o.objid IS NULL
                 OR coalesce(placed.groupid, {COORDINATOR}) = (SELECT groupid FROM pg_dist_local_group))"
        );
        Some(select(&query, &[], |row| row.get(1).zip(row.get(2))).into_iter().collect())
    })
}

/// The nodes that store the rows of a table, and the table that a user knows. For a table that is a
/// Citus shard on this node, that is its distributed table, and the nodes are those of the
/// distributed table. Watches both tables, so that a caller can cache what it makes of the result.
pub fn rows_of(table: Oid) -> (RowPlacement, Oid) {
    let settings: Vec<_> = guc::OWN_SETTINGS.iter().copied().chain([guc::ALL_TABLES]).collect();
    let result = guc::with(&settings, || {
        // A Citus shard is a table in the schema of its distributed table, whose name ends with the
        // number of the shard. The result is the same on whichever node a placement is, so it does
        // not matter if this node receives a move late.
        let query =
            "SELECT t.partmethod = 'n' AND t.repmodel = 's' AND EXISTS (
                        SELECT FROM pg_dist_schema AS s WHERE s.schemaid = c.relnamespace AND s.colocationid = t.colocationid),
                    t.repmodel = 't' OR EXISTS (
                        SELECT FROM pg_dist_shard AS s JOIN pg_dist_placement AS p USING (shardid)
                        WHERE s.logicalrelid = t.logicalrelid AND p.shardstate = 1 AND t.repmodel = 'c'
                        GROUP BY shardid HAVING count(*) > 1),
                    t.partmethod = 'n' AND t.repmodel = 's' AND t.colocationid = 0, d.oid
             FROM pg_class AS c, pg_dist_partition AS t JOIN pg_class AS d ON d.oid = t.logicalrelid
             WHERE c.oid = $1 AND (d.oid = c.oid OR d.relnamespace = c.relnamespace AND EXISTS (
                 SELECT FROM pg_dist_shard AS s WHERE s.logicalrelid = d.oid
                 AND s.shardid::text = substring(c.relname FROM '_([0-9]+)$')))";
        let rows = select(query, &[table.into()], |row| {
            let is = |column| row.get(column) == Some(true);
            Some(([is(1), is(2), is(3)], row.get::<Oid>(4)?))
        });
        rows.iter().for_each(|(_, table)| invalidation::watch(*table));
        let is = |column: usize| rows.iter().any(|(row, _)| row[column]);
        let kind = match (is(0), is(1)) {
            (_, true) => RowPlacement::Replicated,
            (true, false) => RowPlacement::OfSchema,
            (false, false) if rows.is_empty() || is(2) => RowPlacement::Local,
            (false, false) => RowPlacement::OfTable,
        };
        (kind, rows.first().map_or(table, |(_, table)| *table))
    });
    invalidation::watch(table);
    result
}

/// Every node of the cluster in use, in the order of their groups.
pub fn nodes() -> Vec<Node> {
    let query = "SELECT nodename::text, nodeport, groupid FROM pg_dist_node
         WHERE noderole = 'primary' AND isactive AND nodecluster = current_setting('citus.cluster_name')
         ORDER BY groupid";
    of_citus(query, &[], |row| {
        Some(Node { host: row.get(1)?, port: row.get(2)?, group: row.get(3)? })
    })
}

/// The node of a group, if it is in use.
pub fn node_of(group: i32) -> Option<Node> {
    nodes().into_iter().find(|node| node.group == group)
}

/// Whether a node of this group is in the cluster, in use or not.
pub fn is_known(group: i32) -> bool {
    has_node("groupid = $1", group)
}

/// Whether the node of this group is disabled. It may be activated again with the copies that it
/// has now.
pub fn is_disabled(group: i32) -> bool {
    has_node("groupid = $1 AND NOT isactive", group)
}

fn has_node(condition: &str, group: i32) -> bool {
    let query = format!("SELECT true FROM pg_dist_node WHERE {condition}");
    has_row(&query, &[group.into()])
}

/// Whether a query of Citus's catalogs returns a row.
fn has_row(query: &str, arguments: &[DatumWithOid]) -> bool {
    !of_citus(query, arguments, |row| row.get::<bool>(1)).is_empty()
}

/// The rows of a query of Citus's catalogs; none without Citus.
fn of_citus<T>(query: &str, arguments: &[DatumWithOid], row: impl Fn(&Row) -> Option<T>) -> Vec<T> {
    if !catalog::has_citus() {
        return vec![];
    }
    guc::with(guc::OWN_SETTINGS, || select(query, arguments, row))
}

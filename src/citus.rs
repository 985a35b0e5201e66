//! Citus: which node of a cluster a sequence is at home on, and how its copies hand over to each other.
//!
//! Citus gives every node a copy of a sequence, with a state of its own that goes with nothing: not with the schema when
//! it is distributed, nor when it moves. So of all copies one is *open*, and the others are *closed*. Only the node that holds
//! the tables of the schema opens its copy, and it does so in these steps ([`take_over`]):
//!
//! 1. It marks its copy as about to be opened, with the number of this attempt.
//! 2. It asks every other node whether it is there, and has functions of this version. If one does not answer, nothing has
//!    been closed.
//! 3. It has every other node close its copy, and say how far that came and which node took it over last
//!    ([`_close_sequence`](close_sequence)). Where such a node is not among those that have told, say because it was removed
//!    from the cluster since, ids might be repeated: then nothing is opened, and all that was asked is as it was but closed.
//! 4. It writes how far all of them came to its own copy.
//! 5. It puts its name on record on every other node ([`_name_sequence_taker`](name_sequence_taker)).
//! 6. If its mark still stands it opens its copy above all of that.
//!
//! So a copy that names a node as the last taker, and is asked for that, either finds the node, whose own copy tells how far
//! the ids came, or refuses. A failing attempt leaves the names as they are, and a name that is replaced is known to the node
//! that replaces it: step 4 comes first.
//!
//! To close a copy wipes out its mark. So of two nodes that do this at once, the one that marks later is seen by the other:
//! it takes the other's mark away, or it closes what the other has opened and goes on above that. A name is put on record
//! only where the copy is still closed for this attempt. What a session believes about where the home is decides only whether
//! it tries. The page itself says whether a copy is open, so a session that has not heard of a move yet finds its copy
//! closed, or makes ids that the new home then goes on above.

use crate::arguments::not_null;
use crate::catalog;
use crate::error::{Argument, Error};
use crate::known::{self, Era};
use crate::names;
use crate::oid_types::Regclass;
use crate::query::select_latest;
use crate::sequence::{self, Attempt, Clock, Shut, Site, Taker};
use crate::settings;
use crate::sys;
use pgrx::pg_sys::{self, Oid};
use pgrx::prelude::*;
use pgrx::spi::quote_literal;
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ffi::CStr;
use std::str::FromStr;
use std::time::Duration;

/// The group that the coordinator is.
const COORDINATOR: i32 = 0;

/// How long a taker that another one was in the way of waits at most, in milliseconds, lest they go on so for ever.
const PAUSE_MAX_MS: i32 = 32;

/// How long a node waits for locks when another one asks it to hand over: who holds them may wait for that one.
const HAND_OVER_TIMEOUT: &[(&CStr, &str)] = &[(c"lock_timeout", "10s")];

/// What a sequence is to Citus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It is on this node alone, or there is no Citus.
    Alone,
    /// Every node has a copy, and this node's is that of this group.
    Copy { group: i32, at_home: bool, is_of_schema: bool },
}

/// Where a sequence is, as Citus's catalogs have it now.
struct Place {
    /// Of this node.
    group: i32,
    /// Of the sequence's home, unless it has no copies.
    home: Option<i32>,
    /// Whether it is the tables of its schema that say so.
    is_of_schema: bool,
}

impl Place {
    fn is_home(&self) -> bool {
        self.home.is_none_or(|home| home == self.group)
    }
}

/// Another node.
struct Node {
    host: String,
    port: i32,
    group: i32,
}

impl Node {
    fn name(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

thread_local! {
    /// Where tables have their rows, as it was in that era.
    static ROWS: RefCell<FxHashMap<Oid, (Era, Rows)>> = RefCell::new(FxHashMap::default());
    /// This node's group, as it was in that era.
    static GROUP: Cell<Option<(Era, i32)>> = const { Cell::new(None) };
}

/// The group that this node is; without Citus that of a coordinator.
pub fn local_group() -> i32 {
    let era = known::era();
    if let Some((_, group)) = GROUP.get().filter(|(of, _)| *of == era) {
        return group;
    }
    let group = if sys::has_citus() {
        settings::with(settings::OWN_NAMES, || {
            let query = "SELECT coalesce((SELECT groupid FROM pg_dist_local_group), -1), 'pg_dist_local_group'::regclass::oid";
            let rows = select_latest(query);
            known::watch(Oid::from(field::<u32>(&rows[0], 1)));
            field(&rows[0], 0)
        })
    } else {
        COORDINATOR
    };
    GROUP.set(Some((era, group)));
    group
}

/// Of which group's node a sequence has the range that Citus gives the copies on workers; see `AlterSequenceMinMax` in
/// Citus's `worker_data_fetch_protocol.c`.
pub fn group_of_range(min: i64, max: i64) -> Option<i32> {
    const BITS: u32 = 48;
    let group = min >> BITS;
    let is_range = group > 0 && min == (group << BITS) + 1 && max == min + (1 << BITS);
    is_range.then_some(group as i32)
}

/// Finds out what a sequence is to Citus, for [`sequence`] to go by until something of that changes.
pub fn find_standing(sequence: Oid) {
    let era = known::era();
    let Place { group, home, is_of_schema } = place_of(sequence);
    let standing = home.map_or(Standing::Alone, |home| {
        let at_home = home == group;
        Standing::Copy { group, at_home, is_of_schema }
    });
    known::remember_standing(sequence, era, standing);
}

/// A query for the group that has the tables of the schema of `c`, a row of `pg_class`, and for one of these tables.
fn home_of_schema() -> &'static str {
    // Before version 12 Citus did not distribute schemas.
    if catalog::named("pg_catalog.pg_dist_schema").is_some() {
        "SELECT p.groupid, t.logicalrelid
         FROM pg_dist_schema AS d JOIN pg_dist_partition AS t USING (colocationid)
         JOIN pg_dist_shard AS s USING (logicalrelid) JOIN pg_dist_placement AS p USING (shardid)
         WHERE d.schemaid = c.relnamespace AND p.shardstate = 1 ORDER BY p.groupid, t.logicalrelid LIMIT 1"
    } else {
        "SELECT NULL::int AS groupid, NULL::regclass AS logicalrelid"
    }
}

/// Asks Citus's catalogs, and watches what the answer rests on. The home is where the tables of the sequence's schema are, if
/// that is distributed and has any, and otherwise the coordinator.
fn place_of(sequence: Oid) -> Place {
    settings::with(settings::OWN_NAMES, || {
        let sequence = sequence.to_u32();
        let rows = select_latest(&format!(
            "SELECT coalesce((SELECT groupid FROM pg_dist_local_group), -1),
                    EXISTS (SELECT FROM pg_dist_object
                            WHERE classid = 'pg_class'::regclass AND objid = {sequence} AND objsubid = 0)::int,
                    home.groupid, home.logicalrelid::oid,
                    'pg_dist_local_group'::regclass::oid, 'pg_dist_object'::regclass::oid
             FROM (VALUES (0)) AS one LEFT JOIN pg_class AS c ON c.oid = {sequence}
             LEFT JOIN LATERAL ({}) AS home ON true",
            home_of_schema()
        ));
        let row = &rows[0];
        for relation in [3, 4, 5].into_iter().filter_map(|column| row[column].as_ref()) {
            known::watch(Oid::from(parse::<u32>(relation)));
        }
        let is_copy = field::<i32>(row, 1) == 1;
        let of_schema = row[2].as_ref().map(|group| parse(group));
        Place {
            group: field(row, 0),
            home: is_copy.then(|| of_schema.unwrap_or(COORDINATOR)),
            is_of_schema: of_schema.is_some(),
        }
    })
}

/// The same, also in a database that has no Citus.
fn place_or_alone(sequence: Oid) -> Place {
    if sys::has_citus() {
        place_of(sequence)
    } else {
        Place { group: COORDINATOR, home: None, is_of_schema: false }
    }
}

/// Every sequence of which the nodes have copies and that is at home here; `None` without Citus.
pub fn at_home() -> Option<HashSet<Oid>> {
    if !sys::has_citus() {
        return None;
    }
    settings::with(settings::OWN_NAMES, || {
        let rows = select_latest(&format!(
            "SELECT c.oid FROM pg_class AS c LEFT JOIN pg_dist_object AS o
                 ON o.classid = 'pg_class'::regclass AND o.objid = c.oid AND o.objsubid = 0
             LEFT JOIN LATERAL ({}) AS home ON true
             WHERE c.relkind = 'S' AND (o.objid IS NULL
                 OR coalesce(home.groupid, {COORDINATOR}) = (SELECT groupid FROM pg_dist_local_group))",
            home_of_schema()
        ));
        Some(rows.iter().map(|row| Oid::from(field::<u32>(row, 0))).collect())
    })
}

/// Where a table that a trigger is on has its rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rows {
    /// On the one node that has its schema, as far as Citus is concerned.
    OfSchema,
    /// On several nodes, or on this one alone.
    Other,
    /// Each of them on several nodes: a reference table's, or one's that has more than one placement of its shards.
    Replicated,
}

/// What Citus says of a table, or of the shard of one that the node stores.
pub fn rows_of(table: Oid) -> Rows {
    let era = known::era();
    if let Some(rows) =
        ROWS.with_borrow(|found| found.get(&table).filter(|(of, _)| *of == era).map(|(_, rows)| *rows))
    {
        return rows;
    }
    let rows = settings::with(settings::OWN_NAMES, || {
        // The table of a shard is called as the distributed one, with the shard's number at the end, and is in its schema.
        // Whether a placement has moved makes no difference, so that a node may hear of it late.
        let oid = table.to_u32();
        let rows = select_latest(&format!(
            "SELECT t.partmethod = 'n' AND t.repmodel = 's',
                    t.repmodel = 't' OR EXISTS (
                        SELECT FROM pg_dist_shard AS s JOIN pg_dist_placement AS p USING (shardid)
                        WHERE s.logicalrelid = t.logicalrelid AND p.shardstate = 1 AND t.repmodel = 'c'
                        GROUP BY shardid HAVING count(*) > 1),
                    d.oid
             FROM pg_class AS c, pg_dist_partition AS t JOIN pg_class AS d ON d.oid = t.logicalrelid
             WHERE c.oid = {oid} AND (d.oid = c.oid OR d.relnamespace = c.relnamespace AND EXISTS (
                 SELECT FROM pg_dist_shard AS s WHERE s.logicalrelid = d.oid
                 AND s.shardid::text = substring(c.relname FROM '_([0-9]+)$')))"
        ));
        rows.iter().for_each(|row| known::watch(Oid::from(field::<u32>(row, 2))));
        let is = |column: usize| rows.iter().any(|row| row[column].as_deref() == Some("t"));
        match (is(0), is(1)) {
            (_, true) => Rows::Replicated,
            (true, false) => Rows::OfSchema,
            (false, false) => Rows::Other,
        }
    });
    known::watch(table);
    ROWS.with_borrow_mut(|found| found.insert(table, (era, rows)));
    rows
}

fn field<T: FromStr>(row: &[Option<String>], column: usize) -> T {
    row[column]
        .as_ref()
        .map(|text| parse(text))
        .unwrap_or_else(|| unreachable!("column {column} is not NULL"))
}

fn parse<T: FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| unreachable!("{text} is of its column's type"))
}

/// Every other node of the cluster that is in use, with its number among them.
fn other_nodes(group: i32) -> Vec<Node> {
    let rows = select_latest(&format!(
        "SELECT nodename, nodeport, groupid FROM pg_dist_node
         WHERE noderole = 'primary' AND isactive AND nodecluster = current_setting('citus.cluster_name')
         AND groupid <> {group} ORDER BY groupid"
    ));
    rows.iter().map(|row| Node { host: field(row, 0), port: field(row, 1), group: field(row, 2) }).collect()
}

/// Asks again where a sequence is at home that was found to be so elsewhere.
///
/// # Errors
///
/// 55000 where it still is.
pub fn check_home(sequence: Oid) -> Result<(), Error> {
    // Not kept: a schema without tables has none whose change would be announced.
    known::forget_standing(sequence);
    let place = place_or_alone(sequence);
    if place.is_home() { Ok(()) } else { Err(elsewhere(sequence, &place)) }
}

/// Whether a node that is in use is this group.
fn is_node(group: i32) -> bool {
    settings::with(settings::OWN_NAMES, || other_nodes(-1).iter().any(|node| node.group == group))
}

/// Whether the node of this group is disabled, so that it may come back as it is.
fn is_disabled(group: i32) -> bool {
    let query = format!("SELECT 1 FROM pg_dist_node WHERE groupid = {group} AND NOT isactive");
    sys::has_citus() && settings::with(settings::OWN_NAMES, || !select_latest(&query).is_empty())
}

/// The error for a sequence that is at home on another node.
fn elsewhere(sequence: Oid, place: &Place) -> Error {
    let name = names::relation(sequence);
    let home = place.home.unwrap_or(COORDINATOR);
    let node = settings::with(settings::OWN_NAMES, || {
        other_nodes(place.group).into_iter().find(|node| node.group == home).map(|node| node.name())
    });
    Error::AtHomeElsewhere { name, node, home, group: place.group, is_of_schema: place.is_of_schema }
}

/// Opens this node's copy of a sequence, or finds it open: the steps at the top. It goes on above `told`, which the caller
/// says, and above all that the copies tell.
///
/// # Errors
///
/// 55000 where another node is its home, where the coordinator is not known, or where the node is not in use any more that
/// was its home before; 08000 where a node does not hand over.
pub fn take_over(clock: Clock, site: Site, told: i64, function: &'static str) -> Result<(), Error> {
    // One session of a node at a time; two would take each other's mark for their own.
    sys::with_lock_beside(clock.sequence, || {
        while !attempt_to_open(clock, site, told, function)? {
            pgrx::check_for_interrupts!();
            let pause = sys::random_i32().rem_euclid(PAUSE_MAX_MS);
            std::thread::sleep(Duration::from_millis(pause as u64));
        }
        Ok(())
    })
}

/// Returns false where another node was in the way.
fn attempt_to_open(clock: Clock, site: Site, told: i64, function: &'static str) -> Result<bool, Error> {
    let sequence = clock.sequence;
    let check_place = || {
        let place = place_or_alone(sequence);
        if place.is_home() || !site.must_be_home() { Ok(place) } else { Err(elsewhere(sequence, &place)) }
    };
    check_place()?;
    let attempt = Attempt::random();
    let Some(own) = sequence::begin_to_open(clock, site, attempt, function)? else { return Ok(true) };
    // Once more: what was at home here alone may have got copies before the mark was made.
    let place = check_place()?;
    let name = || names::relation(sequence);
    let mut copies = vec![];
    let others = if place.home.is_some() { Some(OtherCopies::find(sequence, place.group)?) } else { None };
    if let Some(others) = &others {
        copies = others.close(attempt)?;
    }
    // Each copy names the node that has taken it over last. One that is not here to tell may have made more ids. Where one
    // copy has lost the name, another has it: a taker puts it on record everywhere.
    let has_told = |group: i32| {
        place.home.is_some() && group == place.group || copies.iter().any(|(told, _)| *told == group)
    };
    let takers: Vec<Taker> = copies.iter().map(|(_, copy)| copy.taken_by).chain([own.taken_by]).collect();
    let mut named = takers.iter().filter_map(|taker| match taker {
        Taker::Node(group) => Some(*group),
        _ => None,
    });
    let is_named = named.clone().next().is_some();
    if site != Site::AsTold {
        if let Some(lost) = named.find(|group| !has_told(*group)) {
            return Err(Error::LastHomeLost { name: name(), group: lost });
        }
        if !is_named && takers.contains(&Taker::Unknown) {
            return Err(Error::LastHomeUnknown { name: name() });
        }
    } else if let Some(disabled) = named.find(|group| is_disabled(*group)) {
        // Its copy may be open, and would go on where it is when the node is activated again.
        return Err(Error::LastHomeDisabled { name: name(), group: disabled });
    }
    let floor = copies.iter().map(|(_, copy)| copy.above).fold(told, i64::max);
    Ok(sequence::raise(clock, site, attempt, floor, function)?
        && others.map_or(Ok(true), |others| others.name_taker(attempt))?
        && sequence::open(clock, site, attempt, function)?)
}

/// The copies of a sequence on the other nodes.
struct OtherCopies {
    sequence: Oid,
    /// Of this node.
    group: i32,
    /// The nodes, each with the quoted schema that the extension is in there.
    nodes: Vec<(Node, String)>,
    /// The role that asks: what the nodes are asked for takes UPDATE on the sequence there.
    role: Oid,
}

impl OtherCopies {
    /// Asks every other node whether it can be asked. What decides that is in PostgreSQL's catalogs; a function that
    /// somebody has made under the extension's name is not called.
    fn find(sequence: Oid, group: i32) -> Result<OtherCopies, Error> {
        let nodes = settings::with(settings::OWN_NAMES, || other_nodes(group));
        if group != COORDINATOR && nodes.iter().all(|node| node.group != COORDINATOR) {
            return Err(Error::CoordinatorUnknown { name: names::relation(sequence) });
        }
        let role = if sequence::may_be_updated_by(sequence, catalog::current_role()) {
            catalog::current_role()
        } else {
            catalog::relation(sequence).map_or_else(catalog::current_role, |relation| relation.owner)
        };
        let mut found = OtherCopies { sequence, group, nodes: vec![], role };
        let nodes: Vec<_> = nodes.into_iter().map(|node| (node, String::new())).collect();
        let command = format!(
            "SELECT pg_catalog.concat_ws(' ', (pg_catalog.to_regclass({}) IS NOT NULL)::pg_catalog.int4, \
             (SELECT pg_catalog.quote_ident(n.nspname) \
              FROM pg_catalog.pg_extension AS e, pg_catalog.pg_namespace AS n, pg_catalog.pg_proc AS p, pg_catalog.pg_depend AS d \
              WHERE e.extname OPERATOR(pg_catalog.=) 'instagram_id'::pg_catalog.name \
              AND n.oid OPERATOR(pg_catalog.=) e.extnamespace \
              AND (p.proname OPERATOR(pg_catalog.=) '_close_sequence'::pg_catalog.name \
                   OR p.proname OPERATOR(pg_catalog.=) '_name_sequence_taker'::pg_catalog.name) \
              AND p.pronamespace OPERATOR(pg_catalog.=) n.oid \
              AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid \
              AND d.objid OPERATOR(pg_catalog.=) p.oid \
              AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid \
              AND d.refobjid OPERATOR(pg_catalog.=) e.oid \
              AND d.deptype OPERATOR(pg_catalog.=) 'e'::pg_catalog.\"char\" \
              GROUP BY n.nspname HAVING pg_catalog.count(*) OPERATOR(pg_catalog.=) 2::pg_catalog.int8))",
            quote_literal(names::relation(sequence))
        );
        let answers = found.ask(&nodes, |_| command.clone())?;
        // What the coordinator has made in this very transaction the others see when that is committed. Until then they make
        // no ids from it: they would ask the coordinator, which has none for others to see either.
        let may_be_missing = group == COORDINATOR && sys::is_new(sequence);
        for ((node, _), said) in nodes.into_iter().zip(answers) {
            match said.split_once(' ') {
                Some(("1", schema)) => found.nodes.push((node, schema.to_owned())),
                Some(("0", _)) if may_be_missing => {}
                Some(("0", _)) => return Err(found.not_handed_over(&node, "it is not there".into())),
                _ => {
                    let version = env!("CARGO_PKG_VERSION");
                    let said = format!("instagram_id {version} or later is not installed there");
                    return Err(found.not_handed_over(&node, said));
                }
            }
        }
        Ok(found)
    }

    /// Has every node close its copy, and tell; with their groups.
    fn close(&self, attempt: Attempt) -> Result<Vec<(i32, Shut)>, Error> {
        let (copy, group, number) = (self.copy(), self.group, attempt.number());
        let answers = self.ask(&self.nodes, |schema| {
            format!(
                "SELECT pg_catalog.concat_ws(' ', c.next_value, c.previous_group) \
                 FROM {schema}._close_sequence({copy}, {group}::pg_catalog.int4, {number}::pg_catalog.int4) AS c"
            )
        })?;
        let copies = self.nodes.iter().zip(answers).map(|((node, _), said)| match told(&said) {
            Some(copy) => Ok((node.group, copy)),
            None => Err(self.not_handed_over(node, said)),
        });
        copies.collect()
    }

    /// Puts this node on record as the last taker, on every node; returns false where a copy is not closed for this attempt
    /// any more.
    fn name_taker(&self, attempt: Attempt) -> Result<bool, Error> {
        let (copy, group, number) = (self.copy(), self.group, attempt.number());
        let answers = self.ask(&self.nodes, |schema| {
            format!(
                "SELECT {schema}._name_sequence_taker({copy}, {group}::pg_catalog.int4, {number}::pg_catalog.int4)"
            )
        })?;
        Ok(answers.iter().all(|said| said == "t"))
    }

    /// The sequence, in a command for another node. Whatever that node's search_path is, it means nothing else.
    fn copy(&self) -> String {
        format!("{}::pg_catalog.regclass", quote_literal(names::relation(self.sequence)))
    }

    /// Runs a command on each of these nodes, and returns what each has answered, in their order.
    ///
    /// # Errors
    ///
    /// 08000 where one of them has not, or with an error.
    fn ask(&self, nodes: &[(Node, String)], command: impl Fn(&str) -> String) -> Result<Vec<String>, Error> {
        if nodes.is_empty() {
            return Ok(vec![]);
        }
        let list =
            |text: &dyn Fn(&(Node, String)) -> String| nodes.iter().map(text).collect::<Vec<_>>().join(", ");
        let query = format!(
            "SELECT node_name, node_port, success::int, result
             FROM master_run_on_worker(ARRAY[{}]::text[], ARRAY[{}]::int[], ARRAY[{}]::text[], true)",
            list(&|(node, _)| quote_literal(&node.host)),
            list(&|(node, _)| node.port.to_string()),
            list(&|(_, schema)| quote_literal(command(schema))),
        );
        let rows = settings::with(settings::OWN_NAMES, || {
            if self.role == catalog::current_role() {
                select_latest(&query)
            } else {
                sys::with_rights_of(self.role, || select_latest(&query))
            }
        });
        let answer_of = |node: &Node| {
            let is_of_node = |row: &&Vec<Option<String>>| {
                field::<String>(row, 0) == node.host && field::<i32>(row, 1) == node.port
            };
            let row = rows.iter().find(is_of_node);
            let said = row.and_then(|row| row[3].clone()).unwrap_or_default().trim().to_owned();
            match row {
                Some(row) if field::<i32>(row, 2) == 1 => Ok(said),
                Some(_) => Err(self.not_handed_over(node, said)),
                None => Err(self.not_handed_over(node, "it has not answered".into())),
            }
        };
        nodes.iter().map(|(node, _)| answer_of(node)).collect()
    }

    fn not_handed_over(&self, node: &Node, said: String) -> Error {
        let role = names::role(self.role);
        Error::NotHandedOver { name: names::relation(self.sequence), node: node.name(), role, said }
    }
}

/// What a node has answered: its value, and where there is one the group.
fn told(said: &str) -> Option<Shut> {
    let (above, group) = match said.split_once(' ') {
        Some((above, group)) => (above, Some(group.parse().ok()?)),
        None => (said, None),
    };
    Some(Shut { above: above.parse().ok()?, taken_by: Taker::of_column(group)? })
}

/// `_close_sequence(seq, for_group, attempt)`: closes this node's copy of a sequence for the node of that group, which
/// opens its own. Returns a value greater than all that this copy has issued, and the group of the node that took it over
/// before, NULL for nobody and -1 where that is not known; it stays on record. A step of `next_id` on another node;
/// `attempt`, 0 to 2^30 - 1, tells its tries apart. Where this node is the home after all, the next call of `next_id` here
/// takes the sequence back.
///
/// # Errors
///
/// 22004 for a NULL, 22023 for a group that no node in use has or an attempt out of range, 42P01, 42809 as `next_id`, 42501
/// without UPDATE on the sequence, 55P03 where the sequence's lock cannot be had.
#[pg_extern(name = "_close_sequence", volatile, parallel_unsafe)]
#[allow(clippy::type_complexity)]
fn close_sequence(
    seq: Option<Regclass>,
    for_group: Option<i32>,
    attempt: Option<i32>,
) -> Result<
    TableIterator<'static, (name!(next_value, i64), name!(previous_group, Option<i32>))>,
    pg_sys::panic::ErrorReport,
> {
    let (sequence, _, attempt) = arguments_of_step(seq, for_group, attempt)?;
    let tells =
        settings::with(HAND_OVER_TIMEOUT, || sequence::close(sequence, attempt, "_close_sequence()"))?;
    Ok(TableIterator::once((tells.above, tells.taken_by.to_column())))
}

/// `_name_sequence_taker(seq, for_group, attempt)`: puts on record that the node of that group takes the sequence over.
/// Returns false where the copy is not closed for this attempt any more. The step of `next_id` on another node that follows
/// `_close_sequence`.
///
/// # Errors
///
/// As `_close_sequence`.
#[pg_extern(name = "_name_sequence_taker", volatile, parallel_unsafe)]
fn name_sequence_taker(
    seq: Option<Regclass>,
    for_group: Option<i32>,
    attempt: Option<i32>,
) -> Result<bool, pg_sys::panic::ErrorReport> {
    let (sequence, taker, attempt) = arguments_of_step(seq, for_group, attempt)?;
    let is_named = settings::with(HAND_OVER_TIMEOUT, || {
        sequence::name_taker(sequence, taker, attempt, "_name_sequence_taker()")
    })?;
    Ok(is_named)
}

fn arguments_of_step(
    seq: Option<Regclass>,
    for_group: Option<i32>,
    attempt: Option<i32>,
) -> Result<(Oid, Taker, Attempt), Error> {
    let Regclass(sequence) = not_null(seq, Argument::Sequence)?;
    let group = not_null(for_group, Argument::Group)?;
    // The name of a node that is not there would keep the sequence closed.
    let taker = Taker::node(group)
        .filter(|_| !sys::has_citus() || is_node(group))
        .ok_or_else(|| Error::GroupUnknown(group))?;
    let number = not_null(attempt, Argument::Attempt)?;
    let attempt = Attempt::new(number).ok_or_else(|| Error::AttemptOutOfRange(number))?;
    Ok((sequence, taker, attempt))
}

/// What nodes with version 0.3.0 ask. They would go on where a home is lost, so they get no answer.
#[pg_extern(sql = false)]
fn shard_hand_over() -> Result<(), pg_sys::panic::ErrorReport> {
    Err(Error::NodeOutdated.into())
}

extension_sql!(
    r#"
COMMENT ON FUNCTION _close_sequence(regclass, integer, integer) IS
'closes this Citus node''s copy of a sequence for the node that takes it over; a part of next_id()';
COMMENT ON FUNCTION _name_sequence_taker(regclass, integer, integer) IS
'puts the Citus node on record that takes a sequence over; a part of next_id()';
"#,
    name = "comments_citus",
    requires = [close_sequence, name_sequence_taker],
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_understood() {
        assert_eq!(told("5"), Some(Shut { above: 5, taken_by: Taker::Nobody }));
        assert_eq!(told("-5 0"), Some(Shut { above: -5, taken_by: Taker::Node(0) }));
        assert_eq!(told("5 -1"), Some(Shut { above: 5, taken_by: Taker::Unknown }));
        for said in ["", " ", "5 ", "x", "5 x", "5 6 7", "5|6", "5 -2"] {
            assert_eq!(told(said), None, "{said}");
        }
    }

    #[test]
    fn ranges_of_nodes_are_known() {
        assert_eq!(group_of_range((1 << 48) + 1, (2 << 48) + 1), Some(1));
        assert_eq!(group_of_range((7 << 48) + 1, (8 << 48) + 1), Some(7));
        assert_eq!(group_of_range(1, i64::MAX), None);
        assert_eq!(group_of_range(1, (1 << 48) + 1), None); // a sequence of the user's own
        assert_eq!(group_of_range((1 << 48) + 1, i64::MAX), None);
        assert_eq!(group_of_range((1 << 48) + 2, (2 << 48) + 2), None);
        assert_eq!(group_of_range(i64::MIN, i64::MAX), None);
    }
}

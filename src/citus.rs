//! Citus: which node of a cluster a sequence is at home on, and how its copies hand over to each other.
//!
//! Citus gives every node a copy of a sequence, with a state of its own that goes with nothing: not with the schema when
//! it is distributed, nor when it moves. So of all copies one is *open*, and the others are *shut*. Only the node that holds
//! the tables of the schema opens its copy, and it does so in these steps ([`take_over`]):
//!
//! 1. It marks its copy as about to be opened.
//! 2. It has every other node shut its copy and say how far that came ([`shard_hand_over`]).
//! 3. If its mark still stands it opens its copy above all of that.
//!
//! A shut copy also names the node that has taken it over last. Where such a one is not among those that have told how far
//! they came, say because it was removed from the cluster since, ids might be repeated: then nothing is opened.
//!
//! To shut a copy wipes out its mark. So of two nodes that do this at once, the one that marks later is seen by the other:
//! it takes the other's mark away, or it shuts what the other has opened and goes on above that. What a session believes about
//! where the home is decides only whether it tries. The page itself says whether a copy is open, so a session that has not
//! heard of a move yet finds its copy shut, or makes ids that the new home then goes on above.

use crate::arguments::not_null;
use crate::catalog;
use crate::error::{Argument, Error};
use crate::known::{self, Era};
use crate::names;
use crate::oid_types::Regclass;
use crate::query::select_latest;
use crate::sequence::{self, Clock, Shut, Site};
use crate::settings;
use crate::sys;
use pgrx::pg_sys::{self, Oid};
use pgrx::prelude::*;
use pgrx::spi::quote_literal;
use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::CStr;
use std::str::FromStr;

/// The group that the coordinator is.
const COORDINATOR: i32 = 0;

/// What a node answers that has no such sequence.
const MISSING: &str = "missing";

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

/// The error for a sequence that is at home on another node.
fn elsewhere(sequence: Oid, place: &Place) -> Error {
    let name = names::relation(sequence);
    let home = place.home.unwrap_or(COORDINATOR);
    let node = settings::with(settings::OWN_NAMES, || {
        other_nodes(place.group).into_iter().find(|node| node.group == home).map(|node| node.name())
    });
    Error::AtHomeElsewhere { name, node, home, group: place.group, is_of_schema: place.is_of_schema }
}

/// Opens this node's copy of a sequence, or finds it open: the steps at the top.
///
/// # Errors
///
/// 55000 where another node is its home, where the coordinator is not known, or where the node is not in use any more that
/// was its home before; 08000 where a node does not hand over.
pub fn take_over(clock: Clock, site: Site, function: &'static str) -> Result<(), Error> {
    // One session of a node at a time; two would take each other's mark for their own.
    sys::with_lock_beside(clock.sequence, || open(clock, site, function))
}

fn open(clock: Clock, site: Site, function: &'static str) -> Result<(), Error> {
    let may_open = |place: &Place| place.is_home() || !site.must_be_home();
    loop {
        let place = place_or_alone(clock.sequence);
        if !may_open(&place) {
            return Err(elsewhere(clock.sequence, &place));
        }
        let Some(own) = sequence::begin_to_open(clock, site, function)? else { return Ok(()) };
        // Once more: what was at home here alone may have got copies before the mark was made.
        let place = place_or_alone(clock.sequence);
        if !may_open(&place) {
            return Err(elsewhere(clock.sequence, &place));
        }
        let mut floor = own.above;
        if place.home.is_some() {
            let copies = shut_others(clock.sequence, place.group)?;
            // Each copy names the node that has taken it over last. One that is not here to tell may have made more ids.
            let named = copies.iter().filter_map(|(_, copy)| copy.taken_by).chain(own.taken_by);
            let has_told =
                |group: i32| group == place.group || copies.iter().any(|(node, _)| node.group == group);
            if let Some(lost) =
                named.into_iter().find(|group| !has_told(*group)).filter(|_| site != Site::AsTold)
            {
                return Err(Error::LastHomeLost { name: names::relation(clock.sequence), group: lost });
            }
            floor = copies.iter().map(|(_, copy)| copy.above).fold(floor, i64::max);
        }
        if sequence::open(clock, site, floor, function)? {
            return Ok(());
        }
        pgrx::check_for_interrupts!();
    }
}

/// Has every other node shut its copy, and tell.
fn shut_others(sequence: Oid, group: i32) -> Result<Vec<(Node, Shut)>, Error> {
    let name = names::relation(sequence);
    settings::with(settings::OWN_NAMES, || {
        let mut nodes = other_nodes(group);
        if group != COORDINATOR && nodes.iter().all(|node| node.group != COORDINATOR) {
            return Err(Error::CoordinatorUnknown { name });
        }
        if nodes.is_empty() {
            return Ok(vec![]);
        }
        let own_schema = select_latest(
            "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace AS n ON n.oid = extnamespace
             WHERE extname = 'instagram_id'",
        );
        let own_schema: String = field(&own_schema[0], 0);
        let copy = format!("pg_catalog.to_regclass({})", quote_literal(&name));
        let command = format!(
            "SELECT CASE WHEN {copy} IS NULL THEN '{MISSING}' ELSE \
             (SELECT above || ' ' || coalesce(last_home, -1) FROM {own_schema}.shard_hand_over({copy}, {group})) END"
        );
        let list = |text: fn(&Node) -> String| nodes.iter().map(text).collect::<Vec<_>>().join(", ");
        let answers = select_latest(&format!(
            "SELECT node_name, node_port, success::int, result
             FROM master_run_on_worker(ARRAY[{}], ARRAY[{}], array_fill({}::text, ARRAY[{}]), true)",
            list(|node| quote_literal(&node.host)),
            list(|node| node.port.to_string()),
            quote_literal(&command),
            nodes.len()
        ));
        // What the coordinator has made in this very transaction the others see when that is committed. Until then they make
        // no ids from it: they would ask the coordinator, which has none for others to see either.
        let may_be_missing = group == COORDINATOR && sys::is_new(sequence);
        let mut copies = vec![];
        for answer in &answers {
            let (host, port): (String, i32) = (field(answer, 0), field(answer, 1));
            let said: String = answer[3].clone().unwrap_or_default();
            let is_missing = said.trim() == MISSING;
            let told = Some(said.trim()).filter(|_| field::<i32>(answer, 2) == 1).and_then(told);
            let place = nodes.iter().position(|node| node.host == host && node.port == port);
            match (told, place) {
                (Some(copy), Some(place)) => copies.push((nodes.swap_remove(place), copy)),
                _ if is_missing && may_be_missing => {}
                _ => {
                    let said = if is_missing { "it is not there".into() } else { said };
                    let (node, role) = (format!("{host}:{port}"), names::current_role());
                    return Err(Error::NotHandedOver { name, node, role, said });
                }
            }
        }
        Ok(copies)
    })
}

/// What a node has answered.
fn told(said: &str) -> Option<Shut> {
    let (above, last_home) = said.split_once(' ')?;
    let last_home: i32 = last_home.parse().ok()?;
    Some(Shut { above: above.parse().ok()?, taken_by: (last_home >= 0).then_some(last_home) })
}

/// `shard_hand_over(seq, new_home)`: shuts this node's copy of a sequence for another node of the Citus cluster, which
/// opens its own. Returns a value greater than all that this copy has issued, and the group of the node for which it was shut
/// before. What `next_id` on the new home calls on all other nodes. Where this node is the home after all, the next call of
/// `next_id` here takes the sequence back.
///
/// # Errors
///
/// 22004 without a sequence, 22023 for a group that no node in use has, 42P01, 42809, 42501 as `next_id`, 55P03 where the
/// sequence's lock cannot be had.
#[pg_extern(volatile, parallel_unsafe)]
fn shard_hand_over(
    seq: Option<Regclass>,
    new_home: default!(Option<i32>, "NULL"),
) -> Result<
    TableIterator<'static, (name!(above, i64), name!(last_home, Option<i32>))>,
    pg_sys::panic::ErrorReport,
> {
    let Regclass(sequence) = not_null(seq, Argument::Sequence)?;
    // The name of a node that is not there would keep the sequence shut.
    let is_known = |group| if sys::has_citus() { is_node(group) } else { group >= 0 };
    if let Some(unknown) = new_home.filter(|group| !is_known(*group)) {
        return Err(Error::GroupUnknown(unknown).into());
    }
    let tells =
        settings::with(HAND_OVER_TIMEOUT, || sequence::close(sequence, new_home, "shard_hand_over()"))?;
    Ok(TableIterator::once((tells.above, tells.taken_by)))
}

extension_sql!(
    r#"
COMMENT ON FUNCTION shard_hand_over(regclass, integer) IS
'shuts this Citus node''s copy of a sequence for the node that becomes its home; a part of next_id()';
"#,
    name = "comments_citus",
    requires = [shard_hand_over],
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_nodes_are_known() {
        assert_eq!(group_of_range((1 << 48) + 1, (2 << 48) + 1), Some(1));
        assert_eq!(group_of_range((7 << 48) + 1, (8 << 48) + 1), Some(7));
        assert_eq!(group_of_range(1, i64::MAX), None);
        assert_eq!(group_of_range(1, (1 << 48) + 1), None); // a sequence of the user's own
        assert_eq!(group_of_range((1 << 48) + 2, (2 << 48) + 2), None);
        assert_eq!(group_of_range(i64::MIN, i64::MAX), None);
    }
}

//! How a node of a Citus cluster takes a sequence over from the others.
//!
//! Citus gives every node a copy of a sequence. Each copy has a state of its own, which moves neither when the schema is
//! distributed nor when the schema moves. So one of the copies is *open*, and the others are *closed*. Only the node that owns
//! the schema opens its copy, in these steps ([`take_over`]):
//!
//! 1. It marks its copy as about to be opened, with the number of this attempt.
//! 2. It asks every other node whether it is there, and has functions of this version. If one does not answer, nothing has
//!    been closed.
//! 3. It has every other node close its copy, and report how far that came and which node took it over last
//!    (`_close_sequence`). If that node is not among those that have reported, say because it was removed from the cluster
//!    since, ids might be repeated: then nothing is opened, and all that was asked is unchanged but closed.
//! 4. It records in its own copy how far all of them came.
//! 5. It records itself as the owner on every other node (`_name_sequence_taker`).
//! 6. If its mark still stands, it opens its copy above all of that.
//!
//! So a copy that names a node as its last owner, and is asked for that, either finds the node, whose own copy knows how far
//! the ids came, or refuses. An attempt that fails leaves the names as they are. A name that is replaced is known to the node
//! that replaces it: step 4 comes first.
//!
//! Closing a copy removes its mark. So of two nodes that do this at once, the second one to mark is noticed by the first: it
//! removes the first one's mark, or it closes what the first one has opened and continues above that. A name is recorded only
//! while the copy is still closed for this attempt. The session's belief about the owner decides only whether it tries. The
//! page itself tells whether a copy is open: a session that has not heard of a move yet finds its copy closed, or generates
//! ids, and the new owner then continues above them.

use crate::citus::placement::{self, COORDINATOR, Node, Owner, field, other_nodes};
use crate::error::Error;
use crate::pg::catalog;
use crate::pg::guc;
use crate::pg::names;
use crate::pg::spi::select_latest;
use crate::pg::sys;
use crate::sequence::copy::{Attempt, CopyState, LastOwner};
use crate::sequence::refusal::Refusal;
use crate::sequence::{Clock, CopyPolicy, visit};
use instagram_id_core::epoch::Epoch;
use pgrx::pg_sys::Oid;
use pgrx::spi::quote_literal;
use std::ffi::CStr;
use std::time::Duration;

/// After another node was in the way, an attempt is repeated after a random pause of at most so many milliseconds, so that
/// two nodes do not collide for ever.
const PAUSE_MAX_MS: i32 = 32;

/// How long a node waits for locks when another node asks it to close its copy: their holder may wait for that other node.
const LOCK_TIMEOUT: &[(&CStr, &str)] = &[(c"lock_timeout", "10s")];

/// Opens this node's copy of a sequence, or finds it open: the steps above. It continues above `floor`, which the caller knows
/// of, and above all that the copies record.
///
/// # Errors
///
/// 55000 where another node owns the schema, where the coordinator is not known, or where the last owner is not in use any
/// more; 08000 where a node does not hand over.
pub fn take_over(clock: Clock, policy: CopyPolicy, floor: i64) -> Result<(), Error> {
    // One session of a node at a time; two would remove each other's marks.
    sys::with_lock_beside(clock.sequence, || {
        while !attempt_to_open(clock, policy, floor)? {
            pgrx::check_for_interrupts!();
            let pause = sys::random_i32().rem_euclid(PAUSE_MAX_MS);
            std::thread::sleep(Duration::from_millis(pause as u64));
        }
        Ok(())
    })
}

/// Returns false where another node was in the way.
fn attempt_to_open(clock: Clock, policy: CopyPolicy, floor: i64) -> Result<bool, Error> {
    let sequence = clock.sequence;
    let check_owner = || {
        let owner = placement::owner_of(sequence);
        if owner.is_here() || !policy.needs_placement() {
            Ok(owner)
        } else {
            Err(placement::placed_elsewhere(sequence, &owner))
        }
    };
    check_owner()?;
    let attempt = Attempt::random();
    let Some(own) = retry(clock, || visit::begin_opening(clock, policy, attempt))? else { return Ok(true) };
    // Once more: a sequence without copies may have got some before the mark was made.
    let owner = check_owner()?;
    let others = if owner.owner.is_some() { Some(OtherCopies::find(sequence, owner.group)?) } else { None };
    let copies = match &others {
        Some(others) => others.close(attempt)?,
        None => vec![],
    };
    check_last_owners(sequence, policy, &owner, &own, &copies)?;
    let floor = copies.iter().map(|(_, copy)| copy.next_value).fold(floor, i64::max);
    Ok(retry(clock, || visit::raise_floor(clock, policy, attempt, floor))?
        && others.map_or(Ok(true), |others| others.record_owner(attempt))?
        && retry(clock, || visit::open(clock, policy, attempt))?)
}

/// Each copy names the node that has taken it over last. A node that has not reported may have issued more ids. Where one
/// copy has lost the name, another has it: an owner is recorded on every node.
///
/// # Errors
///
/// 55000 where such a node is missing.
fn check_last_owners(
    sequence: Oid,
    policy: CopyPolicy,
    owner: &Owner,
    own: &CopyState,
    copies: &[(i32, CopyState)],
) -> Result<(), Error> {
    let name = || names::relation(sequence);
    let has_reported = |group: i32| {
        owner.owner.is_some() && group == owner.group || copies.iter().any(|(of, _)| *of == group)
    };
    let owners: Vec<LastOwner> =
        copies.iter().map(|(_, copy)| copy.last_owner).chain([own.last_owner]).collect();
    let mut named = owners.iter().filter_map(|owner| match owner {
        LastOwner::Node(group) => Some(*group),
        _ => None,
    });
    let is_named = named.clone().next().is_some();
    if policy != CopyPolicy::OwnerAsTold {
        if let Some(lost) = named.find(|group| !has_reported(*group)) {
            return Err(Error::LastOwnerLost { name: name(), group: lost });
        }
        if !is_named && owners.contains(&LastOwner::Unknown) {
            return Err(Error::LastOwnerUnknown { name: name() });
        }
    } else if let Some(disabled) = named.find(|group| placement::is_disabled(*group)) {
        // Its copy may be open, and would go on where it is when the node is activated again.
        return Err(Error::LastOwnerDisabled { name: name(), group: disabled });
    }
    Ok(())
}

/// Closes this node's copy for another node; see [`visit::close`].
///
/// # Errors
///
/// Those of the sequence; 42501 without UPDATE on it, 55P03 where its lock cannot be had.
pub fn close(sequence: Oid, attempt: Attempt) -> Result<CopyState, Error> {
    let clock = Clock { sequence, epoch: Epoch::ORIGINAL };
    guc::with(LOCK_TIMEOUT, || retry(clock, || visit::close(sequence, attempt)))
}

/// Records the node that takes this node's copy over; see [`visit::record_owner`].
///
/// # Errors
///
/// As [`close`].
pub fn record_owner(sequence: Oid, owner: LastOwner, attempt: Attempt) -> Result<bool, Error> {
    let clock = Clock { sequence, epoch: Epoch::ORIGINAL };
    guc::with(LOCK_TIMEOUT, || retry(clock, || visit::record_owner(sequence, owner, attempt)))
}

/// Visits a sequence again after its placement was looked up.
fn retry<T>(clock: Clock, visit: impl Fn() -> Result<T, Refusal>) -> Result<T, Error> {
    loop {
        match visit() {
            Ok(result) => return Ok(result),
            Err(refusal) => placement::resolve(refusal, clock)?,
        }
    }
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
    /// Asks every other node whether it has the functions that are asked for. PostgreSQL's catalogs decide that; a function
    /// that another role has created under the same name is not called.
    fn find(sequence: Oid, group: i32) -> Result<OtherCopies, Error> {
        let nodes = guc::with(guc::OWN_NAMES, || other_nodes(group));
        if group != COORDINATOR && nodes.iter().all(|node| node.group != COORDINATOR) {
            return Err(Error::CoordinatorUnknown { name: names::relation(sequence) });
        }
        let role = if visit::may_be_updated_by(sequence, catalog::current_role()) {
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
        // The other nodes see a sequence that the coordinator has created in this transaction only after the commit. Until
        // then they generate no ids from it: they would ask the coordinator, which has none that others can see either.
        let may_be_missing = group == COORDINATOR && sys::is_new(sequence);
        for ((node, _), said) in nodes.into_iter().zip(answers) {
            match said.split_once(' ') {
                Some(("1", schema)) => found.nodes.push((node, schema.to_owned())),
                Some(("0", _)) if may_be_missing => {}
                Some(("0", _)) => {
                    return Err(found.not_handed_over(&node, "The sequence does not exist there.".into()));
                }
                _ => {
                    let version = env!("CARGO_PKG_VERSION");
                    let said = format!("instagram_id {version} or later is not installed there.");
                    return Err(found.not_handed_over(&node, said));
                }
            }
        }
        Ok(found)
    }

    /// Has every node close its copy; returns what each copy records, with the group of its node.
    fn close(&self, attempt: Attempt) -> Result<Vec<(i32, CopyState)>, Error> {
        let (copy, group, number) = (self.copy(), self.group, attempt.number());
        let answers = self.ask(&self.nodes, |schema| {
            format!(
                "SELECT pg_catalog.concat_ws(' ', c.next_value, c.previous_group) \
                 FROM {schema}._close_sequence({copy}, {group}::pg_catalog.int4, {number}::pg_catalog.int4) AS c"
            )
        })?;
        let copies = self.nodes.iter().zip(answers).map(|((node, _), said)| match copy_state_of(&said) {
            Some(copy) => Ok((node.group, copy)),
            None => Err(self.not_handed_over(node, said)),
        });
        copies.collect()
    }

    /// Records this node as the owner on every node; returns false where a copy is not closed for this attempt any more.
    fn record_owner(&self, attempt: Attempt) -> Result<bool, Error> {
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
        let rows = guc::with(guc::OWN_NAMES, || {
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
                None => Err(self.not_handed_over(node, "It has not answered.".into())),
            }
        };
        nodes.iter().map(|(node, _)| answer_of(node)).collect()
    }

    fn not_handed_over(&self, node: &Node, said: String) -> Error {
        let role = names::role(self.role);
        Error::NotHandedOver { name: names::relation(self.sequence), node: node.name(), role, said }
    }
}

/// The answer of a node: its value, and the group where there is one.
fn copy_state_of(said: &str) -> Option<CopyState> {
    let (next_value, group) = match said.split_once(' ') {
        Some((next_value, group)) => (next_value, Some(group.parse().ok()?)),
        None => (said, None),
    };
    Some(CopyState { next_value: next_value.parse().ok()?, last_owner: LastOwner::of_column(group)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_parsed() {
        let state = |next_value, last_owner| Some(CopyState { next_value, last_owner });
        assert_eq!(copy_state_of("5"), state(5, LastOwner::Nobody));
        assert_eq!(copy_state_of("-5 0"), state(-5, LastOwner::Node(0)));
        assert_eq!(copy_state_of("5 -1"), state(5, LastOwner::Unknown));
        for said in ["", " ", "5 ", "x", "5 x", "5 6 7", "5|6", "5 -2"] {
            assert_eq!(copy_state_of(said), None, "{said}");
        }
    }
}

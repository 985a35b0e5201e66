//! The copies of sequences on the other nodes of a Citus cluster: the commands that a node runs
//! there to take sequences over, and the answers.

use crate::error::Error;
use crate::pg::catalog;
use crate::pg::deadline::Deadline;
use crate::pg::guc;
use crate::pg::names;
use crate::pg::roles;
use crate::pg::spi::select;
use crate::sequence::placement::{self, COORDINATOR, Node, SequencePlacement};
use crate::sequence::{CopyPolicy, IdSequence};
use instagram_id_core::copy::{Attempt, CopyState, LastHolder};
use pgrx::pg_sys::Oid;
use pgrx::spi::quote_literal;
use std::ffi::CStr;

/// This node's copy of a sequence during an attempt to open it.
pub struct Opening {
    pub sequence: IdSequence,
    pub attempt: Attempt,
    /// Its state when the attempt began.
    pub own: CopyState,
    pub placement: SequencePlacement,
    /// The value at which it continues or above.
    pub floor: i64,
    /// This node, if it continues without the last holder.
    pub taker: Option<LastHolder>,
}

/// The role as which the other nodes are asked for their copies of a sequence: the current role if
/// it has UPDATE on the sequence, otherwise the sequence's owner.
pub fn role_to_ask_as(sequence: Oid) -> Oid {
    let role = catalog::current_role();
    if roles::may_set(sequence, role) {
        role
    } else {
        catalog::relation(sequence).map_or(role, |relation| relation.owner)
    }
}

/// The copies of one or several sequences on the other nodes.
pub struct OtherCopies {
    /// The sequence that an error names.
    sequence: Oid,
    /// The group of this node.
    group: i32,
    /// The nodes, each with the quoted name of the extension's schema there.
    nodes: Vec<(Node, String)>,
    /// With the setting, the nodes that do not accept a connection, and what Citus has said. Their
    /// copies are closed, unless one of them is the last holder: the coordinator is not among them,
    /// and it records each node before that opens its copy.
    pub unreached: Vec<(Node, String)>,
    /// The role as which the commands are run. They require UPDATE on the sequences on each node.
    role: Oid,
    deadline: Deadline,
}

impl OtherCopies {
    /// Those of sequences without copies.
    pub fn none(deadline: Deadline) -> OtherCopies {
        OtherCopies {
            sequence: Oid::INVALID,
            group: COORDINATOR,
            nodes: vec![],
            unreached: vec![],
            role: Oid::INVALID,
            deadline,
        }
    }

    /// Asks every other node whether it has the sequences, one or more, and the functions. Only
    /// functions that belong to the extension by the node's catalogs count, so that a function of
    /// another role with the same name is not called.
    pub fn find(
        opening: &[Opening],
        policy: CopyPolicy,
        deadline: Deadline,
    ) -> Result<OtherCopies, Error> {
        let (sequence, group) = (opening[0].sequence.oid, opening[0].placement.group);
        let mut found = OtherCopies {
            sequence,
            group,
            nodes: vec![],
            unreached: vec![],
            role: role_to_ask_as(sequence),
            deadline,
        };
        let mut nodes = placement::nodes();
        let has_coordinator = nodes.iter().any(|node| node.group == COORDINATOR);
        nodes.retain(|node| node.group != group);
        // The workers refuse a coordinator that is not in their catalogs. A coordinator without
        // workers need not be.
        if !has_coordinator && (group != COORDINATOR || !nodes.is_empty()) {
            return Err(Error::CoordinatorUnknown { name: names::relation(sequence) });
        }
        let nodes: Vec<_> = nodes.into_iter().map(|node| (node, String::new())).collect();
        let exist = opening
            .iter()
            .map(|opening| format!("({} IS NOT NULL)::pg_catalog.int4", copy_of(opening)));
        let exist = joined(exist);
        let command = format!("SELECT pg_catalog.concat_ws(' ', {exist}, ({SCHEMA_OF_FUNCTIONS}))");
        // A caller that passes where to continue might pass too little for such a node.
        let may_skip =
            guc::continues_without_lost_nodes() && policy != CopyPolicy::SchemaNodeWithFloor;
        let answers = found.ask(&nodes, |_| command.clone(), may_skip);
        // The other nodes see a sequence that the coordinator has created in this transaction only
        // after the commit. Until then they cannot generate ids from it: they would ask the
        // coordinator, where other sessions do not see the sequence either.
        let are_new = group == COORDINATOR
            && opening.iter().all(|opening| catalog::is_new(opening.sequence.oid));
        let all = |digit: &str| vec![digit; opening.len()].join(SEPARATOR);
        for ((node, _), answer) in nodes.into_iter().zip(answers) {
            let said = match answer {
                Ok(said) => said,
                Err(said)
                    if may_skip && node.group != COORDINATOR && said.starts_with(NOT_CONNECTED) =>
                {
                    found.unreached.push((node, said));
                    continue;
                }
                Err(said) => return Err(found.not_reached(&node, said)),
            };
            match said.split_once(' ') {
                Some((exist, schema)) if exist == all("1") => {
                    found.nodes.push((node, schema.to_owned()))
                }
                Some((exist, _)) if exist == all("0") && are_new => {}
                answer => {
                    let (name, node) = (names::relation(sequence), node.name());
                    return Err(match answer {
                        Some(_) => Error::SequenceNotOnNode { name, node },
                        None => Error::NodeOutdated { name, node },
                    });
                }
            }
        }
        Ok(found)
    }

    /// Makes every node close its copies. Returns, for each sequence, the states of the copies with
    /// the groups of their nodes.
    pub fn close(&self, opening: &[Opening]) -> Result<Vec<Vec<(i32, Report)>>, Error> {
        let close = |schema: &str, opening: &Opening| {
            let arguments = self.arguments_of_step(opening);
            format!(
                "(SELECT pg_catalog.concat_ws(' ', c.next_value, COALESCE(c.placed_on, -1), \
                 c.last_holder) FROM {schema}._close_sequence({arguments}) AS c)"
            )
        };
        self.ask_about(opening, close, Report::parse)
    }

    /// Records this node as the last holder on every node. Returns, for each sequence, false if a
    /// copy is no longer closed for this attempt.
    pub fn record_holder(&self, opening: &[Opening]) -> Result<Vec<bool>, Error> {
        let record = |schema: &str, opening: &Opening| {
            let (arguments, floor) = (self.arguments_of_step(opening), opening.floor);
            format!("{schema}._record_sequence_holder({arguments}, '{floor}'::pg_catalog.int8)")
        };
        let recorded = self.ask_about(opening, record, |said| Some(said == "t"))?;
        Ok(recorded
            .iter()
            .map(|of_nodes| of_nodes.iter().all(|(_, is_recorded)| *is_recorded))
            .collect())
    }

    /// Evaluates an expression for each of these sequences on every node. Returns, for each
    /// sequence, the values with the groups of their nodes.
    fn ask_about<T: Clone>(
        &self,
        opening: &[Opening],
        expression: impl Fn(&str, &Opening) -> String,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<Vec<(i32, T)>>, Error> {
        let mut values = vec![vec![]; opening.len()];
        if opening.is_empty() {
            return Ok(values); // an ARRAY[] has no type
        }
        // The node waits for locks no longer than this session does.
        let limit = guc::lock_timeout().map_or(String::new(), |limit| {
            format!(" FROM pg_catalog.set_config('lock_timeout', '{}', true)", limit.as_millis())
        });
        let command = |schema: &str| {
            let expressions = opening.iter().map(|opening| expression(schema, opening));
            format!("SELECT {}{limit}", joined(expressions))
        };
        let answers = self.ask(&self.nodes, command, false);
        for ((node, _), answer) in self.nodes.iter().zip(answers) {
            let said = answer.map_err(|said| self.not_handed_over(node, said))?;
            let of_node: Option<Vec<T>> = said.split(SEPARATOR).map(&parse).collect();
            let Some(of_node) = of_node.filter(|of_node| of_node.len() == opening.len()) else {
                return Err(self.not_handed_over(node, said));
            };
            for (values, value) in values.iter_mut().zip(of_node) {
                values.push((node.group, value));
            }
        }
        Ok(values)
    }

    /// The arguments of both functions for a sequence.
    fn arguments_of_step(&self, opening: &Opening) -> String {
        let (copy, group, number) = (copy_of(opening), self.group, opening.attempt.number());
        format!("{copy}, {group}::pg_catalog.int4, {number}::pg_catalog.int4")
    }

    /// Runs a command on each of these nodes. Returns their answers, in the order of the nodes: an
    /// error with the text of Citus if a node does not answer, or answers with an error. With
    /// `may_skip` there must be time left after a node could not be reached.
    fn ask(
        &self,
        nodes: &[(Node, String)],
        command: impl Fn(&str) -> String,
        may_skip: bool,
    ) -> Vec<Result<String, String>> {
        if nodes.is_empty() {
            return vec![];
        }
        let list = |text: &dyn Fn(&(Node, String)) -> String| {
            nodes.iter().map(text).collect::<Vec<_>>().join(", ")
        };
        let query = format!(
            "SELECT node_name::text, node_port, success, result::text
             FROM master_run_on_worker(ARRAY[{}]::text[], ARRAY[{}]::int[], ARRAY[{}]::text[], true)",
            list(&|(node, _)| quote_literal(&node.host)),
            list(&|(node, _)| node.port.to_string()),
            list(&|(_, schema)| quote_literal(command(schema))),
        );
        // A node that cannot be reached should be named before the time is over, also to the
        // sessions that wait.
        let left_ms = self.deadline.left().as_millis() as i64;
        let limit = if may_skip { left_ms / 4 } else { left_ms * 4 / 5 };
        let limit = limit.max(CONNECTION_TIMEOUT_MIN_MS);
        let timeout = guc::number(CONNECTION_TIMEOUT)
            .map(|ms| (CONNECTION_TIMEOUT, ms.min(limit).to_string()));
        let timeout = timeout.iter().map(|(name, value)| (*name, value.as_str()));
        let settings: Vec<_> =
            guc::OWN_SETTINGS.iter().copied().chain(timeout).chain([CHECK_INTERVAL]).collect();
        let answers = || {
            select(&query, &[], |row| {
                let (host, port) = (row.get::<String>(1)?, row.get::<i32>(2)?);
                let said = row.get::<String>(4).unwrap_or_default().trim().to_owned();
                Some((host, port, if row.get(3)? { Ok(said) } else { Err(said) }))
            })
        };
        let mut answers = guc::with(&settings, || {
            if self.role == catalog::current_role() {
                answers()
            } else {
                roles::with_rights_of(self.role, answers)
            }
        });
        let answer_of = |(node, _): &(Node, String)| {
            let is_of_node = |(host, port, _): &_| *host == node.host && *port == node.port;
            match answers.iter().position(is_of_node) {
                Some(place) => answers.swap_remove(place).2,
                None => Err("It has not answered.".into()),
            }
        };
        nodes.iter().map(answer_of).collect()
    }

    pub fn not_reached(&self, node: &Node, said: String) -> Error {
        Error::NodeNotReached {
            name: names::relation(self.sequence),
            node: node.name(),
            group: node.group,
            role: names::role(self.role),
            said,
        }
    }

    fn not_handed_over(&self, node: &Node, said: String) -> Error {
        let role = names::role(self.role);
        Error::NotHandedOver { name: names::relation(self.sequence), node: node.name(), role, said }
    }
}

/// An expression for the copy of a sequence on another node, which does not depend on the
/// search_path there; NULL if there is none. While a transaction that renames schemas is committed,
/// the nodes may know different schemas by one name. So a distributed schema is found by its
/// colocation.
///
/// A copy has the same owner on each node. A sequence of another owner is none: any role that can
/// create schemas can give its own the name that a schema of others has on another node.
fn copy_of(Opening { sequence, placement, .. }: &Opening) -> String {
    let role = catalog::relation(sequence.oid).map_or(Oid::INVALID, |relation| relation.owner);
    let role = quote_literal(names::raw_role(role));
    let (from, is_it) = match &placement.in_colocation {
        Some((colocation, name)) => (
            "pg_catalog.pg_dist_schema AS s, ",
            format!(
                "s.colocationid OPERATOR(pg_catalog.=) {colocation}::pg_catalog.int4 \
                 AND c.relnamespace OPERATOR(pg_catalog.=) s.schemaid \
                 AND c.relname OPERATOR(pg_catalog.=) {}::pg_catalog.name",
                quote_literal(name)
            ),
        ),
        None => {
            let name = quote_literal(names::relation(sequence.oid));
            (
                "",
                format!(
                    "c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass({name})::pg_catalog.oid"
                ),
            )
        }
    };
    format!(
        "(SELECT c.oid::pg_catalog.regclass FROM {from}pg_catalog.pg_class AS c WHERE {is_it} \
         AND pg_catalog.pg_get_userbyid(c.relowner) OPERATOR(pg_catalog.=) {role}::pg_catalog.name)"
    )
}

/// The limit of Citus for a connection to another node, in milliseconds, and its smallest value.
const CONNECTION_TIMEOUT: &CStr = c"citus.node_connection_timeout";
const CONNECTION_TIMEOUT_MIN_MS: i64 = 10;

/// How often Citus looks for the answers of other nodes, in milliseconds. It waits at least this
/// long for each command; the default is 10.
const CHECK_INTERVAL: (&CStr, &str) = (c"citus.remote_task_check_interval", "1");

/// The quoted name of the schema with the functions that belong to the extension on a node.
const SCHEMA_OF_FUNCTIONS: &str = "SELECT pg_catalog.quote_ident(n.nspname) \
    FROM pg_catalog.pg_extension AS e, pg_catalog.pg_namespace AS n, pg_catalog.pg_proc AS p, pg_catalog.pg_depend AS d \
    WHERE e.extname OPERATOR(pg_catalog.=) 'instagram_id'::pg_catalog.name \
    AND n.oid OPERATOR(pg_catalog.=) e.extnamespace \
    AND (p.proname OPERATOR(pg_catalog.=) '_close_sequence'::pg_catalog.name \
    OR p.proname OPERATOR(pg_catalog.=) '_record_sequence_holder'::pg_catalog.name) \
    AND p.pronamespace OPERATOR(pg_catalog.=) n.oid \
    AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid \
    AND d.objid OPERATOR(pg_catalog.=) p.oid \
    AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid \
    AND d.refobjid OPERATOR(pg_catalog.=) e.oid \
    AND d.deptype OPERATOR(pg_catalog.=) 'e'::pg_catalog.\"char\" \
    GROUP BY n.nspname HAVING pg_catalog.count(*) OPERATOR(pg_catalog.=) 2::pg_catalog.int8";

/// How Citus begins its text if a node does not accept a connection.
const NOT_CONNECTED: &str = "failed to connect to ";

/// Separates the answers of a node about several sequences.
const SEPARATOR: &str = ",";

/// An expression for the values of these expressions, with [`SEPARATOR`]. A function, such as
/// `concat_ws`, would accept only a hundred of them.
fn joined(expressions: impl Iterator<Item = String>) -> String {
    let expressions = expressions.collect::<Vec<_>>().join(", ");
    format!("pg_catalog.array_to_string(ARRAY[{expressions}], '{SEPARATOR}')")
}

/// The answer of a node to `_close_sequence`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Report {
    pub state: CopyState,
    /// The group of the node that owns the schema by that node's catalogs.
    pub placed_on: Option<i32>,
}

impl Report {
    /// Parses the next value, the group of the node that owns the schema or -1, and the group of
    /// the last holder if there is one.
    fn parse(said: &str) -> Option<Report> {
        let mut fields = said.split(' ');
        let next_value = fields.next()?.parse().ok()?;
        let placed_on: i32 = fields.next()?.parse().ok()?;
        let last_holder = match fields.next() {
            Some(group) => LastHolder::of_column(Some(group.parse().ok()?))?,
            None => LastHolder::Nobody,
        };
        fields.next().is_none().then_some(Report {
            state: CopyState { next_value, last_holder },
            placed_on: (placed_on >= 0).then_some(placed_on),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_parsed() {
        let report = |next_value, placed_on, last_holder| {
            Some(Report { state: CopyState { next_value, last_holder }, placed_on })
        };
        assert_eq!(Report::parse("5 -1"), report(5, None, LastHolder::Nobody));
        assert_eq!(Report::parse("-5 2 0"), report(-5, Some(2), LastHolder::Node(0)));
        assert_eq!(Report::parse("5 0 -1"), report(5, Some(0), LastHolder::Unknown));
        for said in ["", " ", "5", "5 ", "x", "5 x", "5 6 7 8", "5|6", "5,6", "5 1 -2", "5 1 "] {
            assert_eq!(Report::parse(said), None, "{said}");
        }
    }
}

//! A model of the nodes of a Citus cluster, which take a sequence over from each other.
//!
//! The code of the extension determines the tuple that each step writes ([`Tuple::close`] and the
//! other steps), whether a copy may be opened ([`check_last_holders`]), and the next value
//! ([`hlc::next`], [`hlc::durability`]). The model adds:
//!
//! - the lock on a page: each step on one copy is atomic
//! - the lock on an attempt: only one session of a node at a time tries to open the copy
//! - messages between the nodes: a message can arrive after its sender has given up
//! - Citus's catalogs: each node receives a new placement at another time
//! - WAL: the records that remain after a crash of a node
//! - nodes that are removed, and are added again with another group number
//! - nodes that lose their disk: an empty server takes their place, with the same group number
//! - the clocks of the nodes, which differ
//!
//! Sequences that are taken over together go through the same steps, each independently of the
//! others.
//!
//! All nodes have the same list of nodes. Not part of the model: standbys of the nodes, disabled
//! nodes, and `nextval` on a closed copy.
//!
//! In some scenarios the nodes continue without lost nodes, as a setting allows. Then an attempt
//! needs the coordinator, and the nodes that the copies record as the last holder, and no other
//! node. If the last holder was removed from the cluster, the node that owns the schema by the
//! catalogs of the coordinator continues above [`floor_without_holder`]. In these scenarios a
//! removed node that has not received the last move still generates ids, which must not be repeated
//! but can be out of order. In all others it generates none.

use crate::checker::{Protocol, Size};
use instagram_id_core::copy::{
    Attempt, CopyState, HolderProblem, LastHolder, Mark, Stage, Tuple, check_last_holders,
    first_of_range, floor_above, floor_without_holder, unreported_holders,
};
use instagram_id_core::hlc::{self, Next, WARN_AHEAD_MS};
use stateright::{Model, Property};
use std::fmt;

/// The clock of the coordinator, in milliseconds since the epoch.
const NOW: i64 = 480_000_000_000;
/// Clocks of the nodes. They differ by more than the ids of a scenario take.
const CLOCKS: [[i64; 3]; 3] =
    [[NOW, NOW + 5, NOW - 5], [NOW, NOW - 5, NOW + 5], [NOW, NOW - 5, NOW - 10]];
/// A node that is added again gets its old group number plus this.
const NEW_GROUP: i32 = 10;
/// The node of the coordinator.
const COORDINATOR: usize = 0;
/// How far `advance_shard` moves a sequence: by more than the margin of [`floor_without_holder`].
const AN_HOUR: i64 = hlc::first_of(3_600_000);

// The properties.
const INCREASING: &str = "each id is greater than every acknowledged id";
const UNIQUE: &str = "no id is issued twice";
const EXCLUSIVE: &str = "at most one copy is open";
const BOUNDED: &str = "no copy is ahead of the ids and clocks by more than the margin";
const AVAILABLE: &str =
    "the node that owns the schema can generate ids again, greater than every acknowledged id";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The new holder is recorded already when the copies are closed.
    HolderRecordedAtOnce,
    /// A node opens its copy, even if the mark of its attempt was overwritten.
    MarkNotChecked,
    /// A node flushes neither the closing of its copy nor the new holder that it records.
    CloseNotFlushed,
    /// A node flushes the closing of its copy, but not the new holder that it records.
    HolderNotFlushed,
    /// A node opens its copy without recording how far the other copies have advanced.
    FloorNotRaised,
    /// A node opens its copy, although the last holder is not among the nodes that answered.
    HoldersNotChecked,
    /// A node records the holder in a copy that is no longer closed for that attempt.
    RecordedForAnyAttempt,
    /// The other nodes do not record the new holder.
    HolderNotRecorded,
    /// A node opens its copy, although that of the last holder was created anew.
    NewCopyTrusted,
    /// A node opens its copy, although another node has not answered.
    SilentNodeIgnored,
    /// A session generates ids from a closed copy, because the catalogs of its node name that node
    /// as the holder.
    BeliefTrusted,
    /// A node uses a copy that was created when the node had another group number.
    NumberIgnored,
    /// Such a copy cannot be closed for another node.
    OldCopyRefusesToClose,

    // Faults of the setting.
    /// A node continues without the last holder right above what it knows.
    NoMargin,
    /// It does so without the ids in the tables.
    TablesNotRead,
    /// It does so although it does not own the schema by the catalogs of the coordinator.
    PlacementNotChecked,
    /// It does so although the last holder is still in the cluster.
    UnreachableHolderSkipped,
    /// A node opens its copy without the coordinator.
    CoordinatorSkipped,
    /// The other nodes do not record the value above which the new holder begins.
    FloorNotRecorded,
    /// Each attempt adds the margin to the value of the one before.
    MarginRepeated,
}

impl Fault {
    fn is_of_the_setting(self) -> bool {
        matches!(
            self,
            Fault::NoMargin
                | Fault::TablesNotRead
                | Fault::PlacementNotChecked
                | Fault::UnreachableHolderSkipped
                | Fault::CoordinatorSkipped
                | Fault::FloorNotRecorded
                | Fault::MarginRepeated
        )
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Budget {
    moves: u8,
    ids: u8,
    attempts: u8,
    /// Attempts that fail while their messages are under way.
    failures: u8,
    crashes: u8,
    removals: u8,
    returns: u8,
    /// Nodes that lose their disk.
    losses: u8,
    /// Nodes that an attempt does not reach, with the setting.
    skips: u8,
    /// Ids an hour ahead of the clock, each in a row of a table.
    leaps: u8,
    /// Ids that removed nodes generate.
    late_ids: u8,
}

/// A session that opens the copy of its node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Opener {
    Idle,
    /// Has marked its copy, and waits until all other nodes have closed their copies.
    Closing {
        attempt: Attempt,
        own: CopyState,
        asked: Vec<usize>,
        copies: Vec<(i32, CopyState)>,
        /// Whether this node owns the schema by the catalogs of the coordinator.
        is_confirmed: bool,
    },
    /// Has the states of all copies. Next it records how far they have advanced.
    Raising {
        attempt: Attempt,
        floor: i64,
        taker: Option<LastHolder>,
    },
    /// Waits until all other nodes have recorded the new holder.
    Recording {
        attempt: Attempt,
        asked: Vec<usize>,
    },
    /// Next it opens its copy.
    Opening {
        attempt: Attempt,
    },
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Node {
    /// The group number of the node, or `None` if the node is not in the cluster.
    group: Option<i32>,
    /// The group number of the node when its copy was created.
    created_for: i32,
    page: Tuple,
    /// The last WAL record of the copy, and the last flushed one.
    logged: Tuple,
    flushed: Tuple,
    /// Whether the last record was logged ahead of the page.
    is_covered: bool,
    /// The group of the node that owns the schema, by this node's catalogs.
    placed_on: i32,
    opener: Opener,
    /// The other nodes of the cluster when the attempt began.
    others: Vec<usize>,
    /// The greatest known value, if `advance_shard` has started the attempt.
    given_floor: Option<i64>,
    /// The newest id in the tables when the schema was last placed on this node.
    newest: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Request {
    Close,
    RecordHolder,
}

/// A request that one node has sent to another.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Message {
    from: usize,
    to: usize,
    request: Request,
    for_group: i32,
    attempt: Attempt,
    /// The value above which the new holder begins.
    floor: i64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    nodes: Vec<Node>,
    messages: Vec<Message>,
    /// The group of the node that owns the schema since the last committed move.
    placed_on: i32,
    last_attempt: i32,
    budget: Budget,
    /// The greatest acknowledged value.
    acknowledged: i64,
    has_repeated: bool,
    clocks: [i64; 3],
    /// Whether the nodes continue without lost nodes.
    continues: bool,
    /// Whether a node has lost its disk.
    has_lost_disk: bool,
    /// With the setting, every value that was issued.
    issued: Vec<i64>,
    is_issued_twice: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    Move(usize),
    Learn(usize),
    Generate(usize),
    Leap(usize),
    GenerateLate(usize),
    Skip(usize, usize),
    Begin(usize),
    Advance(usize),
    Deliver(usize, Message),
    Raise(usize),
    Open(usize),
    GiveUp(usize),
    Crash { node: usize, is_all_wal_on_disk: bool },
    Remove(usize),
    Return { node: usize, has_new_copy: bool },
    LoseDisk(usize),
}

/// A copy as Citus creates it on the node of a group.
fn new_copy(group: i32) -> Tuple {
    let last_value = first_of_range(group.into());
    Tuple { last_value, log_cnt: 0, is_called: false }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Move(n) => write!(f, "the schema moves to node {n}"),
            Action::Learn(n) => write!(f, "node {n} receives the placement of the schema"),
            Action::Generate(n) => write!(f, "node {n} generates an id"),
            Action::Leap(n) => {
                write!(f, "node {n} generates an id for a row, an hour ahead of the clock")
            }
            Action::GenerateLate(n) => write!(f, "node {n}, which was removed, generates an id"),
            Action::Skip(n, other) => write!(f, "node {n} does not reach node {other}"),
            Action::Begin(n) => {
                write!(f, "node {n} marks its copy, and asks all other nodes to close their copies")
            }
            Action::Advance(n) => write!(
                f,
                "advance_shard() on node {n} marks its copy, and asks all other nodes to close their copies"
            ),
            Action::Deliver(_, Message { from, to, request: Request::Close, .. }) => {
                write!(f, "node {to} closes its copy for node {from}")
            }
            Action::Deliver(_, Message { from, to, .. }) => {
                write!(f, "node {to} records node {from} as the holder")
            }
            Action::Raise(n) => {
                write!(f, "node {n} records in its copy how far the other copies have advanced")
            }
            Action::Open(n) => write!(f, "node {n} opens its copy"),
            Action::GiveUp(n) => write!(f, "the attempt of node {n} fails"),
            Action::Crash { node, is_all_wal_on_disk: true } => {
                write!(f, "node {node} crashes; all of its WAL is on disk")
            }
            Action::Crash { node, .. } => {
                write!(f, "node {node} crashes; only the flushed WAL is on disk")
            }
            Action::Remove(n) => write!(f, "node {n} is lost, and is removed from the cluster"),
            Action::Return { node, has_new_copy: true } => {
                write!(f, "node {node} is added again with another group number and a new copy")
            }
            Action::Return { node, .. } => {
                write!(f, "node {node} is added again with another group number and its old copy")
            }
            Action::LoseDisk(n) => write!(f, "node {n} loses its disk, and has a new copy"),
        }
    }
}

impl Node {
    fn new(group: i32) -> Node {
        let page = new_copy(group);
        let opener = Opener::Idle;
        let (logged, flushed, is_covered) = (page, page, false);
        let (created_for, group) = (group, Some(group));
        let others = vec![];
        Node {
            group,
            created_for,
            page,
            logged,
            flushed,
            is_covered,
            placed_on: 0,
            opener,
            others,
            given_floor: None,
            newest: i64::MIN,
        }
    }

    /// Whether the node is part of the cluster, and its copy was created for it.
    fn is_usable(&self, fault: Option<Fault>) -> bool {
        self.group == Some(self.created_for)
            || self.group.is_some() && fault == Some(Fault::NumberIgnored)
    }

    /// Writes a step of the protocol to the page and to WAL.
    fn write(&mut self, tuple: Tuple, is_flushed: bool) {
        (self.page, self.logged, self.is_covered) = (tuple, tuple, false);
        if is_flushed {
            self.flushed = tuple;
        }
    }

    /// Takes a value from the open copy, and acknowledges it.
    fn take(&mut self, now_ms: i64) -> i64 {
        let Tuple { last_value, log_cnt, is_called } = self.page;
        let state = hlc::State { last_value, is_called };
        // The clocks of this model stand still, so a session does not have to wait.
        let Next::Take(run) = hlc::next(state, now_ms, 1, Some(state)) else {
            unreachable!("{state:?}")
        };
        let plan =
            hlc::durability(last_value, log_cnt, run.first, now_ms, !is_called || !self.is_covered);
        if let Some(record) = plan.record {
            self.logged = Tuple { last_value: record, log_cnt: 0, is_called: true };
            self.is_covered = true;
        }
        self.flushed = self.logged;
        self.page = Tuple { last_value: run.first, log_cnt: plan.log_cnt, is_called: true };
        run.first
    }

    /// Opens the copy with this last value.
    fn open(&mut self, last_value: i64, now_ms: i64) {
        let plan = hlc::durability(self.page.last_value, 0, last_value, now_ms, true);
        let record = plan.record.expect("the record was required");
        self.logged = Tuple { last_value: record, log_cnt: 0, is_called: true };
        self.is_covered = true;
        self.page = Tuple { last_value, log_cnt: plan.log_cnt, is_called: true };
    }
}

impl State {
    fn group(&self, n: usize) -> i32 {
        self.nodes[n].group.expect("the node is part of the cluster")
    }

    fn members(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|n| self.nodes[*n].group.is_some())
    }

    fn others(&self, n: usize) -> Vec<usize> {
        self.members().filter(|other| *other != n).collect()
    }

    /// Whether the node owns the schema, by its own catalogs.
    fn believes(&self, n: usize) -> bool {
        self.nodes[n].group == Some(self.nodes[n].placed_on)
    }

    fn is_open(&self, n: usize, fault: Option<Fault>) -> bool {
        self.nodes[n].is_usable(fault) && !self.nodes[n].page.is_closed(true)
    }

    fn generate(&mut self, n: usize) {
        if self.nodes[n].page.is_closed(true) {
            // Possible only with a fault.
            let next_value = self.nodes[n].page.copy_state().next_value;
            self.nodes[n].open(next_value, self.clocks[n]);
        }
        let value = self.nodes[n].take(self.clocks[n]);
        self.has_repeated |= value <= self.acknowledged;
        self.acknowledged = self.acknowledged.max(value);
        self.issue(value);
    }

    fn issue(&mut self, value: i64) {
        self.is_issued_twice |= self.issued.contains(&value);
        if self.continues {
            self.issued.push(value);
            self.issued.sort_unstable();
        }
    }

    fn send(&mut self, n: usize, to: &[usize], request: Request, attempt: Attempt, floor: i64) {
        let for_group = self.group(n);
        self.messages.extend(to.iter().map(|to| Message {
            from: n,
            to: *to,
            request,
            for_group,
            attempt,
            floor,
        }));
    }

    /// Marks the copy, and sends the requests to close the others.
    fn begin(&mut self, n: usize, fault: Option<Fault>) {
        self.last_attempt += 1;
        let attempt = Attempt::new(self.last_attempt).expect("a small number");
        let node = &mut self.nodes[n];
        let own = node.page.copy_state();
        let Some(mut opening) = node.page.begin_opening(true, attempt) else { return };
        if fault == Some(Fault::HolderRecordedAtOnce) {
            let last_holder = LastHolder::Node(node.group.expect("it is part of the cluster"));
            opening.log_cnt = Mark { last_holder, stage: Stage::Opening(attempt) }.to_log_cnt();
        }
        node.write(opening, false);
        let asked = self.others(n);
        self.nodes[n].others = asked.clone();
        self.send(n, &asked, Request::Close, attempt, 0);
        let is_confirmed = n == COORDINATOR && self.nodes[n].group == Some(self.placed_on);
        let copies = vec![];
        self.nodes[n].opener = Opener::Closing { attempt, own, asked, copies, is_confirmed };
        self.after_answer(n, fault);
    }

    /// Continues when every node has answered.
    fn after_answer(&mut self, n: usize, fault: Option<Fault>) {
        match self.nodes[n].opener.clone() {
            Opener::Closing { attempt, own, asked, copies, is_confirmed } if asked.is_empty() => {
                self.collected(n, attempt, own, &copies, is_confirmed, fault);
            }
            Opener::Recording { attempt, asked } if asked.is_empty() => {
                self.nodes[n].opener = Opener::Opening { attempt };
            }
            _ => {}
        }
    }

    /// Decides whether this copy may be opened, after all others were closed.
    fn collected(
        &mut self,
        n: usize,
        attempt: Attempt,
        own: CopyState,
        copies: &[(i32, CopyState)],
        is_confirmed: bool,
        fault: Option<Fault>,
    ) {
        let given_floor = self.nodes[n].given_floor;
        let all: Vec<CopyState> = copies.iter().map(|(_, copy)| *copy).chain([own]).collect();
        let group = self.group(n);
        let reported = |of: i32| match of == group {
            true => Some(own.next_value),
            false => copies.iter().find(|(of_node, _)| *of_node == of).map(|(_, c)| c.next_value),
        };
        let problem = check_last_holders(&all, given_floor.is_some(), reported, |_| false);
        let lost = unreported_holders(&all, reported);
        let floor = given_floor.unwrap_or(own.next_value);
        let known = copies.iter().map(|(_, copy)| copy.next_value).fold(floor, i64::max);
        let floor = match problem {
            Ok(()) => Some((known, None)),
            Err(_) if fault == Some(Fault::HoldersNotChecked) => Some((known, None)),
            Err(HolderProblem::Replaced(_)) if fault == Some(Fault::NewCopyTrusted) => {
                Some((known, None))
            }
            Err(HolderProblem::Lost(_))
                if is_confirmed || fault == Some(Fault::PlacementNotChecked) =>
            {
                let taker = LastHolder::Node(group);
                self.floor_without(&lost, n, &all, fault).map(|above| (above, Some(taker)))
            }
            Err(_) => None,
        };
        self.nodes[n].opener = match floor {
            None => Opener::Idle,
            Some((known, taker)) => Opener::Raising { attempt, floor: floor_above(known), taker },
        };
    }

    /// With the setting, the value above which a node continues without the last holders.
    fn floor_without(
        &self,
        lost: &[i32],
        n: usize,
        copies: &[CopyState],
        fault: Option<Fault>,
    ) -> Option<i64> {
        let is_removed = self.members().all(|member| !lost.contains(&self.group(member)));
        if !self.continues || !is_removed && fault != Some(Fault::UnreachableHolderSkipped) {
            return None;
        }
        let newest = match fault {
            Some(Fault::TablesNotRead) => i64::MIN,
            _ => self.nodes[n].newest,
        };
        let known = copies.iter().map(|copy| copy.next_value).fold(i64::MIN, i64::max);
        let floor = if fault == Some(Fault::MarginRepeated) { known } else { i64::MIN };
        match fault {
            Some(Fault::NoMargin) => {
                Some(known.max(newest.saturating_add(1)).max(hlc::first_of(self.clocks[n])))
            }
            _ => Some(floor_without_holder(copies, lost, floor, newest, self.clocks[n])),
        }
    }

    fn raise(&mut self, n: usize, fault: Option<Fault>) {
        let Opener::Raising { attempt, floor, taker } = self.nodes[n].opener else { return };
        let floor = if fault == Some(Fault::FloorNotRaised) { i64::MIN } else { floor };
        let Some(raised) = self.nodes[n].page.raise_floor(taker, attempt, floor) else {
            // Another node has closed this copy since the attempt began.
            self.nodes[n].opener = if fault == Some(Fault::MarkNotChecked) {
                Opener::Opening { attempt }
            } else {
                Opener::Idle
            };
            return;
        };
        self.nodes[n].write(raised, true);
        let mut asked = std::mem::take(&mut self.nodes[n].others);
        if asked.iter().any(|other| self.nodes[*other].group.is_none()) {
            self.nodes[n].opener = Opener::Idle;
            return;
        }
        if fault == Some(Fault::HolderNotRecorded) {
            asked.clear();
        }
        let recorded = if fault == Some(Fault::FloorNotRecorded) { 0 } else { floor };
        self.send(n, &asked, Request::RecordHolder, attempt, recorded);
        self.nodes[n].opener = Opener::Recording { attempt, asked };
        self.after_answer(n, fault);
    }

    fn open(&mut self, n: usize, fault: Option<Fault>) {
        let Opener::Opening { attempt } = self.nodes[n].opener else { return };
        let (node, clock) = (&mut self.nodes[n], self.clocks[n]);
        let mut last_value = node.page.open(attempt);
        if fault == Some(Fault::MarkNotChecked) {
            last_value = Some(node.page.copy_state().next_value);
        }
        if let Some(last_value) = last_value {
            node.open(last_value, clock);
        }
        node.opener = Opener::Idle;
        node.given_floor = None;
    }

    /// A node executes a request, and answers. The answer is lost if the sender has given up.
    fn deliver(&mut self, message: &Message, fault: Option<Fault>) {
        let Message { from, to, request, for_group, attempt, floor } = message;
        // A node refuses a request for a group without a node.
        let is_known = self.members().any(|n| self.nodes[n].group == Some(*for_group));
        let node = &mut self.nodes[*to];
        let holder = LastHolder::node(*for_group).expect("a small number");
        let state = node.page.copy_state();
        let mut is_recorded = false;
        let refuses = fault == Some(Fault::OldCopyRefusesToClose) && !node.is_usable(None);
        let is_known = is_known && !refuses;
        match request {
            _ if !is_known => {}
            Request::Close => {
                let mut closed = node.page.close(*attempt);
                if fault == Some(Fault::HolderRecordedAtOnce) {
                    // The copy stays closed for the attempt. Otherwise RecordHolder would fail.
                    let recorded = closed.record_holder(holder, *attempt, 0).expect("just closed");
                    closed = recorded.close(*attempt);
                }
                node.write(closed, fault != Some(Fault::CloseNotFlushed));
            }
            Request::RecordHolder => {
                let mut recorded = node.page.record_holder(holder, *attempt, *floor);
                if fault == Some(Fault::RecordedForAnyAttempt) {
                    recorded = node.page.close(*attempt).record_holder(holder, *attempt, *floor);
                }
                is_recorded = recorded.is_some();
                if let Some(recorded) = recorded {
                    let is_flushed = ![Some(Fault::CloseNotFlushed), Some(Fault::HolderNotFlushed)]
                        .contains(&fault);
                    node.write(recorded, is_flushed);
                }
            }
        }
        let group = node.group;
        let placed_on = self.placed_on;
        match (&mut self.nodes[*from].opener, request) {
            (Opener::Closing { attempt: of, asked, copies, is_confirmed, .. }, Request::Close)
                if of == attempt && asked.contains(to) && is_known =>
            {
                asked.retain(|n| n != to);
                *is_confirmed |= *to == COORDINATOR && placed_on == *for_group;
                copies.push((group.expect("it has answered"), state));
                copies.sort_by_key(|(group, _)| *group);
            }
            (Opener::Recording { attempt: of, asked }, Request::RecordHolder)
                if of == attempt && asked.contains(to) =>
            {
                asked.retain(|n| n != to);
                if !is_recorded {
                    self.nodes[*from].opener = Opener::Idle;
                }
            }
            _ => {}
        }
        self.after_answer(*from, fault);
    }

    /// A node loses its sessions, and the requests that it has not executed yet.
    fn lose_sessions(&mut self, n: usize) {
        self.nodes[n].opener = Opener::Idle;
        self.nodes[n].given_floor = None;
        self.messages.retain(|message| message.to != n);
    }

    /// Whether the node that owns the schema gets an id that is greater than every acknowledged id,
    /// if nothing else fails. If a node was removed, the user passes the greatest acknowledged id
    /// to `advance_shard`, except with the setting. The same if a node has lost its disk.
    fn can_continue(&self, fault: Option<Fault>) -> bool {
        let mut state = self.clone();
        state.deliver_all(fault);
        for node in &mut state.nodes {
            (node.placed_on, node.opener, node.given_floor) = (self.placed_on, Opener::Idle, None);
        }
        let Some(n) = state.members().find(|n| state.nodes[*n].group == Some(state.placed_on))
        else {
            return false;
        };
        let is_complete = (0..).zip(&state.nodes).all(|(group, node)| node.group == Some(group));
        let floors = if (is_complete || self.continues) && !self.has_lost_disk {
            vec![None]
        } else {
            vec![None, Some(state.acknowledged)]
        };
        for given_floor in floors {
            if !state.is_open(n, None) {
                state.nodes[n].given_floor = given_floor;
                state.begin(n, fault);
                state.deliver_all(fault);
                state.raise(n, fault);
                state.deliver_all(fault);
                state.open(n, fault);
            }
        }
        if state.is_open(n, None) {
            state.generate(n);
        }
        state.is_open(n, None) && !state.has_repeated && state.acknowledged > self.acknowledged
    }

    fn deliver_all(&mut self, fault: Option<Fault>) {
        while let Some(message) = self.messages.pop() {
            self.deliver(&message, fault);
        }
    }
}

/// The model: its first state, with the budget, and the fault that is built in.
pub struct Takeover {
    start: State,
    fault: Option<Fault>,
}

impl Takeover {
    /// A cluster of this many nodes. The coordinator, node 0, owns the schema and has generated an
    /// id. The other copies are closed.
    fn start(clocks: [i64; 3], count: usize, budget: Budget) -> State {
        let nodes = (0..count).map(|n| Node::new(n as i32)).collect();
        let (messages, placed_on, last_attempt) = (vec![], 0, 0);
        let mut state = State {
            nodes,
            messages,
            placed_on,
            last_attempt,
            budget,
            acknowledged: 0,
            has_repeated: false,
            clocks,
            continues: false,
            has_lost_disk: false,
            issued: vec![],
            is_issued_twice: false,
        };
        let first = Attempt::new(0).expect("a small number");
        let opening = state.nodes[0].page.begin_opening(true, first).expect("closed");
        let begins_at = floor_above(0);
        let holder = LastHolder::Node(0);
        let raised = opening.raise_floor(None, first, begins_at).expect("just marked");
        state.nodes[0].write(raised, true);
        state.nodes[0].open(begins_at, clocks[0]);
        state.generate(0);
        for n in 1..count {
            let closed = state.nodes[n].page.close(first);
            let recorded = closed.record_holder(holder, first, begins_at).expect("just closed");
            state.nodes[n].write(recorded, true);
        }
        state
    }

    fn start_in_disagreement(clocks: [i64; 3], budget: Budget) -> State {
        let mut state = Self::start(clocks, 3, budget);
        state.placed_on = 2;
        (0..).zip(&mut state.nodes).for_each(|(group, node)| node.placed_on = group);
        state
    }

    /// With the setting. Node 1 owns the schema and has generated an id.
    fn start_with_setting(clocks: [i64; 3], count: usize, budget: Budget) -> State {
        let mut state = Self::start(clocks, count, budget);
        (state.placed_on, state.continues) = (1, true);
        state.nodes.iter_mut().for_each(|node| node.placed_on = 1);
        state.begin(1, None);
        state.deliver_all(None);
        state.raise(1, None);
        state.deliver_all(None);
        state.open(1, None);
        state.generate(1);
        state
    }
}

impl Takeover {
    /// The steps that a session that opens the copy of its node can do next, or could begin.
    fn actions_of_opener(&self, state: &State, n: usize, actions: &mut Vec<Action>) {
        let (budget, node) = (&state.budget, &state.nodes[n]);
        match &node.opener {
            Opener::Idle => {
                let may_begin = budget.attempts > 0
                    && state.believes(n)
                    && node.is_usable(self.fault)
                    && node.page.is_closed(true);
                if may_begin {
                    actions.push(Action::Begin(n));
                    // As documented, only after a node was lost and generates no more ids.
                    if node.group == Some(state.placed_on)
                        && (state.members().count() < state.nodes.len() || state.has_lost_disk)
                        && self.start.budget.late_ids == 0
                    {
                        actions.push(Action::Advance(n));
                    }
                }
            }
            // A node that is told where to continue asks all others.
            Opener::Closing { asked, .. } if budget.skips > 0 && node.given_floor.is_none() => {
                let can_skip = |other: &&usize| {
                    **other != COORDINATOR || self.fault == Some(Fault::CoordinatorSkipped)
                };
                let skips = asked.iter().filter(can_skip);
                actions.extend(skips.map(|other| Action::Skip(n, *other)));
            }
            Opener::Closing { .. } | Opener::Recording { .. } => {}
            Opener::Raising { .. } => actions.push(Action::Raise(n)),
            Opener::Opening { .. } => actions.push(Action::Open(n)),
        }
    }

    /// The scenarios with the setting.
    fn starts_with_setting(clocks: [i64; 3], more: u8) -> Vec<State> {
        let none = Budget::default;
        vec![
            // One node after another is removed, and some of them generate ids after that.
            Takeover::start_with_setting(
                clocks,
                3,
                Budget {
                    moves: 2,
                    ids: 2,
                    attempts: 2 + more,
                    removals: 2,
                    late_ids: 1 + more,
                    ..none()
                },
            ),
            // A third node is not reached, or the last holder is removed.
            Takeover::start_with_setting(
                clocks,
                3,
                Budget { moves: 1, ids: 1, attempts: 2 + more, skips: 1, removals: 1, ..none() },
            ),
            Takeover::start_with_setting(
                clocks,
                3,
                Budget { moves: 2, ids: more, attempts: 2, skips: 2, removals: 1, ..none() },
            ),
            // Ids an hour ahead of the clock, and nodes that have not received the last move.
            Takeover::start_with_setting(
                clocks,
                3,
                Budget {
                    moves: 2,
                    ids: 1,
                    attempts: 2,
                    leaps: 1,
                    removals: 1,
                    failures: more,
                    ..none()
                },
            ),
            // A removed node is added again, or a node crashes.
            Takeover::start_with_setting(
                clocks,
                2,
                Budget {
                    moves: 2,
                    ids: 2,
                    attempts: 3 + more,
                    removals: 1,
                    returns: 1,
                    crashes: 1,
                    failures: more,
                    late_ids: 1,
                    ..none()
                },
            ),
        ]
    }
}

impl Model for Takeover {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start.clone()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let budget = &state.budget;
        for n in state.members() {
            let node = &state.nodes[n];
            if budget.moves > 0 && node.is_usable(self.fault) && node.group != Some(state.placed_on)
            {
                actions.push(Action::Move(n));
            }
            if node.placed_on != state.placed_on {
                actions.push(Action::Learn(n));
            }
            let is_open = state.is_open(n, self.fault) || self.fault == Some(Fault::BeliefTrusted);
            if budget.ids > 0 && state.believes(n) && is_open {
                actions.push(Action::Generate(n));
            }
            if budget.leaps > 0
                && node.group == Some(state.placed_on)
                && state.believes(n)
                && is_open
            {
                actions.push(Action::Leap(n));
            }
            self.actions_of_opener(state, n, actions);
            if budget.failures > 0 && node.opener != Opener::Idle {
                actions.push(Action::GiveUp(n));
            }
            if budget.crashes > 0 {
                actions.push(Action::Crash { node: n, is_all_wal_on_disk: false });
                if node.logged != node.flushed {
                    actions.push(Action::Crash { node: n, is_all_wal_on_disk: true });
                }
            }
            // You cannot remove the coordinator or the node that owns the schema.
            if budget.removals > 0 && n > 0 && node.group != Some(state.placed_on) {
                actions.push(Action::Remove(n));
            }
            if budget.losses > 0 {
                actions.push(Action::LoseDisk(n));
            }
        }
        for (i, message) in state.messages.iter().enumerate() {
            actions.push(Action::Deliver(i, message.clone()));
        }
        for n in (0..state.nodes.len()).filter(|n| state.nodes[*n].group.is_none()) {
            if budget.returns > 0 {
                actions.push(Action::Return { node: n, has_new_copy: false });
                actions.push(Action::Return { node: n, has_new_copy: true });
            }
            let node = &state.nodes[n];
            if budget.late_ids > 0
                && node.placed_on == node.created_for
                && !node.page.is_closed(true)
            {
                actions.push(Action::GenerateLate(n));
            }
        }
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each action")]
    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let fault = self.fault;
        match action {
            Action::Move(n) => {
                state.budget.moves -= 1;
                let newest = state.nodes.iter().find(|node| node.group == Some(state.placed_on));
                state.nodes[n].newest = newest.map_or(i64::MIN, |node| node.newest);
                state.placed_on = state.group(n);
            }
            Action::Learn(n) => state.nodes[n].placed_on = state.placed_on,
            Action::Generate(n) => {
                state.budget.ids -= 1;
                state.generate(n);
            }
            Action::Leap(n) => {
                state.budget.leaps -= 1;
                let last_value = state.nodes[n].page.last_value + AN_HOUR;
                state.nodes[n].open(last_value, state.clocks[n]);
                state.generate(n);
                state.nodes[n].newest = state.acknowledged;
            }
            Action::GenerateLate(n) => {
                state.budget.late_ids -= 1;
                let value = state.nodes[n].take(state.clocks[n]);
                state.issue(value);
            }
            Action::Skip(n, other) => {
                state.budget.skips -= 1;
                // The request may still arrive.
                let node = &mut state.nodes[n];
                node.others.retain(|asked| *asked != other);
                if let Opener::Closing { asked, .. } = &mut node.opener {
                    asked.retain(|asked| *asked != other);
                }
                state.after_answer(n, fault);
            }
            Action::Begin(n) | Action::Advance(n) => {
                state.budget.attempts -= 1;
                let is_told = matches!(action, Action::Advance(_));
                state.nodes[n].given_floor = is_told.then_some(state.acknowledged);
                state.begin(n, fault);
            }
            Action::Deliver(i, message) => {
                state.messages.remove(i);
                state.deliver(&message, fault);
            }
            Action::Raise(n) => state.raise(n, fault),
            Action::Open(n) => state.open(n, fault),
            Action::GiveUp(n) => {
                state.budget.failures -= 1;
                if fault == Some(Fault::SilentNodeIgnored) {
                    if let Opener::Closing { asked, .. } | Opener::Recording { asked, .. } =
                        &mut state.nodes[n].opener
                    {
                        asked.clear();
                    }
                    state.after_answer(n, fault);
                    return Some(state);
                }
                let node = &mut state.nodes[n];
                (node.opener, node.given_floor) = (Opener::Idle, None);
                if let Some(failed) = node.page.give_up(0) {
                    node.write(failed, false);
                }
            }
            Action::Crash { node: n, is_all_wal_on_disk } => {
                state.budget.crashes -= 1;
                state.lose_sessions(n);
                let node = &mut state.nodes[n];
                let recovered = if is_all_wal_on_disk { node.logged } else { node.flushed };
                node.write(recovered, true);
            }
            Action::Remove(n) => {
                state.budget.removals -= 1;
                state.lose_sessions(n);
                state.nodes[n].group = None;
                // The nodes that wait for its answer get an error.
                for opener in state.nodes.iter_mut().map(|node| &mut node.opener) {
                    if let Opener::Closing { asked, .. } | Opener::Recording { asked, .. } = opener
                        && asked.contains(&n)
                    {
                        *opener = Opener::Idle;
                    }
                }
            }
            Action::Return { node: n, has_new_copy } => {
                state.budget.returns -= 1;
                let group = n as i32 + NEW_GROUP;
                let node = &mut state.nodes[n];
                (node.group, node.placed_on) = (Some(group), state.placed_on);
                if has_new_copy {
                    *node = Node { placed_on: state.placed_on, ..Node::new(group) };
                }
            }
            Action::LoseDisk(n) => {
                state.budget.losses -= 1;
                state.has_lost_disk = true;
                state.lose_sessions(n);
                let group = state.group(n);
                state.nodes[n] = Node { placed_on: state.placed_on, ..Node::new(group) };
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(INCREASING, |_, state: &State| !state.has_repeated),
            Property::always(UNIQUE, |_, state: &State| !state.is_issued_twice),
            Property::always(EXCLUSIVE, |_, state: &State| {
                state.members().filter(|n| state.is_open(*n, None)).count() <= 1
            }),
            Property::always(BOUNDED, |model: &Takeover, state: &State| {
                let clock = state.clocks.map(hlc::first_of).into_iter().fold(0, i64::max);
                // Each node that is lost adds the margin, each crash what was logged ahead of the
                // page, and each node that opens its copy 1.
                let budget = &model.start.budget;
                let removed = i64::from(budget.removals - state.budget.removals);
                let crashed = i64::from(budget.crashes - state.budget.crashes);
                let ahead_ms = removed * WARN_AHEAD_MS + crashed * 2000;
                let highest = clock.max(state.acknowledged) + hlc::first_of(ahead_ms) + 100;
                state.nodes.iter().all(|node| node.page.copy_state().next_value <= highest)
            }),
            Property::always(AVAILABLE, |model: &Takeover, state: &State| {
                state.can_continue(model.fault)
            }),
        ]
    }
}

impl Protocol for Takeover {
    type Fault = Fault;

    fn scenarios(size: Size, fault: Option<Fault>) -> Vec<Takeover> {
        let more = u8::from(size == Size::Large);
        let base = Budget { moves: 2, ids: 2, attempts: 3 + more, ..Budget::default() };
        let starts = |clocks: [i64; 3]| {
            vec![
                // Two nodes open their copies at once. Messages arrive late, and a node crashes.
                Takeover::start(
                    clocks,
                    2,
                    Budget { failures: 1 + more, crashes: 1, ..base.clone() },
                ),
                // A node is lost, and may be added again.
                Takeover::start(
                    clocks,
                    2,
                    Budget { crashes: 1, removals: 1, failures: more, ..base.clone() },
                ),
                Takeover::start(
                    clocks,
                    2,
                    Budget { returns: 1, removals: 1, failures: 1, ..base.clone() },
                ),
                Takeover::start(
                    clocks,
                    3,
                    Budget {
                        ids: 1,
                        attempts: 2 + more,
                        removals: 1,
                        failures: more,
                        ..base.clone()
                    },
                ),
                // A node loses its disk.
                Takeover::start(
                    clocks,
                    2,
                    Budget { losses: 1, failures: 1, crashes: more, ..base.clone() },
                ),
                // Two moves have not reached all catalogs, so by its catalogs each node owns the
                // schema.
                Takeover::start_in_disagreement(
                    clocks,
                    Budget {
                        moves: 0,
                        ids: 1,
                        attempts: 3,
                        removals: 1,
                        failures: more,
                        ..base.clone()
                    },
                ),
            ]
        };
        let clocks = if size == Size::Large { &CLOCKS[..] } else { &CLOCKS[..1] };
        let all_starts = |clocks: &[i64; 3]| {
            let with_setting = || Takeover::starts_with_setting(*clocks, more);
            // A fault is looked for where it can occur.
            match fault.map(Fault::is_of_the_setting) {
                Some(true) => with_setting(),
                Some(false) => starts(*clocks),
                None => [with_setting(), starts(*clocks)].concat(),
            }
        };
        let all = clocks.iter().flat_map(all_starts);
        all.map(|start| Takeover { start, fault }).collect()
    }

    fn faults() -> &'static [(&'static str, &'static [Fault])] {
        &[
            (
                AVAILABLE,
                &[
                    Fault::HolderRecordedAtOnce,
                    Fault::MarkNotChecked,
                    Fault::HolderNotFlushed,
                    Fault::FloorNotRaised,
                    Fault::HoldersNotChecked,
                    Fault::RecordedForAnyAttempt,
                    Fault::HolderNotRecorded,
                    Fault::NewCopyTrusted,
                    Fault::SilentNodeIgnored,
                    Fault::NumberIgnored,
                    Fault::OldCopyRefusesToClose,
                ],
            ),
            (
                EXCLUSIVE,
                &[
                    Fault::CloseNotFlushed,
                    Fault::BeliefTrusted,
                    Fault::UnreachableHolderSkipped,
                    Fault::CoordinatorSkipped,
                ],
            ),
            (
                INCREASING,
                &[
                    Fault::NoMargin,
                    Fault::TablesNotRead,
                    Fault::PlacementNotChecked,
                    Fault::FloorNotRecorded,
                ],
            ),
            (UNIQUE, &[Fault::NoMargin]),
            (BOUNDED, &[Fault::MarginRepeated]),
        ]
    }
}

//! A model of a protocol that was not built: to open a copy of a sequence, only the node that holds
//! the sequence has to answer. See docs/inside/citus_protocol.md for why it was not built.
//!
//! The page of each copy has a *term*, and is *held*, with the next value, or *released* to a node.
//! A node that wants the sequence looks at the page of another node:
//!
//! - held in term T: it asks that node to release the sequence to it. The page becomes "term T,
//!   released to that node"
//! - released to another node, which has not opened its copy: it asks *that* node to skip its turn.
//!   The page there becomes "term T + 1, released to this node"
//! - released to it: it opens its copy in the next term, above the value of the release
//!
//! Each request has a number. A node stores the number in its own page before it sends the request,
//! and a release counts only if that number is there. So a copy that was dropped and created anew
//! does not open for a release that the old copy has used. The page also names the group that it
//! was written for, so that a clone is not open.
//!
//! In this model each node always believes that it owns the schema, as some do until a move has
//! reached all nodes. A message is never removed: it can be lost, arrive late, and arrive again.
//! All changes of a page are flushed, so a crash loses only the state of a session, which is that
//! of a message that is never answered. All clocks stand still.
//!
//! The finding: this survives lost, late and repeated messages, crashes, copies that are created
//! anew, clones, and nodes that disagree about the placement. It does not survive
//! [`Event::Promote`] if the standby lacks the last release, as an asynchronous one may, nor
//! [`Event::Recreate`] of the copy that is the first holder. The built protocol survives the first
//! as long as the present owner is recorded on a node that answers, because it asks all of them.

use crate::checker::{Protocol, Size};
use stateright::{Model, Property};
use std::fmt;

const INCREASING: &str = "each id is greater than every id before";
const EXCLUSIVE: &str = "at most one copy is open";
const AVAILABLE: &str = "each node can open its copy, if the holder answers";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A release counts without the number in the page.
    NumberNotChecked,
    /// A node skips its turn without the number in its page.
    SkipWithoutNumber,
    /// A page counts, although it was written for another group.
    GroupNotChecked,
    /// A node opens its copy a second time for the same release.
    TermNotChecked,
    /// A node releases the sequence in whichever term the request names.
    AnyTermReleased,
    /// A node skips its turn after it has had it.
    SkipAfterOpening,
    /// A node opens its copy above its own value only.
    ValueIgnored,
    /// A new attempt for the same term has another number.
    NumberReplaced,
    /// A request in an earlier term replaces one in a later term.
    LaterRequestReplaced,
    /// A standby without the last release is promoted.
    PromoteStandby,
    /// The copy of the coordinator, which is the first holder, is dropped and created anew.
    RecreateFirstHolder,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
enum Kind {
    /// As Citus has created it.
    New,
    Held,
    /// To this node, for the request with this number.
    Released {
        to: usize,
        number: u8,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Page {
    /// The node that it was written for.
    written_for: usize,
    term: u8,
    kind: Kind,
    next_value: u8,
    /// The last request of this node: the term after which it is to open its copy, and the number.
    request: Option<(u8, u8)>,
}

impl Page {
    fn new(node: usize) -> Page {
        // The sequence is created on the coordinator, so its copy is the first holder.
        let kind = if node == 0 { Kind::Held } else { Kind::New };
        Page { written_for: node, term: 0, kind, next_value: 0, request: None }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Node {
    page: Page,
    /// The page without the last release, as on a standby.
    standby: Page,
    is_member: bool,
}

/// A request to release the sequence in a term to a node, or to skip a turn; with the number of the
/// request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Message {
    from: usize,
    to: usize,
    term: u8,
    number: u8,
    /// The number that the receiver's turn has, and the value, if it is to skip that.
    skip: Option<(u8, u8)>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    nodes: Vec<Node>,
    messages: Vec<Message>,
    last_number: u8,
    ids: u8,
    attempts: u8,
    events: u8,
    /// Whether nothing has happened but requests, ids, crashes, and lost, late and repeated
    /// messages.
    is_undisturbed: bool,
    last_id: Option<u8>,
    has_repeated: bool,
}

/// Events of a node, apart from the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// Its copy is dropped and created anew.
    Recreate(usize),
    /// It is cloned, and the clone joins as another node.
    Clone(usize),
    /// A standby takes its place, which lacks the last release.
    Promote(usize),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    Generate(usize),
    /// A node looks at the page of a node, its own included, and acts on it.
    Look {
        node: usize,
        at: usize,
    },
    Deliver(Message),
    Happen(Event),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Generate(n) => write!(f, "node {n} generates an id"),
            Action::Look { node, at } => write!(f, "node {node} looks at the page of node {at}"),
            Action::Deliver(Message { from, to, term, skip: None, .. }) => {
                write!(f, "node {to} is asked to release term {term} to node {from}")
            }
            Action::Deliver(Message { from, to, term, .. }) => {
                write!(f, "node {to} is asked to skip term {term} for node {from}")
            }
            Action::Happen(Event::Recreate(n)) => write!(f, "the copy of node {n} is created anew"),
            Action::Happen(Event::Clone(n)) => write!(f, "a clone of node {n} joins"),
            Action::Happen(Event::Promote(n)) => {
                write!(f, "a standby of node {n} without the last release is promoted")
            }
        }
    }
}

impl State {
    fn is_usable(&self, n: usize, fault: Option<Fault>) -> bool {
        self.nodes[n].page.written_for == n || fault == Some(Fault::GroupNotChecked)
    }

    fn is_open(&self, n: usize, fault: Option<Fault>) -> bool {
        self.nodes[n].is_member && self.is_usable(n, fault) && self.nodes[n].page.kind == Kind::Held
    }

    fn generate(&mut self, n: usize) {
        let page = &mut self.nodes[n].page;
        let id = page.next_value;
        page.next_value += 1;
        self.has_repeated |= self.last_id.is_some_and(|last| id <= last);
        self.last_id = self.last_id.max(Some(id));
    }

    /// Stores a request to open after this term in the page of a node, and returns its number.
    /// `None` if the node has already asked in a later term: the page that it has looked at is of
    /// the past.
    fn request(&mut self, n: usize, term: u8, fault: Option<Fault>) -> Option<u8> {
        if !self.is_usable(n, fault) {
            // The page that a clone has copied is not its own.
            self.nodes[n].page = Page { kind: Kind::New, ..Page::new(n) };
        }
        let page = &mut self.nodes[n].page;
        match page.request {
            Some((of, number)) if of == term && fault != Some(Fault::NumberReplaced) => {
                return Some(number);
            }
            Some((of, _)) if of > term && fault != Some(Fault::LaterRequestReplaced) => {
                return None;
            }
            _ => {}
        }
        self.last_number += 1;
        page.request = Some((term, self.last_number));
        Some(self.last_number)
    }

    fn send(&mut self, message: Message) {
        if let Err(place) = self.messages.binary_search(&message) {
            self.messages.insert(place, message);
        }
    }

    /// A node that wants the sequence acts on the page of another node, or on its own.
    fn look(&mut self, n: usize, at: usize, fault: Option<Fault>) {
        if !self.is_usable(at, fault) {
            return;
        }
        let Page { term, kind, next_value, .. } = self.nodes[at].page;
        match kind {
            Kind::New => {}
            Kind::Held if at == n => {}
            Kind::Held => {
                if let Some(number) = self.request(n, term, fault) {
                    self.send(Message { from: n, to: at, term, number, skip: None });
                }
            }
            Kind::Released { to, number } if to == n => {
                self.open(n, term, number, next_value, fault)
            }
            Kind::Released { to, number: of_turn } => {
                if let Some(number) = self.request(n, term + 1, fault) {
                    self.send(Message {
                        from: n,
                        to,
                        term,
                        number,
                        skip: Some((of_turn, next_value)),
                    });
                }
            }
        }
    }

    /// Opens the copy of a node, to which the sequence was released in this term.
    fn open(&mut self, n: usize, term: u8, number: u8, value: u8, fault: Option<Fault>) {
        let page = &mut self.nodes[n].page;
        let is_own = page.request == Some((term, number)) || fault == Some(Fault::NumberNotChecked);
        let is_first =
            page.term <= term && page.kind != Kind::Held || fault == Some(Fault::TermNotChecked);
        if is_own && is_first {
            let value = if fault == Some(Fault::ValueIgnored) { 0 } else { value };
            (page.term, page.kind) = (term + 1, Kind::Held);
            page.next_value = page.next_value.max(value);
        }
    }

    fn deliver(&mut self, message: Message, fault: Option<Fault>) {
        let Message { from, to, term, number, skip } = message;
        if !self.is_usable(to, fault) || !self.nodes[to].is_member {
            return;
        }
        let before = self.nodes[to].page;
        let page = &mut self.nodes[to].page;
        let released = Kind::Released { to: from, number };
        match skip {
            None if page.kind == Kind::Held
                && (page.term == term || fault == Some(Fault::AnyTermReleased)) =>
            {
                page.kind = released;
            }
            None => {}
            Some((of_turn, value)) => {
                let is_its_turn = page.request == Some((term, of_turn))
                    || fault == Some(Fault::SkipWithoutNumber);
                let is_ahead = page.term <= term || fault == Some(Fault::SkipAfterOpening);
                if is_its_turn && is_ahead {
                    (page.term, page.kind) = (term + 1, released);
                    page.next_value = page.next_value.max(value);
                }
            }
        }
        let page = *page;
        if page != before {
            self.nodes[to].standby = before;
        }
        // The answer. If it is lost, the node that has asked looks at the page again.
        if page.kind == released && self.nodes[from].is_member {
            self.open(from, page.term, number, page.next_value, fault);
        }
    }

    fn happen(&mut self, event: Event) {
        self.is_undisturbed = false;
        match event {
            Event::Recreate(n) => {
                let page = Page::new(n);
                (self.nodes[n].page, self.nodes[n].standby) = (page, page);
            }
            Event::Clone(n) => {
                let clone = Node { is_member: true, ..self.nodes[n].clone() };
                let place =
                    self.nodes.iter().position(|node| !node.is_member).expect("room for a clone");
                self.nodes[place] = clone;
            }
            Event::Promote(n) => self.nodes[n].page = self.nodes[n].standby,
        }
    }

    /// Whether a node can open its copy and generate an id, if only the holder answers, or the node
    /// that the sequence was released to.
    fn can_take_over(&self, n: usize) -> bool {
        let mut state = self.clone();
        state.messages.clear();
        // Each step makes the sequence's term greater, or the copy opens. The first look may be at
        // a page of the past.
        for _ in 0..3 {
            let known =
                |m: &usize| (state.nodes[*m].page.term, state.nodes[*m].page.kind != Kind::New);
            let latest = (0..state.nodes.len()).max_by_key(known).expect("a node");
            state.look(n, latest, None);
            while let Some(message) = state.messages.pop() {
                state.deliver(message, None);
            }
        }
        if !state.is_open(n, None) {
            return false;
        }
        state.generate(n);
        !state.has_repeated
    }
}

/// The model: the first state, and the fault that is built in.
pub struct Token {
    start: State,
    has_recreation: bool,
    fault: Option<Fault>,
}

impl Model for Token {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.start.clone()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let members = || (0..state.nodes.len()).filter(|n| state.nodes[*n].is_member);
        for n in members() {
            if state.is_open(n, self.fault) {
                if state.ids > 0 {
                    actions.push(Action::Generate(n));
                }
            } else if state.attempts > 0 {
                actions.extend(members().map(|at| Action::Look { node: n, at }));
            }
            if state.events == 0 {
                continue;
            }
            let is_promoted = self.fault == Some(Fault::PromoteStandby);
            if is_promoted {
                actions.push(Action::Happen(Event::Promote(n)));
            } else if self.has_recreation
                && (n > 0 || self.fault == Some(Fault::RecreateFirstHolder))
            {
                actions.push(Action::Happen(Event::Recreate(n)));
            } else if !self.has_recreation && members().count() < state.nodes.len() {
                actions.push(Action::Happen(Event::Clone(n)));
            }
        }
        actions.extend(state.messages.iter().map(|message| Action::Deliver(*message)));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Generate(n) => {
                state.ids -= 1;
                state.generate(n);
            }
            Action::Look { node, at } => {
                state.attempts -= 1;
                state.look(node, at, self.fault);
            }
            Action::Deliver(message) => state.deliver(message, self.fault),
            Action::Happen(event) => {
                state.events -= 1;
                state.happen(event);
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(INCREASING, |_, state: &State| !state.has_repeated),
            Property::always(EXCLUSIVE, |model: &Token, state: &State| {
                (0..state.nodes.len()).filter(|n| state.is_open(*n, model.fault)).count() <= 1
            }),
            Property::always(AVAILABLE, |_, state: &State| {
                !state.is_undisturbed
                    || (0..state.nodes.len())
                        .all(|n| !state.nodes[n].is_member || state.can_take_over(n))
            }),
        ]
    }
}

impl Protocol for Token {
    type Fault = Fault;

    fn scenarios(size: Size, fault: Option<Fault>) -> Vec<Token> {
        let more = u8::from(size == Size::Large);
        let scenario =
            |members: usize, room: usize, attempts: u8, events: u8, has_recreation: bool| {
                let node =
                    |n| Node { page: Page::new(n), standby: Page::new(n), is_member: n < members };
                let nodes = (0..members + room).map(node).collect();
                let (messages, last_number, last_id) = (vec![], 0, None);
                let start = State {
                    nodes,
                    messages,
                    last_number,
                    ids: 3,
                    attempts,
                    events,
                    is_undisturbed: true,
                    last_id,
                    has_repeated: false,
                };
                Token { start, has_recreation, fault }
            };
        vec![
            scenario(3, 0, 5 + more, 0, false),
            scenario(2, 0, 6 + more, 2, true),
            scenario(3, 0, 5 + more, 1, true),
            scenario(2, 1, 5 + more, 1, false),
        ]
    }

    fn faults() -> &'static [(&'static str, &'static [Fault])] {
        &[
            (
                INCREASING,
                &[
                    Fault::NumberNotChecked,
                    Fault::SkipWithoutNumber,
                    Fault::GroupNotChecked,
                    Fault::TermNotChecked,
                    Fault::SkipAfterOpening,
                    Fault::ValueIgnored,
                    Fault::PromoteStandby,
                    Fault::RecreateFirstHolder,
                ],
            ),
            (
                AVAILABLE,
                &[Fault::NumberReplaced, Fault::LaterRequestReplaced, Fault::AnyTermReleased],
            ),
        ]
    }
}

//! A model of the command `instagram_id_shards`, which moves a shard from one server to another.
//!
//! Two commands run at once, each `move` or `cancel`. They decide by the functions of
//! [`instagram_id_core::moving`]. The scripts below follow the order of the statements in
//! `cli/src`: `moving.rs`, `cutover.rs` (`Script::Resume` is its `resume_writes`) and
//! `replication.rs`. The model adds:
//!
//! - the lock in the map, which a session of the command holds, and the wait until no other command
//!   has a session
//! - the transactions, which fail if the schema is not in the expected state
//! - logical replication
//! - clients with a stale map, which write to any server that accepts writes
//!
//! Between any two steps, a command can be killed or lose sessions, and a server can crash. A
//! statement that a server is executing at that time takes effect later or never.
//!
//! The model does not contain: `clean` and later steps, the checks before a move, the replication
//! slot, changes to the definitions of tables, updates and deletes of rows, other roles, and
//! asynchronous commits.

use crate::checker::{Protocol, Size};
use instagram_id_core::moving::{
    MoveStage, MoveState, NoStep, Resume, SchemaMark, Step, must_read_mark, next_step,
    next_step_back, resume,
};
use stateright::{Model, Property};
use std::fmt::{self, Display};

/// A server to which a command connects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Server {
    Map,
    Source,
    Target,
}
use Server::{Map, Source, Target};

static SERVERS: [Server; 3] = [Map, Source, Target];

/// The schema of the shard on one server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Schema {
    exists: bool,
    mark: SchemaMark,
    /// Whether MAXVALUE of the sequence is its last value, so that it generates no ids.
    is_bounded: bool,
    last_id: u8,
    /// The ids of the rows, one bit each.
    rows: u8,
}

const NO_SCHEMA: Schema =
    Schema { exists: false, mark: SchemaMark::Unmarked, is_bounded: false, last_id: 0, rows: 0 };

impl Schema {
    fn accepts_rows(&self) -> bool {
        self.exists && self.mark != SchemaMark::Closed
    }

    fn is_open(&self) -> bool {
        self.accepts_rows() && !self.is_bounded
    }
}

/// The subscription, which delivers the rows of the source to the target.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Subscription {
    None,
    /// The initial copy is not complete. It fails if the target already has one of the rows.
    Copying,
    /// The initial copy is complete. Later changes are applied.
    Following,
    /// The publication was dropped, so later changes are not applied.
    Broken,
}

/// The session that holds the lock of the shard.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Holder {
    Free,
    Command(u8),
    /// A session that the command has lost, and that still executes a statement.
    Leftover,
}

/// A transaction that changes a server or the map.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Act {
    BeginMove,
    RecordDefinitions,
    Switch,
    Finish,
    Forget,
    Publish,
    Close,
    Open,
    DropPublication,
    DropTriggers(Server),
    CreateCopy,
    Subscribe,
    OpenCopy,
    DropSubscription,
    DropCopy,
}

impl Act {
    fn server(self) -> Server {
        self.describe().0
    }

    /// The server that executes the act, and what the command does.
    fn describe(self) -> (Server, &'static str) {
        match self {
            Act::BeginMove => (Map, "records the move in the map"),
            Act::RecordDefinitions => (Map, "records the definitions of the sequences in the map"),
            Act::Switch => (Map, "changes the map"),
            Act::Finish => (Map, "records in the map that the move is finished"),
            Act::Forget => (Map, "deletes the move from the map"),
            Act::Publish => (Source, "creates the publication on the source"),
            Act::Close => (Source, "closes the shard on the source"),
            Act::Open => (Source, "opens the shard on the source"),
            Act::DropPublication => (Source, "drops the publication"),
            Act::DropTriggers(Source) => (Source, "drops the triggers on the source"),
            Act::DropTriggers(server) => (server, "drops the triggers on the target"),
            Act::CreateCopy => (Target, "creates the copy on the target"),
            Act::Subscribe => (Target, "creates the subscription on the target"),
            Act::OpenCopy => (Target, "opens the copy on the target"),
            Act::DropSubscription => (Target, "drops the subscription"),
            Act::DropCopy => (Target, "drops the copy"),
        }
    }
}

/// An act with the values that the command passes to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Statement {
    act: Act,
    last_id: u8,
    has_definitions: bool,
}

/// One operation of a command: an act, a query, a connection or a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Acquire the lock of the shard, and read the map.
    Lock,
    Connect(Server),
    /// Connect again if the session is lost. For the map, this also acquires the lock again.
    Reconnect(Server),
    /// Wait until no other command has a session on the server.
    WaitForLeftovers(Server),
    LookAtTarget,
    LookAtSource,
    CheckNewMove,
    CheckLock,
    ReadRecordedDefinitions,
    CreateSlot,
    WaitForCopy,
    ReadDefinitions,
    ReadSequence,
    WaitForLastRows,
    /// After a failure: determine whether the mark of the copy must be read.
    ConsiderTarget,
    /// After a failure: read the mark of the copy.
    ReadMark,
    /// After a failure: determine where writes continue.
    Resume,
    /// After a failure: check that no other command holds the lock. Otherwise the command ends.
    MayUndo,
    Send(Act),
}
use Op::*;

/// A sequence of operations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Script {
    Start,
    Look,
    Step(Step),
    /// The cutover has failed.
    Resume,
}

/// The session of a command on one server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Session {
    None,
    Alive,
    /// The session has ended. The command notices this when it uses the session next.
    Lost,
}

/// The subcommand of `instagram_id_shards`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    Move,
    Cancel,
}

/// A command that is running.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Command {
    kind: Kind,
    script: Script,
    /// The position of the next operation in the script.
    at: u8,
    sessions: [Session; 3],
    /// Whether the session on the source is the first one. Other commands wait for it before they
    /// change anything.
    keeps_others_away: bool,
    /// The stage in the map, as the command last read or wrote it.
    stage: MoveStage,
    /// The mark of the copy, if there is one, and whether the subscription exists, as seen on the
    /// target.
    seen: Option<(Option<SchemaMark>, bool)>,
    /// The last value of the sequence that a cutover has read on the source, and whether it has
    /// read the definitions.
    last_id: u8,
    has_definitions: bool,
    /// After a failure: whether the command may have opened the copy, and the mark that it has
    /// read.
    may_be_open: bool,
    mark: Option<SchemaMark>,
}

impl Command {
    fn is_connected(&self, server: Server) -> bool {
        self.sessions[server as usize] == Session::Alive
    }

    fn connect(&mut self, server: Server) {
        self.sessions[server as usize] = Session::Alive;
    }

    fn disconnect(&mut self, server: Server) {
        if self.is_connected(server) {
            self.sessions[server as usize] = Session::Lost;
        }
    }
}

/// The state of the map, both servers and both commands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    stage: MoveStage,
    /// Whether the map names the target as the server of the shard.
    names_target: bool,
    /// Whether the map has the definitions of the sequences.
    has_recorded: bool,
    lock: Holder,
    source: Schema,
    target: Schema,
    has_publication: bool,
    subscription: Subscription,
    commands: [Option<Command>; 2],
    /// Statements that a server still executes after the command has lost the session.
    late: Vec<Statement>,
    /// The ids of the acknowledged rows, one bit each, and the greatest generated id.
    acknowledged: u8,
    greatest_id: u8,
    is_id_repeated: bool,
    /// The numbers of commands that can still start, faults that can still happen, and rows that
    /// can still be written.
    starts: u8,
    faults: u8,
    writes: u8,
}

/// An event of the model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Action {
    /// A move copies the rows, and is then interrupted. This replaces the first steps of a history.
    EarlierMove,
    Start(usize, Kind),
    Run(usize, Op),
    /// A command notices that it has lost a session.
    Notice(usize, Op),
    /// A command stops waiting, and reports an error.
    GiveUp(usize, Op),
    /// A command is killed, or loses sessions. A server may be executing this act.
    Kill(usize, Option<Act>),
    Lose(usize, &'static [Server], Option<Act>),
    /// The map does not respond to a command that checks whether another command holds the lock.
    MapUnreachable(usize),
    /// A server crashes and restarts. Its sessions end, and statements under way have no effect.
    Crash(Server),
    /// A statement of a lost session takes effect, or ends without effect.
    Late(Statement, bool),
    /// The target applies all changes that the source has committed.
    Replicate,
    /// A client generates an id, and writes a row with it. A closed shard rejects the row.
    Write(Server),
}

// The properties.
const EXCLUSIVE: &str = "at most one server accepts writes";
const COMPLETE: &str = "a server that accepts writes has every acknowledged row";
const INCREASING: &str = "every id is greater than all ids before it";
const MAPPED: &str = "the map names the target only while the target alone is open";
const MOVE_FINISHES: &str = "after all faults, move finishes the move";
const CANCEL_UNDOES: &str = "after all faults, cancel undoes the move unless the copy was opened";

/// A fault that can be built into the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The sequence of the copy does not get the last value of the source.
    SequenceNotCarried,
    /// The sequence is read before the source is closed.
    SequenceReadBeforeClose,
    /// The source rejects writes, but its sequence still generates ids.
    SequenceNotClosed,
    /// The copy is opened before the source is closed.
    CopyOpenedBeforeClose,
    /// The copy is opened before the last rows have arrived.
    LastRowsNotAwaited,
    /// A command does not wait until no other command has a session.
    LeftoversNotAwaited,
    /// A command does not acquire the lock.
    LockNotTaken,
    /// A command does not check that it still holds the lock.
    LockNotChecked,
    /// The source is opened, although the copy may be open.
    MarkNotRead,
    /// The map is changed before the copy is opened.
    MapChangedFirst,
    /// The map is changed, although an error occurred when the copy was opened.
    MapChangedAfterFailure,
    /// `cancel` drops a copy that is open.
    OpenCopyCancelled,
    /// The source is closed before the definitions of its sequences are recorded.
    DefinitionsNotRecorded,
    /// `cancel` drops the subscription before the publication.
    SubscriptionDroppedFirst,
    /// A command that has lost its sessions opens new ones to create the copy.
    SessionNotNeeded,
    /// A new session on the source is taken for one that has kept other commands away.
    NewSessionTrusted,
}

const NOTHING_SEEN: MoveState = MoveState {
    stage: MoveStage::None,
    is_source_closed: false,
    has_publication: false,
    copy: None,
    has_subscription: false,
};

const START: [Op; 5] =
    [Lock, Connect(Source), WaitForLeftovers(Source), Connect(Target), WaitForLeftovers(Target)];

const CLEAN_UP: [Op; 5] = [
    CheckLock,
    Send(Act::DropSubscription),
    Send(Act::DropPublication),
    Send(Act::DropTriggers(Target)),
    Send(Act::Finish),
];

const RESUME: [Op; 9] = [
    Reconnect(Source),
    WaitForLeftovers(Source),
    ConsiderTarget,
    Reconnect(Target),
    WaitForLeftovers(Target),
    ReadMark,
    Op::Resume,
    MayUndo,
    Send(Act::Open),
];

/// The model: the scripts, the fault that is built in, and budgets that limit the number of states.
pub struct Moving {
    fault: Option<Fault>,
    create_copy: Vec<Op>,
    cut_over: Vec<Op>,
    undo: Vec<Op>,
    starts: u8,
    faults: u8,
    writes: u8,
}

impl Moving {
    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// The operations of a script, in the order in which the command performs them.
    fn ops(&self, script: Script) -> &[Op] {
        match script {
            Script::Start => &START,
            Script::Look => &[LookAtTarget, LookAtSource],
            Script::Step(Step::Begin) => &[CheckNewMove, CheckLock, Send(Act::BeginMove)],
            Script::Step(Step::ResumeWrites) => {
                &[CheckLock, ReadRecordedDefinitions, Send(Act::Open)]
            }
            Script::Step(Step::Publish) => &[CheckLock, Send(Act::Publish)],
            Script::Step(Step::CreateCopy) => &self.create_copy,
            Script::Step(Step::Subscribe) => &[CheckLock, CreateSlot, Send(Act::Subscribe)],
            Script::Step(Step::CutOver) => &self.cut_over,
            Script::Step(Step::ChangeMap) => &[CheckLock, Reconnect(Map), Send(Act::Switch)],
            Script::Step(Step::CleanUp) => &CLEAN_UP,
            Script::Step(Step::Undo) => &self.undo,
            Script::Resume => &RESUME,
        }
    }

    fn next_op(&self, command: &Command) -> Op {
        self.ops(command.script)[usize::from(command.at)]
    }

    /// Whether the command has the sessions that its next operation uses.
    fn has_sessions(&self, command: &Command) -> bool {
        let used: &[Server] = match self.next_op(command) {
            Lock | Connect(_) | Reconnect(_) | ConsiderTarget | MayUndo => &[],
            CheckLock if self.is(Fault::LockNotChecked) => &[],
            CheckLock | ReadRecordedDefinitions => &[Map],
            LookAtSource | CreateSlot | ReadDefinitions | ReadSequence | Op::Resume => &[Source],
            LookAtTarget | ReadMark => &[Target],
            CheckNewMove | WaitForCopy | WaitForLastRows => &[Source, Target],
            WaitForLeftovers(server) => return command.is_connected(server),
            Send(act) => return command.is_connected(act.server()),
        };
        used.iter().all(|server| command.is_connected(*server))
    }

    /// The act that a server is executing for this command, if it has a session there.
    fn act_of(&self, command: &Command) -> Option<Act> {
        match self.next_op(command) {
            Send(act) if command.is_connected(act.server()) => Some(act),
            _ => None,
        }
    }

    fn start(&self, state: &mut State, at: usize, kind: Kind) {
        state.commands[at] = Some(Command {
            kind,
            script: Script::Start,
            at: 0,
            sessions: [Session::None; 3],
            keeps_others_away: true,
            stage: MoveStage::None,
            seen: None,
            last_id: 0,
            has_definitions: false,
            may_be_open: false,
            mark: None,
        });
    }

    /// Performs the next operation of a command. Returns false if it must wait.
    #[expect(clippy::too_many_lines, reason = "the steps of each subcommand, in their order")]
    fn run(&self, state: &mut State, at: usize) -> bool {
        let mut command = state.commands[at].unwrap();
        let op = self.next_op(&command);
        if !self.has_sessions(&command) {
            self.fail(state, at);
            return true;
        }
        match op {
            Lock => {
                if !self.is(Fault::LockNotTaken) {
                    if state.lock != Holder::Free {
                        return false;
                    }
                    state.lock = Holder::Command(at as u8);
                }
                command.connect(Map);
                command.stage = state.stage;
                let is_done = match (command.kind, state.stage) {
                    (Kind::Move, stage) => {
                        stage == MoveStage::Finished
                            || stage == MoveStage::None && state.names_target
                    }
                    (Kind::Cancel, stage) => stage != MoveStage::Begun,
                };
                if is_done {
                    self.end(state, at);
                    return true;
                }
            }
            Connect(server) => command.connect(server),
            Reconnect(Map) if !command.is_connected(Map) => {
                if state.lock != Holder::Free && !self.is(Fault::LockNotTaken) {
                    return false;
                }
                command.connect(Map);
                state.lock = Holder::Command(at as u8);
            }
            Reconnect(server) => {
                if server == Source && !command.is_connected(Source) {
                    command.keeps_others_away = self.is(Fault::NewSessionTrusted);
                }
                command.connect(server);
            }
            WaitForLeftovers(server) => {
                let is_used = state.commands[1 - at]
                    .is_some_and(|other| other.is_connected(server))
                    || state.late.iter().any(|statement| statement.act.server() == server);
                if is_used && !self.is(Fault::LeftoversNotAwaited) {
                    return false;
                }
            }
            LookAtTarget => {
                let target = &state.target;
                let copy = target.exists.then_some(target.mark);
                command.seen = Some((copy, state.subscription != Subscription::None));
            }
            LookAtSource => {
                let (copy, has_subscription) = command.seen.take().unwrap();
                let seen = MoveState {
                    stage: command.stage,
                    is_source_closed: state.source.mark == SchemaMark::Closed,
                    has_publication: state.has_publication,
                    copy,
                    has_subscription,
                };
                state.commands[at] = Some(command);
                self.decide(state, at, seen);
                return true;
            }
            CheckNewMove => {
                if state.target.exists || state.source.mark == SchemaMark::Closed {
                    self.end(state, at);
                    return true;
                }
            }
            CheckLock | CreateSlot => {}
            ReadRecordedDefinitions => command.has_definitions = state.has_recorded,
            WaitForCopy => {
                if state.subscription != Subscription::Following {
                    return false;
                }
            }
            // The command reads the definitions only of sequences that are not bounded.
            ReadDefinitions => command.has_definitions = !state.source.is_bounded,
            ReadSequence => command.last_id = state.source.last_id,
            WaitForLastRows => {
                if state.subscription != Subscription::Following
                    || state.source.rows & !state.target.rows != 0
                {
                    return false;
                }
            }
            ConsiderTarget => {
                let is_alone = command.keeps_others_away || command.is_connected(Map);
                let must = must_read_mark(command.may_be_open, is_alone);
                if !must || self.is(Fault::MarkNotRead) {
                    command.at += 3;
                }
            }
            ReadMark => command.mark = Some(state.target.mark),
            Op::Resume => {
                match resume(command.mark.take(), state.source.mark == SchemaMark::Closed) {
                    Resume::OpenSource => {}
                    Resume::OnTarget => {
                        command.script = Script::Step(Step::ChangeMap);
                        command.at = 0;
                    }
                    Resume::OnSource | Resume::Nowhere => {
                        self.end(state, at);
                        return true;
                    }
                }
            }
            MayUndo => {
                if !command.keeps_others_away && !command.is_connected(Map) {
                    if state.lock != Holder::Free {
                        self.end(state, at);
                        return true;
                    }
                    command.connect(Map);
                    state.lock = Holder::Command(at as u8);
                }
            }
            Send(act) => {
                let is_done = self.apply(state, statement(act, &command));
                if !is_done {
                    self.fail(state, at);
                    return true;
                }
                match act {
                    Act::BeginMove => command.stage = MoveStage::Begun,
                    Act::Switch => command.stage = MoveStage::Switched,
                    Act::Finish => command.stage = MoveStage::Finished,
                    Act::Forget => command.stage = MoveStage::None,
                    _ => {}
                }
            }
        }
        command.at += 1;
        state.commands[at] = Some(command);
        if usize::from(command.at) == self.ops(command.script).len() {
            self.finish_script(state, at);
        }
        true
    }

    /// Determines the next step from what the command has seen.
    fn decide(&self, state: &mut State, at: usize, seen: MoveState) {
        let command = state.commands[at].as_mut().unwrap();
        let step = match command.kind {
            Kind::Move => next_step(seen),
            Kind::Cancel => match next_step_back(seen) {
                Err(NoStep::CopyIsOpen) if self.is(Fault::OpenCopyCancelled) => Ok(Step::Undo),
                step => step,
            },
        };
        match step {
            Ok(step) => {
                command.script = Script::Step(step);
                command.at = 0;
            }
            Err(_) => self.end(state, at),
        }
    }

    /// Continues after a command has performed all operations of a script.
    fn finish_script(&self, state: &mut State, at: usize) {
        let command = state.commands[at].as_mut().unwrap();
        let is_done = match command.script {
            Script::Resume => true,
            Script::Step(Step::Undo) => command.kind == Kind::Cancel,
            _ => false,
        };
        (command.last_id, command.has_definitions, command.may_be_open) = (0, false, false);
        if is_done {
            self.end(state, at);
        } else if command.stage == MoveStage::Begun {
            command.script = Script::Look;
            command.at = 0;
        } else {
            // The map alone determines the next step.
            let seen = MoveState { stage: command.stage, ..NOTHING_SEEN };
            self.decide(state, at, seen);
        }
    }

    /// Continues after a session or a statement of a command has failed.
    fn fail(&self, state: &mut State, at: usize) {
        let command = state.commands[at].as_mut().unwrap();
        let op = self.next_op(command);
        let ops = self.ops(command.script);
        let position = |op: Op| ops.iter().position(|other| *other == op).unwrap_or(0) as u8;
        match command.script {
            Script::Step(_) if op == Send(Act::Switch) && !command.is_connected(Map) => {
                command.at = position(Reconnect(Map));
            }
            // The command ends if it cannot record the definitions. After that it can restore them.
            Script::Step(Step::CutOver)
                if command.at > position(ReadDefinitions) + 1
                    && ![Reconnect(Map), Send(Act::Switch)].contains(&op) =>
            {
                command.may_be_open = op == Send(Act::OpenCopy);
                if command.may_be_open && self.is(Fault::MapChangedAfterFailure) {
                    command.at = position(Reconnect(Map));
                    return;
                }
                command.script = Script::Resume;
                command.at = 0;
                command.last_id = 0;
            }
            _ => self.end(state, at),
        }
    }

    /// Ends a command and its sessions.
    fn end(&self, state: &mut State, at: usize) {
        state.commands[at] = None;
        if state.lock == Holder::Command(at as u8) {
            state.lock = Holder::Free;
        }
    }

    /// Ends the sessions of a command with these servers. A statement that one of them is executing
    /// continues.
    fn lose(&self, state: &mut State, at: usize, servers: &[Server]) {
        let command = state.commands[at].as_mut().unwrap();
        let late = self.act_of(command).filter(|act| servers.contains(&act.server()));
        servers.iter().for_each(|server| command.disconnect(*server));
        if servers.contains(&Map) && state.lock == Holder::Command(at as u8) {
            let is_executing = late.is_some_and(|act| act.server() == Map);
            state.lock = if is_executing { Holder::Leftover } else { Holder::Free };
        }
        if let Some(act) = late {
            state.late.push(statement(act, command));
            state.late.sort();
        }
    }

    /// Commits a transaction. Returns false if it fails.
    fn apply(&self, state: &mut State, statement: Statement) -> bool {
        let State { source, target, .. } = state;
        match statement.act {
            Act::BeginMove if state.stage != MoveStage::None => return false,
            Act::BeginMove => state.stage = MoveStage::Begun,
            Act::RecordDefinitions => state.has_recorded = statement.has_definitions,
            Act::Switch if state.stage == MoveStage::Begun => {
                state.stage = MoveStage::Switched;
                state.names_target = true;
            }
            Act::Switch => return state.names_target,
            Act::Finish => state.stage = MoveStage::Finished,
            Act::Forget => (state.stage, state.has_recorded) = (MoveStage::None, false),
            Act::Publish if state.has_publication => return false,
            Act::Publish => state.has_publication = true,
            Act::DropPublication => {
                state.has_publication = false;
                if state.subscription != Subscription::None {
                    state.subscription = Subscription::Broken;
                }
            }
            Act::Close if source.mark == SchemaMark::Closed => return false,
            Act::Close => {
                source.mark = SchemaMark::Closed;
                source.is_bounded = !self.is(Fault::SequenceNotClosed);
            }
            Act::Open if source.mark != SchemaMark::Closed => return false,
            Act::Open => {
                source.mark = SchemaMark::Opened;
                source.is_bounded &= !statement.has_definitions;
            }
            Act::DropTriggers(Source) => source.mark = SchemaMark::Unmarked,
            Act::DropTriggers(_) => target.mark = SchemaMark::Unmarked,
            Act::CreateCopy if target.exists => return false,
            Act::CreateCopy => {
                *target = Schema {
                    exists: true,
                    mark: SchemaMark::Closed,
                    is_bounded: true,
                    ..NO_SCHEMA
                };
            }
            Act::Subscribe if state.subscription != Subscription::None => return false,
            Act::Subscribe => state.subscription = Subscription::Copying,
            Act::DropSubscription => state.subscription = Subscription::None,
            Act::OpenCopy if !target.exists || target.mark != SchemaMark::Closed => return false,
            Act::OpenCopy => {
                target.mark = SchemaMark::Opened;
                target.is_bounded &= !statement.has_definitions;
                if !self.is(Fault::SequenceNotCarried) {
                    target.last_id = statement.last_id;
                }
            }
            Act::DropCopy if target.accepts_rows() && !self.is(Fault::OpenCopyCancelled) => {
                return false;
            }
            Act::DropCopy => *target = NO_SCHEMA,
        }
        true
    }

    /// Applies the committed rows of the source to the target. Returns false if there is nothing to
    /// apply.
    fn replicate(&self, state: &mut State) -> bool {
        match state.subscription {
            Subscription::Copying
                if state.has_publication && state.target.rows & state.source.rows == 0 =>
            {
                state.subscription = Subscription::Following;
            }
            Subscription::Following if state.source.rows & !state.target.rows != 0 => {}
            _ => return false,
        }
        state.target.rows |= state.source.rows;
        true
    }

    /// Whether a condition holds after all commands were killed, and another one has run without
    /// faults. While a server still executes a statement of a lost session, this returns true: the
    /// later states are checked instead.
    fn leads_to(&self, state: &State, kind: Kind, holds: fn(&State, &State) -> bool) -> bool {
        if !state.late.is_empty() {
            return true;
        }
        let before = State { lock: Holder::Free, commands: [None; 2], ..state.clone() };
        let mut after = before.clone();
        self.complete(&mut after, kind) && holds(&before, &after)
    }

    fn move_finishes(&self, state: &State) -> bool {
        self.leads_to(state, Kind::Move, |_, after| {
            after.stage == MoveStage::Finished
                && after.target.is_open()
                && !after.source.accepts_rows()
        })
    }

    fn cancel_undoes_or_refuses(&self, state: &State) -> bool {
        self.leads_to(state, Kind::Cancel, |before, after| {
            let is_undone = after.source.is_open()
                && !after.target.exists
                && !after.has_publication
                && after.subscription == Subscription::None;
            let may_refuse = before.stage != MoveStage::Begun || before.target.accepts_rows();
            if after.stage == MoveStage::None { is_undone } else { may_refuse && before == after }
        })
    }

    /// Runs one command to its end. Returns false if it waits forever.
    fn complete(&self, state: &mut State, kind: Kind) -> bool {
        self.start(state, 0, kind);
        for _ in 0..100 {
            if state.commands[0].is_none() {
                return true;
            }
            if !self.run(state, 0) && !self.replicate(state) {
                return false;
            }
        }
        false
    }
}

fn statement(act: Act, command: &Command) -> Statement {
    let (last_id, has_definitions) = match act {
        Act::OpenCopy => (command.last_id, command.has_definitions),
        Act::Open | Act::RecordDefinitions => (0, command.has_definitions),
        _ => (0, false),
    };
    Statement { act, last_id, has_definitions }
}

impl Model for Moving {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            stage: MoveStage::None,
            names_target: false,
            has_recorded: false,
            lock: Holder::Free,
            source: Schema { exists: true, ..NO_SCHEMA },
            target: NO_SCHEMA,
            has_publication: false,
            subscription: Subscription::None,
            commands: [None; 2],
            late: Vec::new(),
            acknowledged: 0,
            greatest_id: 0,
            is_id_repeated: false,
            starts: self.starts,
            faults: self.faults,
            writes: self.writes,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.stage == MoveStage::None && state.starts == self.starts {
            actions.push(Action::EarlierMove);
        }
        if let Some(free) = state.commands.iter().position(Option::is_none)
            && state.starts > 0
        {
            actions.extend([Action::Start(free, Kind::Move), Action::Start(free, Kind::Cancel)]);
        }
        for (at, command) in state.commands.iter().enumerate() {
            let Some(command) = command else { continue };
            let op = self.next_op(command);
            if self.has_sessions(command) {
                actions.extend([Action::Run(at, op), Action::GiveUp(at, op)]);
            } else {
                actions.push(Action::Notice(at, op));
            }
            if state.faults > 0 {
                let act = self.act_of(command);
                actions.extend([Action::Kill(at, act), Action::Lose(at, &SERVERS, act)]);
                for server in SERVERS.chunks(1).filter(|server| command.is_connected(server[0])) {
                    actions.push(Action::Lose(
                        at,
                        server,
                        act.filter(|act| act.server() == server[0]),
                    ));
                }
                if op == MayUndo && !command.is_connected(Map) {
                    actions.push(Action::MapUnreachable(at));
                }
            }
        }
        if state.faults > 0 {
            actions.extend(SERVERS.map(Action::Crash));
        }
        for statement in &state.late {
            actions.extend([Action::Late(*statement, true), Action::Late(*statement, false)]);
        }
        actions.push(Action::Replicate);
        if state.writes > 0 {
            actions.extend([Action::Write(Source), Action::Write(Target)]);
        }
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each action")]
    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        if let Action::Kill(..) | Action::Lose(..) | Action::Crash(_) | Action::MapUnreachable(_) =
            action
        {
            state.faults -= 1;
        }
        match action {
            Action::EarlierMove => {
                self.start(&mut state, 0, Kind::Move);
                while state.subscription != Subscription::Following {
                    let _ = self.run(&mut state, 0) || self.replicate(&mut state);
                }
                self.end(&mut state, 0);
            }
            Action::Start(at, kind) => {
                if state.stage == MoveStage::Finished {
                    return None;
                }
                state.starts -= 1;
                self.start(&mut state, at, kind);
            }
            Action::Run(at, _) | Action::Notice(at, _) => {
                if !self.run(&mut state, at) {
                    return None;
                }
            }
            Action::GiveUp(at, _) => {
                if self.run(&mut state.clone(), at) {
                    return None;
                }
                self.fail(&mut state, at);
            }
            Action::Kill(at, _) => {
                self.lose(&mut state, at, &SERVERS);
                self.end(&mut state, at);
            }
            Action::Lose(at, servers, _) => self.lose(&mut state, at, servers),
            Action::MapUnreachable(at) => state.commands[at].as_mut()?.at += 1,
            Action::Crash(server) => {
                state.commands.iter_mut().flatten().for_each(|command| command.disconnect(server));
                state.late.retain(|statement| statement.act.server() != server);
                if server == Map {
                    state.lock = Holder::Free;
                }
            }
            Action::Late(statement, has_effect) => {
                let position = state.late.iter().position(|other| *other == statement)?;
                state.late.remove(position);
                if statement.act.server() == Map {
                    state.lock = Holder::Free;
                }
                if has_effect {
                    self.apply(&mut state, statement);
                }
            }
            Action::Replicate => {
                if !self.replicate(&mut state) {
                    return None;
                }
            }
            Action::Write(server) => {
                let schema = if server == Source { &mut state.source } else { &mut state.target };
                if !schema.exists || schema.is_bounded {
                    return None;
                }
                schema.last_id += 1;
                let id = schema.last_id;
                if schema.accepts_rows() {
                    schema.rows |= 1 << id;
                    state.acknowledged |= 1 << id;
                }
                state.is_id_repeated |= id <= state.greatest_id;
                state.greatest_id = state.greatest_id.max(id);
                state.writes -= 1;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSIVE, |_, state: &State| {
                !(state.source.accepts_rows() && state.target.accepts_rows())
            }),
            Property::always(COMPLETE, |_, state: &State| {
                [&state.source, &state.target]
                    .iter()
                    .all(|schema| !schema.accepts_rows() || state.acknowledged & !schema.rows == 0)
            }),
            Property::always(INCREASING, |_, state: &State| !state.is_id_repeated),
            Property::always(MAPPED, |_, state: &State| {
                !state.names_target || state.target.is_open() && !state.source.accepts_rows()
            }),
            Property::always(MOVE_FINISHES, Moving::move_finishes),
            Property::always(CANCEL_UNDOES, Moving::cancel_undoes_or_refuses),
        ]
    }
}

impl Protocol for Moving {
    type Fault = Fault;

    fn scenarios(size: Size, fault: Option<Fault>) -> Vec<Moving> {
        let (starts, faults, writes) = match size {
            Size::Small => (2, 2, 2),
            Size::Large => (3, 5, 3),
        };
        let (record, close, open) =
            (Send(Act::RecordDefinitions), Send(Act::Close), Send(Act::OpenCopy));
        let (unpublish, unsubscribe) = (Send(Act::DropPublication), Send(Act::DropSubscription));
        let mut create_copy = vec![CheckLock, Send(Act::CreateCopy)];
        let mut cut_over =
            vec![CheckLock, WaitForCopy, CheckLock, ReadDefinitions, record, close, ReadSequence];
        cut_over.extend([WaitForLastRows, CheckLock, open, Reconnect(Map), Send(Act::Switch)]);
        let mut undo = vec![CheckLock, unpublish, unsubscribe, Send(Act::DropTriggers(Source))];
        undo.extend([Send(Act::DropCopy), Send(Act::Forget)]);
        let swap = |ops: &mut [Op], one: Op, other: Op| {
            let position = |op: Op| ops.iter().position(|each| *each == op).unwrap();
            ops.swap(position(one), position(other));
        };
        match fault {
            Some(Fault::SequenceReadBeforeClose) => swap(&mut cut_over, close, ReadSequence),
            Some(Fault::CopyOpenedBeforeClose) => swap(&mut cut_over, close, open),
            Some(Fault::LastRowsNotAwaited) => cut_over.retain(|op| *op != WaitForLastRows),
            Some(Fault::MapChangedFirst) => swap(&mut cut_over, open, Send(Act::Switch)),
            Some(Fault::DefinitionsNotRecorded) => swap(&mut cut_over, record, close),
            Some(Fault::SubscriptionDroppedFirst) => swap(&mut undo, unpublish, unsubscribe),
            Some(Fault::SessionNotNeeded) => {
                create_copy.splice(1..1, [Reconnect(Source), Reconnect(Target)]);
            }
            _ => {}
        }
        vec![Moving { fault, create_copy, cut_over, undo, starts, faults, writes }]
    }

    fn faults() -> &'static [(&'static str, &'static [Fault])] {
        &[
            (COMPLETE, &[Fault::LastRowsNotAwaited]),
            (
                INCREASING,
                &[
                    Fault::SequenceNotCarried,
                    Fault::SequenceReadBeforeClose,
                    Fault::SequenceNotClosed,
                ],
            ),
            (
                MOVE_FINISHES,
                &[
                    Fault::CopyOpenedBeforeClose,
                    Fault::MarkNotRead,
                    Fault::NewSessionTrusted,
                    Fault::MapChangedFirst,
                    Fault::MapChangedAfterFailure,
                    Fault::SubscriptionDroppedFirst,
                ],
            ),
            (
                CANCEL_UNDOES,
                &[
                    Fault::LeftoversNotAwaited,
                    Fault::LockNotTaken,
                    Fault::LockNotChecked,
                    Fault::OpenCopyCancelled,
                    Fault::DefinitionsNotRecorded,
                    Fault::SessionNotNeeded,
                ],
            ),
        ]
    }
}

impl Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(["map", "source", "target"][*self as usize])
    }
}

impl Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lock => "acquires the lock, and reads the map",
            Connect(server) => return write!(f, "connects to the {server}"),
            Reconnect(server) => {
                return write!(f, "connects to the {server} again, if necessary");
            }
            WaitForLeftovers(server) => {
                return write!(f, "waits until no other command has a session on the {server}");
            }
            LookAtTarget => "reads the state of the target",
            LookAtSource => "reads the state of the source, and determines the next step",
            CheckNewMove => "checks that the shard can be moved",
            CheckLock => "checks that it holds the lock",
            ReadRecordedDefinitions => "reads the recorded definitions of the sequences",
            CreateSlot => "creates the replication slot on the source",
            WaitForCopy => "waits until the rows are copied",
            ReadDefinitions => "reads the definitions of the sequences",
            ReadSequence => "reads the last value of the sequence on the source",
            WaitForLastRows => "waits until the last rows have arrived",
            ConsiderTarget => "determines whether to read the mark of the copy",
            ReadMark => "reads the mark of the copy",
            Op::Resume => "reads the state of the source, and determines where writes continue",
            MayUndo => "checks whether another command holds the lock",
            Send(act) => act.describe().1,
        })
    }
}

impl Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |at: &usize| at + 1;
        let during = |act: &Option<Act>| {
            act.map_or(String::new(), |act| {
                format!(" while a server executes this statement: {}", act.describe().1)
            })
        };
        match self {
            Action::EarlierMove => {
                f.write_str("an earlier move copies the rows, and is then interrupted")
            }
            Action::Start(at, Kind::Move) => write!(f, "command {} (move) starts", number(at)),
            Action::Start(at, Kind::Cancel) => write!(f, "command {} (cancel) starts", number(at)),
            Action::Run(at, op) => write!(f, "command {} {op}", number(at)),
            Action::Notice(at, op) => {
                write!(f, "command {} has lost a session, and fails at this step: {op}", number(at))
            }
            Action::GiveUp(at, op) => {
                write!(f, "command {} stops waiting with an error at this step: {op}", number(at))
            }
            Action::Kill(at, act) => write!(f, "command {} is killed{}", number(at), during(act)),
            Action::Lose(at, [server], act) => {
                write!(f, "command {} loses its session on the {server}{}", number(at), during(act))
            }
            Action::Lose(at, _, act) => {
                write!(f, "command {} loses all sessions{}", number(at), during(act))
            }
            Action::MapUnreachable(at) => write!(f, "command {} cannot reach the map", number(at)),
            Action::Crash(server) => write!(f, "the {server} server crashes"),
            Action::Late(statement, true) => {
                write!(
                    f,
                    "a statement of a lost session takes effect: {}",
                    statement.act.describe().1
                )
            }
            Action::Late(statement, false) => {
                write!(
                    f,
                    "a statement of a lost session has no effect: {}",
                    statement.act.describe().1
                )
            }
            Action::Replicate => write!(f, "the target applies the changes of the source"),
            Action::Write(server) => {
                write!(f, "a client generates an id, and writes a row on the {server}")
            }
        }
    }
}

//! `apply`: carries out a plan, with several moves in parallel, each in a thread. Running `apply`
//! again with the same plan continues it.

use crate::checks::Facts;
use crate::error::{Context, Error, Result, check_interrupt, fail};
use crate::interrupt;
use crate::map::{Map, Trust};
use crate::moving::move_shard;
use crate::output::Output;
use crate::plan::{Plan, PlannedMove};
use crate::server::Server;
use instagram_id_core::moving::MoveStage;
use std::collections::{BTreeMap, BTreeSet};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

/// Reads a plan as `plan --json` prints it, from a file or from standard input (`-`).
pub fn read_plan(file: &str) -> Result<Plan> {
    let text = if file == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.context(|| format!("the plan {file} cannot be read"))?;
    let plan: Plan = serde_json::from_str(&text).map_err(|error| {
        Error::failed(format!("{file} does not have the format of plan --json: {error}"))
    })?;
    let mut shards = BTreeSet::new();
    match plan.moves.iter().find(|planned| !shards.insert(planned.shard)) {
        Some(planned) => fail!("{file} contains shard {} more than once", planned.shard),
        None => Ok(plan),
    }
}

/// How [`apply`] carries out a plan.
pub struct Options {
    /// The number of parallel moves.
    pub jobs: usize,
    /// The limit of `--stop`.
    pub stop: Duration,
    pub trust: Trust,
}

/// Carries out the moves of a plan that are not done yet.
pub fn apply(map: &Map, conninfo: &str, plan: Plan, options: &Options, output: &Output) -> Result {
    let mut state = State {
        output,
        all: plan.moves.len(),
        done: 0,
        failed: Vec::new(),
        stopped: None,
        said: BTreeSet::new(),
    };
    let mut waiting = Vec::new();
    for planned in plan.moves {
        match is_needed(map, &planned)? {
            true => waiting.push(planned),
            false => state.done += 1,
        }
    }
    output.step(format!("{} moves, of which {} are done already", state.all, state.done));
    let facts = facts(map, &waiting);
    let is_json = output.is_json();
    thread::scope(|scope| {
        let mut running: Vec<(PlannedMove, ScopedJoinHandle<Result>)> = Vec::new();
        loop {
            if interrupt::is_requested() {
                state.say_once("Interrupted: waiting until the running moves have stopped".into());
                waiting.clear();
            }
            while running.len() < options.jobs
                && let Some(planned) = take_free(&facts, &running, &mut waiting, &mut state)
            {
                let (shard, to) = (planned.shard, planned.to.clone());
                let work = move || move_one(conninfo, shard, &to, options, is_json);
                running.push((planned, scope.spawn(work)));
            }
            match running.iter().position(|(_, thread)| thread.is_finished()) {
                Some(at) => {
                    let (planned, thread) = running.swap_remove(at);
                    waiting.extend(state.end(planned, thread.join()));
                }
                None if running.is_empty() => break,
                None => thread::sleep(Duration::from_millis(100)),
            }
        }
    });
    state.conclude()
}

/// Performs a move of the plan, with a connection of its own to the map. Reports its error, unless
/// another command works on the shard.
fn move_one(conninfo: &str, shard: u16, to: &str, options: &Options, is_json: bool) -> Result {
    let output = &Output::of_move(is_json, shard);
    let moved = Map::connect(conninfo)
        .and_then(|mut map| move_shard(&mut map, shard, to, options.stop, &options.trust, output));
    if let Err(error) = &moved
        && !matches!(error, Error::Busy(_))
    {
        output.error(error);
    }
    moved
}

/// How far the plan is.
struct State<'a> {
    output: &'a Output,
    all: usize,
    done: usize,
    /// The shards whose moves failed, and one whose writes may be stopped.
    failed: Vec<String>,
    stopped: Option<u16>,
    said: BTreeSet<String>,
}

impl State<'_> {
    fn say_once(&mut self, message: String) {
        if self.said.insert(message.clone()) {
            self.output.step(message);
        }
    }

    /// Records the end of a move. Returns it if it must wait for another command.
    fn end(&mut self, planned: PlannedMove, moved: thread::Result<Result>) -> Option<PlannedMove> {
        let PlannedMove { shard, to, .. } = &planned;
        match moved {
            Ok(Ok(())) => {
                self.done += 1;
                let message = format!(
                    "Shard {shard} is on {to}: {} of {} moves are done",
                    self.done, self.all
                );
                self.output.step(message);
            }
            Ok(Err(Error::Busy(_))) => {
                self.say_once(format!(
                    "Another command is working on shard {shard}: waiting for it"
                ));
                return Some(planned);
            }
            Ok(Err(Error::WritesStopped { .. })) => {
                self.stopped = Some(*shard);
                self.failed.push(shard.to_string());
            }
            // It has reported its error, or a panic.
            _ => self.failed.push(shard.to_string()),
        }
        None
    }

    /// Reports the end, with the exit status of the worst of the moves.
    fn conclude(self) -> Result {
        let State { all, failed, stopped, .. } = self;
        if let Some(shard) = stopped {
            let cause = Error::failed(format!("{} of {all} moves failed", failed.len()));
            return Err(Error::WritesStopped { shard, cause: Box::new(cause) });
        }
        check_interrupt()?;
        if !failed.is_empty() {
            fail!(
                "{} of {all} moves failed, for these shards: {}; fix the causes, and run apply again",
                failed.len(),
                failed.join(", ")
            );
        }
        self.output.step(format!(
            "All {all} moves are done; to drop the old copies: instagram_id_shards clean --all"
        ));
        Ok(())
    }
}

/// The facts of each server. The moves themselves report a server that cannot be queried.
fn facts(map: &Map, planned: &[PlannedMove]) -> BTreeMap<String, Facts> {
    let names: BTreeSet<&String> = planned.iter().flat_map(|one| [&one.from, &one.to]).collect();
    let facts = |name: &String| Facts::of(&Server::observe(name, map.server(name)?, 0, "")?);
    names.into_iter().filter_map(|name| Some((name.clone(), facts(name).ok()?))).collect()
}

/// Takes the next move for which the servers have room next to those that run.
fn take_free<T>(
    facts: &BTreeMap<String, Facts>,
    running: &[(PlannedMove, T)],
    waiting: &mut Vec<PlannedMove>,
    state: &mut State,
) -> Option<PlannedMove> {
    for at in 0..waiting.len() {
        let PlannedMove { from, to, .. } = &waiting[at];
        let sent = running.iter().filter(|(planned, _)| planned.from == *from).count() as i64;
        let received = running.iter().filter(|(planned, _)| planned.to == *to).count() as i64;
        let mut lacks = Vec::new();
        if let (Some(source), Some(target)) = (facts.get(from), facts.get(to)) {
            // The checks of a move report what it lacks alone.
            if sent > 0 {
                lacks = source.lacks_for_moves_from(from, sent + 1, target);
            }
            if received > 0 {
                lacks.extend(target.lacks_for_moves_to(to, received + 1));
            }
        }
        match lacks.pop() {
            None => return Some(waiting.remove(at)),
            Some(lack) => state.say_once(format!("Waiting for running moves: {lack}")),
        }
    }
    None
}

/// Whether the shard still has to be moved. Fails if the plan is out of date.
fn is_needed(map: &Map, planned: &PlannedMove) -> Result<bool> {
    let PlannedMove { shard, from, to, .. } = planned;
    let placement = map.placement(*shard)?;
    match (placement.stage(), &placement.moving) {
        (MoveStage::Begun | MoveStage::Switched, Some(moving)) if moving.target == *to => Ok(true),
        (MoveStage::None | MoveStage::Finished, _) if placement.server == *to => Ok(false),
        (MoveStage::None | MoveStage::Finished, _) if placement.server == *from => Ok(true),
        _ => fail!(
            "the plan is out of date for shard {shard}, planned to move from {from} to {to}: make a new plan"
        ),
    }
}

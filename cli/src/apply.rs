//! `apply`: carries out a plan, with several moves in parallel. Each move runs in a process of its
//! own, so a failed move does not affect the others. Running `apply` again with the same plan
//! continues it.

use crate::checks::Facts;
use crate::error::{Context, Error, Result, check_interrupt, fail};
use crate::interrupt;
use crate::map::Map;
use crate::output::{Output, printable};
use crate::plan::{Plan, PlannedMove};
use crate::server::{Names, Server};
use instagram_id_core::moving::MoveStage;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The exit statuses of [`Error::Busy`] and [`Error::WritesStopped`].
const BUSY: i32 = 4;
const WRITES_STOPPED: i32 = 5;

/// A line of a move's output, or its end.
enum Said {
    Line { shard: u16, line: String },
    Ended { shard: u16 },
}

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
    /// The limit of `--stop`, in seconds.
    pub stop: u64,
    /// The arguments of `--trust`.
    pub trust: Vec<String>,
}

/// A move in a process of its own.
struct Running {
    planned: PlannedMove,
    child: Child,
}

/// Carries out the moves of a plan that are not done yet.
pub fn apply(map: &Map, conninfo: &str, plan: Plan, options: &Options, output: &Output) -> Result {
    let all = plan.moves.len();
    let mut waiting = Vec::new();
    for planned in plan.moves {
        if is_needed(map, &planned)? {
            waiting.push(planned);
        }
    }
    output.step(format!("{all} moves, of which {} are done already", all - waiting.len()));
    waiting.reverse();
    let facts = facts(map, &waiting);
    let (sender, receiver) = channel();
    let mut running: Vec<Running> = Vec::new();
    let (mut done, mut failed, mut stopped) = (all - waiting.len(), Vec::new(), None);
    let (mut is_stopping, mut said) = (false, BTreeSet::new());
    while !running.is_empty() || !(waiting.is_empty() || is_stopping) {
        while running.len() < options.jobs && !is_stopping {
            let obstacle = |planned: &PlannedMove| obstacle_now(map, &facts, &running, planned);
            let Some(planned) = take_free(&mut waiting, obstacle, &mut said, output) else { break };
            match start(conninfo, &planned, options, &sender) {
                Ok(child) => running.push(Running { planned, child }),
                Err(error) => {
                    output.error(&error);
                    failed.push(planned.shard.to_string());
                }
            }
        }
        if interrupt::is_requested() && !is_stopping {
            is_stopping = true;
            output.step("Interrupted: waiting until the running moves have stopped");
            for Running { child, .. } in &running {
                // A terminal has sent the signal to these processes already. A second signal does
                // no harm.
                let _ = kill_process(Pid::from_child(child), Signal::TERM);
            }
        }
        let Some(shard) = next_end(&receiver, output) else { continue };
        let is_ended = |running: &Running| running.planned.shard == shard;
        let position = running.iter().position(is_ended).expect("a move that runs");
        let Running { planned, mut child } = running.swap_remove(position);
        match child.wait().ok().and_then(|status| status.code()) {
            Some(0) => {
                done += 1;
                let to = planned.to;
                output.step(format!("Shard {shard} is on {to}: {done} of {all} moves are done"));
            }
            Some(BUSY) => waiting.push(planned),
            status => {
                failed.push(shard.to_string());
                stopped = stopped.or((status == Some(WRITES_STOPPED)).then_some(shard));
            }
        }
    }
    conclude(all, &failed, stopped, output)
}

/// Reports the end, with the exit status of the worst of the moves.
fn conclude(all: usize, failed: &[String], stopped: Option<u16>, output: &Output) -> Result {
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
    output.step(format!(
        "All {all} moves are done; to drop the old copies: instagram_id_shards clean --all"
    ));
    Ok(())
}

/// The facts of each server. The moves themselves report a server that cannot be queried.
fn facts(map: &Map, planned: &[PlannedMove]) -> BTreeMap<String, Facts> {
    let names: BTreeSet<&String> = planned.iter().flat_map(|one| [&one.from, &one.to]).collect();
    let facts = |name: &String| {
        let no_shard = Names { shard: 0, schema: String::new() };
        Facts::of(&Server::observe(name, map.server(name)?, &no_shard)?)
    };
    names.into_iter().filter_map(|name| Some((name.clone(), facts(name).ok()?))).collect()
}

/// Why a move cannot begin next to those that run: a server lacks what it needs, or another command
/// works on the shard. (An `apply` that was killed leaves its moves running.)
fn obstacle_now(
    map: &Map,
    facts: &BTreeMap<String, Facts>,
    running: &[Running],
    PlannedMove { shard, from, to, .. }: &PlannedMove,
) -> Option<String> {
    if let (Some(source), Some(target)) = (facts.get(from), facts.get(to)) {
        let sent = running.iter().filter(|one| one.planned.from == *from).count() as i64;
        let received = running.iter().filter(|one| one.planned.to == *to).count() as i64;
        let mut lacks = Vec::new();
        // The checks of a move report what it lacks alone.
        if sent > 0 {
            lacks = source.lacks_for_moves_from(from, sent + 1, target);
        }
        if received > 0 {
            lacks.extend(target.lacks_for_moves_to(to, received + 1));
        }
        if let Some(lack) = lacks.pop() {
            return Some(format!("Waiting for running moves: {lack}"));
        }
    }
    // If the map cannot be read, the move reports that.
    map.is_locked(*shard)
        .unwrap_or(false)
        .then(|| format!("Another command is working on shard {shard}: waiting for it"))
}

/// Takes the first move without an obstacle, and says once what the obstacles of the others are.
fn take_free(
    waiting: &mut Vec<PlannedMove>,
    obstacle: impl Fn(&PlannedMove) -> Option<String>,
    said: &mut BTreeSet<String>,
    output: &Output,
) -> Option<PlannedMove> {
    for at in (0..waiting.len()).rev() {
        let Some(obstacle) = obstacle(&waiting[at]) else { return Some(waiting.remove(at)) };
        if said.insert(obstacle.clone()) {
            output.step(obstacle);
        }
    }
    None
}

/// Whether the shard still has to be moved. Fails if the plan is out of date.
fn is_needed(map: &Map, planned: &PlannedMove) -> Result<bool> {
    let PlannedMove { shard, from, to, .. } = planned;
    let placement = map.placement(*shard)?;
    match (placement.stage, &placement.moving) {
        (MoveStage::Begun | MoveStage::Switched, Some(moving)) if moving.target == *to => Ok(true),
        (MoveStage::None | MoveStage::Finished, _) if placement.home == *to => Ok(false),
        (MoveStage::None | MoveStage::Finished, _) if placement.home == *from => Ok(true),
        _ => fail!(
            "the plan is out of date for shard {shard}, planned to move from {from} to {to}: make a new plan"
        ),
    }
}

/// Starts a move in a process of its own. The connection string of the map may contain a password,
/// so it is passed in the environment.
fn start(
    conninfo: &str,
    planned: &PlannedMove,
    options: &Options,
    sender: &Sender<Said>,
) -> Result<Child> {
    let shard = planned.shard;
    let program = std::env::current_exe()
        .context(|| "the path of this program cannot be determined".into())?;
    let mut child = Command::new(program)
        .args(["--json", "move", &shard.to_string(), "--stop", &options.stop.to_string()])
        .arg(format!("--to={}", planned.to))
        .args(options.trust.iter().map(|trust| format!("--trust={trust}")))
        .env("INSTAGRAM_ID_MAP", conninfo)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context(|| format!("the move of shard {shard} cannot be started"))?;
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let sender = sender.clone();
    std::thread::spawn(move || {
        for line in lines.map_while(std::io::Result::ok) {
            let _ = sender.send(Said::Line { shard, line });
        }
        let _ = sender.send(Said::Ended { shard });
    });
    Ok(child)
}

/// Waits up to 100 ms for a line of output, and prints it. Returns the shard if a move has ended.
fn next_end(receiver: &Receiver<Said>, output: &Output) -> Option<u16> {
    match receiver.recv_timeout(Duration::from_millis(100)).ok()? {
        Said::Ended { shard } => return Some(shard),
        Said::Line { shard, line } => print(shard, &line, output),
    }
    None
}

/// Prints one line of output of a move: as JSON with the shard added, or as text.
fn print(shard: u16, line: &str, output: &Output) {
    let mut object = match serde_json::from_str(line) {
        Ok(Value::Object(object)) => object,
        _ => return output.text(&format!("    {shard}: {}", printable(line))),
    };
    if output.is_json() {
        object.insert("shard".into(), shard.into());
        return output.object(&object);
    }
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    match text("event") {
        "error" | "warning" => {
            for line in text("message").lines() {
                output.text(&format!("    {shard}: {}: {}", text("event"), printable(line)));
            }
        }
        "moved" => {
            if let Some(stopped) = object.get("stopped_ms").and_then(Value::as_u64) {
                output.text(&format!("    {shard}: writes were stopped for {stopped} ms"));
            }
        }
        // Do not print progress and steps of parallel moves, which would hide errors. `status`
        // shows them.
        _ => {}
    }
}

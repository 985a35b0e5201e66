//! `apply`: carries out a plan, with several moves in parallel. Each move runs in a process of its
//! own, so a failed move does not affect the others. Running `apply` again with the same plan
//! continues it.

use crate::error::{Context, Error, Result, fail};
use crate::interrupt;
use crate::map::Map;
use crate::output::{Output, printable};
use crate::plan::{Plan, PlannedMove};
use instagram_id_core::moving::MoveStage;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
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

/// Carries out the moves of a plan that are not done yet.
#[expect(clippy::too_many_lines, reason = "the steps of a plan, in their order")]
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
    let (sender, receiver) = channel();
    let mut running: Vec<(PlannedMove, Child)> = Vec::new();
    let (mut done, mut failed, mut is_stopping) = (all - waiting.len(), Vec::new(), false);
    let (mut stopped, mut awaited) = (None, BTreeSet::new());
    while !running.is_empty() || !(waiting.is_empty() || is_stopping) {
        while running.len() < options.jobs && !is_stopping {
            let Some(planned) = take_free(map, &mut waiting, &mut awaited, output) else { break };
            match start(conninfo, &planned, options, &sender) {
                Ok(child) => running.push((planned, child)),
                Err(error) => {
                    output.error(&error);
                    failed.push(planned.shard.to_string());
                }
            }
        }
        if interrupt::is_requested() && !is_stopping {
            is_stopping = true;
            output.step("Interrupted: waiting until the running moves have stopped");
            for (_, child) in &running {
                // A terminal has sent the signal to these processes already. A second signal does
                // no harm.
                let pid = Pid::from_child(child);
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        let Some(shard) = next_end(&receiver, output) else { continue };
        let position = running
            .iter()
            .position(|(planned, _)| planned.shard == shard)
            .expect("a move that runs");
        let (planned, mut child) = running.swap_remove(position);
        let status = child.wait().ok().and_then(|status| status.code());
        match status {
            Some(0) => {
                done += 1;
                output.step(format!(
                    "Shard {shard} is on {}: {done} of {all} moves are done",
                    planned.to
                ));
            }
            Some(BUSY) => waiting.push(planned),
            _ => failed.push(shard.to_string()),
        }
        if status == Some(WRITES_STOPPED) {
            stopped = Some(shard);
        }
    }
    if let Some(shard) = stopped {
        let cause = Error::failed(format!("{} of {all} moves failed", failed.len()));
        return Err(Error::WritesStopped { shard, cause: Box::new(cause) });
    }
    if let Some(signal) = interrupt::signal() {
        return Err(Error::Interrupted(signal));
    }
    if failed.is_empty() {
        output.step(format!(
            "All {all} moves are done; to drop the old copies: instagram_id_shards clean --all"
        ));
        return Ok(());
    }
    Err(Error::failed(format!(
        "{} of {all} moves failed, for these shards: {}; fix the causes, and run apply again",
        failed.len(),
        failed.join(", ")
    )))
}

/// Takes the next move, but none of a shard on which another command works: an `apply` that was
/// killed leaves its moves running. If the map cannot be read, the move reports that.
fn take_free(
    map: &Map,
    waiting: &mut Vec<PlannedMove>,
    awaited: &mut BTreeSet<u16>,
    output: &Output,
) -> Option<PlannedMove> {
    for at in (0..waiting.len()).rev() {
        let shard = waiting[at].shard;
        if !map.is_locked(shard).unwrap_or(false) {
            return Some(waiting.remove(at));
        }
        if awaited.insert(shard) {
            output.step(format!("Another command is working on shard {shard}: waiting for it"));
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
        .stderr(Stdio::piped())
        .spawn()
        .context(|| format!("the move of shard {shard} cannot be started"))?;
    let (stdout, stderr) =
        (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
    let sender = sender.clone();
    std::thread::spawn(move || {
        let errors = std::thread::spawn({
            let sender = sender.clone();
            move || pass_on(shard, stderr, &sender)
        });
        pass_on(shard, stdout, &sender);
        let _ = errors.join();
        let _ = sender.send(Said::Ended { shard });
    });
    Ok(child)
}

fn pass_on(shard: u16, said: impl Read, sender: &Sender<Said>) {
    for line in BufReader::new(said).lines().map_while(std::io::Result::ok) {
        let _ = sender.send(Said::Line { shard, line });
    }
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

//! `apply`: carries out a plan, some moves at a time. Each move is a command of its own, so one that fails does not
//! affect the others, and a second `apply` of the same plan continues where the first one stopped.

use crate::error::{Context, Error, Result};
use crate::interrupt;
use crate::map::Map;
use crate::output::{Output, printable};
use crate::plan::{Plan, PlannedMove};
use instagram_id_core::moving::Stage;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A line of a move's output, or its end.
enum Said {
    Line { shard: u16, line: String },
    Ended { shard: u16 },
}

/// Reads a plan as `plan --json` prints it, from a file or from standard input (`-`).
pub fn read_plan(file: &str) -> Result<Plan> {
    let text =
        if file == "-" { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(file) };
    let text = text.context(|| format!("the plan {file} cannot be read"))?;
    serde_json::from_str(&text)
        .map_err(|error| Error::failed(format!("{file} is not a plan as plan --json prints it: {error}")))
}

/// Carries out the moves of a plan that are not done yet.
pub fn apply(map: &Map, conninfo: &str, plan: Plan, jobs: usize, stop: u64, output: &Output) -> Result {
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
    while !running.is_empty() || !(waiting.is_empty() || is_stopping) {
        while running.len() < jobs && !is_stopping {
            let Some(planned) = waiting.pop() else { break };
            let child = start(conninfo, &planned, stop, &sender)?;
            running.push((planned, child));
        }
        if interrupt::is_requested() && !is_stopping {
            is_stopping = true;
            output.step("Interrupted: waiting for the moves that are running");
            for (_, child) in &running {
                // From a terminal they have got the signal themselves. A second one does no harm.
                let pid = Pid::from_child(child);
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        let Some(shard) = next_end(&receiver, output) else { continue };
        let position =
            running.iter().position(|(planned, _)| planned.shard == shard).expect("a move that runs");
        let (planned, mut child) = running.swap_remove(position);
        let status = child.wait().context(|| "a move cannot be waited for".into())?;
        if status.success() {
            done += 1;
            output.step(format!("Shard {shard} is on {}: {done} of {all} moves are done", planned.to));
        } else {
            failed.push(shard.to_string());
        }
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
        "{} of {all} moves failed, those of shards {}; when the reasons are mended, run apply again",
        failed.len(),
        failed.join(", ")
    )))
}

/// Whether the shard is still to be moved. A plan can be out of date.
fn is_needed(map: &Map, planned: &PlannedMove) -> Result<bool> {
    let PlannedMove { shard, from, to, .. } = planned;
    let placement = map.placement(*shard)?;
    match (placement.stage, &placement.moving) {
        (Stage::Begun | Stage::Switched, Some(moving)) if moving.target == *to => Ok(true),
        (Stage::None | Stage::Finished, _) if placement.home == *to => Ok(false),
        (Stage::None | Stage::Finished, _) if placement.home == *from => Ok(true),
        _ => crate::fail!(
            "shard {shard} is neither on {from} nor on {to}, or is being moved elsewhere: make a new plan"
        ),
    }
}

/// Starts a move as a process of its own. The map's connection string may contain a password, so it is passed in the
/// environment.
fn start(conninfo: &str, planned: &PlannedMove, stop: u64, sender: &Sender<Said>) -> Result<Child> {
    let shard = planned.shard;
    let program = std::env::current_exe().context(|| "the path of this program is not known".into())?;
    let mut child = Command::new(program)
        .args(["--json", "move", &shard.to_string(), "--stop", &stop.to_string()])
        .arg(format!("--to={}", planned.to))
        .env("INSTAGRAM_ID_MAP", conninfo)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context(|| format!("the move of shard {shard} cannot be started"))?;
    let (stdout, stderr) = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
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

/// Prints what the moves say, until one of them ends, or for a moment.
fn next_end(receiver: &Receiver<Said>, output: &Output) -> Option<u16> {
    match receiver.recv_timeout(Duration::from_millis(100)).ok()? {
        Said::Ended { shard } => return Some(shard),
        Said::Line { shard, line } => print(shard, &line, output),
    }
    None
}

/// One line of a move: as JSON with the shard added, or as text.
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
        // Progress and steps of many moves side by side would hide what matters; `status` shows them.
        _ => {}
    }
}

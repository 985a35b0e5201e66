//! The commands on one shard. Each looks at the map and at both servers, does the step that comes next, and looks again.

use crate::error::{Error, Result};
use crate::map::{Map, Move, Placement};
use crate::output::Output;
use crate::server::{Mark, Names, Server};
use crate::{check_interrupt, checks, cutover, fail, replication};
use instagram_id_core::moving::{Copy, Refusal, Seen, Stage, Step, next_step, next_step_back};
use std::time::Duration;

/// A move with its servers.
struct Moving<'a> {
    map: &'a mut Map,
    output: &'a Output,
    shard: u16,
    source: Server,
    target: Server,
    /// Whether everything that could fail later has been checked.
    is_checked: bool,
}

/// What `move` is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Move,
    /// Only checks.
    Check,
    /// Checks, and says what a move would do.
    DryRun,
}

/// Moves a shard to the server `to`, or continues a move that was interrupted.
pub fn move_shard(
    map: &mut Map,
    shard: u16,
    to: &str,
    limit: Duration,
    mode: Mode,
    output: &Output,
) -> Result {
    map.lock(shard)?;
    let placement = map.placement(shard)?;
    let is_begun = placement.moving.is_some();
    let moving = match placement.moving {
        Some(moving) => continued(shard, moving, placement.stage, to, mode, output)?,
        None if placement.home == to => fail!("shard {shard} is on {to} already"),
        None => Move { source: placement.home, target: to.to_owned(), schema: String::new() },
    };
    if is_begun && mode == Mode::Check {
        return Ok(());
    }
    let mut moving = Moving::connect(map, shard, &moving, output)?;
    if mode != Mode::Move {
        return moving.preview(placement.stage, mode);
    }
    let mut stage = placement.stage;
    loop {
        check_interrupt()?;
        let step = match next_step(moving.look(stage)?) {
            Ok(step) => step,
            // What was to be done is done: `stage` was not this when the command began.
            Err(Refusal::Finished) => return Ok(()),
            Err(_) => return Err(moving.foreign_copy()),
        };
        stage = moving.take(step, stage, limit)?;
    }
}

fn continued(shard: u16, moving: Move, stage: Stage, to: &str, mode: Mode, output: &Output) -> Result<Move> {
    let Move { source, target, .. } = &moving;
    if stage == Stage::Finished {
        fail!(
            "shard {shard} has been moved from {source} to {target}; drop the old copy with: instagram_id_shards clean {shard}"
        );
    }
    if target != to {
        fail!("shard {shard} is being moved from {source} to {target}: finish that, or cancel it");
    }
    if mode == Mode::Move {
        output.step(format!("Resuming the move of shard {shard} from {source} to {target}"));
    } else {
        output.step(format!("Shard {shard} is being moved from {source} to {target}; move resumes that"));
    }
    Ok(moving)
}

/// Undoes a move that has not come to its cutover.
pub fn cancel(map: &mut Map, shard: u16, output: &Output) -> Result {
    map.lock(shard)?;
    let Placement { stage, moving, .. } = map.placement(shard)?;
    let Some(moving) = moving else { fail!("shard {shard} is not being moved") };
    let (from, to) = (moving.source.clone(), moving.target.clone());
    if stage != Stage::Begun {
        fail!("shard {shard} is on {to} already; to bring it back, clean {shard} and move it to {from}");
    }
    let moving = Moving::connect(map, shard, &moving, output)?;
    loop {
        check_interrupt()?;
        match next_step_back(moving.look(stage)?) {
            Ok(Step::ResumeWrites) => moving.resume_writes()?,
            Ok(_) => break,
            Err(Refusal::CopyIsOpen) => fail!(
                "shard {shard} is open on {to} already, and clients may have written to it; to finish: instagram_id_shards move {shard} --to {to}"
            ),
            Err(_) => fail!(
                "schema {} on {to} is not as this command leaves it: if you need nothing in it, drop it there, then cancel again",
                moving.target.schema()
            ),
        }
    }
    output.step("Removing what the move has created");
    moving.undo()?;
    output.step(format!("Shard {shard} is on {from}, as before"));
    Ok(())
}

/// Drops the old copy of a shard that has moved.
pub fn clean(map: &mut Map, shard: u16, output: &Output) -> Result {
    map.lock(shard)?;
    let Placement { home, stage, moving } = map.placement(shard)?;
    let Some(moving) = moving else { fail!("there is no old copy of shard {shard}") };
    let Move { source: from, target: to, schema } = moving.clone();
    if stage != Stage::Finished {
        fail!("shard {shard} is being moved: finish that with move {shard} --to {to}");
    }
    if home != to {
        fail!("shard {shard} is on {home} by the map, and was moved to {to}: the map was changed since");
    }
    let moving = Moving::connect(map, shard, &moving, output)?;
    let source = &moving.source;
    if source.has_schema()? {
        if !source.is_closed()? {
            fail!("schema {schema} on {from} is open for writes: it is no old copy");
        }
        let users: Option<String> = source.query(include_str!("sql/views.sql"), &[&schema])?.one();
        if let Some(users) = users {
            fail!("on {from} the old copy is in use by {users}: define these without it first");
        }
        moving.map.check_lock()?;
        source.drop_copy()?;
    }
    moving.map.forget_move(shard)?;
    output.step(format!("The old copy of shard {shard} on {from} is dropped"));
    Ok(())
}

impl<'a> Moving<'a> {
    fn connect(map: &'a mut Map, shard: u16, moving: &Move, output: &'a Output) -> Result<Moving<'a>> {
        let names = Names { shard, schema: moving.schema.clone() };
        let source = Server::connect(&moving.source, &map.conninfo_of(&moving.source)?, &names)?;
        source.wait_for_earlier_command()?;
        let target = Server::connect(&moving.target, &map.conninfo_of(&moving.target)?, &names)?;
        if source.system()? == target.system()? {
            fail!("{} and {} are one server: a shard moves between servers", source.name, target.name);
        }
        target.wait_for_earlier_command()?;
        Ok(Moving { map, output, shard, source, target, is_checked: false })
    }

    /// What decides about the next step. Only a move that is under way has anything on the servers.
    fn look(&self, stage: Stage) -> Result<Seen> {
        let mut seen = Seen {
            stage,
            is_source_closed: false,
            has_publication: false,
            copy: Copy::Absent,
            has_subscription: false,
        };
        if stage == Stage::Begun {
            seen.copy = match (self.target.has_schema()?, self.target.mark()?) {
                (false, _) => Copy::Absent,
                (true, Mark::Opened) => Copy::Opened,
                (true, Mark::Closed) => Copy::Closed { is_guarded: self.target.is_guarded()? },
                (true, Mark::None | Mark::Foreign) => Copy::Foreign,
            };
            seen.is_source_closed = self.source.is_closed()?;
            seen.has_publication = self.source.has_publication()?;
            seen.has_subscription = self.target.has_subscription()?;
        }
        Ok(seen)
    }

    /// Takes a step. Returns the stage of the move in the map after it.
    fn take(&mut self, step: Step, stage: Stage, limit: Duration) -> Result<Stage> {
        let may_write_rows = !matches!(step, Step::ResumeWrites | Step::ChangeMap | Step::CleanUp);
        if may_write_rows && !self.is_checked {
            checks::check(&mut self.source, &mut self.target, step == Step::Begin)?;
            self.is_checked = true;
        }
        self.map.check_lock()?;
        let (source, target) = (&self.source, &self.target);
        match step {
            Step::Begin => {
                let (from, to) = (source.name.clone(), target.name.clone());
                let moving = Move { source: from, target: to, schema: source.schema().to_owned() };
                self.map.begin_move(self.shard, &moving)?;
                return Ok(Stage::Begun);
            }
            Step::ResumeWrites => self.resume_writes()?,
            Step::Publish => {
                self.output.step(format!("Publishing schema {} on {}", source.schema(), source.name));
                replication::publish(source)?;
            }
            Step::CreateCopy => {
                self.output.step(format!("Creating schema {} on {}", target.schema(), target.name));
                replication::create_copy(source, target)?;
            }
            Step::Subscribe => {
                self.output.step(format!("Subscribing on {}", target.name));
                replication::subscribe(source, target)?;
            }
            Step::CutOver => {
                replication::start(target)?;
                self.output.step("Copying rows");
                replication::wait_for_copy(source, target, self.output)?;
                self.map.check_lock()?;
                cutover::cut_over(self.map, source, target, limit, self.output)?;
                return Ok(Stage::Switched);
            }
            Step::ChangeMap => {
                cutover::change_map(self.map, source, target, None, self.output)?;
                return Ok(Stage::Switched);
            }
            Step::CleanUp => {
                replication::remove(source, target)?;
                target.drop_triggers()?;
                self.map.finish_move(self.shard)?;
                self.output.step(format!(
                    "Done. The old copy on {} is closed; to drop it: instagram_id_shards clean {}",
                    source.name, self.shard
                ));
                return Ok(Stage::Finished);
            }
            Step::Undo => self.undo()?,
        }
        Ok(stage)
    }

    fn resume_writes(&self) -> Result {
        self.map.check_lock()?;
        self.source.open_shard(&self.map.sequences(self.shard)?)?;
        self.output.step(format!("Writes continue on {} for now", self.source.name));
        Ok(())
    }

    fn undo(&self) -> Result {
        self.map.check_lock()?;
        replication::remove(&self.source, &self.target)?;
        self.source.drop_triggers()?;
        self.target.drop_copy()?;
        self.map.forget_move(self.shard)
    }

    fn foreign_copy(&self) -> Error {
        Error::failed(format!(
            "schema {} on {} is not as this command leaves it (or was created by version 0.3.0): cancel {}, and move it again",
            self.target.schema(),
            self.target.name,
            self.shard
        ))
    }

    /// Checks, and says what `move` would do.
    fn preview(&mut self, stage: Stage, mode: Mode) -> Result {
        if stage != Stage::Switched {
            checks::check(&mut self.source, &mut self.target, stage == Stage::None)?;
        }
        let (from, to, schema) = (&self.source.name, &self.target.name, self.source.schema());
        self.output.step(format!("Shard {} can be moved from {from} to {to}", self.shard));
        if mode == Mode::DryRun {
            let size: i64 = self.source.query(include_str!("sql/size.sql"), &[schema])?.one();
            let size = crate::output::size(size);
            for line in [
                format!("publish schema {schema} on {from}"),
                format!("create schema {schema} on {to}, closed"),
                format!("subscribe on {to}, and copy {size}"),
                format!("stop writes on {from}, open the copy on {to}, and change the map"),
                format!("drop the subscription and the publication; the old copy on {from} stays, closed"),
            ] {
                self.output.step(format!("Would {line}"));
            }
        }
        Ok(())
    }
}

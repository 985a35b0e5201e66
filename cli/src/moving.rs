//! The commands that work on one shard. `move` and `cancel` inspect the map and both servers,
//! perform the next step, and repeat this until no step is left.

use crate::checks;
use crate::cutover;
use crate::error::{Error, Result, check_interrupt, fail};
use crate::interrupt;
use crate::libpq::Connection;
use crate::map::{Map, MapEntry, MoveStatus, Trust};
use crate::output::Output;
use crate::replication;
use crate::server::{EARLIER, Server};
use instagram_id_core::moving::{
    MoveStage, MoveState, NoStep, SchemaMark, Step, next_step, next_step_back,
};
use std::time::Duration;

/// A move with its servers.
struct Moving<'a> {
    map: &'a mut Map,
    output: &'a Output,
    source: Server,
    target: Server,
    /// Whether [`checks::check`] has passed.
    is_checked: bool,
    /// The session for [`cutover::compare_rows`].
    snapshot: Option<Connection>,
}

/// Moves a shard to the server `to`, or continues a move that was interrupted.
pub fn move_shard(
    map: &mut Map,
    shard: u16,
    to: &str,
    limit: Duration,
    trust: &Trust,
    output: &Output,
) -> Result {
    let Some((moving, mut stage)) = find_move(map, shard, to, output)? else { return Ok(()) };
    if stage != MoveStage::None {
        let MoveStatus { source, target, .. } = &moving;
        output.step(format!("Resuming the move of shard {shard} from {source} to {target}"));
    }
    let mut moving = Moving::connect(map, shard, &moving, trust, output)?;
    moving.run(&mut stage, limit).map_err(|cause| {
        let cause = moving.record_change_in(cause);
        let resume = format!("to resume: instagram_id_shards move {shard} --to {to}");
        let undo = format!("to undo: instagram_id_shards cancel {shard}");
        let advice = match (stage, &cause) {
            (MoveStage::None, _) | (_, Error::WritesStopped { .. }) => return cause,
            (MoveStage::Begun, cause) if cause.change().is_some() => undo,
            (MoveStage::Begun, _) => format!("{resume}; {undo}"),
            _ => resume,
        };
        Error::Unfinished { advice, cause: Box::new(cause) }
    })
}

/// Checks whether a shard can be moved to the server `to`.
pub fn check(map: &mut Map, shard: u16, to: &str, trust: &Trust, output: &Output) -> Result {
    let Some((moving, stage)) = find_move(map, shard, to, output)? else { return Ok(()) };
    let from = moving.source.clone();
    if stage == MoveStage::None {
        let mut moving = Moving::connect(map, shard, &moving, trust, output)?;
        checks::check(&mut moving.source, &mut moving.target, true)?;
        output.step(format!("Shard {shard} can be moved from {from} to {to}"));
    } else {
        let way_out = if moving.changed && stage == MoveStage::Begun {
            format!("its schema was changed, so undo that: instagram_id_shards cancel {shard}")
        } else {
            format!("to resume: instagram_id_shards move {shard} --to {to}")
        };
        output.step(format!("Shard {shard} is being moved from {from} to {to}; {way_out}"));
    }
    Ok(())
}

/// Locks the shard, and returns its move to the server `to`, which the map records unless its stage
/// is `None`. Returns no move if the shard is there.
fn find_move(
    map: &mut Map,
    shard: u16,
    to: &str,
    output: &Output,
) -> Result<Option<(MoveStatus, MoveStage)>> {
    map.lock(shard)?;
    let entry = map.placement(shard)?;
    let stage = entry.stage();
    let MapEntry { server, moving } = entry;
    if server == to && matches!(stage, MoveStage::None | MoveStage::Finished) {
        let clean = format!("; to drop the old copy: instagram_id_shards clean {shard}");
        let clean = if stage == MoveStage::Finished { &clean } else { "" };
        output.step(format!("Shard {shard} is on {to} already{clean}"));
        return Ok(None);
    }
    let Some(moving) = moving else {
        let target = to.to_owned();
        let moving = MoveStatus { shard, source: server, target, ..MoveStatus::default() };
        return Ok(Some((moving, stage)));
    };
    let MoveStatus { source, target, .. } = &moving;
    if stage == MoveStage::Finished {
        fail!(
            "shard {shard} has been moved from {source} to {target}; \
             drop the old copy first: instagram_id_shards clean {shard}"
        );
    }
    if target != to {
        fail!(
            "shard {shard} is being moved from {source} to {target}: finish or cancel that move first"
        );
    }
    Ok(Some((moving, stage)))
}

/// Undoes a move before its cutover. Requires no trust: this reads catalogs and sequences only, so
/// nothing of an owner runs. The same holds for the steps of `move` for which
/// [`Moving::check_before`] does not check.
pub fn cancel(map: &mut Map, shard: u16, output: &Output) -> Result {
    map.lock(shard)?;
    let entry = map.placement(shard)?;
    let stage = entry.stage();
    let Some(moving) = entry.moving else { fail!("shard {shard} is not being moved") };
    let (from, to) = (moving.source.clone(), moving.target.clone());
    if stage != MoveStage::Begun {
        let first = if stage == MoveStage::Switched {
            format!("move {shard} --to {to}, ")
        } else {
            String::new()
        };
        fail!(
            "shard {shard} is on {to} already; to move it back, \
             run {first}clean {shard}, and then move {shard} --to {from}"
        );
    }
    let moving = Moving::connect(map, shard, &moving, &Trust::default(), output)?;
    loop {
        check_interrupt()?;
        let seen = moving.look(stage).map_err(|cause| moving.record_change_in(cause))?;
        match next_step_back(seen) {
            Ok(Step::ResumeWrites) => moving.resume_writes()?,
            Ok(_) => break,
            Err(NoStep::CopyIsOpen) => {
                let cause = Error::failed(format!(
                    "shard {shard} is open on {to} already, and clients may have written to it; \
                     to finish the move: instagram_id_shards move {shard} --to {to}"
                ));
                return Err(moving.stopped_if(seen.is_source_closed, cause));
            }
            Err(_) => {
                let cause = Error::failed(format!(
                    "schema {} on {to} was not created by this move, or was changed since: \
                     if clients use it, the map has lost the end of the move, so run on the map \
                     UPDATE shard_map.shards SET server = {} WHERE shard = {shard}; \
                     UPDATE shard_map.moves SET switched = now() WHERE shard = {shard}; and then move {shard} --to {to}; \
                     if you need nothing in it, drop it, and run cancel again",
                    moving.target.schema,
                    format_args!("'{}'", to.replace('\'', "''"))
                ));
                return Err(moving.stopped_if(seen.is_source_closed, cause));
            }
        }
    }
    output.step("Removing all objects that the move has created");
    moving.undo().map_err(|cause| moving.record_change_in(cause))?;
    output.step(match moving.source.has_schema()? {
        true => format!("Shard {shard} is on {from}, as before"),
        false => format!("The move is undone, but {from} has no schema of shard {shard}"),
    });
    Ok(())
}

/// Drops the old copy of a shard that has moved.
pub fn clean(map: &mut Map, shard: u16, trust: &Trust, output: &Output) -> Result {
    map.lock(shard)?;
    let MapEntry { server, moving } = map.placement(shard)?;
    let Some(moving) = moving else { fail!("there is no old copy of shard {shard}") };
    let MoveStatus { source: from, target: to, .. } = moving.clone();
    if !moving.finished {
        fail!(
            "shard {shard} is being moved; to finish: instagram_id_shards move {shard} --to {to}"
        );
    }
    if server != to {
        fail!(
            "shard {shard} was moved to {to}, but the map was changed later, and places it on {server}"
        );
    }
    let moving = Moving::connect(map, shard, &moving, trust, output)?;
    moving.require_names()?;
    moving.require_open_copy()?;
    let rows = moving.map.recorded(shard, "rows")?.unwrap_or_default();
    moving.source.set("move.rows", &rows)?;
    let definition = moving.map.recorded(shard, "definition")?.unwrap_or_else(|| "{}".into());
    replication::drop_copy(&moving.source, &definition, true)?;
    moving.map.forget_move(shard)?;
    output.step(format!("The old copy of shard {shard} on {from} is dropped"));
    Ok(())
}

/// The error, which also says so if no server accepts writes to the shard.
fn stopped_if(shard: u16, is_stopped: bool, cause: Error) -> Error {
    if is_stopped { Error::WritesStopped { shard, cause: Box::new(cause) } } else { cause }
}

impl<'a> Moving<'a> {
    fn connect(
        map: &'a mut Map,
        shard: u16,
        moving: &MoveStatus,
        trust: &Trust,
        output: &'a Output,
    ) -> Result<Moving<'a>> {
        let schema = &moving.schema;
        let connect = |server: &str| Server::connect(server, trust.on(map, server)?, shard, schema);
        let source = connect(&moving.source)?;
        let failed = |cause| {
            let is_stopped = !moving.switched && source.is_closed().unwrap_or(false);
            stopped_if(shard, is_stopped, cause)
        };
        source.wait_for_earlier_command().map_err(failed)?;
        let target = connect(&moving.target)?;
        if source.started()? == target.started()? {
            let (from, to) = (&source.name, &target.name);
            return Err(failed(Error::failed(format!("{from} and {to} are the same server"))));
        }
        target.wait_for_earlier_command().map_err(failed)?;
        Ok(Moving { map, output, source, target, is_checked: false, snapshot: None })
    }

    /// Collects the facts that determine the next step. In other stages than `Begun` the map is
    /// sufficient.
    fn look(&self, stage: MoveStage) -> Result<MoveState> {
        let found = match stage {
            MoveStage::Begun => self.require_names().and_then(|()| self.require_databases()),
            MoveStage::Switched => self.require_names(),
            _ => Ok(()),
        };
        if let Err(cause) = found {
            // An interrupted cutover, which records the sequences first, can have left the source
            // closed.
            let may_be_stopped = stage == MoveStage::Begun
                && matches!(self.map.recorded(self.source.shard, "sequences"), Ok(Some(_)));
            return Err(self.stopped_if(may_be_stopped, cause));
        }
        let mut seen = MoveState {
            stage,
            is_source_closed: false,
            has_publication: false,
            copy: None,
            has_subscription: false,
        };
        if stage == MoveStage::Begun {
            seen.copy = self.mark_on_target()?;
            // Another schema of this name is not opened.
            seen.is_source_closed = self.source.is_closed()? && self.has_schema_of_this_move()?;
            seen.has_publication = self.source.has_publication()?;
            seen.has_subscription = self.target.has_subscription()?;
        }
        Ok(seen)
    }

    /// The mark of the schema on the target, if there is one. The copy is recorded before it is
    /// created, so another schema is foreign, whatever marks it has.
    fn mark_on_target(&self) -> Result<Option<SchemaMark>> {
        if !self.target.has_schema()? {
            return Ok(None);
        }
        let recorded = self.map.recorded(self.source.shard, "copy_definition")?;
        let recorded = recorded.as_deref().unwrap_or("{}");
        match self.target.has_same("identity of the schema", recorded)? {
            true => self.target.mark().map(Some),
            false => Ok(Some(SchemaMark::Foreign)),
        }
    }

    /// Fails if the schema of this move has another name now, by which nothing here would find it:
    /// an open copy would count as missing, and the source would be opened, too.
    fn require_names(&self) -> Result {
        self.map.check_lock()?;
        for (server, what) in [(&self.source, "definition"), (&self.target, "copy_definition")] {
            let recorded = self.map.recorded(server.shard, what)?.unwrap_or_default();
            server.require_name(&recorded)?;
        }
        Ok(())
    }

    /// Fails if the conninfo of a server names another database than that of this move. There the
    /// schema would seem to be missing: an open copy, or the source with the closed sequences.
    fn require_databases(&self) -> Result {
        let way_out = "undo the move by hand";
        self.require_database(&self.source, "definition", way_out)?;
        self.require_database(&self.target, "copy_definition", way_out)
    }

    fn require_database(&self, server: &Server, what: &'static str, way_out: &str) -> Result {
        let recorded = self.map.recorded(server.shard, what)?;
        match recorded {
            Some(recorded) if !server.has_same("identity of the database", &recorded)? => fail!(
                "the conninfo of {} names another database than that of this move: correct it; \
                 or, if that is lost or was upgraded, {way_out}",
                server.name
            ),
            _ => Ok(()),
        }
    }

    /// Performs all steps that are left. `stage` is what the map records.
    fn run(&mut self, stage: &mut MoveStage, limit: Duration) -> Result {
        loop {
            check_interrupt()?;
            let seen = self.look(*stage)?;
            let step = match next_step(seen) {
                Ok(step) => step,
                // The last step has finished the move. `find_move` rejects moves that were finished
                // before.
                Err(NoStep::Finished) => return Ok(()),
                Err(_) => return Err(self.stopped_if(seen.is_source_closed, self.foreign_copy())),
            };
            *stage = self.take(step, *stage, limit)?;
        }
    }

    /// Performs a step. Returns the stage that the map then records.
    fn take(&mut self, step: Step, stage: MoveStage, limit: Duration) -> Result<MoveStage> {
        self.check_before(step)?;
        self.map.check_lock()?;
        let (source, target) = (&self.source, &self.target);
        match step {
            Step::Begin => {
                self.map.begin_move(source.shard, &source.name, &target.name, &source.schema)?;
                return Ok(MoveStage::Begun);
            }
            Step::ResumeWrites => self.resume_writes()?,
            Step::Publish => {
                self.output.step(format!("Publishing schema {} on {}", source.schema, source.name));
                replication::publish(source)?;
            }
            Step::CreateCopy => {
                self.output.step(format!("Creating schema {} on {}", target.schema, target.name));
                replication::create_copy(self.map, source, target)?;
            }
            Step::Subscribe => {
                self.require_names_of_its_own()?;
                self.output.step(format!("Subscribing on {}", target.name));
                replication::subscribe(source, target)?;
            }
            Step::CutOver => {
                if !self.copy_rows(limit)? {
                    return self.begin_anew();
                }
                self.map.check_lock()?;
                let snapshot = cutover::cut_over(self.map, source, target, limit, self.output)?;
                self.snapshot = Some(snapshot);
                return Ok(MoveStage::Switched);
            }
            Step::ChangeMap => {
                self.require_open_copy()?;
                cutover::change_map(self.map, source, target, None, self.output)?;
                return Ok(MoveStage::Switched);
            }
            Step::CleanUp => {
                self.require_open_copy()?;
                self.compare_rows()?;
                self.snapshot = None; // its locks
                replication::remove(source, target)?;
                target.drop_triggers()?;
                self.map.finish_move(self.source.shard)?;
                self.output.step(format!(
                    "Done. The old copy on {} is closed; to drop it: instagram_id_shards clean {}",
                    source.name, self.source.shard
                ));
                return Ok(MoveStage::Finished);
            }
            Step::Undo => {
                self.output.step("Removing what an earlier cancel has left");
                return self.begin_anew();
            }
        }
        Ok(stage)
    }

    /// Returns false if the move has to begin anew.
    fn copy_rows(&self, limit: Duration) -> Result<bool> {
        let Moving { map, output, source, target, .. } = self;
        let [definition, copy] = map.definitions(source.shard)?;
        source.require_no_earlier_change(&definition)?;
        target.require_no_earlier_change(&copy)?;
        if !target.has_same("timeline of the server", &copy)? {
            output.warn(&format!(
                "{} has failed over, and may have lost changes that it had confirmed",
                target.name
            ));
            return Ok(false);
        }
        replication::start(target)?;
        output.step("Copying rows");
        let is_copied =
            replication::wait_for_copy(source, target, [&definition, &copy], limit, output)?;
        if !is_copied {
            output.warn(&format!(
                "{} has crashed when a table was copied, and PostgreSQL cannot continue this copy",
                target.name
            ));
        }
        Ok(is_copied)
    }

    /// Checks the servers once before the first step that can write rows.
    fn check_before(&mut self, step: Step) -> Result {
        let may_write_rows =
            !matches!(step, Step::ResumeWrites | Step::ChangeMap | Step::CleanUp | Step::Undo);
        if may_write_rows && !self.is_checked {
            checks::check(&mut self.source, &mut self.target, step == Step::Begin)?;
            self.is_checked = true;
        }
        Ok(())
    }

    /// Fails if another move from this source has subscribed on a server with the same system
    /// identifier, one that was made from a backup of this target, or both from that of a third.
    /// The names of the slots that PostgreSQL creates to copy tables consist of that and of OIDs,
    /// which can be equal.
    fn require_names_of_its_own(&self) -> Result {
        let shard = self.source.shard;
        if let Some(other) = self.map.begin_to_subscribe(shard)? {
            fail!(
                "shard {other} is being moved from {} to another database with the system identifier of {}, of the same server or \
                 of one that was made from the same backup: finish that move first, and then run move {shard}",
                self.source.name,
                self.target.name
            );
        }
        Ok(())
    }

    /// If the old copy exists, fails if it is open, or the target has lost the copy or its opening.
    /// A failover to an asynchronous standby can lose the end of a move.
    fn require_open_copy(&self) -> Result {
        let Moving { map, source, target, .. } = self;
        let (from, to, schema) = (&source.name, &target.name, &source.schema);
        let way_out = format!(
            "drop the old copy yourself, and continue as after the loss of {from} (docs/run/moving.md)"
        );
        self.require_database(source, "definition", &way_out)?;
        if !source.has_schema()? {
            return Ok(());
        }
        let way_out =
            format!("and {to} has all rows, drop schema {schema} on {from}, and run this again");
        self.require_database(target, "copy_definition", &way_out)?;
        if !self.has_schema_of_this_move()? {
            return Err(source.not_of_this_move());
        }
        let copy = map.recorded(source.shard, "copy_definition")?.unwrap_or_else(|| "{}".into());
        if !target.has_same("identity of the schema", &copy)? || target.is_closed()? {
            fail!(
                "server {to} has no open copy of shard {} from this move, so the old copy on {from} is kept: \
                 if {to} was restored from a backup of before the move, open the old copy by hand, as after the loss of {to}; \
                 if {to} has all rows, as after a dump and restore of the schema, drop schema {schema} on {from}, and run this again",
                source.shard
            );
        }
        if !source.is_closed()? {
            fail!(
                "schema {schema} on {from} is open, too, as after a failover that has lost its closing, so clients may have written to both servers: \
                 stop writes on {from}, copy rows that only {from} has to {to}, drop schema {schema} on {from}, and run this again"
            );
        }
        Ok(())
    }

    /// Whether the source has the schema that this move copies, and not another one of its name.
    fn has_schema_of_this_move(&self) -> Result<bool> {
        let recorded = self.map.recorded(self.source.shard, "definition")?;
        self.source.has_same("identity of the schema", recorded.as_deref().unwrap_or("{}"))
    }

    /// Compares the numbers of rows if this command has opened the copy.
    fn compare_rows(&self) -> Result {
        let Moving { map, output, source, target, .. } = self;
        if let Some(snapshot) = &self.snapshot {
            output.step("Comparing the numbers of rows");
            cutover::compare_rows(map, source, target, snapshot)?;
        } else if map.recorded(self.source.shard, "rows")?.is_none() {
            output.warn(&format!(
                "the numbers of rows on {} and {} were not compared, since the command was interrupted",
                source.name, target.name
            ));
        }
        Ok(())
    }

    fn resume_writes(&self) -> Result {
        self.map.check_lock()?;
        let sequences = self.map.sequences(self.source.shard);
        let opened = sequences.and_then(|sequences| self.source.open_shard(&sequences));
        let ended = opened.map_err(|cause| match cause {
            Error::Failed { .. } => self.stopped_if(true, cause),
            cause => cause,
        })?;
        cutover::warn_of_ended(ended, &self.source, self.output);
        self.output.step(format!("Writes continue on {} for now", self.source.name));
        Ok(())
    }

    /// Records a change of the schema that this error reports, so that the move is not resumed even
    /// if the change is undone: meanwhile rows of another table can have been copied, or changes of
    /// rows ignored. Returns the error.
    fn record_change_in(&self, cause: Error) -> Error {
        if let Some((server, objects)) = cause.change() {
            let new = objects.iter().filter(|object| !object.starts_with(EARLIER));
            let changes: Vec<_> = new.map(|object| format!("{EARLIER}{object}")).collect();
            let shard = self.source.shard;
            let record = || self.map.record_changes(shard, server, &changes);
            if !changes.is_empty()
                && let Err(error) = interrupt::hold_off(record)
            {
                self.output.warn(&format!(
                    "{error}; run cancel {shard} even if the schema is changed back"
                ));
            }
        }
        cause
    }

    fn begin_anew(&mut self) -> Result<MoveStage> {
        self.undo()?;
        self.is_checked = false;
        Ok(MoveStage::None)
    }

    fn undo(&self) -> Result {
        self.require_names()?;
        // First the publication, so that a later `move` does not continue with this copy. It could
        // not: a new subscription would copy the rows again.
        replication::unpublish(&self.source)?;
        replication::remove(&self.source, &self.target)?;
        let Server { schema, name: to, .. } = &self.target;
        let copy = self.map.recorded(self.source.shard, "copy_definition")?;
        if copy.is_some() && self.target.has_schema()? && !self.has_schema_of_this_move()? {
            fail!(
                "schema {schema} on {} was dropped or replaced since the move began, so the copy on {to} may be the last one: \
                 take what you need from it, drop schema {schema} on {to}, and run this again",
                self.source.name
            );
        }
        self.source.drop_triggers()?;
        // It is recorded before it is created.
        if let Some(copy) = copy {
            replication::drop_copy(&self.target, &copy, false)?;
        }
        self.map.forget_move(self.source.shard)
    }

    /// The error, which also says so if no server accepts writes to the shard.
    fn stopped_if(&self, is_stopped: bool, cause: Error) -> Error {
        stopped_if(self.source.shard, is_stopped, cause)
    }

    fn foreign_copy(&self) -> Error {
        Error::failed(format!(
            "schema {} on {} was not created by this move, or was changed since: \
             run cancel {}, which says what to do",
            self.target.schema, self.target.name, self.source.shard
        ))
    }
}

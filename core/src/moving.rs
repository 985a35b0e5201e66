//! Determines the next step of moving a shard from one server to another.
//!
//! The command that moves shards does not store the state of a move itself. Before each step it
//! inspects the map and both servers, and calls a function of this module. So a move can be
//! interrupted and resumed between any two steps.

/// The stage of a move, as the map records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MoveStage {
    /// The map has no move of this shard.
    None,
    /// The rows are being copied. The shard is on the source.
    Begun,
    /// The map names the target. The subscription and the publication may still exist.
    Switched,
    /// Only the old copy is left.
    Finished,
}

/// The state of the function `shard_is_elsewhere()` of a superuser or of the role of the command,
/// which marks a schema with it. The owner of the schema can drop this function, but cannot create
/// one that such a role owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SchemaMark {
    /// There is no such function.
    None,
    /// The shard rejects writes.
    Closed,
    /// The shard has rejected writes, and accepts them again.
    Opened,
    /// A routine of that name exists, and is not a function of a superuser.
    Foreign,
}

/// The state of the shard's schema on the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TargetCopy {
    /// No schema of that name.
    Absent,
    /// The copy of this move, which rejects writes.
    Closed,
    /// The copy of this move, which accepts writes.
    Opened,
    /// A schema that is not marked as the copy of a move.
    Foreign,
}

impl TargetCopy {
    pub fn of(has_schema: bool, mark: SchemaMark) -> TargetCopy {
        match mark {
            _ if !has_schema => TargetCopy::Absent,
            SchemaMark::Opened => TargetCopy::Opened,
            SchemaMark::Closed => TargetCopy::Closed,
            SchemaMark::None | SchemaMark::Foreign => TargetCopy::Foreign,
        }
    }
}

/// The state of a move, as found in the map and on both servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MoveState {
    pub stage: MoveStage,
    /// Whether the shard rejects writes on the source.
    pub is_source_closed: bool,
    pub has_publication: bool,
    pub copy: TargetCopy,
    pub has_subscription: bool,
}

/// A step of a move. An interrupted step leaves a state from which another step can continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Check everything that could fail later, and record the move in the map.
    Begin,
    /// Allow writes on the source again: an earlier command was interrupted while they were
    /// stopped.
    ResumeWrites,
    /// Publish the schema on the source.
    Publish,
    /// Create the schema on the target, closed.
    CreateCopy,
    /// Subscribe to the publication on the target.
    Subscribe,
    /// Wait until the rows are copied, stop writes on the source, open the copy, and change the
    /// map.
    CutOver,
    /// Change the map: the copy is open, so the shard is on the target.
    ChangeMap,
    /// Drop the subscription and the publication, and record that the move is finished.
    CleanUp,
    /// Remove all that the move has created, beginning with the publication.
    Undo,
}

/// Why there is no next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoStep {
    /// There is no move to cancel.
    NotMoving,
    /// The map names the target already.
    Switched,
    /// The move is complete, and has left an old copy.
    Finished,
    /// Clients may have written to the copy.
    CopyIsOpen,
    /// The schema on the target was not created by this move, or was changed since.
    ForeignCopy,
}

/// The next step of a move. [`Step::CutOver`] both closes the source and opens the copy. So if an
/// earlier command has left the source closed, it is opened first, because the copy may still need
/// a long time to catch up. [`Step::Undo`] drops the publication first. So a copy without a
/// publication shows that a [`Step::Undo`] was interrupted. The move then removes the copy, and
/// begins anew.
pub fn next_step(seen: MoveState) -> Result<Step, NoStep> {
    match seen.stage {
        MoveStage::None => Ok(Step::Begin),
        MoveStage::Switched => Ok(Step::CleanUp),
        MoveStage::Finished => Err(NoStep::Finished),
        MoveStage::Begun => match seen.copy {
            TargetCopy::Opened => Ok(Step::ChangeMap),
            // Only the owner of an open copy can remove its marks, and clients may have written to
            // it. So the source stays closed.
            TargetCopy::Foreign => Err(NoStep::ForeignCopy),
            _ if seen.is_source_closed => Ok(Step::ResumeWrites),
            _ if !seen.has_publication => match seen.copy {
                TargetCopy::Absent if !seen.has_subscription => Ok(Step::Publish),
                // A new subscription would copy the rows again, and the existing one has lost
                // changes.
                _ => Ok(Step::Undo),
            },
            TargetCopy::Absent => Ok(Step::CreateCopy),
            TargetCopy::Closed if !seen.has_subscription => Ok(Step::Subscribe),
            TargetCopy::Closed => Ok(Step::CutOver),
        },
    }
}

/// The next step of cancelling a move; after `Undo` there is none.
pub fn next_step_back(seen: MoveState) -> Result<Step, NoStep> {
    match seen.stage {
        MoveStage::None => Err(NoStep::NotMoving),
        MoveStage::Switched | MoveStage::Finished => Err(NoStep::Switched),
        MoveStage::Begun => match seen.copy {
            TargetCopy::Opened => Err(NoStep::CopyIsOpen),
            TargetCopy::Foreign => Err(NoStep::ForeignCopy),
            _ if seen.is_source_closed => Ok(Step::ResumeWrites),
            _ => Ok(Step::Undo),
        },
    }
}

/// Whether a command must read the mark of the copy after a failed cutover, before it allows writes
/// on the source. `may_be_open`: this command may have opened it. `is_alone`: no other command can
/// have opened it, since this one holds the lock, or has had a session on the source, for which
/// others wait, since it held the lock.
pub fn must_read_mark(may_be_open: bool, is_alone: bool) -> bool {
    may_be_open || !is_alone
}

/// The server on which writes continue after a failed cutover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resume {
    /// On the source, which is open.
    OnSource,
    /// On the source, which must be opened.
    OpenSource,
    /// On the target, whose copy is open.
    OnTarget,
    /// The command allows no writes: the copy may be open, or another command may have closed the
    /// source.
    Nowhere,
}

/// Determines where writes continue after a failed cutover. `mark` is that of the copy, or `None`
/// if [`must_read_mark`] is false. The command records the definitions of the sequences before a
/// cutover can fail in this way, so it can restore them on the source.
pub fn resume(mark: Option<SchemaMark>, is_source_closed: bool) -> Resume {
    match mark {
        Some(SchemaMark::Opened) => Resume::OnTarget,
        Some(SchemaMark::None | SchemaMark::Foreign) => Resume::Nowhere,
        Some(SchemaMark::Closed) | None if !is_source_closed => Resume::OnSource,
        Some(SchemaMark::Closed) | None => Resume::OpenSource,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All combinations of states.
    fn all() -> Vec<MoveState> {
        let copies =
            [TargetCopy::Absent, TargetCopy::Closed, TargetCopy::Opened, TargetCopy::Foreign];
        let mut all = Vec::new();
        for stage in [MoveStage::None, MoveStage::Begun, MoveStage::Switched, MoveStage::Finished] {
            for copy in copies {
                for bits in 0..8 {
                    all.push(MoveState {
                        stage,
                        is_source_closed: bits & 1 > 0,
                        has_publication: bits & 2 > 0,
                        copy,
                        has_subscription: bits & 4 > 0,
                    });
                }
            }
        }
        all
    }

    /// The state after a successful step.
    fn after(step: Step, mut seen: MoveState) -> MoveState {
        match step {
            Step::Begin => seen.stage = MoveStage::Begun,
            Step::ResumeWrites => seen.is_source_closed = false,
            Step::Publish => seen.has_publication = true,
            Step::CreateCopy => seen.copy = TargetCopy::Closed,
            Step::Subscribe => seen.has_subscription = true,
            Step::CutOver => {
                seen.is_source_closed = true;
                seen.copy = TargetCopy::Opened;
            }
            Step::ChangeMap => seen.stage = MoveStage::Switched,
            Step::CleanUp => {
                (seen.has_publication, seen.has_subscription) = (false, false);
                seen.stage = MoveStage::Finished;
            }
            Step::Undo => {
                (seen.has_publication, seen.has_subscription) = (false, false);
                seen.copy = TargetCopy::Absent;
                seen.stage = MoveStage::None;
            }
        }
        seen
    }

    #[test]
    fn every_move_ends() {
        for start in all() {
            let mut seen = start;
            let refusal = (0..11).find_map(|_| match next_step(seen) {
                Ok(step) => {
                    seen = after(step, seen);
                    None
                }
                Err(refusal) => Some(refusal),
            });
            assert!(refusal.is_some(), "{start:?} does not end");
            if refusal == Some(NoStep::Finished)
                && start.stage == MoveStage::None
                && start.copy == TargetCopy::Absent
            {
                assert!(seen.is_source_closed, "{start:?}: both copies accept writes");
            }
        }
    }

    #[test]
    fn a_copy_is_opened_only_after_the_source_is_closed() {
        for seen in all() {
            if next_step(seen) == Ok(Step::CutOver) {
                assert_eq!(seen.copy, TargetCopy::Closed);
                assert!(
                    seen.has_publication && seen.has_subscription && !seen.is_source_closed,
                    "{seen:?}"
                );
            }
            // If the copy accepts writes, no step allows writes on the source.
            if seen.stage == MoveStage::Begun
                && [TargetCopy::Opened, TargetCopy::Foreign].contains(&seen.copy)
            {
                assert!(
                    ![Ok(Step::ResumeWrites), Ok(Step::Undo)].contains(&next_step(seen)),
                    "{seen:?}"
                );
                let refusal = if seen.copy == TargetCopy::Opened {
                    NoStep::CopyIsOpen
                } else {
                    NoStep::ForeignCopy
                };
                assert_eq!(next_step_back(seen), Err(refusal), "{seen:?}");
            }
        }
    }

    #[test]
    fn source_is_opened_only_while_the_copy_is_closed() {
        for mark in [
            None,
            Some(SchemaMark::None),
            Some(SchemaMark::Closed),
            Some(SchemaMark::Opened),
            Some(SchemaMark::Foreign),
        ] {
            for is_closed in [false, true] {
                let resume = resume(mark, is_closed);
                let may_open = is_closed && [None, Some(SchemaMark::Closed)].contains(&mark);
                assert_eq!(resume == Resume::OpenSource, may_open, "{mark:?}");
                assert_eq!(
                    resume == Resume::OnTarget,
                    mark == Some(SchemaMark::Opened),
                    "{mark:?}"
                );
                assert!(resume != Resume::OnSource || !is_closed, "{mark:?}");
            }
        }
        assert!(!must_read_mark(false, true));
        assert!(
            must_read_mark(true, true)
                && must_read_mark(false, false)
                && must_read_mark(true, false)
        );
    }

    #[test]
    fn copy_without_a_publication_is_not_continued() {
        for seen in
            all().into_iter().filter(|seen| seen.stage == MoveStage::Begun && !seen.has_publication)
        {
            let continues = [Ok(Step::CreateCopy), Ok(Step::Subscribe), Ok(Step::CutOver)];
            assert!(!continues.contains(&next_step(seen)), "{seen:?}");
            if next_step(seen) == Ok(Step::Publish) {
                assert!(seen.copy == TargetCopy::Absent && !seen.has_subscription, "{seen:?}");
            }
        }
    }

    #[test]
    fn schema_without_a_mark_is_foreign() {
        assert_eq!(TargetCopy::of(false, SchemaMark::None), TargetCopy::Absent);
        assert_eq!(TargetCopy::of(true, SchemaMark::Closed), TargetCopy::Closed);
        assert_eq!(TargetCopy::of(true, SchemaMark::Opened), TargetCopy::Opened);
        assert_eq!(TargetCopy::of(true, SchemaMark::None), TargetCopy::Foreign);
        assert_eq!(TargetCopy::of(true, SchemaMark::Foreign), TargetCopy::Foreign);
    }

    #[test]
    fn cancelling_ends_where_the_move_began() {
        for mut seen in all() {
            while let Ok(step) = next_step_back(seen) {
                seen = after(step, seen);
                if step == Step::Undo {
                    assert_eq!((seen.stage, seen.copy), (MoveStage::None, TargetCopy::Absent));
                    assert!(
                        !seen.is_source_closed && !seen.has_publication && !seen.has_subscription
                    );
                    break;
                }
            }
        }
    }
}

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
    Unmarked,
    /// The shard rejects writes.
    Closed,
    /// The shard has rejected writes, and accepts them again.
    Opened,
    /// A routine of that name exists, and is not a function of a superuser.
    Foreign,
}

/// The state of a move, as found in the map and on both servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MoveState {
    pub stage: MoveStage,
    /// Whether the shard rejects writes on the source.
    pub is_source_closed: bool,
    pub has_publication: bool,
    /// The mark of the shard's schema on the target, or `None` if there is no such schema. A schema
    /// that is neither closed nor opened is not the copy of this move.
    pub copy: Option<SchemaMark>,
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
            Some(SchemaMark::Opened) => Ok(Step::ChangeMap),
            // Only the owner of an open copy can remove its marks, and clients may have written to
            // it. So the source stays closed.
            Some(SchemaMark::Unmarked | SchemaMark::Foreign) => Err(NoStep::ForeignCopy),
            _ if seen.is_source_closed => Ok(Step::ResumeWrites),
            None if !seen.has_publication && !seen.has_subscription => Ok(Step::Publish),
            // A new subscription would copy the rows again, and the existing one has lost changes.
            _ if !seen.has_publication => Ok(Step::Undo),
            None => Ok(Step::CreateCopy),
            Some(SchemaMark::Closed) if !seen.has_subscription => Ok(Step::Subscribe),
            Some(SchemaMark::Closed) => Ok(Step::CutOver),
        },
    }
}

/// The next step of cancelling a move, whose stage must be `Begun`; after `Undo` there is none.
pub fn next_step_back(seen: MoveState) -> Result<Step, NoStep> {
    debug_assert_eq!(seen.stage, MoveStage::Begun);
    match next_step(seen)? {
        Step::ChangeMap => Err(NoStep::CopyIsOpen),
        Step::ResumeWrites => Ok(Step::ResumeWrites),
        _ => Ok(Step::Undo),
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
        Some(SchemaMark::Unmarked | SchemaMark::Foreign) => Resume::Nowhere,
        Some(SchemaMark::Closed) | None if !is_source_closed => Resume::OnSource,
        Some(SchemaMark::Closed) | None => Resume::OpenSource,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each mark, and none.
    const MARKS: [Option<SchemaMark>; 5] = [
        None,
        Some(SchemaMark::Unmarked),
        Some(SchemaMark::Closed),
        Some(SchemaMark::Opened),
        Some(SchemaMark::Foreign),
    ];

    /// All combinations of states.
    fn all() -> Vec<MoveState> {
        let mut all = Vec::new();
        for stage in [MoveStage::None, MoveStage::Begun, MoveStage::Switched, MoveStage::Finished] {
            for copy in MARKS {
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

    #[test]
    fn a_copy_is_opened_only_after_the_source_is_closed() {
        for seen in all() {
            if next_step(seen) == Ok(Step::CutOver) {
                assert_eq!(seen.copy, Some(SchemaMark::Closed));
                assert!(
                    seen.has_publication && seen.has_subscription && !seen.is_source_closed,
                    "{seen:?}"
                );
            }
            // If the copy accepts writes, no step allows writes on the source.
            let refusal = match seen.copy {
                Some(SchemaMark::Opened) => NoStep::CopyIsOpen,
                Some(SchemaMark::Unmarked | SchemaMark::Foreign) => NoStep::ForeignCopy,
                Some(SchemaMark::Closed) | None => continue,
            };
            if seen.stage == MoveStage::Begun {
                assert!(
                    ![Ok(Step::ResumeWrites), Ok(Step::Undo)].contains(&next_step(seen)),
                    "{seen:?}"
                );
                assert_eq!(next_step_back(seen), Err(refusal), "{seen:?}");
            }
        }
    }

    #[test]
    fn source_is_opened_only_while_the_copy_is_closed() {
        for mark in MARKS {
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
                assert!(seen.copy.is_none() && !seen.has_subscription, "{seen:?}");
            }
        }
    }
}

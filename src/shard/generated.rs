//! The ids that a call generates, such as the one in the default of a column.

use crate::pg::catalog::{self, Function};
use crate::pg::parsed_body::Expression;
use crate::sequence::IdSequence;
use crate::shard::ddl;
use instagram_id_core::epoch::Epoch;
use instagram_id_core::layout::Shard;
use pgrx::pg_sys::{self, Oid};

/// The ids, as the function and the constants among the arguments show them.
pub enum Generated {
    /// Those of a shard, by its own `next_id()`.
    Function(Shard, IdSequence),
    /// Those of the shard that the session's setting names.
    Setting,
    /// Those of the shard with this number, if that is a constant.
    Number(Option<Shard>),
    /// Those of a sequence, for this shard, by this epoch.
    Sequence(Option<Shard>, Option<Epoch>),
    /// The same for the node.
    Node(Option<Epoch>),
}

/// `None` if the function is neither one of the extension's that generate ids, nor like a shard's
/// `next_id()`.
pub fn by_call(
    function: &Function,
    arguments: &[Expression],
    own_schema: Oid,
) -> Option<Generated> {
    if let Some((shard, sequence)) = ddl::ids_of(function, own_schema) {
        return Some(Generated::Function(shard, sequence));
    }
    let types = [pg_sys::INT4OID, pg_sys::REGCLASSOID, pg_sys::TIMESTAMPTZOID];
    let is_own = |name: &str, types: &[Oid]| {
        catalog::function_in(own_schema, name, types).is_some_and(|own| own.oid == function.oid)
    };
    let number = |argument: &Expression| {
        let number = argument.constant(pg_sys::INT4OID)?;
        Shard::new(number.value() as i32)
    };
    let epoch = |argument: &Expression| argument.time().and_then(Epoch::new);
    let original = Some(Epoch::ORIGINAL);
    Some(match arguments {
        [] if is_own("next_id", &[]) => Generated::Setting,
        [shard] if is_own("next_id", &types[..1]) => Generated::Number(number(shard)),
        [shard, _] if is_own("next_id", &types[..2]) => {
            Generated::Sequence(number(shard), original)
        }
        [shard, _, at] if is_own("next_id", &types) || is_own("shard_next_id", &types) => {
            Generated::Sequence(number(shard), epoch(at))
        }
        [_] if is_own("node_next_id", &types[1..]) => Generated::Node(original),
        [_, at] if is_own("node_next_id", &types[1..]) => Generated::Node(epoch(at)),
        _ => return None,
    })
}

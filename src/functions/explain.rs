//! `id_explain(id)`: shows all fields of an id, for people.

use crate::arguments;
use crate::error::Error;
use crate::functions::decode;
use crate::pg::names;
use crate::shard::definition;
use instagram_id_core::epoch::{Epoch, TimestampUs, US_PER_MS};
use instagram_id_core::layout::{self, SEQ_BITS, SHARD_BITS, TIME_BITS};
use instagram_id_core::shortcode;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// `id_explain(id, epoch)`. The default epoch is that of the id's shard if the shard is in this
/// database, otherwise the original's.
#[pg_extern(sql = false)]
fn id_explain(
    id: Option<i64>,
    epoch: Option<TimestampWithTimeZone>,
) -> Result<TableIterator<'static, (name!(field, &'static str), name!(value, String))>, ErrorReport>
{
    let rows = match id {
        Some(id) => explain(id, epoch)?,
        None => vec![],
    };
    Ok(TableIterator::new(rows))
}

fn explain(
    id: i64,
    epoch: Option<TimestampWithTimeZone>,
) -> Result<Vec<(&'static str, String)>, Error> {
    let (ms, shard, seq) = (layout::ms_of(id), layout::shard_of(id), layout::seq_of(id));
    let asked = epoch.map(arguments::epoch).transpose()?;
    let (schema, own_epoch) = match definition::find(shard) {
        Ok(Some(shard)) => (names::schema(shard.schema), Some(shard.sequence.epoch)),
        Ok(None) => ("not in this database".into(), None),
        Err(Error::ShardAmbiguous { .. }) if asked.is_some() => {
            ("defined by more than one schema".into(), None)
        }
        Err(Error::DefinitionOfAnother { function, .. }) if asked.is_some() => (function, None),
        Err(error) => return Err(error),
    };
    let epoch = asked.or(own_epoch).unwrap_or(Epoch::ORIGINAL);
    let time: TimestampUs = decode::time_of(id, epoch)?.into();
    let age_s = (names::now() - time) / (1000 * US_PER_MS);
    let age = names::duration(age_s.abs());
    Ok(vec![
        ("id", id.to_string()),
        ("time", names::time(time)),
        ("age", if age_s < 0 { format!("{age} ahead of the clock") } else { age }),
        ("shard", shard.number().to_string()),
        ("schema", schema),
        ("sequence", seq.number().to_string()),
        ("epoch", names::time(epoch.at())),
        ("milliseconds", ms.to_string()),
        ("short code", shortcode::encode(id)),
        (
            "bits",
            format!(
                "{ms:0time$b} {shard:0shards$b} {seq:0seqs$b}",
                shard = shard.number(),
                seq = seq.number(),
                time = TIME_BITS as usize,
                shards = SHARD_BITS as usize,
                seqs = SEQ_BITS as usize,
            ),
        ),
    ])
}

//! Compares the bits of ids and the time arithmetic with the specification, computed in numbers
//! that cannot overflow.
#![no_main]

#[allow(dead_code)]
#[path = "../../tests/live/src/spec.rs"]
mod spec;

use instagram_id_core::epoch::Epoch;
use instagram_id_core::layout::{
    Seq, Shard, id_of, ms_of, pack, seq_of, shard_for, shard_of, value_of,
};
use instagram_id_core::shortcode;
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = check(&mut Unstructured::new(data));
});

fn check(data: &mut Unstructured) -> Result<()> {
    let (id, other): (i64, i64) = (data.arbitrary()?, data.arbitrary()?);
    let parts = |id| (ms_of(id), shard_of(id), seq_of(id));
    let numbers = |id| (ms_of(id), shard_of(id).number(), seq_of(id).number());
    let (ms, shard, seq) = parts(id);
    assert_eq!(pack(ms, shard, seq), id);
    assert_eq!(id_of(value_of(id), shard), id);
    let widened = |id| {
        let (ms, shard, seq) = numbers(id);
        (i128::from(ms), i128::from(shard), i128::from(seq))
    };
    assert_eq!(widened(id), spec::fields(id));
    assert_eq!((id as u64).cmp(&(other as u64)), numbers(id).cmp(&numbers(other)));

    let (key, shards) = (data.arbitrary()?, data.int_in_range(-2..=8200)?);
    let found = shard_for(key, shards).map(|shard| i32::from(shard.number()));
    assert_eq!(found, spec::shard_for(key, shards).ok());

    let epoch_at = time(data, spec::ORIGINAL_EPOCH)?;
    let time = time(data, epoch_at)?;
    let (shard, seq) = (data.int_in_range(-2..=8200)?, data.int_in_range(-2..=1030)?);
    let epoch = Epoch::new(epoch_at);
    assert_eq!(epoch.is_some(), spec::is_finite(epoch_at));
    let made = epoch
        .zip(Shard::new(shard))
        .zip(Seq::new(seq))
        .and_then(|((epoch, shard), seq)| Some(pack(epoch.ms_at(time).ok()?, shard, seq)));
    assert_eq!(made, spec::make_id(time, shard, seq, epoch_at).ok());
    let floor = epoch.and_then(|epoch| Some(pack(epoch.ms_from(time).ok()?, Shard::MIN, Seq::MIN)));
    assert_eq!(floor, spec::id_floor(time, epoch_at).ok());
    let decoded = epoch.and_then(|epoch| epoch.time_of(ms_of(id)));
    assert_eq!(decoded, spec::id_time(id, epoch_at).ok());

    let code = shortcode::encode(id);
    assert_eq!(code, spec::id_to_shortcode(id));
    assert_eq!(shortcode::decode(&code), Ok(id));
    // Often a valid code, or one with a character too many.
    let text = match data.int_in_range(0..=2u8)? {
        0 => data.arbitrary::<String>()?,
        1 => format!(
            "{}{code}",
            data.choose(&["", "A", "AAAAAAAAAAAA", "B", "P", "Q", "_", "=", "é"])?
        ),
        _ => {
            let digits: Vec<char> = DIGITS.chars().collect();
            let len = data.int_in_range(0..=13)?;
            (0..len).map(|_| data.choose(&digits)).collect::<Result<String>>()?
        }
    };
    assert_eq!(shortcode::decode(&text).ok(), spec::shortcode_to_id(&text).ok(), "{text:?}");
    Ok(())
}

/// The digits of short codes and a few other characters.
const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+=é";

/// Any timestamptz, or one near `near`, or one near the edges of the time field that starts there.
fn time(data: &mut Unstructured, near: i64) -> Result<i64> {
    let field = [0, spec::POSITIVE_MS * 1000, spec::FIELD_MS * 1000];
    let edges = [spec::INFINITY, spec::MINUS_INFINITY, spec::FIRST_TIME, spec::LAST_TIME];
    let at: i64 = match data.int_in_range(0..=3u8)? {
        0 => return Ok(*data.choose(&edges)?),
        1 => data.arbitrary()?,
        2 => near.saturating_add(data.int_in_range(-1000..=spec::FIELD_MS * 1000)?),
        _ => near.saturating_add(*data.choose(&field)? + data.int_in_range(-1001..=1001)?),
    };
    Ok(at.clamp(spec::FIRST_TIME, spec::LAST_TIME))
}

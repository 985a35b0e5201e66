//! The generator's rule under any history of sessions, clock jumps, crashes, checkpoints and plain
//! nextval. The model asserts that values only grow and that the value in WAL is never below an
//! issued one; see core/src/model.rs.
#![no_main]

use instagram_id_core::hlc::{
    LEAD_MS, LOG_AHEAD_MIN_MS, LOG_AHEAD_MS, Next, State, VALUE_MAX, VALUES_PER_MS, ms_of,
};
use instagram_id_core::model::{Event, SESSIONS, Server};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});

fn run(data: &mut Unstructured) -> Result<()> {
    let clock = number(data)? >> 10;
    let last_value = if data.arbitrary()? {
        // Near the clock, like a shard in use.
        (clock + data.int_in_range(-4_000_000..=4_000_000)?)
            .saturating_mul(VALUES_PER_MS)
            .saturating_add(data.int_in_range(0..=1023)?)
    } else {
        number(data)?
    };
    let mut server = Server::new(State { last_value, is_called: data.arbitrary()? }, clock);
    // The most by which the sequence may be ahead of the clock; None after the clock or the
    // sequence has been set.
    let lead = |server: &Server| ms_of(server.page.last_value).saturating_sub(server.clock());
    let mut bound = server.page.is_called.then(|| lead(&server).max(LEAD_MS));
    while !data.is_empty() {
        let event = event(data)?;
        bound = match event {
            Event::Jump { .. } | Event::Nextval => None,
            Event::Crash => bound.map(|lead| lead.max(LOG_AHEAD_MS) + LOG_AHEAD_MIN_MS),
            _ => bound,
        };
        server.handle(event);
        if let Some(bound) = bound {
            assert!(lead(&server) <= bound, "{} ms ahead of the clock, not {bound}", lead(&server));
        }
        match server.refused.take() {
            None => {}
            Some(Next::Exhausted) => {
                assert!(server.page.is_called && server.page.last_value >= VALUE_MAX)
            }
            Some(Next::ClockBeforeEpoch) => assert!(server.clock() < 0),
            Some(Next::ClockPastField) => assert!(server.clock() >= 1 << 40),
            Some(other) => panic!("{other:?} is no refusal"),
        }
    }
    Ok(())
}

fn event(data: &mut Unstructured) -> Result<Event> {
    Ok(match data.arbitrary::<u8>()? % 16 {
        0 => Event::Crash,
        1 => Event::Checkpoint,
        2 => Event::Nextval,
        3 => Event::Jump { ms: number(data)? },
        4 => Event::Jump { ms: data.int_in_range(-3..=3)? },
        5..=7 => Event::Pass { ms: data.int_in_range(0..=2)? },
        8 => Event::Pass { ms: data.int_in_range(0..=10_000_000)? },
        9 => Event::Come { session: data.int_in_range(0..=SESSIONS - 1)? },
        kind => Event::Ask {
            session: usize::from(kind) % SESSIONS,
            want: if data.arbitrary()? { 1 } else { data.int_in_range(1..=5000)? },
        },
    })
}

/// A number whose length in bits is uniformly distributed.
fn number(data: &mut Unstructured) -> Result<i64> {
    let bits = data.int_in_range(0..=63)?;
    Ok(data.arbitrary::<i64>()? >> bits)
}

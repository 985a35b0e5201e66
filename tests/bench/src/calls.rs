//! The CPU time of a call: of the id generators, below the format's limit, and of the decoders.

use crate::contestants::{Contestant, SEQUENCES};
use crate::rounds::Rounds;
use crate::session::Session;
use instagram_id_live::{Server, run};
use postgres::Statement;

/// Nanoseconds of CPU time per call, with calls spread over so many sequences that none comes near
/// the limit.
pub fn of_makers(server: &Server, rounds: usize, contestants: &[Contestant]) -> Rounds<Contestant> {
    const ROWS: usize = 2000;
    let mut session = Session::of(server.connect());
    let statements: Vec<(Contestant, Statement)> = contestants
        .iter()
        .map(|&contestant| {
            let calls: Vec<String> = (0..SEQUENCES).map(|n| contestant.call(n)).collect();
            // The planner does not remove volatile columns.
            let all_of_them =
                format!("SELECT {} FROM generate_series(1, {ROWS}) OFFSET 0", calls.join(", "));
            (contestant, session.prepare(&format!("SELECT count(*) FROM ({all_of_them}) AS made")))
        })
        .collect();
    Rounds::of("CPU time of a call", rounds, contestants, |contestant| {
        let (_, statement) = statements.iter().find(|(of, _)| *of == contestant).unwrap();
        session.cpu_ns(statement) / (SEQUENCES * ROWS) as f64
    })
}

/// A decoder, or an expression that computes the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Decoding {
    pub expression: &'static str,
}

/// Each decoder of the extension, and the same arithmetic inline.
pub const DECODERS: [[Decoding; 2]; 3] = [
    of("id_time(id)", "to_timestamp(((id >> 23) + 1314220021721)::float8 / 1000)"),
    of("id_shard(id)", "((id >> 10) & 8191)::int"),
    of("id_seq(id)", "(id & 1023)::int"),
];

const fn of(ours: &'static str, inline: &'static str) -> [Decoding; 2] {
    [Decoding { expression: ours }, Decoding { expression: inline }]
}

/// Nanoseconds of CPU time of an expression, minus those of a plain column in its place.
pub fn of_decoders(server: &Server, rounds: usize) -> Rounds<Decoding> {
    const ROWS: usize = 50_000;
    const TIMES: usize = 50;
    let mut session = Session::of(server.connect());
    run(
        &mut session.client,
        &format!("CREATE TEMPORARY TABLE ids AS SELECT next_ids(5, {ROWS}) AS id; ANALYZE ids"),
    );
    let mut statement = |expression: &str| {
        let columns = [expression; TIMES].join(", ");
        session.prepare(&format!("SELECT count(num_nonnulls({columns})) FROM ids"))
    };
    let column = statement("id");
    let all = DECODERS.as_flattened();
    let statements: Vec<Statement> =
        all.iter().map(|decoding| statement(decoding.expression)).collect();
    Rounds::of("CPU time of the decoders", rounds, all, |decoding| {
        let index = all.iter().position(|is| *is == decoding).unwrap();
        (session.cpu_ns(&statements[index]) - session.cpu_ns(&column)) / (ROWS * TIMES) as f64
    })
}

//! Random values, most of them at the edges, through every function that the extension installs: the right answer by
//! the specification, or one of the SQLSTATEs that the README names for it; and never a crash.

use fastrand::Rng;
use instagram_id_live::spec::*;
use instagram_id_live::*;
use postgres::Client;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Instant;

/// How many calls of each function.
fn calls() -> usize {
    length(20_000, 1_000_000)
}

const BATCH: usize = 5000;

/// `f(0), f(1), ...`
fn list(count: usize, f: impl Fn(usize) -> String) -> String {
    (0..count).map(f).collect::<Vec<_>>().join(", ")
}

/// A function in the database that makes a call, `a0`, `a1`, ... in it, for each row of arguments, and returns the
/// bigint or the SQLSTATE that came of it.
struct Attempt {
    call: String,
    types: &'static [&'static str],
}

impl Attempt {
    /// Makes it, for this session.
    fn new(client: &mut Client, call: &str, types: &'static [&'static str]) -> Attempt {
        let of = |f: &dyn Fn(usize, &str) -> String| list(types.len(), |n| f(n, types[n]));
        let helper = format!(
            "CREATE OR REPLACE FUNCTION pg_temp.attempt({}) RETURNS TABLE (value bigint, state text)
             LANGUAGE plpgsql AS $helper$
             DECLARE {};
             BEGIN
                 FOR {} IN SELECT * FROM unnest({}) LOOP
                     state := NULL;
                     BEGIN
                         SELECT {call} INTO value;
                     EXCEPTION WHEN OTHERS THEN
                         value := NULL;
                         state := SQLSTATE;
                     END;
                     RETURN NEXT;
                 END LOOP;
             END $helper$",
            of(&|n, ty| format!("p{n} {ty}[]")),
            of(&|n, ty| format!("a{n} {ty}")).replace(", ", "; "),
            of(&|n, _| format!("a{n}")),
            of(&|n, _| format!("p{n}")),
        );
        client.batch_execute("DROP FUNCTION IF EXISTS pg_temp.attempt").unwrap();
        client.batch_execute(&helper).unwrap_or_else(|error| panic!("{helper}: {error}"));
        Attempt { call: call.to_owned(), types }
    }

    /// What it changes in the catalogs is rolled back.
    fn run(&self, client: &mut Client, rows: &[&Arguments]) -> Vec<Result<Datum, String>> {
        let columns = columns(rows, self.types.len());
        let arguments = list(self.types.len(), |n| format!("${}::{}[]", n + 1, self.types[n]));
        let mut transaction = client.transaction().unwrap();
        let outcomes = transaction
            .query(&format!("SELECT value, state FROM pg_temp.attempt({arguments})"), &parameters(&columns))
            .unwrap_or_else(|error| panic!("{}: {error}", self.call));
        transaction.rollback().unwrap();
        let outcome = |row: &postgres::Row| match row.get::<_, Option<String>>(1) {
            Some(state) => Err(state),
            None => Ok(row.get(0)),
        };
        outcomes.iter().map(outcome).collect()
    }
}

/// How often what has come of a function's calls, and since when.
struct Tally {
    counts: BTreeMap<String, usize>,
    began: Instant,
}

impl Tally {
    fn new() -> Tally {
        Tally { counts: BTreeMap::new(), began: Instant::now() }
    }

    fn note(&mut self, outcome: &str) {
        *self.counts.entry(outcome.to_owned()).or_default() += 1;
    }

    /// Shows it. A function that never answers, or that never refuses where it can, has not been tested.
    fn show(&self, function: &str, calls: usize, can_fail: bool) {
        let counts: Vec<String> = self.counts.iter().map(|(outcome, n)| format!("{n} {outcome}")).collect();
        let shown = format!("{function}: {} in {:.1?}", counts.join(", "), self.began.elapsed());
        println!("{shown}");
        let answers = self.counts.get("answers").copied().unwrap_or_default();
        let all: usize = self.counts.values().sum();
        assert_eq!(all, calls, "{shown}");
        assert!(answers * 1000 >= all && (answers < all) == can_fail, "{shown}");
    }
}

/// What a session and its server must have survived.
struct Watch {
    server: Server,
    pid: i32,
}

impl Watch {
    fn start() -> (Watch, Client) {
        // Of the log, what tells of a crash is wanted.
        let server = Server::start(&[("fsync", "off"), ("log_min_messages", "log")]);
        let mut client = server.connect();
        let pid = one(&mut client, "SELECT pg_backend_pid()");
        client.batch_execute("SET client_min_messages = error").unwrap();
        setup(&mut client);
        (Watch { server, pid }, client)
    }

    fn check(self, client: &mut Client) {
        assert_eq!(one::<i32>(client, "SELECT pg_backend_pid()"), self.pid);
        drop(self.server); // which looks for a crash in its log
    }
}

// --- random values ----------------------------------------------------------------------------------------------

fn one_of<T: Clone>(rng: &mut Rng, values: &[T]) -> T {
    rng.choice(values).expect("some").clone()
}

fn edge_or_any(rng: &mut Rng, edges: &[i64], range: Range<i64>) -> i64 {
    if rng.bool() { one_of(rng, edges) } else { rng.i64(range) }
}

/// A number of any size, those near a power of two and near zero as likely as all others.
fn any_i64(rng: &mut Rng) -> i64 {
    let step = rng.i64(-2..=2);
    match rng.u8(..4) {
        0 => one_of(rng, &[i64::MIN, i64::MAX, 0]).wrapping_add(step),
        1 => (1i64 << rng.u8(..64)).wrapping_mul(one_of(rng, &[1, -1])).wrapping_add(step),
        2 => id_at_an_edge(rng),
        _ => rng.i64(..),
    }
}

fn id_at_an_edge(rng: &mut Rng) -> i64 {
    let ms = edge_or_any(rng, &[0, 1, POSITIVE_MS - 1, POSITIVE_MS, FIELD_MS - 1], 0..FIELD_MS);
    let shard = edge_or_any(rng, &[0, 1, 8190, 8191], 0..8192);
    let seq = edge_or_any(rng, &[0, 1, 1022, 1023], 0..1024);
    ms << 23 | shard << 10 | seq
}

/// Mostly a number from 0 to `most`, often at the edges of that, sometimes anything.
fn up_to(most: i32, rng: &mut Rng) -> i32 {
    match rng.u8(..8) {
        0 => one_of(rng, &[i32::MIN, i32::MAX, -1, most + 1, most + 2, 1 << 16, 1 << 13, 1 << 10]),
        1 => rng.i32(..),
        2 => one_of(rng, &[0, 1, most - 1, most]),
        _ => rng.i32(0..=most),
    }
}

/// Any timestamptz: infinities, BC, the far future.
fn any_time(rng: &mut Rng) -> i64 {
    match rng.u8(..4) {
        0 => one_of(rng, &[INFINITY, MINUS_INFINITY]),
        1 => finite(one_of(rng, &[FIRST_TIME, LAST_TIME, 0, ORIGINAL_EPOCH]), rng.i64(-1001..=1001)),
        _ => rng.i64(FIRST_TIME..=LAST_TIME),
    }
}

/// A time that lies so far from another, or the last one before or after.
fn finite(time: i64, offset: i64) -> i64 {
    time.saturating_add(offset).clamp(FIRST_TIME, LAST_TIME)
}

/// An epoch, often one in use.
fn any_epoch(rng: &mut Rng) -> i64 {
    let last_with_a_whole_field = LAST_TIME - FIELD_MS * 1000;
    match rng.u8(..4) {
        0 => any_time(rng),
        1 => finite(last_with_a_whole_field, rng.i64(-2000..=2000)),
        2 => rng.i64(FIRST_TIME..=last_with_a_whole_field),
        _ => one_of(rng, &[ORIGINAL_EPOCH, 0, -946_684_800_000_000, 347_155_200_000_000]),
    }
}

/// A time in an epoch's field, often at an edge of it; sometimes anywhere.
fn time_near(epoch: i64, rng: &mut Rng) -> i64 {
    let ms = match rng.u8(..8) {
        0 => return any_time(rng),
        1 | 2 => one_of(rng, &[0, 1, POSITIVE_MS, FIELD_MS]),
        _ => rng.i64(0..FIELD_MS),
    };
    let us = edge_or_any(rng, &[-1000, -999, -1, 0, 1, 999, 1000], -2000..2000);
    finite(epoch, ms * 1000 + us)
}

/// An argument of a pure function.
#[derive(Clone, Copy)]
enum Kind {
    Id,
    Key,
    Shard,
    Seq,
    Shards,
    Time,
    Epoch,
}

impl Kind {
    const fn sql_type(self) -> &'static str {
        match self {
            Kind::Id | Kind::Key => "bigint",
            Kind::Shard | Kind::Seq | Kind::Shards => "integer",
            Kind::Time | Kind::Epoch => "timestamptz",
        }
    }
}

/// Arguments that have to do with each other: times near the epoch, ids near the times.
fn arguments(kinds: &[Kind], rng: &mut Rng) -> Arguments {
    let has_epoch = kinds.iter().any(|kind| matches!(kind, Kind::Epoch));
    let epoch = if has_epoch { any_epoch(rng) } else { ORIGINAL_EPOCH };
    let mut earlier = None;
    let mut row: Vec<i64> = kinds
        .iter()
        .map(|kind| match kind {
            Kind::Id | Kind::Key => any_i64(rng),
            Kind::Shard => up_to(8191, rng).into(),
            Kind::Seq => up_to(1023, rng).into(),
            Kind::Shards => up_to(8192, rng).into(),
            Kind::Epoch => epoch,
            Kind::Time => {
                let time = match earlier {
                    Some(earlier) if rng.u8(..4) == 0 => finite(earlier, rng.i64(-2000..=2000)),
                    _ => time_near(epoch, rng),
                };
                earlier = Some(time);
                time
            }
        })
        .collect();
    let near = one_of(rng, &row);
    if let (Some(Kind::Id), Ok(floor)) = (kinds.first(), id_floor(near, epoch))
        && rng.bool()
    {
        row[0] = floor.wrapping_add(rng.i64(-2..=2));
    }
    let null = |n| if rng.u8(..100) == 0 { Datum::Null } else { Datum::Int(n) };
    row.into_iter().map(null).collect()
}

// --- the pure functions -------------------------------------------------------------------------------------------

type Answer = Result<Vec<Datum>, Faults>;

/// A function whose every answer is known beforehand.
struct Pure {
    name: &'static str,
    kinds: &'static [Kind],
    /// Of a row: its columns, where there are several.
    columns: &'static [&'static str],
    can_fail: bool,
    /// Given the arguments; of those without an epoch, with the original's as the last.
    answer: fn(&[Option<i64>]) -> Answer,
}

/// What a STRICT function makes of its arguments.
fn strict<const N: usize>(
    arguments: &[Option<i64>],
    columns: usize,
    f: impl Fn([i64; N]) -> Result<Vec<i64>, Faults>,
) -> Answer {
    let given: Option<Vec<i64>> = arguments[..N].iter().copied().collect();
    match given {
        Some(given) => Ok(f(given.try_into().expect("so many"))?.into_iter().map(Datum::Int).collect()),
        None => Ok(vec![Datum::Null; columns]),
    }
}

fn int(n: i64) -> i32 {
    n.try_into().expect("an integer")
}

const fn pure(name: &'static str, kinds: &'static [Kind], answer: fn(&[Option<i64>]) -> Answer) -> Pure {
    Pure { name, kinds, columns: &[], can_fail: true, answer }
}

const fn never_fails(pure: Pure) -> Pure {
    Pure { can_fail: false, ..pure }
}

const PARTS: &[&str] = &["created_at", "shard", "seq"];

fn time_answer(arguments: &[Option<i64>]) -> Answer {
    strict(arguments, 1, |[id, epoch]| Ok(vec![id_time(id, epoch)?]))
}

fn parts_answer(arguments: &[Option<i64>]) -> Answer {
    strict(arguments, 3, |[id, epoch]| {
        let (_, shard, seq) = fields(id);
        Ok(vec![id_time(id, epoch)?, shard as i64, seq as i64])
    })
}

fn make_answer(arguments: &[Option<i64>]) -> Answer {
    strict(arguments, 1, |[time, shard, seq, epoch]| Ok(vec![make_id(time, int(shard), int(seq), epoch)?]))
}

fn floor_answer(arguments: &[Option<i64>]) -> Answer {
    strict(arguments, 1, |[time, epoch]| Ok(vec![id_floor(time, epoch)?]))
}

fn range_end_answer(arguments: &[Option<i64>]) -> Answer {
    strict(arguments, 1, |[from, to, epoch]| Ok(vec![id_range_end(from, to, epoch)?]))
}

fn between_answer(arguments: &[Option<i64>]) -> Answer {
    let [id, from, to, epoch] = arguments[..4] else { unreachable!() };
    let is_between = id_between(id, from, to, epoch)?;
    Ok(vec![is_between.map_or(Datum::Null, |is| Datum::Int(is.into()))])
}

const PURE: &[Pure] = {
    use Kind::*;
    &[
        never_fails(pure("id_time", &[Id], time_answer)),
        pure("id_time", &[Id, Epoch], time_answer),
        pure("shard_id_time", &[Id, Epoch], time_answer),
        never_fails(pure("id_shard", &[Id], |a| strict(a, 1, |[id]| Ok(vec![fields(id).1 as i64])))),
        never_fails(pure("id_seq", &[Id], |a| strict(a, 1, |[id]| Ok(vec![fields(id).2 as i64])))),
        Pure { columns: PARTS, ..never_fails(pure("id_parts", &[Id], parts_answer)) },
        Pure { columns: PARTS, ..pure("id_parts", &[Id, Epoch], parts_answer) },
        pure("make_id", &[Time, Shard, Seq], make_answer),
        pure("make_id", &[Time, Shard, Seq, Epoch], make_answer),
        pure("id_floor", &[Time], floor_answer),
        pure("id_floor", &[Time, Epoch], floor_answer),
        pure("id_range_end", &[Time, Time], range_end_answer),
        pure("id_range_end", &[Time, Time, Epoch], range_end_answer),
        pure("id_between", &[Id, Time, Time], between_answer),
        pure("id_between", &[Id, Time, Time, Epoch], between_answer),
        pure("shard_for", &[Key, Shards], |a| {
            strict(a, 1, |[key, shards]| Ok(vec![shard_for(key, int(shards))?.into()]))
        }),
    ]
};

impl Pure {
    fn types(&self) -> &'static [&'static str] {
        Vec::leak(self.kinds.iter().map(|kind| kind.sql_type()).collect())
    }

    fn signature(&self) -> String {
        format!("{}({})", self.name, self.types().join(","))
    }

    fn expected(&self, row: &Arguments) -> Answer {
        let number = |datum: &Datum| if let Datum::Int(n) = datum { Some(*n) } else { None };
        let mut given: Vec<Option<i64>> = row.iter().map(number).collect();
        if !self.kinds.iter().any(|kind| matches!(kind, Kind::Epoch)) {
            given.push(Some(ORIGINAL_EPOCH));
        }
        (self.answer)(&given)
    }

    /// Has the server compute many answers in one plain statement, as a query over a table does.
    fn answers(&self, client: &mut Client, rows: &[&Arguments]) -> Result<Vec<Vec<Datum>>, postgres::Error> {
        let call = format!("{}({})", self.name, list(self.kinds.len(), |n| format!("a{n}")));
        let selected = match self.columns {
            [] => call,
            columns => list(columns.len(), |n| format!("({call}).{}", columns[n])),
        };
        let types = self.types();
        let query = format!(
            "SELECT {selected} FROM unnest({}) WITH ORDINALITY AS t({}, n) ORDER BY n",
            list(types.len(), |n| format!("${}::{}[]", n + 1, types[n])),
            list(types.len(), |n| format!("a{n}")),
        );
        let columns = columns(rows, types.len());
        let answers = client.query(&query, &parameters(&columns))?;
        Ok(answers.iter().map(|row| (0..row.len()).map(|n| row.get(n)).collect()).collect())
    }

    fn check(&self, client: &mut Client, rng: &mut Rng) {
        let call = format!("count({}({}))", self.name, list(self.kinds.len(), |n| format!("a{n}")));
        let attempt = Attempt::new(client, &call, self.types());
        let mut tally = Tally::new();
        for _ in 0..calls() / BATCH {
            let rows: Vec<Arguments> = (0..BATCH).map(|_| arguments(self.kinds, rng)).collect();
            let expected: Vec<Answer> = rows.iter().map(|row| self.expected(row)).collect();
            let (good, bad): (Vec<_>, Vec<_>) = rows.iter().zip(&expected).partition(|(_, it)| it.is_ok());

            let (good_rows, good): (Vec<_>, Vec<_>) = good.into_iter().unzip();
            let answers = self.answers(client, &good_rows).unwrap_or_else(|error| {
                let outcomes = attempt.run(client, &good_rows);
                let failed = outcomes.iter().zip(&good_rows).find(|(outcome, _)| outcome.is_err());
                panic!("{}: {failed:?} should have an answer: {error}", self.signature())
            });
            assert_eq!(answers.len(), good_rows.len());
            for ((answer, expected), row) in answers.iter().zip(good).zip(good_rows) {
                assert_eq!(Ok(answer), expected.as_ref(), "{}{row:?}", self.signature());
                tally.note("answers");
            }

            let (bad_rows, bad): (Vec<_>, Vec<_>) = bad.into_iter().unzip();
            let outcomes = attempt.run(client, &bad_rows);
            assert_eq!(outcomes.len(), bad_rows.len());
            for ((outcome, expected), row) in outcomes.iter().zip(bad).zip(bad_rows) {
                let faults = expected.as_ref().expect_err("a bad row");
                let state = outcome.as_ref().expect_err(&format!("{}{row:?}", self.signature()));
                assert!(faults.contains(&&**state), "{}{row:?}: {state}, not {faults:?}", self.signature());
                tally.note(state);
            }
        }
        tally.show(&self.signature(), calls(), self.can_fail);
    }
}

/// Every pure function, by the specification in numbers that cannot overflow.
#[test]
fn pure_functions_give_the_right_answer_or_the_right_error() {
    let (watch, mut client) = Watch::start();
    let mut rng = random("pure functions");
    for pure in PURE {
        pure.check(&mut client, &mut rng);
    }
    watch.check(&mut client);
}

/// Round trips over all 64 bits are exact, for any epoch with a whole field; ids sort as their fields do: as bigint where
/// neither is negative, and as the unsigned numbers that they are in any case. Compared in the server.
#[test]
fn round_trips_are_exact_and_ids_sort_as_their_fields() {
    let (watch, mut client) = Watch::start();
    let mut rng = random("round trips");
    let query = "WITH pairs AS MATERIALIZED (
            SELECT a, b, e, (id_time(a), id_shard(a), id_seq(a)) AS fields_a, (id_time(b), id_shard(b), id_seq(b)) AS fields_b
            FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[]) AS t(a, b, e))
        SELECT count(*) FILTER (WHERE make_id(id_time(a), id_shard(a), id_seq(a)) = a),
               count(*) FILTER (WHERE make_id(id_time(a, e), id_shard(a), id_seq(a), e) = a),
               count(*) FILTER (WHERE (a < 0 OR b < 0 OR (a < b) = (fields_a < fields_b) AND (a = b) = (fields_a = fields_b))),
               count(*) FILTER (WHERE (a # (-1::bigint << 63) < b # (-1::bigint << 63)) = (fields_a < fields_b)),
               count(*) FILTER (WHERE a >= 0 AND b >= 0 AND a <> b)
        FROM pairs";
    let mut ordered = 0;
    for _ in 0..calls() / BATCH {
        let row = |_| {
            let a = any_i64(&mut rng);
            let apart = one_of(&mut rng, &[0, 1, 1 << 10, 1 << 23, (1 << 23) - 1]);
            let b = if rng.bool() { a.wrapping_add(apart) } else { any_i64(&mut rng) };
            let epoch = rng.i64(FIRST_TIME..=LAST_TIME - FIELD_MS * 1000);
            [a, b, epoch].map(Datum::Int).to_vec()
        };
        let rows: Vec<Arguments> = (0..BATCH).map(row).collect();
        let columns = columns(&rows.iter().collect::<Vec<_>>(), 3);
        let row = client.query_one(query, &parameters(&columns)).unwrap();
        let counts: Vec<i64> = (0..5).map(|n| row.get(n)).collect();
        assert_eq!(counts[..4], [BATCH as i64; 4], "{rows:?}");
        ordered += counts[4];
    }
    println!(
        "{} round trips for two epochs each; {ordered} pairs of different ids, none negative, in order",
        calls()
    );
    assert!(ordered as usize > calls() / 10);
    watch.check(&mut client);
}

// --- short codes, explanations, ids of the past ---------------------------------------------------------------------

/// Those below.
const OTHERS: &[&str] = &[
    "id_to_shortcode(bigint)",
    "shortcode_to_id(text)",
    "id_explain(bigint,timestamptz)",
    "backfill_id(timestamptz,integer)",
    "backfill_id(timestamptz,integer,timestamptz)",
    // A trigger, of no arguments: tests/regress/sql/citus.sql.
    "assign_id()",
];

/// A short code, or something like one.
fn any_code(rng: &mut Rng) -> String {
    let code = id_to_shortcode(any_i64(rng));
    match rng.u8(..8) {
        0 => any_text(rng),
        1 => ["A".repeat(rng.usize(..1000)), code].concat(),
        2 => [one_of(rng, &["B", "P", "Q", "_", " ", "=", "é"]), &code].concat(),
        3 => [code.as_str(), one_of(rng, &["A", "_", " ", "=", "é", "\n"])].concat(),
        4 => (0..rng.usize(..14))
            .map(|_| one_of(rng, &['A', 'B', 'Z', 'a', 'z', '0', '9', '-', '_']))
            .collect(),
        5 => code.to_lowercase(),
        _ => code,
    }
}

#[test]
fn short_codes_are_the_right_ones() {
    let (watch, mut client) = Watch::start();
    let mut rng = random("short codes");
    let mut tally = Tally::new();
    for _ in 0..calls() / BATCH {
        let ids: Vec<i64> = (0..BATCH).map(|_| any_i64(&mut rng)).collect();
        let query =
            "SELECT id_to_shortcode(id) FROM unnest($1::bigint[]) WITH ORDINALITY AS t(id, n) ORDER BY n";
        let codes: Vec<String> = client.query(query, &[&ids]).unwrap().iter().map(|row| row.get(0)).collect();
        assert_eq!(codes.len(), ids.len());
        for (id, code) in ids.iter().zip(codes) {
            assert_eq!(code, id_to_shortcode(*id), "{id}");
            tally.note("answers");
        }
    }
    tally.show("id_to_shortcode(bigint)", calls(), false);

    let attempt = Attempt::new(&mut client, "shortcode_to_id(a0)", &["text"]);
    let mut tally = Tally::new();
    for _ in 0..calls() / BATCH {
        let rows: Vec<Arguments> =
            (0..BATCH).map(|_| vec![or_null(Datum::Text(any_code(&mut rng)), &mut rng)]).collect();
        let outcomes = attempt.run(&mut client, &rows.iter().collect::<Vec<_>>());
        assert_eq!(outcomes.len(), rows.len());
        for (row, outcome) in rows.iter().zip(outcomes) {
            let expected = match &row[0] {
                Datum::Text(code) => shortcode_to_id(code).map(Datum::Int),
                _ => Ok(Datum::Null),
            };
            match (&outcome, &expected) {
                (Ok(answer), Ok(expected)) => assert_eq!(answer, expected, "{row:?}"),
                (Err(state), Err(faults)) => assert!(faults.contains(&&**state), "{row:?}: {state}"),
                _ => panic!("{row:?}: {outcome:?}, not {expected:?}"),
            }
            tally.note(outcome.as_ref().err().map_or("answers", String::as_str));
        }
    }
    tally.show("shortcode_to_id(text)", calls(), true);
    watch.check(&mut client);
}

#[test]
fn explanations_are_right() {
    let (watch, mut client) = Watch::start();
    let mut rng = random("explanations");
    let mut tally = Tally::new();
    let types = ["bigint", "timestamptz"];
    let attempt = Attempt::new(&mut client, "count(*) FROM id_explain(a0, a1)", &["bigint", "timestamptz"]);
    let count = length(5_000, 100_000);
    for _ in 0..count / 1000 {
        let row = |_| {
            let epoch = match rng.u8(..4) {
                0 => Datum::Null,
                1 => Datum::Int(one_of(&mut rng, &[INFINITY, MINUS_INFINITY])),
                _ => Datum::Int(any_epoch(&mut rng)),
            };
            vec![or_null(Datum::Int(any_i64(&mut rng)), &mut rng), epoch]
        };
        let rows: Vec<Arguments> = (0..1000).map(row).collect();
        let epoch_of = |row: &Arguments| if let Datum::Int(at) = row[1] { at } else { ORIGINAL_EPOCH };
        let is_good = |row: &&Arguments| match row[0] {
            Datum::Int(id) => id_time(id, epoch_of(row)).is_ok(),
            _ => true, // about nothing there is nothing to say
        };
        let (good, bad): (Vec<_>, Vec<_>) = rows.iter().partition(is_good);
        for (outcome, row) in attempt.run(&mut client, &bad).iter().zip(&bad) {
            assert_eq!(*outcome, Err(NO_SUCH_TIME.into()), "{row:?}");
            tally.note(NO_SUCH_TIME);
        }
        // How a time is written is the server's business.
        let query = format!(
            "SELECT (SELECT array_agg(field || '=' || value ORDER BY place) FROM id_explain(id, e)
                         WITH ORDINALITY AS x(field, value, place) WHERE field NOT IN ('age', 'schema')),
                    id_time(id, coalesce(e, '2011-08-24 21:07:01.721+00'))::text, coalesce(e, '2011-08-24 21:07:01.721+00')::text
             FROM unnest($1::{}[], $2::{}[]) WITH ORDINALITY AS t(id, e, n) ORDER BY n",
            types[0], types[1]
        );
        let columns = columns(&good, 2);
        let explained = client.query(&query, &parameters(&columns)).unwrap();
        assert_eq!(explained.len(), good.len());
        for (explained, row) in explained.iter().zip(good) {
            let expected = if let Datum::Int(id) = row[0] {
                let (ms, shard, seq) = fields(id);
                let (time, epoch): (String, String) = (explained.get(1), explained.get(2));
                Some(vec![
                    format!("id={id}"),
                    format!("time={time}"),
                    format!("shard={shard}"),
                    format!("sequence={seq}"),
                    format!("epoch={epoch}"),
                    format!("milliseconds={ms}"),
                    format!("short code={}", id_to_shortcode(id)),
                    format!("bits={ms:041b} {shard:013b} {seq:010b}"),
                ])
            } else {
                None
            };
            assert_eq!(explained.get::<_, Option<Vec<String>>>(0), expected, "{row:?}");
            tally.note("answers");
        }
    }
    tally.show("id_explain(bigint,timestamptz)", count, true);
    watch.check(&mut client);
}

/// Rows to be imported: a time, a shard and an epoch each.
type Imported = Vec<[Option<i64>; 3]>;

/// Rows of a few shards, each with an epoch of its own, at a few milliseconds that follow each other; or anything.
fn imported(rng: &mut Rng, has_epoch: bool) -> Imported {
    let is_small = rng.u8(..4) > 0;
    let shards: Vec<i64> = (0..rng.usize(1..4)).map(|_| rng.i64(0..8192)).collect();
    let begin = ORIGINAL_EPOCH + rng.i64(1..FIELD_MS - 1000) * 1000;
    let earlier = |shard: &i64| if has_epoch { ORIGINAL_EPOCH - shard % 3 * 1000 } else { ORIGINAL_EPOCH };
    let mut rows: Imported = vec![];
    for step in 0..rng.i64(1..if is_small { 12 } else { 5 }) {
        for shard in &shards {
            let count = match rng.u8(..6) {
                _ if is_small => rng.usize(..5),
                0 | 1 => one_of(rng, &[1023, 1024]),
                2 if rng.u8(..4) == 0 => 1025,
                _ => rng.usize(..1024),
            };
            for _ in 0..count {
                let time = begin + step * 1000 + rng.i64(0..1000);
                rows.push([Some(time), Some(*shard), Some(earlier(shard))]);
            }
        }
    }
    rng.shuffle(&mut rows);
    if is_small {
        for row in &mut rows {
            match rng.u16(..800) {
                0 => row[0] = Some(any_time(rng)),
                1 => row[1] = Some(up_to(8191, rng).into()),
                2 if has_epoch => row[2] = Some(any_epoch(rng)),
                n @ 3..20 => row[usize::from(n) % if has_epoch { 3 } else { 2 }] = None,
                _ => {}
            }
        }
    }
    rows
}

/// Either all ids of a window are right, or there is no way to such ids: by the specification, which knows no
/// way to make them.
#[test]
fn ids_of_the_past_are_right_or_impossible() {
    let (watch, mut client) = Watch::start();
    let mut rng = random("ids of the past");
    for has_epoch in [false, true] {
        let mut tally = Tally::new();
        let windows = length(500, 50_000);
        let (mut full, mut most) = (0, 0);
        for _ in 0..windows {
            let mut rows = imported(&mut rng, has_epoch);
            let columns: Vec<Vec<Datum>> = (0..3)
                .map(|n| rows.iter().map(|row| row[n].map_or(Datum::Null, Datum::Int)).collect())
                .collect();
            let (order, sorts) = if rng.u8(..8) == 0 { ("n", false) } else { ("t, n", true) };
            let query = format!(
                "SELECT backfill_id(t, s{}) OVER (ORDER BY {order})
                 FROM unnest($1::timestamptz[], $2::int[], $3::timestamptz[]) WITH ORDINALITY AS r(t, s, e, n) ORDER BY {order}",
                if has_epoch { ", e" } else { "" }
            );
            if sorts {
                // NULLs come last.
                rows.sort_by_key(|row| (row[0].is_none(), row[0]));
            }
            let faults = backfill_faults(&rows);
            match client.query(&query, &parameters(&columns)) {
                Ok(ids) => {
                    assert!(faults.is_empty(), "{faults:?}: {rows:?}");
                    let ids: Vec<Option<i64>> = ids.iter().map(|row| row.get(0)).collect();
                    assert_eq!(ids.len(), rows.len());
                    let mut last = BTreeMap::new();
                    for (id, &[time, shard, epoch]) in ids.iter().zip(&rows) {
                        let (Some(time), Some(shard), Some(epoch)) = (time, shard, epoch) else {
                            assert_eq!(*id, None);
                            continue;
                        };
                        let id = id.expect("an id");
                        let (ms, of_shard, seq) = fields(id);
                        let at = make_id(time, int(shard), 0, epoch).expect("a good row");
                        assert_eq!((ms, of_shard), (fields(at).0, shard.into()), "{id}");
                        let before = last.insert(shard, (ms, seq));
                        assert!(before < Some((ms, seq)), "{id} after {before:?}");
                    }
                    most = most.max(ids.len());
                    tally.note("answers");
                }
                Err(error) => {
                    let state = error.code().expect("an error of the server's").code();
                    assert!(faults.contains(&state), "{state}, not {faults:?}: {rows:?}");
                    full += usize::from(state == FULL);
                    tally.note(state);
                }
            }
        }
        println!("up to {most} rows a window");
        assert!(full > 0 && most > 3000);
        tally.show(if has_epoch { OTHERS[4] } else { OTHERS[3] }, windows, true);
    }
    watch.check(&mut client);
}

// --- the functions that make something ----------------------------------------------------------------------------

/// What there is in the database to name in a call, and what the calls so far have made of it.
struct World {
    /// Relations by OID: what is wrong with each as a sequence for ids.
    sequences: Vec<(i64, &'static [&'static str])>,
    /// The one that only next_id with an epoch of its own takes from.
    wild: i64,
    /// One that ids are made of, and one that never was called and starts in the far future.
    own: i64,
    late: i64,
    table: i64,
    original: i64,
    originals_sequence: i64,
    not_original: i64,
    /// Tables by OID: what is wrong with each as one to make partitions of.
    partitioned: Vec<(i64, &'static [&'static str])>,
    /// Where something else has the names of some partitions.
    taken: i64,
    /// The last value, `ms << 10 | seq`, of each shard, and below 0 of each other sequence.
    last: BTreeMap<i64, i64>,
    /// Shards with schema and epoch; schemas, and whether one has functions in the way of another shard.
    shards: BTreeMap<i64, (String, i64)>,
    schemas: BTreeMap<String, bool>,
    /// Sequences that were handed over, some of which next_id has taken back since.
    handed_over: BTreeSet<i64>,
    /// Whether the table has ids as its default.
    is_adopted: bool,
    /// Whether the table in the schema of shard 5 has a trigger for them.
    has_triggers: bool,
    /// When the present batch began and ended by the server's clock.
    began: i64,
    ended: i64,
}

/// The shard that was adopted.
const ADOPTED: i64 = 8;
const HOUR: i64 = 3_600_000_000;
const VALUE_MAX: i64 = (1 << 50) - 1;
const MISSING: &str = "42P01";
const NULL: &str = "22004";

/// The README's table of SQLSTATEs.
const README: &str = include_str!("../../../README.md");

impl World {
    fn make(client: &mut Client) -> World {
        for shard in [7, 8] {
            client.batch_execute(&original_of_shard(shard)).unwrap();
        }
        client
            .batch_execute(
                "SELECT create_shard(6); SELECT adopt_shard(8);
                 CREATE SCHEMA empty;
                 CREATE SEQUENCE own; CREATE SEQUENCE wild; CREATE SEQUENCE spent; SELECT setval('spent', 1125899906842623);
                 CREATE SEQUENCE narrow AS smallint; CREATE SEQUENCE down INCREMENT -1; CREATE SEQUENCE round CYCLE;
                 CREATE SEQUENCE low MAXVALUE 1125899906842622; CREATE SEQUENCE late MINVALUE 1125899906842000;
                 CREATE TABLE insta5.t (id bigint DEFAULT insta5.next_id());
                 CREATE TABLE t (id bigserial PRIMARY KEY, small int, name text, plain bigint); CREATE VIEW v AS SELECT 1 AS id;
                 CREATE TABLE by_id (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
                 CREATE TABLE taken (id bigint) PARTITION BY RANGE (id);
                 CREATE TABLE by_int (id int) PARTITION BY RANGE (id); CREATE TABLE by_two (id bigint, b int) PARTITION BY RANGE (id, b);
                 CREATE TABLE by_sum (id bigint) PARTITION BY RANGE ((id + 1)); CREATE TABLE by_list (id bigint) PARTITION BY LIST (id);
                 CREATE TABLE by_hash (id bigint) PARTITION BY HASH (id);
                 SELECT create_partitions('by_id', 'month', 1, now() - interval '1 year');
                 SELECT create_partitions('taken', 'day', 3), create_partitions('taken', 'week', 2);
                 DO $$ BEGIN
                     EXECUTE (SELECT string_agg(format('ALTER TABLE taken DETACH PARTITION %s', inhrelid::regclass), ';')
                              FROM pg_inherits WHERE inhparent = 'taken'::regclass);
                 END $$",
            )
            .unwrap();
        let mut oid = |name: &str| one::<i64>(client, &format!("SELECT '{name}'::regclass::oid::bigint"));
        const UNFIT: &[&str] = &["55000"];
        const WRONG_KIND: &[&str] = &["42809"];
        let (own, late) = (oid("own"), oid("late"));
        let sequences = vec![
            (own, [].as_slice()),
            (oid("spent"), &["2200H"]),
            (oid("narrow"), UNFIT),
            (oid("down"), UNFIT),
            (oid("round"), UNFIT),
            (oid("low"), UNFIT),
            (late, UNFIT),
            (oid("t"), WRONG_KIND),
            (oid("t_pkey"), WRONG_KIND),
            (oid("v"), WRONG_KIND),
            (oid("pg_class"), WRONG_KIND),
            (0, &[MISSING]),
            (4_294_967_295, &[MISSING]),
            (3_999_999_999, &[MISSING]),
        ];
        let (wild, table, originals_sequence) = (oid("wild"), oid("t"), oid("insta7.table_id_seq"));
        let taken = oid("taken");
        let partitioned = vec![
            (oid("by_id"), [].as_slice()),
            (taken, &[]),
            (oid("by_int"), WRONG_KIND),
            (oid("by_two"), WRONG_KIND),
            (oid("by_sum"), WRONG_KIND),
            (oid("by_list"), WRONG_KIND),
            (oid("by_hash"), WRONG_KIND),
            (oid("t"), WRONG_KIND),
            (oid("t_pkey"), WRONG_KIND),
            (oid("v"), WRONG_KIND),
            (oid("own"), WRONG_KIND),
            (oid("pg_class"), WRONG_KIND),
            (0, &[MISSING]),
            (4_294_967_295, &[MISSING]),
        ];
        let mut function =
            |name: &str| one::<i64>(client, &format!("SELECT '{name}'::regprocedure::oid::bigint"));
        let (original, not_original) = (function("insta7.next_id()"), function("next_id(integer)"));
        World {
            sequences,
            wild,
            own,
            late,
            table,
            original,
            originals_sequence,
            not_original,
            partitioned,
            taken,
            last: BTreeMap::new(),
            shards: BTreeMap::new(),
            schemas: BTreeMap::new(),
            is_adopted: false,
            has_triggers: false,
            handed_over: BTreeSet::new(),
            began: 0,
            ended: 0,
        }
    }

    /// What a batch's rollback leaves.
    fn reset(&mut self) {
        let shard = |n: i64| (n, (format!("insta{n}"), ORIGINAL_EPOCH));
        self.shards = [5, 6, 8].map(shard).into();
        let full = ["insta5", "insta6", "insta7", "insta8", "public"].map(|name| (name.to_owned(), true));
        self.schemas = full.into_iter().chain([("empty".to_owned(), false)]).collect();
        self.is_adopted = false;
        self.has_triggers = false;
    }

    fn shard_faults(&self, shard: &Datum) -> Faults {
        match shard {
            Datum::Int(n) if self.shards.contains_key(n) => vec![],
            Datum::Int(0..=8191) => vec![MISSING],
            Datum::Int(_) => vec![OUT_OF_RANGE],
            _ => vec![NULL],
        }
    }

    /// The same where the sequence is named, too.
    fn number_faults(&self, shard: &Datum) -> Faults {
        self.shard_faults(shard).into_iter().filter(|&state| state != MISSING).collect()
    }

    fn sequence_faults(&self, sequence: &Datum) -> Faults {
        let Datum::Int(oid) = sequence else { return vec![NULL] };
        let known = self.sequences.iter().find(|known| known.0 == *oid);
        known.map_or(vec![], |known| known.1.to_vec())
    }

    /// Checks an id that a call has returned, which only takes a sequence forward.
    fn check_id(&mut self, clock: i64, shard: i64, id: i64) {
        let (ms, of_shard, seq) = fields(id);
        assert!(id >= 0 && of_shard == shard.into(), "{id} of shard {shard}");
        let value = (ms << 10 | seq) as i64;
        let last = self.last.insert(clock, value);
        assert!(last < Some(value), "{id} after {last:?}");
    }

    /// One visit takes what is asked for, up to the end of the millisecond, whether it is fetched or not.
    fn spend_run(&mut self, clock: i64, count: i64) {
        let first = self.last[&clock];
        self.last.insert(clock, first + count.min(1024 - (first & 1023)) - 1);
    }

    /// What next_id is to make of an epoch, for a sequence that only this session uses: the rule, once more.
    fn epoch_faults(&mut self, epoch: i64, shard: i64, outcome: &Outcome) -> Faults {
        if !is_finite(epoch) {
            return vec![NO_SUCH_TIME];
        }
        let last = self.last.get(&-self.wild).copied().unwrap_or(1);
        if last >= VALUE_MAX {
            return vec!["2200H"];
        }
        let ms_at = |time: i64| (i128::from(time) - i128::from(epoch)).div_euclid(1000);
        let (from, to) = (ms_at(self.began), ms_at(self.ended));
        let next_ms = i128::from((last + 1) >> 10);
        let is_ahead = if to < 0 { next_ms >= 0 } else { next_ms > to };
        match (is_ahead, from < 0, to >= POSITIVE_MS.into()) {
            (false, true, _) => return vec![NO_SUCH_TIME],
            (false, _, true) => return vec!["2200H"],
            _ => {}
        }
        if let Ok(Datum::Int(id)) = *outcome {
            self.check_id(-self.wild, shard, id);
            let value = self.last[&-self.wild];
            assert_eq!(value & 1023, (last + 1) & 1023, "{id} after {last}");
            if is_ahead {
                assert_eq!(value, last + 1);
            } else {
                let ms = i128::from(value >> 10);
                assert!(
                    from.max((last >> 10).into()) <= ms && ms <= to + 1,
                    "{id} of {ms} ms, not {from} to {to}"
                );
            }
        }
        vec![]
    }
}

type Outcome = Result<Datum, String>;

/// A function that makes something.
struct Maker {
    signature: &'static str,
    /// Whether it looks through the catalogs, or changes them; then everyday fewer calls must do.
    is_slow: bool,
    /// What follows SELECT in a call.
    call: &'static str,
    types: &'static [&'static str],
    row: fn(&World, &mut Rng) -> Arguments,
    /// Checks an answer, and says what should have been wrong with the call.
    judge: fn(&mut World, &Arguments, &Outcome) -> Faults,
}

fn number(datum: &Datum) -> i64 {
    if let Datum::Int(n) = *datum { n } else { panic!("{datum:?} is no number") }
}

fn or_null(datum: Datum, rng: &mut Rng) -> Datum {
    if rng.u8(..20) == 0 { Datum::Null } else { datum }
}

/// One in `good` is a shard that is there.
fn any_shard(good: u8, rng: &mut Rng) -> Datum {
    let shard = if rng.u8(..good) == 0 { one_of(rng, &[5, 6]) } else { up_to(8191, rng) };
    or_null(Datum::Int(shard.into()), rng)
}

fn any_sequence(world: &World, rng: &mut Rng) -> Datum {
    let (own, others) = world.sequences.split_first().expect("some");
    let oid = if rng.bool() { own.0 } else { one_of(rng, others).0 };
    or_null(Datum::Int(oid), rng)
}

/// An epoch by which it is not now that ids begin or end.
fn epoch_for_now(world: &World, rng: &mut Rng) -> i64 {
    loop {
        let epoch = if rng.bool() { time_near(ORIGINAL_EPOCH, rng) } else { any_epoch(rng) };
        let elapsed = i128::from(world.began) - i128::from(epoch);
        let is_far_from = |edge: i64| (elapsed - i128::from(edge)).abs() > HOUR.into();
        if is_far_from(0) && is_far_from(POSITIVE_MS * 1000) {
            return epoch;
        }
    }
}

/// Text that is no number.
fn any_text(rng: &mut Rng) -> String {
    let chars =
        ['a', 'Z', '0', ' ', '\'', '"', '\\', '$', ';', '.', '%', '\n', 'é', '漢', '😀', '\u{1}', '\u{feff}'];
    let len = one_of(rng, &[0, 1, 5, 30, 62, 63, 64, 300]);
    let rest: String = (0..len).map(|_| one_of(rng, &chars)).collect();
    format!("z{rest}")
}

fn any_schema(rng: &mut Rng) -> Datum {
    match rng.u8(..8) {
        0 => Datum::Text(any_text(rng)),
        1 => Datum::Text(one_of(rng, &["x".repeat(63), "x".repeat(64), "é".repeat(31), "é".repeat(32)])),
        2 | 3 => Datum::Text(
            one_of(rng, &["", "pg_x", "insta5", "insta7", "empty", "public", "Photos \"1\"", "insta9"])
                .into(),
        ),
        _ => Datum::Null,
    }
}

fn any_bool(rng: &mut Rng) -> Datum {
    let value = Datum::Int(rng.bool().into());
    or_null(value, rng)
}

/// What the setting instagram_id.shard makes of a text: PostgreSQL's whole numbers.
const SETTINGS: [(&str, Option<i64>); 25] = [
    ("5", Some(5)),
    ("6", Some(6)),
    (" 5 ", Some(5)),
    ("+6", Some(6)),
    ("0x5", Some(5)),
    ("06", Some(6)),
    ("5.4", Some(5)),
    ("5e0", Some(5)),
    ("-1", Some(-1)),
    ("0", Some(0)),
    ("8191", Some(8191)),
    ("-0.4", Some(0)),
    ("8192", None),
    ("-2", None),
    ("2147483648", None),
    ("-9223372036854775809", None),
    ("1e400", None),
    ("nan", None),
    ("inf", None),
    ("", None),
    ("5 kB", None),
    ("5x", None),
    ("５", None),
    ("--5", None),
    ("NULL", None),
];

fn next_id_from(world: &mut World, arguments: &Arguments, outcome: &Outcome) -> Faults {
    let mut faults = world.number_faults(&arguments[0]);
    faults.extend(world.sequence_faults(&arguments[1]));
    match arguments.get(2) {
        Some(Datum::Null) => faults.push(NULL),
        Some(epoch) if !is_finite(number(epoch)) => faults.push(NO_SUCH_TIME),
        _ => {}
    }
    if faults.is_empty() {
        let shard = number(&arguments[0]);
        if number(&arguments[1]) == world.wild {
            faults = world.epoch_faults(number(&arguments[2]), shard, outcome);
        } else if let Ok(Datum::Int(id)) = *outcome {
            world.check_id(-number(&arguments[1]), shard, id);
        }
    }
    faults
}

/// With an epoch of any kind from the sequence that is there for it; with the original's from any.
fn row_with_epoch(world: &World, rng: &mut Rng) -> Arguments {
    let shard = Datum::Int(up_to(8191, rng).into());
    let (sequence, epoch) = if rng.bool() {
        (Datum::Int(world.wild), epoch_for_now(world, rng))
    } else {
        (any_sequence(world, rng), one_of(rng, &[ORIGINAL_EPOCH, ORIGINAL_EPOCH, INFINITY, MINUS_INFINITY]))
    };
    vec![or_null(shard, rng), sequence, or_null(Datum::Int(epoch), rng)]
}

/// The rule is next_id's, with node 0 for a shard, and without an epoch the original's.
fn node_next_id_faults(world: &mut World, arguments: &Arguments, outcome: &Outcome) -> Faults {
    let [sequence, epoch] = &arguments[..] else { unreachable!() };
    let epoch = if *epoch == Datum::Null { Datum::Int(ORIGINAL_EPOCH) } else { epoch.clone() };
    let mut faults = next_id_from(world, &vec![Datum::Int(0), sequence.clone(), epoch], outcome);
    if matches!(sequence, Datum::Int(oid) if world.handed_over.contains(oid))
        && matches!(outcome, Err(state) if &**state == "55000")
    {
        faults.push("55000"); // it is next_id's
    }
    faults
}

/// What is handed over is the value after the last one, however often it is asked for. Where a sequence is to start does
/// not matter to that, nor that it has come to its end.
fn hand_over_faults(world: &mut World, arguments: &Arguments, outcome: &Outcome) -> Faults {
    let sequence = &arguments[0];
    if let (Datum::Int(oid), Ok(Datum::Int(above))) = (sequence, outcome) {
        world.handed_over.insert(*oid);
        if *oid == world.own {
            assert_eq!(*above, world.last[&-oid] + 1);
        } else {
            assert!(
                [0, 1, VALUE_MAX + 1].contains(above),
                "{above} of a sequence that nothing was taken from"
            );
        }
    }
    step_faults(world, arguments)
}

/// What a step of the hand-over has against its arguments.
fn step_faults(world: &World, arguments: &Arguments) -> Faults {
    let [sequence, group, attempt] = &arguments[..] else { unreachable!() };
    let mut faults: Faults = if *sequence == Datum::Int(world.late) {
        vec![]
    } else {
        world.sequence_faults(sequence).into_iter().filter(|&state| state != "2200H").collect()
    };
    let out_of_range = [(group, 0x3fff_fffd), (attempt, 0x3fff_ffff)];
    for (argument, max) in out_of_range {
        match argument {
            Datum::Int(number) if (0..=max).contains(number) => {}
            Datum::Int(_) => faults.push("22023"),
            _ => faults.push(NULL),
        }
    }
    faults
}

fn next_id_of_shard(world: &mut World, shard: &Datum, outcome: &Outcome) -> Faults {
    let faults = world.shard_faults(shard);
    if let (true, Ok(Datum::Int(id))) = (faults.is_empty(), outcome) {
        world.check_id(number(shard), number(shard), *id);
    }
    faults
}

fn create_faults(world: &mut World, arguments: &Arguments, outcome: &Outcome) -> Faults {
    let [shard, schema, epoch, if_not_exists] = &arguments[..] else { unreachable!() };
    let mut faults = world.number_faults(shard);
    match schema {
        Datum::Text(name) if name.is_empty() => faults.push("42602"),
        Datum::Text(name) if name.starts_with("pg_") => faults.push("42939"),
        Datum::Text(name) if name.len() > 63 => faults.push("42622"),
        _ => {}
    }
    if let Datum::Int(epoch) = *epoch
        && !(0..i128::from(POSITIVE_MS) * 1000).contains(&(i128::from(world.began) - i128::from(epoch)))
    {
        faults.push(NO_SUCH_TIME);
    }
    if *if_not_exists == Datum::Null {
        faults.push(NULL);
    }
    let Datum::Int(number @ 0..=8191) = *shard else { return faults };
    let may_exist = *if_not_exists == Datum::Int(1);
    if let Some((is_schema, is_epoch)) = world.shards.get(&number) {
        let is_it = matches!(schema, Datum::Text(asked) if asked != is_schema)
            || matches!(epoch, Datum::Int(asked) if asked != is_epoch);
        if !may_exist || is_it {
            faults.push("42710");
        }
        return faults;
    }
    let name = if let Datum::Text(name) = schema { name.clone() } else { format!("insta{number}") };
    match world.schemas.get(&name) {
        Some(_) if !may_exist => faults.push("42P06"),
        // Another shard's functions, and its epoch, which may be another one.
        Some(true) => faults.extend(["42723", "42710"]),
        _ => {}
    }
    if faults.is_empty() && outcome.is_ok() {
        let epoch = if let Datum::Int(epoch) = *epoch { epoch } else { ORIGINAL_EPOCH };
        world.shards.insert(number, (name.clone(), epoch));
        world.schemas.insert(name, true);
    }
    faults
}

fn advance_row(_: &World, rng: &mut Rng) -> Arguments {
    let shard = any_shard(2, rng);
    let id = match shard {
        // Shard 6 goes wherever it is told to, shard 5 stays near the clock.
        Datum::Int(5) => {
            let (ms, shard) = (rng.i64(0..400_000_000_000), one_of(rng, &[5, 5, 5, 4]));
            ms << 23 | shard << 10 | rng.i64(0..1024)
        }
        Datum::Int(6) if rng.bool() => any_i64(rng) & !(8191 << 10) | 6 << 10,
        _ => any_i64(rng),
    };
    vec![shard, or_null(Datum::Int(id), rng)]
}

fn advance_faults(world: &mut World, arguments: &Arguments, outcome: &Outcome) -> Faults {
    let mut faults = world.shard_faults(&arguments[0]);
    let Datum::Int(id) = arguments[1] else { return [faults, vec![NULL]].concat() };
    let (ms, of_shard, seq) = fields(id);
    let value = (ms << 10 | seq) as i64;
    if id < 0 || arguments[0] != Datum::Int(of_shard as i64) {
        faults.push(OUT_OF_RANGE);
    }
    if value >= VALUE_MAX {
        faults.push("2200H");
    }
    if let (true, Ok(Datum::Int(last))) = (faults.is_empty(), outcome) {
        let shard = number(&arguments[0]);
        // Where it has been reset it is at 1.
        let before = world.last.get(&shard).copied().unwrap_or(1);
        let (ms, of_shard, seq) = fields(*last);
        let after = (ms << 10 | seq) as i64;
        assert_eq!(
            (after, of_shard),
            (before.max(value), shard.into()),
            "{id} of shard {shard} after {before}"
        );
        world.last.insert(shard, after);
    }
    faults
}

fn adopt_row(world: &World, rng: &mut Rng) -> Arguments {
    let shard = if rng.bool() { Datum::Int(7) } else { any_shard(8, rng) };
    let schema = if rng.bool() { any_schema(rng) } else { Datum::Text("insta7".into()) };
    let function = match rng.u8(..4) {
        0 => Datum::Int(world.original),
        1 => Datum::Int(one_of(rng, &[world.not_original, 0, 4_294_967_295])),
        _ => Datum::Null,
    };
    let sequence = match rng.u8(..4) {
        0 => any_sequence(world, rng),
        1 => Datum::Int(world.originals_sequence),
        _ => Datum::Null,
    };
    let epoch = match rng.u8(..4) {
        0 => Datum::Int(any_epoch(rng)),
        1 => Datum::Int(ORIGINAL_EPOCH),
        _ => Datum::Null,
    };
    vec![shard, schema, function, sequence, epoch, or_null(Datum::Int(1), rng)]
}

fn adopt_faults(world: &mut World, arguments: &Arguments, _: &Outcome) -> Faults {
    let [shard, schema, function, sequence, epoch, dry_run] = &arguments[..] else { unreachable!() };
    let mut faults = vec![];
    if *dry_run == Datum::Null {
        faults.push(NULL);
    }
    let named = match (schema, shard) {
        (Datum::Text(name), _) => Some(name.clone()),
        (_, Datum::Int(shard)) => Some(format!("insta{shard}")),
        _ => None,
    };
    match (function, &named) {
        (Datum::Int(oid), _) if *oid == world.original => {
            if matches!(schema, Datum::Text(name) if name != "insta7") {
                faults.push(OUT_OF_RANGE);
            }
        }
        // Whatever else is wrong with it, it is of another schema, or not there.
        (Datum::Int(oid), _) => {
            faults.push(if *oid == world.not_original { "55000" } else { "42883" });
            if matches!(schema, Datum::Text(name) if name != "public") && *oid == world.not_original {
                faults.push(OUT_OF_RANGE);
            }
        }
        (_, None) => faults.push(NULL),
        (_, Some(name)) if name == "insta7" => {}
        (_, Some(name)) if name == "insta8" => faults.extend(["42710", OUT_OF_RANGE]),
        // One that is the shard's already, or has no original.
        (_, Some(name)) if world.schemas.contains_key(name) => faults.extend(["42883", "42710", "55000"]),
        (_, Some(_)) => faults.push("3F000"),
    }
    let differs = |given: &Datum, is: i64| matches!(given, Datum::Int(n) if *n != is);
    if differs(shard, 7) || differs(sequence, world.originals_sequence) || differs(epoch, ORIGINAL_EPOCH) {
        faults.push(OUT_OF_RANGE);
    }
    if matches!(epoch, Datum::Int(at) if !is_finite(*at)) {
        faults.push(NO_SUCH_TIME);
    }
    faults
}

fn adopt_table_row(world: &World, rng: &mut Rng) -> Arguments {
    let table = if rng.bool() { Datum::Int(world.table) } else { any_relation(world, rng) };
    let column = match rng.u8(..8) {
        0..4 => Datum::Text(
            one_of(rng, &["id", "id", "small", "name", "plain", "nowhere", "ctid", "ID", ""]).into(),
        ),
        4 => Datum::Text(any_text(rng)),
        _ => Datum::Null,
    };
    let dry_run = Datum::Int((rng.u8(..50) > 0).into());
    vec![any_shard(2, rng), table, column, or_null(dry_run, rng)]
}

/// Not one of PostgreSQL's own tables.
fn any_relation(world: &World, rng: &mut Rng) -> Datum {
    loop {
        let relation = any_sequence(world, rng);
        if !matches!(relation, Datum::Int(1..16384)) {
            return relation;
        }
    }
}

fn adopt_table_faults(world: &mut World, arguments: &Arguments, outcome: &Outcome) -> Faults {
    let [shard, table, column, dry_run] = &arguments[..] else { unreachable!() };
    let mut faults = world.shard_faults(shard);
    if *dry_run == Datum::Null {
        faults.push(NULL);
    }
    let column = if let Datum::Text(name) = column { name } else { "id" };
    match table {
        Datum::Int(oid) if *oid == world.table => match column {
            "id" if !world.is_adopted => {}
            "id" | "plain" => faults.push("55000"),
            "small" | "name" => faults.push("42804"),
            _ => faults.push("42703"),
        },
        Datum::Int(_) if world.sequence_faults(table).contains(&MISSING) => faults.push(MISSING),
        Datum::Int(_) => faults.push("42703"),
        _ => faults.push(NULL),
    }
    world.is_adopted |= faults.is_empty() && outcome.is_ok() && *dry_run == Datum::Int(0);
    faults
}

/// Half of them tables that partitions can be made of.
fn any_partitioned(world: &World, rng: &mut Rng) -> Datum {
    let table = if rng.bool() { world.partitioned[0].0 } else { one_of(rng, &world.partitioned).0 };
    or_null(Datum::Int(table), rng)
}

fn partitioned_faults(world: &World, table: &Datum) -> Faults {
    let Datum::Int(oid) = table else { return vec![NULL] };
    let known = world.partitioned.iter().find(|known| known.0 == *oid);
    known.expect("one of them").1.to_vec()
}

fn epoch_or_null(rng: &mut Rng) -> Datum {
    match rng.u8(..8) {
        0 => Datum::Int(one_of(rng, &[INFINITY, MINUS_INFINITY])),
        1 => Datum::Int(any_epoch(rng)),
        2 => Datum::Int(ORIGINAL_EPOCH),
        _ => Datum::Null,
    }
}

const DAY: i64 = 24 * HOUR;

fn create_partitions_row(world: &World, rng: &mut Rng) -> Arguments {
    let every = match rng.u8(..8) {
        0 => Datum::Text(any_text(rng)),
        1 => Datum::Text(one_of(rng, &["", "Day", "year", "day ", "1 day", "hour"]).into()),
        _ => Datum::Text(one_of(rng, &["day", "week", "month"]).into()),
    };
    // Few, for each makes a table.
    let ahead = match rng.u8(..8) {
        0 => one_of(rng, &[-1, i32::MIN, 10_001, i32::MAX]),
        _ => rng.i32(0..4),
    };
    let epoch = epoch_or_null(rng);
    let from = match rng.u8(..8) {
        0 => Datum::Int(one_of(rng, &[INFINITY, MINUS_INFINITY, LAST_TIME])),
        // Before the epoch; from that of another one on there would be thousands of days.
        1 if epoch == Datum::Null => Datum::Int(ORIGINAL_EPOCH - 1),
        2..4 => Datum::Int(world.began - rng.i64(-2 * DAY..3 * DAY)),
        _ => Datum::Null,
    };
    let table = any_partitioned(world, rng);
    vec![table, or_null(every, rng), or_null(Datum::Int(ahead.into()), rng), from, epoch]
}

fn create_partitions_faults(world: &mut World, arguments: &Arguments, outcome: &Outcome) -> Faults {
    let [table, every, ahead, from, epoch] = &arguments[..] else { unreachable!() };
    let mut faults = partitioned_faults(world, table);
    match every {
        Datum::Text(every) if ["day", "week", "month"].contains(&&**every) => {}
        Datum::Text(_) => faults.push(OUT_OF_RANGE),
        _ => faults.push(NULL),
    }
    match ahead {
        Datum::Int(0..=10_000) => {}
        Datum::Int(_) => faults.push(OUT_OF_RANGE),
        _ => faults.push(NULL),
    }
    let counts_from = if let Datum::Int(epoch) = *epoch { epoch } else { ORIGINAL_EPOCH };
    if !is_finite(counts_from) {
        faults.push(NO_SUCH_TIME);
    }
    if let Datum::Int(from) = *from {
        faults.extend(make_id(from, 0, 0, counts_from).err().unwrap_or_default());
    }
    // Partitions of two epochs may want one name.
    let may_clash = *table == Datum::Int(world.taken) || counts_from != ORIGINAL_EPOCH;
    if faults.is_empty() && may_clash && outcome.is_err() {
        return vec!["42P07"];
    }
    if let (true, Ok(made)) = (faults.is_empty(), outcome) {
        // From two days ago to those ahead, and parts of periods beside other partitions.
        assert!((0..=20).contains(&number(made)), "{made:?} made by {arguments:?}");
    }
    faults
}

fn drop_partitions_row(world: &World, rng: &mut Rng) -> Arguments {
    let before = match rng.u8(..8) {
        0 => one_of(rng, &[INFINITY, MINUS_INFINITY, LAST_TIME, FIRST_TIME]),
        1 => world.began + HOUR + rng.i64(0..DAY),
        2 => any_time(rng).min(world.began - 400 * DAY),
        _ => world.began - rng.i64(DAY..500 * DAY),
    };
    let table = any_partitioned(world, rng);
    vec![table, or_null(Datum::Int(before), rng), epoch_or_null(rng), any_bool(rng)]
}

fn drop_partitions_faults(world: &mut World, arguments: &Arguments, outcome: &Outcome) -> Faults {
    let [table, before, epoch, detach] = &arguments[..] else { unreachable!() };
    let mut faults = partitioned_faults(world, table);
    match *before {
        Datum::Int(before) if !is_finite(before) => faults.push(NO_SUCH_TIME),
        Datum::Int(before) if before > world.ended => faults.push(OUT_OF_RANGE),
        Datum::Int(_) => {}
        _ => faults.push(NULL),
    }
    if matches!(epoch, Datum::Int(at) if !is_finite(*at)) {
        faults.push(NO_SUCH_TIME);
    }
    if *detach == Datum::Null {
        faults.push(NULL);
    }
    // By an earlier epoch than theirs all ids look older than they are.
    let looks_old = matches!(epoch, Datum::Int(at) if *at < ORIGINAL_EPOCH);
    if faults.is_empty() && looks_old && outcome.is_err() {
        return vec!["55000"];
    }
    faults
}

const MAKERS: &[Maker] = &[
    Maker {
        signature: "next_id()",
        is_slow: false,
        call: "next_id() FROM set_config('instagram_id.shard', a0, true)",
        types: &["text"],
        row: |_, rng| {
            vec![match rng.u8(..8) {
                0 => Datum::Null,
                1 => Datum::Text(any_text(rng)),
                2 => Datum::Text(any_i64(rng).to_string()),
                _ => Datum::Text(one_of(rng, &SETTINGS).0.into()),
            }]
        },
        judge: |world, arguments, outcome| {
            // NULL takes the setting back.
            let Datum::Text(text) = &arguments[0] else { return vec!["55000"] };
            let listed = SETTINGS.iter().find(|(listed, _)| listed == text);
            let number = listed.map_or(text.parse().ok(), |(_, number)| *number);
            match number {
                Some(-1) => vec!["55000"],
                Some(shard @ 0..=8191) => next_id_of_shard(world, &Datum::Int(shard), outcome),
                _ => vec![OUT_OF_RANGE],
            }
        },
    },
    Maker {
        signature: "next_id(integer)",
        is_slow: false,
        call: "next_id(a0)",
        types: &["integer"],
        row: |_, rng| vec![any_shard(2, rng)],
        judge: |world, arguments, outcome| next_id_of_shard(world, &arguments[0], outcome),
    },
    Maker {
        signature: "next_id(integer,regclass)",
        is_slow: false,
        call: "next_id(a0, a1)",
        types: &["integer", "regclass"],
        row: |world, rng| vec![any_shard(2, rng), any_sequence(world, rng)],
        judge: next_id_from,
    },
    Maker {
        signature: "_close_sequence(regclass,integer,integer)",
        is_slow: false,
        call: "(SELECT next_value FROM _close_sequence(a0, a1, a2))",
        types: &["regclass", "integer", "integer"],
        row: |world, rng| vec![any_sequence(world, rng), any_shard(2, rng), any_shard(2, rng)],
        judge: hand_over_faults,
    },
    Maker {
        signature: "_name_sequence_taker(regclass,integer,integer)",
        is_slow: false,
        call: "_name_sequence_taker(a0, a1, a2)::int",
        types: &["regclass", "integer", "integer"],
        row: |world, rng| {
            // No copy has been closed for an attempt like this.
            let attempt = or_null(Datum::Int(rng.i64(1 << 29..1 << 31) - (1 << 30)), rng);
            vec![any_sequence(world, rng), any_shard(2, rng), attempt]
        },
        judge: |world, arguments, outcome| {
            assert!(!matches!(outcome, Ok(named) if *named != Datum::Int(0)));
            step_faults(world, arguments)
        },
    },
    Maker {
        signature: "node_next_id(regclass,timestamptz)",
        is_slow: false,
        call: "node_next_id(a0, a1)",
        types: &["regclass", "timestamptz"],
        row: |world, rng| row_with_epoch(world, rng).split_off(1),
        judge: node_next_id_faults,
    },
    Maker {
        signature: "next_id(integer,regclass,timestamptz)",
        is_slow: false,
        call: "next_id(a0, a1, a2)",
        types: &["integer", "regclass", "timestamptz"],
        row: row_with_epoch,
        judge: next_id_from,
    },
    Maker {
        signature: "shard_next_id(integer,regclass,timestamptz)",
        is_slow: false,
        call: "shard_next_id(a0, a1, a2)",
        types: &["integer", "regclass", "timestamptz"],
        row: row_with_epoch,
        judge: next_id_from,
    },
    Maker {
        signature: "next_ids(integer,integer)",
        is_slow: false,
        // Any number may be asked for; it is made as it is fetched.
        call: "(SELECT next_ids(a0, a1) LIMIT 1)",
        types: &["integer", "integer"],
        row: |_, rng| {
            let count = if rng.bool() { rng.i32(-2..=2) } else { up_to(i32::MAX - 2, rng) };
            vec![any_shard(20, rng), or_null(Datum::Int(count.into()), rng)]
        },
        judge: |world, arguments, outcome| {
            let faults = match arguments[1] {
                Datum::Int(count @ 1..) => {
                    let faults = next_id_of_shard(world, &arguments[0], outcome);
                    if faults.is_empty() {
                        world.spend_run(number(&arguments[0]), count);
                    }
                    return faults;
                }
                Datum::Int(_) => OUT_OF_RANGE,
                _ => NULL,
            };
            [world.shard_faults(&arguments[0]), vec![faults]].concat()
        },
    },
    Maker {
        signature: "advance_shard(integer,bigint)",
        is_slow: false,
        call: "advance_shard(a0, a1)",
        types: &["integer", "bigint"],
        row: advance_row,
        judge: advance_faults,
    },
    Maker {
        signature: "create_shard(integer,text,timestamptz,boolean)",
        is_slow: true,
        call: "count(*) FROM create_shard(a0, a1, a2, a3)",
        types: &["integer", "text", "timestamptz", "boolean"],
        row: |world, rng| {
            let shard = if rng.u8(..8) == 0 { Datum::Int(rng.i64(0..12)) } else { any_shard(4, rng) };
            let schema = any_schema(rng);
            let epoch = match rng.u8(..4) {
                0 => Datum::Int(one_of(rng, &[INFINITY, MINUS_INFINITY, ORIGINAL_EPOCH])),
                // Most of these do not work, which takes no time.
                1 | 2 => Datum::Int(epoch_for_now(world, rng)),
                _ => Datum::Null,
            };
            vec![shard, schema, epoch, any_bool(rng)]
        },
        judge: create_faults,
    },
    Maker {
        signature: "claim_shard(integer)",
        is_slow: true,
        call: "count(*) FROM claim_shard(a0)",
        types: &["integer"],
        row: |_, rng| vec![any_shard(20, rng)],
        judge: |world, arguments, _| world.shard_faults(&arguments[0]),
    },
    Maker {
        signature: "unadopt_shard(integer)",
        is_slow: true,
        call: "count(*) FROM unadopt_shard(a0)",
        types: &["integer"],
        row: |_, rng| vec![if rng.u8(..50) == 0 { Datum::Int(ADOPTED) } else { any_shard(4, rng) }],
        judge: |world, arguments, outcome| {
            let faults = world.shard_faults(&arguments[0]);
            if !faults.is_empty() {
                faults
            } else if arguments[0] != Datum::Int(ADOPTED) {
                vec!["55000"]
            } else {
                assert!(outcome.is_ok(), "{outcome:?}");
                world.shards.remove(&ADOPTED);
                vec![]
            }
        },
    },
    Maker {
        signature: "adopt_shard(integer,text,regprocedure,regclass,timestamptz,boolean)",
        is_slow: true,
        call: "count(*) FROM adopt_shard(a0, a1, a2, a3, a4, a5)",
        types: &["integer", "text", "regprocedure", "regclass", "timestamptz", "boolean"],
        row: adopt_row,
        judge: adopt_faults,
    },
    Maker {
        signature: "adopt_table(integer,regclass,text,boolean)",
        is_slow: true,
        call: "count(*) FROM adopt_table(a0, a1, a2, a3)",
        types: &["integer", "regclass", "text", "boolean"],
        row: adopt_table_row,
        judge: adopt_table_faults,
    },
    Maker {
        signature: "create_id_triggers(integer)",
        is_slow: true,
        call: "count(*) FROM create_id_triggers(a0)",
        types: &["integer"],
        row: |_, rng| vec![any_shard(2, rng)],
        judge: |world, arguments, outcome| {
            let faults = world.shard_faults(&arguments[0]);
            // Shard 5 has a table, which wants one once in a batch.
            match arguments[0] {
                Datum::Int(5) => {
                    let wants = !std::mem::replace(&mut world.has_triggers, true);
                    assert_eq!(*outcome, Ok(Datum::Int(wants.into())));
                }
                Datum::Int(6) => assert_eq!(*outcome, Ok(Datum::Int(0))),
                _ => {}
            }
            faults
        },
    },
    Maker {
        signature: "create_partitions(regclass,text,integer,timestamptz,timestamptz)",
        is_slow: true,
        call: "count(*) FROM create_partitions(a0, a1, a2, a3, a4)",
        types: &["regclass", "text", "integer", "timestamptz", "timestamptz"],
        row: create_partitions_row,
        judge: create_partitions_faults,
    },
    Maker {
        signature: "drop_partitions(regclass,timestamptz,timestamptz,boolean)",
        is_slow: true,
        call: "count(*) FROM drop_partitions(a0, a1, a2, a3)",
        types: &["regclass", "timestamptz", "timestamptz", "boolean"],
        row: drop_partitions_row,
        judge: drop_partitions_faults,
    },
    Maker {
        signature: "instagram_id_version()",
        is_slow: false,
        call: "(instagram_id_version() = default_version AND a0 = a0)::int
               FROM pg_available_extensions WHERE name = 'instagram_id'",
        types: &["integer"],
        row: |_, rng| vec![Datum::Int(rng.i64(..8192))],
        judge: |_, _, outcome| {
            assert_eq!(*outcome, Ok(Datum::Int(1)));
            vec![]
        },
    },
    Maker {
        signature: "shard_problem(integer,regnamespace)",
        is_slow: false,
        call: "count(shard_problem(a0, a1::oid::regnamespace))",
        types: &["integer", "bigint"],
        row: |_, rng| vec![any_shard(8, rng), Datum::Int(one_of(rng, &[0, 11, 2200, 4_294_967_295]))],
        // None of these schemas is a shard's.
        judge: |_, _, outcome| {
            assert_eq!(*outcome, Ok(Datum::Int(0)));
            vec![]
        },
    },
    Maker {
        signature: "shard_states()",
        is_slow: false,
        call: "count(*) FROM shard_states() WHERE shard <> a0",
        types: &["integer"],
        row: |_, rng| vec![Datum::Int(one_of(rng, &[4, 5]))],
        judge: |_, arguments, outcome| {
            let other_shards = if arguments[0] == Datum::Int(5) { 2 } else { 3 };
            assert_eq!(*outcome, Ok(Datum::Int(other_shards)));
            vec![]
        },
    },
];

impl Maker {
    fn calls(&self) -> usize {
        if self.is_slow { length(4_000, 100_000) } else { calls() }
    }

    fn check(&self, client: &mut Client, world: &mut World, rng: &mut Rng) {
        let attempt = Attempt::new(client, self.call, self.types);
        let mut tally = Tally::new();
        let batch = 1000;
        let now = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 946684800000000";
        for _ in 0..self.calls() / batch {
            world.reset();
            world.began = one(client, now);
            let rows: Vec<Arguments> = (0..batch).map(|_| (self.row)(world, rng)).collect();
            let outcomes = attempt.run(client, &rows.iter().collect::<Vec<_>>());
            world.ended = one(client, now);
            assert_eq!(outcomes.len(), rows.len());
            for (row, outcome) in rows.iter().zip(&outcomes) {
                let faults = (self.judge)(world, row, outcome);
                let call = format!("{}: {row:?}: {outcome:?}, expected {faults:?}", self.signature);
                match outcome {
                    Ok(_) => assert!(faults.is_empty(), "{call}"),
                    Err(state) => {
                        assert!(faults.contains(&&**state), "{call}");
                        assert!(README.contains(state.as_str()), "{state} is not in the README");
                    }
                }
                tally.note(outcome.as_ref().err().map_or("answers", String::as_str));
            }
        }
        tally.show(
            self.signature,
            self.calls(),
            !["instagram_id_version()", "shard_problem(integer,regnamespace)", "shard_states()"]
                .contains(&self.signature),
        );
    }
}

/// Bad arguments do no harm: each gives an error that the README names for what is wrong with it, and between them the
/// good ones go on growing, from shards, from a sequence, and by epochs of any kind.
#[test]
fn functions_that_make_something_survive_bad_arguments() {
    let (watch, mut client) = Watch::start();
    let mut world = World::make(&mut client);
    let mut rng = random("functions that make something");
    let first: i64 = one(&mut client, "SELECT next_id(5)");
    for maker in MAKERS {
        maker.check(&mut client, &mut world, &mut rng);
        // Shard 6 may have been taken anywhere.
        let reset = "SELECT setval('insta6.table_id_seq', 1), setval('wild', 1)";
        client.batch_execute(reset).unwrap();
        world.last.retain(|clock, _| *clock != 6 && *clock != -world.wild);
    }
    let id: i64 = one(&mut client, "SELECT next_id(5)");
    world.check_id(5, 5, id);
    assert!(id > first && lead(&mut client, id).abs() < 60.0, "{id} after {first}");
    watch.check(&mut client);
}

/// A function that is added to the extension is missing here until it is tested.
#[test]
fn every_function_of_the_extension_is_tested() {
    let (watch, mut client) = Watch::start();
    let makers = MAKERS.iter().map(|maker| maker.signature).chain(OTHERS.iter().copied());
    let tested = PURE.iter().map(Pure::signature).chain(makers.map(str::to_owned));
    let normalized = "SELECT array_agg(f::regprocedure::text) FROM unnest($1::text[]) AS f";
    let tested: Vec<String> = client.query_one(normalized, &[&tested.collect::<Vec<_>>()]).unwrap().get(0);
    let installed = "SELECT array_agg(objid::regprocedure::text) FROM pg_depend
        WHERE deptype = 'e' AND classid = 'pg_proc'::regclass AND refclassid = 'pg_extension'::regclass
        AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'instagram_id')";
    let installed: Vec<String> = one(&mut client, installed);
    assert_eq!(BTreeSet::from_iter(tested), BTreeSet::from_iter(installed));
    watch.check(&mut client);
}

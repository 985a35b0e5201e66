//! Calls the functions of the extension with random values, mostly at the edges. Each call must
//! return the result that the specification requires, or fail with one of the SQLSTATEs that
//! docs/use/errors.md lists; the server must never crash.
//! `every_function_survives_random_arguments` calls every function that is installed. The other
//! tests know what the result must be.

use fastrand::Rng;
use instagram_id_live::spec::*;
use instagram_id_live::*;
use postgres::Client;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

/// The number of calls of each function.
fn calls() -> usize {
    if is_quick() { BATCH } else { length(20_000, 200_000) }
}

const BATCH: usize = 5000;

/// `f(0), f(1), ...`
fn list(count: usize, f: impl Fn(usize) -> String) -> String {
    (0..count).map(f).collect::<Vec<_>>().join(", ")
}

/// A temporary function that runs a call with arguments `a0`, `a1`, ... for each row of arguments,
/// and returns the bigint or the SQLSTATE of each.
struct Attempt {
    call: String,
    types: &'static [&'static str],
}

impl Attempt {
    /// Creates the function for this session.
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
        client.batch_execute(&helper).unwrap_or_else(|error| panic!("{helper}: {}", why(&error)));
        Attempt { call: call.to_owned(), types }
    }

    /// Rolls back all changes to the catalogs.
    fn run(&self, client: &mut Client, rows: &[&Arguments]) -> Vec<Result<Datum, String>> {
        let columns = columns(rows, self.types.len());
        let arguments = list(self.types.len(), |n| format!("${}::{}[]", n + 1, self.types[n]));
        let mut transaction = client.transaction().unwrap();
        let outcomes = transaction
            .query(
                &format!("SELECT value, state FROM pg_temp.attempt({arguments})"),
                &parameters(&columns),
            )
            .unwrap_or_else(|error| panic!("{}: {}", self.call, why(&error)));
        transaction.rollback().unwrap();
        let outcome = |row: &postgres::Row| match row.get::<_, Option<String>>(1) {
            Some(state) => Err(state),
            None => Ok(row.get(0)),
        };
        outcomes.iter().map(outcome).collect()
    }
}

/// The outcomes of a function's calls, and the time they took.
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

    /// Prints the outcomes. A function that never succeeds, or that never fails although it can,
    /// has not been tested.
    fn show(&self, function: &str, calls: usize, can_fail: bool) {
        let counts: Vec<String> =
            self.counts.iter().map(|(outcome, n)| format!("{n} {outcome}")).collect();
        let shown = format!("{function}: {} in {:.1?}", counts.join(", "), self.began.elapsed());
        println!("{shown}");
        let answers = self.counts.get("answers").copied().unwrap_or_default();
        let all: usize = self.counts.values().sum();
        assert_eq!(all, calls, "{shown}");
        assert!(answers * 1000 >= all && (answers < all) == can_fail, "{shown}");
    }
}

/// The server and its backend, to check that neither has crashed.
struct Watch {
    server: Server,
    pid: i32,
}

impl Watch {
    fn start() -> (Watch, Client) {
        // Of the log messages only those about a crash are needed.
        let server = Server::start(&[("fsync", "off"), ("log_min_messages", "log")]);
        let mut client = server.connect();
        let pid = one(&mut client, "SELECT pg_backend_pid()");
        client.batch_execute("SET client_min_messages = error").unwrap();
        setup(&mut client);
        (Watch { server, pid }, client)
    }

    fn check(self, client: &mut Client) {
        assert_eq!(one::<i32>(client, "SELECT pg_backend_pid()"), self.pid);
        drop(self.server); // checks the log for a crash
    }
}

// --- random values
// ----------------------------------------------------------------------------------------------

fn one_of<T: Clone>(rng: &mut Rng, values: &[T]) -> T {
    rng.choice(values).expect("some").clone()
}

fn edge_or_any(rng: &mut Rng, edges: &[i64], range: Range<i64>) -> i64 {
    if rng.bool() { one_of(rng, edges) } else { rng.i64(range) }
}

/// A number of any magnitude; numbers near a power of two and near zero are as likely as all
/// others.
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

/// Mostly a number from 0 to `most`, often at the edges of this range, sometimes any number.
fn up_to(most: i32, rng: &mut Rng) -> i32 {
    match rng.u8(..8) {
        0 => one_of(rng, &[i32::MIN, i32::MAX, -1, most + 1, most + 2, 1 << 16, 1 << 13, 1 << 10]),
        1 => rng.i32(..),
        2 => one_of(rng, &[0, 1, most - 1, most]),
        _ => rng.i32(0..=most),
    }
}

/// Any timestamptz, including infinities, BC and the far future.
fn any_time(rng: &mut Rng) -> i64 {
    match rng.u8(..4) {
        0 => one_of(rng, &[INFINITY, MINUS_INFINITY]),
        1 => {
            finite(one_of(rng, &[FIRST_TIME, LAST_TIME, 0, ORIGINAL_EPOCH]), rng.i64(-1001..=1001))
        }
        _ => rng.i64(FIRST_TIME..=LAST_TIME),
    }
}

/// `time` plus `offset`, limited to the finite timestamps.
fn finite(time: i64, offset: i64) -> i64 {
    time.saturating_add(offset).clamp(FIRST_TIME, LAST_TIME)
}

/// An epoch, often one that is used elsewhere.
fn any_epoch(rng: &mut Rng) -> i64 {
    let last_with_a_whole_field = LAST_TIME - FIELD_MS * 1000;
    match rng.u8(..4) {
        0 => any_time(rng),
        1 => finite(last_with_a_whole_field, rng.i64(-2000..=2000)),
        2 => rng.i64(FIRST_TIME..=last_with_a_whole_field),
        _ => one_of(rng, &[ORIGINAL_EPOCH, 0, -946_684_800_000_000, 347_155_200_000_000]),
    }
}

/// A time within the range of an epoch's time field, often at an edge; sometimes any time.
fn time_near(epoch: i64, rng: &mut Rng) -> i64 {
    let ms = match rng.u8(..8) {
        0 => return any_time(rng),
        1 | 2 => one_of(rng, &[0, 1, POSITIVE_MS, FIELD_MS]),
        _ => rng.i64(0..FIELD_MS),
    };
    let us = edge_or_any(rng, &[-1000, -999, -1, 0, 1, 999, 1000], -2000..2000);
    finite(epoch, ms * 1000 + us)
}

/// The kind of an argument of a pure function.
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

/// Related arguments: times near the epoch, ids near the times.
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

// --- the pure functions
// -------------------------------------------------------------------------------------------

type Answer = Result<Vec<Datum>, Faults>;

/// A function whose result can be computed beforehand.
struct Pure {
    name: &'static str,
    kinds: &'static [Kind],
    /// The columns of a function that returns a row with several.
    columns: &'static [&'static str],
    can_fail: bool,
    /// The expected answer for these arguments; a call without an epoch gets the original epoch as
    /// its last argument.
    answer: fn(&[Option<i64>]) -> Answer,
}

/// The answer of a STRICT function: NULL if an argument is NULL.
fn strict<const N: usize>(
    arguments: &[Option<i64>],
    columns: usize,
    f: impl Fn([i64; N]) -> Result<Vec<i64>, Faults>,
) -> Answer {
    let given: Option<Vec<i64>> = arguments[..N].iter().copied().collect();
    match given {
        Some(given) => {
            Ok(f(given.try_into().expect("so many"))?.into_iter().map(Datum::Int).collect())
        }
        None => Ok(vec![Datum::Null; columns]),
    }
}

fn int(n: i64) -> i32 {
    n.try_into().expect("an integer")
}

const fn pure(
    name: &'static str,
    kinds: &'static [Kind],
    answer: fn(&[Option<i64>]) -> Answer,
) -> Pure {
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
    strict(arguments, 1, |[time, shard, seq, epoch]| {
        Ok(vec![make_id(time, int(shard), int(seq), epoch)?])
    })
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
        never_fails(pure("id_shard", &[Id], |a| {
            strict(a, 1, |[id]| Ok(vec![fields(id).1 as i64]))
        })),
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

    /// Computes many answers in one plain statement, as a query over a table does.
    fn answers(
        &self,
        client: &mut Client,
        rows: &[&Arguments],
    ) -> Result<Vec<Vec<Datum>>, postgres::Error> {
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
            let (good, bad): (Vec<_>, Vec<_>) =
                rows.iter().zip(&expected).partition(|(_, it)| it.is_ok());

            let (good_rows, good): (Vec<_>, Vec<_>) = good.into_iter().unzip();
            let answers = self.answers(client, &good_rows).unwrap_or_else(|error| {
                let outcomes = attempt.run(client, &good_rows);
                let failed = outcomes.iter().zip(&good_rows).find(|(outcome, _)| outcome.is_err());
                panic!("{}: {failed:?} should have an answer: {}", self.signature(), why(&error))
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
                assert!(
                    faults.contains(&&**state),
                    "{}{row:?}: {state}, not {faults:?}",
                    self.signature()
                );
                tally.note(state);
            }
        }
        tally.show(&self.signature(), calls(), self.can_fail);
    }
}

/// Compares every pure function with the specification, which uses numbers that cannot overflow.
#[test]
fn pure_functions_match_the_specification() {
    let (watch, mut client) = Watch::start();
    let mut rng = random("pure functions");
    for pure in PURE {
        pure.check(&mut client, &mut rng);
    }
    watch.check(&mut client);
}

/// Round trips over all 64 bits are exact for every epoch with a complete field. Ids sort as their
/// fields do: as bigint if neither is negative, and always as unsigned numbers. The server compares
/// them.
#[test]
fn round_trips_are_exact_and_ids_sort_by_their_fields() {
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

// --- short codes, explanations, ids of the past
// ---------------------------------------------------------------------

/// A short code or a similar text.
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
fn short_codes_match_the_specification() {
    let (watch, mut client) = Watch::start();
    let mut rng = random("short codes");
    let mut tally = Tally::new();
    for _ in 0..calls() / BATCH {
        let ids: Vec<i64> = (0..BATCH).map(|_| any_i64(&mut rng)).collect();
        let query = "SELECT id_to_shortcode(id) FROM unnest($1::bigint[]) WITH ORDINALITY AS t(id, n) ORDER BY n";
        let codes: Vec<String> =
            client.query(query, &[&ids]).unwrap().iter().map(|row| row.get(0)).collect();
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
                (Err(state), Err(faults)) => {
                    assert!(faults.contains(&&**state), "{row:?}: {state}")
                }
                _ => panic!("{row:?}: {outcome:?}, not {expected:?}"),
            }
            tally.note(outcome.as_ref().err().map_or("answers", String::as_str));
        }
    }
    tally.show("shortcode_to_id(text)", calls(), true);
    watch.check(&mut client);
}

#[test]
#[allow(clippy::too_many_lines)] // one scenario
fn explanations_match_the_specification() {
    let (watch, mut client) = Watch::start();
    let mut rng = random("explanations");
    let mut tally = Tally::new();
    let types = ["bigint", "timestamptz"];
    let attempt =
        Attempt::new(&mut client, "count(*) FROM id_explain(a0, a1)", &["bigint", "timestamptz"]);
    let count = if is_quick() { 1000 } else { length(5_000, 100_000) };
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
        let epoch_of =
            |row: &Arguments| if let Datum::Int(at) = row[1] { at } else { ORIGINAL_EPOCH };
        let is_good = |row: &&Arguments| match row[0] {
            Datum::Int(id) => id_time(id, epoch_of(row)).is_ok(),
            _ => true, // NULL in, NULL out
        };
        let (good, bad): (Vec<_>, Vec<_>) = rows.iter().partition(is_good);
        for (outcome, row) in attempt.run(&mut client, &bad).iter().zip(&bad) {
            assert_eq!(*outcome, Err(NO_SUCH_TIME.into()), "{row:?}");
            tally.note(NO_SUCH_TIME);
        }
        // The server formats the times.
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

/// Rows to import: a time, a shard and an epoch each.
type Imported = Vec<[Option<i64>; 3]>;

/// Rows of a few shards, each with its own epoch, in a few consecutive milliseconds; or any rows.
fn imported(rng: &mut Rng, has_epoch: bool) -> Imported {
    let is_small = rng.u8(..4) > 0;
    let shards: Vec<i64> = (0..rng.usize(1..4)).map(|_| rng.i64(0..8192)).collect();
    let begin = ORIGINAL_EPOCH + rng.i64(1..FIELD_MS - 1000) * 1000;
    let earlier =
        |shard: &i64| if has_epoch { ORIGINAL_EPOCH - shard % 3 * 1000 } else { ORIGINAL_EPOCH };
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

/// Either all ids of a window are right, or the specification agrees that such ids do not exist.
#[test]
fn backfilled_ids_match_the_specification() {
    let (watch, mut client) = Watch::start();
    let mut rng = random("ids of the past");
    for has_epoch in [false, true] {
        let mut tally = Tally::new();
        let windows = if is_quick() { 100 } else { length(500, 20_000) };
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
                // NULLs sort last.
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
        // A few random windows do not always contain a full millisecond.
        assert!(is_quick() || full > 0 && most > 3000);
        tally.show(
            if has_epoch { "backfill_id(...) with an epoch" } else { "backfill_id(...)" },
            windows,
            true,
        );
    }
    watch.check(&mut client);
}

// --- functions that generate ids or change something
// --------------------------------------------------------------

/// An argument of a call, and the SQLSTATEs that the argument alone can cause.
type Argument = (Datum, Faults);

/// A function that generates ids or changes something.
struct Maker {
    signature: &'static str,
    /// Whether it searches or changes the catalogs; such functions get fewer calls in everyday
    /// runs.
    is_slow: bool,
    /// The call, without SELECT.
    call: &'static str,
    types: &'static [&'static str],
    /// Arguments for a call: if none has faults, the call succeeds; otherwise it fails with one of
    /// their SQLSTATEs.
    row: fn(&World, &mut Rng) -> Vec<Argument>,
    /// Further SQLSTATEs that are allowed for valid arguments, because of earlier calls of the
    /// batch.
    also: &'static [&'static str],
    /// Checks a result.
    check: fn(&mut World, &[Datum], i64),
}

/// The state after the calls so far.
struct World {
    /// The OIDs of the objects that calls name.
    oids: BTreeMap<&'static str, i64>,
    /// The last value, `ms << 10 | seq`, of each sequence.
    last: BTreeMap<i64, i64>,
    /// When the current batch began and ended by the server's clock.
    began: i64,
    ended: i64,
}

const HOUR: i64 = 3_600_000_000;
const DAY: i64 = 24 * HOUR;
const VALUE_MAX: i64 = (1 << 50) - 1;
const MISSING: &str = "42P01";
const NULL: &str = "22004";

/// Whether the page of the table of errors lists this SQLSTATE.
fn is_documented(state: &str) -> bool {
    let page = include_str!("../../../docs/use/errors.md");
    page.lines().any(|line| line.starts_with(&format!("| {state} | ")))
}

const OBJECTS: &str = "
    SELECT create_shard(6); SELECT adopt_shard(8);
    CREATE SCHEMA empty;
    CREATE SEQUENCE own; CREATE SEQUENCE wild; CREATE SEQUENCE spent; SELECT setval('spent', 1125899906842623);
    CREATE SEQUENCE narrow AS smallint; CREATE SEQUENCE down INCREMENT -1; CREATE SEQUENCE round CYCLE;
    CREATE SEQUENCE low MAXVALUE 1125899906842622; CREATE SEQUENCE late MINVALUE 1125899906842000;
    CREATE SEQUENCE handed_over; CREATE SEQUENCE ended; SELECT setval('ended', 1125899906842623);
    CREATE TABLE insta5.t (id bigint DEFAULT insta5.next_id());
    CREATE TABLE t (id bigserial PRIMARY KEY, small int, name text, plain bigint); CREATE VIEW v AS SELECT 1 AS id;
    CREATE TABLE by_id (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
    CREATE TABLE taken (id bigint) PARTITION BY RANGE (id);
    CREATE TABLE by_int (id int) PARTITION BY RANGE (id); CREATE TABLE by_two (id bigint, b int) PARTITION BY RANGE (id, b);
    CREATE TABLE by_sum (id bigint) PARTITION BY RANGE ((id + 1)); CREATE TABLE by_list (id bigint) PARTITION BY LIST (id);
    CREATE TABLE by_hash (id bigint) PARTITION BY HASH (id);
    SELECT create_id_partitions('by_id', 'month', 1, now() - interval '1 year');
    SELECT create_id_partitions('taken', 'day', 3), create_id_partitions('taken', 'week', 2);
    DO $$ BEGIN
        EXECUTE (SELECT string_agg(format('ALTER TABLE taken DETACH PARTITION %s', inhrelid::regclass), ';')
                 FROM pg_inherits WHERE inhparent = 'taken'::regclass);
    END $$";

/// Names and OIDs, with the SQLSTATEs that each group causes for its kind of argument. The first
/// group is chosen half of the time.
type Named = [(&'static [&'static str], &'static [&'static str])];

const UNFIT: &[&str] = &["55000"];
const WRONG_KIND: &[&str] = &["42809"];
const NO_RELATION: &[&str] = &[MISSING];

const SEQUENCES: &Named = &[
    (&["own"], &[]),
    (&["spent"], &["2200H"]),
    (&["narrow", "down", "round", "low", "late"], UNFIT),
    (&["t", "t_pkey", "v", "pg_class"], WRONG_KIND),
    (&["0", "4294967295", "3999999999"], NO_RELATION),
];

/// Sequences to close, which works with any START value and with an exhausted sequence.
const CLOSABLE: &Named = &[
    (&["handed_over", "ended", "late"], &[]),
    (&["narrow", "round"], UNFIT),
    (&["t", "v"], WRONG_KIND),
    (&["0", "3999999999"], NO_RELATION),
];

/// Tables with a column `id` to adopt, and relations that are refused.
const TABLES: &Named =
    &[(&["t"], &[]), (&["own", "t_pkey", "v"], WRONG_KIND), (&["0", "4294967295"], NO_RELATION)];

/// Functions to adopt as a shard's function.
const FUNCTIONS: &Named = &[
    (&["insta7.next_id()"], &[]),
    (&["next_id(integer)"], &["55000", OUT_OF_RANGE]),
    (&["0", "4294967295"], &["42883"]),
];

const PARTITIONED: &Named = &[
    (&["by_id", "taken"], &[]),
    (
        &[
            "by_int", "by_two", "by_sum", "by_list", "by_hash", "t", "t_pkey", "v", "own",
            "pg_class",
        ],
        WRONG_KIND,
    ),
    (&["0", "4294967295"], NO_RELATION),
];

/// Values of instagram_id.shard, which PostgreSQL parses as an integer.
const SETTINGS: &Named = &[
    (&["5", "6", " 5 ", "+6", "0x5", "06", "5.4", "5e0"], &[]),
    (&["-1"], UNFIT),
    (&["0", "8191", "-0.4"], NO_RELATION),
    (
        &[
            "8192",
            "-2",
            "2147483648",
            "-9223372036854775809",
            "1e400",
            "nan",
            "inf",
            "",
            "5 kB",
            "5x",
            "５",
            "--5",
            "NULL",
        ],
        &[OUT_OF_RANGE],
    ),
];

const SCHEMAS: &[&str] =
    &["", "pg_x", "insta5", "insta7", "empty", "public", "Photos \"1\"", "insta9"];

fn or_null(datum: Datum, rng: &mut Rng) -> Datum {
    if rng.u8(..20) == 0 { Datum::Null } else { datum }
}

/// Sometimes NULL instead, which is an error.
fn not_null((datum, faults): Argument, rng: &mut Rng) -> Argument {
    match or_null(datum, rng) {
        Datum::Null => (Datum::Null, vec![NULL]),
        datum => (datum, faults),
    }
}

fn named(known: &Named, rng: &mut Rng) -> Argument {
    let (name, faults) = if rng.bool() { each(known)[0] } else { one_of(rng, &each(known)) };
    not_null((Datum::Text(name.into()), faults.to_vec()), rng)
}

fn each(known: &Named) -> Vec<(&'static str, &'static [&'static str])> {
    known.iter().flat_map(|(names, faults)| names.iter().map(|name| (*name, *faults))).collect()
}

/// Same as `named`, by OID.
fn object(world: &World, known: &Named, rng: &mut Rng) -> Argument {
    match named(known, rng) {
        (Datum::Text(name), faults) => (Datum::Int(world.oids[&*name]), faults),
        null => null,
    }
}

/// A number, valid from 0 to `most`.
fn number(most: i32, rng: &mut Rng) -> Argument {
    let n = up_to(most, rng);
    let faults = if (0..=most).contains(&n) { vec![] } else { vec![OUT_OF_RANGE] };
    not_null((Datum::Int(n.into()), faults), rng)
}

/// An existing shard in one of `good` cases.
fn shard(good: u8, rng: &mut Rng) -> Argument {
    if rng.u8(..good) == 0 {
        return (Datum::Int(one_of(rng, &[5, 6])), vec![]);
    }
    match number(8191, rng) {
        (Datum::Int(5 | 6 | 8), _) => (Datum::Int(4), vec![MISSING]),
        (shard, faults) if faults.is_empty() => (shard, vec![MISSING]),
        bad => bad,
    }
}

fn boolean(rng: &mut Rng) -> Argument {
    not_null((Datum::Int(rng.bool().into()), vec![]), rng)
}

/// The epoch that ids count from; NULL stands for the original epoch.
fn epoch_or_null(rng: &mut Rng) -> Argument {
    match rng.u8(..8) {
        0 => (Datum::Int(one_of(rng, &[INFINITY, MINUS_INFINITY])), vec![NO_SUCH_TIME]),
        1 => {
            let epoch = any_epoch(rng);
            (Datum::Int(epoch), if is_finite(epoch) { vec![] } else { vec![NO_SUCH_TIME] })
        }
        2 => (Datum::Int(ORIGINAL_EPOCH), vec![]),
        _ => (Datum::Null, vec![]),
    }
}

/// Text that is not a number.
fn any_text(rng: &mut Rng) -> String {
    let chars = [
        'a', 'Z', '0', ' ', '\'', '"', '\\', '$', ';', '.', '%', '\n', 'é', '漢', '😀', '\u{1}',
        '\u{feff}',
    ];
    let len = one_of(rng, &[0, 1, 5, 30, 62, 63, 64, 300]);
    let rest: String = (0..len).map(|_| one_of(rng, &chars)).collect();
    format!("z{rest}")
}

/// The name of a schema; NULL stands for the shard's default schema.
fn any_schema(rng: &mut Rng) -> Datum {
    match rng.u8(..8) {
        0 => Datum::Text(any_text(rng)),
        1 => Datum::Text(one_of(
            rng,
            &["x".repeat(63), "x".repeat(64), "é".repeat(31), "é".repeat(32)],
        )),
        2 | 3 => Datum::Text(one_of(rng, SCHEMAS).into()),
        _ => Datum::Null,
    }
}

/// A sequence that only next_id with an explicit epoch uses, and an epoch that may be too late or
/// too early for it; or the original epoch with any sequence.
fn sequence_and_epoch(world: &World, rng: &mut Rng) -> [Argument; 2] {
    if rng.bool() {
        let epoch = epoch_for_now(world, rng);
        return [(Datum::Int(world.oids["wild"]), vec![]), (Datum::Int(epoch), vec![])];
    }
    let epoch = one_of(rng, &[ORIGINAL_EPOCH, ORIGINAL_EPOCH, INFINITY, MINUS_INFINITY]);
    let faults = if is_finite(epoch) { vec![] } else { vec![NO_SUCH_TIME] };
    [object(world, SEQUENCES, rng), (Datum::Int(epoch), faults)]
}

/// An epoch whose range of ids neither begins nor ends near the current time.
fn epoch_for_now(world: &World, rng: &mut Rng) -> i64 {
    loop {
        let epoch = if rng.bool() { time_near(ORIGINAL_EPOCH, rng) } else { any_epoch(rng) };
        let elapsed = i128::from(world.began) - i128::from(epoch);
        let is_far_from = |edge: i64| (elapsed - i128::from(edge)).abs() > HOUR.into();
        if is_finite(epoch) && is_far_from(0) && is_far_from(POSITIVE_MS * 1000) {
            return epoch;
        }
    }
}

impl World {
    /// Checks an id of a shard, whose sequence only increases.
    fn check_id(&mut self, sequence: i64, shard: i64, id: i64) {
        let (ms, of_shard, seq) = fields(id);
        assert!(id >= 0 && of_shard == shard.into(), "{id} of shard {shard}");
        let value = (ms << 10 | seq) as i64;
        let last = self.last.insert(sequence, value);
        assert!(last < Some(value), "{id} after {last:?}");
    }

    fn check_id_of_shard(&mut self, shard: &Datum, id: i64) {
        self.check_id(self.sequence_of(shard), int_of(shard), id);
    }

    fn sequence_of(&self, shard: &Datum) -> i64 {
        self.oids[&*format!("insta{}.table_id_seq", int_of(shard))]
    }

    /// Same for an id from a named sequence and with an epoch, by the rule for the next value.
    fn check_id_from(&mut self, sequence: &Datum, shard: i64, epoch: i64, id: i64) {
        let sequence = int_of(sequence);
        let last = self.last.get(&sequence).copied();
        self.check_id(sequence, shard, id);
        let (Some(last), value) = (last, self.last[&sequence]) else { return };
        assert_eq!(value & 1023, (last + 1) & 1023, "{id} after {last}");
        let ms_at = |time: i64| (i128::from(time) - i128::from(epoch)).div_euclid(1000);
        let (from, to, ms) = (ms_at(self.began), ms_at(self.ended), i128::from(value >> 10));
        let is_now = from.max((last >> 10).into()) <= ms && ms <= to + 1;
        assert!(value == last + 1 || is_now, "{id} of {ms} ms after {last}, not {from} to {to}");
    }
}

fn int_of(datum: &Datum) -> i64 {
    if let Datum::Int(n) = *datum { n } else { panic!("{datum:?} is no number") }
}

fn not_checked(_: &mut World, _: &[Datum], _: i64) {}

/// An earlier call, with another epoch, has taken the sequence to its end.
const ENDED: &[&str] = &["2200H"];

const MAKERS: &[Maker] = &[
    Maker {
        signature: "next_id()",
        is_slow: false,
        call: "next_id() FROM set_config('instagram_id.shard', a0, true)",
        types: &["text"],
        row: |_, rng| {
            let (setting, faults) = one_of(rng, &each(SETTINGS));
            vec![match rng.u8(..8) {
                // NULL resets the setting.
                0 => (Datum::Null, UNFIT.to_vec()),
                1 => (Datum::Text(any_text(rng)), vec![OUT_OF_RANGE]),
                _ => (Datum::Text(setting.into()), faults.to_vec()),
            }]
        },
        also: &[],
        check: |world, row, id| {
            let (_, shard, _) = fields(id);
            assert!([5, 6].contains(&shard), "{id} by {row:?}");
            world.check_id_of_shard(&Datum::Int(shard as i64), id);
        },
    },
    Maker {
        signature: "next_id(integer)",
        is_slow: false,
        call: "next_id(a0)",
        types: &["integer"],
        row: |_, rng| vec![shard(2, rng)],
        also: &[],
        check: |world, row, id| world.check_id_of_shard(&row[0], id),
    },
    Maker {
        signature: "next_id(integer,regclass)",
        is_slow: false,
        call: "next_id(a0, a1)",
        types: &["integer", "regclass"],
        row: |world, rng| vec![number(8191, rng), object(world, SEQUENCES, rng)],
        also: &[],
        check: |world, row, id| world.check_id_from(&row[1], int_of(&row[0]), ORIGINAL_EPOCH, id),
    },
    Maker {
        signature: "_close_sequence(regclass,integer,integer)",
        is_slow: false,
        call: "(SELECT next_value FROM _close_sequence(a0, a1, a2))",
        types: &["regclass", "integer", "integer"],
        row: |world, rng| {
            vec![object(world, CLOSABLE, rng), number(0x3fff_fffd, rng), number(0x3fff_ffff, rng)]
        },
        also: &[],
        check: |_, row, above| {
            assert!(
                [0, VALUE_MAX + 1].contains(&above),
                "{above} of {row:?}, which nothing was taken from"
            );
        },
    },
    Maker {
        signature: "_name_sequence_taker(regclass,integer,integer)",
        is_slow: false,
        call: "_name_sequence_taker(a0, a1, a2)::int",
        types: &["regclass", "integer", "integer"],
        row: |world, rng| {
            // No earlier call has closed the copy for this attempt.
            let attempt = not_null((Datum::Int(rng.i64(1 << 29..1 << 30)), vec![]), rng);
            vec![object(world, CLOSABLE, rng), number(0x3fff_fffd, rng), attempt]
        },
        also: &[],
        check: |_, row, named| assert_eq!(named, 0, "{row:?}"),
    },
    Maker {
        signature: "node_next_id(regclass,timestamptz)",
        is_slow: false,
        call: "node_next_id(a0, a1)",
        types: &["regclass", "timestamptz"],
        row: |world, rng| sequence_and_epoch(world, rng).to_vec(),
        also: ENDED,
        // Without Citus there is one node, in group 0.
        check: |world, row, id| world.check_id_from(&row[0], 0, int_of(&row[1]), id),
    },
    Maker {
        signature: "next_id(integer,regclass,timestamptz)",
        is_slow: false,
        call: "next_id(a0, a1, a2)",
        types: &["integer", "regclass", "timestamptz"],
        row: shard_sequence_and_epoch,
        also: ENDED,
        check: |world, row, id| world.check_id_from(&row[1], int_of(&row[0]), int_of(&row[2]), id),
    },
    Maker {
        signature: "shard_next_id(integer,regclass,timestamptz)",
        is_slow: false,
        call: "shard_next_id(a0, a1, a2)",
        types: &["integer", "regclass", "timestamptz"],
        row: shard_sequence_and_epoch,
        also: ENDED,
        check: |world, row, id| world.check_id_from(&row[1], int_of(&row[0]), int_of(&row[2]), id),
    },
    Maker {
        signature: "next_ids(integer,integer)",
        is_slow: false,
        // The count is not limited; ids are generated as they are fetched.
        call: "(SELECT next_ids(a0, a1) LIMIT 1)",
        types: &["integer", "integer"],
        row: |_, rng| {
            let count = if rng.bool() { rng.i32(-2..=2) } else { up_to(i32::MAX - 2, rng) };
            let faults = if count > 0 { vec![] } else { vec![OUT_OF_RANGE] };
            vec![shard(20, rng), not_null((Datum::Int(count.into()), faults), rng)]
        },
        also: &[],
        check: |world, row, id| {
            world.check_id_of_shard(&row[0], id);
            // One call reserves the requested ids, up to the end of the millisecond, whether they
            // are fetched or not.
            let sequence = world.sequence_of(&row[0]);
            let last = world.last.get_mut(&sequence).expect("its last value");
            *last += int_of(&row[1]).min(1024 - (*last & 1023)) - 1;
        },
    },
    Maker {
        signature: "advance_shard(integer,bigint)",
        is_slow: false,
        call: "advance_shard(a0, a1)",
        types: &["integer", "bigint"],
        row: |_, rng| {
            let shard = shard(2, rng);
            let id = match shard.0 {
                // Shard 6 is advanced to any value; shard 5 stays near the clock.
                Datum::Int(5) => {
                    let (ms, shard) = (rng.i64(0..400_000_000_000), one_of(rng, &[5, 5, 5, 4]));
                    ms << 23 | shard << 10 | rng.i64(0..1024)
                }
                Datum::Int(6) if rng.bool() => any_i64(rng) & !(8191 << 10) | 6 << 10,
                _ => any_i64(rng),
            };
            let (ms, of_shard, seq) = fields(id);
            let mut faults = vec![];
            if id < 0 || shard.0 != Datum::Int(of_shard as i64) {
                faults.push(OUT_OF_RANGE);
            }
            if ms << 10 | seq >= VALUE_MAX.into() {
                faults.push("2200H");
            }
            vec![shard, not_null((Datum::Int(id), faults), rng)]
        },
        also: &[],
        check: |world, row, id| {
            let value_of = |(ms, _, seq): (i128, i128, i128)| (ms << 10 | seq) as i64;
            let (after, asked) = (value_of(fields(id)), value_of(fields(int_of(&row[1]))));
            // After a reset the value is 1.
            let sequence = world.sequence_of(&row[0]);
            let last = world.last.entry(sequence).or_insert(1);
            assert_eq!(
                (after, fields(id).1),
                ((*last).max(asked), int_of(&row[0]).into()),
                "{row:?} after {last}"
            );
            *last = after;
        },
    },
    Maker {
        signature: "create_shard(integer,text,timestamptz,boolean)",
        is_slow: true,
        call: "count(*) FROM create_shard(a0, a1, a2, a3)",
        types: &["integer", "text", "timestamptz", "boolean"],
        row: |world, rng| {
            let schema = any_schema(rng);
            let name_faults = match &schema {
                Datum::Text(name) if name.is_empty() => vec!["42602"],
                Datum::Text(name) if name.starts_with("pg_") => vec!["42939"],
                Datum::Text(name) if name.len() > 63 => vec!["42622"],
                _ => vec![],
            };
            let epoch = match rng.u8(..4) {
                0 => one_of(rng, &[INFINITY, MINUS_INFINITY, ORIGINAL_EPOCH]),
                // Most of these are refused, which takes no time.
                1 | 2 => epoch_for_now(world, rng),
                _ => ORIGINAL_EPOCH,
            };
            let elapsed = i128::from(world.began) - i128::from(epoch);
            let is_now = (0..i128::from(POSITIVE_MS) * 1000).contains(&elapsed);
            let epoch_faults = if is_now { vec![] } else { vec![NO_SUCH_TIME] };
            let shard =
                if rng.bool() { number(8191, rng) } else { (Datum::Int(rng.i64(0..12)), vec![]) };
            vec![shard, (schema, name_faults), (Datum::Int(epoch), epoch_faults), boolean(rng)]
        },
        // The shard exists with another schema or epoch; or the schema exists with another shard.
        also: &["42710", "42P06", "42723"],
        check: not_checked,
    },
    Maker {
        signature: "claim_shard(integer)",
        is_slow: true,
        call: "count(*) FROM claim_shard(a0)",
        types: &["integer"],
        row: |_, rng| vec![shard(20, rng)],
        also: &[],
        check: not_checked,
    },
    Maker {
        signature: "recover_shard(integer)",
        is_slow: true,
        call: "count(*) FROM recover_shard(a0)",
        types: &["integer"],
        row: |_, rng| vec![shard(20, rng)],
        also: &[],
        check: not_checked,
    },
    Maker {
        signature: "take_over_shards()",
        is_slow: true,
        call: "count(*) FROM take_over_shards() WHERE shard <> a0",
        types: &["integer"],
        row: |_, rng| vec![(Datum::Int(rng.i64(..8192)), vec![])],
        also: &[],
        check: not_checked,
    },
    Maker {
        signature: "unadopt_shard(integer)",
        is_slow: true,
        call: "count(*) FROM unadopt_shard(a0)",
        types: &["integer"],
        row: |_, rng| {
            let (shard, faults) = shard(4, rng);
            match rng.u8(..50) {
                0 => vec![(Datum::Int(8), vec![])],
                _ if faults.is_empty() => vec![(shard, UNFIT.to_vec())],
                _ => vec![(shard, faults)],
            }
        },
        // It is no longer a shard.
        also: NO_RELATION,
        check: not_checked,
    },
    Maker {
        signature: "adopt_shard(integer,text,regprocedure,regclass,timestamptz,boolean)",
        is_slow: true,
        call: "count(*) FROM adopt_shard(a0, a1, a2, a3, a4, a5)",
        types: &["integer", "text", "regprocedure", "regclass", "timestamptz", "boolean"],
        row: |world, rng| {
            // With these arguments it is not shard 7 in its schema.
            let other = || vec![OUT_OF_RANGE, "3F000", "42710", "42883", "55000"];
            let schema = match any_schema(rng) {
                // Longer than any name, which is checked first.
                Datum::Text(name) if name.len() > 63 => (Datum::Text(name), vec!["42622"]),
                Datum::Text(name) if name != "insta7" && rng.bool() => (Datum::Text(name), other()),
                _ => (Datum::Text("insta7".into()), vec![]),
            };
            let shard = match number(8191, rng) {
                (Datum::Int(n), _) if n != 7 && rng.bool() => (Datum::Int(n), other()),
                _ => (one_of(rng, &[Datum::Int(7), Datum::Null]), vec![]),
            };
            let sequence = match one_of(rng, &each(SEQUENCES)).0 {
                name if rng.u8(..4) == 0 => (Datum::Int(world.oids[name]), vec![OUT_OF_RANGE]),
                _ => (
                    one_of(rng, &[Datum::Int(world.oids["insta7.table_id_seq"]), Datum::Null]),
                    vec![],
                ),
            };
            let epoch = match any_epoch(rng) {
                epoch if epoch != ORIGINAL_EPOCH && rng.u8(..4) == 0 => {
                    (Datum::Int(epoch), vec![OUT_OF_RANGE, NO_SUCH_TIME])
                }
                _ => (one_of(rng, &[Datum::Int(ORIGINAL_EPOCH), Datum::Null]), vec![]),
            };
            let function = if rng.bool() {
                (Datum::Null, vec![])
            } else {
                without_null(object(world, FUNCTIONS, rng))
            };
            vec![shard, schema, function, sequence, epoch, not_null((Datum::Int(1), vec![]), rng)]
        },
        also: &[],
        check: not_checked,
    },
    Maker {
        signature: "adopt_table(integer,regclass,text,boolean,text)",
        is_slow: true,
        call: "count(*) FROM adopt_table(a0, a1, a2, a3, a4)",
        types: &["integer", "regclass", "text", "boolean", "text"],
        row: |world, rng| {
            let columns: &Named = &[
                (&["id"], &[]),
                (&["small", "name"], &["42804"]),
                (&["plain"], UNFIT),
                (&["nowhere", "ctid", "ID", ""], &["42703"]),
            ];
            let column = match rng.u8(..8) {
                0 => {
                    let name = any_text(rng);
                    let fault = if name.len() > 63 { "42622" } else { "42703" };
                    (Datum::Text(name), vec![fault])
                }
                1..4 => (Datum::Null, vec![]),
                _ => without_null(named(columns, rng)),
            };
            let dry_run = Datum::Int((rng.u8(..50) > 0).into());
            let schema = match rng.u8(..8) {
                0 => (Datum::Text(any_text(rng)), vec![OUT_OF_RANGE, "42602", "42622", "42939"]),
                _ => (Datum::Null, vec![]),
            };
            vec![
                shard(2, rng),
                object(world, TABLES, rng),
                column,
                not_null((dry_run, vec![]), rng),
                schema,
            ]
        },
        // It already has ids as a default.
        also: UNFIT,
        check: not_checked,
    },
    Maker {
        signature: "convert_defaults_to_triggers(integer)",
        is_slow: true,
        call: "count(*) FROM convert_defaults_to_triggers(a0)",
        types: &["integer"],
        row: |_, rng| vec![shard(2, rng)],
        also: &[],
        // Shard 5 has one table to convert, once in a batch.
        check: |_, row, made| {
            assert!((0..=i64::from(row[0] == Datum::Int(5))).contains(&made), "{row:?}: {made}")
        },
    },
    Maker {
        signature: "create_id_partitions(regclass,text,integer,timestamptz,timestamptz)",
        is_slow: true,
        call: "count(*) FROM create_id_partitions(a0, a1, a2, a3, a4)",
        types: &["regclass", "text", "integer", "timestamptz", "timestamptz"],
        row: |world, rng| {
            let periods: &Named = &[
                (&["day", "week", "month"], &[]),
                (&["", "Day", "day ", "1 day", "year"], &[OUT_OF_RANGE]),
            ];
            let every = match rng.u8(..8) {
                0 => (Datum::Text(any_text(rng)), vec![OUT_OF_RANGE]),
                _ => named(periods, rng),
            };
            // A small number, since each creates a table.
            let ahead = match rng.u8(..8) {
                0 => (one_of(rng, &[-1, i32::MIN, 10_001, i32::MAX]), vec![OUT_OF_RANGE]),
                _ => (rng.i32(0..4), vec![]),
            };
            let ahead = not_null((Datum::Int(ahead.0.into()), ahead.1), rng);
            let epoch = epoch_or_null(rng);
            let from = match rng.u8(..8) {
                0 => one_of(rng, &[INFINITY, MINUS_INFINITY, LAST_TIME]),
                // Before the epoch; an offset from another epoch would mean thousands of days.
                1 if epoch.0 == Datum::Null => ORIGINAL_EPOCH - 1,
                _ => world.began - rng.i64(-2 * DAY..3 * DAY),
            };
            let counts_from = if let Datum::Int(epoch) = epoch.0 { epoch } else { ORIGINAL_EPOCH };
            let faults = make_id(from, 0, 0, counts_from).err().unwrap_or_default();
            let from = if rng.bool() { (Datum::Null, vec![]) } else { (Datum::Int(from), faults) };
            vec![object(world, PARTITIONED, rng), every, ahead, from, epoch]
        },
        // The name is taken: by a detached partition, or by a partition of another epoch.
        also: &["42P07"],
        // From two days ago to the days ahead, and parts of periods next to other partitions.
        check: |_, row, made| assert!((0..=20).contains(&made), "{made} made by {row:?}"),
    },
    Maker {
        signature: "drop_old_id_partitions(regclass,timestamptz,timestamptz,boolean)",
        is_slow: true,
        call: "count(*) FROM drop_old_id_partitions(a0, a1, a2, a3)",
        types: &["regclass", "timestamptz", "timestamptz", "boolean"],
        row: |world, rng| {
            let before = match rng.u8(..8) {
                0 => (one_of(rng, &[INFINITY, MINUS_INFINITY]), vec![NO_SUCH_TIME]),
                1 => (world.began + rng.i64(HOUR..DAY), vec![OUT_OF_RANGE]),
                2 => (LAST_TIME, vec![OUT_OF_RANGE]),
                3 => (FIRST_TIME, vec![]),
                _ => (world.began - rng.i64(DAY..500 * DAY), vec![]),
            };
            let before = not_null((Datum::Int(before.0), before.1), rng);
            vec![object(world, PARTITIONED, rng), before, epoch_or_null(rng), boolean(rng)]
        },
        // Counted from an epoch earlier than theirs, all ids look older than they are.
        also: UNFIT,
        check: not_checked,
    },
    Maker {
        signature: "instagram_id_version()",
        is_slow: false,
        call: "(instagram_id_version() = default_version AND a0 = a0)::int
               FROM pg_available_extensions WHERE name = 'instagram_id'",
        types: &["integer"],
        row: |_, rng| vec![(Datum::Int(rng.i64(..8192)), vec![])],
        also: &[],
        check: |_, _, is_it| assert_eq!(is_it, 1),
    },
    Maker {
        signature: "_shard_reason(integer,regnamespace)",
        is_slow: false,
        call: "count(_shard_reason(a0, a1::oid::regnamespace))",
        types: &["integer", "bigint"],
        // None of these schemas belongs to a shard.
        row: |_, rng| {
            let schema = Datum::Int(one_of(rng, &[0, 11, 2200, 4_294_967_295]));
            vec![(number(8191, rng).0, vec![]), (schema, vec![])]
        },
        also: &[],
        check: |_, _, problems| assert_eq!(problems, 0),
    },
    Maker {
        signature: "_shard_states()",
        is_slow: false,
        call: "count(*) FROM _shard_states() WHERE shard <> a0",
        types: &["integer"],
        row: |_, rng| vec![(Datum::Int(one_of(rng, &[4, 5])), vec![])],
        also: &[],
        check: |_, row, others| assert_eq!(others, if row[0] == Datum::Int(5) { 2 } else { 3 }),
    },
];

/// Functions whose calls never fail.
const NEVER_FAIL: [&str; 4] = [
    "instagram_id_version()",
    "_shard_reason(integer,regnamespace)",
    "_shard_states()",
    "take_over_shards()",
];

fn shard_sequence_and_epoch(world: &World, rng: &mut Rng) -> Vec<Argument> {
    let [sequence, epoch] = sequence_and_epoch(world, rng);
    vec![number(8191, rng), sequence, not_null(epoch, rng)]
}

/// For an argument that may be NULL.
fn without_null((datum, faults): Argument) -> Argument {
    if datum == Datum::Null { (datum, vec![]) } else { (datum, faults) }
}

impl Maker {
    fn calls(&self) -> usize {
        match (is_quick(), self.is_slow) {
            (true, _) => 1000,
            (false, true) => length(4_000, 40_000),
            (false, false) => calls(),
        }
    }

    fn check(&self, client: &mut Client, world: &mut World, rng: &mut Rng) {
        let attempt = Attempt::new(client, self.call, self.types);
        let mut tally = Tally::new();
        // Of the calls with valid arguments: how many succeed, and how many fail because of earlier
        // calls.
        let (mut succeed, mut clashes) = (0, BTreeMap::<&str, usize>::new());
        let batch = 1000;
        let now = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint - 946684800000000";
        for _ in 0..self.calls() / batch {
            world.began = one(client, now);
            let (rows, faults): (Vec<Arguments>, Vec<Vec<Faults>>) =
                (0..batch).map(|_| (self.row)(world, rng).into_iter().unzip()).unzip();
            let outcomes = attempt.run(client, &rows.iter().collect::<Vec<_>>());
            world.ended = one(client, now);
            assert_eq!(outcomes.len(), rows.len());
            for ((row, faults), outcome) in
                rows.iter().zip(faults.iter().map(|of| of.concat())).zip(&outcomes)
            {
                let call = format!("{}: {row:?}: {outcome:?}, expected {faults:?}", self.signature);
                match outcome {
                    Ok(answer) => {
                        assert!(faults.is_empty(), "{call}");
                        succeed += 1;
                        (self.check)(world, row, int_of(answer));
                    }
                    Err(state) => {
                        if faults.is_empty() {
                            let clash = self.also.iter().find(|clash| *clash == state);
                            *clashes
                                .entry(clash.unwrap_or_else(|| panic!("{call}")))
                                .or_default() += 1;
                        } else {
                            assert!(faults.iter().any(|fault| fault == state), "{call}");
                        }
                        assert!(is_documented(state), "docs/use/errors.md lacks {state}: {call}");
                    }
                }
                tally.note(outcome.as_ref().err().map_or("answers", String::as_str));
            }
        }
        tally.show(self.signature, self.calls(), !NEVER_FAIL.contains(&self.signature));
        // No other clash is allowed than those that occur.
        let shown =
            format!("{}: {succeed} valid calls succeed, and {clashes:?} do not", self.signature);
        println!("{shown}");
        if !is_quick() {
            assert_same_set(clashes.into_keys(), self.also.iter().copied(), &shown);
        }
    }
}

/// Bad arguments do no harm: each call fails with an error that the reference lists for its
/// arguments. Between them valid calls continue to generate increasing ids, from shards, from a
/// sequence and by any epoch.
#[test]
fn bad_arguments_cause_documented_errors() {
    let (watch, mut client) = Watch::start();
    for shard in [7, 8] {
        client.batch_execute(&original_of_shard(shard)).unwrap();
    }
    client.batch_execute(OBJECTS).unwrap();
    let sequences = ["wild", "insta5.table_id_seq", "insta6.table_id_seq", "insta7.table_id_seq"];
    let pools = [SEQUENCES, CLOSABLE, TABLES, PARTITIONED, FUNCTIONS];
    let mut oid = |name: &'static str| {
        let class = if name.ends_with(')') { "regprocedure" } else { "regclass" };
        (name, one(&mut client, &format!("SELECT '{name}'::{class}::oid::bigint")))
    };
    let names = pools.into_iter().flat_map(each).map(|(name, _)| name).chain(sequences);
    let oids: BTreeMap<&str, i64> = names.map(&mut oid).collect();
    let mut world = World { oids, last: BTreeMap::new(), began: 0, ended: 0 };
    let [wild, shard_5, shard_6] =
        ["wild", sequences[1], sequences[2]].map(|name| world.oids[name]);
    let mut rng = random("functions that make something");
    let first: i64 = one(&mut client, "SELECT next_id(5)");
    for maker in MAKERS {
        maker.check(&mut client, &mut world, &mut rng);
        // Earlier calls may have advanced shard 6 to any value.
        let reset = "SELECT setval('insta6.table_id_seq', 1), setval('wild', 1)";
        client.batch_execute(reset).unwrap();
        world.last.retain(|sequence, _| ![wild, shard_6].contains(sequence));
    }
    let id: i64 = one(&mut client, "SELECT next_id(5)");
    world.check_id(shard_5, 5, id);
    assert!(id > first && lead(&mut client, id).abs() < 60.0, "{id} after {first}");
    watch.check(&mut client);
}

// --- all functions
// ------------------------------------------------------------------------------------------

/// A function as the catalog describes it.
struct Member {
    name: String,
    types: Vec<String>,
    is_window: bool,
}

impl Member {
    /// The functions of the extension, except those that only a trigger can call.
    fn all(client: &mut Client) -> Vec<Member> {
        let query = format!(
            "SELECT proname::text, proargtypes::regtype[]::text[], prokind = 'w' FROM pg_proc
             WHERE oid IN ({MEMBER_FUNCTIONS}) AND prorettype <> 'trigger'::regtype
             ORDER BY oid::regprocedure::text"
        );
        let member = |row: &postgres::Row| Member {
            name: row.get(0),
            types: row.get(1),
            is_window: row.get(2),
        };
        client.query(&query, &[]).unwrap().iter().map(member).collect()
    }

    /// A call that fetches at most three rows of the result.
    fn call(&self, objects: &Objects, rng: &mut Rng) -> String {
        let arguments: Vec<String> =
            self.types.iter().map(|of_type| objects.argument(of_type, rng)).collect();
        let over = if self.is_window { " OVER ()" } else { "" };
        format!(
            "SELECT count(r) FROM (SELECT {}({}){over} AS r LIMIT 3) AS s",
            self.name,
            arguments.join(", ")
        )
    }
}

/// The OIDs of the objects that the test has created, and OIDs of none, by the type that names
/// them.
struct Objects(BTreeMap<&'static str, Vec<String>>);

impl Objects {
    fn of(client: &mut Client) -> Objects {
        let catalogs = [
            ("regclass", "pg_class"),
            ("regprocedure", "pg_proc"),
            ("regnamespace", "pg_namespace"),
        ];
        Objects(BTreeMap::from(catalogs.map(|(of_type, catalog)| {
            let query = format!("SELECT oid::text FROM {catalog} WHERE oid >= 16384");
            (
                of_type,
                [texts(client, &query), ["0", "4294967295"].map(str::to_owned).to_vec()].concat(),
            )
        })))
    }

    /// An argument as SQL: a random one of a type that is known here, otherwise NULL.
    fn argument(&self, of_type: &str, rng: &mut Rng) -> String {
        let literal = match of_type {
            "bigint" => any_i64(rng).to_string(),
            "integer" => {
                one_of(rng, &[i32::MIN, -1, 0, 1, 3, 5, 6, 8191, 1 << 30, i32::MAX]).to_string()
            }
            "boolean" => rng.bool().to_string(),
            "text" => match rng.u8(..5) {
                0 => any_text(rng),
                1 => any_code(rng),
                2 => "x".repeat(100_000),
                _ => one_of(rng, &["id", "day"]).to_owned(),
            },
            "timestamp with time zone" => one_of(
                rng,
                &[
                    "-infinity",
                    "infinity",
                    "4714-11-24 BC",
                    "294276-12-31",
                    "2011-08-24 21:07:01.721+00",
                    "now",
                ],
            )
            .to_owned(),
            _ => match self.0.get(of_type) {
                Some(objects) => one_of(rng, objects),
                None => return format!("NULL::{of_type}"),
            },
        };
        match rng.u8(..10) {
            0 => format!("NULL::{of_type}"),
            _ => format!("'{}'::{of_type}", literal.replace('\'', "''")),
        }
    }
}

/// Also those that no other test of this file knows: none crashes the server or fails with an
/// internal error.
#[test]
fn every_function_survives_random_arguments() {
    let (watch, mut client) = Watch::start();
    run(&mut client, &original_of_shard(7));
    run(&mut client, &original_of_shard(8));
    run(&mut client, OBJECTS);
    // Some arguments ask for billions of ids, or for thousands of partitions.
    run(
        &mut client,
        "SET statement_timeout = '1s'; SET standard_conforming_strings = on; SET instagram_id.shard = 5",
    );
    let objects = Objects::of(&mut client);
    let mut rng = random("functions with any arguments");
    let members = Member::all(&mut client);
    for member in &members {
        let mut tally = Tally::new();
        let count = if is_quick() { 20 } else { length(100, 2000) };
        for _ in 0..count {
            let call = member.call(&objects, &mut rng);
            let mut transaction = client.transaction().unwrap();
            let outcome = transaction.simple_query(&call);
            let state = match &outcome {
                Ok(_) => "answers".to_owned(),
                Err(error) => error
                    .code()
                    .unwrap_or_else(|| panic!("{call}: {}", why(error)))
                    .code()
                    .to_owned(),
            };
            assert!(!state.starts_with("XX"), "{call}: {}", why(&outcome.unwrap_err()));
            // A syntax error, or another function than the one that is installed.
            assert!(
                !["42601", "42883"].contains(&&*state) || call.contains("::regprocedure"),
                "{call}: {state}"
            );
            tally.note(&state);
            transaction.rollback().unwrap();
        }
        println!("{}({}): {:?}", member.name, member.types.join(", "), tally.counts);
    }
    assert!(members.len() > 40, "{} functions", members.len());
    watch.check(&mut client);
}

//! Calls the functions of the extension with random values, mostly at the edges. A pure function
//! must return what the specification requires, or fail with the SQLSTATE that it requires.
//! `every_function_survives_random_arguments` calls every function that is installed, only to find
//! crashes and internal errors; the regression tests raise each error.

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

fn or_null(datum: Datum, rng: &mut Rng) -> Datum {
    if rng.u8(..20) == 0 { Datum::Null } else { datum }
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

// --- all functions
// ------------------------------------------------------------------------------------------

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
             WHERE oid IN ({MEMBER_FUNCTIONS}) AND prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
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

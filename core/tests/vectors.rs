//! docs/vectors.json: test vectors for authors of decoders, in any language. `WRITE_PAGE=1` writes
//! the file. The live tests compare it with the functions in SQL, and run the decoders of the
//! examples on it.

use instagram_id_core::epoch::{Epoch, OutOfField};
use instagram_id_core::layout::{MS_MAX, TIME_SHIFT, ms_of, seq_of, shard_of};
use instagram_id_core::shortcode;
use std::fmt::Write;
use std::fs;

/// 2000-01-01 00:00 UTC, from which `timestamptz` counts, in Unix milliseconds.
const YEAR_2000: i64 = 946_684_800_000;
const ORIGINAL: i64 = 1_314_220_021_721;
const YEAR_2020: i64 = 1_577_836_800_000;

/// Epochs in Unix milliseconds, and ids.
const IDS: [(i64, i64); 30] = [
    // The edges of the fields.
    (ORIGINAL, 0),
    (ORIGINAL, 1),
    (ORIGINAL, 63),
    (ORIGINAL, 64),
    (ORIGINAL, 1023),
    (ORIGINAL, 1024),
    (ORIGINAL, 8191 << 10),
    (ORIGINAL, (1 << 23) - 1),
    (ORIGINAL, 1 << 23),
    // Numbers in JavaScript are exact up to the first of these.
    (ORIGINAL, (1 << 53) - 1),
    (ORIGINAL, 1 << 53),
    (ORIGINAL, (1 << 53) + 1),
    // The example of the README, and published posts.
    (ORIGINAL, 1671372309237077023),
    (ORIGINAL, 1857265514529027276),
    (ORIGINAL, 2156615653142894199),
    (ORIGINAL, 2236262423948874256),
    // The last millisecond of the generator; the ids after it are negative.
    (ORIGINAL, i64::MAX - ((1 << 23) - 1)),
    (ORIGINAL, i64::MAX - 1),
    (ORIGINAL, i64::MAX),
    (ORIGINAL, i64::MIN),
    (ORIGINAL, -1671372309237077023),
    (ORIGINAL, -1),
    // Other epochs: the earliest is before 1970, with the last it is the year 2169.
    (-631_152_000_000, 1671372309237077023),
    (-1, 1 << 23),
    (0, 1671372309237077023),
    (1_293_840_000_000, 1671372309237077023),
    (YEAR_2020, 1671372309237077023),
    (YEAR_2020, i64::MAX),
    (YEAR_2020, 0),
    (4_102_444_800_000, -1),
];

/// Codes that are valid, but not those that `id_to_shortcode` returns.
const OTHER_CODES: [&str; 3] = ["AA", "AAB8IzNOMBtIQ", "AP__________"];

const INVALID_CODES: [&str; 12] = [
    "",
    " B",
    "B ",
    "B\n",
    "B+",
    "B/",
    "B.",
    "Bé",
    "B8IzNOMBtIQ=",
    "QAAAAAAAAAA",
    "BAAAAAAAAAAA",
    "QAAAAAAAAAA!",
];

const INVALID_IDS: [&str; 7] =
    ["", "-", "abc", "1.5", "1e3", "9223372036854775808", "-9223372036854775809"];

/// Epochs and times for which there is no floor.
const INVALID_TIMES: [(i64, i64); 4] = [
    (ORIGINAL, ORIGINAL - 1),
    (ORIGINAL, ORIGINAL + MS_MAX as i64 + 1),
    (YEAR_2020, YEAR_2020 - 1),
    (0, MS_MAX as i64 + 1),
];

/// A Unix time in milliseconds as ISO 8601 writes it. The calendar has a cycle of 400 years, whose
/// leap day is here the last one.
fn iso(unix_ms: i64) -> String {
    let (days, ms) = (unix_ms.div_euclid(86_400_000), unix_ms.rem_euclid(86_400_000));
    let since_march_0 = days + 719_468;
    let (cycle, day) = (since_march_0.div_euclid(146_097), since_march_0.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = cycle * 400 + year + next;
    let (hour, minute) = (ms / 3_600_000, ms / 60_000 % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.{:03}Z",
        ms / 1000 % 60,
        ms % 1000
    )
}

fn epoch_of(unix_ms: i64) -> Epoch {
    Epoch::from_unix_ms(unix_ms).expect("an epoch that is finite")
}

/// A line for each vector, so that a difference is easy to read.
fn vectors() -> String {
    let ids = IDS.map(|(epoch, id)| {
        let time = epoch_of(epoch).time_of(ms_of(id)).expect("a time that PostgreSQL has");
        let unix_ms = time / 1000 + YEAR_2000;
        let floor = id >> TIME_SHIFT << TIME_SHIFT;
        assert_eq!(epoch_of(epoch).ms_at(time), Ok(ms_of(floor)));
        let code = shortcode::encode(id);
        assert_eq!(shortcode::decode(&code), Ok(id));
        let (shard, seq, time) = (shard_of(id).number(), seq_of(id).number(), iso(unix_ms));
        format!(
            "{{\"id\": \"{id}\", \"epoch\": {epoch}, \"unix_ms\": {unix_ms}, \"time\": \"{time}\", \"shard\": {shard}, \
             \"seq\": {seq}, \"floor\": \"{floor}\", \"code\": \"{code}\"}}"
        )
    });
    let other_codes = OTHER_CODES.map(|code| {
        let id = shortcode::decode(code).expect("a valid code");
        assert_ne!(shortcode::encode(id), code);
        format!("{{\"code\": \"{code}\", \"id\": \"{id}\"}}")
    });
    let invalid_codes = INVALID_CODES.map(|code| {
        shortcode::decode(code).expect_err(code);
        format!("{code:?}")
    });
    let invalid_ids = INVALID_IDS.map(|id| {
        id.parse::<i64>().expect_err(id);
        format!("{id:?}")
    });
    let invalid_times = INVALID_TIMES.map(|(epoch, time)| {
        let result = epoch_of(epoch).ms_at((time - YEAR_2000) * 1000);
        assert!(
            matches!(result, Err(OutOfField::BeforeEpoch | OutOfField::PastField)),
            "{epoch} {time}"
        );
        format!("{{\"epoch\": {epoch}, \"unix_ms\": {time}, \"time\": \"{}\"}}", iso(time))
    });
    let lists: [(&str, &[String]); 5] = [
        ("ids", &ids),
        ("other_codes", &other_codes),
        ("invalid_codes", &invalid_codes),
        ("invalid_ids", &invalid_ids),
        ("invalid_times", &invalid_times),
    ];
    let mut json = String::from("{");
    for (n, (name, rows)) in lists.into_iter().enumerate() {
        let comma = if n == 0 { "" } else { "," };
        write!(json, "{comma}\n  \"{name}\": [\n    {}\n  ]", rows.join(",\n    "))
            .expect("a string grows");
    }
    json + "\n}\n"
}

#[test]
fn vectors_are_those_of_the_core() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/vectors.json");
    if std::env::var_os("WRITE_PAGE").is_some() {
        fs::write(file, vectors()).unwrap();
    } else {
        let (written, expected) = (fs::read_to_string(file).unwrap(), vectors());
        let differing =
            written.lines().zip(expected.lines()).find(|(written, expected)| written != expected);
        let advice = "docs/vectors.json differs: write it with WRITE_PAGE=1 make check T=vectors";
        assert!(written == expected, "{advice}: {differing:?}");
    }
}

//! The table of errors: a sample of each entry, the style of the texts, and docs/use/errors.md.

use super::report::PART_MAX;
use super::*;
use std::collections::BTreeMap;

/// The parts of an entry of the table that `Error::parts` does not give.
pub struct Entry {
    pub name: &'static str,
    pub message: &'static str,
    /// The names of the fields that the message refers to by number.
    pub items: &'static [&'static str],
    pub when: &'static str,
    /// The entry with typical values, or with the others: texts differ by these.
    pub example: fn(Values) -> Error,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Values {
    Typical,
    Others,
}

/// The value of a field, which is named `Entry.field`.
pub trait Example {
    fn example(field: &str, values: Values) -> Self;
}

impl Example for String {
    fn example(field: &str, values: Values) -> String {
        let value = match field {
            "SchemaIsTime.name" => "2020-01-01 00:00+00",
            "SchemaNotTrusted.name" | "SchemaExists.name" => "insta5",
            "NoRightOnSchema.name" | "NoCreateOnSchema.name" => "insta5",
            "NoCreateOnDatabase.name" => "app",
            "TableIsPartition.table" => "insta5.photos_p20261101",
            "ColumnMissing.column" | "ColumnNotBigint.column" => "id",
            "ObjectLocked.object" => "relation insta5.photos",
            "TablePlacedElsewhere.column" | "TriggerColumnMissing.column" => "id",
            "ShardAmbiguous.definitions" => "insta5.shard_5() of role app",
            "TableNotTrusted.table" => "insta5.comments",
            "TableNotTrusted.tie" => "A foreign key of it references table insta5.photos.",
            "PartitionOfAnother.partition" => "insta5.photos_p20261101",
            "TableNotTrusted.own" => "insta5.photos",
            "SequenceIsCounter.name" => "public.photos_id_seq",
            "FunctionExists.function" if values == Values::Others => "insta5.epoch()",
            "PartOfAnother.name" if values == Values::Typical => "insta5.next_id()",
            "ShardOfAnother.function" | "ShardNotTrusted.function" => "insta5.shard_5()",
            "DefinitionOfAnother.function" => "insta5.shard_5()",
            "EpochNotTrusted.function" => "insta5.epoch()",
            "AdoptedDropped.name" => "next_id",
            "AdoptedDropped.other" => "app",
            "AdoptedDropped.kept" => "insta5.original_next_id()",
            "SchemaOfExtension.schema" => "public",
            "ShardElsewhere.function" => "photos.next_id()",
            _ => match field.split_once('.').expect("an entry and a field").1 {
                "name" | "sequence" => "insta5.table_id_seq",
                "schema" => "insta5",
                "table" | "root" | "above" => "insta5.photos",
                "column" => "insta5.photos.id",
                "function" | "functions" => "insta5.next_id()",
                "other" => "insta5.photo_id()",
                "needs" => "public.shard_next_id(integer,regclass,timestamp with time zone)",
                "role" | "roles" => "app",
                "owner" => "web",
                "time" | "now" => "2026-11-22 16:42:51.123456+00",
                "epoch" | "epochs" | "earliest" => "2011-08-24 21:07:01.721+00",
                "ahead" => "3 days 2 h",
                "limit" => "10 s",
                "node" | "nodes" => "10.0.0.7:5432",
                "version" => "99.0.0",
                "trigger" => "\"0_assign_id\"",
                "said" => " ERROR:  permission denied ",
                "why" if field == "NotOriginal.why" => "calls no nextval()",
                "why" => "It is not partitioned.",
                "reasons" => "Function insta5.photo_id() takes arguments.",
                "grants" => "GRANT USAGE ON SCHEMA insta5 TO app",
                "by" => "view web.photos",
                other => other,
            },
        };
        value.to_owned()
    }
}

impl Example for &'static str {
    fn example(field: &str, values: Values) -> &'static str {
        match (field, values) {
            ("PartOfAnother.kind" | "OriginalTemporary.kind", Values::Typical) => "function",
            ("PartOfAnother.kind" | "OriginalTemporary.kind", Values::Others) => "sequence",
            ("NotTable.kind", Values::Typical) => "a view",
            ("NotTable.kind", Values::Others) => "a foreign partition",
            ("ShardDiffers.what", _) => "schema",
            ("Null.argument", Values::Typical) => "shard",
            (field, _)
                if field.ends_with(".argument")
                    || field.ends_with(".constant")
                    || field.ends_with(".what") =>
            {
                "epoch"
            }
            _ => "It is not of type bigint.",
        }
    }
}

impl Example for u16 {
    fn example(field: &str, _: Values) -> u16 {
        if field.ends_with("asked") || field.ends_with("id_shard") { 6 } else { 5 }
    }
}

impl Example for i32 {
    fn example(field: &str, _: Values) -> i32 {
        if field.ends_with("shard") { 8192 } else { 2 }
    }
}

impl Example for i64 {
    fn example(field: &str, _: Values) -> i64 {
        if field.ends_with("min_value") { 1 } else { 3_752_497_838_145_536_005 }
    }
}

impl<T: Example> Example for Option<T> {
    fn example(field: &str, values: Values) -> Option<T> {
        (values == Values::Typical).then(|| T::example(field, values))
    }
}

/// The texts for an empty list are those of a function that found nothing to list.
impl<T: Example> Example for Vec<T> {
    fn example(field: &str, values: Values) -> Vec<T> {
        let can_be_empty = ["OriginalMissing.reasons", "TakeOverTimedOut.nodes"].contains(&field);
        if can_be_empty && values == Values::Others {
            vec![]
        } else {
            vec![T::example(field, values)]
        }
    }
}

/// The value of each other type.
macro_rules! examples {
    ($($of_type:ty => $typical:expr, $other:expr;)+) => {
        $( impl Example for $of_type {
            fn example(_: &str, values: Values) -> $of_type {
                if values == Values::Typical { $typical } else { $other }
            }
        } )+
    };
}

examples! {
    bool => false, true;
    usize => 2_000_000, 2_000_000;
    Oid => Oid::from(16_384), Oid::from(16_384);
    Malformed => Malformed::NoDigit('+'), Malformed::Overflow;
    WhyKept => WhyKept::NotBigint, WhyKept::Fails("out of memory".into());
    Unfit => Unfit { increment: Some(2), ..Default::default() },
        Unfit { not_bigint: true, increment: Some(2), max: Some(9), min: Some(1 << 50), cycle: true };
}

/// Each entry with both kinds of values, and the hint for each argument that must not be NULL. The
/// page shows the hints of the first two of an entry.
fn samples() -> Vec<Error> {
    let of_both = ENTRIES
        .iter()
        .flat_map(|entry| [Values::Typical, Values::Others].map(|values| (entry.example)(values)));
    let arguments = ["sequence", "count", "id", "dry_run", "table", "schema", "before", "floor"];
    of_both.chain(arguments.map(Error::Null)).collect()
}

/// The name of its entry.
fn name(error: &Error) -> String {
    format!("{error:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
}

/// The five characters of a SQLSTATE.
fn code(state: SqlState) -> String {
    (0..5).map(|n| char::from((state as i32 >> (6 * n) & 0x3f) as u8 + b'0')).collect()
}

#[test]
fn texts_follow_the_style_guide() {
    // Words for which PostgreSQL's style guide or ours has better ones. Only whole words are
    // compared.
    const AVOIDED: [&str; 25] = [
        "at home",
        "because",
        "came",
        "closed for",
        "era",
        "for itself",
        "forgotten",
        "goes by",
        "is to be",
        "it is known",
        "let go",
        "lets go",
        "make ids",
        "makes ids",
        "mend",
        "received",
        "shut",
        "somebody",
        "stranger",
        "switch",
        "take over from",
        "time to come",
        "unable",
        "who",
        "whoever",
    ];
    for error in samples() {
        let (_, detail, hint) = error.parts();
        let message = error.to_string();
        let start = message.chars().next().expect("a message");
        assert!(start.is_ascii_lowercase() && !message.ends_with(['.', ':', ' ']), "{message}");
        assert!(message.chars().count() <= 120, "{message}");
        for text in [&detail, &hint].into_iter().filter(|text| !text.is_empty()) {
            assert!(
                text.starts_with(|start: char| start.is_ascii_uppercase()),
                "{message}: {text}"
            );
            assert!(text.ends_with('.') && !text.ends_with("..."), "{message}: {text}");
            assert!(!text.replace("ERROR:  ", "").contains("  "), "{message}: {text}");
        }
        let all = [&message, &detail, &hint].map(|text| text.trim_end_matches('.')).join(". ");
        assert!(!all.contains(['{', '}', '\n']), "{all}");
        let words: String = all
            .chars()
            .map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { ' ' })
            .collect();
        let words = format!(" {} ", words.split_whitespace().collect::<Vec<_>>().join(" "));
        for avoided in AVOIDED {
            assert!(!words.contains(&format!(" {avoided} ")), "{avoided:?} in {all}");
        }
        assert_eq!(error.reason(), if detail.is_empty() { message } else { detail });
    }
}

#[test]
fn texts_of_others_are_quoted() {
    assert_eq!(literal("insta5"), "'insta5'");
    assert_eq!(literal("it's"), "'it''s'");
    assert_eq!(literal(r"a\b'"), r"E'a\\b'''");
    assert_eq!(shortened(&"ä".repeat(61)), format!("{}...", "ä".repeat(60)));
    assert_eq!(shortened("two\nlines\u{1b}[2J\u{7f}"), r"two\nlines\u{1b}[2J\u{7f}");
    let many: Vec<String> = (1..=22).map(|n| format!("s{n}")).collect();
    assert_eq!(listed(&many, ", "), "s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, and 12 more");
    assert_eq!(listed(&many[..10], ", ").split(", ").last(), Some("s10"));
    let (_, [message, detail, hint]) = Error::NotOwner("ä".repeat(3000)).texts();
    assert!(
        message.ends_with("...") && (PART_MAX..PART_MAX + 4).contains(&message.len()),
        "{message}"
    );
    assert!(detail.is_empty() && hint.len() < 200);
    assert_eq!(sentence(" it is not there \n"), "it is not there.");
    assert_eq!(code(SqlState::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), "55000");
    assert_eq!(code(SqlState::ERRCODE_READ_ONLY_SQL_TRANSACTION), "25006");
}

/// The name of a class of SQLSTATEs in PostgreSQL's manual.
fn class(code: &str) -> &'static str {
    match &code[..2] {
        "00" => "successful completion",
        "01" => "warning",
        "08" => "connection exception",
        "0A" => "feature not supported",
        "22" => "data exception",
        "25" => "invalid transaction state",
        "2B" => "dependent privilege descriptors still exist",
        "39" => "external routine invocation exception",
        "3F" => "invalid schema name",
        "42" => "syntax error or access rule violation",
        "53" => "insufficient resources",
        "54" => "program limit exceeded",
        "55" => "object not in prerequisite state",
        "XX" => "internal error",
        _ => panic!("{code} is of a new class: name it here"),
    }
}

/// The content of docs/use/errors.md, generated from the table.
fn page() -> String {
    let mut by_class: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    let samples = samples();
    for entry in ENTRIES {
        let own: Vec<&Error> = samples.iter().filter(|error| name(error) == entry.name).collect();
        let mut message = entry.message.to_owned();
        for (n, item) in entry.items.iter().enumerate() {
            message = message.replace(&format!("{{{n}}}"), &format!("{{{item}}}"));
        }
        let (state, ..) = own[0].parts();
        let mut hints: Vec<String> =
            own.iter().map(|error| error.parts().2).filter(|hint| !hint.is_empty()).collect();
        hints.dedup();
        hints.truncate(2);
        let cells = [&code(state), &format!("`{message}`"), entry.when.trim(), &hints.join("<br>")]
            .map(|text| text.replace('|', "\\|"));
        let row = format!("| {} |\n", cells.join(" | "));
        by_class
            .entry(code(state)[..2].into())
            .or_default()
            .entry(code(state))
            .or_default()
            .push(row);
    }
    let mut page = "# Errors\n\n\
        The errors, warnings and notices of the extension, by SQLSTATE. A word in braces stands for a value. The DETAIL that comes\n\
        with a message names the cause; the last column is the HINT, with example values.\n\n\
        A test generates this page from the table of errors in the source, and compares it.\n"
        .to_owned();
    for (first_two, codes) in by_class {
        page += &format!(
            "\n## Class {first_two}: {}\n\n| SQLSTATE | message | when | what to do |\n| --- | --- | --- | --- |\n",
            class(&first_two)
        );
        page.extend(codes.into_values().flatten());
    }
    page
}

/// With `WRITE_PAGE` set it writes the page.
#[test]
fn the_page_lists_every_error() {
    if std::env::var_os("WRITE_PAGE").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/use/errors.md"), page())
            .expect("a page to write");
    } else {
        let written = include_str!("../../docs/use/errors.md");
        assert!(
            written == page(),
            "docs/use/errors.md differs: write it with WRITE_PAGE=1 make check T=error::tests"
        );
    }
}

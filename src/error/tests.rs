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
    /// The entry with values by the types and names of its fields.
    pub example: fn() -> Error,
}

/// A value for a field of this name.
pub trait Example {
    fn example(field: &str) -> Self;
}

impl Example for String {
    fn example(field: &str) -> String {
        let value = match field {
            "name" | "sequence" => "insta5.table_id_seq",
            "schema" => "insta5",
            "table" => "insta5.photos",
            "column" => "insta5.photos.id",
            "function" => "insta5.next_id()",
            "role" => "app",
            "time" | "now" => "2026-11-22 16:42:51.123456+00",
            "epoch" => "2011-08-24 21:07:01.721+00",
            other => other,
        };
        value.to_owned()
    }
}

impl Example for &'static str {
    fn example(_: &str) -> &'static str {
        "It is not of type bigint."
    }
}

impl Example for bool {
    fn example(_: &str) -> bool {
        true
    }
}

impl<T: Example> Example for Option<T> {
    fn example(field: &str) -> Option<T> {
        Some(T::example(field))
    }
}

impl<T: Example> Example for Vec<T> {
    fn example(field: &str) -> Vec<T> {
        vec![T::example(field)]
    }
}

/// The value of each other type.
macro_rules! examples {
    ($($of_type:ty => $value:expr),+ $(,)?) => {
        $( impl Example for $of_type {
            fn example(_: &str) -> $of_type {
                $value
            }
        } )+
    };
}

examples! {
    u16 => 5,
    i32 => 5,
    usize => 2_000_000,
    i64 => 3_752_497_838_145_536_005,
    Oid => Oid::from(16_384),
    Argument => Argument::Epoch,
    Malformed => Malformed::Empty,
    Unfit => Unfit { increment: Some(2), ..Default::default() },
}

/// Errors with typical values, at least one for each entry. The page shows the hints of the first
/// two of an entry.
fn samples() -> Vec<Error> {
    let mut samples = samples_with_values();
    let names: Vec<String> = samples.iter().map(name).collect();
    let others = ENTRIES.iter().filter(|entry| !names.iter().any(|name| name == entry.name));
    samples.extend(others.map(|entry| (entry.example)()));
    samples
}

/// Those of entries for which a value by the type of the field is not typical, or for which one is
/// not enough.
#[expect(clippy::too_many_lines, reason = "a sample of each error")]
fn samples_with_values() -> Vec<Error> {
    use Error::*;
    let (shard, id, asked_shard) = (5, 3_752_497_838_145_536_005, 6);
    let schema = || "insta5".to_owned();
    let name = || "insta5.table_id_seq".to_owned();
    let (table, column) = (|| "insta5.photos".to_owned(), || "insta5.photos.id".to_owned());
    let function = || "insta5.next_id()".to_owned();
    let other = || "insta5.photo_id()".to_owned();
    let role = || "app".to_owned();
    let other_role = || "web".to_owned();
    let time = || "2026-11-22 16:42:51.123456+00".to_owned();
    let epoch = || "2011-08-24 21:07:01.721+00".to_owned();
    let ahead = || "3 days 2 h".to_owned();
    let node = || "10.0.0.7:5432".to_owned();
    let shard_next_id =
        || "public.shard_next_id(integer,regclass,timestamp with time zone)".to_owned();
    let max = 1_125_899_906_842_623;
    let unfit = super::Unfit { increment: Some(2), ..Default::default() };
    let in_all_ways = super::Unfit {
        not_bigint: true,
        increment: Some(2),
        max: Some(9),
        min: Some(max),
        cycle: true,
    };
    let mut samples = vec![
        ShardOutOfRange(8192),
        SeqOutOfRange(1024),
        ShardsOutOfRange(8193),
        CountOutOfRange(0),
        NameEmpty,
        NameReserved("pg_shard".into()),
        SchemaIsTime { name: "2020-01-01 00:00+00".into(), shard },
        NameTooLong("n".repeat(64)),
        NotUtf8("ma\u{fffd}ana".into()),
        TextTooLong(2_000_000),
        OutOfMemory,
        EpochInfinite,
        EpochUnworkable { epoch: epoch(), is_future: true, earliest: epoch(), now: time() },
        EpochUnworkable { epoch: epoch(), is_future: false, earliest: epoch(), now: time() },
        TimeInfinite("infinity".into()),
        TimeBeforeEpoch { time: time(), epoch: epoch() },
        TimePastField { time: time(), epoch: epoch() },
        IdTimeOutOfRange { id, epoch: epoch() },
        RangeTurnsNegative { from: epoch(), to: time() },
        ClockBeforeEpoch { time: time(), epoch: epoch() },
        ClockPastField { time: time(), epoch: epoch() },
        IdNegative(-1),
        IdOfAnotherShard { id, id_shard: asked_shard, shard },
        IdIsTheLast(id),
        ShortcodeMalformed { code: "a+b".into(), why: Malformed::NoDigit('+') },
        ShortcodeMalformed { code: String::new(), why: Malformed::Empty },
        ShortcodeMalformed { code: shortened(&"z".repeat(1000)), why: Malformed::Overflow },
        MillisecondFull { time: time(), shard },
        TimeGoesBack { time: time(), shard },
        NotOverWindow,
        ShardNotSet,
        ShardMissing { shard, schema: schema(), schema_exists: false },
        ShardMissing { shard, schema: schema(), schema_exists: true },
        ShardAmbiguous { shard, schemas: vec![schema(), "copy".into()] },
        ShardExists { shard, schema: schema() },
        ShardOfAnother {
            shard,
            function: "insta5.shard_5()".into(),
            owner: other_role(),
            schema: Some(schema()),
        },
        ShardOfAnother {
            shard,
            function: "photos.shard_5()".into(),
            owner: other_role(),
            schema: None,
        },
        ShardNotTrusted {
            shard,
            function: "insta5.shard_5()".into(),
            owner: other_role(),
            role: role(),
        },
        SchemaNotTrusted {
            shard,
            schema: schema(),
            name: schema(),
            owner: other_role(),
            role: role(),
        },
        PartOfAnother {
            kind: "function",
            name: function(),
            owner: other_role(),
            shard,
            role: role(),
        },
        PartOfAnother { kind: "sequence", name: name(), owner: other_role(), shard, role: role() },
        OriginalNotTrusted { function: function(), owner: other_role(), role: role() },
        ShardChanged(shard),
        ShardDiffers { shard, what: "schema", is: schema(), asked: "photos".into() },
        ShardInAnotherSchema { shard, is: schema(), asked: "photos".into() },
        EpochDiffers { schema: schema(), is: epoch(), asked: time() },
        SchemaExists { shard, schema: schema(), name: schema() },
        FunctionExists { function: function(), shard, schema: schema() },
        FunctionExists { function: "insta5.epoch()".into(), shard, schema: schema() },
        SchemaOfExtension { schema: "public".into(), shard },
        NextIdTaken { function: "public.next_id()".into(), schema: "public".into() },
        ShardIncomplete { shard },
        SequenceMissing(Oid::from(16_384)),
        NotSequence(table()),
        Unfit { name: name(), unfit },
        Unfit { name: name(), unfit: in_all_ways },
        Closed { name: name(), max },
        BadMagic(name()),
        Exhausted { name: name(), last_value: max, min_value: 1 },
        SequenceOfAShard(name()),
        ReadOnly { name: name(), standby: false },
        ReadOnly { name: name(), standby: true },
        Parallel(name()),
        NoRightOnSequence { name: name(), role: role(), update: false },
        NoRightOnSequence { name: name(), role: role(), update: true },
        SequenceServesAnother { name: name(), shard, serves: true, epoch: epoch(), role: role() },
        SequenceServesAnother { name: name(), shard, serves: false, epoch: epoch(), role: role() },
        SequenceIsCounter { name: "public.photos_id_seq".into(), last_value: 41_807, role: role() },
        NoRightOnSchema { name: schema(), role: role() },
        NoCreateOnDatabase { name: "app".into(), role: role() },
        NoCreateOnSchema { name: schema(), role: role() },
        NotOwner(function()),
        NotTableOwner(table()),
        NotSequenceOwner(name()),
        WriterWithoutRights {
            role: role(),
            table: table(),
            schema: schema(),
            grants: vec!["GRANT USAGE ON SCHEMA insta5 TO app".into()],
        },
        CallersWithoutExecute {
            function: function(),
            needs: shard_next_id(),
            roles: vec![role(), "web".into()],
        },
        SequenceOfAnother { name: name(), function: function() },
        SchemaMissing(schema()),
        FunctionMissing(Oid::from(16_384)),
        NotOriginal { function: function(), why: "calls no nextval()".into() },
        OriginalTakesArguments {
            function: "insta5.next_id(pg_catalog.regclass)".into(),
            call: "next_id(5, sequence)".into(),
        },
        OriginalMissing { schema: schema(), reasons: vec![] },
        OriginalMissing {
            schema: schema(),
            reasons: vec!["Function insta5.photo_id() takes arguments.".into()],
        },
        OriginalAmbiguous { functions: format!("{}, {}", function(), other()) },
        OriginalSilent { function: function(), constant: Argument::Epoch },
        OriginalDiffers {
            function: function(),
            constant: Argument::Shard,
            read: "5".into(),
            asked: "6".into(),
        },
        AdoptedAlready { shard, schema: schema(), is_adopted: true },
        AdoptedAlready { shard, schema: schema(), is_adopted: false },
        ShardElsewhere {
            shard,
            schema: schema(),
            function: "photos.next_id()".into(),
            sequence: "photos.table_id_seq".into(),
            call: "next_id(5, 'photos.table_id_seq')".into(),
        },
        AdoptionDiffers {
            function: function(),
            what: Argument::Epoch,
            read: epoch(),
            shard,
            is: time(),
        },
        KeyAhead { key: id, column: column(), time: time(), way: None },
        KeyAhead {
            key: id,
            column: column(),
            time: time(),
            way: Some("SELECT advance_shard(5, 7)".into()),
        },
        ShardAhead { shard, ahead: ahead() },
        NotAdopted { shard, schema: schema() },
        WritersBusy { sequence: Some(name()) },
        WritersBusy { sequence: None },
        AdoptionPrepared,
        OriginalChanged(function()),
        TableChanged(table()),
        SequenceTemporary("pg_temp_3.ids".into()),
        SequenceShared { name: name(), other: "shard 6".into() },
        OriginalsShareSequence { name: name(), function: function(), other: other() },
        NewestOfAnotherShard {
            id,
            column: column(),
            is: shard,
            asked: asked_shard,
            function: function(),
        },
        NewestOfAnotherTime {
            id,
            column: column(),
            epoch: epoch(),
            time: time(),
            function: function(),
        },
        TableMissing(Oid::from(16_384)),
        NotTable { name: "insta5.recent".into(), kind: "a view" },
        NotTable { name: "insta5.remote".into(), kind: "a foreign table" },
        NotTable { name: name(), kind: "a sequence" },
        TableIsPartition { table: "insta5.photos_p20261101".into(), root: table(), shard },
        HasIdsAlready { column: column(), table: table(), name: "id".into(), shard },
        ColumnMissing { table: table(), column: "key".into() },
        NoPrimaryKey(table()),
        ColumnNotBigint {
            table: table(),
            column: "id".into(),
            type_name: "integer".into(),
            statements: vec!["ALTER TABLE insta5.photos ALTER id TYPE bigint".into()],
        },
        ReferencesNotBigint {
            column: column(),
            references: vec!["insta5.comments.photo (integer)".into()],
            statements: vec!["ALTER TABLE insta5.comments ALTER photo TYPE bigint".into()],
        },
        NotSerial {
            column: column(),
            default: Some("random()".into()),
            statement: "ALTER TABLE insta5.photos ALTER id SET DEFAULT insta5.next_id()".into(),
        },
        NotPartitionedById { table: table(), why: "It is not partitioned.".into() },
        PeriodUnknown("year".into()),
        AheadOutOfRange(-1),
        EpochNotTrusted {
            table: table(),
            function: "insta5.epoch()".into(),
            owner: other_role(),
            epoch: epoch(),
            role: role(),
        },
        EpochOfDefaultNotTrusted {
            table: table(),
            function: function(),
            epoch: "2020-01-01 00:00:00+00".into(),
            owner: other_role(),
            role: role(),
        },
        EpochAmbiguous { table: table(), schema: schema(), epochs: vec![epoch(), time()] },
        DropsFuture(time()),
        NoPresentPartition { table: table(), epoch: epoch() },
        PartitionNameTaken { name: "insta5.photos_p20261101".into(), table: table() },
        TriggerMisused,
        TriggerColumnMissing {
            trigger: "\"0_assign_id\"".into(),
            table: table(),
            column: "id".into(),
            shard,
            has_citus: false,
        },
        TableReplicated { table: table() },
        TablePlacedElsewhere { table: table(), shard, column: "id".into() },
        LibraryOutdated { version: "99.0.0".into() },
        CopyOfAnotherGroup { name: name(), group: 2 },
        SequenceAltered { name: name() },
        CoordinatorUnknown { name: name() },
        LastOwnerLost { name: name(), group: 2 },
        LastOwnerDisabled { name: name(), group: 2 },
        LastOwnerUnknown { name: name() },
        NodeNotReached {
            name: name(),
            node: node(),
            group: 2,
            role: role(),
            said: " failed to connect to 10.0.0.7:5432 ".into(),
        },
        SequenceNotOnNode { name: name(), node: node() },
        NodeOutdated { name: name(), node: node() },
        TakeOverTimedOut { name: name(), limit: "10 s".into(), nodes: vec![] },
        TakeOverTimedOut {
            name: name(),
            limit: "10 s".into(),
            nodes: vec![node(), "10.0.0.8:5432".into()],
        },
        TakeOverFailed { name: name(), node: Some(node()) },
        TakeOverFailed { name: name(), node: None },
        NotHandedOver {
            name: name(),
            node: node(),
            role: role(),
            said: " ERROR:  permission denied ".into(),
        },
        GroupUnknown(7),
        TakeOverOvertaken { name: "insta5.table_id_seq".into() },
        FloorOutOfRange(-1),
        AttemptOutOfRange(-1),
        SequenceIsAhead { name: name(), ahead: ahead() },
        ShardIsAhead { shard, ahead: ahead() },
        GroupIsShard(7),
        NewKeyKept {
            column: column(),
            shard,
            cause: "table insta5.photos changed concurrently".into(),
            table: table(),
            name: "id".into(),
        },
        DefaultKept { column: column(), why: "It is not of type bigint." },
        SequenceReplaced { shard: 5, sequence: "insta5.table_id_seq".into() },
        OwnerTrusted { shard: 5, owner: role(), object: "schema insta5".into() },
        ShardKept(5),
    ];
    for is_of_schema in [true, false] {
        for node in [Some(node()), None] {
            let home = if is_of_schema { 2 } else { 0 };
            samples.push(PlacedElsewhere { name: name(), node, home, group: 1, is_of_schema });
        }
    }
    use Argument::*;
    let arguments = [Shard, Epoch, Sequence, Count, Id, IfNotExists, DryRun, Table, Schema];
    samples.extend(
        arguments.into_iter().chain([Every, Ahead, Before, Detach, Group, Attempt]).map(Null),
    );
    samples
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
    let schemas: Vec<String> = (1..=22).map(|n| format!("s{n}")).collect();
    let (_, [_, detail, _]) = Error::ShardAmbiguous { shard: 5, schemas: schemas.clone() }.texts();
    assert_eq!(detail, "The schemas are s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, and 12 more.");
    assert_eq!(listed(&schemas[..10], ", ").split(", ").last(), Some("s10"));
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

//! Runs the programs of docs/javascript.md unchanged, as clients.rs does those of docs/clients.md, and compares decoders
//! with docs/vectors.json. If there is no Node.js, or without its packages in the cache, they are skipped.

use crate::clients::{Example, is_there};
use instagram_id_live::*;
use std::fs;
use std::os::unix::fs::symlink;

const PAGE: &str = include_str!("../../../docs/javascript.md");

/// An example with its packages: those of a folder of docs/examples. `None` if they are not there.
fn example_with_packages(folder: &str) -> Option<Example> {
    let modules = CACHE.join("clients").join(folder).join("node_modules");
    let version = "node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'";
    if !is_there("Node.js 20", &format!("test -d {} && {version}", modules.display())) {
        return None;
    }
    let example = Example::of(folder);
    let own = example.folder.path().join("node_modules");
    let _ = fs::remove_dir_all(&own);
    symlink(modules, own).unwrap();
    Some(example)
}

/// The lines that these programs print, with the type of an id.
fn printed(type_of_id: &str) -> String {
    format!(
        "an id is a {type_of_id}
shard 5 | made now: true
in order: true
of a minute: first to photo 999
exact in JSON: true
"
    )
}

#[test]
fn node_postgres() {
    let Some(example) = example_with_packages("node") else { return };
    for database in ["first", "first", "second"] {
        example.run(database, "node node_modules/.bin/node-pg-migrate up");
        let said = example.run(database, "node example.js");
        let expected = "an id is a string
shard 5 | made now: true
1671372309237077023 as a number is 1671372309237076992
JSON: 1671372309237077000 but 1671372309237077023
JSON from here: {\"id\":\"1671372309237077023\"}
short code: 11 characters, and back
of a minute: first to photo 999
";
        assert_eq!(said, expected);
        example.assert_default(database, 5);
    }
}

const KIT: &str = "node node_modules/.bin/drizzle-kit";
const TSX: &str = "node node_modules/.bin/tsx";

/// The statements that `drizzle-kit push` would run. It prints them, and fails because there is no terminal to ask.
fn pushed(example: &Example, config: &str) -> Vec<String> {
    let said = example.try_to_run("first", &format!("{KIT} push --strict --verbose --config={config}"));
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let statement = |line: &&str| ["ALTER ", "CREATE ", "DROP "].iter().any(|verb| line.starts_with(verb));
    let statements: Vec<String> = text.lines().filter(statement).map(str::to_owned).collect();
    let no_change = text.contains("No changes detected");
    assert_eq!(no_change, statements.is_empty(), "{text}{}", String::from_utf8_lossy(&said.stderr));
    statements
}

#[test]
fn drizzle() {
    const CONFIG: &str = "drizzle/drizzle.config.ts";
    const SCHEMA: &str = "drizzle/schema.ts";
    let Some(example) = example_with_packages("javascript") else { return };
    for database in ["first", "first", "second"] {
        example.run(database, &format!("{KIT} migrate --config={CONFIG}"));
        assert_eq!(example.run(database, &format!("{TSX} drizzle/example.ts")), printed("bigint"));
        example.assert_default(database, 5);
    }
    let generated = example.run("first", &format!("{KIT} generate --config={CONFIG}"));
    assert!(generated.contains("No schema changes"), "{generated}");
    assert!(pushed(&example, CONFIG).is_empty());

    // It finds a changed default.
    let mut client = example.server.connect_to("first");
    let set_default = "ALTER TABLE \"insta5\".\"photos\" ALTER COLUMN \"id\" SET DEFAULT insta5.next_id();";
    client.batch_execute("ALTER TABLE insta5.photos ALTER id SET DEFAULT next_id(5)").unwrap();
    assert_eq!(pushed(&example, CONFIG), [set_default]);
    client.batch_execute(set_default).unwrap();

    // `pull` writes the mode that rounds, and then the types do not match.
    fs::copy(example.folder.path().join(CONFIG), example.folder.path().join("pull.config.ts")).unwrap();
    example.edit("pull.config.ts", "./drizzle/migrations", "./pulled");
    example.run("first", &format!("{KIT} pull --config=pull.config.ts"));
    let pulled = fs::read_to_string(example.folder.path().join("pulled/schema.ts")).unwrap();
    assert!(pulled.contains("id: bigint({ mode: \"number\" }).default(sql`insta5.next_id()`)"), "{pulled}");
    let check = "node node_modules/.bin/tsc -p .";
    example.run("first", check);
    example.edit(SCHEMA, "mode: 'bigint'", "mode: 'number'");
    assert!(!example.try_to_run("first", check).status.success());
    example.edit(SCHEMA, "mode: 'number'", "mode: 'bigint'");

    // Without the settings of the example it would drop objects.
    example.edit(SCHEMA, ", { maxValue: '1125899906842623' }", "");
    let pushed_now = pushed(&example, CONFIG);
    assert!(pushed_now[0].starts_with("ALTER SEQUENCE \"insta5\".\"table_id_seq\""), "{pushed_now:?}");
    example.edit(SCHEMA, "export const tableIdSeq", "const tableIdSeq");
    let drop_sequence = "DROP SEQUENCE \"insta5\".\"table_id_seq\";";
    assert_eq!(pushed(&example, CONFIG), [drop_sequence]);
    let (state, ..) = error_of(&mut client, drop_sequence);
    assert_eq!(state, "2BP01");
    example.edit(SCHEMA, "export const insta5", "const insta5");
    assert_eq!(pushed(&example, CONFIG), [drop_sequence, "DROP SCHEMA \"insta5\";"]);

    // Tables in public, where the extension is.
    client
        .batch_execute(
            "CREATE TABLE photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), title text NOT NULL)",
        )
        .unwrap();
    example.edit(SCHEMA, "pgSchema, ", "pgTable, ");
    example.edit(SCHEMA, "const insta5 = pgSchema('insta5');", "");
    example.edit(SCHEMA, "const tableIdSeq = insta5.sequence('table_id_seq');", "");
    example.edit(SCHEMA, "insta5.table(", "pgTable(");
    example.edit(CONFIG, "schemaFilter: ['insta5'],", "");
    let drop_view = "DROP VIEW \"public\".\"id_shards\";";
    assert_eq!(pushed(&example, CONFIG), [drop_view]);
    let (state, ..) = error_of(&mut client, drop_view);
    assert_eq!(state, "2BP01");
    example.edit(CONFIG, "dialect:", "tablesFilter: ['!id_shards'],\n  dialect:");
    assert!(pushed(&example, CONFIG).is_empty());
    example.edit(CONFIG, "tablesFilter: ['!id_shards'],", "");
    client.batch_execute("CREATE SCHEMA ids; ALTER EXTENSION instagram_id SET SCHEMA ids").unwrap();
    assert!(pushed(&example, CONFIG).is_empty());
}

#[test]
fn typeorm() {
    let Some(example) = example_with_packages("javascript") else { return };
    let cli =
        |command: &str| format!("{TSX} node_modules/typeorm/cli.js {command} -d typeorm/data_source.ts");
    let up_to_date = "Your schema is up to date";
    for database in ["first", "first", "second"] {
        example.run(database, &cli("migration:run"));
        let said = example.run(database, &format!("{TSX} typeorm/example.ts"));
        assert_eq!(said, printed("string"));
        example.assert_default(database, 5);
        assert!(example.run(database, &cli("schema:log")).contains(up_to_date));
    }
    let mut client = example.server.connect_to("second");
    let found = "ALTER TABLE \"insta5\".\"photos\" ALTER COLUMN \"id\" SET DEFAULT insta5.next_id();";
    for change in ["SET DEFAULT next_id(5)", "DROP DEFAULT"] {
        client.batch_execute(&format!("ALTER TABLE insta5.photos ALTER id {change}")).unwrap();
        let said = example.run("second", &cli("schema:log"));
        assert!(said.contains(found) && said.contains("(1):"), "{change}: {said}");
    }
    // Reverted and run again, the shard is the same.
    let last = "SELECT last_value FROM insta5.table_id_seq";
    let before: i64 = one(&mut client, last);
    example.run("second", &cli("migration:revert"));
    example.run("second", &cli("migration:run"));
    assert_eq!(one::<i64>(&mut client, last), before);
    assert!(example.run("second", &cli("schema:log")).contains(up_to_date));
}

#[test]
fn sequelize() {
    let Some(example) = example_with_packages("javascript") else { return };
    for database in ["first", "first", "second"] {
        example.run(database, "node sequelize/migrate.js up");
        let said = example.run(database, &format!("{TSX} sequelize/example.js"));
        assert_eq!(said, printed("string"));
        example.assert_default(database, 5);
    }
    // `sync` keeps a key as it is, and inserts call the default of the model.
    let sync = |options: &str| {
        let program =
            format!("import {{ db }} from './database.js'; await db.sync({options}); await db.close();\n");
        fs::write(example.folder.path().join("sequelize/sync.js"), program).unwrap();
        example.run("second", "node sequelize/sync.js");
    };
    let mut client = example.server.connect_to("second");
    client.batch_execute("ALTER TABLE insta5.photos ALTER id SET DEFAULT 1").unwrap();
    sync("{ alter: true }");
    let default =
        "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'insta5.photos'::regclass";
    assert_eq!(one::<String>(&mut client, default), "1");
    let said = example.run("second", &format!("{TSX} sequelize/example.js"));
    assert_eq!(said, printed("string"));
    // Without the migration `sync` creates the table with its default.
    example.run("second", "node sequelize/migrate.js down");
    sync("");
    example.assert_default("second", 5);
}

#[test]
fn kysely() {
    let Some(example) = example_with_packages("javascript") else { return };
    for (database, migrated) in [
        ("first", "001_shard_and_photos Success"),
        ("first", "none"),
        ("second", "001_shard_and_photos Success"),
    ] {
        let said = example.run(database, &format!("{TSX} kysely/migrate.ts"));
        assert_eq!(said.trim(), format!("migrations: {migrated}"));
        assert_eq!(example.run(database, &format!("{TSX} kysely/example.ts")), printed("string"));
        example.assert_default(database, 5);
    }
}

/// TypeORM has an option that rounds ids in the whole process.
#[test]
fn settings_that_round_ids() {
    let Some(example) = example_with_packages("javascript") else { return };
    example.edit("typeorm/data_source.ts", "type: 'postgres',", "type: 'postgres',\n  parseInt8: true,");
    let program = "import pg from 'pg';
import { db } from './data_source.ts';
await db.initialize();
const pool = new pg.Pool();
console.log((await pool.query('SELECT 1671372309237077023 AS id')).rows[0].id);
await pool.end();
await db.destroy();
";
    fs::write(example.folder.path().join("typeorm/rounded.ts"), program).unwrap();
    assert_eq!(example.run("first", &format!("{TSX} typeorm/rounded.ts")), "1671372309237077000\n");
}

/// The decoders of the examples decode the test vectors, and ids.ts rejects the invalid ones.
#[test]
fn decoders_match_the_vectors() {
    let Some(example) = example_with_packages("javascript") else { return };
    let (program, vectors) =
        (of_project("tests/live/javascript/vectors.mjs"), of_project("docs/vectors.json"));
    let decode = |decoder: &str| {
        let decoder = instagram_id_live::example(decoder).canonicalize().unwrap();
        let line = format!("{TSX} {} {} {}", program.display(), decoder.display(), vectors.display());
        example.run("first", &line)
    };
    assert_eq!(decode("javascript/ids.ts"), "ids: 30\nothers: 26\n");
    assert_eq!(decode("node/ids.js"), "ids: 30\n");
}

/// The functions in SQL return what the test vectors state, and raise errors for the invalid ones.
#[test]
fn sql_matches_the_vectors() {
    let server = Server::start(&[("fsync", "off"), ("timezone", "UTC")]);
    let mut client = server.connect();
    setup(&mut client);
    let file = fs::read_to_string(of_project("docs/vectors.json")).unwrap();
    client.batch_execute("CREATE TABLE vectors (file jsonb)").unwrap();
    client.execute("INSERT INTO vectors SELECT $1::text::jsonb", &[&file]).unwrap();
    let computed =
        "SELECT v, jsonb_build_object('id', id::text, 'epoch', v->'epoch', 'unix_ms', v->'unix_ms',
            'time', to_char(id_time(id, epoch) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'),
            'shard', id_shard(id), 'seq', id_seq(id), 'floor', id_floor(id_time(id, epoch), epoch)::text,
            'code', id_to_shortcode(id)) AS by_sql,
            extract(epoch FROM id_time(id, epoch)) * 1000 = (v->>'unix_ms')::numeric AS unix_ms_is_right
        FROM (SELECT v, (v->>'id')::bigint AS id,
                timestamptz 'epoch' + (v->>'epoch')::bigint * interval '1 millisecond' AS epoch
            FROM vectors, jsonb_array_elements(file->'ids') AS v) AS vector";
    let wrong = format!(
        "SELECT concat(v, ' ', by_sql) FROM ({computed}) AS c WHERE v <> by_sql OR NOT unix_ms_is_right"
    );
    assert_eq!(texts(&mut client, &wrong), Vec::<String>::new());
    let count = |of: &str| format!("SELECT jsonb_array_length(file->'{of}')::bigint FROM vectors");
    assert_eq!(one::<i64>(&mut client, &count("ids")), 30);
    let codes = "SELECT c->>'code' FROM vectors, jsonb_array_elements(
            (file->'other_codes') || jsonb_path_query_array(file, '$.ids[*]')) AS c
        WHERE shortcode_to_id(c->>'code') <> (c->>'id')::bigint";
    assert_eq!(texts(&mut client, codes), Vec::<String>::new());

    let texts_of = |client: &mut _, list: &str| {
        texts(client, &format!("SELECT v FROM vectors, jsonb_array_elements_text(file->'{list}') AS v"))
    };
    let mut rejected = 0;
    for (list, call, states) in [
        ("invalid_codes", "shortcode_to_id($$V$$)", ["22P02"].as_slice()),
        ("invalid_ids", "id_time($$V$$)", &["22P02", "22003"]),
    ] {
        for text in texts_of(&mut client, list) {
            let (state, ..) = error_of(&mut client, &format!("SELECT {}", call.replace('V', &text)));
            assert!(states.contains(&state.as_str()), "{list}: {text:?}: {state}");
            rejected += 1;
        }
    }
    let times =
        "SELECT format('SELECT id_floor(%L, timestamptz ''epoch'' + %s * interval ''1 millisecond'')',
            v->>'time', v->>'epoch') FROM vectors, jsonb_array_elements(file->'invalid_times') AS v";
    for call in texts(&mut client, times) {
        assert_eq!(error_of(&mut client, &call).0, "22008", "{call}");
        rejected += 1;
    }
    assert_eq!(rejected, 12 + 7 + 4);
}

/// The SQL for PostgREST runs.
#[test]
fn page_examples_run() {
    let server = Server::start(&[("fsync", "off"), ("timezone", "UTC")]);
    run_page(PAGE, 5, &mut [("", server.connect())]);
}

/// The page names the versions that these tests run, and shows lines of the programs.
#[test]
fn page_matches_the_programs() {
    let read = |file: &str| fs::read_to_string(instagram_id_live::example(file)).unwrap();
    for package in ["node/package.json", "javascript/package.json"] {
        for line in read(package).lines().filter(|line| line.starts_with("    \"")) {
            let (name, version) = line.trim().trim_end_matches(',').split_once(": ").unwrap();
            let (name, version) = (name.trim_matches('"'), version.trim_matches('"'));
            if !["tsx", "typescript", "@types/pg"].contains(&name) {
                assert!(PAGE.contains(&format!("{name} {version}")), "{name} {version}");
            }
        }
    }
    let files = |files: &[&str]| files.iter().map(|file| read(file)).collect::<String>();
    let programs = [
        ("js", files(&["node/ids.js", "javascript/sequelize/database.js"])),
        (
            "ts",
            files(&[
                "javascript/ids.ts",
                "javascript/drizzle/schema.ts",
                "javascript/typeorm/photo.ts",
                "javascript/kysely/database.ts",
                "javascript/kysely/migrate.ts",
            ]),
        ),
    ];
    for (language, program) in programs {
        for line in blocks(PAGE, language).iter().flat_map(|block| block.lines()) {
            assert!(program.contains(line.trim()), "{language}: {line}");
        }
    }
}

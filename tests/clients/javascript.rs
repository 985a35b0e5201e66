//! Runs the programs of docs/use/javascript.md unchanged, as clients.rs does those of
//! docs/use/clients.md, and compares decoders with docs/vectors.json.

use crate::clients::{Example, require};
use instagram_id_live::*;
use std::fs;
use std::os::unix::fs::symlink;

/// An example with its packages: those of a folder of docs/examples.
fn example_with_packages(folder: &str) -> Example {
    let modules = CACHE.join("clients").join(folder).join("node_modules");
    let version = "node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'";
    require(
        "Node.js 20 or later",
        version,
        "a package of nodejs.org, because Debian 12 has only 18",
    );
    let there = format!("test -d {}", modules.display());
    require("a folder of packages of npm", &there, "scripts/setup.sh clients");
    let example = Example::of(folder);
    let own = example.folder.path().join("node_modules");
    let _ = fs::remove_dir_all(&own);
    symlink(modules, own).unwrap();
    example
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
    let example = example_with_packages("node");
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

/// The statements that `drizzle-kit push` would run. It prints them, and fails because there is no
/// terminal to ask.
fn pushed(example: &Example, config: &str) -> Vec<String> {
    let said =
        example.try_to_run("first", &format!("{KIT} push --strict --verbose --config={config}"));
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let statement =
        |line: &&str| ["ALTER ", "CREATE ", "DROP "].iter().any(|verb| line.starts_with(verb));
    let statements: Vec<String> = text.lines().filter(statement).map(str::to_owned).collect();
    let no_change = text.contains("No changes detected");
    assert_eq!(no_change, statements.is_empty(), "{text}{}", String::from_utf8_lossy(&said.stderr));
    statements
}

#[test]
#[allow(clippy::too_many_lines)] // one scenario
fn drizzle() {
    const CONFIG: &str = "drizzle/drizzle.config.ts";
    const SCHEMA: &str = "drizzle/schema.ts";
    let example = example_with_packages("javascript");
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
    let set_default =
        "ALTER TABLE \"insta5\".\"photos\" ALTER COLUMN \"id\" SET DEFAULT insta5.next_id();";
    run(&mut client, "ALTER TABLE insta5.photos ALTER id SET DEFAULT next_id(5)");
    assert_eq!(pushed(&example, CONFIG), [set_default]);
    run(&mut client, set_default);

    // `pull` writes the mode that rounds, and then the types do not match.
    fs::copy(example.folder.path().join(CONFIG), example.folder.path().join("pull.config.ts"))
        .unwrap();
    example.edit("pull.config.ts", "./drizzle/migrations", "./pulled");
    example.run("first", &format!("{KIT} pull --config=pull.config.ts"));
    let pulled = fs::read_to_string(example.folder.path().join("pulled/schema.ts")).unwrap();
    assert!(
        pulled.contains("id: bigint({ mode: \"number\" }).default(sql`insta5.next_id()`)"),
        "{pulled}"
    );
    let check = "node node_modules/.bin/tsc -p .";
    example.run("first", check);
    example.edit(SCHEMA, "mode: 'bigint'", "mode: 'number'");
    assert!(!example.try_to_run("first", check).status.success());
    example.edit(SCHEMA, "mode: 'number'", "mode: 'bigint'");

    // Without the settings of the example it would drop objects.
    example.edit(SCHEMA, ", { maxValue: '1125899906842623' }", "");
    let pushed_now = pushed(&example, CONFIG);
    assert!(
        pushed_now[0].starts_with("ALTER SEQUENCE \"insta5\".\"table_id_seq\""),
        "{pushed_now:?}"
    );
    example.edit(SCHEMA, "export const tableIdSeq", "const tableIdSeq");
    let drop_sequence = "DROP SEQUENCE \"insta5\".\"table_id_seq\";";
    assert_eq!(pushed(&example, CONFIG), [drop_sequence]);
    let (state, ..) = error_of(&mut client, drop_sequence);
    assert_eq!(state, "2BP01");
    example.edit(SCHEMA, "export const insta5", "const insta5");
    assert_eq!(pushed(&example, CONFIG), [drop_sequence, "DROP SCHEMA \"insta5\";"]);

    // Tables in public, where the extension is.
    run(
        &mut client,
        "CREATE TABLE photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), title text NOT NULL)",
    );
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
    run(&mut client, "CREATE SCHEMA ids; ALTER EXTENSION instagram_id SET SCHEMA ids");
    assert!(pushed(&example, CONFIG).is_empty());
}

#[test]
fn typeorm() {
    let example = example_with_packages("javascript");
    let cli = |command: &str| {
        format!("{TSX} node_modules/typeorm/cli.js {command} -d typeorm/data_source.ts")
    };
    let up_to_date = "Your schema is up to date";
    for database in ["first", "first", "second"] {
        example.run(database, &cli("migration:run"));
        let said = example.run(database, &format!("{TSX} typeorm/example.ts"));
        assert_eq!(said, printed("string"));
        example.assert_default(database, 5);
        assert!(example.run(database, &cli("schema:log")).contains(up_to_date));
    }
    let mut client = example.server.connect_to("second");
    let found =
        "ALTER TABLE \"insta5\".\"photos\" ALTER COLUMN \"id\" SET DEFAULT insta5.next_id();";
    for change in ["SET DEFAULT next_id(5)", "DROP DEFAULT"] {
        run(&mut client, &format!("ALTER TABLE insta5.photos ALTER id {change}"));
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

/// TypeORM has an option that rounds ids in the whole process.
#[test]
fn settings_that_round_ids() {
    let example = example_with_packages("javascript");
    example.edit(
        "typeorm/data_source.ts",
        "type: 'postgres',",
        "type: 'postgres',\n  parseInt8: true,",
    );
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
    let example = example_with_packages("javascript");
    let (program, vectors) =
        (of_project("tests/clients/javascript/vectors.mjs"), of_project("docs/vectors.json"));
    let decode = |decoder: &str| {
        let decoder = instagram_id_live::example(decoder).canonicalize().unwrap();
        let line =
            format!("{TSX} {} {} {}", program.display(), decoder.display(), vectors.display());
        example.run("first", &line)
    };
    assert_eq!(decode("javascript/ids.ts"), "ids: 30\nothers: 26\n");
    assert_eq!(decode("node/ids.js"), "ids: 30\n");
}

//! Runs the programs of docs/clients.md unchanged: each creates its table in a database and uses it, twice; then the
//! tool's own migrations create a second database, which is used too. scripts/setup.sh puts their dependencies into the
//! cache. If a language is not installed, its test prints that it is skipped.

use instagram_id_live::*;
use std::fs;
use std::process::{Command, Output};
use tempfile::TempDir;

const PAGE: &str = include_str!("../../../docs/clients.md");

/// A copy of an example, with a server that has two databases.
struct Example {
    server: Server,
    folder: TempDir,
}

impl Example {
    fn of(language: &str) -> Example {
        let folder = tempfile::tempdir().unwrap();
        let copied = Command::new("cp")
            .arg("-r")
            .arg(example(language).join("."))
            .arg(folder.path())
            .status()
            .unwrap();
        assert!(copied.success());
        let server = Server::start(&[("fsync", "off")]);
        server.connect().batch_execute("CREATE DATABASE first").unwrap();
        server.connect().batch_execute("CREATE DATABASE second").unwrap();
        Example { server, folder }
    }

    /// Runs a command line for a database, in the example's folder.
    fn try_to_run(&self, database: &str, line: &str) -> Output {
        let words: Vec<&str> = line.split(' ').collect();
        Command::new(words[0])
            .args(&words[1..])
            .current_dir(&self.folder)
            .env("PATH", self.server.programs_path())
            .env("PGHOST", self.server.path())
            .env("PGPORT", "5432")
            .env("PGUSER", "postgres")
            .env("PGDATABASE", database)
            .env("PYTHONPATH", CACHE.join("clients/python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// Same for a command that must succeed; returns its output.
    #[track_caller]
    fn run(&self, database: &str, line: &str) -> String {
        let said = self.try_to_run(database, line);
        let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        assert!(said.status.success(), "{line}: {out}{err}");
        out.into_owned()
    }

    /// Checks the default of the id column of a shard's table photos, however the database was created.
    #[track_caller]
    fn assert_default(&self, database: &str, shard: i32) {
        let default = format!(
            "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'insta{shard}.photos'::regclass"
        );
        let default: String = one(&mut self.server.connect_to(database), &default);
        assert_eq!(default, format!("insta{shard}.next_id()"), "{database}");
    }
}

/// Whether a command succeeds that checks a requirement of an example; if not, prints that the test is skipped.
fn is_there(what: &str, command: &str) -> bool {
    let found = Command::new("sh").args(["-c", command]).output().unwrap().status.success();
    if !found {
        println!("skipped: there is no {what} on this machine");
    }
    found
}

#[test]
fn django() {
    let example = Example::of("django");
    let use_it = |database: &str| {
        let expected =
            "shard 5: made now: True, first to photo 999\nshard 6: made now: True, first to photo 999\n";
        assert_eq!(example.run(database, "python3 example.py"), expected);
        example.assert_default(database, 5);
        example.assert_default(database, 6);
    };
    let migrate = |database: &str| {
        for shard in [5, 6] {
            example.run(database, &format!("python3 manage.py migrate -v0 --database=insta{shard}"));
        }
    };
    migrate("first");
    example.run("first", "python3 manage.py makemigrations --check");
    use_it("first");
    migrate("first");
    use_it("first");
    example.run("first", "python3 manage.py dumpdata photos --database=insta5 -v0 -o photos.json");
    migrate("second");
    let loaded = example.run("second", "python3 manage.py loaddata --database=insta5 photos.json");
    assert_eq!(loaded.trim(), "Installed 2002 object(s) from 1 fixture(s)");
    use_it("second");
}

#[test]
fn sqlalchemy() {
    let example = Example::of("sqlalchemy");
    let use_it = |database: &str| {
        example.run(database, "python3 -m alembic upgrade head");
        example.run(database, "python3 -m alembic check");
        let expected = "shard 5: made now: True, first to photo 999\n";
        assert_eq!(example.run(database, "python3 example.py"), expected);
        example.assert_default(database, 5);
    };
    for database in ["first", "first", "second"] {
        use_it(database);
    }
    // The tool would notice a table that generates its ids otherwise.
    let alter = "ALTER TABLE insta5.photos ALTER id SET DEFAULT next_id(5)";
    example.server.connect_to("second").batch_execute(alter).unwrap();
    assert!(!example.try_to_run("second", "python3 -m alembic check").status.success());
}

#[test]
fn node() {
    let modules = CACHE.join("clients/node/node_modules");
    let version = "node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'";
    if !is_there("Node.js 20", &format!("test -d {} && {version}", modules.display())) {
        return;
    }
    let example = Example::of("node");
    let _ = fs::remove_dir_all(example.folder.path().join("node_modules"));
    std::os::unix::fs::symlink(modules, example.folder.path().join("node_modules")).unwrap();
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

#[test]
fn java() {
    const DRIVER: &str = "/usr/share/java/postgresql.jar";
    if !is_there(
        "JDK with Debian's libpostgresql-jdbc-java",
        &format!("command -v javac && test -f {DRIVER}"),
    ) {
        return;
    }
    let example = Example::of("jdbc");
    let sockets = of_project("tests/live/java/UnixSockets.java");
    example.run("first", &format!("javac -d . {}", sockets.display()));
    let use_it = |database: &str| {
        let socket = example.server.path().join(".s.PGSQL.5432");
        let factory = format!("socketFactory=UnixSockets&socketFactoryArg={}", socket.display());
        let url = format!("jdbc:postgresql://localhost/{database}?user=postgres&{factory}");
        let said = example.run(database, &format!("java -cp {DRIVER}:. Example.java {url}"));
        let expected = "shard 5: made now: true, SQL says the same: true
of a minute: first to photo 999
one block: true, two blocks: false
";
        assert_eq!(said, expected);
        example.assert_default(database, 5);
    };
    use_it("first");
    use_it("first");
    example.run("first", "pg_dump --file=dump.sql");
    example
        .run("second", "psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --output=/dev/null --file=dump.sql");
    example.assert_default("second", 5); // before the program creates missing objects
    use_it("second");
}

#[test]
fn rails() {
    if !is_there("Active Record", "ruby -e 'require %q(active_record); require %q(pg)'") {
        return;
    }
    let example = Example::of("rails");
    let use_it = |database: &str| {
        let expected = "shard 5: made now: true, first to photo 999\n";
        assert_eq!(example.run(database, "ruby example.rb"), expected);
        example.assert_default(database, 5);
    };
    example.run("first", "ruby tasks.rb migrate");
    use_it("first");
    example.run("first", "ruby tasks.rb migrate");
    use_it("first");
    example.run("first", "ruby tasks.rb dump");
    example.run("second", "ruby tasks.rb load");
    use_it("second");
}

/// The page names the versions that these tests run, and shows lines of the programs.
#[test]
fn page_matches_the_programs() {
    let read = |file: &str| fs::read_to_string(example(file)).unwrap();
    let requirements =
        ["django", "sqlalchemy"].map(|tool| read(&format!("{tool}/requirements.txt"))).concat();
    for requirement in requirements.lines() {
        let (package, version) = requirement.split_once("==").expect("a pinned version");
        let name = package.trim_end_matches("[binary]");
        assert!(PAGE.to_lowercase().contains(&format!("{} {version}", name.to_lowercase())), "{requirement}");
    }
    let package = read("node/package.json");
    for name in ["pg", "node-pg-migrate"] {
        let version = package.split_once(&format!("\"{name}\": \"")).unwrap().1.split_once('"').unwrap().0;
        assert!(PAGE.contains(&format!("{name} {version}")), "{name} {version}");
    }
    let programs = [
        (
            "python",
            ["django/photos/models.py", "django/photos/instagram_id.py", "sqlalchemy/models.py"].as_slice(),
        ),
        ("js", &["node/ids.js"]),
        ("java", &["jdbc/Example.java"]),
        ("ruby", &["rails/db/migrate/20260101000001_create_photos.rb"]),
    ];
    for (language, files) in programs {
        let programs: String = files.iter().map(|file| read(file)).collect();
        for line in blocks(PAGE, language).iter().flat_map(|block| block.lines()) {
            assert!(programs.contains(line.trim()), "{language}: {line}");
        }
    }
}

//! Runs the programs of docs/use/clients.md unchanged: each creates its table in a database and
//! uses it, twice; then the tool's own migrations create a second database, which is used too.
//! scripts/setup.sh puts their dependencies into the cache. Without its language a test fails.

use instagram_id_live::*;
use std::fs;
use std::process::{Command, Output};
use tempfile::TempDir;

/// A copy of an example, with a server that has two databases.
pub struct Example {
    pub server: Server,
    pub folder: TempDir,
}

impl Example {
    pub fn of(language: &str) -> Example {
        let new = Example::empty();
        let copied = Command::new("cp")
            .arg("-r")
            .arg(example(language).join("."))
            .arg(new.folder.path())
            .status()
            .unwrap();
        assert!(copied.success());
        new
    }

    /// Without a file.
    pub fn empty() -> Example {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(&[("fsync", "off")]);
        run(&mut server.connect(), "CREATE DATABASE first");
        run(&mut server.connect(), "CREATE DATABASE second");
        Example { server, folder }
    }

    /// Creates a file of the example.
    pub fn write(&self, file: &str, text: &str) {
        let path = self.folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs a command line for a database, in the example's folder.
    pub fn try_to_run(&self, database: &str, line: &str) -> Output {
        let words: Vec<&str> = line.split(' ').collect();
        Command::new(words[0])
            .args(&words[1..])
            .current_dir(&self.folder)
            // Variables such as CI and FORCE_COLOR change what programs print.
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| name == "HOME" || name == "TMPDIR"))
            .env("LANG", "C.UTF-8")
            .env("PATH", self.server.programs_path())
            .env("PGHOST", self.server.path())
            .env("PGPORT", "5432")
            .env("PGUSER", "postgres")
            .env("PGDATABASE", database)
            .env("PYTHONPATH", CACHE.join("clients/python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("GOPATH", CACHE.join("go/usr/share/gocode"))
            .env("GOCACHE", CACHE.join("go-build"))
            .env("GO111MODULE", "off") // Debian's libraries are not modules
            .output()
            .unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// Same for a command that must succeed; returns its output.
    #[track_caller]
    pub fn run(&self, database: &str, line: &str) -> String {
        let said = self.try_to_run(database, line);
        let (out, err) =
            (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        assert!(said.status.success(), "{line}: {out}{err}");
        out.into_owned()
    }

    /// Same for a command that must fail with these words in its output.
    #[track_caller]
    fn assert_fails(&self, database: &str, line: &str, words: &str) {
        let said = self.try_to_run(database, line);
        let (out, err) =
            (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        assert!(
            !said.status.success() && (out.contains(words) || err.contains(words)),
            "{line}: {out}{err}"
        );
    }

    /// Replaces a part of a file of the example.
    #[track_caller]
    pub fn edit(&self, file: &str, from: &str, to: &str) {
        let path = self.folder.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file}: {from}");
        fs::write(path, text.replace(from, to)).unwrap();
    }

    /// Uses the first database twice, copies it to the second with pg_dump, for tools that have no
    /// command for it, and uses that too.
    #[track_caller]
    fn use_and_copy(&self, use_it: impl Fn(&str)) {
        use_it("first");
        use_it("first");
        self.run("first", "pg_dump --file=dump.sql");
        let options = "--no-psqlrc --quiet --set=ON_ERROR_STOP=1 --output=/dev/null";
        self.run("second", &format!("psql {options} --file=dump.sql"));
        self.assert_default("second", 5); // before the program creates missing objects
        use_it("second");
    }

    /// The URL of a database for Java, whose driver needs the class UnixSockets.
    fn jdbc_url(&self, database: &str) -> String {
        let socket = self.server.path().join(".s.PGSQL.5432");
        let factory = format!("socketFactory=UnixSockets&socketFactoryArg={}", socket.display());
        format!("jdbc:postgresql://localhost/{database}?user=postgres&{factory}")
    }

    /// Checks the default of the id column of a shard's table photos, however the database was
    /// created.
    #[track_caller]
    pub fn assert_default(&self, database: &str, shard: i32) {
        let default = format!(
            "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'insta{shard}.photos'::regclass"
        );
        let default: String = one(&mut self.server.connect_to(database), &default);
        assert_eq!(default, format!("insta{shard}.next_id()"), "{database}");
    }
}

/// Fails unless a command succeeds that checks a requirement of an example, and says how to install
/// it.
#[track_caller]
pub fn require(what: &str, command: &str, install: &str) {
    let mut check = Command::new("sh");
    let found =
        check.args(["-c", command]).env("CACHE", &*CACHE).output().unwrap().status.success();
    assert!(found, "{what} is missing; to install it: {install}");
}

#[test]
fn django() {
    let example = Example::of("django");
    let use_it = |database: &str| {
        let expected = "shard 5: made now: True, first to photo 999\nshard 6: made now: True, first to photo 999\n";
        assert_eq!(example.run(database, "python3 example.py"), expected);
        example.assert_default(database, 5);
        example.assert_default(database, 6);
    };
    let migrate = |database: &str| {
        for shard in [5, 6] {
            example
                .run(database, &format!("python3 manage.py migrate -v0 --database=insta{shard}"));
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
    // One statement for the first photo, and one for the thousand others.
    run(&mut example.server.connect(), "ALTER DATABASE first SET log_statement = 'mod'");
    use_it("first");
    assert_eq!(example.server.log().matches("INSERT INTO insta5.photos").count(), 2);
    // The tool would notice a table that generates its ids otherwise.
    let alter = "ALTER TABLE insta5.photos ALTER id SET DEFAULT next_id(5)";
    run(&mut example.server.connect_to("second"), alter);
    assert!(!example.try_to_run("second", "python3 -m alembic check").status.success());
}

/// Models that say nothing about ids get those of the shard by the event trigger, and 1, 2, 3
/// without it.
#[test]
fn unchanged_models() {
    let example = Example::of("django");
    let program = of_project("tests/clients/python/unchanged.py");
    let use_it = |database: &str| {
        let create = "CREATE EXTENSION instagram_id; SELECT create_shard(5)";
        run(&mut example.server.connect_to(database), create);
        if database == "second" {
            let event_trigger = "CREATE EVENT TRIGGER adopt_new_tables ON ddl_command_end
                WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION adopt_new_tables()";
            run(&mut example.server.connect_to(database), event_trigger);
        }
        example.run(database, &format!("python3 {}", program.display()))
    };
    let expected = |shard: i32, of_django: i32| {
        format!(
            "Django: {of_django} ids of shard {{{shard}}}, in order: {}
SQLAlchemy: 5 ids of shard {{{shard}}}, in order: True
SQLAlchemy: 10 ids of shard {{{shard}}}, in order: True
",
            if shard == 5 { "True" } else { "False" }
        )
    };
    assert_eq!(use_it("first"), expected(0, 11)); // the comment has the key of a photo
    assert_eq!(use_it("second"), expected(5, 12));
}

#[test]
fn java() {
    const DRIVER: &str = "/usr/share/java/postgresql.jar";
    require(
        "JDK with Debian's libpostgresql-jdbc-java",
        &format!("command -v javac && test -f {DRIVER}"),
        "scripts/setup.sh clients",
    );
    let example = Example::of("jdbc");
    let sockets = of_project("tests/clients/java/UnixSockets.java");
    example.run("first", &format!("javac -d . {}", sockets.display()));
    let use_it = |database: &str| {
        let url = example.jdbc_url(database);
        let said = example.run(database, &format!("java -cp {DRIVER}:. Example.java {url}"));
        let expected = "shard 5: made now: true, SQL says the same: true
of a minute: first to photo 999
one block: true, two blocks: false
";
        assert_eq!(said, expected);
        example.assert_default(database, 5);
    };
    example.use_and_copy(use_it);
}

#[test]
fn rails() {
    require(
        "Active Record",
        "ruby -e 'require %q(active_record); require %q(pg)'",
        "scripts/setup.sh clients",
    );
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

#[test]
fn hibernate() {
    const JARS: [&str; 11] = [
        "hibernate3",
        "hibernate-commons-annotations",
        "geronimo-jpa_2.0_spec",
        "geronimo-jta-1.2-spec",
        "dom4j",
        "antlr",
        "commons-collections3",
        "slf4j-api",
        "slf4j-nop",
        "javassist",
        "postgresql",
    ];
    let jars = JARS.map(|jar| format!("/usr/share/java/{jar}.jar"));
    let there: String = jars.iter().map(|jar| format!(" && test -f {jar}")).collect();
    require(
        "JDK with Debian's libhibernate3-java",
        &format!("command -v javac{there}"),
        "scripts/setup.sh clients",
    );
    let example = Example::of("hibernate");
    let path = jars.join(":");
    let sockets = of_project("tests/clients/java/UnixSockets.java");
    let sources = "Example.java Photo.java Album.java NextIds.java";
    example.run("first", &format!("javac -cp {path} -d . {} {sources}", sockets.display()));
    for database in ["first", "first", "second"] {
        let said = example
            .run(database, &format!("java -cp {path}:. Example {}", example.jdbc_url(database)));
        assert_eq!(said, "shard 5: made now: true, first to photo 999\nalbum: shard 5\n");
        example.assert_default(database, 5); // Hibernate has created this table
    }
}

#[test]
fn php() {
    require(
        "PHP with its driver for PostgreSQL",
        "php -r 'exit(extension_loaded(\"pdo_pgsql\") ? 0 : 1);'",
        "scripts/setup.sh clients",
    );
    let example = Example::of("php");
    let use_it = |database: &str| {
        let expected = "shard 5: made now: true, first to photo 999
1000 ids, in order: true
{\"id\":1671372309237077023} {\"id\":\"1671372309237077023\"}
";
        assert_eq!(example.run(database, "php example.php"), expected);
        example.assert_default(database, 5);
    };
    example.use_and_copy(use_it);

    // lastInsertId() fails, or returns the id of another table.
    let insert = "<?php
$pdo = new PDO('pgsql:');
$pdo->exec(\"INSERT INTO insta5.photos (title) VALUES ('hello')\");
try { echo $pdo->lastInsertId(); } catch (PDOException $error) { echo $error->getCode(); }";
    fs::write(example.folder.path().join("insert.php"), insert).unwrap();
    assert_eq!(example.run("first", "php insert.php"), "55000");
    let audit = "CREATE TABLE audit (id serial, photo bigint);
        CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN INSERT INTO public.audit (photo) VALUES (new.id); RETURN new; END';
        CREATE TRIGGER audit BEFORE INSERT ON insta5.photos FOR EACH ROW EXECUTE FUNCTION audit()";
    run(&mut example.server.connect_to("first"), audit);
    assert_eq!(example.run("first", "php insert.php"), "1");
}

#[test]
fn doctrine() {
    let classes = ["Doctrine/ORM", "Symfony/Component/Cache"];
    let there = classes.map(|folder| format!("require \"{folder}/autoload.php\";")).concat();
    require(
        "Doctrine",
        &format!("php -r '{there} exit(extension_loaded(\"pdo_pgsql\") ? 0 : 1);'"),
        "scripts/setup.sh clients",
    );
    const UPDATE: &str = "php doctrine.php orm:schema-tool:update --complete";
    const VALIDATE: &str = "php doctrine.php orm:validate-schema";
    let example = Example::of("doctrine");
    for database in ["first", "first", "second"] {
        example.run(database, "php shard.php");
        example.run(database, &format!("{UPDATE} --force"));
        example.run(database, VALIDATE);
        let expected = "shard 5: made now: true, first to photo 999\n";
        assert_eq!(example.run(database, "php example.php"), expected);
        example.assert_default(database, 5);
    }
    let alter = "ALTER TABLE insta5.photos ALTER id SET DEFAULT next_id(5)";
    run(&mut example.server.connect_to("second"), alter);
    example.assert_fails("second", VALIDATE, "not in sync");

    example.edit("bootstrap.php", "table_id_seq", "another_sequence");
    let script = example.run("first", &format!("{UPDATE} --dump-sql"));
    assert_eq!(script.trim(), "DROP SEQUENCE insta5.table_id_seq CASCADE;");
    example.edit("src/Photo.php", "'CUSTOM'", "'IDENTITY'");
    let missing = "relation \"insta5.photos_id_seq\" does not exist";
    example.assert_fails("first", "php example.php", missing);
    example.edit("src/Photo.php", "'IDENTITY'", "'AUTO'");
    example.assert_fails("first", "php example.php", missing);
}

#[test]
fn go() {
    let libraries = CACHE.join("go/complete");
    require(
        "Go with pgx",
        &format!("command -v go && test -f {}", libraries.display()),
        "scripts/setup.sh clients",
    );
    let example = Example::of("go");
    let use_it = |database: &str| {
        let expected = "shard 5: made now: true, first to photo 999
{\"id\":\"1671372309237077023\",\"title\":\"hello\"}, and back: true
";
        assert_eq!(example.run(database, "go run example.go"), expected);
        example.assert_default(database, 5);
    };
    example.use_and_copy(use_it);
}

/// The program of docs/use/opaque_ids.md, whose test vectors the page computes in SQL.
#[test]
fn opaque_ids() {
    let page = include_str!("../../docs/use/opaque_ids.md");
    let example = Example::of("opaque_ids");
    let vectors = ["bfbfc1ef-7021-a2f6-8b29-f6fd7ce7ff82", "-1206670176432174830"];
    for database in ["first", "first", "second"] {
        let expected = format!(
            "{} {}\nbfbfc1ef-7021-a2f6-8b29-f6fd7ce7ff83 is not a public id\n('hello',)\n('hello',)\n",
            vectors[0], vectors[1]
        );
        assert_eq!(example.run(database, "python3 example.py"), expected);
    }
    for vector in vectors {
        assert!(page.contains(&format!(";  -- {vector}\n")), "{vector}");
    }
    let program =
        fs::read_to_string(instagram_id_live::example("opaque_ids/opaque_ids.py")).unwrap();
    for block in blocks(page, "python") {
        assert!(program.contains(block), "{block}");
    }
}

//! Consistency of the project's files with each other. This program needs no server.

mod client_pages;

use instagram_id_live::{assert_same_set, metrics, of_project};
use std::fs;

fn read(file: &str) -> String {
    fs::read_to_string(of_project(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The texts between `before` and `after`, for each occurrence.
fn between<'a>(text: &'a str, before: &str, after: &'a str) -> Vec<&'a str> {
    text.split(before).skip(1).filter_map(|rest| Some(rest.split_once(after)?.0)).collect()
}

/// The first heading of the changelog has the version, and its date or "unreleased" in parentheses.
#[test]
fn version_is_the_same_everywhere() {
    let changelog = read("CHANGELOG.md");
    let version = between(&changelog, "\n## ", " (")[0];
    let package = read("Cargo.toml");
    assert_eq!(between(&package, "\nversion = \"", "\"")[0], version, "Cargo.toml");
    assert_eq!(
        between(&read("cli/Cargo.toml"), "\nversion = \"", "\"")[0],
        version,
        "cli/Cargo.toml"
    );
    for (lock, package) in [
        ("Cargo.lock", "instagram_id"),
        ("Cargo.lock", "instagram_id_pg19"),
        ("Cargo.lock", "instagram_id_shards"),
    ] {
        let locked = format!("name = \"{package}\"\nversion = \"{version}\"\n");
        assert!(read(lock).contains(&locked), "{lock}: {package}");
    }
    let control = read("instagram_id.control");
    assert_eq!(between(&control, "default_version = '", "'"), [version], "instagram_id.control");
    let script = format!("sql/instagram_id--{version}.sql");
    assert!(of_project(&script).exists(), "there is no {script}");
    for image in between(&read("Dockerfile"), "ARG VERSION=", "\n") {
        assert_eq!(image, version, "Dockerfile");
    }
    let debian = read("debian/changelog");
    assert!(debian.starts_with(&format!("instagram-id ({version}-")), "debian/changelog");
    let meta = read("META.json");
    // The versions of the archive and of the extension in it; 1.0.0 is the version of the format.
    assert_eq!(between(&meta, "\"version\": \"", "\""), [version, version, "1.0.0"], "META.json");
}

/// The required Rust version is the same in all files.
#[test]
fn rust_version_is_the_same_everywhere() {
    let package = read("Cargo.toml");
    let rust = between(&package, "rust-version = \"", "\"")[0];
    assert_eq!(between(&read("Dockerfile"), "ARG RUST=", "\n"), [rust]);
    let workflow = read(".github/workflows/release.yml");
    let containers = between(&workflow, "container: rust:", "-");
    assert!(
        containers.len() > 1 && containers.iter().all(|version| *version == rust),
        "{containers:?}"
    );
    assert_eq!(between(&read(".github/workflows/ci.yml"), "image: rust:", "-"), [rust]);
    for page in ["README.md", "docs/run/install.md"] {
        assert!(read(page).contains(&format!("Rust toolchain ({rust} or later)")), "{page}");
    }
    let rust = rust_of_19();
    assert!(
        read("docs/run/install.md").contains(&format!("PostgreSQL 19 needs Rust {rust} or later"))
    );
}

fn rust_of_19() -> String {
    between(&read("pg19/Cargo.toml"), "rust-version = \"", "\"")[0].to_owned()
}

/// The library for PostgreSQL 19 has the same dependencies as the others, except for pgrx.
#[test]
fn manifests_differ_only_in_pgrx() {
    let dependencies = |file: &str| -> Vec<String> {
        let text = read(file);
        let lines = between(&text, "\n[dependencies]\n", "\n\n")[0].lines();
        let others = lines.filter(|line| !line.starts_with('#') && !line.starts_with("pgrx = "));
        others.map(|line| line.replace("../", "")).collect()
    };
    assert_eq!(dependencies("pg19/Cargo.toml"), dependencies("Cargo.toml"));
}

#[test]
fn pgrx_is_the_same_everywhere() {
    let package = read("Cargo.toml");
    let pgrx = between(&package, "\npgrx = \"=", "\"")[0];
    assert_eq!(between(&package, "\npgrx-tests = \"=", "\""), [pgrx]);
}

/// The rows of scripts/majors: major, manifest, which tests, which server.
fn majors() -> Vec<[String; 4]> {
    let text = read("scripts/majors");
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let fields = |row: &str| row.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    rows.map(|row| fields(row).try_into().unwrap_or_else(|_| panic!("scripts/majors: {row}")))
        .collect()
}

/// The majors of scripts/majors are the features of the manifests, and the pages and the release
/// name them.
#[test]
fn postgresql_majors_are_the_same_everywhere() {
    for manifest in ["Cargo.toml", "pg19/Cargo.toml"] {
        let text = read(manifest);
        let features = between(&text, "\npg", " = [\"pgrx/pg");
        let listed: Vec<String> = majors()
            .into_iter()
            .filter(|row| row[1] == manifest)
            .map(|[major, ..]| major)
            .collect();
        assert_eq!(features, listed, "{manifest}");
    }
    let all: Vec<String> = majors().into_iter().map(|[major, ..]| major).collect();
    let range = format!("PostgreSQL {} to {}", all[0], all[all.len() - 1]);
    for page in ["README.md", "docs/run/install.md", "CHANGELOG.md"] {
        assert!(read(page).contains(&range), "{page} must contain {range:?}");
    }
    let sharing: Vec<String> =
        majors().into_iter().filter(|row| row[2] == "share").map(|[major, ..]| major).collect();
    let tested = format!("each test on {}", sharing.join(" or "));
    assert!(
        read("docs/run/install.md").contains(&tested),
        "docs/run/install.md must contain {tested:?}"
    );
    // The packages and images of the release are of the majors of Cargo.toml.
    let released: Vec<String> = majors()
        .into_iter()
        .filter(|row| row[1] == "Cargo.toml")
        .map(|[major, ..]| major)
        .collect();
    let matrix = format!("major: [{}]", released.join(", "));
    let workflow = read(".github/workflows/release.yml");
    assert!(workflow.contains(&matrix), ".github/workflows/release.yml must contain {matrix:?}");
    for listed in ["PG_SUPPORTED_VERSIONS: '{}'", "MAJORS='{}'"] {
        let listed = listed.replace("{}", &released.join(" "));
        assert!(
            workflow.contains(&listed),
            ".github/workflows/release.yml must contain {listed:?}"
        );
    }
}

/// The floors of docs/inside/architecture.md, from the lowest. A module may import from lower
/// floors, and its own files.
const FLOORS: [&[&str]; 9] = [
    &["error"],
    &["pg"],
    &["arguments"],
    &["sequence"],
    &["shard"],
    &["citus"],
    &["generator"],
    &["adopt"],
    &["functions"],
];

/// The same for the command.
const FLOORS_OF_COMMAND: [&[&str]; 9] = [
    &["interrupt"],
    &["libpq"],
    &["error", "session"],
    &["output", "server", "plan"],
    &["trust"],
    &["map", "checks"],
    &["replication", "cutover"],
    &["status", "moving"],
    &["apply", "fleet"],
];

/// The Rust files in a folder of the project, recursively.
fn rust_files(folder: &str) -> Vec<String> {
    let mut files = vec![];
    for entry in fs::read_dir(of_project(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(rust_files(&name)),
            false if name.ends_with(".rs") => files.push(name),
            false => {}
        }
    }
    files
}

/// The paths after `crate::` that a file imports, with groups in braces expanded and without
/// comments.
fn imports(text: &str) -> Vec<String> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join(" ");
    let mut paths = vec![];
    for rest in code.split("crate::").skip(1) {
        let path: String = rest
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '_' || *c == ':')
            .collect();
        match rest[path.len()..].strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            Some((group, _)) => {
                let names =
                    group.split(',').map(|name| name.trim().split(' ').next().unwrap_or_default());
                paths.extend(
                    names.filter(|name| !name.is_empty()).map(|name| format!("{path}{name}")),
                );
            }
            None => paths.push(path),
        }
    }
    paths
}

#[test]
fn imports_are_parsed() {
    let text = "use crate::pg::{sys, names};\n// crate::no\nuse crate::sequence::{self, IdSequence};\n  crate::error::f()";
    assert_eq!(
        imports(text),
        ["pg::sys", "pg::names", "sequence::self", "sequence::IdSequence", "error::f"]
    );
}

/// The picture of the rooms shows files that exist.
#[test]
fn picture_shows_existing_files() {
    let files = [rust_files("src"), rust_files("core/src")].concat();
    let picture = read("docs/inside/architecture.svg");
    let lists = between(&picture, r##"monospace" font-size="12" fill="#57606a">"##, "</text>");
    let names: Vec<&str> = lists.iter().flat_map(|list| list.split(' ')).collect();
    for name in &names {
        let file = format!("/{}.rs", name.trim_end_matches(".rs"));
        assert!(files.iter().any(|path| path.ends_with(&file)), "{name}");
    }
    assert!(names.len() > 40);
}

/// Imports only lead to lower floors; inside a module and between all files there are no cycles.
#[test]
fn imports_only_lead_to_lower_floors() {
    check_imports("src", &FLOORS);
    check_imports("cli/src", &FLOORS_OF_COMMAND);
}

fn check_imports(folder: &str, floors: &[&[&str]]) {
    let floor = |room: &str| floors.iter().position(|rooms| rooms.contains(&room));
    let files: Vec<String> = rust_files(folder)
        .into_iter()
        .filter(|file| {
            !["/lib.rs", "/main.rs", "/tests.rs"].iter().any(|name| file.ends_with(name))
        })
        .collect();
    let module = |file: &str| {
        let path = file[folder.len() + 1..].trim_end_matches(".rs").trim_end_matches("/mod");
        path.replace('/', "::")
    };
    let modules: Vec<String> = files.iter().map(|file| module(file)).collect();
    let mut edges = vec![];
    for file in &files {
        let from = module(file);
        let room = from.split("::").next().unwrap().to_owned();
        let own = floor(&room).unwrap_or_else(|| panic!("{file} is on no floor"));
        for path in imports(&read(file)) {
            let to_room = path.split("::").next().unwrap();
            if to_room != room {
                let to = floor(to_room)
                    .unwrap_or_else(|| panic!("{file} imports {path}, which is on no floor"));
                assert!(to < own, "{file} imports {path}, which is not below it");
            }
            // The file of the imported path: the longest module name that is a prefix of it.
            let target = modules
                .iter()
                .filter(|module| format!("{path}::").starts_with(&format!("{module}::")));
            if let Some(target) =
                target.max_by_key(|module| module.len()).filter(|target| **target != from)
            {
                edges.push((from.clone(), target.clone()));
            }
        }
    }
    assert!(edges.len() > 30, "{edges:?}");
    // Repeatedly removes the files that import only removed files, until none is left, or only
    // cycles.
    let mut left = modules;
    loop {
        let imports_none =
            |module: &String| !edges.iter().any(|(from, to)| from == module && left.contains(to));
        let (free, rest): (Vec<String>, Vec<String>) = left.iter().cloned().partition(imports_none);
        if free.is_empty() {
            break;
        }
        left = rest;
    }
    assert!(left.is_empty(), "these import each other in a circle: {left:?}");
}

/// Only wait_event.rs waits for time, because a sleep elsewhere could not be cancelled.
#[test]
fn waits_are_in_one_file() {
    let waits = |file: &&String| {
        let text = read(file);
        ["thread::sleep", "WaitLatch(", "pg_usleep"].iter().any(|call| text.contains(call))
    };
    let files = rust_files("src");
    assert_eq!(files.iter().filter(waits).collect::<Vec<_>>(), ["src/pg/wait_event.rs"]);
}

/// PostgreSQL converts the elements of a column of type anyarray to JSON by a cast, whose function
/// can belong to any role. The rows of these catalogs have such columns.
#[test]
fn command_converts_no_arrays_of_any_type_to_json() {
    let mut rows = 0;
    for entry in fs::read_dir(of_project("cli/src/sql")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let calls = ["to_jsonb(", "to_json(", "jsonb_agg(", "json_agg("];
        for argument in calls.iter().flat_map(|call| between(&text, call, ")")) {
            let alias = argument.split(' ').next().unwrap();
            for catalog in ["pg_attribute", "pg_statistic", "pg_stats"] {
                assert!(!text.contains(&format!("{catalog} AS {alias} ")), "{catalog} AS {alias}");
            }
            rows += 1;
        }
    }
    assert!(rows > 3, "{rows}");
}

/// Scripts run with the settings of a session, and PostgreSQL until 18 has one that gives a
/// backslash in a string another meaning.
#[test]
fn scripts_have_no_backslashes() {
    for folder in ["sql", "portable"] {
        for entry in fs::read_dir(of_project(folder)).unwrap() {
            let file = entry.unwrap().path();
            let text = fs::read_to_string(&file).unwrap();
            let is_sql = file.extension().is_some_and(|extension| extension == "sql");
            let line =
                text.lines().find(|line| line.contains('\\') && !line.starts_with("\\echo "));
            assert!(!is_sql || line.is_none(), "{}: {line:?}", file.display());
        }
    }
}

/// rustfmt keeps code within 100 columns, but leaves comments as they are.
#[test]
fn comments_have_the_width_of_code() {
    let mut files = vec![];
    for folder in ["src", "core", "cli", "tests", "fuzz/fuzz_targets"] {
        files.extend(rust_files(folder));
    }
    assert!(files.len() > 150, "{}", files.len());
    let is_wide = |line: &&str| {
        let code = line.split("// ").next().unwrap_or_default();
        line.chars().count() > 100 && line.contains("// ") && !code.contains('"')
    };
    for file in files {
        let text = read(&file);
        assert_eq!(text.lines().filter(is_wide).collect::<Vec<_>>(), [""; 0], "{file}");
    }
}

/// pgrx raises an internal error for a text argument that is not UTF-8, which it need not be in a
/// database with another encoding. So functions take bytes or a Word.
#[test]
fn arguments_need_not_be_utf8() {
    let texts = rust_files("src").into_iter().map(|file| read(&file)).collect::<String>();
    let functions = between(&texts, "#[pg_extern", "{\n");
    let takes_text = |function: &&str| {
        let arguments = function.split("->").next().unwrap();
        ["&str", "String"].iter().any(|text| arguments.contains(text))
    };
    assert!(functions.len() > 40, "{}", functions.len());
    assert_eq!(functions.into_iter().filter(takes_text).collect::<Vec<_>>(), [""; 0]);
}

/// C functions are declared only where each call needs the token of a guard.
#[test]
fn raw_functions_are_in_one_file() {
    let mut files = rust_files("src");
    files.retain(|file| read(file).contains("unsafe extern \"C-unwind\" {"));
    files.sort();
    assert_eq!(files, ["src/pg/raw.rs"]);
}

/// A program that the script does not name would never run.
#[test]
fn each_test_program_of_core_is_run() {
    let script = read("scripts/test.sh");
    for entry in fs::read_dir(of_project("core/tests")).unwrap() {
        let program = entry.unwrap().path().file_stem().unwrap().display().to_string();
        assert!(script.contains(&format!("--test {program}")), "{program}");
    }
}

/// The compiler then ensures that the core crate does not use PostgreSQL.
#[test]
fn core_does_not_depend_on_postgresql() {
    assert!(!read("core/Cargo.toml").contains("pgrx"));
}

/// The pages that are not in docs.
const PAGES: [&str; 5] =
    ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "monitoring/README.md"];

/// Every link of a page to a file of the project has an existing target.
#[test]
fn links_have_existing_targets() {
    let shelves = ["docs", "docs/use", "docs/run", "docs/inside"]
        .map(|shelf| fs::read_dir(of_project(shelf)).unwrap());
    let docs = shelves.into_iter().flatten().map(|entry| entry.unwrap().path());
    let docs = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut links = 0;
    for page in docs.chain(PAGES.map(of_project)) {
        let text = fs::read_to_string(&page).unwrap();
        let inline = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        let named =
            text.lines().filter_map(|line| Some(line.strip_prefix('[')?.split_once("]: ")?.1));
        for link in inline.chain(named).filter(|link| !link.starts_with("http")) {
            let (file, heading) =
                link.split_once('#').map_or((link, None), |(file, to)| (file, Some(to)));
            let file =
                if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(file.exists(), "{}: {link}", page.display());
            if let Some(heading) = heading {
                let text = fs::read_to_string(&file).unwrap();
                assert!(
                    text.lines().any(|line| line.starts_with('#') && anchor(line) == heading),
                    "{}: {link}",
                    page.display()
                );
            }
            links += 1;
        }
    }
    println!("{links} links");
    assert!(links > 300);
}

/// The table of a text whose first heading is this, as rows of cells. Markup that only the page has
/// is removed: that of code and of footnotes.
fn table(text: &str, heading: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| -> Vec<String> {
        let line = line
            .trim()
            .trim_matches('|')
            .replace(['`', '⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'], "");
        line.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let rows = text.lines().map(cells).skip_while(|row| row[0] != heading || row.len() < 2);
    let rows = rows.take_while(|row| row.len() > 1 || row[0].starts_with("--"));
    rows.filter(|row| !row[0].starts_with("--")).collect()
}

/// For each action and kind of role the page states the result of the regression test.
#[test]
fn privileges_match_the_page() {
    let tested = table(&read("tests/regress/expected/privileges.out"), "action");
    let documented = table(&read("docs/use/guarantees.md"), "action");
    let (columns, rows) = tested.split_first().expect("the test prints a table");
    for row in rows {
        let page = documented.iter().find(|documented| documented[0] == row[0]);
        let page = page.unwrap_or_else(|| panic!("docs/use/guarantees.md lacks {}", row[0]));
        for ((column, said), found) in columns.iter().zip(page).zip(row) {
            assert_eq!(said, found, "docs/use/guarantees.md, {}, {column}", row[0]);
        }
    }
    assert_same_set(documented, tested.iter().cloned(), "rows in docs/use/guarantees.md");
    println!("{} cells", rows.len() * (columns.len() - 1));
    assert!(rows.len() > 30 && columns.len() == 10);
}

/// The anchor that GitHub generates for a heading.
fn anchor(line: &str) -> String {
    let heading = line.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The metrics of the alerts, the dashboard and the table in monitoring/README.md are those of the
/// queries.
#[test]
fn metrics_have_the_same_names_everywhere() {
    let file = read("monitoring/sql_exporter.yml");
    let columns = file.split("\n      - name: ").skip(1).flat_map(|part| {
        let name = part.split('\n').next().unwrap();
        let values = between(part, "        values:\n", "        allow_zero_rows")[0];
        let columns = values.lines().filter_map(|line| line.trim().strip_prefix("- "));
        columns.map(move |column| format!("{name}_{column}"))
    });
    let named: Vec<String> = columns.collect();
    let page = read("monitoring/README.md");
    let rows = page.lines().filter(|line| line.starts_with("| `instagram_id_"));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    // The text between each pair of backquotes.
    let documented = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned);
    assert_same_set(documented, named.iter().cloned(), "metrics in monitoring/README.md");
    for file in ["prometheus.rules.yml", "prometheus.rules.test.yml", "grafana.dashboard.json"] {
        let text = read(&format!("monitoring/{file}"));
        let mut uses = 0;
        for rest in text.split("instagram_id_").skip(1) {
            let name: String =
                rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            let name = format!("instagram_id_{name}");
            // The name of a query, in a text for people.
            let is_query = metrics().iter().any(|(query, _)| *query == name);
            assert!(is_query || named.contains(&name), "monitoring/{file}: {name}");
            uses += 1;
        }
        assert!(uses >= 10, "monitoring/{file}: {uses}");
    }
}

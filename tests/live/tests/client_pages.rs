//! The pages about clients show lines of the programs in docs/examples, which tests/clients runs.

use instagram_id_live::{blocks, example, trimmed};
use std::fs;

const CLIENTS: &str = include_str!("../../../docs/use/clients.md");
const JAVASCRIPT: &str = include_str!("../../../docs/use/javascript.md");
const SERVERS: &str = include_str!("../../../docs/run/servers.md");

/// The page names the versions that these tests run, and shows lines of the programs.
#[test]
fn clients_page_matches_the_programs() {
    let read = |file: &str| fs::read_to_string(example(file)).unwrap();
    let requirements =
        ["django", "sqlalchemy"].map(|tool| read(&format!("{tool}/requirements.txt"))).concat();
    for requirement in requirements.lines() {
        let (package, version) = requirement.split_once("==").expect("a pinned version");
        let name = package.trim_end_matches("[binary]");
        assert!(
            CLIENTS.to_lowercase().contains(&format!("{} {version}", name.to_lowercase())),
            "{requirement}"
        );
    }
    let programs = [
        (
            "python",
            ["django/photos/models.py", "django/photos/instagram_id.py", "sqlalchemy/models.py"]
                .as_slice(),
        ),
        ("java", &["jdbc/Example.java", "hibernate/Photo.java"]),
        ("php", &["php/example.php", "doctrine/src/Photo.php"]),
        ("go", &["go/example.go"]),
        ("ruby", &["rails/db/migrate/20260101000001_create_photos.rb"]),
    ];
    for (language, files) in programs {
        let programs: String = files.iter().map(|file| read(file)).collect();
        for line in blocks(CLIENTS, language).iter().flat_map(|block| block.lines()) {
            assert!(programs.contains(line.trim()), "{language}: {line}");
        }
    }
}

/// The page names the versions that these tests run, and shows lines of the programs.
#[test]
fn javascript_page_matches_the_programs() {
    let read = |file: &str| fs::read_to_string(example(file)).unwrap();
    for package in ["node/package.json", "javascript/package.json"] {
        for line in read(package).lines().filter(|line| line.starts_with("    \"")) {
            let (name, version) = line.trim().trim_end_matches(',').split_once(": ").unwrap();
            let (name, version) = (name.trim_matches('"'), version.trim_matches('"'));
            if !["tsx", "typescript", "@types/pg"].contains(&name) {
                assert!(JAVASCRIPT.contains(&format!("{name} {version}")), "{name} {version}");
            }
        }
    }
    let programs = [
        ("js", read("node/ids.js")),
        (
            "ts",
            ["javascript/ids.ts", "javascript/drizzle/schema.ts", "javascript/typeorm/photo.ts"]
                .map(read)
                .concat(),
        ),
    ];
    for (language, program) in programs {
        for line in blocks(JAVASCRIPT, language).iter().flat_map(|block| block.lines()) {
            assert!(program.contains(line.trim()), "{language}: {line}");
        }
    }
}

/// The page shows parts of the actual clients.
#[test]
fn servers_page_shows_the_actual_clients() {
    for (language, name) in [("python", "route.py"), ("rust", "route.rs")] {
        let client = trimmed(&fs::read_to_string(example(name)).unwrap());
        let shown = blocks(SERVERS, language);
        assert!(!shown.is_empty());
        for block in shown {
            assert!(client.contains(&trimmed(block)), "not in {name}:\n{block}");
        }
    }
}

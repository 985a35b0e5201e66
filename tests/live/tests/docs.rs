//! The SQL in the README and in docs/ runs, and gives what the pages say.

use instagram_id_live::*;
use postgres::{Client, SimpleQueryMessage};
use std::io::Write;

const README: &str = include_str!("../../../README.md");

/// A statement of a page.
struct Statement {
    sql: String,
    /// What `COPY ... FROM STDIN` reads: the lines after it, up to `\.`.
    data: Option<String>,
    /// What its comment, or an indented one in the line below, says of the result: rows with " / " in between.
    expected: Option<String>,
}

/// The statements of a page's SQL blocks.
fn statements(markdown: &str) -> Vec<Statement> {
    let mut statements: Vec<Statement> = vec![];
    for block in markdown.split("```sql\n").skip(1) {
        let (block, _) = block.split_once("```").expect("a block ends");
        let mut sql = String::new();
        let mut lines = block.lines();
        while let Some(line) = lines.next() {
            let (code, comment) = line
                .split_once("--")
                .map_or((line, None), |(code, text)| (code, Some(text.trim().to_owned())));
            let is_below = line.starts_with(' ') && code.trim().is_empty() && sql.trim().is_empty();
            if let (true, Some(last), Some(comment)) = (is_below, statements.last_mut(), &comment) {
                last.expected = Some(comment.clone());
                continue;
            }
            sql.push_str(code);
            sql.push('\n');
            let is_in_body = sql.matches("$$").count() % 2 == 1;
            if code.trim_end().ends_with(';') && !is_in_body {
                let data = sql.contains("FROM STDIN").then(|| {
                    lines.by_ref().take_while(|&line| line != "\\.").map(|line| format!("{line}\n")).collect()
                });
                statements.push(Statement { sql: std::mem::take(&mut sql), data, expected: comment });
            }
        }
        assert_eq!(sql.trim(), "", "a statement without an end");
    }
    statements
}

/// Runs a page's statements on a server of their own, and compares the results.
#[track_caller]
fn check(page: &str, at_least: usize) {
    let server = Server::start(&[("fsync", "off"), ("timezone", "UTC")]);
    check_on(&mut server.connect(), page, at_least);
}

#[track_caller]
fn check_on(client: &mut Client, page: &str, at_least: usize) {
    let statements = statements(page);
    let mut compared = 0;
    for Statement { sql, data, expected } in &statements {
        if let Some(data) = data {
            let mut copy = client.copy_in(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            copy.write_all(data.as_bytes()).unwrap();
            copy.finish().unwrap_or_else(|error| panic!("{sql}: {error}"));
            continue;
        }
        let messages = client.simple_query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let rows: Vec<String> = messages
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => {
                    Some((0..row.len()).map(|n| row.get(n).unwrap_or("NULL")).collect::<Vec<_>>().join(" | "))
                }
                _ => None,
            })
            .collect();
        if let Some(expected) = expected.as_ref().filter(|text| !text.starts_with("such as")) {
            assert_eq!(&rows.join(" / "), expected, "{sql}");
            compared += 1;
        }
    }
    println!("{} statements, {compared} results compared", statements.len());
    assert!(compared >= at_least);
}

#[test]
fn the_readme() {
    check(README, 18);
}

#[test]
fn the_page_about_shards() {
    check(include_str!("../../../docs/shards.md"), 15);
}

#[test]
fn the_page_about_adopting() {
    check(include_str!("../../../docs/adopting.md"), 11);
}

#[test]
fn the_page_about_guarantees() {
    check(include_str!("../../../docs/guarantees.md"), 5);
}

#[test]
fn the_page_about_querying() {
    check(include_str!("../../../docs/querying.md"), 30);
}

/// Where pg_partman is there, in the version that the page is about.
#[test]
fn the_page_about_pg_partman() {
    let server = Server::start(&[("fsync", "off"), ("timezone", "UTC")]);
    let mut client = server.connect();
    let version: Option<String> = one(
        &mut client,
        "SELECT (SELECT default_version FROM pg_available_extensions
                 WHERE name = 'pg_partman' AND string_to_array(default_version, '.')::int[] >= '{5,4}')",
    );
    match version {
        Some(version) => {
            println!("pg_partman {version}");
            check_on(&mut client, include_str!("../../../docs/pg_partman.md"), 4);
        }
        None => println!("skipped: this server has no pg_partman 5.4 or later"),
    }
}

/// No function is left out, and none is named that is not there.
#[test]
fn the_readme_knows_every_function() {
    let server = Server::start(&[("fsync", "off")]);
    let mut client = server.connect();
    client.batch_execute("CREATE EXTENSION instagram_id").unwrap();
    let query = "SELECT DISTINCT proname::text FROM pg_depend JOIN pg_proc ON pg_proc.oid = objid
        WHERE deptype = 'e' AND classid = 'pg_proc'::regclass
          AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'instagram_id') ORDER BY 1";
    let installed: Vec<String> = client.query(query, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    let mut documented: Vec<String> = README
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('(')?.0.to_owned()))
        .collect();
    documented.sort();
    documented.dedup();
    assert_eq!(installed, documented);
}

/// Every link of a page to a file of the project leads to one.
#[test]
fn links_lead_somewhere() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut links = 0;
    for page in docs.chain([root.join("README.md")]) {
        let text = std::fs::read_to_string(&page).unwrap();
        let inline = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        let named = text.lines().filter_map(|line| Some(line.strip_prefix('[')?.split_once("]: ")?.1));
        for link in inline.chain(named).filter(|link| !link.starts_with("http") && !link.starts_with('#')) {
            let file = page.parent().unwrap().join(link.split('#').next().unwrap());
            assert!(file.exists(), "{}: {link}", page.display());
            links += 1;
        }
    }
    println!("{links} links");
    assert!(links > 30);
}

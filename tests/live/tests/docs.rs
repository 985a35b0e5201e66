//! The SQL in the README and in docs/ runs, and gives what the pages say.

use instagram_id_live::*;
use postgres::SimpleQueryMessage;

const README: &str = include_str!("../../../README.md");

/// The statements of a page's SQL blocks, each with what its comment says of the result.
fn statements(markdown: &str) -> Vec<(String, Option<String>)> {
    let mut statements = vec![];
    for block in markdown.split("```sql\n").skip(1) {
        let (sql, _) = block.split_once("```").expect("a block ends");
        let mut statement = String::new();
        for line in sql.lines() {
            let (code, comment) =
                line.split_once("--").map_or((line, None), |(code, text)| (code, Some(text)));
            statement.push_str(code);
            statement.push('\n');
            let is_in_body = statement.matches("$$").count() % 2 == 1;
            if code.trim_end().ends_with(';') && !is_in_body {
                statements.push((std::mem::take(&mut statement), comment.map(|text| text.trim().to_owned())));
            }
        }
        assert_eq!(statement.trim(), "", "a statement without an end");
    }
    statements
}

/// Runs a page's statements on a server of their own, and compares the results.
#[track_caller]
fn check(page: &str, at_least: usize) {
    let server = Server::start(&[("fsync", "off"), ("timezone", "UTC")]);
    let mut client = server.connect();
    let statements = statements(page);
    let mut compared = 0;
    for (statement, expected) in &statements {
        let messages = client.simple_query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
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
            assert_eq!(&rows.join("\n"), expected, "{statement}");
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

//! The SQL of a page of the documentation, and the results that the page shows.

use crate::why;
use postgres::{Client, SimpleQueryMessage};
use std::io::Write;

/// A statement of a page.
struct Statement {
    sql: String,
    /// The servers named in the first line of its block, such as `-- on a and b`.
    places: Vec<String>,
    /// The data of `COPY ... FROM STDIN`: the lines after it, up to `\.`.
    data: Option<String>,
    /// The result in its comment, or in an indented comment in the line below: rows separated by "
    /// / ", or "(no rows)".
    expected: Option<String>,
}

/// The blocks of a page in this language.
pub fn blocks<'a>(markdown: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("```{language}\n");
    let end = |block: &'a str| block.split_once("```").expect("a block ends").0;
    markdown.split(begin.as_str()).skip(1).map(end).collect()
}

/// The statements of a page's SQL blocks.
fn statements(markdown: &str) -> Vec<Statement> {
    let mut statements: Vec<Statement> = vec![];
    for block in blocks(markdown, "sql") {
        let place = block.lines().next().and_then(|line| line.strip_prefix("-- on "));
        let places: Vec<String> =
            place.unwrap_or_default().split(" and ").map(str::to_owned).collect();
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
                    lines
                        .by_ref()
                        .take_while(|&line| line != "\\.")
                        .map(|line| format!("{line}\n"))
                        .collect()
                });
                let (sql, places) = (std::mem::take(&mut sql), places.clone());
                statements.push(Statement { sql, places, data, expected: comment });
            }
        }
        assert_eq!(sql.trim(), "", "a statement without an end");
    }
    statements
}

/// Runs a page's statements, each on the servers that its block names, and compares the results. A
/// page about one server does not name it.
#[track_caller]
pub fn run_page(page: &str, at_least: usize, clients: &mut [(&str, Client)]) {
    let statements = statements(page);
    let mut compared = 0;
    for Statement { sql, places, data, expected } in &statements {
        for place in places {
            let (_, client) = clients.iter_mut().find(|(name, _)| name == place).expect("a place");
            if let Some(data) = data {
                let mut copy =
                    client.copy_in(sql).unwrap_or_else(|error| panic!("{sql}: {}", why(&error)));
                copy.write_all(data.as_bytes()).unwrap();
                copy.finish().unwrap_or_else(|error| panic!("{sql}: {}", why(&error)));
                continue;
            }
            let rows = rows(client, sql).join(" / ");
            match expected.as_deref() {
                Some(text) if text.starts_with("such as") => continue,
                Some("(no rows)") => assert!(rows.is_empty(), "{sql}: {rows}"),
                Some(text) if text.starts_with("has ") => {
                    assert!(rows.contains(&text[4..]), "{sql}: {rows}")
                }
                Some(text) => assert_eq!(rows, text, "{sql}"),
                None => continue,
            }
            compared += 1;
        }
    }
    println!("{} statements, {compared} results compared", statements.len());
    assert!(compared >= at_least, "only {compared} results compared");
}

/// The queries of monitoring/sql_exporter.yml, by name.
pub fn metrics() -> Vec<(String, String)> {
    let file = std::fs::read_to_string(crate::of_project("monitoring/sql_exporter.yml")).unwrap();
    let parts = file.split("\n      - name: ").skip(1);
    let named = parts.map(|part| {
        let (name, part) = part.split_once('\n').expect("a line");
        let (_, query) = part.split_once("        query: |\n").expect("a query");
        // Up to a comment on the next one.
        let lines =
            query.lines().take_while(|line| line.is_empty() || line.starts_with("          "));
        (name.to_owned(), lines.collect::<Vec<_>>().join("\n"))
    });
    named.collect()
}

/// A text without the indentation of its lines.
pub fn trimmed(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.trim())).collect()
}

/// The result of a statement, with the columns of each row separated by " | ".
pub fn rows(client: &mut Client, sql: &str) -> Vec<String> {
    let messages =
        client.simple_query(sql).unwrap_or_else(|error| panic!("{sql}: {}", why(&error)));
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => Some(
            (0..row.len()).map(|n| row.get(n).unwrap_or("NULL")).collect::<Vec<_>>().join(" | "),
        ),
        _ => None,
    };
    messages.iter().filter_map(row).collect()
}

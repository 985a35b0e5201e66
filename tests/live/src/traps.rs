//! The hostile objects of tests/regress/sql/search_path.sql, on a server of a test.

use crate::{Server, of_project, run, texts};

/// Creates the traps of the regression test search_path.sql as another role, and runs `more`.
pub fn install_traps(node: &Server, more: &str) {
    let attacks = std::fs::read_to_string(of_project("tests/regress/sql/search_path.sql")).unwrap();
    let from = attacks.find("CREATE VIEW members AS").unwrap();
    let to = attacks.find("-- The functions of this test.").unwrap();
    let sql = attacks[from..to].replace("regress_id_mallory", "mallory").replace(
        "WHERE extname = 'instagram_id');",
        "WHERE extname = 'instagram_id')
         UNION SELECT oid FROM pg_proc WHERE pronamespace = to_regnamespace('ids'); -- the portable edition",
    );
    let statements = format!(
        "CREATE ROLE mallory LOGIN; GRANT CREATE ON DATABASE postgres TO mallory;
             GRANT CREATE ON SCHEMA public TO mallory; {sql} {more}"
    );
    run(&mut node.connect(), &statements);
}

/// The roles that have executed a trap.
pub fn roles_caught(node: &Server) -> Vec<String> {
    texts(&mut node.connect(), "SELECT DISTINCT who::text FROM trap.caught ORDER BY 1")
}

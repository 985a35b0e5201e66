//! Two servers that both accept inserts into one table and replicate it to each other, each with a
//! shard of its own, as docs/run/two_primaries.md describes. Before PostgreSQL 16 they publish only
//! the rows of their own shard.

use instagram_id_live::*;
use postgres::{Client, NoTls};
use std::thread;
use std::time::Duration;

const PAGE: &str = include_str!("../../../docs/run/two_primaries.md");
const SAME_EMAIL: &str = "INSERT INTO users (email, name) VALUES ('same@example.net', 'Eve')";

struct Pair {
    a: Server,
    b: Server,
}

impl Pair {
    fn start() -> Pair {
        let start = || {
            let server = Server::start(&LOGICAL);
            run(&mut server.connect(), "CREATE DATABASE app");
            server
        };
        Pair { a: start(), b: start() }
    }

    /// The same, with the statements of the page up to this heading.
    fn set_up_to(heading: &str) -> Pair {
        let pair = Pair::start();
        let page = pair.page();
        let (before, _) = page.split_once(&format!("\n## {heading}\n")).expect("a heading");
        before.split("\n## ").for_each(|section| pair.run(section));
        pair
    }

    /// The page for these servers and this major.
    fn page(&self) -> String {
        let folder = |server: &Server| server.path().display().to_string();
        let page = PAGE.replace("dbname=app'", "user=postgres dbname=app'");
        let page = page
            .replace("a.example.net", &folder(&self.a))
            .replace("b.example.net", &folder(&self.b));
        if major() >= 16 {
            return page;
        }
        let variant =
            blocks(PAGE.split_once("\n## PostgreSQL 15\n").expect("a variant").1, "text")[0];
        let [of_a, of_b] = ["  -- on a", "  -- on b"]
            .map(|place| variant.lines().find_map(|line| line.strip_suffix(place)));
        let publication = "CREATE PUBLICATION here FOR TABLE users;\n```\n";
        assert!(page.contains(publication));
        let own = format!(
            "```\n\n```sql\n-- on a\n{}\n```\n\n```sql\n-- on b\n{}\n```\n",
            of_a.expect("the filter of a"),
            of_b.expect("the filter of b")
        );
        page.replace(publication, &own).replace("origin = none, ", "")
    }

    /// Runs a section of the page in new sessions, and waits until both servers have all rows.
    fn run(&self, section: &str) {
        let [a, b] = self.clients();
        run_page(section, 0, &mut [("a", a), ("b", b)]);
        self.catch_up();
    }

    fn clients(&self) -> [Client; 2] {
        [&self.a, &self.b].map(app)
    }

    /// Waits until each server has received what the other has committed.
    fn catch_up(&self) {
        for (publisher, subscriber) in [(&self.a, &self.b), (&self.b, &self.a)] {
            let subscriptions = "SELECT count(*) FROM pg_subscription WHERE subenabled";
            if one::<i64>(&mut app(subscriber), subscriptions) == 0 {
                continue;
            }
            let ready =
                "SELECT count(*) > 0 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel";
            subscriber.wait_for(ready, || one(&mut app(subscriber), ready));
            let end: String = one(&mut app(publisher), "SELECT pg_current_wal_insert_lsn()::text");
            publisher.wait_until(&format!(
                "SELECT count(*) > 0 AND bool_and(confirmed_flush_lsn >= '{end}') FROM pg_replication_slots"
            ));
        }
    }

    /// Runs two statements, each on its server, before the servers have received the change of the
    /// other.
    fn at_once(&self, on_a: &str, on_b: &str) {
        let [mut a, mut b] = self.clients();
        self.enable(false);
        run(&mut a, on_a);
        run(&mut b, on_b);
        self.enable(true);
    }

    fn enable(&self, enable: bool) {
        let word = if enable { "ENABLE" } else { "DISABLE" };
        for (server, subscription) in [(&self.a, "from_b"), (&self.b, "from_a")] {
            run(&mut app(server), &format!("ALTER SUBSCRIPTION {subscription} {word}"));
            let workers = "SELECT count(*) FROM pg_stat_subscription WHERE pid IS NOT NULL";
            server.wait_for(word, || (one::<i64>(&mut app(server), workers) > 0) == enable);
        }
    }

    /// The result of a query on both servers.
    fn both(&self, query: &str) -> [Vec<String>; 2] {
        self.clients().map(|mut client| rows(&mut client, query))
    }

    #[track_caller]
    fn assert_equal(&self, query: &str) -> Vec<String> {
        let [a, b] = self.both(query);
        assert_eq!(a, b);
        a
    }
}

fn app(server: &Server) -> Client {
    server.connect_to("app")
}

/// Runs the page, and then inserts on both servers at once.
#[test]
#[expect(clippy::too_many_lines, reason = "the examples of a page, in their order")]
fn two_primaries_page_examples_run() {
    let pair = Pair::set_up_to("PostgreSQL 15");
    let [mut a, mut b] = pair.clients();
    // Each server can only generate ids of its own shard, whatever the setting.
    for (client, other) in [(&mut a, 2), (&mut b, 1)] {
        for statement in [
            format!("SELECT next_id({other})"),
            format!("SET instagram_id.shard = {other}; SELECT next_id()"),
        ] {
            let (code, message, _) = error_of(client, &statement);
            assert_eq!(
                (code.as_str(), message.lines().next()),
                ("42P01", Some(&*format!("shard {other} does not exist")))
            );
        }
    }
    // The trigger of the page.
    let [mut a, mut b] = pair.clients();
    for (client, own) in [(&mut a, 1), (&mut b, 2)] {
        for statement in [
            format!("UPDATE users SET name = 'x' WHERE id_shard(id) <> {own}"),
            format!("UPDATE users SET id = id + 1024 WHERE id_shard(id) = {own}"),
            format!("DELETE FROM users WHERE id_shard(id) <> {own}"),
            format!("INSERT INTO users VALUES (make_id(now(), {}, 0))", 3 - own),
        ] {
            let (code, message, _) = error_of(client, &statement);
            assert_eq!(code, "P0001", "{statement}");
            assert!(message.contains("belongs to the other server"), "{statement}: {message}");
        }
    }

    let insert = || {
        [
            query("INSERT INTO users (name) VALUES ('one') RETURNING id"),
            query(
                "INSERT INTO users (name) SELECT 'many' FROM generate_series(1, 50) RETURNING id",
            ),
        ]
    };
    let a_while = || thread::sleep(Duration::from_millis(length(500, 20_000)));
    let write = |server: &Server| {
        under_load(|| server.config("app").connect(NoTls), 2, &insert(), a_while).0
    };
    let (of_a, of_b) = thread::scope(|scope| {
        let of_b = scope.spawn(|| write(&pair.b));
        (write(&pair.a), of_b.join().unwrap())
    });
    pair.catch_up();
    let mut received: Vec<i64> =
        of_a.iter().chain(&of_b).flat_map(|session| &session.ids).copied().collect();
    received.sort_unstable();
    let ids = "SELECT id FROM users WHERE name IN ('one', 'many') ORDER BY id";
    assert_eq!(column(&mut a, ids), received, "a has the rows of all clients");
    assert_eq!(column(&mut b, ids), received, "b has the rows of all clients");
    assert_eq!(pair.assert_equal("SELECT DISTINCT id_shard(id) FROM users ORDER BY 1"), ["1", "2"]);
    for (shard, sessions) in [(1, of_a), (2, of_b)] {
        let mut journal = Journal::new(format!("two primaries, shard {shard}"), Clock::IN_STEP);
        journal.shard = shard;
        journal.add(sessions);
        journal.check();
    }

    // A server that comes back after a crash sends its rows and receives the others.
    drop((a, b));
    pair.enable(false);
    for (server, name) in [(&pair.a, "late on a"), (&pair.b, "late on b")] {
        run(&mut app(server), &format!("INSERT INTO users (name) VALUES ('{name}')"));
    }
    pair.a.crash();
    pair.a.launch();
    pair.enable(true);
    pair.catch_up();
    let late = pair
        .assert_equal("SELECT name, id_shard(id) FROM users WHERE name LIKE 'late%' ORDER BY name");
    assert_eq!(late, ["late on a | 1", "late on b | 2"]);
    let errors = "SELECT sum(apply_error_count)::bigint FROM pg_stat_subscription_stats";
    assert_eq!(pair.assert_equal(errors), ["0"]);
}

/// PostgreSQL 15 has no `origin = none`, so its page publishes only the rows of each server's own
/// shard.
mod until_15 {
    use super::*;

    #[test]
    fn change_of_a_row_of_the_other_shard_is_not_sent() {
        assert!(major() <= 15, "later majors send such changes");
        let pair = Pair::set_up_to("One server for each shard");
        let name = "SELECT name FROM users WHERE email = 'ada@example.net'";
        run(&mut app(&pair.b), "UPDATE users SET name = 'of b' WHERE email = 'ada@example.net'");
        pair.catch_up();
        assert_eq!(pair.both(name), [["Ada"], ["of b"]]);
    }
}

mod since_16 {
    use super::*;

    /// Each row of the page's table of conflicts, without the trigger that prevents some of them.
    #[test]
    fn conflicts_end_as_the_page_says() {
        needs_major(16);
        let pair = Pair::set_up_to("One server for each shard");
        let name = "SELECT name FROM users WHERE email = 'ada@example.net'";
        pair.at_once(
            "UPDATE users SET name = 'of a' WHERE email = 'ada@example.net'",
            "UPDATE users SET name = 'of b' WHERE email = 'ada@example.net'",
        );
        pair.catch_up();
        assert_eq!(pair.both(name), [["of b"], ["of a"]], "each has the value of the other");

        pair.at_once(
            "UPDATE users SET name = 'of a' WHERE email = 'ada@example.net'",
            "DELETE FROM users WHERE email = 'ada@example.net'",
        );
        pair.catch_up();
        assert!(pair.assert_equal(name).is_empty(), "the row is deleted, and the update is lost");

        let delete = "DELETE FROM users WHERE email = 'bob@example.net'";
        pair.at_once(delete, delete);
        pair.catch_up();
        assert!(pair.assert_equal("SELECT name FROM users").is_empty());

        pair.at_once(
            "INSERT INTO users (name) VALUES ('two inserts')",
            "INSERT INTO users (name) VALUES ('two inserts')",
        );
        pair.catch_up();
        assert_eq!(pair.assert_equal("SELECT count(DISTINCT id) FROM users"), ["2"]);

        // A reference to a row that is deleted on the other server.
        let photos =
            "CREATE TABLE photos (id bigint PRIMARY KEY DEFAULT next_id(), user_id bigint REFERENCES users);
        ALTER PUBLICATION here ADD TABLE photos";
        pair.clients().iter_mut().for_each(|client| run(client, photos));
        for (mut client, subscription) in pair.clients().into_iter().zip(["from_b", "from_a"]) {
            let refresh = format!(
                "ALTER SUBSCRIPTION {subscription} REFRESH PUBLICATION WITH (copy_data = false)"
            );
            run(&mut client, &refresh);
        }
        pair.catch_up();
        pair.at_once(
            "INSERT INTO photos (user_id) SELECT min(id) FROM users",
            "DELETE FROM users WHERE id = (SELECT min(id) FROM users)",
        );
        pair.catch_up();
        let orphans = "SELECT count(*) FROM photos WHERE user_id NOT IN (SELECT id FROM users)";
        assert_eq!(pair.assert_equal(orphans), ["1"]);
        let errors = "SELECT sum(apply_error_count)::bigint FROM pg_stat_subscription_stats";
        assert_eq!(pair.assert_equal(errors), ["0"], "none of these is an error");
    }

    /// The conflict that stops both subscriptions, and the page's way to continue.
    #[test]
    fn subscriptions_continue_after_a_conflict() {
        needs_major(16);
        let pair = Pair::set_up_to("One server for each shard");
        let [mut a, mut b] = pair.clients();
        pair.enable(false);
        run(&mut a, SAME_EMAIL);
        run(&mut b, SAME_EMAIL);
        for (client, subscription) in [(&mut a, "from_b"), (&mut b, "from_a")] {
            run(client, &format!("ALTER SUBSCRIPTION {subscription} ENABLE"));
        }
        for server in [&pair.a, &pair.b] {
            server.wait_for("the end of the subscription", || {
                server.log().contains("has been disabled because of an error")
            });
            assert_eq!(
                one::<i64>(
                    &mut app(server),
                    "SELECT count(*) FROM pg_subscription WHERE subenabled"
                ),
                0
            );
        }
        let conflicts = PAGE.split_once("\n## Conflicts\n").expect("a section").1;
        let [on_b, on_a] = blocks(conflicts, "text")[..2] else { panic!("two blocks") };
        let log = pair.a.log();
        let position = log
            .rsplit_once("finished at ")
            .expect("a position")
            .1
            .split_whitespace()
            .next()
            .unwrap();
        for statement in on_b.lines() {
            run(&mut b, statement);
        }
        for statement in on_a.replace("0/17AD2B0", position).lines() {
            run(&mut a, statement);
        }
        run(&mut b, "INSERT INTO users (name) VALUES ('after')");
        pair.catch_up();
        let users = pair.assert_equal("SELECT name, id_shard(id) FROM users ORDER BY id");
        assert_eq!(users, ["Ada | 1", "Bob | 2", "Eve | 1", "after | 2"]);
    }
}

mod since_17 {
    use super::*;

    /// pg_createsubscriber changes the system identifier of a standby, so the shards of the primary
    /// are those of a copy.
    #[test]
    fn shards_are_copies_after_pg_createsubscriber() {
        needs_major(17);
        let settings = [("fsync", "off"), ("wal_level", "logical")];
        let primary = Server::start(&settings);
        setup_photos(&mut primary.connect());
        let standby = Server::start_standby_of(&primary);
        standby.stop();
        let [host, socket] = [&primary, &standby].map(|server| server.path().display().to_string());
        let publisher = format!("host={host} user=postgres dbname=postgres");
        let options =
            ["-D", "data", "-d", "postgres", "-U", "postgres", "-P", &publisher, "-s", &socket];
        standby.run("pg_createsubscriber", &options);
        standby.launch();
        let state = "SELECT can_generate, reason FROM id_shards";
        assert_eq!(rows(&mut primary.connect(), state), ["t | NULL"]);
        let mut copy = standby.connect();
        assert_eq!(rows(&mut copy, state), ["f | copied from another database"]);
        assert_eq!(one::<i32>(&mut copy, "SELECT id_shard(next_id(5))"), 5, "a warning only");
    }
}

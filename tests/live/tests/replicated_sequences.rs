//! PostgreSQL 19 replicates sequences: `CREATE PUBLICATION ... FOR ALL SEQUENCES`, and on the
//! subscriber `ALTER SUBSCRIPTION ... REFRESH SEQUENCES`, which sets each sequence to the
//! publisher's value as `setval` does.

use instagram_id_live::*;
use postgres::Client;

const STATE: &str = "SELECT last_value FROM insta5.table_id_seq";
const REFRESH: &str = "ALTER SUBSCRIPTION sequences REFRESH SEQUENCES";

/// Two servers with shard 5, each with its own table; the second subscribes to all sequences of the
/// first.
struct Pair {
    publisher: Server,
    subscriber: Server,
}

/// A server with these statements, which can publish and subscribe.
fn logical(setup: impl FnOnce(&mut Client)) -> Server {
    let server = Server::start(&LOGICAL);
    setup(&mut server.connect());
    server
}

/// The statement that subscribes to all sequences of a server.
fn subscribe_to(publisher: &Server) -> String {
    run(&mut publisher.connect(), "CREATE PUBLICATION sequences FOR ALL SEQUENCES");
    let host = publisher.path().display();
    format!(
        "CREATE SUBSCRIPTION sequences CONNECTION 'host={host} user=postgres dbname=postgres' PUBLICATION sequences"
    )
}

impl Pair {
    fn start() -> Pair {
        needs_major(19);
        let [publisher, subscriber] = [(); 2].map(|()| {
            logical(|client| {
                setup_photos(client);
                one::<i64>(client, "SELECT next_id(5)");
            })
        });
        let subscribe = subscribe_to(&publisher);
        run(&mut subscriber.connect(), &subscribe);
        let pair = Pair { publisher, subscriber };
        pair.wait_until_refreshed();
        pair
    }

    fn wait_until_refreshed(&self) {
        self.subscriber.wait_until(
            "SELECT count(*) > 0 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel
             WHERE srrelid = 'insta5.table_id_seq'::regclass",
        );
    }

    fn refresh(&self) {
        run(&mut self.subscriber.connect(), REFRESH);
        self.wait_until_refreshed();
    }
}

fn next_ids(client: &mut Client, count: i64) -> Vec<i64> {
    column(client, &format!("SELECT next_ids(5, {count})"))
}

mod since_19 {
    use super::*;

    /// Moving writers: they stop, the sequences are refreshed, and the subscriber continues above
    /// all ids of the publisher, even if these were ahead of the clock.
    #[test]
    fn ids_increase_when_writers_move_after_a_refresh() {
        let pair = Pair::start();
        let (mut publisher, mut subscriber) = (pair.publisher.connect(), pair.subscriber.connect());
        for is_ahead in [false, true] {
            if is_ahead {
                set_an_hour_ahead(&mut publisher, "insta5.table_id_seq");
            }
            let last = *next_ids(&mut publisher, 5000).last().unwrap();
            pair.refresh();
            let ids = next_ids(&mut subscriber, 5000);
            assert!(ids[0] > last, "ahead: {is_ahead}: {} follows {last}", ids[0]);
        }
    }

    /// As the documentation warns, a refresh sets back the sequence of a subscriber that generates
    /// ids of the shard itself.
    #[test]
    fn refresh_sets_back_a_sequence_in_use() {
        let pair = Pair::start();
        let (mut publisher, mut subscriber) = (pair.publisher.connect(), pair.subscriber.connect());
        // An hour ahead, so that the clock cannot hide it.
        set_an_hour_ahead(&mut publisher, "insta5.table_id_seq");
        next_ids(&mut publisher, 10);
        pair.refresh();
        let before = next_ids(&mut subscriber, 1000);
        pair.refresh();
        assert_eq!(one::<i64>(&mut publisher, STATE), one::<i64>(&mut subscriber, STATE));
        let after = next_ids(&mut subscriber, 1000);
        assert_eq!(before, after, "the same ids once more");
        // Nothing else sets it back: neither replicated rows nor a restart of the worker.
        let last = *after.last().unwrap();
        run(&mut pair.subscriber.connect(), "ALTER SUBSCRIPTION sequences DISABLE");
        run(&mut pair.subscriber.connect(), "ALTER SUBSCRIPTION sequences ENABLE");
        run(&mut publisher, "INSERT INTO insta5.photos (batch) VALUES (1)");
        pair.subscriber
            .wait_until("SELECT count(*) > 0 FROM pg_stat_subscription WHERE pid IS NOT NULL");
        assert!(next_ids(&mut subscriber, 10)[0] > last);
        // `advance_shard` corrects it.
        pair.refresh();
        // Hides the warning that the sequence is ahead of the clock.
        run(&mut subscriber, "SET client_min_messages = error");
        subscriber.execute(&format!("SELECT advance_shard(5, {last})"), &[]).unwrap();
        assert!(next_ids(&mut subscriber, 10)[0] > last);
    }

    /// The safeguard in the documentation: PostgreSQL does not refresh a sequence whose START
    /// differs on the subscriber.
    #[test]
    fn different_start_prevents_a_refresh() {
        let pair = Pair::start();
        let (mut publisher, mut subscriber) = (pair.publisher.connect(), pair.subscriber.connect());
        run(&mut subscriber, "ALTER SEQUENCE insta5.table_id_seq START 2");
        set_an_hour_ahead(&mut subscriber, "insta5.table_id_seq");
        let before = next_ids(&mut subscriber, 1000);
        next_ids(&mut publisher, 10);
        run(&mut subscriber, REFRESH);
        pair.subscriber.wait_for("a refusal", || pair.subscriber.log().contains("mismatched"));
        let after = next_ids(&mut subscriber, 1000);
        assert!(after[0] > *before.last().unwrap());
        let problems = "SELECT count(*) FROM id_shards WHERE NOT can_generate";
        assert_eq!(
            one::<i64>(&mut subscriber, problems),
            0,
            "START is of no concern to the extension"
        );
    }

    /// Two primaries with a shard each: the subscriber has no sequence of the publisher's name, so
    /// none can be set back.
    #[test]
    fn sequences_of_another_shard_are_not_replicated() {
        needs_major(19);
        let with_shard = |shard: i32| {
            logical(|client| {
                run(
                    client,
                    &format!("CREATE EXTENSION instagram_id; SELECT create_shard({shard})"),
                );
                one::<i64>(client, &format!("SELECT next_id({shard})"));
            })
        };
        let [publisher, subscriber] = [1, 2].map(with_shard);
        let (code, message, _) = error_of(&mut subscriber.connect(), &subscribe_to(&publisher));
        assert_eq!(
            (code.as_str(), message.as_str()),
            ("3F000", "schema \"insta1\" does not exist")
        );
    }
}

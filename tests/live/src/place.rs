//! Two servers of docs/run/servers.md, with the map of the shards.
//!
//! A shard is moved by hand here: a trigger with the error of the real one closes it on one server,
//! its rows and its last id are copied to the other, and the map is changed.

use crate::{Server, one, run};
use postgres::Client;

const SETTINGS: [(&str, &str); 3] = [("fsync", "off"), ("timezone", "UTC"), ("autovacuum", "off")];

/// Two servers, with the map in a database on the first.
pub struct Place {
    pub a: Server,
    pub b: Server,
}

impl Place {
    /// With shard 5 on `a` and shard 6 on `b`.
    pub fn start() -> Place {
        let place = Place::with_a_map();
        for (name, server, shard) in [("a", &place.a, 5), ("b", &place.b, 6)] {
            run(&mut server.connect(), "CREATE EXTENSION instagram_id");
            create_photos(&mut server.connect(), shard);
            let conninfo = conninfo(server, "postgres");
            run(
                &mut place.map(),
                &format!(
                    "INSERT INTO shard_map.servers VALUES ('{name}', '{conninfo}');
                     INSERT INTO shard_map.shards (shard, server) VALUES ({shard}, '{name}')"
                ),
            );
        }
        place
    }

    pub fn with_a_map() -> Place {
        Place { a: server_with_a_map(), b: Server::start(&SETTINGS) }
    }

    pub fn map(&self) -> Client {
        self.a.connect_to("map")
    }

    /// Closes shard 5 on `a`.
    pub fn close(&self) {
        run(&mut self.a.connect(), "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                 BEGIN
                     RAISE SQLSTATE '25006' USING MESSAGE = 'shard 5 is moving or has moved to another server';
                 END $$;
                 CREATE TRIGGER closed BEFORE INSERT OR UPDATE OR DELETE ON insta5.photos EXECUTE FUNCTION refuse()");
    }

    /// Copies shard 5 with its rows and its last id to `b`.
    pub fn carry(&self) {
        let (mut a, mut b) = (self.a.connect(), self.b.connect());
        create_photos(&mut b, 5);
        for row in a.query("SELECT id, user_id, title FROM insta5.photos ORDER BY id", &[]).unwrap()
        {
            let (id, user, title): (i64, i64, &str) = (row.get(0), row.get(1), row.get(2));
            b.execute("INSERT INTO insta5.photos VALUES ($1, $2, $3)", &[&id, &user, &title])
                .unwrap();
        }
        let last: i64 = one(&mut a, "SELECT last_id FROM id_shards");
        one::<i64>(&mut b, &format!("SELECT advance_shard(5, {last})"));
    }

    /// Sets the placement of shard 5 in the map to `b`.
    pub fn switch(&self) {
        run(&mut self.map(), "UPDATE shard_map.shards SET server = 'b' WHERE shard = 5");
    }

    /// Terminates the connections to a database on `a`.
    pub fn disconnect(&self, database: &str) {
        let disconnect = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = '{database}' AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        );
        assert!(!self.a.connect().query(&disconnect, &[]).unwrap().is_empty());
    }
}

/// A server with the map in a database.
pub fn server_with_a_map() -> Server {
    let server = Server::start(&SETTINGS);
    run(&mut server.connect(), "CREATE DATABASE map");
    let made = server.shards_command(&["init"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    server
}

fn create_photos(client: &mut Client, shard: i32) {
    run(client, &format!(
            "SELECT create_shard({shard});
             CREATE TABLE insta{shard}.photos
                 (id bigint PRIMARY KEY DEFAULT insta{shard}.next_id(), user_id bigint NOT NULL, title text NOT NULL)"
        ));
}

/// The connection string of a database.
pub fn conninfo(server: &Server, database: &str) -> String {
    format!("host={} user=postgres dbname={database}", server.path().display())
}

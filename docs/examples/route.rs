//! Inserts photos into the shard of their user, and reads them back by their ids.
//!
//! `route MAP USER TITLE...`, where MAP is the map's database: `"host=a.example.net dbname=map"`.
//! Uses the crate `postgres`. For each photo it prints the id, the name of the server, the user and
//! the title.

use postgres::error::SqlState;
use postgres::types::ToSql;
use postgres::{Client, Error, NoTls, Transaction};
use std::collections::HashMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Number of logical shards; never changes.
const SHARDS: i64 = 2000;
/// Time after which the map is read again.
const FRESH: Duration = Duration::from_secs(2);
/// Time to wait for a shard that is being moved.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time between attempts.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Router {
    map_conninfo: String,
    /// Largest version read from the map.
    version: i64,
    server_of: HashMap<i32, String>,
    /// By server.
    conninfo_of: HashMap<String, String>,
    read_at: Option<Instant>,
    /// By conninfo.
    clients: HashMap<String, Client>,
}

impl Router {
    /// Generates the id first: then the insert can be retried, even if it was committed already.
    fn add_photo(&mut self, user: i64, title: &str) -> Result<i64, Error> {
        let shard = shard_of_user(user);
        let id: i64 =
            self.run(shard, |on, _| Ok(on.query_one("SELECT next_id($1)", &[&shard])?.get(0)))?;
        self.run(shard, |on, lost| insert(on, shard, &[&id, &user, &title], lost))?;
        Ok(id)
    }

    fn photo(&mut self, id: i64) -> Result<(i64, String), Error> {
        let shard = shard_of_id(id);
        let select = format!("SELECT user_id, title FROM insta{shard}.photos WHERE id = $1");
        let row = self.run(shard, |on, _| on.query_one(&select, &[&id]))?;
        Ok((row.get(0), row.get(1)))
    }

    /// Does the work in a transaction on the shard's server. If the shard has moved, retries on its
    /// new server. The work also gets whether a connection was lost: then an earlier attempt may
    /// have been committed.
    fn run<T>(
        &mut self,
        shard: i32,
        work: impl Fn(&mut Transaction, bool) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let deadline = Instant::now() + PATIENCE;
        let mut lost = false;
        loop {
            match self.try_once(shard, |on| work(on, lost)) {
                Err(error) if may_pass(&error) && Instant::now() < deadline => {
                    lost |= !is_read_only(&error);
                }
                result => return result,
            }
            self.read_at = None;
            sleep(PAUSE);
        }
    }

    fn try_once<T>(
        &mut self,
        shard: i32,
        work: impl Fn(&mut Transaction) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.read_at.is_none_or(|at| at.elapsed() > FRESH) {
            self.refresh()?;
        }
        let conninfo = self.conninfo_of[&self.server_of[&shard]].clone();
        let mut transaction = self.connect(&conninfo)?.transaction()?;
        let result = work(&mut transaction)?;
        transaction.commit()?;
        Ok(result)
    }

    fn refresh(&mut self) -> Result<(), Error> {
        if let Err(error) = self.read_map()
            && self.server_of.is_empty()
        {
            return Err(error);
        }
        // If the map is unavailable, the copy is valid until a shard moves.
        self.read_at = Some(Instant::now());
        Ok(())
    }

    /// Reads new versions from the map, and then all servers, so that the server of each shard is
    /// among them.
    fn read_map(&mut self) -> Result<(), Error> {
        let (conninfo, version) = (self.map_conninfo.clone(), self.version);
        let map = self.connect(&conninfo)?;
        let newer = "SELECT shard, server, version FROM shard_map.shards WHERE version > $1 ORDER BY version";
        let changes = map.query(newer, &[&version])?;
        let servers = map.query("SELECT server, conninfo FROM shard_map.servers", &[])?;
        self.conninfo_of = servers.iter().map(|row| (row.get(0), row.get(1))).collect();
        for row in changes {
            self.server_of.insert(row.get(0), row.get(1));
            self.version = row.get(2);
        }
        Ok(())
    }

    fn connect(&mut self, conninfo: &str) -> Result<&mut Client, Error> {
        if self.clients.get(conninfo).is_none_or(Client::is_closed) {
            self.clients.insert(conninfo.into(), Client::connect(conninfo, NoTls)?);
        }
        Ok(self.clients.get_mut(conninfo).expect("one that is there"))
    }
}

/// Inserts a row. Another row with its id is an error (23505), except the row of an earlier attempt.
fn insert(
    on: &mut Transaction,
    shard: i32,
    photo: &[&(dyn ToSql + Sync)],
    lost: bool,
) -> Result<(), Error> {
    let sql = format!("INSERT INTO insta{shard}.photos (id, user_id, title) VALUES ($1, $2, $3)");
    let repeated = format!("{sql} ON CONFLICT (id) DO NOTHING");
    let same =
        format!("SELECT FROM insta{shard}.photos WHERE id = $1 AND user_id = $2 AND title = $3");
    if !lost || on.execute(&repeated, photo)? == 0 && on.query_opt(&same, photo)?.is_none() {
        on.execute(&sql, photo)?;
    }
    Ok(())
}

/// Whether the shard is being moved or has moved, or the connection is lost: no answer from the
/// server, or it is stopping or starting.
fn may_pass(error: &Error) -> bool {
    is_read_only(error)
        || error.code().is_none_or(|code| ["57P01", "57P02", "57P03"].contains(&code.code()))
}

/// Whether the shard is being moved or has moved.
fn is_read_only(error: &Error) -> bool {
    error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
}

/// `shard_for(user, 2000)`
fn shard_of_user(user: i64) -> i32 {
    user.rem_euclid(SHARDS) as i32
}

/// `id_shard(id)`
fn shard_of_id(id: i64) -> i32 {
    (id >> 10 & 8191) as i32
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [map, user, titles @ ..] = &arguments[..] else { panic!("usage: route MAP USER TITLE...") };
    let user = user.parse().expect("a user is a number");
    let mut router = Router { map_conninfo: map.clone(), ..Router::default() };
    for title in titles {
        let id = router.add_photo(user, title)?;
        let (user, title) = router.photo(id)?;
        println!("{id} {} {user} {title}", router.server_of[&shard_of_id(id)]);
    }
    Ok(())
}

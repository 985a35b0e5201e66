//! The map: tables in one database that record the server of each shard, and the moves in progress.

use crate::error::{Context, Error, Result, fail, refuse};
use crate::libpq::{self, Connection, Rows};
use crate::server::{EARLIER, ServerEntry};
use crate::session;
use crate::trust::{self, NOTHING, Right};
use instagram_id_core::moving::MoveStage;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

const SCHEMA: &str = "shard_map";
const TABLES: &str = include_str!("sql/map.sql");

/// The moves, whose columns have the names of the fields of [`MoveStatus`]. A command works on one
/// if it has the lock of its shard, as [`Map::lock`] acquires it.
fn moves_query() -> String {
    format!(
        "SELECT shard, source, target, schema, started::timestamp(0)::text AS started,
    switched IS NOT NULL AS switched, finished IS NOT NULL AS finished,
    EXISTS (
        SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND classid = (hashtext('instagram_id_shards')::bigint & 4294967295)::oid AND objid = shard::oid) AS running,
    EXISTS (
        SELECT FROM jsonb_object_keys(coalesce(definition, '{{}}') || coalesce(copy_definition, '{{}}')) AS object
        WHERE starts_with(object, '{EARLIER}')) AS changed
    FROM shard_map.moves"
    )
}

/// The connection to the map.
pub struct Map {
    conninfo: String,
    connection: Connection,
    locked: Option<u16>,
    /// Whether the lock was lost, and not acquired again.
    is_lost: bool,
    /// The limit of [`Map::within`].
    limit: Option<Duration>,
}

/// The entry of a shard in the map.
#[derive(Debug, Deserialize)]
pub struct MapEntry {
    /// The server that clients use for the shard.
    pub server: String,
    /// A move in progress, or a finished move whose old copy still exists.
    pub moving: Option<MoveStatus>,
}

impl MapEntry {
    pub fn stage(&self) -> MoveStage {
        match &self.moving {
            None => MoveStage::None,
            Some(MoveStatus { finished: true, .. }) => MoveStage::Finished,
            Some(MoveStatus { switched: true, .. }) => MoveStage::Switched,
            Some(_) => MoveStage::Begun,
        }
    }
}

/// The server of a shard.
#[derive(Debug, Deserialize)]
pub struct Placement {
    pub shard: u16,
    pub server: String,
}

/// A server, and the number of its shards.
#[derive(Debug, Serialize, Deserialize)]
pub struct ServerShards {
    pub server: String,
    pub shards: i64,
    /// The roles there whose code may run with the rights of the command.
    pub trusted: Vec<String>,
    /// The highest version of its shards.
    pub version: Option<i64>,
}

/// A move, as `status` shows it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct MoveStatus {
    pub shard: u16,
    pub source: String,
    pub target: String,
    pub schema: String,
    pub started: String,
    pub switched: bool,
    pub finished: bool,
    /// Whether a command holds the lock of the shard.
    pub running: bool,
    /// Whether a command has noticed that the schema was changed, so that the move must be undone.
    pub changed: bool,
}

/// `--trust SERVER:ROLE`, for servers of the map.
#[derive(Debug, Default)]
pub struct Trust(Vec<(String, String)>);

impl Trust {
    /// Fails if an argument does not begin with the name of exactly one server.
    pub fn parse(map: &Map, arguments: &[String]) -> Result<Trust> {
        if arguments.is_empty() {
            return Ok(Trust::default());
        }
        let servers: Vec<String> = map.servers()?.into_iter().map(|server| server.server).collect();
        let mut trust = Vec::new();
        for argument in arguments {
            let split = |server: &String| {
                let role = argument.strip_prefix(server.as_str())?.strip_prefix(':')?;
                Some((server.clone(), role.to_owned()))
            };
            let mut found: Vec<_> = servers.iter().filter_map(split).collect();
            match (found.pop(), found.is_empty()) {
                (Some(one), true) => trust.push(one),
                (Some(_), false) => {
                    fail!("--trust {argument} is ambiguous: several servers have such a name")
                }
                (None, _) => {
                    fail!("--trust {argument} does not begin with a server of the map and a colon")
                }
            }
        }
        Ok(Trust(trust))
    }

    /// The entry of a server in the map, which also trusts the roles of the command line.
    pub fn on(&self, map: &Map, server: &str) -> Result<ServerEntry> {
        let mut entry = map.server(server)?;
        let roles = self.0.iter().filter(|(name, _)| name == server).map(|(_, role)| role.clone());
        entry.trusted.extend(roles);
        Ok(entry)
    }
}

impl Map {
    /// Connects to the map of this database, if the roles that can put code into it are trusted.
    pub fn connect(conninfo: &str) -> Result<Map> {
        let connection = open(conninfo, None)?;
        Ok(Map {
            conninfo: conninfo.to_owned(),
            connection,
            locked: None,
            is_lost: false,
            limit: None,
        })
    }

    /// Creates the map in this database.
    pub fn create(conninfo: &str) -> Result {
        let connection = reach(conninfo)?;
        match connection.run(TABLES) {
            // duplicate_schema
            Err(error) if error.sqlstate == "42P06" => {
                require_trust(&connection)?;
                let query = "SELECT nspowner::regrole FROM pg_namespace WHERE nspname = $1";
                let owner: String = connection.query(query, &[SCHEMA])?.one()?;
                fail!("this database has a map already, which belongs to role {owner}")
            }
            created => created.context(|| "the map cannot be created".into()).map(drop),
        }
    }

    /// Adds a server, or changes its connection string and the roles that are trusted there.
    pub fn add_server(&self, server: &str, conninfo: &str, trusted: &[String]) -> Result {
        libpq::parse_conninfo(conninfo).context(|| "the connection string is invalid".into())?;
        let statement = "INSERT INTO shard_map.servers
            SELECT $1, $2, ARRAY(SELECT DISTINCT * FROM jsonb_array_elements_text($3::jsonb) ORDER BY 1)
            ON CONFLICT (server) DO UPDATE SET conninfo = excluded.conninfo, trusted = excluded.trusted";
        let trusted = serde_json::to_string(trusted).expect("texts");
        // The connection string may contain a password, which must not be logged. Only a superuser
        // can set this.
        let _ = self.connection.run("SET log_parameter_max_length = 0");
        self.change(statement, &[server, conninfo, &trusted])
    }

    /// Records that these shards are on the server. Returns those that the map has placed on
    /// another one.
    pub fn place(&self, server: &str, shards: &[u16]) -> Result<Vec<Placement>> {
        self.server(server)?;
        let numbers: Vec<_> = shards.iter().map(u16::to_string).collect();
        let list = format!("{{{}}}", numbers.join(","));
        let moves = self.moves()?;
        if let Some(moving) = moves.iter().find(|moving| shards.contains(&moving.shard)) {
            let shard = moving.shard;
            if moving.finished {
                fail!(
                    "shard {shard} has an old copy, which nothing would drop later: run clean {shard} first"
                );
            }
            fail!("shard {shard} is being moved: finish or cancel the move first");
        }
        let mut earlier = self.placements()?;
        earlier.retain(|placed| shards.contains(&placed.shard) && placed.server != server);
        let statement = "INSERT INTO shard_map.shards SELECT DISTINCT unnest($2::int[]), $1, 0
            ON CONFLICT (shard) DO UPDATE SET server = excluded.server WHERE shards.server <> excluded.server";
        self.change(statement, &[server, &list])?;
        Ok(earlier)
    }

    /// Removes a server that has no shards.
    pub fn remove_server(&self, server: &str) -> Result {
        self.server(server)?;
        match self.connection.query("DELETE FROM shard_map.servers WHERE server = $1", &[server]) {
            // foreign_key_violation
            Err(error) if error.sqlstate == "23503" => {
                fail!(
                    "server {server} has shards in the map, or old copies of shards: move or clean them first"
                )
            }
            removed => in_map(removed, "the map cannot be changed").map(drop),
        }
    }

    /// Acquires the lock of a shard, so that only one command at a time works on it. The lock is
    /// held until the connection ends.
    pub fn lock(&mut self, shard: u16) -> Result {
        acquire(&self.connection, shard)?;
        self.locked = Some(shard);
        Ok(())
    }

    /// Fails if the connection to the map, which holds the lock, is lost: another command may have
    /// acquired the lock since. Call this before each change on a server.
    pub fn check_lock(&self) -> Result {
        const LOST: &str = "the connection to the map is lost; run the command again";
        if self.is_lost {
            fail!("{LOST}");
        }
        self.connection.run("SELECT 1").context(|| LOST.into()).map(drop)
    }

    /// Runs `f`, in which the connection is lost if the server has not answered within this time.
    /// The time begins anew for a new connection.
    pub fn within<T>(
        &mut self,
        limit: Duration,
        f: impl FnOnce(&mut Map) -> Result<T>,
    ) -> Result<T> {
        self.limit = Some(limit);
        self.connection.wait_until(Some(Instant::now() + limit));
        let result = f(self);
        self.limit = None;
        self.connection.wait_until(None);
        result
    }

    /// If the connection is lost, reconnects and acquires the lock again. Fails if another command
    /// holds it.
    pub fn reconnect(&mut self) -> Result {
        if self.check_lock().is_ok() {
            return Ok(());
        }
        self.is_lost = true;
        // Ends the earlier session, which can still hold the lock if the server was only slow.
        let until = self.limit.map(|limit| Instant::now() + limit);
        self.connection = open(&self.conninfo, until)?;
        if let Some(shard) = self.locked {
            acquire(&self.connection, shard)?;
        }
        self.is_lost = false;
        Ok(())
    }

    /// Whether this command may undo its changes: not if another command holds the lock. If the map
    /// cannot be reached, no other command can acquire the lock.
    pub fn may_undo(&mut self) -> bool {
        !matches!(self.reconnect(), Err(Error::Busy(_)))
    }

    /// The server of a shard, and its move.
    pub fn placement(&self, shard: u16) -> Result<MapEntry> {
        let query = format!(
            "SELECT server, to_jsonb(m) AS moving FROM shard_map.shards LEFT JOIN ({}) AS m USING (shard)
             WHERE shard = $1::int",
            moves_query()
        );
        match self.select(&query, &[&shard.to_string()])?.pop() {
            Some(entry) => Ok(entry),
            None => fail!(
                "shard {shard} is not in the map; to record its server: \
                 instagram_id_shards place SERVER {shard}"
            ),
        }
    }

    /// How to connect to a server, and whom to trust there.
    pub fn server(&self, name: &str) -> Result<ServerEntry> {
        let query = "SELECT conninfo, trusted FROM shard_map.servers WHERE server = $1";
        match self.select(query, &[name])?.pop() {
            Some(entry) => Ok(entry),
            None => fail!(
                "there is no server {name} in the map; \
                 to add it: instagram_id_shards server {name} CONNINFO"
            ),
        }
    }

    pub fn begin_move(&self, shard: u16, source: &str, target: &str, schema: &str) -> Result {
        let statement = "INSERT INTO shard_map.moves (shard, source, target, schema) VALUES ($1::int, $2, $3, $4)";
        self.change(statement, &[&shard.to_string(), source, target, schema])
    }

    /// Records a value in a column of shard_map.moves, where any later command finds it.
    pub fn record(&self, shard: u16, column: &'static str, value: &str) -> Result {
        let statement =
            format!("UPDATE shard_map.moves SET {column} = $2::jsonb WHERE shard = $1::int");
        self.change(&statement, &[&shard.to_string(), value])
    }

    /// Adds changes of the schema on this server to its definition, which so differs from then on.
    /// First ends the transaction of [`Map::begin_to_switch`].
    pub fn record_changes(&self, shard: u16, server: &str, changes: &[String]) -> Result {
        in_map(self.connection.run("ROLLBACK"), "the map cannot be changed")?;
        self.check_lock()?;
        let statement = "UPDATE shard_map.moves SET definition = definition || CASE server WHEN source THEN changes ELSE '{}' END,
                copy_definition = copy_definition || CASE server WHEN target THEN changes ELSE '{}' END
            FROM (SELECT $2::text, jsonb_object_agg(change, '') FROM jsonb_array_elements_text($3::jsonb) AS change) AS c (server, changes)
            WHERE shard = $1::int";
        let changes = serde_json::to_string(changes).expect("texts");
        self.change(statement, &[&shard.to_string(), server, &changes])
    }

    /// The value that [`Map::record`] has stored.
    pub fn recorded(&self, shard: u16, column: &'static str) -> Result<Option<String>> {
        let query = format!("SELECT {column} FROM shard_map.moves WHERE shard = $1::int");
        Ok(self.rows(&query, &[&shard.to_string()])?.column::<Option<String>>()?.pop().flatten())
    }

    /// The definitions of the sequences. Fails if there are none, because then this move has not
    /// closed the shard.
    pub fn sequences(&self, shard: u16) -> Result<String> {
        match self.recorded(shard, "sequences")? {
            Some(sequences) => Ok(sequences),
            None => fail!(
                "the map does not record the sequences of shard {shard}: this move has not closed it"
            ),
        }
    }

    /// The definitions of the schema on the source and on the target.
    pub fn definitions(&self, shard: u16) -> Result<[String; 2]> {
        let definition = self.recorded(shard, "definition")?;
        match (definition, self.recorded(shard, "copy_definition")?) {
            (Some(source), Some(target)) => Ok([source, target]),
            _ => fail!(
                "the map does not record the definition of shard {shard}: run cancel {shard}, and move the shard again"
            ),
        }
    }

    /// Records that the move is about to subscribe. If another move from the same server has done
    /// so, to another server with the same system identifier, only returns its shard; see
    /// sql/identity.sql. The locks make one of two moves see the other.
    pub fn begin_to_subscribe(&self, shard: u16) -> Result<Option<String>> {
        let record = "UPDATE shard_map.moves SET subscribed = now() WHERE shard = $1::int";
        let other = "SELECT other.shard::text FROM shard_map.moves AS m JOIN shard_map.moves AS other ON other.source = m.source AND other.target <> m.target
            WHERE m.shard = $1::int AND other.subscribed IS NOT NULL AND other.finished IS NULL
            AND split_part(other.copy_definition ->> 'identity of the schema', ' ', 1) = split_part(m.copy_definition ->> 'identity of the schema', ' ', 1)";
        let shard = shard.to_string();
        let run = |statements| in_map(self.connection.run(statements), "the map cannot be changed");
        run("BEGIN; SELECT FROM shard_map.moves ORDER BY shard FOR UPDATE")?;
        let recorded = self.change(record, &[&shard]).and_then(|()| self.rows(other, &[&shard]));
        let found = recorded.and_then(|rows| Ok(rows.column()?.pop()));
        let ended = run(if matches!(found, Ok(None)) { "COMMIT" } else { "ROLLBACK" });
        found.and_then(|found| ended.map(|_| found))
    }

    /// Begins the transaction of [`Map::switch`], and locks what that locks, except for rows: any
    /// role that can read a table can have a statement such as CREATE RULE wait for a lock on it or
    /// on an index, and others wait behind that. Fails if the shard is on a third server.
    pub fn begin_to_switch(&self, shard: u16, source: &str, target: &str) -> Result {
        let lock = "BEGIN; SET LOCAL lock_timeout = '10s';
            EXPLAIN UPDATE shard_map.last SET version = version; EXPLAIN UPDATE shard_map.shards SET server = server;
            EXPLAIN UPDATE shard_map.moves SET switched = switched; EXPLAIN SELECT FROM shard_map.servers;
            SET LOCAL lock_timeout = '1s'";
        in_map(self.connection.run(lock), "the map cannot be locked")?;
        let server = self.placement(shard)?.server;
        if ![source, target].contains(&server.as_str()) {
            fail!(
                "the map was changed since the move began, and places shard {shard} on {server}: {}",
                correct(shard, source)
            );
        }
        Ok(())
    }

    /// Makes the target the server of the shard, in the transaction that is open, if there is one.
    pub fn switch(&self, shard: u16, target: &str) -> Result {
        if !self.connection.is_in_transaction() {
            let begin = "BEGIN; SET LOCAL lock_timeout = '1s'";
            in_map(self.connection.run(begin), "the map cannot be changed")?;
        }
        let result = self.switch_without_commit(shard, target);
        let end = if result.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = in_map(self.connection.run(end), "the map cannot be changed");
        result.and_then(|()| ended.map(drop))
    }

    fn switch_without_commit(&self, shard: u16, target: &str) -> Result {
        let statement = "WITH placed AS (
                UPDATE shard_map.shards AS s SET server = target FROM shard_map.moves AS m
                WHERE s.shard = $1::int AND m.shard = s.shard AND target = $2 AND server = source RETURNING s.shard)
            UPDATE shard_map.moves AS m SET switched = clock_timestamp() FROM placed
            WHERE m.shard = placed.shard RETURNING m.shard";
        let parameters = [&*shard.to_string(), target];
        let rows =
            in_map(self.connection.query(statement, &parameters), "the map cannot be changed")?;
        // An earlier attempt may have changed the map, and its answer was lost.
        if rows.is_empty() {
            let MapEntry { server, moving } = self.placement(shard)?;
            if server != target {
                let source = moving.map_or_else(String::new, |moving| moving.source);
                fail!("the map was changed since the move began: {}", correct(shard, &source));
            }
        }
        Ok(())
    }

    pub fn finish_move(&self, shard: u16) -> Result {
        let statement =
            "UPDATE shard_map.moves SET finished = clock_timestamp() WHERE shard = $1::int";
        self.change(statement, &[&shard.to_string()])
    }

    pub fn forget_move(&self, shard: u16) -> Result {
        self.change("DELETE FROM shard_map.moves WHERE shard = $1::int", &[&shard.to_string()])
    }

    pub fn servers(&self) -> Result<Vec<ServerShards>> {
        let query = "SELECT s.server, count(shard) AS shards, max(version) AS version, trusted
            FROM shard_map.servers AS s LEFT JOIN shard_map.shards USING (server) GROUP BY s.server ORDER BY s.server";
        self.select(query, &[])
    }

    pub fn placements(&self) -> Result<Vec<Placement>> {
        self.select("SELECT shard, server FROM shard_map.shards ORDER BY shard", &[])
    }

    pub fn moves(&self) -> Result<Vec<MoveStatus>> {
        self.select(&(moves_query() + " ORDER BY shard"), &[])
    }

    fn rows(&self, query: &str, parameters: &[&str]) -> Result<Rows> {
        in_map(self.connection.query(query, parameters), "the map cannot be read")
    }

    fn select<T: DeserializeOwned>(&self, query: &str, parameters: &[&str]) -> Result<Vec<T>> {
        in_map(self.connection.select(query, parameters), "the map cannot be read")
    }

    fn change(&self, statement: &str, parameters: &[&str]) -> Result {
        in_map(self.connection.query(statement, parameters), "the map cannot be changed").map(drop)
    }
}

/// The shards that are on this server.
pub fn shards_of(placements: &[Placement], server: &str) -> Vec<u16> {
    placements.iter().filter(|placed| placed.server == server).map(|placed| placed.shard).collect()
}

fn in_map<T>(result: std::result::Result<T, libpq::Error>, problem: &str) -> Result<T> {
    match result {
        // undefined_table, invalid_schema_name
        Err(error) if ["42P01", "3F000"].contains(&error.sqlstate.as_str()) => Err(no_map()),
        result => result.context(|| problem.into()),
    }
}

/// How a map is corrected that another client has changed during a move.
fn correct(shard: u16, source: &str) -> String {
    let source = source.replace('\'', "''");
    format!("run on the map UPDATE shard_map.shards SET server = '{source}' WHERE shard = {shard}")
}

fn no_map() -> Error {
    Error::failed("this database has no map; to create one: instagram_id_shards init")
}

/// Connects, and fails unless the roles that can put code into the map are trusted. While they are,
/// no other role can replace the schema or an object in it.
fn open(conninfo: &str, until: Option<Instant>) -> Result<Connection> {
    let connection = reach(conninfo)?;
    connection.wait_until(until);
    require_trust(&connection)?;
    Ok(connection)
}

fn reach(conninfo: &str) -> Result<Connection> {
    session::open(conninfo, session::OBSERVER).context(|| "the map cannot be reached".into())
}

/// Fails if there is no map, or if a role can put code into it that is not trusted: the triggers,
/// rules and views of the tables run with the rights of this session, and can read its parameters.
fn require_trust(connection: &Connection) -> Result {
    let parameters = [SCHEMA, NOTHING, NOTHING, NOTHING, "off"];
    let found = trust::find(connection, parameters).context(|| "the map cannot be read".into())?;
    if !found.schema_exists {
        return Err(no_map());
    }
    let obstacle = |Right { role, what }: &Right| {
        format!(
            "role {role} is not trusted, but {what}: connect to the map as a role whose rights it has, \
             revoke this or change the owner, or create the map in another database"
        )
    };
    refuse("the map cannot be used".into(), found.untrusted.iter().map(obstacle).collect())
}

/// Acquires the lock of a shard for this connection.
fn acquire(connection: &Connection, shard: u16) -> Result {
    const TRIES: u32 = 5;
    let lock = "SELECT pg_try_advisory_lock(hashtext('instagram_id_shards'), $1::int)";
    for attempt in 1..=TRIES {
        let rows = connection
            .query(lock, &[&shard.to_string()])
            .context(|| "the map cannot be read".into())?;
        if rows.one()? {
            return Ok(());
        }
        // The server may not have noticed yet that the connection of an earlier command is lost.
        if attempt < TRIES {
            Connection::pause(Duration::from_millis(200));
        }
    }
    Err(Error::Busy(shard))
}

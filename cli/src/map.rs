//! The map: tables in one database that record the server of each shard, and the moves in progress.

use crate::error::{Context, Error, Result, fail};
use crate::libpq::{self, Connection, Rows};
use crate::session;
use instagram_id_core::moving::MoveStage;
use serde::Serialize;
use std::time::Duration;

const TABLES: &str = include_str!("sql/map.sql");

/// The locks of shards, as [`Map::lock`] acquires them; `objid` is the shard.
const LOCKS: &str = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid = (hashtext('instagram_id_shards')::bigint & 4294967295)::oid";

/// The connection to the map.
pub struct Map {
    conninfo: String,
    connection: Connection,
    locked: Option<u16>,
}

/// The entry of a shard in the map.
#[derive(Debug, Clone)]
pub struct MapEntry {
    /// The server that clients use for the shard.
    pub home: String,
    pub stage: MoveStage,
    pub moving: Option<Move>,
}

/// A move in progress, or a finished move whose old copy still exists.
#[derive(Debug, Clone)]
pub struct Move {
    pub source: String,
    pub target: String,
    pub schema: String,
}

/// A server, and the number of its shards.
#[derive(Debug, Serialize)]
pub struct ServerShards {
    pub server: String,
    pub shards: i64,
    /// The roles there whose code may run with the rights of the command.
    pub trusted: Vec<String>,
    /// The highest version of its shards.
    pub version: Option<i64>,
}

/// A move, as `status` shows it.
#[derive(Debug, Serialize)]
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
}

impl Map {
    pub fn connect(conninfo: &str) -> Result<Map> {
        let connection = open(conninfo)?;
        Ok(Map { conninfo: conninfo.to_owned(), connection, locked: None })
    }

    /// Creates the tables of the map.
    pub fn init(&self) -> Result {
        match self.connection.run(TABLES) {
            Err(error) if error.is_duplicate_schema() => fail!("this database has a map already"),
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
    /// another one, and which.
    pub fn place(&self, server: &str, shards: &[u16]) -> Result<Vec<(u16, String)>> {
        self.conninfo_of(server)?;
        let list =
            format!("{{{}}}", shards.iter().map(u16::to_string).collect::<Vec<_>>().join(","));
        let moving = "SELECT shard, finished IS NOT NULL FROM shard_map.moves WHERE shard = ANY ($1::int[]) ORDER BY shard LIMIT 1";
        let rows = self.rows(moving, &[&list])?;
        if !rows.is_empty() {
            let shard: u16 = rows.get(0, 0)?;
            if rows.get(0, 1)? {
                fail!(
                    "shard {shard} has an old copy, which nothing would drop later: run clean {shard} first"
                );
            }
            fail!("shard {shard} is being moved: finish or cancel the move first");
        }
        let earlier = "SELECT shard, server FROM shard_map.shards WHERE shard = ANY ($2::int[]) AND server <> $1 ORDER BY shard";
        let rows = self.rows(earlier, &[server, &list])?;
        let statement = "INSERT INTO shard_map.shards SELECT DISTINCT unnest($2::int[]), $1, 0
            ON CONFLICT (shard) DO UPDATE SET server = excluded.server WHERE shards.server <> excluded.server";
        self.change(statement, &[server, &list])?;
        (0..rows.len()).map(|row| Ok((rows.get(row, 0)?, rows.get(row, 1)?))).collect()
    }

    /// Removes a server that has no shards.
    pub fn remove_server(&self, server: &str) -> Result {
        self.conninfo_of(server)?;
        match self.connection.query("DELETE FROM shard_map.servers WHERE server = $1", &[server]) {
            Err(error) if error.is_foreign_key_violation() => {
                fail!(
                    "server {server} has shards in the map, or old copies of shards: move or clean them first"
                )
            }
            removed => removed.context(|| "the map cannot be changed".into()).map(drop),
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
        self.connection
            .run("SELECT 1")
            .context(|| "the connection to the map is lost; run the command again".into())?;
        Ok(())
    }

    /// If the connection is lost, reconnects and acquires the lock again. Fails if another command
    /// holds it.
    pub fn reconnect(&mut self) -> Result {
        if self.connection.run("SELECT 1").is_ok() {
            return Ok(());
        }
        let connection = open(&self.conninfo)?;
        if let Some(shard) = self.locked {
            acquire(&connection, shard)?;
        }
        // Only now: a connection of this command always holds the lock.
        self.connection = connection;
        Ok(())
    }

    /// Whether this command may undo its changes: not if another command holds the lock. If the map
    /// cannot be reached, no other command can acquire the lock.
    pub fn may_undo(&mut self) -> bool {
        !matches!(self.reconnect(), Err(Error::Busy(_)))
    }

    /// The server of a shard, and its move.
    pub fn placement(&self, shard: u16) -> Result<MapEntry> {
        let query =
            "SELECT s.server, m.source, m.target, m.schema, m.switched IS NOT NULL, m.finished IS NOT NULL
            FROM shard_map.shards AS s LEFT JOIN shard_map.moves AS m USING (shard) WHERE shard = $1::int";
        let rows = self.rows(query, &[&shard.to_string()])?;
        if rows.is_empty() {
            fail!(
                "shard {shard} is not in the map; to record its server: \
                 instagram_id_shards place SERVER {shard}"
            );
        }
        let moving = match rows.get(0, 1)? {
            Some(source) => Some(Move { source, target: rows.get(0, 2)?, schema: rows.get(0, 3)? }),
            None => None,
        };
        let stage = match (&moving, rows.get(0, 4)?, rows.get(0, 5)?) {
            (None, ..) => MoveStage::None,
            (Some(_), _, true) => MoveStage::Finished,
            (Some(_), true, false) => MoveStage::Switched,
            (Some(_), false, false) => MoveStage::Begun,
        };
        Ok(MapEntry { home: rows.get(0, 0)?, stage, moving })
    }

    /// The connection string of a server.
    pub fn conninfo_of(&self, server: &str) -> Result<String> {
        let rows =
            self.rows("SELECT conninfo FROM shard_map.servers WHERE server = $1", &[server])?;
        match rows.column()?.pop() {
            Some(conninfo) => Ok(conninfo),
            None => fail!(
                "there is no server {server} in the map; \
                 to add it: instagram_id_shards server {server} CONNINFO"
            ),
        }
    }

    /// The roles of a server whose code may run with the rights of the command.
    pub fn trusted_on(&self, server: &str) -> Result<Vec<String>> {
        let query = "SELECT unnest(trusted) FROM shard_map.servers WHERE server = $1";
        Ok(self.rows(query, &[server])?.column()?)
    }

    pub fn begin_move(&self, shard: u16, moving: &Move) -> Result {
        let statement = "INSERT INTO shard_map.moves (shard, source, target, schema) VALUES ($1::int, $2, $3, $4)";
        self.change(
            statement,
            &[&shard.to_string(), &moving.source, &moving.target, &moving.schema],
        )
    }

    /// Records the definitions of the sequences before they are closed, so that any command can
    /// restore them.
    pub fn record_sequences(&self, shard: u16, sequences: &str) -> Result {
        let statement = "UPDATE shard_map.moves SET sequences = $2::jsonb WHERE shard = $1::int";
        self.change(statement, &[&shard.to_string(), sequences])
    }

    /// The definitions that [`Map::record_sequences`] has stored. Fails if there are none, because
    /// then this move has not closed the shard.
    pub fn sequences(&self, shard: u16) -> Result<String> {
        let rows = self.rows(
            "SELECT sequences FROM shard_map.moves WHERE shard = $1::int",
            &[&shard.to_string()],
        )?;
        match rows.column::<Option<String>>()?.pop().flatten() {
            Some(sequences) => Ok(sequences),
            None => {
                fail!(
                    "the map does not record the sequences of shard {shard}: this move has not closed it"
                )
            }
        }
    }

    /// Records the definitions of the schema on the source and on the target, before the copy is
    /// committed there.
    pub fn record_definitions(&self, shard: u16, source: &str, target: &str) -> Result {
        let statement = "UPDATE shard_map.moves SET definition = $2::jsonb, copy_definition = $3::jsonb WHERE shard = $1::int";
        self.change(statement, &[&shard.to_string(), source, target])
    }

    /// The definitions that [`Map::record_definitions`] has stored.
    pub fn definitions(&self, shard: u16) -> Result<[String; 2]> {
        let query = "SELECT definition, copy_definition FROM shard_map.moves
            WHERE shard = $1::int AND definition IS NOT NULL AND copy_definition IS NOT NULL";
        let rows = self.rows(query, &[&shard.to_string()])?;
        if rows.is_empty() {
            fail!(
                "the map does not record the definition of shard {shard}: run cancel {shard}, and move the shard again"
            );
        }
        Ok([rows.get(0, 0)?, rows.get(0, 1)?])
    }

    /// Makes the target the server of the shard.
    pub fn switch(&self, shard: u16, target: &str) -> Result {
        let statement = "WITH switched AS (
                UPDATE shard_map.moves SET switched = clock_timestamp()
                WHERE shard = $1::int AND target = $2 AND switched IS NULL RETURNING source)
            UPDATE shard_map.shards AS s SET server = $2 FROM switched
            WHERE shard = $1::int AND server = source RETURNING shard";
        let rows = self
            .connection
            .query(statement, &[&shard.to_string(), target])
            .context(|| "the map cannot be changed".into())?;
        // An earlier attempt may have changed the map, and its answer was lost.
        if rows.is_empty() && self.placement(shard)?.home != target {
            fail!("the map was changed by others since the move began");
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
        let query = "SELECT s.server, count(shard), max(version), to_jsonb(trusted)
            FROM shard_map.servers AS s LEFT JOIN shard_map.shards USING (server) GROUP BY s.server ORDER BY s.server";
        let rows = self.rows(query, &[])?;
        let row = |row| {
            let trusted = serde_json::from_str(&rows.get::<String>(row, 3)?)
                .map_err(|error| Error::failed(format!("the map cannot be read: {error}")))?;
            Ok(ServerShards {
                server: rows.get(row, 0)?,
                shards: rows.get(row, 1)?,
                trusted,
                version: rows.get(row, 2)?,
            })
        };
        (0..rows.len()).map(row).collect()
    }

    /// The server of each shard.
    pub fn placements(&self) -> Result<Vec<(u16, String)>> {
        let rows = self.rows("SELECT shard, server FROM shard_map.shards ORDER BY shard", &[])?;
        (0..rows.len()).map(|row| Ok((rows.get(row, 0)?, rows.get(row, 1)?))).collect()
    }

    /// The shards whose old copy still exists after a finished move.
    pub fn moved_shards(&self) -> Result<Vec<u16>> {
        Ok(self
            .rows(
                "SELECT shard FROM shard_map.moves WHERE finished IS NOT NULL ORDER BY shard",
                &[],
            )?
            .column()?)
    }

    /// Whether a command works on the shard.
    pub fn is_locked(&self, shard: u16) -> Result<bool> {
        let query = format!("SELECT EXISTS ({LOCKS} AND objid = $1::int::oid)");
        Ok(self.rows(&query, &[&shard.to_string()])?.one()?)
    }

    pub fn moves(&self) -> Result<Vec<MoveStatus>> {
        let query = format!(
            "SELECT shard, source, target, schema, started::timestamp(0), switched IS NOT NULL, finished IS NOT NULL,
                EXISTS ({LOCKS} AND objid = shard::oid) FROM shard_map.moves ORDER BY shard"
        );
        let rows = self.rows(&query, &[])?;
        let row = |row| {
            Ok(MoveStatus {
                shard: rows.get(row, 0)?,
                source: rows.get(row, 1)?,
                target: rows.get(row, 2)?,
                schema: rows.get(row, 3)?,
                started: rows.get(row, 4)?,
                switched: rows.get(row, 5)?,
                finished: rows.get(row, 6)?,
                running: rows.get(row, 7)?,
            })
        };
        (0..rows.len()).map(row).collect()
    }

    fn rows(&self, query: &str, parameters: &[&str]) -> Result<Rows> {
        self.query(query, parameters, "the map cannot be read")
    }

    fn change(&self, statement: &str, parameters: &[&str]) -> Result {
        self.query(statement, parameters, "the map cannot be changed").map(drop)
    }

    fn query(&self, query: &str, parameters: &[&str], problem: &str) -> Result<Rows> {
        match self.connection.query(query, parameters) {
            Err(error) if error.is_undefined_table() => {
                fail!("this database has no map; to create one: instagram_id_shards init")
            }
            result => result.context(|| problem.into()),
        }
    }
}

fn open(conninfo: &str) -> Result<Connection> {
    session::open(conninfo, session::OBSERVER).context(|| "the map cannot be reached".into())
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

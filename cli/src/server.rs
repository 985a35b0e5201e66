//! Queries and small changes on a server that has a copy of a shard. All of them are safe against
//! objects that the owner of the shard's schema can create.

use crate::error::{Context, Error, Result, check_interrupt, fail};
use crate::libpq::{self, Connection, Rows};
use crate::session;
use instagram_id_core::moving::SchemaMark;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The name of the publication, the subscription and the slot of a move, and the application_name
/// of its sessions. Needs no quotes, as it consists of letters, digits and `_`.
fn replication_name(shard: u16) -> String {
    format!("instagram_id_move_{shard}")
}

/// Statements that lock the tables of the schema, and return the OIDs. `$mode` is the end of LOCK
/// TABLE; if it is empty, they lock the sequences. Blocks that read from relations by name come
/// after them.
macro_rules! lock_relations {
    ($mode:literal) => {
        concat!(
            "SELECT set_config('move.mode', '",
            $mode,
            "', true);",
            include_str!("sql/limit.sql"),
            include_str!("sql/lock_relations.sql")
        )
    };
}
pub(crate) use lock_relations;

/// A file of src/sql that changes the schema or depends on its mark, after the statements that lock
/// the schema and read the mark, and those that lock relations in a mode.
macro_rules! locked {
    ($file:literal $(, $mode:literal)?) => {
        concat!(
            include_str!("sql/limit.sql"),
            include_str!("sql/lock_schema.sql"),
            "SELECT set_config('move.mark', (",
            include_str!("sql/mark.sql"),
            "), true);",
            $($crate::server::lock_relations!($mode),)?
            include_str!("sql/limit.sql"),
            include_str!($file)
        )
    };
}
pub(crate) use locked;

/// Limits the statements, and the later ones of the transaction up to the next limit, to this time
/// all together. Other sessions may wait for locks that they hold, so this also limits how long
/// these wait.
pub fn within(time: Duration, statements: &str) -> String {
    let until = format!("(clock_timestamp() + interval '{} ms')::text", time.as_millis());
    let limit = include_str!("sql/limit.sql");
    format!("SELECT set_config('move.until', {until}, true); {limit} {statements}")
}

/// Acquires all locks for which closing the shard may have to wait.
pub const LOCK: &str = concat!(
    locked!("sql/lock.sql", "SHARE ROW EXCLUSIVE MODE"),
    include_str!("sql/limit.sql"),
    include_str!("sql/alter_sequences.sql"),
    include_str!("sql/limit.sql"),
    include_str!("sql/wait_for_creators.sql"),
    include_str!("sql/limit.sql"),
    include_str!("sql/lock_rows.sql")
);

/// Closes the shard, after [`LOCK`] in the same transaction.
pub const CLOSE: &str = concat!(lock_relations!(""), include_str!("sql/close.sql"));

/// Allows writes again.
pub const OPEN: &str = concat!(
    locked!("sql/lock_rows.sql", ""),
    include_str!("sql/limit.sql"),
    include_str!("sql/open.sql"),
    include_str!("sql/limit.sql"),
    include_str!("sql/alter_sequences.sql")
);

/// Drops the triggers of an open shard, one table at a time.
const DROP_TRIGGERS: &str = locked!("sql/drop_triggers.sql");

/// How often the command looks for sessions to end: each of hundreds of sequences can have one.
const ENDING_TICK: Duration = Duration::from_millis(10);

/// How long a statement waits for a lock before the command ends the sessions that hold it.
const PATIENCE: Duration = Duration::from_millis(500);

/// Whether a statement was ended by lock_timeout or statement_timeout, by an interrupt, or because
/// it and another session waited for each other.
pub fn is_timeout(sqlstate: &str) -> bool {
    ["55P03", "57014", "40P01"].contains(&sqlstate)
}

/// The internal error that another session has written the same row of the catalog, which
/// lock_rows.sql prevents only for a superuser.
const WRITTEN_TWICE: &str = "XX000";

/// Whether the statement can succeed if it is run again.
pub fn is_passing(sqlstate: &str) -> bool {
    is_timeout(sqlstate) || sqlstate == WRITTEN_TWICE
}

/// How names of changes begin that a command has noticed, in a recorded definition.
pub const EARLIER: &str = "an earlier change of ";

/// The entry of a server in the map.
#[derive(Debug, Deserialize)]
pub struct ServerEntry {
    pub conninfo: String,
    /// The roles there whose code may run with the rights of the command.
    pub trusted: Vec<String>,
}

pub struct Server {
    pub name: String,
    pub conninfo: String,
    /// The roles there that the administrator trusts.
    pub trusted: Vec<String>,
    pub shard: u16,
    /// The schema of the shard; empty until it is found.
    pub schema: String,
    /// The [`replication_name`].
    pub replication: String,
    connection: RefCell<Connection>,
    /// Whether the connection is not the first one.
    has_reconnected: Cell<bool>,
}

/// A session or a prepared transaction for which another session waits.
#[derive(Deserialize)]
struct Blocker {
    who: String,
    is_ended: bool,
}

impl Server {
    /// Connects for a move, with the application_name of its sessions.
    pub fn connect(name: &str, entry: ServerEntry, shard: u16, schema: &str) -> Result<Server> {
        let parameters = libpq::parse_conninfo(&entry.conninfo)
            .context(|| format!("the conninfo of {name} is not valid"))?;
        if parameters
            .iter()
            .any(|(keyword, _)| keyword == "options" || keyword == "application_name")
        {
            fail!(
                "the conninfo of {name} sets options or application_name: \
                 remove them, because the command sets them itself"
            );
        }
        let session = open(name, &entry.conninfo, shard, schema)?;
        Ok(Server::of(name, entry, shard, schema, session))
    }

    /// Connects for queries only, with an application_name for which no command waits. For queries
    /// about all shards, the schema is empty.
    pub fn observe(name: &str, entry: ServerEntry, shard: u16, schema: &str) -> Result<Server> {
        let session = observer(name, &entry.conninfo, schema)?;
        Ok(Server::of(name, entry, shard, schema, session))
    }

    fn of(
        name: &str,
        ServerEntry { conninfo, trusted }: ServerEntry,
        shard: u16,
        schema: &str,
        connection: Connection,
    ) -> Server {
        Server {
            name: name.to_owned(),
            conninfo,
            trusted,
            shard,
            schema: schema.to_owned(),
            replication: replication_name(shard),
            connection: RefCell::new(connection),
            has_reconnected: Cell::new(false),
        }
    }

    /// Fails if the definition of the schema differs from `recorded`, and names objects that
    /// differ.
    pub fn compare_definition(&self, session: &Connection, recorded: &str) -> Result {
        let now = definition(session).context(|| self.problem())?;
        let objects = changed_objects(recorded, &now)?;
        if objects.is_empty() {
            return Ok(());
        }
        Err(self.changed(objects))
    }

    /// Fails if a command has noticed a change of the schema since this definition was recorded.
    pub fn require_no_earlier_change(&self, recorded: &str) -> Result {
        let names = names_in(recorded)?.into_iter();
        let changes: Vec<String> = names.filter(|name| name.starts_with(EARLIER)).collect();
        if changes.is_empty() { Ok(()) } else { Err(self.changed(changes)) }
    }

    fn changed(&self, objects: Vec<String>) -> Error {
        let Server { schema, name, shard, .. } = self;
        let list = objects.join(", ");
        let message = format!(
            "schema {schema} on {name} has changed since the move began: {list}; run cancel {shard}, and move the shard again"
        );
        Error::Changed { message, server: name.clone(), objects }
    }

    /// The error for a schema that is not the recorded one.
    pub fn not_of_this_move(&self) -> Error {
        Error::failed(format!(
            "schema {} on {} is not the one of this move, so it is kept: rename it, or drop it if you do not need it, and run this again",
            self.schema, self.name
        ))
    }

    /// The error that says how the schema was renamed.
    pub fn renamed(&self, how: &str) -> Error {
        let Server { schema, name, .. } = self;
        let message = format!("schema {schema} on {name} {how}");
        Error::Changed { message, server: name.clone(), objects: vec![format!("schema {schema}")] }
    }

    /// Sets the schema, which is known only after the shard has been found.
    pub fn set_schema(&mut self, schema: &str) -> Result {
        self.schema = schema.to_owned();
        self.set("move.schema", schema)
    }

    /// Opens another session, for work that changes settings. Fails if the first session is lost:
    /// since then, another command may have found no session to wait for.
    pub fn another_session(&self) -> Result<Connection> {
        let session = open(&self.name, &self.conninfo, self.shard, &self.schema)?;
        self.run("SELECT 1", "the connection is lost")?;
        Ok(session)
    }

    /// A session that changes nothing, and for which no command waits.
    pub fn another_observer(&self) -> Result<Connection> {
        observer(&self.name, &self.conninfo, &self.schema)
    }

    /// Connects again if the connection is lost. Call [`Server::wait_for_leftovers`] after this.
    pub fn reconnect(&self) -> Result {
        if !self.connection().is_alive() || self.connection().run("SELECT 1").is_err() {
            *self.connection.borrow_mut() =
                open(&self.name, &self.conninfo, self.shard, &self.schema)?;
            self.has_reconnected.set(true);
        }
        Ok(())
    }

    /// Whether no other command can have done anything on this server since the session began: it
    /// waits for the session, whatever its role is, if that of this one is a superuser.
    pub fn keeps_others_away(&self) -> Result<bool> {
        let is_superuser = "SELECT current_setting('is_superuser')::boolean";
        Ok(!self.has_reconnected.get() && self.holds(is_superuser, &[])?)
    }

    /// The problem that a failed query is.
    pub fn problem(&self) -> String {
        format!("query on server {} failed", self.name)
    }

    pub fn connection(&self) -> Ref<'_, Connection> {
        self.connection.borrow()
    }

    /// The rows of a query.
    pub fn query(&self, query: &str, parameters: &[&str]) -> Result<Rows> {
        self.connection().query(query, parameters).context(|| self.problem())
    }

    /// The only row of a query, whose columns have the names of the fields.
    pub fn select_one<T: DeserializeOwned>(&self, query: &str, parameters: &[&str]) -> Result<T> {
        self.connection().select_one(query, parameters).context(|| self.problem())
    }

    /// Whether a condition is true on this server.
    pub fn holds(&self, query: &str, parameters: &[&str]) -> Result<bool> {
        Ok(self.query(query, parameters)?.one()?)
    }

    /// Runs statements without parameters. The statements in src/sql read the names from settings.
    pub fn run(&self, statements: &str, problem: &str) -> Result<Rows> {
        self.connection().run(statements).context(|| format!("{problem} on {}", self.name))
    }

    /// Changes a setting of this session, from which the blocks in src/sql read a value.
    pub fn set(&self, setting: &str, value: &str) -> Result {
        self.query("SELECT set_config($1, $2, false)", &[setting, value])?;
        Ok(())
    }

    /// Waits until the statements of an earlier command have ended. The server executes them even
    /// if that command was killed.
    pub fn wait_for_earlier_command(&self) -> Result {
        if !self.wait_for_leftovers(Duration::from_secs(60))? {
            fail!(
                "the last statement of an earlier instagram_id_shards command is still running on {}; \
                 see application_name {} in pg_stat_activity",
                self.name,
                self.replication
            );
        }
        Ok(())
    }

    /// The system identifier, and when the server started, with microseconds. A server that was
    /// made from a backup of another one has the same identifier, and servers can start together.
    pub fn started(&self) -> Result<String> {
        let query = "SELECT concat_ws(' ', system_identifier, pg_postmaster_start_time()) FROM pg_control_system()";
        Ok(self.query(query, &[])?.one()?)
    }

    /// Waits until a killed command's last statement has ended. Returns false if it is still
    /// running after this time. Ignores sessions of other roles, unless they are superusers: any
    /// role can set this application_name.
    pub fn wait_for_leftovers(&self, time: Duration) -> Result<bool> {
        let query = "SELECT EXISTS (SELECT FROM pg_stat_activity
            WHERE application_name = $1 AND backend_type = 'client backend' AND pid <> pg_backend_pid()
              AND (usename = current_user OR usesysid IN (SELECT oid FROM pg_roles WHERE rolsuper)))";
        let started = Instant::now();
        while self.holds(query, &[&self.replication])? {
            if started.elapsed() > time {
                return Ok(false);
            }
            check_interrupt()?;
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(true)
    }

    /// The size of the tables of the schema, in bytes. Does not wait for locks.
    pub fn bytes(&self) -> Result<i64> {
        let sizes = self.connection().run(include_str!("sql/sizes.sql"));
        let bytes: String = sizes.context(|| self.problem())?.one()?;
        bytes.parse().map_err(|_| Error::failed(format!("unexpected size: {bytes}")))
    }

    pub fn has_schema(&self) -> Result<bool> {
        self.holds("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", &[&self.schema])
    }

    /// Fails if the schema with this definition has another name now; by the fact of
    /// sql/identity.sql.
    pub fn require_name(&self, recorded: &str) -> Result {
        let query = "SELECT min(nspname) FROM pg_namespace AS n, pg_control_system()
             WHERE nspname <> $1 AND concat_ws(' ', system_identifier, n.oid) = nullif($2, '')::jsonb ->> 'identity of the schema'";
        let schema = &self.schema;
        match self.query(query, &[schema, recorded])?.one::<Option<String>>()? {
            None => Ok(()),
            Some(name) => Err(self.renamed(&format!(
                "is called {name} now: rename it to {schema}, and run this again"
            ))),
        }
    }

    /// Whether a fact of sql/identity.sql is the same as in this definition.
    pub fn has_same(&self, fact: &str, recorded: &str) -> Result<bool> {
        let query = concat!(
            "SELECT coalesce((",
            include_str!("sql/identity.sql"),
            ") -> $1 = $2::jsonb -> $1, false)"
        );
        self.holds(query, &[fact, recorded])
    }

    /// Whether the publication of this move exists. It must publish only the schema, and belong to
    /// a superuser: another role could have created a publication of that name for other tables.
    pub fn has_publication(&self) -> Result<bool> {
        self.holds(include_str!("sql/has_publication.sql"), &[&self.replication, &self.schema])
    }

    pub fn has_subscription(&self) -> Result<bool> {
        self.holds(include_str!("sql/has_subscription.sql"), &[&self.replication])
    }

    pub fn mark(&self) -> Result<SchemaMark> {
        let mark: String = self.query(include_str!("sql/mark.sql"), &[])?.one()?;
        Ok(match mark.as_str() {
            "closed" => SchemaMark::Closed,
            "opened" => SchemaMark::Opened,
            "foreign" => SchemaMark::Foreign,
            _ => SchemaMark::Unmarked,
        })
    }

    pub fn is_closed(&self) -> Result<bool> {
        Ok(self.mark()? == SchemaMark::Closed)
    }

    /// Allows writes again. `sequences` contains the definitions from before the shard was closed.
    /// Needs no lock on a table: the triggers remain, but the function that they call does nothing.
    /// Ends sessions that keep writes stopped by a lock on a sequence, which any role can take.
    /// Returns these.
    pub fn open_shard(&self, sequences: &str) -> Result<BTreeSet<String>> {
        self.set("move.sequences", sequences)?;
        // Writes stay stopped if this gives up, and a role could lock each sequence again and
        // again.
        let count = names_in(sequences).map_or(0, |names| names.len() as u32);
        let limit = Duration::from_secs(30) + count * Duration::from_millis(100);
        let began = Instant::now();
        loop {
            let open = within(limit.saturating_sub(began.elapsed()), OPEN);
            match self.run_against_blockers(&open, true, None, "writes cannot continue") {
                Err(error)
                    if [WRITTEN_TWICE, "40P01"].contains(&error.sqlstate())
                        && began.elapsed() < limit =>
                {
                    Connection::pause(Duration::from_millis(20));
                }
                result => return Ok(result?.1),
            }
        }
    }

    /// Runs statements that may have to wait for other sessions, which an error names. Ends these
    /// if `ends`, from another session: a session that waits is the next one to get the lock.
    /// Returns the rows, and those that it has ended. Without a `watcher`, connects when it is
    /// needed, which can take longer than the statements.
    pub fn run_against_blockers(
        &self,
        statements: &str,
        ends: bool,
        watcher: Option<&Connection>,
        problem: &str,
    ) -> Result<(Rows, BTreeSet<String>)> {
        self.run_in(&self.connection(), statements, ends, watcher, problem)
    }

    /// The same in another session.
    pub fn run_in(
        &self,
        session: &Connection,
        statements: &str,
        ends: bool,
        watcher: Option<&Connection>,
        problem: &str,
    ) -> Result<(Rows, BTreeSet<String>)> {
        let pids = format!("{{{}}}", session.pid());
        let mut connected = None;
        let (began, mut waits, mut ended) = (Instant::now(), String::new(), BTreeSet::new());
        // Returns false if it cannot look.
        let mut look = |held: &str| {
            let watcher = match (watcher, &mut connected) {
                (Some(watcher), _) => Ok(watcher),
                (None, Some(connected)) => Ok(&*connected),
                (None, connected) => {
                    self.another_observer().map(|session| &*connected.insert(session))
                }
            };
            match watcher.and_then(|watcher| self.blockers(watcher, &pids, held, ends)) {
                // The statement may have ended while this was looking.
                Ok(blockers) if blockers.is_empty() => {}
                Ok(blockers) => {
                    let names: Vec<_> = blockers.iter().map(|one| one.who.as_str()).collect();
                    waits = format!("It waits for {}.", names.join(", "));
                    let those = blockers.into_iter().filter(|one| one.is_ended);
                    ended.extend(those.map(|one| one.who));
                }
                Err(error) => {
                    waits = format!("It is not known for what it waits: {error}.");
                    return false;
                }
            }
            true
        };
        let mut is_watched = true;
        let tick = if ends { ENDING_TICK } else { libpq::TICK };
        let mut result = session.run_watched(statements, tick, &mut || {
            if is_watched && (!ends || began.elapsed() >= PATIENCE) {
                is_watched = look("0");
            }
        });
        // From wait_for_creators.sql and lock_relations.sql, for this function.
        const OID: &str = "Its OID is ";
        if let Err(error) = &mut result
            && let Some(detail) = error.detail.take_if(|detail| detail.starts_with(OID))
        {
            look(&detail[OID.len()..]);
        }
        let explained = result.map_err(|mut error| {
            if is_timeout(&error.sqlstate) && !waits.is_empty() {
                error.detail = Some(waits);
            }
            let ended: Vec<_> = ended.iter().map(String::as_str).collect();
            if !ended.is_empty() {
                let detail = error.detail.get_or_insert_default();
                *detail = format!(
                    "{detail} It has called pg_terminate_backend for {}.",
                    ended.join(", ")
                )
                .trim()
                .to_owned();
            }
            error
        });
        let rows = explained.context(|| format!("{problem} on {}", self.name))?;
        Ok((rows, ended))
    }

    /// Those for which these processes wait, and those with a lock on the relation or schema
    /// `held`; ends them if `ends`.
    fn blockers(
        &self,
        session: &Connection,
        pids: &str,
        held: &str,
        ends: bool,
    ) -> Result<Vec<Blocker>> {
        let parameters = [pids, held, if ends { "on" } else { "off" }];
        session.select(include_str!("sql/blockers.sql"), &parameters).context(|| self.problem())
    }

    /// Names those for which these processes wait.
    pub fn names_of_blockers(&self, pids: &str) -> Result<Vec<String>> {
        let blockers = self.blockers(&self.connection(), pids, "0", false)?;
        Ok(blockers.into_iter().map(|one| one.who).collect())
    }

    /// Drops the triggers of an open shard, one table at a time. This waits for sessions that read
    /// the table, and retries after half a second, so that other sessions do not wait for longer
    /// behind it.
    pub fn drop_triggers(&self) -> Result {
        let cannot = "the triggers of the move, which no longer have an effect, cannot be dropped";
        let watcher = self.another_observer()?;
        let time = Duration::from_millis(500);
        let mut failures = 0;
        loop {
            check_interrupt()?;
            let drop = within(time, DROP_TRIGGERS);
            match self.run_against_blockers(&drop, false, Some(&watcher), cannot) {
                Err(error) if is_passing(error.sqlstate()) && failures < 60 => {
                    failures += 1;
                    Connection::pause(time);
                }
                result => {
                    if result?.0.one()? {
                        return Ok(());
                    }
                    failures = 0;
                }
            }
        }
    }

    /// Runs `work` in a transaction of the session, which is rolled back if it fails.
    pub fn transaction<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let session = self.connection();
        let problem = || self.problem();
        session.run("BEGIN").context(problem)?;
        match work(&session) {
            Ok(result) => {
                session.run("COMMIT").context(problem)?;
                Ok(result)
            }
            Err(error) => {
                // Report the first error, not an error of the rollback.
                let _ = session.run("ROLLBACK");
                Err(error)
            }
        }
    }

    /// Drops the slot if it exists. An interrupted move can leave it behind. Fails if it is in use,
    /// as by a subscription of a server that the map no longer names.
    pub fn drop_slot(&self) -> Result {
        let drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1 AND database = current_database()";
        let problem = || format!("the replication slot on {} cannot be dropped", self.name);
        self.connection().query(drop, &[&self.replication]).context(problem)?;
        Ok(())
    }
}

fn connect(name: &str, conninfo: &str, application_name: &str) -> Result<Connection> {
    session::open(conninfo, application_name).context(|| format!("server {name} cannot be reached"))
}

/// A session for [`Server::observe`].
fn observer(name: &str, conninfo: &str, schema: &str) -> Result<Connection> {
    let connection = connect(name, conninfo, session::OBSERVER)?;
    connection
        .query("SELECT set_config('move.schema', $1, false)", &[schema])
        .context(|| format!("query on server {name} failed"))?;
    Ok(connection)
}

fn open(name: &str, conninfo: &str, shard: u16, schema: &str) -> Result<Connection> {
    let replication = replication_name(shard);
    let connection = connect(name, conninfo, &replication)?;
    let set = "SELECT set_config('move.schema', $1, false), set_config('move.shard', $2, false),
        set_config('move.name', $3, false), set_config('move.is_copy', 'off', false)";
    connection
        .query(set, &[schema, &shard.to_string(), &replication])
        .context(|| format!("query on server {name} failed"))?;
    // To plan this query takes longer than to run it, and writes are stopped when it is run for the
    // last time.
    let prepare = concat!(
        "PREPARE definition AS SELECT (",
        include_str!("sql/definition.sql"),
        ") || (",
        include_str!("sql/identity.sql"),
        ")"
    );
    connection.run(prepare).context(|| format!("query on server {name} failed"))?;
    Ok(connection)
}

/// The definition of the schema: a JSON object with a hash for each object of the schema, and the
/// facts of sql/identity.sql.
pub fn definition(session: &Connection) -> std::result::Result<String, libpq::Error> {
    Ok(session.run("EXECUTE definition")?.one::<Option<String>>()?.unwrap_or_else(|| "{}".into()))
}

/// The names of sequences in a JSON object with their states or definitions.
pub fn names_in(sequences: &str) -> Result<BTreeSet<String>> {
    serde_json::from_str::<BTreeMap<String, serde_json::Value>>(sequences)
        .map(|sequences| sequences.into_keys().collect())
        .map_err(|error| Error::failed(format!("unexpected sequences: {error}")))
}

/// The objects whose hashes or numbers of rows differ, at most three of them.
pub fn changed_objects(recorded: &str, now: &str) -> Result<Vec<String>> {
    let parse = |text: &str| {
        serde_json::from_str::<BTreeMap<String, String>>(text)
            .map_err(|error| Error::failed(format!("unexpected definition of a schema: {error}")))
    };
    let (recorded, now) = (parse(recorded)?, parse(now)?);
    let names: BTreeSet<&String> = recorded.keys().chain(now.keys()).collect();
    let changed = names.into_iter().filter(|name| recorded.get(*name) != now.get(*name));
    Ok(changed.take(3).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::changed_objects;

    #[test]
    fn objects_that_differ_are_named() {
        let recorded = r#"{"table a": "1", "table b": "2", "table c": "3"}"#;
        let now = r#"{"table a": "1", "table b": "4", "table d": "3"}"#;
        assert_eq!(changed_objects(recorded, now).unwrap(), ["table b", "table c", "table d"]);
        assert!(changed_objects(recorded, recorded).unwrap().is_empty());
        assert!(changed_objects(recorded, "x").is_err());
    }
}

//! A server with a copy of a shard: what the command asks it, and the small changes on it. All of them are safe against
//! what the owner of the shard's schema can have created there.

use crate::error::{Context, Result};
use crate::fail;
use crate::libpq::{self, Connection, Rows};
use crate::session;
use std::cell::{Ref, RefCell};
use std::time::{Duration, Instant};

/// What identifies a move on both servers.
#[derive(Debug, Clone)]
pub struct Names {
    pub shard: u16,
    /// The schema of the shard.
    pub schema: String,
}

impl Names {
    /// The name of the publication, the subscription, the slot, and the sessions. Consists of letters, digits and `_`.
    pub fn replication(&self) -> String {
        format!("instagram_id_move_{}", self.shard)
    }
}

/// What the function `shard_is_elsewhere()` of the schema says. The schema's owner can drop a superuser's function, and
/// cannot create one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// There is no such function.
    None,
    /// The shard rejects writes.
    Closed,
    /// It did, and accepts them again.
    Opened,
    /// Someone else has created a routine of that name.
    Foreign,
}

pub struct Server {
    pub name: String,
    pub conninfo: String,
    names: Names,
    connection: RefCell<Connection>,
}

impl Server {
    /// Connects for a move, under the name of its sessions.
    pub fn connect(name: &str, conninfo: &str, names: &Names) -> Result<Server> {
        let parameters =
            libpq::parse_conninfo(conninfo).context(|| format!("the conninfo of {name} is not valid"))?;
        if parameters.iter().any(|(keyword, _)| keyword == "options" || keyword == "application_name") {
            fail!(
                "the conninfo of {name} sets options or application_name, as the command does itself: leave them out"
            );
        }
        Ok(Server::of(name, conninfo, names, open(name, conninfo, names)?))
    }

    /// Connects to look only, under a name that no command waits for.
    pub fn observe(name: &str, conninfo: &str, names: &Names) -> Result<Server> {
        let session = session::open(conninfo, "instagram_id_shards")
            .context(|| format!("server {name} cannot be reached"))?;
        Ok(Server::of(name, conninfo, names, session))
    }

    fn of(name: &str, conninfo: &str, names: &Names, connection: Connection) -> Server {
        Server {
            name: name.to_owned(),
            conninfo: conninfo.to_owned(),
            names: names.clone(),
            connection: RefCell::new(connection),
        }
    }

    /// The schema is known only after the shard has been found.
    pub fn set_schema(&mut self, schema: &str) -> Result {
        self.names.schema = schema.to_owned();
        self.set("move.schema", schema)
    }

    pub fn schema(&self) -> &str {
        &self.names.schema
    }

    pub fn replication(&self) -> String {
        self.names.replication()
    }

    pub fn shard(&self) -> u16 {
        self.names.shard
    }

    /// A further session, for work that leaves settings behind.
    pub fn another_session(&self) -> Result<Connection> {
        open(&self.name, &self.conninfo, &self.names)
    }

    /// Connects again if the connection is lost.
    pub fn reconnect(&self) -> Result {
        if !self.connection().is_alive() || self.connection().run("SELECT 1").is_err() {
            *self.connection.borrow_mut() = self.another_session()?;
        }
        Ok(())
    }

    pub fn connection(&self) -> Ref<'_, Connection> {
        self.connection.borrow()
    }

    /// The rows of a query.
    pub fn query(&self, query: &str, parameters: &[&str]) -> Result<Rows> {
        self.connection().query(query, parameters).context(|| format!("server {} cannot be asked", self.name))
    }

    /// Whether a condition is true there.
    pub fn holds(&self, query: &str, parameters: &[&str]) -> Result<bool> {
        Ok(self.query(query, parameters)?.one())
    }

    /// Runs statements without parameters. Those of src/sql read the names from settings.
    pub fn run(&self, statements: &str, problem: &str) -> Result<Rows> {
        self.connection().run(statements).context(|| format!("{problem} on {}", self.name))
    }

    /// Passes a value to the blocks in src/sql, for this session.
    pub fn set(&self, setting: &str, value: &str) -> Result {
        self.query("SELECT set_config($1, $2, false)", &[setting, value])?;
        Ok(())
    }

    /// Waits for the end of what an earlier command has sent, which the server executes even if that command was killed.
    pub fn wait_for_earlier_command(&self) -> Result {
        if !self.wait_for_leftovers(Duration::from_secs(60))? {
            fail!(
                "the last statement of an earlier instagram_id_shards does not end on {}; pg_stat_activity shows it as {}",
                self.name,
                self.replication()
            );
        }
        Ok(())
    }

    /// What tells servers apart.
    pub fn system(&self) -> Result<String> {
        Ok(self.query("SELECT system_identifier::text FROM pg_control_system()", &[])?.one())
    }

    /// A server may still be at the last statement of a command that was killed. Waits for its end; returns false if
    /// there is none within the time. Sessions of other roles do not count: any role can call its session by that name.
    pub fn wait_for_leftovers(&self, time: Duration) -> Result<bool> {
        let query = "SELECT EXISTS (SELECT FROM pg_stat_activity
            WHERE application_name = $1 AND backend_type = 'client backend' AND pid <> pg_backend_pid()
              AND (usename = current_user OR usesysid IN (SELECT oid FROM pg_roles WHERE rolsuper)))";
        let started = Instant::now();
        while self.holds(query, &[&self.replication()])? {
            if started.elapsed() > time {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(true)
    }

    pub fn has_schema(&self) -> Result<bool> {
        self.holds("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", &[self.schema()])
    }

    /// Whether the publication of this move is there: of the schema alone, and a superuser's. Another role could have
    /// created one of that name, of other tables.
    pub fn has_publication(&self) -> Result<bool> {
        self.holds(include_str!("sql/has_publication.sql"), &[&self.replication(), self.schema()])
    }

    pub fn has_subscription(&self) -> Result<bool> {
        self.holds(include_str!("sql/has_subscription.sql"), &[&self.replication()])
    }

    pub fn mark(&self) -> Result<Mark> {
        let mark: String = self.query(include_str!("sql/mark.sql"), &[self.schema()])?.one();
        Ok(match mark.as_str() {
            "closed" => Mark::Closed,
            "opened" => Mark::Opened,
            "foreign" => Mark::Foreign,
            _ => Mark::None,
        })
    }

    pub fn is_closed(&self) -> Result<bool> {
        Ok(self.mark()? == Mark::Closed)
    }

    /// Whether only a superuser has a privilege on the schema, as on a copy that is not open yet.
    pub fn is_guarded(&self) -> Result<bool> {
        self.holds(include_str!("sql/copy_is_locked.sql"), &[self.schema()])
    }

    /// A hash of columns, defaults, indexes, constraints and triggers, to compare the copies of a shard.
    pub fn tables(&self) -> Result<Option<String>> {
        Ok(self.query(include_str!("sql/tables.sql"), &[self.schema()])?.one())
    }

    /// Lets writes continue; `sequences` are the definitions from before the shard was closed. Takes no lock on a table:
    /// the triggers stay, and do nothing.
    pub fn open_shard(&self, sequences: &str) -> Result {
        self.set("move.sequences", sequences)?;
        self.run(include_str!("sql/open.sql"), "writes cannot continue")?;
        Ok(())
    }

    /// Drops the triggers of an open shard. They do no harm until then, so this waits for whoever reads the tables, half a
    /// second at a time: nobody waits along for longer.
    pub fn drop_triggers(&self) -> Result {
        for attempt in 1..=60 {
            match self.connection().run(include_str!("sql/drop_triggers.sql")) {
                Ok(_) => return Ok(()),
                Err(error) if error.sqlstate == "55P03" && attempt < 60 => {
                    Connection::pause(Duration::from_millis(500))
                }
                Err(error) if error.sqlstate == "55P03" => break,
                error => {
                    return error
                        .map(drop)
                        .context(|| format!("the triggers of the move cannot be dropped on {}", self.name));
                }
            }
            crate::check_interrupt()?;
        }
        fail!(
            "the triggers of the move, which do nothing now, cannot be dropped on {}: someone keeps the tables locked",
            self.name
        );
    }

    /// Drops the schema if it is closed.
    pub fn drop_copy(&self) -> Result {
        self.run(include_str!("sql/drop_copy.sql"), "the copy cannot be dropped")?;
        Ok(())
    }

    /// Drops the slot of a subscription whose server ended while it was created.
    pub fn drop_slot(&self) -> Result {
        let drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1 AND NOT active";
        self.query(drop, &[&self.replication()])?;
        Ok(())
    }
}

fn open(name: &str, conninfo: &str, names: &Names) -> Result<Connection> {
    let connection = session::open(conninfo, &names.replication())
        .context(|| format!("server {name} cannot be reached"))?;
    let set = "SELECT set_config('move.schema', $1, false), set_config('move.shard', $2, false),
        set_config('move.name', $3, false), set_config('move.sequences', '', false)";
    connection
        .query(set, &[&names.schema, &names.shard.to_string(), &names.replication()])
        .context(|| format!("server {name} cannot be asked"))?;
    Ok(connection)
}

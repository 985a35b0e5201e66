//! Checks before a move. All obstacles are reported at once, before anything is changed.

use crate::error::{Context, Result, fail, refuse};
use crate::libpq::{self, Connection};
use crate::server::Server;
use crate::session;
use crate::trust;
use instagram_id_core::moving::SchemaMark;
use instagram_id_core::version;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The target's clock may be behind the source's clock by this many seconds. New ids carry future
/// timestamps until the clock catches up.
const CLOCK_TOLERANCE: f64 = 1.0;

/// Settings that the sessions of the replication need on the source and on the target, and what
/// other values do. The role and the database can set them; a subscription cannot.
const NEEDED_ON_SOURCE: [[&str; 3]; 6] = [
    ["role", "none", "would read rows as that role"],
    ["row_security", "off", "could leave out rows"],
    ["idle_in_transaction_session_timeout", "0", "could end the copy of a table"],
    ["lock_timeout", "0", "could end the copy of a table"],
    ["statement_timeout", "0", "could end the copy of a table"],
    ["transaction_timeout", "0", "could end the copy of a table"],
];
const NEEDED_ON_TARGET: [[&str; 3]; 5] = [
    ["role", "none", "would write rows as that role"],
    ["lock_timeout", "0", "could end the copy of a table"],
    ["transaction_timeout", "0", "could end the copy of a table"],
    ["array_nulls", "on", "would change arrays"],
    ["xmloption", "content", "could reject values"],
];

/// The result of one query about a server.
#[derive(Deserialize)]
pub struct Facts {
    /// The version of the extension, and its schema.
    version: Option<String>,
    schema: Option<String>,
    is_standby: bool,
    major: i32,
    encoding: String,
    wal_level: String,
    /// How many tables a subscription copies at a time.
    sync_workers: i64,
    /// Whether a subscription confirms changes only when the source asks.
    is_silent: bool,
    limits: Vec<Limit>,
    /// The role of the command.
    role: String,
    is_superuser: bool,
    /// Whether the role of the command has REPLICATION, sees the progress of replication, may
    /// subscribe, and may create objects in the database.
    may_replicate: bool,
    may_watch: bool,
    may_subscribe: bool,
    may_create: bool,
    /// Seconds since 1970.
    clock: f64,
}

/// A setting that limits the number of moves, and what it limits.
#[derive(Deserialize)]
struct Limit {
    kind: String,
    setting: String,
    value: i64,
    free: i64,
}

impl Facts {
    pub fn of(server: &Server) -> Result<Facts> {
        server.select_one(include_str!("sql/facts.sql"), &[])
    }

    /// Whether the shard can be looked for on this server.
    fn is_usable(&self) -> bool {
        self.version.is_some() && !self.is_standby
    }

    /// How many slots on the source, and origins on the target, a move to this server needs: one
    /// for the changes, and one for each table that is being copied. A copy that finds none fails.
    fn slots_of_move(&self) -> i64 {
        1 + self.sync_workers.max(1)
    }

    /// The limits that so many moves at a time from this server to `target` would exceed.
    pub fn lacks_for_moves_from(&self, name: &str, moves: i64, target: &Facts) -> Vec<String> {
        self.lacks(name, moves, |kind| if kind == "slots" { target.slots_of_move() } else { 0 })
    }

    /// The limits that so many moves at a time to this server would exceed. Each needs a worker for
    /// the changes, and one that copies tables.
    pub fn lacks_for_moves_to(&self, name: &str, moves: i64) -> Vec<String> {
        self.lacks(name, moves, |kind| match kind {
            "workers" => 2,
            "origins" => self.slots_of_move(),
            _ => 0,
        })
    }

    fn lacks(&self, name: &str, moves: i64, needs: impl Fn(&str) -> i64) -> Vec<String> {
        let lack = |Limit { kind, setting, value, free }: &Limit| {
            let needed = moves * needs(kind);
            let need = if moves == 1 { "a move needs" } else { "more moves at a time need" };
            (*free < needed).then(|| {
                format!(
                    "server {name} has {free} of {value} {setting} left, but {need} {needed}: increase {setting}"
                )
            })
        };
        self.limits.iter().filter_map(lack).collect()
    }
}

/// Checks whether the shard can be moved. `is_new` is false if the move has begun, so that its copy
/// may exist. For a new move, finds the schema of the shard, and sets it for both servers.
pub fn check(source: &mut Server, target: &mut Server, is_new: bool) -> Result {
    let (here, there) = (Facts::of(source)?, Facts::of(target)?);
    let mut obstacles = obstacles_on_source(source, &here, &there)?;
    obstacles.extend(obstacles_on_target(target, &there)?);
    obstacles.extend(differences(source, target, &here, &there));
    // The command uses no object of the extension before this is empty. The schema is not known
    // yet.
    let mut untrusted = Vec::new();
    if is_new {
        for server in [&*source, &*target] {
            untrusted.extend(trust::look(server, &server.connection())?.0);
        }
    }
    let mut owner = None;
    if is_new && here.is_usable() && untrusted.is_empty() {
        let (owner_on_source, in_schema) = find_schema(source, target)?;
        owner = owner_on_source;
        obstacles.extend(in_schema);
    }
    obstacles.extend(missing_rights(source, target, &here, &there)?);
    let money = wrong_settings(source, target, &mut obstacles)?;
    if source.schema.is_empty() {
        obstacles.extend(untrusted);
    } else {
        let role = if there.is_superuser { "" } else { &there.role };
        obstacles.extend(obstacles_in_schema(source, target, role, &money)?);
        if let Some(owner) = owner.filter(|_| there.is_usable()) {
            obstacles.extend(earlier_copies(target, &owner)?);
        }
    }
    obstacles.extend(unusable_pg_dump(&here));
    let (shard, from, to) = (source.shard, &source.name, &target.name);
    refuse(format!("shard {shard} cannot be moved from {from} to {to}"), obstacles)
}

/// The texts whose conditions hold.
fn texts<const N: usize>(obstacles: [(bool, String); N]) -> Vec<String> {
    obstacles.into_iter().filter(|(holds, _)| *holds).map(|(_, text)| text).collect()
}

fn obstacles_on_source(source: &Server, here: &Facts, there: &Facts) -> Result<Vec<String>> {
    let Facts { major, wal_level, .. } = here;
    let (from, name) = (&source.name, &source.replication);
    let mut obstacles = texts([
        (here.version.is_none(), format!("server {from} has no extension instagram_id")),
        (here.is_standby, format!("server {from} is a standby: record the primary in the map")),
        (
            *major < 15,
            format!("server {from} runs PostgreSQL {major}, but a move requires 15 or later"),
        ),
        (
            wal_level != "logical",
            format!(
                "server {from} has wal_level = {wal_level}: set it to logical in postgresql.conf and restart the server"
            ),
        ),
    ]);
    let query = "SELECT min(database) FROM pg_replication_slots WHERE slot_name = $1 AND database <> current_database()";
    if let Some(database) = source.query(query, &[name])?.one::<Option<String>>()? {
        obstacles.push(format!(
            "server {from} has the replication slot {name} as for a move from database {database}: finish or cancel that move, or drop the slot"
        ));
    }
    if wal_level == "logical" && !source.has_publication()? {
        let query = "SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = $1)";
        if source.holds(query, &[name])? {
            obstacles.push(format!(
                "server {from} has a publication {name} that is not part of this move: drop it"
            ));
        }
        obstacles.extend(here.lacks_for_moves_from(from, 1, there));
    }
    Ok(obstacles)
}

fn obstacles_on_target(target: &Server, there: &Facts) -> Result<Vec<String>> {
    let to = &target.name;
    let mut obstacles = texts([
        (
            there.version.is_none(),
            format!("server {to} has no extension instagram_id: run CREATE EXTENSION instagram_id"),
        ),
        (there.is_standby, format!("server {to} is a standby: record the primary in the map")),
        (
            there.is_silent,
            format!(
                "server {to} does not confirm changes, since wal_receiver_status_interval is 0: \
                 ALTER SYSTEM RESET wal_receiver_status_interval"
            ),
        ),
    ]);
    if !target.has_subscription()? {
        if there.sync_workers < 1 {
            obstacles.push(format!(
                "server {to} copies no tables, since max_sync_workers_per_subscription is 0: \
                 ALTER SYSTEM RESET max_sync_workers_per_subscription"
            ));
        }
        obstacles.extend(there.lacks_for_moves_to(to, 1));
    }
    Ok(obstacles)
}

/// Differences between the servers that no move bridges.
fn differences(source: &Server, target: &Server, here: &Facts, there: &Facts) -> Vec<String> {
    let (from, to) = (&source.name, &target.name);
    let behind = here.clock - there.clock;
    let mut obstacles = Vec::new();
    if let (Some(version), Some(needed)) = (&there.version, &here.version)
        && version::numbers(version) < version::numbers(needed)
    {
        obstacles.push(format!(
            "server {to} has instagram_id {version}, older than {needed} on {from}: run ALTER EXTENSION instagram_id UPDATE"
        ));
    }
    if let (Some(schema), Some(schema_here)) = (&there.schema, &here.schema)
        && schema != schema_here
    {
        obstacles.push(format!(
            "server {to} has instagram_id in schema {schema}, but {from} has it in {schema_here}: \
             use ALTER EXTENSION instagram_id SET SCHEMA"
        ));
    }
    obstacles.extend(texts([
        (
            there.major < here.major,
            format!(
                "server {to} runs PostgreSQL {}, older than {} on {from}",
                there.major, here.major
            ),
        ),
        (
            there.encoding != here.encoding,
            format!(
                "the database on {to} has the encoding {}, and that on {from} {}: \
                 use databases with the same encoding",
                there.encoding, here.encoding
            ),
        ),
        (
            behind > CLOCK_TOLERANCE,
            format!(
                "the clock of {to} is {behind:.1} s behind that of {from}: synchronize the clocks"
            ),
        ),
    ]));
    obstacles
}

/// Adds the settings of the replication that are wrong. Returns what to say if the schema has
/// columns of type money, or nothing.
fn wrong_settings(source: &Server, target: &Server, obstacles: &mut Vec<String>) -> Result<String> {
    let query = "SELECT format('server %s has %s = %s, which %s: ALTER ROLE %I IN DATABASE %I SET %2$s = %7$L',
        $1::text, setting, value, effect, session_user, current_database(), needed)
        FROM jsonb_array_elements($2::jsonb) AS j (one)
            CROSS JOIN LATERAL (SELECT one ->> 0, one ->> 1, one ->> 2) AS n (setting, needed, effect)
            CROSS JOIN current_setting(CASE setting WHEN 'role' THEN 'move.role' ELSE setting END, true) AS value
        WHERE value <> needed
            AND NOT (setting = 'row_security' AND (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = session_user))";
    let wrong = |server: &Server, session: &Connection, needed: &[[&str; 3]]| {
        let needed = serde_json::to_string(needed).expect("texts");
        let rows = session.query(query, &[&server.name, &needed]);
        rows.and_then(|rows| rows.column::<String>()).context(|| server.problem())
    };
    let open = |server: &Server| {
        let cannot = || format!("server {} cannot be reached", server.name);
        session::open_as_replication(&server.conninfo).context(cannot)
    };
    let (here, there) = (open(source)?, open(target)?);
    obstacles.extend(wrong(source, &here, &NEEDED_ON_SOURCE)?);
    obstacles.extend(wrong(target, &there, &NEEDED_ON_TARGET)?);
    let lc_monetary: String = here
        .query("SELECT current_setting('lc_monetary')", &[])
        .and_then(|rows| rows.one())
        .context(|| source.problem())?;
    let money = [["lc_monetary", &lc_monetary, "could change values of type money"]];
    Ok(wrong(target, &there, &money)?.concat())
}

/// Shards and schemas on the target that are in the way of a copy, which will belong to `owner`.
fn earlier_copies(target: &Server, owner: &str) -> Result<Vec<String>> {
    let mut obstacles = Vec::new();
    let (to, shard) = (&target.name, target.shard);
    for ShardRow { schema, definition, owner, .. } in shards(target, owner)? {
        let way_out = if schema == target.schema {
            format!(
                "if clients use it, correct the map: place {to} {shard}; \
                 if it is an old copy, drop its schema"
            )
        } else {
            "drop that function if no client uses the shard there".into()
        };
        obstacles.push(format!(
            "server {to} has a shard {shard} already, by {definition} of role {owner}: {way_out}"
        ));
    }
    if target.has_schema()? {
        obstacles.push(format!("server {to} has a schema {} already", target.schema));
    }
    Ok(obstacles)
}

/// Whether pg_dump is missing, or too old for the source.
fn unusable_pg_dump(here: &Facts) -> Option<String> {
    let output = match std::process::Command::new("pg_dump").arg("--version").output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => return Some(format!("pg_dump cannot be run on this machine: {error}")),
    };
    let major =
        output.split(|c: char| !c.is_ascii_digit()).find_map(|part| part.parse::<i32>().ok());
    let is_old = major.is_some_and(|major| major < here.major);
    is_old.then(|| {
        format!(
            "this machine has {}, older than the server: install that of {}",
            output.trim(),
            here.major
        )
    })
}

/// The rights that the roles of the command lack. Superusers lack none.
fn missing_rights(
    source: &Server,
    target: &Server,
    here: &Facts,
    there: &Facts,
) -> Result<Vec<String>> {
    let (from, to) = (&source.name, &target.name);
    let conninfo = libpq::parse_conninfo(&source.conninfo).unwrap_or_default();
    let has_password = conninfo.iter().any(|(keyword, _)| keyword == "password");
    let [source_role, target_role] =
        [from, to].map(|name| format!("the role that connects to {name}"));
    let mut missing = texts([
        (!here.may_create, format!("{source_role} lacks CREATE on the database: GRANT it")),
        (!there.may_create, format!("{target_role} lacks CREATE on the database: GRANT it")),
        (
            !here.may_replicate,
            format!("{source_role} is no superuser and lacks REPLICATION: ALTER ROLE"),
        ),
        (!here.may_watch, format!("{source_role} is no superuser: GRANT pg_monitor to it there")),
        (
            !there.may_subscribe && there.major < 16,
            format!(
                "{target_role} is no superuser, which a subscription takes before PostgreSQL 16"
            ),
        ),
        (
            !there.may_subscribe && there.major >= 16,
            format!("{target_role} is no superuser: GRANT pg_create_subscription to it there"),
        ),
        (
            !there.is_superuser && !has_password,
            format!(
                "the conninfo of {from} has no password, without which only a superuser can \
                 subscribe on {to}"
            ),
        ),
    ]);
    let exists = "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)";
    if !here.is_superuser && !target.holds(exists, &[&here.role])? {
        missing.push(format!(
            "server {to} has no role {0}, which gets USAGE on the schema on {from}: create it",
            here.role
        ));
    }
    if !source.schema.is_empty() {
        let query = include_str!("sql/owners_in_schema.sql");
        for owner in source.query(query, &[&source.schema])?.column::<String>()? {
            missing.extend(missing_right_of(&owner, source, here, false)?);
            missing.extend(missing_right_of(&owner, target, there, true)?);
        }
    }
    Ok(missing)
}

/// Says that the role of the command lacks the rights of this owner, or cannot become it, as the
/// dump does on the target, and the replication when it writes.
fn missing_right_of(
    owner: &str,
    server: &Server,
    facts: &Facts,
    is_target: bool,
) -> Result<Option<String>> {
    let has = |right| server.holds(include_str!("sql/has_rights_of.sql"), &[owner, right]);
    let lacks = if facts.is_superuser {
        return Ok(None);
    } else if !has("USAGE")? {
        "lacks the rights of"
    } else if is_target && !has("SET")? {
        "cannot SET ROLE"
    } else {
        return Ok(None);
    };
    // GRANT without them keeps those that the membership has.
    let options = match facts.major {
        ..16 => "",
        _ if is_target => " WITH INHERIT TRUE, SET TRUE",
        _ => " WITH INHERIT TRUE",
    };
    let name = &server.name;
    Ok(Some(format!(
        "the role that connects to {name} {lacks} {owner}, who owns objects of the shard: GRANT {owner} to it{options}"
    )))
}

/// Finds the schema of the shard on the source, and sets it for both servers. Returns the owner of
/// the shard there, if it has one definition, and obstacles in the schema.
fn find_schema(source: &mut Server, target: &mut Server) -> Result<(Option<String>, Vec<String>)> {
    let (shard, from) = (source.shard, source.name.clone());
    let found = shards(source, "")?;
    let without_one = |obstacle| Ok((None, vec![obstacle]));
    let ShardRow { schema, owner, has_sequence, reason, .. } = match &found[..] {
        [] => {
            return without_one(format!("server {from} has no shard {shard}, contrary to the map"));
        }
        [one] => one,
        several => return without_one(ambiguous(source, several)),
    };
    source.set_schema(schema)?;
    target.set_schema(schema)?;
    let mut obstacles = Vec::new();
    if !has_sequence {
        obstacles.push(format!(
            "the sequence of shard {shard} on {from} is not in schema {schema}: move it to that schema"
        ));
    }
    match source.mark()? {
        SchemaMark::Closed => {
            obstacles.push(format!(
                "schema {schema} on {from} is closed: the shard was moved from there"
            ));
        }
        SchemaMark::Foreign => obstacles.push(format!(
            "schema {schema} on {from} has a routine shard_is_elsewhere() \
             whose owner is not a superuser: drop it"
        )),
        // The cutover would fail: the copy would have the same fault.
        SchemaMark::Unmarked | SchemaMark::Opened if !reason.is_empty() => {
            obstacles.push(format!("shard {shard} cannot generate ids on {from}: {reason}"));
        }
        SchemaMark::Unmarked | SchemaMark::Opened => {}
    }
    Ok((Some(owner.clone()), obstacles))
}

/// Says that the extension cannot choose between these definitions.
fn ambiguous(server: &Server, definitions: &[ShardRow]) -> String {
    let names = definitions
        .iter()
        .take(3)
        .map(|ShardRow { definition, owner, .. }| format!("{definition} of role {owner}"));
    format!(
        "server {} has shard {} in several schemas: {}: drop the functions of those that no client uses",
        server.name,
        server.shard,
        names.collect::<Vec<_>>().join(", ")
    )
}

/// Fails if the extension could not choose the copy by the number of the shard: any role that can
/// create functions can define that number, too.
pub fn require_one_definition(target: &Server) -> Result {
    let found = shards(target, "")?;
    if found.len() > 1 {
        fail!("{}", ambiguous(target, &found));
    }
    Ok(())
}

/// A definition of the shard.
#[derive(Deserialize)]
struct ShardRow {
    schema: String,
    /// The function.
    definition: String,
    owner: String,
    /// Whether the sequence is in this schema.
    has_sequence: bool,
    /// Why no ids can be generated there; empty if they can.
    reason: String,
}

/// The definitions of the shard among which the extension would choose. `owner`: the role that will
/// own one more, or empty.
fn shards(server: &Server, owner: &str) -> Result<Vec<ShardRow>> {
    let parameters = [&server.shard.to_string(), owner];
    select_from_extension(server, include_str!("sql/shards.sql"), &parameters)
}

/// The rows of a query on views of the extension, whose schema replaces `{extension}`. They read
/// sequences and sizes of tables, which their owners can lock.
pub fn select_from_extension<T: DeserializeOwned>(
    server: &Server,
    query: &str,
    parameters: &[&str],
) -> Result<Vec<T>> {
    server.transaction(|session| {
        session.run("SET LOCAL lock_timeout = '5s'").context(|| server.problem())?;
        let extension = lock_extension(session).context(|| server.problem())?;
        let query = query.replace("{extension}", &extension);
        session.select(&query, parameters).context(|| server.problem())
    })
}

/// Returns the quoted name of the extension's schema. A superuser locks the schema against renaming
/// until the transaction ends, and does not wait for a GRANT, which any role can leave open. Look
/// for untrusted roles first: the owner of the schema could replace the objects of the extension.
pub fn lock_extension(connection: &Connection) -> std::result::Result<String, libpq::Error> {
    let is_superuser = connection.run("SELECT current_setting('is_superuser')::boolean")?.one()?;
    let lock = if is_superuser { "FOR KEY SHARE" } else { "" };
    let query = "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace AS n ON n.oid = extnamespace WHERE extname = 'instagram_id'";
    let schema = connection.run(&format!("{query} {lock}"))?.column()?.pop();
    schema.ok_or_else(|| libpq::Error::local("there is no extension instagram_id"))
}

/// `role`: the role of the command on the target, or empty if that is a superuser. `money`: an
/// obstacle for columns of type money, or empty.
fn obstacles_in_schema(
    source: &Server,
    target: &Server,
    role: &str,
    money: &str,
) -> Result<Vec<String>> {
    let query = trust::with_own(include_str!("sql/obstacles.sql"))
        .replace("{members}", include_str!("sql/members.sql"))
        .replace("{owners}", include_str!("sql/owners.sql"))
        .replace("{acls}", include_str!("sql/acls.sql"));
    let mut obstacles: Vec<String> =
        source.query(&query, &[&source.schema, role, money])?.column()?;
    let (untrusted, dumped) = trust::look(source, &source.connection())?;
    obstacles.extend(untrusted);
    let needed =
        trust::needed(&source.connection(), &source.schema).context(|| source.problem())?;
    let (missing, found) = trust::find_needed(target, &needed)?;
    obstacles.extend(missing);
    obstacles.extend(trust::look_with(target, &target.connection(), &found, &dumped)?.0);
    Ok(obstacles)
}

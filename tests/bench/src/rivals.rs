//! Other extensions that generate ids. They are measured if the server has them installed.

use crate::contestants::SEQUENCES;
use instagram_id_live::{pg_config_says, run};
use postgres::Client;
use std::path::Path;
use std::process::Command;

/// A generator of another extension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rival {
    PgEdge,
    PgSnowid,
    PgUuidv7,
    PgxUlid,
    PgxUlidMonotonic,
    /// By dcbickfo.
    PgUlid,
    /// By andrielfn; its extension is called `ulid`.
    PgDashUlid,
}

use Rival::*;

const ALL: [Rival; 7] = [PgEdge, PgSnowid, PgUuidv7, PgxUlid, PgxUlidMonotonic, PgUlid, PgDashUlid];

impl Rival {
    /// Those that the server has installed.
    pub fn installed() -> Vec<Rival> {
        ALL.into_iter().filter(|rival| rival.is_installed()).collect()
    }

    fn is_installed(self) -> bool {
        let control = format!("extension/{}.control", self.extension());
        Path::new(&pg_config_says("--sharedir")).join(control).exists()
    }

    pub fn name(self) -> &'static str {
        match self {
            PgEdge => "pgEdge snowflake",
            PgSnowid => "pg_snowid",
            PgUuidv7 => "pg_uuidv7",
            PgxUlid => "pgx_ulid",
            PgxUlidMonotonic => "pgx_ulid, monotonic",
            PgUlid => "pg_ulid",
            PgDashUlid => "pg-ulid",
        }
    }

    /// The repository on GitHub.
    fn repository(self) -> &'static str {
        match self {
            PgEdge => "pgEdge/snowflake",
            PgSnowid => "qeeqez/snowid-postgres",
            PgUuidv7 => "fboulnois/pg_uuidv7",
            PgxUlid | PgxUlidMonotonic => "pksunkara/pgx_ulid",
            PgUlid => "dcbickfo/pg_ulid",
            PgDashUlid => "andrielfn/pg-ulid",
        }
    }

    fn extension(self) -> &'static str {
        match self {
            PgEdge => "snowflake",
            PgSnowid => "pg_snowid",
            PgUuidv7 => "pg_uuidv7",
            PgxUlid | PgxUlidMonotonic => "pgx_ulid",
            PgUlid => "pg_ulid",
            PgDashUlid => "ulid",
        }
    }

    /// Where the extension is installed. Three of them have a type `ulid`. pgEdge's has a fixed
    /// schema.
    fn schema(self) -> &'static str {
        match self {
            PgEdge => "snowflake",
            PgSnowid => "snowid",
            PgUuidv7 => "uuidv7_of_fboulnois",
            PgxUlid | PgxUlidMonotonic => "ulid_of_pksunkara",
            PgUlid => "ulid_of_dcbickfo",
            PgDashUlid => "ulid_of_andrielfn",
        }
    }

    /// An expression that generates an id, from the sequence or for the table of this number.
    pub fn call(self, n: usize) -> String {
        let schema = self.schema();
        match self {
            PgEdge => format!("{schema}.nextval('of_pgedge.seq{n}')"),
            // Tables are numbered from 1.
            PgSnowid => format!("{schema}.snowid_generate({})", n + 1),
            PgUuidv7 => format!("{schema}.uuid_generate_v7()"),
            PgxUlid | PgDashUlid => format!("{schema}.gen_ulid()"),
            PgxUlidMonotonic => format!("{schema}.gen_monotonic_ulid()"),
            PgUlid => format!("{schema}.gen_random_ulid()"),
        }
    }

    /// The same in a form that a client can receive. The binary form of the type of pgx_ulid has
    /// the byte order of the server.
    pub fn received(self, n: usize) -> String {
        let call = self.call(n);
        if self.extension() == "pgx_ulid" { format!("{call}::uuid") } else { call }
    }

    /// The type of its ids.
    pub fn type_name(self) -> String {
        match self {
            PgEdge | PgSnowid => "bigint".into(),
            PgUuidv7 => "uuid".into(),
            PgxUlid | PgxUlidMonotonic | PgUlid | PgDashUlid => format!("{}.ulid", self.schema()),
        }
    }

    /// Whether its ids are only unique within a sequence or table.
    pub fn is_unique_by_sequence(self) -> bool {
        matches!(self, PgEdge | PgSnowid)
    }

    /// Whether it needs `shared_preload_libraries`, or is used with it by its authors.
    fn is_preloaded(self) -> bool {
        matches!(self, PgEdge | PgSnowid | PgxUlid)
    }

    fn describe(self, client: &mut Client, checkouts: Option<&str>) -> Description {
        let version = "SELECT max(extversion) FROM pg_extension WHERE extname = $1";
        let version: Option<String> =
            client.query_one(version, &[&self.extension()]).unwrap().get(0);
        let checkout = checkouts.map(|folder| Path::new(folder).join(self.folder()));
        Description {
            name: self.name(),
            repository: self.repository(),
            version: version.unwrap_or_else(|| "not installed".into()),
            commit: checkout.as_deref().and_then(commit_of).unwrap_or_default(),
            note: checkout
                .and_then(|path| std::fs::read_to_string(path.with_extension("note")).ok()),
        }
    }

    /// The folder of its checkout.
    fn folder(self) -> &'static str {
        self.repository().split_once('/').unwrap().1
    }
}

/// An extension in the page: one that was measured, or one that could not be built.
pub struct Description {
    pub name: &'static str,
    pub repository: &'static str,
    pub version: String,
    pub commit: String,
    /// The changes needed to build it, or the reason why it could not be built.
    pub note: Option<String>,
}

/// Each installed extension. With the folder of their checkouts in `RIVALS`, also their commits and
/// notes, and those that are not installed.
pub fn describe(client: &mut Client) -> Vec<Description> {
    let checkouts = std::env::var("RIVALS").ok();
    let shown = ALL.into_iter().filter(|rival| *rival != PgxUlidMonotonic);
    let shown = shown.filter(|rival| checkouts.is_some() || rival.is_installed());
    shown.map(|rival| rival.describe(client, checkouts.as_deref())).collect()
}

/// None if the extension has no checkout.
fn commit_of(checkout: &Path) -> Option<String> {
    checkout.join(".git").exists().then(|| {
        let mut git = Command::new("git");
        git.arg("-C").arg(checkout).args(["log", "-1", "--abbrev=7", "--format=%h of %as"]);
        let said = git.output().expect("RIVALS needs git");
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    })
}

/// The settings that the extensions need: their libraries, and a node number.
pub fn settings(rivals: &[Rival]) -> Vec<(&'static str, String)> {
    let libraries: Vec<&str> =
        rivals.iter().filter(|rival| rival.is_preloaded()).map(|rival| rival.extension()).collect();
    let mut settings = vec![("shared_preload_libraries", libraries.join(", "))];
    if rivals.contains(&PgEdge) {
        settings.push(("snowflake.node", "5".into()));
    }
    settings
}

/// Creates the extensions, and their sequences.
pub fn set_up(client: &mut Client, rivals: &[Rival]) {
    for rival in rivals {
        let (schema, extension) = (rival.schema(), rival.extension());
        run(
            client,
            &format!(
                "CREATE SCHEMA IF NOT EXISTS {schema}; CREATE EXTENSION IF NOT EXISTS {extension} SCHEMA {schema}"
            ),
        );
    }
    if rivals.contains(&PgEdge) {
        run(client, "CREATE SCHEMA of_pgedge");
        for n in 0..SEQUENCES {
            run(client, &format!("CREATE SEQUENCE of_pgedge.seq{n}"));
        }
    }
    set_node(client, rivals);
    // For the operators of their types.
    let schemas: String = rivals.iter().map(|rival| format!(", {}", rival.schema())).collect();
    run(client, &format!("ALTER DATABASE postgres SET search_path = public{schemas}"));
}

/// pg_snowid has its node number in shared memory, so it is set after each start.
pub fn set_node(client: &mut Client, rivals: &[Rival]) {
    if rivals.contains(&PgSnowid) {
        run(client, &format!("SELECT {}.snowid_set_node(5::smallint)", PgSnowid.schema()));
    }
}

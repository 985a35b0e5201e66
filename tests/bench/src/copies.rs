//! A million rows by COPY from a client, and the ways to give them ids.

use crate::rounds::Rounds;
use crate::tables::make_table;
use instagram_id_live::{Server, one};
use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

/// How the rows get their ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    Bigserial,
    /// A key like that of bigserial whose default also calls a function that is stable. COPY inserts in batches.
    Stable,
    /// The same with a function that is volatile. COPY inserts row by row.
    Volatile,
    Default,
    /// Staged in a table without a key, and inserted from there with the default.
    Staged,
    /// The ids are written into a file before the rows are loaded.
    IdsFirst,
    /// The ids are taken while the rows are loaded.
    IdsBeside,
}

use Way::*;

impl Way {
    pub const ALL: [Way; 7] = [Bigserial, Stable, Volatile, Default, Staged, IdsFirst, IdsBeside];

    pub fn name(self) -> &'static str {
        match self {
            Bigserial => "`bigserial`",
            Stable => "the default of `bigserial` and a stable function",
            Volatile => "the default of `bigserial` and a volatile function",
            Default => "`DEFAULT insta5.next_id()`",
            Staged => "the same, by `INSERT ... SELECT` from a table into which COPY has written the rows",
            IdsFirst => "`next_ids(5, n)` into a file, then COPY with these ids",
            IdsBeside => {
                "`next_ids(5, n)` in one session, and COPY with these ids in another at the same time"
            }
        }
    }

    fn key(self) -> &'static str {
        match self {
            Bigserial => "id bigserial PRIMARY KEY",
            // Both functions cost about the same, and the comparison keeps PostgreSQL from removing them.
            Stable => {
                "id bigint PRIMARY KEY DEFAULT nextval('plain.seq5') + (statement_timestamp() IS NULL)::int"
            }
            Volatile => {
                "id bigint PRIMARY KEY DEFAULT nextval('plain.seq5') + (clock_timestamp() IS NULL)::int"
            }
            Default | Staged | IdsFirst | IdsBeside => "id bigint PRIMARY KEY DEFAULT insta5.next_id()",
        }
    }

    /// A script of the shell that loads the file `titles`, which has `$rows` lines.
    fn script(self) -> &'static str {
        match self {
            Bigserial | Stable | Volatile | Default => {
                r#"psql -X -c 'COPY photos (title) FROM STDIN' <"$titles""#
            }
            Staged => {
                r#"psql -X -1 -c 'CREATE TEMPORARY TABLE staging (title text)' -c 'COPY staging FROM STDIN' \
                     -c 'INSERT INTO photos (title) SELECT title FROM staging' <"$titles""#
            }
            IdsFirst => {
                r#"psql -X -c "COPY (SELECT next_ids(5, $rows)) TO STDOUT" >"$titles.ids"
                   paste "$titles.ids" "$titles" | psql -X -c 'COPY photos (id, title) FROM STDIN'"#
            }
            IdsBeside => {
                r#"psql -X -c "COPY (SELECT next_ids(5, $rows)) TO STDOUT" | paste - "$titles" |
                     psql -X -c 'COPY photos (id, title) FROM STDIN'"#
            }
        }
    }
}

/// The cost of loading the rows.
pub struct Load {
    /// From the start of the first client to the end of the last one.
    pub seconds: f64,
    /// CPU time of the server's sessions.
    pub cpu_seconds: f64,
}

pub fn cost(server: &Server, rounds: usize, rows: usize) -> Rounds<Way, Load> {
    let mut client = server.connect();
    let postmaster = Postmaster::of(server);
    let titles = server.path().join("titles");
    let lines: String = (1..=rows).map(|n| format!("photo {n}\n")).collect();
    fs::write(&titles, lines).unwrap();
    Rounds::of(&format!("{rows} rows by COPY"), rounds, &Way::ALL, |way| {
        make_table(&mut client, way.key());
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", way.script()])
            .env("PATH", server.programs_path())
            .env("PGHOST", server.path())
            .env("PGUSER", "postgres")
            .env("titles", &titles)
            .env("rows", rows.to_string())
            .stdout(Stdio::null());
        let (sessions, cpu_before) = (postmaster.children(), postmaster.cpu_seconds_of_ended());
        let started = Instant::now();
        let status = bash.status().unwrap();
        let seconds = started.elapsed().as_secs_f64();
        assert!(status.success(), "{way:?}");
        server.wait_for("the end of the sessions", || postmaster.children() <= sessions);
        let cpu_seconds = postmaster.cpu_seconds_of_ended() - cpu_before;
        assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM photos"), rows as i64, "{way:?}");
        client.batch_execute("DROP TABLE photos").unwrap();
        Load { seconds, cpu_seconds }
    })
}

/// The process whose children are the sessions.
struct Postmaster {
    pid: i32,
}

impl Postmaster {
    fn of(server: &Server) -> Postmaster {
        let file = fs::read_to_string(server.path().join("data/postmaster.pid")).unwrap();
        Postmaster { pid: file.lines().next().unwrap().parse().unwrap() }
    }

    fn children(&self) -> usize {
        let pid = self.pid;
        fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap().split_whitespace().count()
    }

    /// CPU time of all sessions that have ended, to a hundredth of a second.
    fn cpu_seconds_of_ended(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap();
        // The name of the process, in parentheses, can contain spaces. After it, cutime and cstime are fields 14 and 15,
        // in ticks, of which Linux has 100 a second.
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let ticks: f64 = fields.split(' ').skip(13).take(2).map(|ticks| ticks.parse::<f64>().unwrap()).sum();
        ticks / 100.0
    }
}

//! `instagram_id_shards` records the server of each logical shard, and moves shards between servers
//! while clients write.
//!
//! Logical replication copies the rows of a shard, pg_dump its schema, and setval the state of its
//! sequences. The state of a move is stored only on the servers and in the map. So an interrupted
//! move can be resumed from any machine.
//!
//! The text of a schema runs with the rights of the roles that move it, so [`trust`] requires that
//! all roles that can write to it have these rights, or are trusted. Apart from the schema's own
//! text:
//!
//! - Texts read from a server are treated as data. The server builds statements from names with
//!   `format(%I)`.
//! - The function that marks a schema is trusted only if a superuser or the role of the command
//!   owns it.
//! - A schema is locked against renaming while its name is used. A query reads from a relation of
//!   the schema by name only while it is locked, after its OID was checked.
//! - In each session a setting makes queries on views and foreign tables of other roles fail.
//!
//! The modules:
//!
//! - [`libpq`]: connections, and all unsafe code
//! - [`session`], [`server`], [`map`]: queries and changes on the servers and in the map
//! - [`trust`]: whose code may run
//! - [`checks`], [`replication`], [`cutover`]: the steps of a move
//! - [`moving`]: runs these steps in the order that `instagram_id_core::moving` determines
//! - [`fleet`], [`plan`], [`apply`]: plan moves that balance the servers, and run several moves in
//!   parallel
//! - [`output`], [`error`], [`interrupt`], [`status`]: the user interface

mod apply;
mod checks;
mod cutover;
mod error;
mod fleet;
mod interrupt;
mod libpq;
mod map;
mod moving;
mod output;
mod plan;
mod replication;
mod server;
mod session;
mod status;
mod trust;

use clap::{CommandFactory, Parser, Subcommand};
use error::{Error, Result, check_interrupt, fail};
use map::{Map, Placement, Trust};
use output::Output;
use std::process::ExitCode;
use std::time::Duration;

/// Record the server of each logical shard, and move shards between servers
#[derive(Parser)]
#[command(name = "instagram_id_shards", version, after_help = EXIT_STATUS, infer_long_args = false)]
struct Arguments {
    /// Connect to the map with this connection string
    #[arg(
        long,
        global = true,
        env = "INSTAGRAM_ID_MAP",
        hide_env_values = true,
        value_name = "CONNINFO"
    )]
    map: Option<String>,
    /// Print one JSON object per line
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

const EXIT_STATUS: &str = "\
CONNINFO is a libpq connection string: a URI or \"host=... dbname=...\". The new server
of a shard connects to the old one with the CONNINFO of the old one.

Exit status:
  0  done
  1  failed; the map is correct, and a move can be resumed
  2  wrong arguments
  3  the checks reject the move or the map; nothing was changed
  4  another command is working on the shard
  5  writes to the shard may still be stopped: run move, or cancel
  129, 130, 143  interrupted by SIGHUP, SIGINT, SIGTERM; otherwise as 1";

#[derive(Subcommand)]
enum Command {
    /// Create the map in the database that --map names
    Init,
    /// Add a server to the map, or change its connection string
    Server {
        /// Name of the server in the map
        name: String,
        /// Connection string with which this command and the other servers connect to it
        conninfo: String,
        /// Trust this role of the server: let its code run with the rights of the command
        #[arg(long, value_name = "ROLE", allow_hyphen_values = true)]
        trust: Vec<String>,
    },
    /// Record the server of shards, without moving them
    Place {
        /// Name of the server in the map
        server: String,
        /// Numbers of the shards, 0 to 8191
        #[arg(required = true, value_parser = shard)]
        shard: Vec<u16>,
    },
    /// Remove a server without shards from the map
    Remove {
        /// Name of the server in the map
        server: String,
    },
    /// Show the map and the moves in progress
    Status {
        /// Also list the shards of this server
        #[arg(long, value_name = "SERVER", allow_hyphen_values = true)]
        shards_of: Option<String>,
    },
    /// Check whether a shard can be moved
    Check(To),
    /// Move a shard, or resume a move that was interrupted
    Move {
        #[command(flatten)]
        to: To,
        /// Resume writes on the old server if the new one has not caught up after this time
        #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
        stop: u64,
    },
    /// Undo a move before its cutover
    Cancel {
        /// Number of the shard
        #[arg(value_parser = shard)]
        shard: u16,
    },
    /// Drop the old copy of a shard that was moved
    Clean {
        /// Number of the shard
        #[arg(value_parser = shard, required_unless_present = "all", conflicts_with = "all")]
        shard: Option<u16>,
        /// Drop the old copies of all moves that are done
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        trust: Trusted,
    },
    /// Propose moves that balance the servers by size and by rate of new ids
    Plan {
        /// Move all shards off this server
        #[arg(long, value_name = "SERVER", allow_hyphen_values = true)]
        drain: Vec<String>,
        /// Allow servers to differ from the mean by this percentage
        #[arg(long, value_name = "PERCENT", default_value_t = (plan::TOLERANCE * 100.0) as u8,
            value_parser = clap::value_parser!(u8).range(1..=100))]
        tolerance: u8,
        #[command(flatten)]
        trust: Trusted,
    },
    /// Carry out a plan printed by plan --json, or continue one
    Apply {
        /// Read the plan from this file, or from standard input if it is -
        plan: String,
        /// Run this many moves in parallel
        #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
        jobs: u8,
        /// Resume writes on the old server if the new one has not caught up after this time
        #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
        stop: u64,
        #[command(flatten)]
        trust: Trusted,
    },
    /// Print completions for a shell
    Completions { shell: clap_complete::Shell },
    /// Write manual pages to a directory, which is created
    Man { folder: std::path::PathBuf },
}

#[derive(clap::Args)]
struct To {
    /// Number of the shard
    #[arg(value_parser = shard)]
    shard: u16,
    /// Move the shard to this server
    #[arg(long, value_name = "SERVER", allow_hyphen_values = true)]
    to: String,
    #[command(flatten)]
    trust: Trusted,
}

#[derive(clap::Args)]
struct Trusted {
    /// Trust this role of a server: let its code run with the rights of the command
    #[arg(long, value_name = "SERVER:ROLE", allow_hyphen_values = true)]
    trust: Vec<String>,
}

fn shard(text: &str) -> std::result::Result<u16, String> {
    text.parse()
        .ok()
        .filter(|shard| *shard <= 8191)
        .ok_or_else(|| "expected the number of a shard, 0 to 8191".into())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let output = Output::new(arguments.json);
    match run(arguments, &output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output.error(&error);
            ExitCode::from(error.status())
        }
    }
}

#[expect(clippy::too_many_lines, reason = "an arm for each subcommand")]
fn run(arguments: Arguments, output: &Output) -> Result {
    match arguments.command {
        Command::Completions { shell } => {
            let name = Arguments::command().get_name().to_owned();
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), name, &mut text);
            output.text(String::from_utf8_lossy(&text).trim_end());
            return Ok(());
        }
        Command::Man { folder } => {
            let written = std::fs::create_dir_all(&folder)
                .and_then(|()| clap_mangen::generate_to(Arguments::command(), &folder));
            return error::Context::context(written, || {
                "the manual pages cannot be written".into()
            });
        }
        _ => {}
    }
    let Some(conninfo) = arguments.map else {
        fail!("the connection string of the map is missing: use --map, or set INSTAGRAM_ID_MAP");
    };
    error::Context::context(interrupt::listen(), || "signals cannot be caught".into())?;
    if let Command::Init = arguments.command {
        Map::create(&conninfo)?;
        output.step("Created the map. To add servers: instagram_id_shards server NAME CONNINFO");
        return Ok(());
    }
    let map = &mut Map::connect(&conninfo)?;
    match arguments.command {
        Command::Server { name, conninfo, trust } => {
            map.add_server(&name, &conninfo, &trust)?;
            output.step(format!("Recorded server {name}"));
        }
        Command::Place { server, shard } => {
            for Placement { shard, server } in map.place(&server, &shard)? {
                output.warn(&format!("the map has placed shard {shard} on {server} until now"));
            }
            let shards: Vec<_> = shard.iter().map(u16::to_string).collect();
            output.step(format!("Recorded on {server}: {}", shards.join(" ")));
        }
        Command::Remove { server } => {
            map.remove_server(&server)?;
            output.step(format!("Removed server {server}"));
        }
        Command::Status { shards_of } => status::show(map, shards_of.as_deref(), output)?,
        Command::Check(To { shard, to, trust }) => {
            let trust = Trust::parse(map, &trust.trust)?;
            moving::check(map, shard, &to, &trust, output)?;
        }
        Command::Move { to: To { shard, to, trust }, stop } => {
            let trust = Trust::parse(map, &trust.trust)?;
            moving::move_shard(map, shard, &to, Duration::from_secs(stop), &trust, output)?;
        }
        Command::Cancel { shard } => moving::cancel(map, shard, output)?,
        Command::Clean { shard, trust, .. } => {
            let trust = Trust::parse(map, &trust.trust)?;
            let finished = map.moves()?.into_iter().filter(|moved| moved.finished);
            let all = finished.map(|moved| moved.shard);
            // Each lock is held until its connection ends, so connect separately for each shard.
            let clean = |shard| moving::clean(&mut Map::connect(&conninfo)?, shard, &trust, output);
            let mut failed: Option<Error> = None;
            for shard in shard.map_or_else(|| all.collect(), |one| vec![one]) {
                if let Err(error) = check_interrupt().and_then(|()| clean(shard))
                    && let Some(earlier) = failed.replace(error)
                {
                    earlier.lines().iter().for_each(|line| output.warn(line));
                }
                if interrupt::is_requested() {
                    break;
                }
            }
            failed.map_or(Ok(()), Err)?;
        }
        Command::Plan { drain, tolerance, trust } => {
            let trust = Trust::parse(map, &trust.trust)?;
            fleet::show_plan(map, &drain, f64::from(tolerance) / 100.0, &trust, output)?;
        }
        Command::Apply { plan, jobs, stop, trust } => {
            let trust = Trust::parse(map, &trust.trust)?;
            let stop = Duration::from_secs(stop);
            let options = apply::Options { jobs: jobs.into(), stop, trust };
            apply::apply(map, &conninfo, apply::read_plan(&plan)?, &options, output)?;
        }
        Command::Init | Command::Completions { .. } | Command::Man { .. } => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_shard_is_a_number_in_range() {
        assert_eq!((shard("0"), shard("8191"), shard("005")), (Ok(0), Ok(8191), Ok(5)));
        for text in ["", "8192", "-1", "x", "1 ", "99999"] {
            assert_eq!(
                shard(text),
                Err("expected the number of a shard, 0 to 8191".into()),
                "{text:?}"
            );
        }
    }
}

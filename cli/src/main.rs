//! `instagram_id_shards`: says which server holds which logical shard, and moves shards from one server to another while
//! clients write.
//!
//! A shard's rows move by PostgreSQL's own logical replication; its schema by pg_dump; its sequence by setval. What has
//! been done is to be seen on the servers and in the map, and nowhere else. So a move that was cut off goes on where it
//! stood when it is called again, from any machine.
//!
//! The command connects as a superuser, and the owner of a schema is none. So nothing that such an owner can write is run
//! or believed: texts of a server are data; statements are built there from names by `format(%I)`; a mark counts if a
//! superuser owns it; a schema is locked against renaming, and a sequence against replacement, while their names are used;
//! the copy on the target belongs to the superuser until it is whole, and has nothing in it that the replication would
//! run for its owner.
//!
//! - [`libpq`]: connections; all unsafe code
//! - [`session`], [`server`], [`map`]: what the command asks the servers and the map, and changes there
//! - [`checks`], [`replication`], [`cutover`]: the steps of a move
//! - [`moving`]: which of them comes next, by `instagram_id_core::moving`
//! - [`fleet`], [`plan`], [`apply`]: which moves even out the servers, and many moves side by side
//! - [`output`], [`error`], [`interrupt`], [`status`]: the command line's side

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

use clap::{CommandFactory, Parser, Subcommand};
use error::{Error, Result};
use map::Map;
use moving::Mode;
use output::Output;
use std::process::ExitCode;
use std::time::Duration;

/// Keep a map of which server has which logical shard, and move shards between servers
#[derive(Parser)]
#[command(name = "instagram_id_shards", version, after_help = EXIT_STATUS, infer_long_args = false)]
struct Arguments {
    /// The database with the map
    #[arg(long, global = true, env = "INSTAGRAM_ID_MAP", hide_env_values = true, value_name = "CONNINFO")]
    map: Option<String>,
    /// Print one JSON object a line
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

const EXIT_STATUS: &str = "\
CONNINFO is a libpq connection string: a URI or \"host=... dbname=...\". The servers must also be able to use it.

Exit status:
  0  done
  1  failed; the map is correct, and a move can be resumed
  2  wrong arguments
  3  the checks refuse the move; nothing was changed
  4  another command is at work on the shard
  5  writes to the shard may still be stopped: move or cancel it again
  129, 130, 143  interrupted by SIGHUP, SIGINT, SIGTERM; as with 1";

#[derive(Subcommand)]
enum Command {
    /// Create the map in the database that --map names
    Init,
    /// Add a server to the map, or change how to connect to it
    Server { name: String, conninfo: String },
    /// Record that these shards are on a server (nothing is moved)
    Place {
        server: String,
        #[arg(required = true, value_parser = shard)]
        shard: Vec<u16>,
    },
    /// Show the map and the moves in progress
    Status,
    /// Check whether a shard can be moved
    Check(To),
    /// Move a shard, or resume a move that was interrupted
    Move {
        #[command(flatten)]
        to: To,
        /// Only check, and print what would be done
        #[arg(long)]
        dry_run: bool,
        /// How long writes may be stopped until the new server has caught up; then they continue on the old one
        #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
        stop: u64,
    },
    /// Undo a move before its cutover
    Cancel {
        #[arg(value_parser = shard)]
        shard: u16,
    },
    /// Drop the old copy that a move has left behind
    Clean {
        #[arg(value_parser = shard, required_unless_present = "all", conflicts_with = "all")]
        shard: Option<u16>,
        /// Drop the old copies of all moves that are done
        #[arg(long)]
        all: bool,
    },
    /// Propose moves that even out the servers, by size and by the rate of new ids
    Plan {
        /// Empty this server
        #[arg(long, value_name = "SERVER", allow_hyphen_values = true)]
        drain: Vec<String>,
        /// How much a server may differ from the mean, in percent
        #[arg(long, value_name = "PERCENT", default_value_t = (plan::TOLERANCE * 100.0) as u8,
            value_parser = clap::value_parser!(u8).range(1..=100))]
        tolerance: u8,
    },
    /// Carry out a plan that plan --json has printed; run it again to continue
    Apply {
        /// The file with the plan; - for standard input
        plan: String,
        /// How many moves at a time
        #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
        jobs: u8,
        /// As for move
        #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
        stop: u64,
    },
    /// Print completions for a shell
    Completions { shell: clap_complete::Shell },
    /// Write the manual pages into a folder
    Man { folder: std::path::PathBuf },
}

#[derive(clap::Args)]
struct To {
    #[arg(value_parser = shard)]
    shard: u16,
    /// The server to move it to
    #[arg(long, value_name = "SERVER", allow_hyphen_values = true)]
    to: String,
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

fn run(arguments: Arguments, output: &Output) -> Result {
    match arguments.command {
        Command::Completions { shell } => {
            let name = Arguments::command().get_name().to_owned();
            clap_complete::generate(shell, &mut Arguments::command(), name, &mut std::io::stdout());
            return Ok(());
        }
        Command::Man { folder } => {
            let written = clap_mangen::generate_to(Arguments::command(), &folder);
            return error::Context::context(written, || "the manual pages cannot be written".into());
        }
        _ => {}
    }
    let Some(conninfo) = arguments.map else {
        fail!("say where the map is: --map CONNINFO, or INSTAGRAM_ID_MAP in the environment");
    };
    error::Context::context(interrupt::listen(), || "signals cannot be caught".into())?;
    let map = &mut Map::connect(&conninfo)?;
    match arguments.command {
        Command::Init => {
            map.init()?;
            output.step("Created the map. To add servers: instagram_id_shards server NAME CONNINFO");
        }
        Command::Server { name, conninfo } => {
            map.add_server(&name, &conninfo)?;
            output.step(format!("Recorded server {name}"));
        }
        Command::Place { server, shard } => {
            map.place(&server, &shard)?;
            let shards: Vec<_> = shard.iter().map(u16::to_string).collect();
            output.step(format!("Recorded on {server}: {}", shards.join(" ")));
        }
        Command::Status => status::show(map, output)?,
        Command::Check(To { shard, to }) => {
            moving::move_shard(map, shard, &to, Duration::ZERO, Mode::Check, output)?
        }
        Command::Move { to: To { shard, to }, dry_run, stop } => {
            let mode = if dry_run { Mode::DryRun } else { Mode::Move };
            moving::move_shard(map, shard, &to, Duration::from_secs(stop), mode, output)?;
        }
        Command::Cancel { shard } => moving::cancel(map, shard, output)?,
        Command::Clean { shard: Some(shard), .. } => moving::clean(map, shard, output)?,
        Command::Clean { shard: None, .. } => {
            for shard in map.moved_shards()? {
                check_interrupt()?;
                // Each lock lasts as long as its connection.
                moving::clean(&mut Map::connect(&conninfo)?, shard, output)?;
            }
        }
        Command::Plan { drain, tolerance } => {
            fleet::show_plan(map, &drain, f64::from(tolerance) / 100.0, output)?;
        }
        Command::Apply { plan, jobs, stop } => {
            apply::apply(map, &conninfo, apply::read_plan(&plan)?, jobs.into(), stop, output)?;
        }
        Command::Completions { .. } | Command::Man { .. } => {}
    }
    Ok(())
}

/// Fails if the user has interrupted the command. Called where nothing is half done.
pub fn check_interrupt() -> Result {
    interrupt::signal().map_or(Ok(()), |signal| Err(Error::Interrupted(signal)))
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
        assert!(["", "8192", "-1", "x", "1 ", "99999"].iter().all(|text| shard(text).is_err()));
    }
}

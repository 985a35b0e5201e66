//! Errors and exit statuses of the command.

use crate::interrupt;
use crate::libpq;

/// An error that ends the command.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No change is incomplete, and the map is correct.
    #[error("{message}{}", .server.as_ref().map_or_else(String::new, |error| format!(": {error}")))]
    Failed { message: String, server: Option<libpq::Error> },
    /// Objects of the schema on this server have changed since the move began. Otherwise as
    /// [`Error::Failed`].
    #[error("{message}")]
    Changed { message: String, server: String, objects: Vec<String> },
    /// The checks found these obstacles, and nothing was changed.
    #[error("{problem}")]
    Refused { problem: String, obstacles: Vec<String> },
    /// Another command holds the lock of the shard.
    #[error("another instagram_id_shards command is working on shard {0}")]
    Busy(u16),
    /// The shard may reject writes on both servers.
    #[error(
        "writes to shard {shard} may still be stopped: when both servers can be reached, run move, or cancel if the copy is not open yet"
    )]
    WritesStopped { shard: u16, cause: Box<Error> },
    /// A move has begun and is not finished. The advice names the commands to finish or undo it.
    #[error("{advice}")]
    Unfinished { advice: String, cause: Box<Error> },
    #[error("interrupted")]
    Interrupted(i32),
}

pub type Result<T = ()> = std::result::Result<T, Error>;

impl Error {
    /// The exit status. For wrong arguments, clap exits with status 2.
    pub fn status(&self) -> u8 {
        match self {
            Error::Failed { .. } | Error::Changed { .. } => 1,
            Error::Refused { .. } => 3,
            Error::Busy(_) => 4,
            Error::WritesStopped { .. } => 5,
            Error::Unfinished { cause, .. } => cause.status(),
            Error::Interrupted(signal) => 128 + *signal as u8,
        }
    }

    /// The SQLSTATE of the server's error; empty for others.
    pub fn sqlstate(&self) -> &str {
        match self {
            Error::Failed { server: Some(error), .. } => &error.sqlstate,
            _ => "",
        }
    }

    /// The message as separate lines. A name can contain a line break, so joining the lines here
    /// would make it impossible to tell line breaks of a name from those of the message.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match self {
            Error::Failed { server: Some(error), .. } => {
                lines.push(self.to_string());
                let notes = [("DETAIL", &error.detail), ("HINT", &error.hint)];
                lines.extend(
                    notes
                        .iter()
                        .filter_map(|(label, text)| Some(format!("{label}: {}", text.as_ref()?))),
                );
            }
            Error::Refused { problem, obstacles } => {
                lines.push(format!("{problem}:"));
                lines.extend(obstacles.iter().map(|obstacle| format!("    - {obstacle}")));
            }
            Error::WritesStopped { cause, .. } | Error::Unfinished { cause, .. } => {
                lines.extend(cause.lines());
                lines.push(self.to_string());
            }
            _ => lines.push(self.to_string()),
        }
        lines
    }

    /// The server on which the schema has changed, and the objects that have.
    pub fn change(&self) -> Option<(&str, &[String])> {
        match self {
            Error::Changed { server, objects, .. } => Some((server, objects)),
            Error::WritesStopped { cause, .. } | Error::Unfinished { cause, .. } => cause.change(),
            _ => None,
        }
    }

    pub fn failed(message: impl Into<String>) -> Error {
        Error::Failed { message: message.into(), server: None }
    }
}

impl From<libpq::Error> for Error {
    fn from(error: libpq::Error) -> Error {
        Error::Failed { message: "unexpected answer of a server".into(), server: Some(error) }
    }
}

/// Returns [`Error::Failed`] from the calling function.
macro_rules! fail {
    ($($text:tt)*) => { return Err($crate::error::Error::failed(format!($($text)*))) };
}
pub(crate) use fail;

/// Fails if there are obstacles.
pub fn refuse(problem: String, obstacles: Vec<String>) -> Result {
    if obstacles.is_empty() { Ok(()) } else { Err(Error::Refused { problem, obstacles }) }
}

/// Fails if the user has interrupted the command. Call it only where no change is incomplete.
pub fn check_interrupt() -> Result {
    interrupt::signal().map_or(Ok(()), |signal| Err(Error::Interrupted(signal)))
}

/// Adds a description of the failed operation to an error.
pub trait Context<T> {
    fn context(self, problem: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Context<T> for std::result::Result<T, libpq::Error> {
    fn context(self, problem: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| match interrupt::signal() {
            // query_canceled: by libpq::Connection.
            Some(signal) if error.sqlstate == "57014" => Error::Interrupted(signal),
            _ => Error::Failed { message: problem(), server: Some(error) },
        })
    }
}

impl<T> Context<T> for std::io::Result<T> {
    fn context(self, problem: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::failed(format!("{}: {error}", problem())))
    }
}

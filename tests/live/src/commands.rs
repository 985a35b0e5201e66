//! The commands that the nodes of an emulated cluster run on other nodes.
//!
//! A session writes a command into a file, and the path of the file into a pipe. A thread of the
//! test runs the command, and writes its result into another file, for which the session waits. So
//! a command starts no program, and ends with the test.

use postgres::{Client, Config, NoTls, SimpleQueryMessage};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The commands of one node.
pub struct Commands {
    pipe: File,
    path: PathBuf,
    count: Arc<AtomicI64>,
}

impl Commands {
    /// The pipe and the files are in this folder, in which the server can write.
    pub fn new(folder: &Path) -> Commands {
        let path = folder.join("commands");
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("a pipe");
        // The server can run as another user.
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        // A pipe that is also open for writing does not end when a session has written.
        let pipe = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let requests = BufReader::new(pipe.try_clone().unwrap());
        let count = Arc::new(AtomicI64::new(0));
        let counted = Arc::clone(&count);
        thread::spawn(move || {
            for request in requests.lines() {
                let request = request.expect("the path of a file");
                if request.is_empty() {
                    return;
                }
                counted.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || answer(Path::new(&request)));
            }
        });
        Commands { pipe, path, count }
    }

    pub fn pipe(&self) -> &Path {
        &self.path
    }

    /// How many commands the node has run.
    pub fn count(&self) -> i64 {
        self.count.load(Ordering::SeqCst)
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.pipe.write_all(b"\n").expect("the pipe of the commands");
    }
}

/// Runs the command in this file, and writes its result. The first line of the result says how the
/// command ended.
fn answer(request: &Path) {
    let text = fs::read_to_string(request).expect("a command");
    // See emulated_run() in emulated.sql: each field is between two of these characters.
    let fields: Vec<&str> = text.split('\x1e').skip(1).step_by(2).collect();
    let &[host, port, role, limit, sql] = &fields[..] else { panic!("a command: {text:?}") };
    let mut config = Config::new();
    config.host_path(host).port(port.parse().unwrap()).user(role).dbname("postgres");
    let limit = Duration::from_millis(limit.parse().unwrap());
    let result = match connect(config, limit) {
        Err(reason) => format!("not connected\n{reason}"),
        Ok(mut client) => match client.simple_query(sql) {
            Err(error) => format!("failed\n{}", said(&error)),
            Ok(messages) => match &rows(&messages)[..] {
                [] => "done\n".to_owned(),
                [row] => format!("done\n{row}"),
                _ => "failed\nexpected a single row in query result".to_owned(),
            },
        },
    };
    let (part, whole) = (request.with_extension("part"), request.with_extension("result"));
    // The test may have ended, and its folder with it.
    if let Err(error) = fs::write(&part, result).and_then(|()| fs::rename(&part, &whole)) {
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{}: {error}", whole.display());
    }
}

/// The limit includes the server's answer, as libpq's does. A server that never answers is waited
/// for in a thread that nobody waits for.
fn connect(config: Config, limit: Duration) -> Result<Client, String> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        // After the limit nobody receives it.
        let _ = send.send(config.connect(NoTls).map_err(|error| said(&error)));
    });
    receive.recv_timeout(limit).unwrap_or_else(|_| Err("timeout expired".into()))
}

/// As libpq says it.
fn said(error: &postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{}:  {}", error.severity(), error.message()),
        None => format!("{error:?}"),
    }
}

fn rows(messages: &[SimpleQueryMessage]) -> Vec<String> {
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| {
        let columns: Vec<&str> = (0..row.len()).map(|n| row.get(n).unwrap_or_default()).collect();
        columns.join("|")
    })
    .collect()
}

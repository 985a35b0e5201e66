//! A client that sends statements and does not read what it is sent.
//!
//! The server's session waits in its next message once the socket is full, without any limit. What
//! it has locked by then, it keeps.

use crate::Server;
use postgres::Client;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// A client that has stopped to read.
pub struct Unread {
    socket: UnixStream,
    pub pid: i32,
    /// Whether its session waits in a message of the statement.
    pub is_stopped: bool,
}

/// How many messages a statement may send before the one in which the session is to wait.
const MESSAGES: i32 = 24;

/// The number of small notices that fill the socket.
const NOTICES_MAX: i32 = 100_000;

impl Unread {
    /// Runs a statement in clients of this role that stop to read, each at another of the messages
    /// that the statement sends. `before` runs before each of them, and `during` while its session
    /// waits, or after the statement. Returns how many sessions have waited.
    pub fn at_each_message(
        server: &Server,
        (role, settings, statement): (&str, &str, &str),
        mut before: impl FnMut(),
        mut during: impl FnMut(&Unread),
    ) -> usize {
        let room = Unread::room(server);
        let mut stopped = 0;
        for notices in (room - MESSAGES).max(0)..=room {
            before();
            let client = Unread::run(server, role, settings, notices, statement);
            stopped += usize::from(client.is_stopped);
            during(&client);
            client.leave(server);
        }
        stopped
    }

    /// How many notices fit into the socket.
    fn room(server: &Server) -> i32 {
        let mut client = Unread::connect(server, "postgres");
        client.query(&notices(NOTICES_MAX));
        client.wait(server, |state| state.wait_event.as_deref() == Some("ClientWrite"));
        let end = format!("SELECT pg_terminate_backend({})", client.pid);
        assert!(crate::one::<bool>(&mut server.connect(), &end));
        let mut sent = vec![];
        client.socket.read_to_end(&mut sent).unwrap();
        messages(&sent).filter(|(kind, _)| *kind == b'N').count() as i32
    }

    fn run(server: &Server, role: &str, settings: &str, notices: i32, statement: &str) -> Unread {
        let mut client = Unread::connect(server, role);
        client.query(settings);
        client.read_until_ready();
        client.query(&self::notices(notices));
        client.query(statement);
        let ended = |state: &State| state.state == "idle" && state.query == statement;
        let state = client.wait(server, |state| {
            ended(state) || state.wait_event.as_deref() == Some("ClientWrite")
        });
        client.is_stopped = state.is_some_and(|state| !ended(&state) && state.query == statement);
        client
    }

    /// Closes the socket, and waits until the session has ended.
    fn leave(self, server: &Server) {
        let pid = self.pid;
        drop(self.socket);
        server.wait_until(&format!(
            "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = {pid})"
        ));
    }

    fn connect(server: &Server, role: &str) -> Unread {
        let socket = UnixStream::connect(server.path().join(".s.PGSQL.5432")).unwrap();
        let mut client = Unread { socket, pid: 0, is_stopped: false };
        let parameters = format!("user\0{role}\0database\0postgres\0\0");
        let version = (3_i32 << 16).to_be_bytes();
        client.send(&[&version[..], parameters.as_bytes()].concat());
        let sent = client.read_until_ready();
        let key = messages(&sent).find(|(kind, _)| *kind == b'K').expect("a key").1;
        client.pid = i32::from_be_bytes(key[..4].try_into().unwrap());
        client
    }

    /// Sends a statement, and does not read the answer.
    fn query(&mut self, statement: &str) {
        self.socket.write_all(b"Q").unwrap();
        self.send(&[statement.as_bytes(), b"\0"].concat());
    }

    fn send(&mut self, body: &[u8]) {
        let length = (body.len() as i32 + 4).to_be_bytes();
        self.socket.write_all(&[&length, body].concat()).unwrap();
    }

    fn read_until_ready(&mut self) -> Vec<u8> {
        let mut sent = vec![];
        while !sent.ends_with(b"Z\0\0\0\x05I") {
            let mut part = [0; 4096];
            let count = self.socket.read(&mut part).unwrap();
            assert!(count > 0, "closed after {:?}", String::from_utf8_lossy(&sent));
            sent.extend(&part[..count]);
        }
        sent
    }

    /// Waits for a state of the session. Returns it, or `None` if the session has ended.
    fn wait(&self, server: &Server, is_so: impl Fn(&State) -> bool) -> Option<State> {
        let mut observer = server.connect();
        server.wait_for("a session whose client does not read", || {
            State::of(&mut observer, self.pid).as_ref().is_none_or(&is_so)
        });
        // PostgreSQL reads the wait event of a row after its state, which can be over by then.
        State::of(&mut observer, self.pid)
    }
}

/// What `pg_stat_activity` shows of a session.
struct State {
    state: String,
    wait_event: Option<String>,
    query: String,
}

impl State {
    fn of(observer: &mut Client, pid: i32) -> Option<State> {
        let query = "SELECT state, wait_event, query FROM pg_stat_activity WHERE pid = $1 AND state IS NOT NULL";
        let row = observer.query_opt(query, &[&pid]).unwrap()?;
        Some(State { state: row.get(0), wait_event: row.get(1), query: row.get(2) })
    }
}

/// A statement that sends this many small notices.
fn notices(count: i32) -> String {
    format!("DO $$ BEGIN FOR n IN 1..{count} LOOP RAISE NOTICE 'n'; END LOOP; END $$")
}

/// The messages that a server has sent, each with its type, up to one that is incomplete.
fn messages(mut sent: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (&kind, rest) = sent.split_first()?;
        let length = i32::from_be_bytes(rest.get(..4)?.try_into().ok()?) as usize;
        let body = rest.get(4..length)?;
        sent = &rest[length..];
        Some((kind, body))
    })
}

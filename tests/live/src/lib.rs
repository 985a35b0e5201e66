//! Real servers for the tests: started in a temporary folder, reached by a socket in it, stopped when dropped.
//!
//! `PG_CONFIG` names the PostgreSQL, into which the extension must be installed. Run by root, the servers run
//! as the user `postgres`.

use postgres::{Client, Config, GenericClient, NoTls};
use rustix::process::{Pid, Signal};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A PostgreSQL server of its own.
pub struct Server {
    dir: TempDir,
    bin: PathBuf,
    owner: Option<(u32, u32)>,
    /// The library that lets the server see another clock than the machine's.
    faketime: Option<PathBuf>,
    postmaster: Mutex<Option<Child>>,
}

impl Server {
    /// Initializes a cluster with these settings beside the defaults, and starts it.
    pub fn start(settings: &[(&str, &str)]) -> Server {
        Server::start_of(&pg_config(), settings)
    }

    /// The same of the PostgreSQL that this `pg_config` belongs to.
    pub fn start_of(pg_config: &str, settings: &[(&str, &str)]) -> Server {
        let server = Server::new(pg_config);
        server.initialize(settings);
        server
    }

    fn initialize(&self, settings: &[(&str, &str)]) {
        self.run(
            "initdb",
            &["-D", "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"],
        );
        self.configure(settings);
        self.launch();
    }

    /// A server whose clock is set by [`Server::set_clock`].
    pub fn start_with_a_clock_of_its_own(settings: &[(&str, &str)]) -> Server {
        let mut server = Server::new(&pg_config());
        let library = fs::read_dir("/usr/lib")
            .unwrap()
            .filter_map(|entry| Some(entry.ok()?.path().join("faketime/libfaketime.so.1")))
            .find(|path| path.exists());
        server.faketime = Some(library.expect("Debian's package libfaketime"));
        server.set_clock("+0");
        server.initialize(settings);
        server
    }

    /// Sets the server's clock, by an offset from the machine's such as `+2h` or `-1d`. All its processes see it at
    /// once.
    pub fn set_clock(&self, offset: &str) {
        let new = self.path().join("clock.new");
        fs::write(&new, offset).unwrap();
        fs::rename(new, self.path().join("clock")).unwrap();
    }

    /// A server that starts as a copy of a running one, following it.
    pub fn start_standby_of(primary: &Server) -> Server {
        let standby = Server::new(&pg_config());
        let host = primary.dir.path().to_str().unwrap();
        standby
            .run("pg_basebackup", &["-h", host, "-U", "postgres", "-D", "data", "-R", "--checkpoint=fast"]);
        standby.configure(&[]);
        standby.launch();
        standby
    }

    fn new(pg_config: &str) -> Server {
        let bin = output(Command::new(pg_config).arg("--bindir")).into();
        let dir = tempfile::Builder::new().prefix("instagram_id.").tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let owner = (output(Command::new("id").arg("-u")) == "0").then(|| {
            let id = |flag| output(Command::new("id").args([flag, "postgres"])).parse().unwrap();
            (id("-u"), id("-g"))
        });
        if let Some((uid, gid)) = owner {
            chown(dir.path(), Some(uid), Some(gid)).unwrap();
        }
        Server { dir, bin, owner, faketime: None, postmaster: Mutex::new(None) }
    }

    fn configure(&self, settings: &[(&str, &str)]) {
        let path = self.dir.path().join("data/postgresql.conf");
        let mut conf = fs::read_to_string(&path).unwrap();
        let socket_dir = self.dir.path().display().to_string();
        let own =
            [("listen_addresses", ""), ("unix_socket_directories", &socket_dir), ("max_connections", "100")];
        for (name, value) in own.iter().chain(settings) {
            writeln!(conf, "{name} = '{value}'").unwrap();
        }
        fs::write(path, conf).unwrap();
    }

    /// Starts the server on its data, and waits until it takes connections.
    pub fn launch(&self) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path().join("log")).unwrap();
        let mut command = self.command("postgres", &["-D", "data"]);
        if let Some(library) = &self.faketime {
            command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", self.path().join("clock"));
            command.env("FAKETIME_NO_CACHE", "1").env("DONT_FAKE_MONOTONIC", "1");
        }
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        *self.postmaster.lock().unwrap() = Some(child);
        let deadline = Instant::now() + Duration::from_secs(60);
        while let Err(error) = self.config("postgres").connect(NoTls) {
            assert!(Instant::now() < deadline, "{error}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Stops the server as a crash does: every process of it is killed.
    pub fn crash(&self) {
        let mut postmaster = self.postmaster.lock().unwrap().take().expect("a running server");
        // Stopped, it starts no new ones while the others are killed.
        send(Signal::STOP, postmaster.id());
        let children = children(postmaster.id());
        for &pid in &children {
            send(Signal::KILL, pid);
        }
        postmaster.kill().unwrap();
        postmaster.wait().unwrap();
        for pid in children {
            while is_alive(pid) {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }

    /// Stops the server in good order; what is connected is cut off.
    pub fn stop(&self) {
        let mut postmaster = self.postmaster.lock().unwrap().take().expect("a running server");
        send(Signal::INT, postmaster.id());
        assert!(postmaster.wait().unwrap().success(), "{}", self.log());
    }

    pub fn connect(&self) -> Client {
        self.connect_to("postgres")
    }

    pub fn connect_to(&self, database: &str) -> Client {
        self.config(database).connect(NoTls).unwrap()
    }

    pub fn config(&self, database: &str) -> Config {
        let mut config = Config::new();
        config.host_path(self.dir.path()).user("postgres").dbname(database);
        config
    }

    /// Runs one of PostgreSQL's programs as the server's user, in the server's folder.
    pub fn run(&self, program: &str, arguments: &[&str]) {
        let output = self.command(program, arguments).output().unwrap();
        // pg_upgrade tells its errors on the standard output.
        let said = [output.stderr, output.stdout].concat();
        assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&said));
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.args(arguments).current_dir(self.dir.path()).stdin(Stdio::null());
        command.env("PGHOST", self.dir.path()).env("PGUSER", "postgres").env_remove("RUST_BACKTRACE");
        if let Some((uid, gid)) = self.owner {
            command.uid(uid).gid(gid);
        }
        command
    }

    /// Where its programs are.
    pub fn bin(&self) -> &Path {
        &self.bin
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut postmaster) = self.postmaster.lock().unwrap().take() {
            send(Signal::QUIT, postmaster.id());
            let _ = postmaster.wait();
        }
    }
}

fn pg_config() -> String {
    std::env::var("PG_CONFIG").unwrap_or_else(|_| "pg_config".into())
}

/// A client's program's output, trimmed.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn send(signal: Signal, pid: u32) {
    let process = Pid::from_raw(pid as i32).expect("a process id");
    match rustix::process::kill_process(process, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {} // it may have ended already
        Err(error) => panic!("{signal:?} to {pid}: {error}"),
    }
}

fn is_alive(pid: u32) -> bool {
    // A zombie is dead: nothing of it runs, its parent has only not asked yet.
    stat(pid).is_some_and(|fields| fields[0] != "Z")
}

fn children(parent: u32) -> Vec<u32> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&pid| stat(pid).is_some_and(|fields| fields[1] == parent.to_string()))
        .collect()
}

/// The fields of `/proc/PID/stat` from the state on.
fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    Some(fields.split(' ').map(str::to_owned).collect())
}

/// CPU time that a process of one thread has used so far.
pub fn cpu_time(pid: i32) -> Duration {
    let schedstat = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    let (nanoseconds, _) = schedstat.split_once(' ').unwrap();
    Duration::from_nanos(nanoseconds.parse().unwrap())
}

pub fn one<T: for<'a> postgres::types::FromSql<'a>>(client: &mut Client, query: &str) -> T {
    client.query_one(query, &[]).unwrap_or_else(|error| panic!("{query}: {error}")).get(0)
}

pub fn column(client: &mut Client, query: &str) -> Vec<i64> {
    client
        .query(query, &[])
        .unwrap_or_else(|error| panic!("{query}: {error}"))
        .iter()
        .map(|row| row.get(0))
        .collect()
}

/// SQLSTATE, message and hint of the error that a statement raises.
pub fn error_of(client: &mut Client, statement: &str) -> (String, String, String) {
    let error = client.batch_execute(statement).expect_err(statement);
    let error = error.as_db_error().unwrap_or_else(|| panic!("{statement}: {error}"));
    (error.code().code().into(), error.message().into(), error.hint().unwrap_or_default().into())
}

/// The extension, and shard 5.
pub fn setup(client: &mut Client) {
    client.batch_execute("CREATE EXTENSION instagram_id; SELECT create_shard(5)").unwrap();
}

/// Seconds by which an id's time is ahead of the server's clock.
pub fn lead(client: &mut Client, id: i64) -> f64 {
    one(client, &format!("SELECT extract(epoch FROM id_time({id}) - clock_timestamp())::float8"))
}

/// How many of the ids are in more than one place.
pub fn duplicates(sessions: &[Vec<i64>]) -> usize {
    let all: usize = sessions.iter().map(Vec::len).sum();
    let distinct: HashSet<i64> = sessions.iter().flatten().copied().collect();
    all - distinct.len()
}

/// Checks that each session's ids grow, and that no id is in two places.
#[track_caller]
pub fn check_unique_and_increasing(sessions: &[Vec<i64>]) {
    for (session, ids) in sessions.iter().enumerate() {
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] >= pair[1]) {
            panic!("session {session}: {} is followed by {}", pair[0], pair[1]);
        }
    }
    let duplicates = duplicates(sessions);
    assert_eq!(duplicates, 0, "{duplicates} duplicates");
}

/// Milliseconds from an id's epoch.
pub fn ms_of(id: i64) -> i64 {
    id >> 23
}

/// Sets a sequence that has been used an hour further, to where the clock would no longer hide a loss.
pub fn set_an_hour_ahead(client: &mut impl GenericClient, sequence: &str) {
    let set = format!("SELECT setval($${sequence}$$, last_value + 3600000 * 1024::bigint) FROM {sequence}");
    client.batch_execute(&set).unwrap();
}

/// Runs `session(n)` for n in 0..count, each in a thread of its own, and returns what they return.
pub fn in_parallel<T: Send>(count: usize, session: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let session = &session;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|n| scope.spawn(move || session(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// The middle one of some measurements.
pub fn median(mut values: Vec<Duration>) -> Duration {
    values.sort();
    values[values.len() / 2]
}

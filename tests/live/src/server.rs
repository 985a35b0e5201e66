//! Servers for the tests to start, crash and stop.

use crate::clock::ClockOfItsOwn;
use crate::disk::FaultyDisk;
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};
use rustix::process::{Pid, Signal};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The settings of a server that publishes and subscribes.
pub const LOGICAL: [(&str, &str); 3] =
    [("fsync", "off"), ("wal_level", "logical"), ("wal_retrieve_retry_interval", "50ms")];

/// A PostgreSQL server of the test.
pub struct Server {
    dir: TempDir,
    bin: PathBuf,
    owner: Option<(u32, u32)>,
    clock: Option<ClockOfItsOwn>,
    disk: Option<FaultyDisk>,
    /// A command of the shell that starts the server.
    preparation: Mutex<String>,
    postmaster: Mutex<Option<Child>>,
    number: Number,
    /// Whether it has no database but `postgres`.
    has_one_database: bool,
}

/// An address that accepts connections and never answers.
pub struct Hanging {
    _listener: UnixListener,
    socket: PathBuf,
}

impl Drop for Hanging {
    fn drop(&mut self) {
        fs::remove_file(&self.socket).expect("the socket of the listener");
    }
}

/// The smallest number that no other server of this process has.
struct Number(usize);

static NUMBERS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

impl Number {
    fn new() -> Number {
        let mut taken = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        let number = (0..).find(|number| !taken.contains(number)).expect("there are enough");
        taken.insert(number);
        Number(number)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        NUMBERS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

impl Server {
    /// Initializes a cluster with these settings in addition to the defaults, and starts it.
    pub fn start(settings: &[(&str, &str)]) -> Server {
        Server::start_of(&pg_config(), settings)
    }

    /// Same without the databases `template0` and `template1`. Two thirds of the files of a new
    /// cluster are theirs.
    pub fn start_with_one_database(settings: &[(&str, &str)]) -> Server {
        let mut server = Server::new(&pg_config());
        server.has_one_database = true;
        server.initialize(settings);
        server
    }

    /// Like [`Server::start`] for the PostgreSQL of this `pg_config`.
    pub fn start_of(pg_config: &str, settings: &[(&str, &str)]) -> Server {
        let server = Server::new(pg_config);
        server.initialize(settings);
        server
    }

    fn initialize(&self, settings: &[(&str, &str)]) {
        self.make_cluster();
        self.configure(settings);
        self.launch();
    }

    /// A new cluster, copied from a cached one: initdb takes a second of CPU time, a copy a
    /// twentieth of it. No two servers that run at the same time have the same system identifier.
    fn make_cluster(&self) {
        let postgres = self.bin.join("postgres");
        let built = fs::metadata(&postgres).unwrap().mtime();
        let version = output(Command::new(&postgres).arg("--version"));
        let databases = if self.has_one_database { " postgres" } else { "" };
        let name = format!("{version} {built}{databases} {}", self.number.0)
            .replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let kept = crate::CACHE.join("clusters").join(name);
        if kept.exists() {
            copy(&kept, &self.path().join("data"));
            return;
        }
        let options =
            ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"];
        self.run("initdb", &[&["-D", "data"], &options[..]].concat());
        if self.has_one_database {
            self.drop_templates();
        }
        // Another test may create the cached cluster at the same time: the first one is kept.
        let new = kept.with_extension(std::process::id().to_string());
        fs::create_dir_all(kept.parent().unwrap()).unwrap();
        copy(&self.path().join("data"), &new);
        if fs::rename(&new, &kept).is_err() {
            fs::remove_dir_all(&new).unwrap();
        }
    }

    /// In a server for a single user, which ends with its input, and only logs an error.
    fn drop_templates(&self) {
        let statements = self.path().join("statements");
        let text = "UPDATE pg_database SET datistemplate = false
            WHERE datname <> 'postgres';\n\nDROP DATABASE template0;\n\nDROP DATABASE template1;\n\n";
        fs::write(&statements, text).unwrap();
        let mut alone = self.command("postgres", &["--single", "-j", "-D", "data", "postgres"]);
        let output = alone.stdin(fs::File::open(&statements).unwrap()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("ERROR:"), "{said}");
    }

    /// A server whose clock is set by [`Server::set_clock`].
    pub fn start_with_a_clock_of_its_own(settings: &[(&str, &str)]) -> Server {
        let mut server = Server::new(&pg_config());
        server.clock = Some(ClockOfItsOwn::new(server.path()));
        server.initialize(settings);
        // The dynamic loader ignores a library that it cannot preload.
        assert!(!server.log().contains("cannot be preloaded"), "{}", server.log());
        server
    }

    /// A server whose disk fails when the test wants it to: [`Server::disk`]. Such a failure can
    /// stop the server.
    pub fn start_with_a_faulty_disk(settings: &[(&str, &str)]) -> Server {
        let mut server = Server::new(&pg_config());
        server.disk = Some(FaultyDisk::new(server.path()));
        let settings = [settings, &[("restart_after_crash", "off")]].concat();
        server.initialize(&settings);
        assert!(!server.log().contains("cannot be preloaded"), "{}", server.log());
        server
    }

    /// Restarts the server with another environment, or with limits, which this shell command sets.
    pub fn restart_after(&self, command: &str) {
        *self.preparation.lock().unwrap() = command.to_owned();
        self.stop();
        self.launch();
    }

    pub fn disk(&self) -> &FaultyDisk {
        self.disk.as_ref().expect("a faulty disk")
    }

    /// Sets the server's clock to this many seconds ahead of the machine's. All its processes use
    /// it at once.
    pub fn set_clock(&self, offset: f64) {
        self.clock.as_ref().expect("a clock of its own").set(offset);
    }

    /// Starts a copy of a running server, with all its settings, as a standby that follows it.
    pub fn start_standby_of(primary: &Server) -> Server {
        let standby = Server::copy_of(primary, &["-R"]);
        standby.configure(&[]);
        standby.launch();
        standby
    }

    /// A base backup of a running server, for [`Server::recover`].
    pub fn back_up(primary: &Server) -> Server {
        Server::copy_of(primary, &[])
    }

    fn copy_of(primary: &Server, options: &[&str]) -> Server {
        let copy = Server::new(&pg_config());
        let host = primary.dir.path().to_str().unwrap();
        let backup = ["-h", host, "-U", "postgres", "-D", "data", "--checkpoint=fast", "--no-sync"];
        copy.run("pg_basebackup", &[&backup[..], options].concat());
        copy
    }

    /// Starts a base backup as a server: these settings locate the WAL after it, and set the
    /// recovery target.
    pub fn recover(&self, settings: &[(&str, &str)]) {
        fs::write(self.path().join("data/recovery.signal"), "").unwrap();
        self.configure(settings);
        self.configure(&[("recovery_target_action", "promote")]);
        self.launch();
        self.wait_until("SELECT NOT pg_is_in_recovery()");
    }

    /// Waits until a query that returns one boolean returns true.
    pub fn wait_until(&self, query: &str) {
        let mut client = self.connect();
        self.wait_for(query, || crate::one(&mut client, query));
    }

    /// The sessions, and how far replication is, as JSON.
    pub fn replication(&self) -> Vec<String> {
        let rows =
            "SELECT to_jsonb(s) - '{backend_start,query_id}'::text[] FROM pg_stat_activity AS s
                WHERE backend_type NOT IN ('checkpointer', 'background writer', 'walwriter')
            UNION ALL SELECT to_jsonb(s) FROM pg_stat_replication AS s
            UNION ALL SELECT to_jsonb(s) FROM pg_replication_slots AS s
            UNION ALL SELECT to_jsonb(s) FROM pg_stat_subscription AS s
            UNION ALL SELECT to_jsonb(s) FROM pg_subscription_rel AS s
            UNION ALL SELECT to_jsonb(s) FROM pg_locks AS s WHERE NOT granted
            UNION ALL SELECT to_jsonb(pg_current_wal_lsn()::text) WHERE NOT pg_is_in_recovery()";
        let query = format!("SELECT s::text FROM ({rows}) AS s (s)");
        crate::texts(&mut self.connect(), &query)
    }

    /// Waits until a condition holds, for a minute at most.
    #[track_caller]
    pub fn wait_for(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            if Instant::now() > deadline {
                // Otherwise threads that wait for the server would block the panic.
                if self.is_running() {
                    self.stop_at_once();
                }
                panic!("waited in vain: {what}\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Copies a database as `copy`. Sessions that were just closed may still be connected to it for
    /// a moment.
    pub fn copy_database(&self, template: &str, strategy: &str) {
        let copy = format!("CREATE DATABASE copy TEMPLATE {template} STRATEGY {strategy}");
        self.wait_for(&copy, || match self.connect().batch_execute(&copy) {
            Ok(()) => true,
            Err(error) if error.code() == Some(&SqlState::OBJECT_IN_USE) => false,
            Err(error) => panic!("{copy}: {}", crate::why(&error)),
        });
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
        Server {
            dir,
            bin,
            owner,
            clock: None,
            disk: None,
            preparation: Mutex::default(),
            postmaster: Mutex::new(None),
            number: Number::new(),
            has_one_database: false,
        }
    }

    fn configure(&self, settings: &[(&str, &str)]) {
        let path = self.dir.path().join("data/postgresql.conf");
        let mut conf = fs::read_to_string(&path).unwrap();
        let socket_dir = self.dir.path().display().to_string();
        let own = [
            ("listen_addresses", ""),
            ("unix_socket_directories", &socket_dir),
            ("max_connections", "100"),
            // Shared memory in files in the server's folder. The folder is removed even if the
            // server was killed.
            ("dynamic_shared_memory_type", "mmap"),
            // In PostgreSQL 15 a compiled parallel query may end with a PANIC if the postmaster is
            // killed.
            ("jit", "off"),
        ];
        for (name, value) in own.iter().chain(settings) {
            writeln!(conf, "{name} = '{value}'").unwrap();
        }
        fs::write(path, conf).unwrap();
    }

    /// Starts the server, and waits until it accepts connections. It forks for each attempt to
    /// connect that is too early, so there is none before it logs that it is ready.
    pub fn launch(&self) {
        self.launch_until("database system is ready to accept");
        self.wait_for("connections", || self.try_connect().is_ok());
    }

    /// Starts the server, and waits only until it listens, which is before recovery. A server that
    /// is killed even earlier may leave an empty lock file, with which no server starts.
    pub fn launch_without_waiting(&self) {
        self.launch_until("listening on Unix socket");
    }

    /// Starts the server, and waits until it logs this.
    fn launch_until(&self, message: &str) {
        let logged = || self.log().matches(message).count();
        let before = logged();
        self.spawn();
        self.wait_for(message, || logged() > before);
    }

    fn spawn(&self) {
        let log =
            fs::OpenOptions::new().create(true).append(true).open(self.path().join("log")).unwrap();
        let preparation = self.preparation.lock().unwrap();
        let mut command = self.command("postgres", &["-D", "data"]);
        if !preparation.is_empty() {
            let script = format!("{preparation}\nexec \"$0\" -D data");
            command = Command::new("sh");
            command.args(["-e", "-c", &script]).arg(self.bin.join("postgres"));
            self.prepare(&mut command);
        }
        if let Some(clock) = &self.clock {
            clock.show(&mut command);
        }
        if let Some(disk) = &self.disk {
            disk.show(&mut command);
        }
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        *self.postmaster.lock().unwrap() = Some(child);
    }

    /// Stops the server as a crash does: kills all its processes.
    pub fn crash(&self) {
        let mut postmaster = self.take_postmaster();
        let children = self.last_children(postmaster.id());
        for &pid in &children {
            send(Signal::KILL, pid);
        }
        postmaster.kill().unwrap();
        postmaster.wait().unwrap();
        self.wait_for_the_end_of(&children);
    }

    /// Kills only the postmaster. Each of the other processes notices this at its next wait, and
    /// exits.
    pub fn kill_postmaster(&self) {
        let mut postmaster = self.take_postmaster();
        let children = self.last_children(postmaster.id());
        postmaster.kill().unwrap();
        postmaster.wait().unwrap();
        self.wait_for_the_end_of(&children);
    }

    /// Kills one backend, after which the postmaster terminates all others and recovers as after a
    /// crash.
    pub fn kill_backend(&self, pid: i32) {
        send(Signal::KILL, pid as u32);
    }

    /// Stops a backend until it is thawed.
    pub fn freeze(&self, pid: i32) {
        send(Signal::STOP, pid as u32);
        // One that has ended stays a zombie if its parent, the postmaster, is frozen.
        self.wait_for("a backend that stands still", || {
            stat(pid as u32).is_none_or(|fields| matches!(&*fields[0], "T" | "Z"))
        });
    }

    pub fn thaw(&self, pid: i32) {
        send(Signal::CONT, pid as u32);
    }

    /// Stops the server without notice to its sessions and without a checkpoint: an `immediate`
    /// shutdown.
    pub fn stop_at_once(&self) {
        let mut postmaster = self.take_postmaster();
        send(Signal::QUIT, postmaster.id());
        // It may be frozen.
        send(Signal::CONT, postmaster.id());
        postmaster.wait().unwrap();
    }

    /// Stops the server with a `fast` shutdown, which disconnects the sessions.
    pub fn stop(&self) {
        let mut postmaster = self.take_postmaster();
        send(Signal::INT, postmaster.id());
        assert!(postmaster.wait().unwrap().success(), "{}", self.log());
    }

    /// Stops the server, and lets its address accept connections and never answer, until the result
    /// is dropped.
    pub fn hang(&self) -> Hanging {
        self.stop();
        let socket = self.path().join(".s.PGSQL.5432");
        let listener = UnixListener::bind(&socket).expect("the server has removed its socket");
        // The servers can run as another user.
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).unwrap();
        Hanging { _listener: listener, socket }
    }

    /// Whether the server has stopped by itself.
    pub fn has_stopped(&self) -> bool {
        let mut postmaster = self.postmaster.lock().unwrap();
        let has_stopped =
            postmaster.as_mut().is_none_or(|process| process.try_wait().unwrap().is_some());
        if has_stopped {
            *postmaster = None;
        }
        has_stopped
    }

    pub fn is_running(&self) -> bool {
        self.postmaster.lock().unwrap().is_some()
    }

    fn take_postmaster(&self) -> Child {
        // Releases the lock before a panic: Drop takes it.
        let postmaster = self.postmaster.lock().unwrap().take();
        postmaster.expect("a running server")
    }

    /// Stops the postmaster with a signal, so that it starts no new processes while its children
    /// are killed.
    fn last_children(&self, postmaster: u32) -> Vec<u32> {
        send(Signal::STOP, postmaster);
        // It may be in the middle of a fork.
        let stands_still =
            || stat(postmaster).is_none_or(|fields| ["T", "Z"].contains(&fields[0].as_str()));
        self.wait_for("a postmaster that stands still", stands_still);
        children(postmaster)
    }

    fn wait_for_the_end_of(&self, processes: &[u32]) {
        self.wait_for("the end of its processes", || !processes.iter().any(|&pid| is_alive(pid)));
    }

    pub fn connect(&self) -> Client {
        self.connect_to("postgres")
    }

    /// Same for a server that may be stopping or starting.
    pub fn try_connect(&self) -> Result<Client, postgres::Error> {
        self.config("postgres").connect(NoTls)
    }

    pub fn connect_as(&self, role: &str) -> Client {
        self.config("postgres").user(role).connect(NoTls).unwrap()
    }

    pub fn connect_to(&self, database: &str) -> Client {
        self.config(database).connect(NoTls).unwrap()
    }

    pub fn config(&self, database: &str) -> Config {
        let mut config = Config::new();
        config.host_path(self.dir.path()).user("postgres").dbname(database);
        config
    }

    /// Runs one of PostgreSQL's programs as the server's user, in the server's folder, and returns
    /// its output.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.command(program, arguments).output().unwrap();
        // pg_upgrade reports errors on standard output.
        let said = [output.stderr, output.stdout]
            .map(|said| String::from_utf8_lossy(&said).into_owned())
            .concat();
        assert!(output.status.success(), "{program} {arguments:?}: {said}");
        said
    }

    /// The PATH of this process, preceded by the folder of this PostgreSQL's programs.
    pub fn programs_path(&self) -> String {
        format!("{}:{}", self.bin.display(), std::env::var("PATH").unwrap())
    }

    /// The command `instagram_id_shards`, with its map in the database `map` of this server. By
    /// default, a move may stop writes for longer than a user's, since the tests that run at the
    /// same time slow it down.
    pub fn shards_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.bin.join("instagram_id_shards"));
        command.args(arguments);
        let is_move = ["move", "apply"].iter().any(|name| arguments.contains(name));
        if is_move && !arguments.contains(&"--stop") {
            command.args(["--stop", "20"]);
        }
        command
            .env("PATH", self.programs_path())
            .env(
                "INSTAGRAM_ID_MAP",
                format!("host={} user=postgres dbname=map", self.path().display()),
            )
            .stdin(Stdio::null());
        command
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.args(arguments);
        self.prepare(&mut command);
        command
    }

    /// Runs a command as the server's user, in the server's folder.
    fn prepare(&self, command: &mut Command) {
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command.env("PGHOST", self.dir.path()).env("PGUSER", "postgres");
        if let Some((uid, gid)) = self.owner {
            command.uid(uid).gid(gid);
        }
    }

    /// The user and the group of its processes, if they are not those of the test.
    pub fn owner(&self) -> Option<(u32, u32)> {
        self.owner
    }

    /// The folder of its programs.
    pub fn bin(&self) -> &Path {
        &self.bin
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Removes the System V shared memory segment of a killed server, which its lock file names.
    /// Otherwise the segment would stay until the server is started again.
    fn remove_segment(&self) {
        let lock_file =
            fs::read_to_string(self.path().join("data/postmaster.pid")).unwrap_or_default();
        let segment = lock_file.lines().nth(6).and_then(|line| line.split_whitespace().nth(1));
        if let Some(segment) = segment {
            // Another process of the server may have removed it.
            let _ = Command::new("ipcrm").args(["-m", segment]).stderr(Stdio::null()).status();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Poisoned if the test has failed.
        let postmaster = self.postmaster.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut postmaster) = postmaster {
            send(Signal::QUIT, postmaster.id());
            let _ = postmaster.wait();
        }
        self.remove_segment();
        if !std::thread::panicking() {
            let log = self.log();
            let mut crashes: Vec<&str> = log.lines().filter(|line| is_of_a_crash(line)).collect();
            if self.disk.is_some() {
                crashes = without_crashes_of_the_disk(crashes);
            }
            assert!(crashes.is_empty(), "{crashes:#?}");
        }
    }
}

/// Whether a line of the log reports a crash that the test did not cause: tests kill with signal 9.
fn is_of_a_crash(line: &str) -> bool {
    let is_signal =
        line.contains("was terminated by signal") && !line.contains("was terminated by signal 9");
    // An ERROR can contain the PANIC of the server that this one replicates.
    let is_panic = line.split_once("PANIC:").is_some_and(|(before, _)| !before.contains("ERROR:"));
    is_signal || is_panic || line.contains("TRAP:")
}

/// A process that cannot write or sync a file logs a PANIC with the reason and aborts. The
/// postmaster reports the first of them that ends.
fn without_crashes_of_the_disk(crashes: Vec<&str>) -> Vec<&str> {
    let (panics, others): (Vec<_>, Vec<_>) =
        crashes.into_iter().partition(|line| is_panic_of_the_disk(line));
    let mut expected = panics.len();
    let is_unexpected = |line: &&str| {
        let is_expected = expected > 0 && line.contains("was terminated by signal 6");
        expected -= usize::from(is_expected);
        !is_expected
    };
    others.into_iter().filter(is_unexpected).collect()
}

/// Whether a line of the log is a PANIC with the reason of an injected fault.
pub fn is_panic_of_the_disk(line: &str) -> bool {
    // A PANIC while a statement is parsed also has the position in it.
    let line = line.split_once(" at character ").map_or(line, |(line, _)| line);
    let reasons = [": Input/output error", ": No space left on device"];
    let is_fault =
        line.contains("PANIC:  could not ") && reasons.iter().any(|reason| line.ends_with(reason));
    // If the fsync of a new WAL segment fails, PostgreSQL logs this, does not install the segment,
    // and cannot open it.
    let is_not_installed = line.contains("PANIC:  could not open file \"pg_wal/");
    is_fault || is_not_installed && line.ends_with(": No such file or directory")
}

fn pg_config() -> String {
    std::env::var("PG_CONFIG").unwrap_or_else(|_| "pg_config".into())
}

/// The output of the `pg_config` of the PostgreSQL under test.
pub fn pg_config_says(what: &str) -> String {
    output(Command::new(pg_config()).arg(what))
}

/// The major version of the PostgreSQL under test.
pub fn major() -> u32 {
    let version = pg_config_says("--version");
    let major =
        version.trim_start_matches("PostgreSQL ").split(|c: char| !c.is_ascii_digit()).next();
    major.unwrap().parse().unwrap()
}

/// Copies a folder with its contents, owners and permissions.
fn copy(from: &Path, to: &Path) {
    output(Command::new("cp").arg("-a").arg(from).arg(to));
}

/// The trimmed output of a client program.
pub(crate) fn output(command: &mut Command) -> String {
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
    // A zombie is dead: its parent has only not waited for it yet.
    stat(pid).is_some_and(|fields| fields[0] != "Z")
}

fn children(parent: u32) -> Vec<u32> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&pid| stat(pid).is_some_and(|fields| fields[1] == parent.to_string()))
        .collect()
}

/// The fields of `/proc/PID/stat`, starting with the state.
fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    Some(fields.split(' ').map(str::to_owned).collect())
}

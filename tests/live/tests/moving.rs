//! Tests of `instagram_id_shards`, which moves a shard from one server to another while clients
//! write.

use instagram_id_live::*;
use postgres::{Client, Config, Error, NoTls};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Between the statements of a session: the single replication process must be able to keep up.
const PAUSE: Duration = Duration::from_millis(5);

/// Rows inserted in each way that applications use.
fn writers() -> [Work; 5] {
    const ROW: &str = "INSERT INTO insta5.photos DEFAULT VALUES RETURNING id;";
    [
        query(ROW),
        query("INSERT INTO insta5.photos (batch) SELECT generate_series(1, 50) RETURNING id"),
        query(format!("BEGIN; {ROW} {ROW} COMMIT")),
        query("INSERT INTO insta5.photos VALUES (DEFAULT, 1), (next_id(5), 2) RETURNING id"),
        copy("insta5.photos", 50),
    ]
}

/// Two servers, a and b, with the map in a database on b. The map places shard 5 on a.
pub(crate) struct Servers {
    pub(crate) a: Server,
    pub(crate) b: Server,
}

impl Servers {
    /// With shard 5 on a, with three tables.
    pub(crate) fn start() -> Servers {
        Servers::start_with(&[])
    }

    /// Same as `start`, with additional settings.
    pub(crate) fn start_with(settings: &[(&str, &str)]) -> Servers {
        let settings = [&LOGICAL, settings].concat();
        let (a, b) = thread::scope(|scope| {
            let a = scope.spawn(|| Server::start(&settings));
            let b = Server::start(&settings);
            (a.join().unwrap(), b)
        });
        let servers = Servers::of(a, b);
        create_tables(&mut servers.a.connect());
        servers
    }

    pub(crate) fn of(a: Server, b: Server) -> Servers {
        run(&mut b.connect(), "CREATE DATABASE map");
        run(&mut b.connect(), "CREATE EXTENSION instagram_id");
        let servers = Servers { a, b };
        servers.command(&["init"]);
        let [a, b] = [&servers.a, &servers.b].map(|server| conninfo(server, "postgres"));
        let record = format!(
            "INSERT INTO shard_map.servers VALUES ('a', '{a}'), ('b', '{b}');
             INSERT INTO shard_map.shards (shard, server) VALUES (5, 'a')"
        );
        run(&mut servers.map(), &record);
        servers
    }

    /// Makes the command connect to this server as this user, which parameters may follow.
    pub(crate) fn connect_as(&self, name: &str, user: &str, options: &[&str]) {
        let server = if name == "a" { &self.a } else { &self.b };
        let conninfo = format!("host={} dbname=postgres user={user}", server.path().display());
        self.command(&[&["server", name, &conninfo], options].concat());
    }

    pub(crate) fn map(&self) -> Client {
        self.b.connect_to("map")
    }

    /// Runs the command, which must succeed, and returns its output.
    #[track_caller]
    pub(crate) fn command(&self, arguments: &[&str]) -> String {
        self.run(arguments).unwrap_or_else(|said| panic!("{arguments:?}: {said}"))
    }

    /// Runs the command, which must fail, and returns its output.
    #[track_caller]
    pub(crate) fn refusal(&self, arguments: &[&str]) -> String {
        self.refuses(arguments, "error: ")
    }

    /// Runs the command, which must fail for this reason, and returns its output.
    #[track_caller]
    pub(crate) fn refuses(&self, arguments: &[&str], reason: &str) -> String {
        fails(self.start_command(arguments), reason)
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Result<String, String> {
        outcome(self.start_command(arguments))
    }

    pub(crate) fn start_command(&self, arguments: &[&str]) -> Child {
        self.b
            .shards_command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap()
    }

    /// The server of shard 5 in the map.
    pub(crate) fn placement(&self) -> String {
        one(&mut self.map(), "SELECT server FROM shard_map.shards WHERE shard = 5")
    }

    /// Connects to that server.
    pub(crate) fn connect_to_shard(&self) -> Client {
        self.try_connect_to_shard().unwrap()
    }

    /// Same while servers may be stopped, or the map.
    pub(crate) fn try_connect_to_shard(&self) -> Result<Client, Error> {
        let query = "SELECT conninfo FROM shard_map.shards JOIN shard_map.servers USING (server) WHERE shard = 5";
        let mut map = self.b.config("map").connect(NoTls)?;
        let conninfo: String = map.query_one(query, &[])?.get(0);
        conninfo.parse::<Config>().unwrap().connect(NoTls)
    }

    /// Runs `work` as a client that follows the map does: if it is refused, it reads the map again
    /// and retries on the server named there.
    fn routed<T>(
        &self,
        client: &mut Client,
        mut work: impl FnMut(&mut Client) -> Result<T, Error>,
    ) -> T {
        let started = Instant::now();
        loop {
            match work(client) {
                Ok(result) => return result,
                Err(error) => {
                    // The client library returns an error without a code if a COPY is refused
                    // before its data has been sent.
                    assert!(error.code().is_none_or(|code| code.code() == "25006"), "{error:?}");
                    assert!(
                        started.elapsed() < Duration::from_secs(60),
                        "refused for a minute: {error:?}"
                    );
                }
            }
            thread::sleep(Duration::from_millis(2));
            *client = self.connect_to_shard();
        }
    }

    /// Runs a client that does each piece of work in turn on the server of shard 5 until `stop`.
    /// Returns the ids it received, and the longest time that a piece took.
    fn session(&self, work: &[Work], stop: &AtomicBool) -> (Received, Duration) {
        let mut client = self.connect_to_shard();
        let mut received = Received::default();
        let mut longest = Duration::ZERO;
        for piece in work.iter().cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
            let started = Instant::now();
            self.routed(&mut client, |client| piece(client, &mut received));
            longest = longest.max(started.elapsed());
            thread::sleep(PAUSE);
        }
        (received, longest)
    }

    /// Runs clients that write to shard 5 in every way, on whichever server it is, until `during`
    /// returns.
    fn under_load<T>(&self, during: impl FnOnce() -> T) -> (Load, T) {
        let stop = &AtomicBool::new(false);
        thread::scope(|scope| {
            let stop_at_end = StopAtEnd(stop);
            let inserting: Vec<_> =
                (0..3).map(|_| scope.spawn(|| self.session(&writers(), stop))).collect();
            let ids = [query("SELECT next_id(5)"), query("SELECT next_ids(5, 50)")];
            let calling = scope.spawn(move || self.session(&ids, stop));
            let counting = scope.spawn(|| {
                let mut client = self.connect_to_shard();
                let mut counted = 0;
                while !stop.load(Ordering::Relaxed) {
                    let count = "UPDATE insta5.counter SET value = value + 1";
                    self.routed(&mut client, |client| client.batch_execute(count));
                    counted += 1;
                    thread::sleep(PAUSE);
                }
                counted
            });
            let result = during();
            drop(stop_at_end);
            let (inserted, times): (Vec<_>, Vec<_>) =
                inserting.into_iter().map(|session| session.join().unwrap()).unzip();
            let called = calling.join().unwrap().0;
            let longest = times.into_iter().max().unwrap();
            (Load { inserted, called, counted: counting.join().unwrap(), longest }, result)
        })
    }
}

/// Creates the extension, and shard 5 with three tables.
pub(crate) fn create_tables(client: &mut Client) {
    setup_photos(client);
    run(client, "CREATE TABLE insta5.counter (n int PRIMARY KEY, value bigint);
             INSERT INTO insta5.counter SELECT n, 0 FROM generate_series(1, 2) AS n;
             CREATE TABLE insta5.\"It's \"\"odd\"\"\" (id serial PRIMARY KEY, photo bigint REFERENCES insta5.photos)");
}

/// Waits for the end of a command. Returns its output, as an error with the exit status if it
/// failed.
pub(crate) fn outcome(command: Child) -> Result<String, String> {
    let output = command.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap()).concat();
    if output.status.success() {
        return Ok(said);
    }
    Err(format!("{said}exit status {}", output.status.code().unwrap()))
}

/// Waits for the end of a command that must fail for this reason. Returns its output.
#[track_caller]
pub(crate) fn fails(command: Child, reason: &str) -> String {
    let said = outcome(command).expect_err(reason);
    assert!(said.contains(reason), "{reason}: {said}");
    said
}

/// The work that clients have done.
struct Load {
    /// Ids of inserts.
    inserted: Vec<Received>,
    /// Ids of calls, which are in no row.
    called: Received,
    /// How often the counters were incremented.
    counted: i64,
    /// The longest time that an insert took, including retries.
    longest: Duration,
}

impl Load {
    /// Checks that the tables contain exactly what the clients had acknowledged; then the ids.
    #[track_caller]
    fn check(
        self,
        scenario: &str,
        clock: Clock,
        faults: usize,
        rows_before: &[i64],
        servers: &Servers,
    ) {
        let mut client = servers.connect_to_shard();
        let mut rows: Vec<i64> =
            self.inserted.iter().flat_map(|session| &session.ids).copied().collect();
        rows.extend(rows_before);
        rows.sort_unstable();
        let is = column(&mut client, "SELECT id FROM insta5.photos ORDER BY id");
        let missing = rows.iter().filter(|id| is.binary_search(id).is_err()).count();
        assert_eq!((missing, is.len()), (0, rows.len()), "{scenario}: rows lost, rows there");
        assert_eq!(
            column(&mut client, "SELECT value FROM insta5.counter"),
            [self.counted, self.counted],
            "{scenario}: counted"
        );
        println!(
            "{scenario}: the longest insert took {:.3?}, {} updates",
            self.longest, self.counted
        );
        let mut journal = Journal::new(scenario, clock);
        journal.faults = faults;
        journal.add(self.inserted);
        journal.add([self.called]);
        journal.check();
    }
}

/// All objects that a move creates, apart from the shard itself.
pub(crate) fn leftovers(server: &Server) -> Vec<String> {
    let query = "SELECT 'publication ' || pubname FROM pg_publication
        UNION ALL SELECT 'subscription ' || subname FROM pg_subscription
        UNION ALL SELECT 'slot ' || slot_name FROM pg_replication_slots
        UNION ALL SELECT 'origin ' || roname FROM pg_replication_origin";
    texts(&mut server.connect(), query)
}

/// The lines of a table of cases, whose columns are separated by ` | `.
pub(crate) fn cases<const N: usize>(table: &str) -> Vec<[&str; N]> {
    let columns = |line| str::split(line, " | ").collect::<Vec<_>>().try_into().expect(line);
    table.lines().map(str::trim).filter(|line| !line.is_empty()).map(columns).collect()
}

pub(crate) const NOTHING: [String; 0] = [];
pub(crate) const IS_CLOSED: &str = "SELECT EXISTS (SELECT FROM pg_proc
    WHERE proname = 'shard_is_elsewhere' AND obj_description(oid, 'pg_proc') IS NOT NULL)";
/// Statements that mark the schema as one that another move has closed.
pub(crate) const CLOSED_BY_ANOTHER_MOVE: &str =
    "CREATE FUNCTION insta5.shard_is_elsewhere() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END';
    COMMENT ON FUNCTION insta5.shard_is_elsewhere() IS 'closed by another move'";
pub(crate) const HAS_TRIGGERS: &str =
    "SELECT EXISTS (SELECT FROM pg_trigger WHERE tgname = 'shard_is_elsewhere')";
pub(crate) const HAS_SCHEMA: &str =
    "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'insta5')";
pub(crate) const MOVES: &str = "SELECT count(*) FROM shard_map.moves";

/// Fills the shard and returns the ids of its rows.
pub(crate) fn fill(servers: &Servers, rows: i64) -> Vec<i64> {
    column(
        &mut servers.a.connect(),
        &format!(
            "INSERT INTO insta5.photos (batch) SELECT n FROM generate_series(1, {rows}) AS n RETURNING id"
        ),
    )
}

/// Whether the command waits for a lock on a server, or pauses until it tries again.
pub(crate) const WAITS: &str =
    "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'instagram_id_move_5'
    AND backend_type = 'client backend' AND (wait_event_type = 'Lock' OR wait_event = 'PgSleep'))";

/// Starts a move to b and blocks it with a transaction on b after all rows are copied, before it
/// compares the tables.
pub(crate) fn move_blocked_after_copy(servers: &Servers, options: &[&str]) -> (Child, Client) {
    let mut command = servers.start_command(&[&["move", "5", "--to", "b"], options].concat());
    let transaction = block_after_copy(servers, &mut command);
    (command, transaction)
}

/// Starts a move to b, and kills the command after all rows are copied.
pub(crate) fn kill_after_copy(servers: &Servers) {
    let (command, mut transaction) = move_blocked_after_copy(servers, &[]);
    assert!(!kill_group(command));
    run(&mut transaction, "COMMIT");
}

/// Runs `check` while a seems open, as after a failover of a that has lost its closing.
pub(crate) fn while_closing_is_lost(servers: &Servers, check: impl FnOnce()) {
    let mut a = servers.a.connect();
    let closing: String =
        one(&mut a, "SELECT obj_description('insta5.shard_is_elsewhere'::regproc)");
    let comment = "COMMENT ON FUNCTION insta5.shard_is_elsewhere() IS";
    run(&mut a, &format!("{comment} NULL"));
    check();
    run(&mut a, &format!("{comment} '{closing}'"));
}

/// Drops the slot of the move on a, as a failover of a would.
pub(crate) fn lose_slot(servers: &Servers) {
    run(&mut servers.b.connect(), "ALTER SUBSCRIPTION instagram_id_move_5 DISABLE");
    let drop = "SELECT count(pg_drop_replication_slot(slot_name)) = 1 FROM pg_replication_slots WHERE NOT active";
    servers.a.wait_until(drop);
}

/// Blocks a running move in the same way.
pub(crate) fn block_after_copy(servers: &Servers, command: &mut Child) -> Client {
    wait_during(command, servers, &servers.b, "SELECT to_regclass('insta5.counter') IS NOT NULL");
    let mut transaction = servers.b.connect();
    // Blocks the command's ANALYZE.
    run(&mut transaction, "BEGIN; LOCK TABLE insta5.counter IN SHARE UPDATE EXCLUSIVE MODE");
    wait_during(command, servers, &servers.b, WAITS);
    transaction
}

/// Waits until a query on a server returns true. Shows what the command has said, and the
/// replication, if the command ends before, or runs for too long.
pub(crate) fn wait_during(command: &mut Child, servers: &Servers, server: &Server, query: &str) {
    let mut client = server.connect();
    let deadline = Instant::now() + Duration::from_secs(50);
    server.wait_for(query, || {
        let has_ended = command.try_wait().unwrap().is_some();
        if has_ended || Instant::now() > deadline {
            let replication = [&servers.a, &servers.b].map(Server::replication);
            command.kill().unwrap();
            let mut said = String::new();
            command.stdout.take().unwrap().read_to_string(&mut said).unwrap();
            command.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("the command has ended: {has_ended}, and said: {said}\n{replication:#?}");
        }
        one(&mut client, query)
    });
}

/// Starts a move to b, and blocks it when it is about to stop writes: with a transaction on a that
/// has run this statement, which writes to the shard, after all rows were copied to b. (An earlier
/// transaction would block the copy.)
pub(crate) fn move_blocked_before_stop(
    servers: &Servers,
    options: &[&str],
    statement: &str,
) -> (Child, Client) {
    let (command, mut other) = move_blocked_after_copy(servers, options);
    let mut transaction = servers.a.connect();
    run(&mut transaction, &format!("BEGIN; {statement}"));
    run(&mut other, "COMMIT");
    servers.a.wait_until(WAITS);
    (command, transaction)
}

/// Starts a move to b, which stops writes and then waits until b has applied this row. A
/// transaction on b prevents that.
pub(crate) fn move_with_stopped_writes(servers: &Servers, row: i64) -> (Child, Client) {
    let insert = format!("INSERT INTO insta5.photos VALUES ({row})");
    let (command, mut transaction) = move_blocked_before_stop(servers, &["--stop", "60"], &insert);
    let mut other = servers.b.connect();
    run(&mut other, "BEGIN; LOCK TABLE insta5.photos IN SHARE MODE");
    run(&mut transaction, "COMMIT");
    servers.a.wait_until(IS_CLOSED);
    (command, other)
}

/// How long writes were stopped, from the output of the command.
fn stop_duration(said: &str) -> Duration {
    let (_, rest) = said.split_once("its writes were stopped for ").expect(said);
    Duration::from_millis(rest.split_once(" ms").unwrap().0.parse().unwrap())
}

/// Moves under load, there and back, of a shard whose sequence is an hour ahead of the clock, so
/// that only the state of the sequence keeps the ids of the two servers apart. Commits are not
/// flushed for up to a second: they must be moved all the same.
#[test]
fn moves_there_and_back_under_load() {
    let servers = Servers::start_with(&[("synchronous_commit", "off"), ("wal_writer_delay", "1s")]);
    let Servers { a, b } = &servers;
    let mut rows = fill(&servers, length(20_000, 1_000_000));
    rows.push(1);
    set_an_hour_ahead(&mut a.connect(), "insta5.table_id_seq");
    let moves = length(2, 10);
    let (load, ()) = servers.under_load(|| {
        let insert = "INSERT INTO insta5.photos VALUES (1)";
        let (command, mut transaction) =
            move_blocked_before_stop(&servers, &["--stop", "1"], insert);
        // The move waits for this transaction, and other writers do not wait for long.
        let photos = || one::<i64>(&mut a.connect(), "SELECT count(*) FROM insta5.photos");
        let before = photos();
        a.wait_for("writers that go on", || photos() > before + 100);
        // The target does not catch up, so writes continue on the source.
        let mut other = b.connect();
        run(&mut other, "BEGIN; LOCK TABLE insta5.photos IN SHARE MODE");
        run(&mut transaction, "COMMIT");
        let said = fails(command, "server b has not caught up within 1 s; no data is lost");
        assert!(said.contains("Writes continue on a"), "{said}");
        assert_eq!(servers.placement(), "a");
        assert!(!one::<bool>(&mut a.connect(), IS_CLOSED), "{said}");
        run(&mut other, "COMMIT");
        for (n, to) in ["b", "a"].iter().cycle().take(moves).enumerate() {
            if n > 0 {
                servers.command(&["clean", "5"]);
            }
            thread::sleep(Duration::from_millis(200));
            let said = servers.command(&["move", "5", "--to", to, "--stop", "60"]);
            println!("to {to}: writes were stopped for {:?}", stop_duration(&said));
        }
    });
    assert!(load.longest < Duration::from_secs(20), "{:?}", load.longest);
    load.check(
        "a shard that moves there and back, an hour ahead",
        Clock::Set,
        moves,
        &rows,
        &servers,
    );
    for server in [a, b] {
        assert_eq!(leftovers(server), NOTHING);
    }
    let mut old = b.connect();
    check_old_copy(&mut old);
    // The new copy can generate ids.
    let mut new = a.connect();
    assert!(!one::<bool>(&mut new, IS_CLOSED) && !one::<bool>(&mut new, HAS_TRIGGERS));
    assert!(one::<bool>(&mut new, "SELECT can_generate FROM id_shards WHERE shard = 5"));
    let bounds = "SELECT (seqmin, seqmax, seqstart) = (1, 1125899906842623, 1) FROM pg_sequence
        WHERE seqrelid = 'insta5.table_id_seq'::regclass";
    assert!(one::<bool>(&mut new, bounds));
    let first = "INSERT INTO insta5.\"It's \"\"odd\"\"\" DEFAULT VALUES RETURNING id";
    assert_eq!(one::<i32>(&mut new, first), 1);
    servers.refuses(&["move", "5", "--to", "b"], "clean 5");
    servers.command(&["clean", "5"]);
    assert!(!one::<bool>(&mut old, HAS_SCHEMA));
    assert_eq!(one::<i64>(&mut servers.map(), MOVES), 0);
}

/// The old copy refuses all writes and generates no ids.
fn check_old_copy(old: &mut Client) {
    let writes = [
        "INSERT INTO insta5.photos VALUES (1)",
        "UPDATE insta5.photos SET batch = 1",
        "DELETE FROM insta5.photos WHERE id = 1",
        "TRUNCATE insta5.counter",
    ];
    for role in ["replica", "origin"] {
        run(old, &format!("SET session_replication_role = {role}"));
        for refused in writes {
            assert_eq!(error_of(old, refused).0, "25006", "{role}: {refused}");
        }
    }
    for refused in [
        "COPY insta5.photos (batch) FROM PROGRAM 'echo 1'",
        "SELECT next_id(5)",
        "SELECT insta5.next_id()",
        "SELECT next_ids(5, 10)",
        "SELECT next_id(5, 'insta5.table_id_seq')",
    ] {
        assert_eq!(error_of(old, refused).0, "25006", "{refused}");
    }
    assert_eq!(error_of(old, "SELECT nextval('insta5.table_id_seq')").0, "2200H");
}

/// The command is killed at random moments and run again, which resumes the move; or the move is
/// cancelled, which restores the previous state.
#[test]
fn killed_move_can_be_resumed_or_cancelled() {
    let servers = Servers::start();
    let rows = fill(&servers, 2_000);
    let mut random = random("moves that are cut off");
    let (mut cut_off, mut undone, mut moved) = (0, 0, 0);
    let (load, ()) = servers.under_load(|| {
        for round in 0..length(3, 60) {
            let (from, to) = if servers.placement() == "a" { ("a", "b") } else { ("b", "a") };
            // The limit grows with each attempt, so that one of them completes.
            let mut longest = 1500;
            loop {
                let command = servers.start_command(&["move", "5", "--to", to, "--stop", "60"]);
                thread::sleep(Duration::from_millis(random.u64(50..longest)));
                let is_over = kill_group(command);
                cut_off += usize::from(!is_over);
                // Or it had completed just before it was killed.
                if is_over
                    || one(
                        &mut servers.map(),
                        "SELECT EXISTS (SELECT FROM shard_map.moves WHERE finished IS NOT NULL)",
                    )
                {
                    break;
                }
                longest += 500;
                if round % 3 > 0 && servers.run(&["cancel", "5"]).is_ok() {
                    break;
                }
            }
            if servers.placement() == to {
                moved += 1;
                servers.command(&["clean", "5"]);
            } else {
                undone += 1;
                let other = if to == "a" { &servers.a } else { &servers.b };
                assert!(!one::<bool>(&mut other.connect(), HAS_SCHEMA), "{from} to {to}");
            }
            assert!(!one::<bool>(&mut servers.connect_to_shard(), HAS_TRIGGERS), "{from} to {to}");
            for server in [&servers.a, &servers.b] {
                assert_eq!(leftovers(server), NOTHING, "{from} to {to}");
            }
            assert_eq!(one::<i64>(&mut servers.map(), MOVES), 0);
        }
    });
    println!("{cut_off} commands killed; {moved} moves, {undone} undone");
    assert!(cut_off > 0);
    load.check("moves that are cut off", Clock::IN_STEP, cut_off + moved + undone, &rows, &servers);
}

/// Kills the command with all its child processes, as a crash of the machine would; returns whether
/// it had ended before.
pub(crate) fn kill_group(mut command: Child) -> bool {
    if command.try_wait().unwrap().is_some() {
        outcome(command).unwrap();
        return true;
    }
    kill_process_group(Pid::from_raw(command.id() as i32).unwrap(), Signal::KILL).unwrap();
    command.wait().unwrap();
    false
}

/// Killed while writes are stopped, the command leaves them stopped. The next command lets them
/// resume first, and restores the definitions of the sequences that the map records.
#[test]
fn move_killed_during_cutover_can_be_resumed_or_cancelled() {
    let servers = Servers::start();
    let mut rows = fill(&servers, 1000);
    let mut a = servers.a.connect();
    run(&mut a, "CREATE SEQUENCE insta5.\"a; b\" MINVALUE -5 START 3");
    let sequences = "SELECT string_agg(s::text, ' ' ORDER BY seqrelid) FROM pg_sequence AS s";
    let before: String = one(&mut a, sequences);
    let mut kill_while_stopped = |row: i64| {
        rows.push(row);
        let (command, mut other) = move_with_stopped_writes(&servers, row);
        assert!(!kill_group(command));
        run(&mut other, "COMMIT");
        let insert = "INSERT INTO insta5.photos DEFAULT VALUES";
        assert_eq!(error_of(&mut servers.a.connect(), insert).0, "25006");
    };
    let (load, ()) = servers.under_load(|| {
        kill_while_stopped(1);
        assert_ne!(one::<String>(&mut a, sequences), before);
        let mut map = servers.map();
        let recorded: String = one(&mut map, "SELECT sequences::text FROM shard_map.moves");
        run(&mut map, "UPDATE shard_map.moves SET sequences = NULL");
        servers.refuses(&["cancel", "5"], "the map does not record the sequences of shard 5");
        map.execute("UPDATE shard_map.moves SET sequences = $1::text::jsonb", &[&recorded])
            .unwrap();
        servers.command(&["cancel", "5"]);
        assert_eq!(one::<String>(&mut a, sequences), before);
        assert_eq!(servers.placement(), "a");
        assert!(!one::<bool>(&mut a, IS_CLOSED) && !one::<bool>(&mut a, HAS_TRIGGERS));
        thread::sleep(Duration::from_millis(200));
        kill_while_stopped(2);
        let said = servers.command(&["move", "5", "--to", "b"]);
        assert!(said.contains("Writes continue on a for now"), "{said}");
    });
    assert_eq!(servers.placement(), "b");
    load.check("moves killed while writes are stopped", Clock::IN_STEP, 2, &rows, &servers);
}

/// Only one command at a time works on a shard. `apply` waits for another one, and resumes the
/// moves of an `apply` that was killed.
#[test]
fn commands_on_a_shard_exclude_each_other() {
    let servers = Servers::start();
    fill(&servers, 1000);
    let plan = servers.b.path().join("plan.json").display().to_string();
    std::fs::write(&plan, r#"{"moves": [{"shard": 5, "from": "a", "to": "b"}]}"#).unwrap();
    let mut killed = servers.start_command(&["apply", &plan]);
    let mut transaction = block_after_copy(&servers, &mut killed);
    assert!(!kill_group(killed));
    run(&mut transaction, "COMMIT");
    let status = |state: &str| {
        let said = servers.command(&["status"]);
        assert!(said.contains(state), "{state}: {said}");
    };
    status("interrupted; to resume: move 5 --to b: 3 of 3 tables copied");
    servers.command(&["server", "c", "host=/nowhere"]);
    for (command, reason) in [
        (&["move", "5", "--to", "c"][..], "from a to b: finish or cancel that move first"),
        (&["clean", "5"], "to finish: instagram_id_shards move 5 --to b"),
        (&["place", "c", "5"], "shard 5 is being moved: finish or cancel the move first"),
    ] {
        servers.refuses(command, reason);
    }
    servers.command(&["clean", "--all"]);
    let said = servers.command(&["check", "5", "--to", "b"]);
    assert!(said.contains("to resume: instagram_id_shards move 5 --to b"), "{said}");

    // A move that is resumed is checked again.
    run(&mut servers.b.connect(), "GRANT CREATE ON SCHEMA public TO PUBLIC");
    let said = servers.refuses(&["move", "5", "--to", "b"], "role public on b is not trusted");
    assert!(!said.contains("Copying rows") && said.ends_with("exit status 3"), "{said}");
    run(&mut servers.b.connect(), "REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    map_that_was_changed_by_hand_stops_no_writes(&servers);

    let (other, mut transaction) = move_blocked_after_copy(&servers, &[]);
    let mut again = servers.start_command(&["apply", &plan]);
    let mut lines = BufReader::new(again.stdout.take().unwrap()).lines().map(Result::unwrap);
    let refused = [&["move", "5", "--to", "b"][..], &["cancel", "5"], &["clean", "5"]]
        .map(|command| servers.start_command(command));
    status("running: 3 of 3 tables copied");
    for command in refused {
        fails(command, "is working on shard 5\nexit status 4");
    }
    assert!(
        lines.any(|line| line.contains("Another command is working on shard 5: waiting for it"))
    );
    assert!(!kill_group(other));
    run(&mut transaction, "COMMIT");
    assert!(lines.any(|line| line.contains("All 1 moves are done")));
    outcome(again).unwrap();
    assert_eq!(servers.placement(), "b");
    status("done; to drop the old copy: clean 5");
    servers.refuses(&["cancel", "5"], "is on b already");
    map_that_names_the_old_copy_is_refused(&servers);
    servers.command(&["clean", "5"]);
}

/// The command notices the change before it stops writes.
fn map_that_was_changed_by_hand_stops_no_writes(servers: &Servers) {
    let (command, mut other) = move_blocked_after_copy(servers, &[]);
    let mut map = servers.map();
    run(&mut map, "UPDATE shard_map.shards SET server = 'c'");
    run(&mut other, "COMMIT");
    let correct = "UPDATE shard_map.shards SET server = 'a' WHERE shard = 5";
    fails(command, &format!("and places shard 5 on c: run on the map {correct}"));
    assert!(!one::<bool>(&mut servers.a.connect(), IS_CLOSED));
    run(&mut map, correct);
}

/// The map was changed by hand, or restored from a backup, after the move.
fn map_that_names_the_old_copy_is_refused(servers: &Servers) {
    let mut map = servers.map();
    run(&mut map, "UPDATE shard_map.shards SET server = 'a'");
    servers.refuses(&["clean", "5"], "but the map was changed later, and places it on a");
    run(&mut map, "CREATE TABLE kept AS TABLE shard_map.moves; DELETE FROM shard_map.moves");
    servers.refuses(
        &["check", "5", "--to", "b"],
        "insta5 on a is closed: the shard was moved from there",
    );
    run(
        &mut map,
        "INSERT INTO shard_map.moves TABLE kept; UPDATE shard_map.shards SET server = 'b'",
    );
    // The map has lost the end of the move, which was not reached. `cancel` names the statements
    // that enter it again, and `move` removes the subscription.
    run(
        &mut map,
        "UPDATE shard_map.moves SET switched = NULL, finished = NULL; UPDATE shard_map.shards SET server = 'a'",
    );
    servers.refuses(&["move", "5", "--to", "b"], "run cancel 5, which says what to do");
    let said = servers.refuses(&["cancel", "5"], "was not created by this move");
    let (_, statements) = said.split_once("run on the map ").unwrap();
    let (statements, rest) = statements.split_once("; and then ").unwrap();
    run(&mut map, statements);
    assert_eq!(servers.placement(), "b");
    run(
        &mut servers.b.connect(),
        "CREATE SUBSCRIPTION instagram_id_move_5 CONNECTION '' PUBLICATION p WITH (connect = false)",
    );
    assert!(rest.starts_with("move 5 --to b; "), "{rest}");
    servers.command(&["move", "5", "--to", "b"]);
    let left = "SELECT EXISTS (SELECT FROM pg_subscription)";
    assert!(!one::<bool>(&mut servers.b.connect(), left));
}

/// Makes the schema `twice` a second one of shard 5.
const SHARD_TWICE: &str = "DO $$ BEGIN
    EXECUTE replace(pg_get_functiondef('insta5.shard_5'::regproc), 'insta5.shard_5', 'twice.shard_5'); END $$";

/// All obstacles are reported at once, before anything is changed.
#[test]
#[allow(clippy::too_many_lines)] // one scenario
fn checks_report_every_obstacle_to_a_move() {
    let a = Server::start(&[("fsync", "off")]); // wal_level = replica
    let b = Server::start_with_a_clock_of_its_own(&[
        ("fsync", "off"),
        ("max_logical_replication_workers", "1"),
    ]);
    let servers = Servers::of(a, b);
    let check = |reasons: &[&str]| {
        let said = servers.refusal(&["check", "5", "--to", "b"]);
        for reason in reasons {
            assert!(said.contains(reason), "{reason}: {said}");
        }
    };
    let (mut a, mut b) = (servers.a.connect(), servers.b.connect());
    servers.is_refused("a has no extension instagram_id");
    run(&mut a, "CREATE EXTENSION instagram_id");
    check(&[
        "a has no shard 5, contrary to the map",
        "a has wal_level = replica",
        "b has 1 of 1 max_logical_replication_workers left",
    ]);
    run(&mut a, "SELECT create_shard(5); CREATE SCHEMA twice");
    run(&mut a, SHARD_TWICE);
    check(&["a has shard 5 in several schemas: "]);
    run(&mut a, "DROP SCHEMA twice CASCADE; SELECT create_shard(6);
         CREATE TABLE insta5.keyless (id bigint DEFAULT insta5.next_id());
         CREATE UNLOGGED TABLE insta5.light (id bigint PRIMARY KEY);
         CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w; CREATE FOREIGN TABLE insta5.far (id bigint) SERVER s;
         CREATE TABLE insta6.albums (id bigint PRIMARY KEY);
         CREATE TABLE insta5.photos (id bigint PRIMARY KEY, album bigint REFERENCES insta6.albums) PARTITION BY RANGE (id);
         CREATE TABLE insta6.part PARTITION OF insta5.photos DEFAULT");
    check(&[
        "table insta5.keyless has no primary key",
        "table insta5.light is unlogged",
        "table insta5.far is a foreign table",
        "insta5.photos and its partition or child insta6.part are not both in schema insta5",
        "foreign key photos_album_fkey of insta5.photos leads out of schema insta5",
    ]);
    run(&mut a, "CREATE ROLE other; ALTER FUNCTION insta5.epoch() OWNER TO other");
    check(&["shard 5 cannot generate ids on a: insta5.epoch() belongs to role other"]);
    run(
        &mut a,
        "ALTER FUNCTION insta5.epoch() OWNER TO postgres; DROP ROLE other;
         ALTER SEQUENCE insta5.table_id_seq SET SCHEMA public",
    );
    check(&["the sequence of shard 5 on a is not in schema insta5: move it to that schema"]);
    run(&mut a, "ALTER SEQUENCE table_id_seq SET SCHEMA insta5");
    check_missing_objects(&servers);
    run(&mut b, "CREATE SCHEMA insta5");
    check(&["b has a schema insta5 already"]);
    run(&mut b, "DROP SCHEMA insta5; SELECT create_shard(5, 'another')");
    check(&["b has a shard 5 already"]);
    run(
        &mut b,
        "DROP SCHEMA another CASCADE; UPDATE pg_extension SET extversion = '0.0.9' WHERE extname = 'instagram_id'",
    );
    check(&["b has instagram_id 0.0.9, older than"]);
    run(&mut b, "DROP EXTENSION instagram_id");
    check(&["b has no extension instagram_id"]);
    run(&mut b, "CREATE SCHEMA ids; CREATE EXTENSION instagram_id SCHEMA ids");
    check(&["b has instagram_id in schema ids, but a has it in public"]);
    servers.b.set_clock(-1.5);
    check(&["s behind that of a: synchronize the clocks"]);
    assert!(servers.command(&["move", "5", "--to", "a"]).contains("Shard 5 is on a already"));
    servers.refuses(&["move", "5", "--to", "c"], "there is no server c in the map");
    servers.refuses(&["move", "6", "--to", "b"], "shard 6 is not in the map");
    servers.refuses(&["move", "x", "--to", "b"], "expected the number of a shard");
    servers.refuses(&["cancel", "5"], "shard 5 is not being moved");
    servers.refuses(&["clean", "5"], "there is no old copy of shard 5");
    for setting in ["options='-c search_path=public'", "application_name=other"] {
        servers.command(&["server", "c", &format!("host=/nowhere {setting}")]);
        servers.refuses(
            &["check", "5", "--to", "c"],
            "the conninfo of c sets options or application_name",
        );
    }
    let same = format!("host={} user=postgres dbname=template1", servers.a.path().display());
    servers.command(&["server", "c", &same]);
    servers.refuses(&["move", "5", "--to", "c"], "a and c are the same server");
    for server in [&servers.a, &servers.b] {
        assert_eq!(leftovers(server), NOTHING);
    }
    assert_eq!(one::<i64>(&mut servers.map(), MOVES), 0);
}

/// Objects outside the schema that only `a` has, each used by one object of the shard.
#[expect(clippy::too_many_lines, reason = "a list of objects")]
fn check_missing_objects(servers: &Servers) {
    let Servers { a, b, .. } = servers;
    let mut client = a.connect();
    std::fs::create_dir(a.path().join("data/fast")).unwrap();
    if let Some((user, group)) = a.owner() {
        std::os::unix::fs::chown(a.path().join("data/fast"), Some(user), Some(group)).unwrap();
    }
    run(
        &mut client,
        &format!("CREATE TABLESPACE fast LOCATION '{}/data/fast'", a.path().display()),
    );
    run(
        &mut client,
        r#"CREATE ROLE app; CREATE ROLE "it's ""me"""; CREATE ROLE reader; CREATE ROLE keeper;
             CREATE TYPE "the mood" AS ENUM ('a', 'b'); CREATE DOMAIN small AS int; CREATE TABLE users (id int);
             CREATE FUNCTION zero() RETURNS int LANGUAGE sql AS 'SELECT 0';
             CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
             CREATE COLLATION german FROM "C";
             CREATE TABLE insta5.needy (id bigint PRIMARY KEY, mood "the mood"[], small small, zero int DEFAULT zero(),
                 name text COLLATE german) TABLESPACE fast;
             CREATE TRIGGER touch BEFORE UPDATE ON insta5.needy FOR EACH ROW EXECUTE FUNCTION touch();
             CREATE POLICY readers ON insta5.needy TO reader USING (true);
             CREATE VIEW insta5.people AS SELECT id FROM public.users;
             GRANT SELECT ON insta5.needy TO app;
             GRANT USAGE ON SCHEMA insta5 TO "it's ""me""";
             CREATE SEQUENCE insta5.kept; ALTER SEQUENCE insta5.kept OWNER TO keeper;
             INSERT INTO pg_extension SELECT 99999, 'pretended', 10, 'public'::regnamespace, true, '1', NULL, NULL;
             CREATE FUNCTION insta5.extended() RETURNS int LANGUAGE sql AS 'SELECT 0';
             ALTER FUNCTION insta5.extended() DEPENDS ON EXTENSION pretended;
             -- A use of the shard, not by it.
             CREATE VIEW outside AS SELECT id FROM insta5.needy; CREATE PUBLICATION others FOR TABLE insta5.needy"#,
    );
    // Not every PostgreSQL under test has the contrib modules.
    let has_hstore = "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'hstore')";
    let has_hstore: bool = one(&mut client, has_hstore);
    if has_hstore {
        run(&mut client, "CREATE EXTENSION hstore; ALTER TABLE insta5.needy ADD tags hstore");
    }
    let all = servers.refusal(&["check", "5", "--to", "b"]);
    let hstore = "b has no type public.hstore of extension hstore, needed for column tags of table insta5.needy";
    assert_eq!(all.contains(hstore), has_hstore, "{all}");
    for reason in [
        "b has no role app, needed for table insta5.needy",
        "b has no role it's \"me\", needed for schema insta5",
        "b has no role reader, needed for policy readers on table insta5.needy",
        "b has no role keeper, needed for sequence insta5.kept",
        "b has no type public.\"the mood\"[], needed for column mood of table insta5.needy",
        "b has no type public.small, needed for column small of table insta5.needy",
        "b has no collation public.german, needed for column name of table insta5.needy",
        "b has no function public.zero(), needed for default value for column zero of table insta5.needy",
        "b has no function public.touch(), needed for trigger touch on table insta5.needy",
        "b has no table public.users, needed for rule _RETURN on view insta5.people",
        "b has no tablespace fast, needed for table insta5.needy",
        "b has no extension pretended, needed for function insta5.extended()",
    ] {
        assert!(all.contains(reason), "{reason}: {all}");
    }
    assert!(!all.contains("outside") && !all.contains("others"), "{all}");
    let create = r#"CREATE ROLE app; CREATE ROLE "it's ""me"""; CREATE ROLE reader; CREATE ROLE keeper;
        CREATE TYPE "the mood" AS ENUM ('a', 'b'); CREATE DOMAIN small AS int; CREATE TABLE users (id int);
        CREATE FUNCTION zero() RETURNS int LANGUAGE sql AS 'SELECT 0';
        CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
        CREATE COLLATION german FROM "C""#;
    run(&mut b.connect(), create);
    if has_hstore {
        run(&mut b.connect(), "CREATE EXTENSION hstore");
    }
    run(
        &mut client,
        "ALTER TABLE insta5.needy SET TABLESPACE pg_default; DROP PUBLICATION others;
             ALTER FUNCTION insta5.extended() NO DEPENDS ON EXTENSION pretended; DELETE FROM pg_extension WHERE oid = 99999",
    );
    let others = servers.refusal(&["check", "5", "--to", "b"]);
    assert!(!others.contains("insta5.needy"), "{others}");
}

/// A table that is created during the move would be lacking on the target, so the move is refused.
/// A prepared transaction that has created it holds no lock on a table that the move knows.
#[test]
fn tables_changed_during_the_move_are_detected() {
    let servers = Servers::start_with(&[("max_prepared_transactions", "5")]);
    let mut a = servers.a.connect();
    // Same change on both servers: rows written to this table would not be replicated.
    let (command, mut transaction) = move_blocked_after_copy(&servers, &[]);
    for server in [&servers.a, &servers.b] {
        run(&mut server.connect(), "CREATE TABLE insta5.newer (id bigint PRIMARY KEY)");
    }
    run(&mut transaction, "COMMIT");
    fails(command, "that are not replicated from a");
    assert!(!one::<bool>(&mut a, IS_CLOSED));
    for server in [&servers.a, &servers.b] {
        run(&mut server.connect(), "DROP TABLE insta5.newer");
    }
    let (command, mut transaction) =
        move_blocked_before_stop(&servers, &[], "UPDATE insta5.counter SET value = 1");
    let create = "CREATE TABLE insta5.new (id bigint PRIMARY KEY)";
    run(&mut a, &format!("BEGIN; {create}; PREPARE TRANSACTION 'new'"));
    run(&mut transaction, "COMMIT");
    let named = "another transaction has created objects in schema insta5, or changed it\n\
        DETAIL: It waits for prepared transaction 'new' of role postgres with a lock on schema insta5, which COMMIT PREPARED 'new' or ROLLBACK PREPARED 'new' ends, as its coordinator has decided.";
    fails(command, named);
    run(&mut a, "COMMIT PREPARED 'new'");
    let changed = "has changed since the move began: table insta5.new;";
    servers.refuses(&["move", "5", "--to", "b"], changed);
    assert!(!one::<bool>(&mut a, IS_CLOSED));
    servers.command(&["cancel", "5"]);
    assert!(!one::<bool>(&mut servers.b.connect(), HAS_SCHEMA));
}

// ----------------------------------------------------------------------------- attacks by an owner
// who is not a superuser

impl Servers {
    /// Same as `start`, with all objects of shard 5 owned by `attacker`, a role that is not a
    /// superuser. The map says that it is trusted on both servers, so its schema's code may run,
    /// but nothing else of it may.
    fn start_with_an_attacker() -> Servers {
        let servers = Servers::start();
        for server in [&servers.a, &servers.b] {
            let role = "CREATE ROLE attacker LOGIN; GRANT CREATE ON DATABASE postgres TO attacker";
            run(&mut server.connect(), role);
        }
        run(&mut servers.a.connect(), GIVE_AWAY);
        run(&mut servers.map(), "UPDATE shard_map.servers SET trusted = '{attacker}'");
        servers
    }

    fn is_superuser(&self) -> bool {
        let is_superuser = "SELECT rolsuper FROM pg_roles WHERE rolname = 'attacker'";
        one::<bool>(&mut self.a.connect(), is_superuser) || one(&mut self.b.connect(), is_superuser)
    }

    /// Checks that a move to b is refused for this reason, and that no move is recorded.
    #[track_caller]
    fn is_refused(&self, reason: &str) {
        self.refuses(&["move", "5", "--to", "b"], reason);
        assert_eq!(one::<i64>(&mut self.map(), MOVES), 0);
    }
}

/// Changes the owner of the schema, functions, tables and sequences of shard 5.
pub(crate) const GIVE_AWAY: &str = "ALTER SCHEMA insta5 OWNER TO attacker;
    GRANT USAGE ON SCHEMA insta5 TO PUBLIC;
    DO $$ DECLARE one text; BEGIN
        FOR one IN SELECT format('ALTER ROUTINE %s OWNER TO attacker', oid::regprocedure) FROM pg_proc
                   WHERE pronamespace = 'insta5'::regnamespace
            UNION ALL SELECT format('ALTER TABLE %s OWNER TO attacker', oid::regclass) FROM pg_class
                   WHERE relnamespace = 'insta5'::regnamespace AND relkind = 'r'
            UNION ALL SELECT format('ALTER SEQUENCE %s OWNER TO attacker', oid::regclass) FROM pg_class AS c
                   WHERE relnamespace = 'insta5'::regnamespace AND relkind = 'S'
                     AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = c.oid AND deptype IN ('a', 'i'))
        LOOP EXECUTE one; END LOOP;
    END $$";

const MARK_REMADE: [&str; 2] = [
    "DROP FUNCTION insta5.shard_is_elsewhere() CASCADE",
    "CREATE FUNCTION insta5.shard_is_elsewhere() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
];

/// An owner that replaces the mark of its schema, on either server, gains nothing: the command
/// neither trusts that mark nor executes its comment.
#[test]
fn owner_that_replaces_the_mark_gains_nothing() {
    let servers = Servers::start_with_an_attacker();
    let comment =
        "COMMENT ON FUNCTION insta5.shard_is_elsewhere() IS 'ALTER ROLE attacker SUPERUSER'";
    let replace = [MARK_REMADE[0], MARK_REMADE[1], comment].join("; ");
    // Any role can set the application_name of the command, which does not wait for this session.
    let mut session = servers.a.connect_as("attacker");
    run(&mut session, "SET application_name = 'instagram_id_move_5'");
    let count = "UPDATE insta5.counter SET value = 1";
    let (command, mut transaction) = move_blocked_before_stop(&servers, &[], count);
    // Only the replication writes to the copy.
    let mut owner = servers.b.connect_as("attacker");
    for (statement, code) in [
        ("INSERT INTO insta5.photos VALUES (1)", "25006"),
        ("UPDATE insta5.counter SET value = 1", "25006"),
        ("DELETE FROM insta5.counter", "25006"),
        ("TRUNCATE insta5.photos CASCADE", "25006"),
        ("SELECT insta5.next_id()", "25006"),
        ("SELECT nextval('insta5.table_id_seq')", "2200H"),
    ] {
        assert_eq!(error_of(&mut owner, statement).0, code, "{statement}");
    }
    // The move claims it when it opens it.
    let reason = "SELECT reason FROM id_shards WHERE shard = 5";
    assert_eq!(one::<String>(&mut owner, reason), "closed by a move");
    run(&mut owner, &replace);
    run(&mut transaction, "COMMIT");
    let said = fails(command, "cannot be opened on b: schema insta5 is not closed");
    assert!(said.contains("Writes continue on a"), "{said}");
    for command in [&["move", "5", "--to", "b"][..], &["cancel", "5"]] {
        servers.refuses(command, "schema insta5 on b was not created by this move");
    }
    // The owner has spoiled the copy of its own shard.
    run(&mut servers.b.connect(), "DROP SCHEMA insta5 CASCADE");
    servers.command(&["cancel", "5"]);

    let (command, mut other) = move_with_stopped_writes(&servers, 1);
    assert!(!kill_group(command));
    run(&mut other, "COMMIT");
    run(&mut servers.a.connect_as("attacker"), &replace);
    // It can open its own tables, but nothing else.
    servers
        .refuses(&["move", "5", "--to", "b"], "has changed since the move began: sequence insta5.");
    servers.command(&["cancel", "5"]);
    assert!(!servers.is_superuser());
}

/// A routine with the marker's name that is not owned by a superuser is not trusted, replaced or
/// dropped.
#[test]
fn routines_with_the_markers_name_are_refused() {
    let servers = Servers::start_with_an_attacker();
    let mut attacker = servers.a.connect_as("attacker");
    for (make, drop) in [
        (MARK_REMADE[1], "FUNCTION insta5.shard_is_elsewhere()"),
        (
            "CREATE AGGREGATE insta5.shard_is_elsewhere(*) (SFUNC = int8inc, STYPE = int8, INITCOND = '0')",
            "AGGREGATE insta5.shard_is_elsewhere(*)",
        ),
    ] {
        run(&mut attacker, make);
        servers.is_refused("has a routine shard_is_elsewhere() whose owner is not a superuser");
        run(&mut attacker, &format!("DROP {drop}"));
    }
    // Created after the start of the move, it is refused before the tables are closed.
    let (command, mut transaction) = move_blocked_after_copy(&servers, &[]);
    run(&mut attacker, MARK_REMADE[1]);
    run(&mut transaction, "COMMIT");
    fails(command, "has a routine shard_is_elsewhere() of another role");
    servers.command(&["cancel", "5"]);
    run(&mut attacker, "DROP FUNCTION insta5.shard_is_elsewhere()");
    // A trigger of that name would be lost. Another change of the schema would fail the move
    // earlier.
    run(
        &mut attacker,
        "CREATE FUNCTION insta5.own() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    );
    let create = "CREATE TRIGGER shard_is_elsewhere BEFORE INSERT ON insta5.counter FOR EACH ROW EXECUTE FUNCTION insta5.own()";
    let (command, mut transaction) = move_blocked_after_copy(&servers, &[]);
    run(&mut attacker, create);
    run(&mut transaction, "COMMIT");
    fails(command, "has a trigger shard_is_elsewhere of its own");
    println!("{:?}", servers.run(&["cancel", "5"]));
    servers.is_refused(
        "trigger shard_is_elsewhere of insta5.counter has the name of the trigger that closes a shard",
    );
    run(&mut attacker, "DROP TRIGGER shard_is_elsewhere ON insta5.counter");
    // With other arguments it is another function.
    let overload =
        "CREATE FUNCTION insta5.shard_is_elsewhere(int) RETURNS int LANGUAGE sql AS 'SELECT 1';
         COMMENT ON FUNCTION insta5.shard_is_elsewhere(int) IS 'ALTER ROLE attacker SUPERUSER'";
    run(&mut attacker, overload);
    servers.command(&["move", "5", "--to", "b"]);
    servers.command(&["clean", "5"]);
    assert!(!servers.is_superuser());
}

/// Names and comments may contain any characters, however the owner of a database lets strings be
/// read in it.
#[test]
fn names_with_special_characters_can_be_moved() {
    let servers = Servers::start();
    let names = [
        "new\nline| \ttab 'quote' \"double\" \\! true",
        ":schema :'name' :\"x\" $do$ %s %I",
        "-x --to *?.[a-z]",
    ];
    // Sessions of before the settings.
    let (mut a, mut b) = (servers.a.connect(), servers.b.connect());
    let conninfo = conninfo(&servers.b, "postgres");
    let settings = [("on", "off"), ("off", "on"), ("off", "off")];
    for (n, (name, (on_a, on_b))) in names.iter().zip(settings).enumerate() {
        for (client, value) in [(&mut a, on_a), (&mut b, on_b)] {
            let set = "ALTER DATABASE postgres SET standard_conforming_strings =";
            run(client, &format!("{set} {value}"));
        }
        let (shard, server) = ((10 + n).to_string(), format!("{name} server"));
        a.query_one("SELECT create_shard($1, $2)::text", &[&(10 + n as i32), name]).unwrap();
        let ident: String = a.query_one("SELECT quote_ident($1)", &[name]).unwrap().get(0);
        let sequence = format!("{ident}.{}", ident_with(&ident, " seq"));
        run(&mut a, &format!(
            "CREATE TABLE {ident}.{ident} (id bigint PRIMARY KEY DEFAULT next_id({shard}), {ident} serial);
             COMMENT ON TABLE {ident}.{ident} IS $$x\\'; CREATE ROLE injected; --$$;
             CREATE SEQUENCE {sequence} MAXVALUE 9000000000000000000 START 7;
             INSERT INTO {ident}.{ident} DEFAULT VALUES"
        ));
        let table = format!("{ident}.{ident}").replace('\'', "''");
        let comment = format!("SELECT obj_description('{table}'::regclass)");
        let before: String = one(&mut a, &comment);
        let end_of_options: &[&str] = if name.starts_with('-') { &["--"] } else { &[] };
        servers.command(&[&["server"], end_of_options, &[&server, &conninfo]].concat());
        servers.command(&["place", "a", &shard]);
        servers.command(&["move", &shard, "--to", &server]);
        servers.command(&["clean", &shard]);
        assert_eq!(one::<String>(&mut b, &comment), before, "{name:?}");
        assert_eq!(
            one::<i64>(&mut b, &format!("SELECT count(*) FROM {ident}.{ident}")),
            1,
            "{name:?}"
        );
        let next = format!("SELECT nextval('{}')", sequence.replace('\'', "''"));
        assert_eq!(one::<i64>(&mut b, &next), 7, "{name:?}");
        let there = "SELECT count(*) FROM pg_namespace WHERE nspname = $1";
        assert_eq!(a.query_one(there, &[name]).unwrap().get::<_, i64>(0), 0);
    }
    assert!(one::<bool>(&mut a, HAS_SCHEMA));
    let injected = "SELECT count(*) FROM pg_roles WHERE rolname = 'injected'";
    assert_eq!(one::<i64>(&mut a, injected) + one::<i64>(&mut b, injected), 0);
}

/// A quoted identifier with this suffix.
fn ident_with(ident: &str, end: &str) -> String {
    format!("{}{end}\"", ident.strip_suffix('"').expect("a quoted identifier"))
}

/// A server executes a statement even if the command that sent it was killed. The next command
/// waits until the statement has ended before it inspects the server.
#[test]
fn late_statement_of_a_killed_command_is_waited_for() {
    let servers = Servers::start();
    let ids = fill(&servers, 10);
    let Servers { a, b } = &servers;
    let killed = |server: &Server, blocks: &str| {
        let mut block = server.connect();
        run(&mut block, &format!("BEGIN; {blocks}"));
        let command = servers.start_command(&["move", "5", "--to", "b"]);
        server.wait_until(WAITS);
        assert!(!kill_group(command));
        block
    };
    // When it creates the slot.
    let mut block = killed(a, "DELETE FROM insta5.photos");
    let cancel = servers.start_command(&["cancel", "5"]);
    thread::sleep(Duration::from_millis(500));
    run(&mut block, "ROLLBACK");
    outcome(cancel).unwrap();
    let sessions = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'instagram_id_move_5')";
    a.wait_until(sessions);
    assert_eq!(leftovers(a), NOTHING);
    // A slot that is left behind is not used.
    let mut block = killed(b, "LOCK TABLE pg_subscription IN SHARE MODE");
    let ended = "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE application_name = 'instagram_id_move_5'";
    assert_eq!(one::<i64>(&mut b.connect(), ended), 1);
    run(&mut block, "ROLLBACK");
    assert_eq!(leftovers(a).len(), 2);
    servers.command(&["move", "5", "--to", "b"]);
    assert_eq!(column(&mut b.connect(), "SELECT id FROM insta5.photos ORDER BY id"), ids);
}

/// A schema that another role creates on the target after the checks is neither written to nor
/// dropped.
fn schema_of_another_role_on_the_target_is_kept(servers: &Servers) {
    // A move that was killed before it created the schema.
    run(
        &mut servers.map(),
        "INSERT INTO shard_map.moves (shard, source, target, schema) VALUES (5, 'a', 'b', 'insta5')",
    );
    run(&mut servers.b.connect_as("attacker"), "CREATE SCHEMA insta5; CREATE TABLE insta5.precious (id int);
             CREATE FUNCTION insta5.shard_is_elsewhere() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
             COMMENT ON FUNCTION insta5.shard_is_elsewhere() IS 'SELECT 1'");
    // Nor is a publication of another role dropped.
    run(&mut servers.a.connect_as("attacker"), "CREATE PUBLICATION instagram_id_move_5");
    for command in [&["move", "5", "--to", "b"][..], &["cancel", "5"]] {
        servers.refuses(command, "schema insta5 on b was not created by this move");
    }
    one::<i64>(&mut servers.b.connect(), "SELECT count(*) FROM insta5.precious");
    assert_eq!(leftovers(&servers.b), NOTHING);
    run(&mut servers.b.connect(), "DROP SCHEMA insta5 CASCADE");
    servers.command(&["cancel", "5"]);
    assert_eq!(leftovers(&servers.a), ["publication instagram_id_move_5"]);
    run(&mut servers.a.connect_as("attacker"), "DROP PUBLICATION instagram_id_move_5");
}

/// The slot of the move is lost, and a move from another database has one of this name.
fn slot_of_another_database_is_kept(servers: &Servers) {
    let drop = "SELECT pg_drop_replication_slot('instagram_id_move_5')";
    run(&mut servers.a.connect(), drop);
    let mut elsewhere = servers.a.connect_to("template1");
    run(
        &mut elsewhere,
        "SELECT pg_create_logical_replication_slot('instagram_id_move_5', 'pgoutput')",
    );
    servers.command(&["cancel", "5"]);
    run(&mut elsewhere, drop);
}

/// Replication writes only to the schema of the shard, whatever other roles create or rename on the
/// source.
#[test]
fn replication_writes_only_to_the_shards_schema() {
    let servers = Servers::start_with_an_attacker();
    schema_of_another_role_on_the_target_is_kept(&servers);
    run(
        &mut servers.b.connect(),
        "CREATE SCHEMA insta6; CREATE TABLE insta6.photos (id bigint PRIMARY KEY, batch bigint);
             CREATE TABLE insta6.counter (n int PRIMARY KEY, value bigint);
             CREATE TABLE insta6.\"It's \"\"odd\"\"\" (id int PRIMARY KEY, photo bigint)",
    );
    fill(&servers, 10);
    let mut attacker = servers.a.connect_as("attacker");
    let count = "SELECT count(*) FROM insta6.photos";
    // A publication with the command's name for a table that belongs to another role on the target.
    run(
        &mut attacker,
        "CREATE SCHEMA insta6; CREATE TABLE insta6.photos (id bigint PRIMARY KEY, batch bigint);
             INSERT INTO insta6.photos VALUES (1);
             CREATE PUBLICATION instagram_id_move_5 FOR TABLE insta6.photos",
    );
    println!("{:?}", servers.run(&["move", "5", "--to", "b"]));
    assert_eq!(one::<i64>(&mut servers.b.connect(), count), 0);
    servers.is_refused("a has a publication instagram_id_move_5 that is not part of this move");
    run(
        &mut attacker,
        "DROP PUBLICATION IF EXISTS instagram_id_move_5; DROP SCHEMA insta6 CASCADE",
    );
    // The slots of a server have one name for all its databases.
    let slot = |function: &str| format!("SELECT {function}('instagram_id_move_5'");
    let mut elsewhere = servers.a.connect_to("template1");
    run(&mut elsewhere, &(slot("pg_create_logical_replication_slot") + ", 'pgoutput')"));
    servers.is_refused(
        "a has the replication slot instagram_id_move_5 as for a move from database template1",
    );
    run(&mut elsewhere, &(slot("pg_drop_replication_slot") + ")"));
    drop(elsewhere);
    // The schema is renamed after it was published.
    let mut other = servers.b.connect();
    run(&mut other, "BEGIN; LOCK TABLE pg_subscription IN EXCLUSIVE MODE");
    let command = servers.start_command(&["move", "5", "--to", "b"]);
    servers.b.wait_until(WAITS);
    run(&mut attacker, "ALTER SCHEMA insta5 RENAME TO insta6");
    run(&mut other, "COMMIT");
    let said = outcome(command).expect_err("the schema has another name");
    assert!(said.contains("schema insta5 on a is called insta6 now: rename it"), "{said}");
    assert_eq!(one::<i64>(&mut servers.b.connect(), count), 0);
    run(&mut attacker, "ALTER SCHEMA insta6 RENAME TO insta5");
    servers.command(&["cancel", "5"]);
    assert_eq!(one::<i64>(&mut servers.map(), MOVES), 0);
    assert_eq!(leftovers(&servers.a), NOTHING);
    // The schema has its name again when the subscription is enabled.
    run(&mut other, "BEGIN; LOCK TABLE pg_subscription IN EXCLUSIVE MODE");
    let command = servers.start_command(&["move", "5", "--to", "b"]);
    servers.b.wait_until(WAITS);
    run(&mut attacker, "ALTER SCHEMA insta5 RENAME TO insta6");
    assert!(!kill_group(command));
    run(&mut other, "COMMIT");
    servers.b.wait_until("SELECT EXISTS (SELECT FROM pg_subscription)");
    run(&mut attacker, "ALTER SCHEMA insta6 RENAME TO insta5");
    servers.refuses(
        &["move", "5", "--to", "b"],
        "the subscription would write to schemas other than insta5",
    );
    slot_of_another_database_is_kept(&servers);
    servers.command(&["move", "5", "--to", "b"]);
    assert_eq!(one::<i64>(&mut servers.b.connect(), count), 0);
}

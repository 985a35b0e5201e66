//! Shards on several servers, as docs/servers.md describes them: the map, clients that use it, and a query over all
//! shards.
//!
//! The clients are docs/examples/route.*, run unchanged. A shard is moved by hand here: a trigger with the error of the
//! real one closes it on one server, its rows and its last id are copied to the other, and the map is changed.

use instagram_id_live::*;
use postgres::Client;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

const PAGE: &str = include_str!("../../../docs/servers.md");

/// The minimum time for which clients retry while a shard moves, and the time for which they cache the map.
const PATIENCE: Duration = Duration::from_secs(5);
const FRESH: Duration = Duration::from_secs(2);

/// Two servers, with the map in a database on the first.
struct Place {
    a: Server,
    b: Server,
}

impl Place {
    /// With shard 5 on `a` and shard 6 on `b`.
    fn start() -> Place {
        let place = Place::with_a_map();
        for (name, server, shard) in [("a", &place.a, 5), ("b", &place.b, 6)] {
            server.connect().batch_execute("CREATE EXTENSION instagram_id").unwrap();
            create_photos(&mut server.connect(), shard);
            let conninfo = conninfo(server, "postgres");
            place
                .map()
                .batch_execute(&format!(
                    "INSERT INTO shard_map.servers VALUES ('{name}', '{conninfo}');
                     INSERT INTO shard_map.shards (shard, server) VALUES ({shard}, '{name}')"
                ))
                .unwrap();
        }
        place
    }

    fn with_a_map() -> Place {
        let settings = [("fsync", "off"), ("timezone", "UTC"), ("autovacuum", "off")];
        let place = Place { a: Server::start(&settings), b: Server::start(&settings) };
        place.a.connect().batch_execute("CREATE DATABASE map").unwrap();
        let made = place.a.shards_command(&["init"]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        place
    }

    fn map(&self) -> Client {
        self.a.connect_to("map")
    }

    /// Closes shard 5 on `a`.
    fn close(&self) {
        self.a
            .connect()
            .batch_execute(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                 BEGIN
                     RAISE SQLSTATE '25006' USING MESSAGE = 'shard 5 is moving or has moved to another server';
                 END $$;
                 CREATE TRIGGER closed BEFORE INSERT OR UPDATE OR DELETE ON insta5.photos EXECUTE FUNCTION refuse()",
            )
            .unwrap();
    }

    /// Copies shard 5 with its rows and its last id to `b`.
    fn carry(&self) {
        let (mut a, mut b) = (self.a.connect(), self.b.connect());
        create_photos(&mut b, 5);
        for row in a.query("SELECT id, user_id, title FROM insta5.photos ORDER BY id", &[]).unwrap() {
            let (id, user, title): (i64, i64, &str) = (row.get(0), row.get(1), row.get(2));
            b.execute("INSERT INTO insta5.photos VALUES ($1, $2, $3)", &[&id, &user, &title]).unwrap();
        }
        let last: i64 = one(&mut a, "SELECT last_id FROM id_shards");
        one::<i64>(&mut b, &format!("SELECT advance_shard(5, {last})"));
    }

    /// Sets the placement of shard 5 in the map to `b`.
    fn switch(&self) {
        self.map().batch_execute("UPDATE shard_map.shards SET server = 'b' WHERE shard = 5").unwrap();
    }

    /// Terminates the connections to a database on `a`.
    fn disconnect(&self, database: &str) {
        let disconnect = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = '{database}' AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        );
        assert!(!self.a.connect().query(&disconnect, &[]).unwrap().is_empty());
    }

    fn clients(&self) -> [Program<'_>; 3] {
        LazyLock::force(&COMPILED); // before the first client starts
        LANGUAGES.map(|language| Program { language, place: self })
    }
}

fn create_photos(client: &mut Client, shard: i32) {
    client
        .batch_execute(&format!(
            "SELECT create_shard({shard});
             CREATE TABLE insta{shard}.photos
                 (id bigint PRIMARY KEY DEFAULT insta{shard}.next_id(), user_id bigint NOT NULL, title text NOT NULL)"
        ))
        .unwrap();
}

fn conninfo(server: &Server, database: &str) -> String {
    format!("host={} user=postgres dbname={database}", server.path().display())
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Language {
    Python,
    Rust,
    Psql,
}

const LANGUAGES: [Language; 3] = [Language::Python, Language::Rust, Language::Psql];

struct Program<'a> {
    language: Language,
    place: &'a Place,
}

/// A photo as a client prints it.
#[derive(Debug, PartialEq)]
struct Photo {
    id: i64,
    server: String,
    user: i64,
    title: String,
}

impl Program<'_> {
    /// Starts a client that inserts this many photos into the shard of a user.
    fn start(&self, user: i64, photos: usize) -> Running {
        self.start_with(user, &(0..photos).map(|n| n.to_string()).collect::<Vec<_>>())
    }

    fn start_with(&self, user: i64, titles: &[String]) -> Running {
        let mut command = match self.language {
            Language::Python => {
                let mut command = Command::new("python3");
                command.arg(example("route.py")).env("PYTHONPATH", CACHE.join("clients/python"));
                command
            }
            Language::Rust => Command::new(&*COMPILED),
            Language::Psql => {
                let mut command = Command::new(example("route.sh"));
                command.env("PATH", self.place.a.programs_path());
                command
            }
        };
        command.arg(conninfo(&self.place.a, "map")).arg(user.to_string()).args(titles);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (sender, photos) = channel();
        thread::spawn(move || {
            lines.map(|line| photo(&line.unwrap())).try_for_each(|photo| sender.send(photo))
        });
        Running { process, photos, language: self.language }
    }
}

fn photo(line: &str) -> Photo {
    let fields: Vec<&str> = line.splitn(4, ' ').collect();
    Photo {
        id: fields[0].parse().unwrap(),
        server: fields[1].into(),
        user: fields[2].parse().unwrap(),
        title: fields[3].into(),
    }
}

/// A running client.
struct Running {
    process: Child,
    photos: Receiver<Photo>,
    language: Language,
}

impl Running {
    fn next(&mut self) -> Photo {
        match self.photos.recv_timeout(Duration::from_secs(30)) {
            Ok(photo) => photo,
            Err(RecvTimeoutError::Timeout) => panic!("{:?} prints nothing", self.language),
            Err(RecvTimeoutError::Disconnected) => {
                let (_, _, errors) = self.finish();
                panic!("{:?} ends too soon: {errors}", self.language)
            }
        }
    }

    /// The photos not read yet, the exit status, and the standard error output.
    fn finish(&mut self) -> (Vec<Photo>, ExitStatus, String) {
        let photos = self.photos.iter().collect();
        let mut errors = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (photos, self.process.wait().unwrap(), errors)
    }

    /// Same for a client that must succeed without output on standard error.
    #[track_caller]
    fn photos(mut self) -> Vec<Photo> {
        let (photos, status, errors) = self.finish();
        assert!(status.success() && errors.is_empty(), "{:?}: {errors}", self.language);
        photos
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The Rust client, in the folder next to this test's program. `cargo test` compiles it only if it builds all targets.
static COMPILED: LazyLock<PathBuf> = LazyLock::new(|| {
    let cargo = ["build", "--quiet", "--package", env!("CARGO_PKG_NAME"), "--example", "route"];
    assert!(Command::new(env!("CARGO")).args(cargo).status().unwrap().success());
    std::env::current_exe().unwrap().parent().unwrap().with_file_name("examples").join("route")
});

/// `[id, user, title]` of each row of shard 5 or 6, by id.
fn photos_on(server: &Server, shard: i32) -> Vec<(i64, i64, String)> {
    let photos = format!("SELECT id, user_id, title FROM insta{shard}.photos ORDER BY id");
    let rows = server.connect().query(&photos, &[]).unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

/// The map's own errors name the way out.
#[test]
fn misuse_of_the_map_is_explained() {
    let place = Place::with_a_map();
    place.a.connect().batch_execute("CREATE DATABASE empty").unwrap();
    let run = |database: &str, arguments: &[&str]| {
        let output = place
            .a
            .shards_command(arguments)
            .env("INSTAGRAM_ID_MAP", conninfo(&place.a, database))
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(said).unwrap())
    };
    const NO_MAP: &str = "error: this database has no map; to create one: instagram_id_shards init\n";
    for arguments in
        [&["status"][..], &["server", "a", "host=/tmp"], &["place", "a", "5"], &["move", "5", "--to", "b"]]
    {
        assert_eq!(run("empty", arguments), (1, NO_MAP.into()), "{arguments:?}");
    }
    for (arguments, status, said) in [
        (&["init"][..], 1, "error: this database has a map already\n"),
        (
            &["place", "a", "5"],
            1,
            "error: there is no server a in the map; to add it: instagram_id_shards server a CONNINFO\n",
        ),
        (
            &["server", "a", "nonsense"],
            1,
            "error: the connection string is invalid: missing \"=\" after \"nonsense\" in connection info string\n",
        ),
        (&["server", "a", "postgresql:///app?host=/tmp"], 0, "==> Recorded server a\n"),
        (
            &["place", "a", "8192"],
            2,
            "error: invalid value '8192' for '<SHARD>...': expected the number of a shard, 0 to 8191\n\nFor more information, try '--help'.\n",
        ),
    ] {
        assert_eq!(run("map", arguments), (status, said.into()), "{arguments:?}");
    }
    assert!(run("map", &["move", "5", "b"]).1.contains("--to <SERVER> <SHARD>"));
    assert!(run("map", &["help"]).1.contains("Commands:"));
}

#[test]
fn clients_route_by_user_and_by_id() {
    let place = Place::start();
    let title = "it's, \"a\" $title \\ of :'words'  ".to_owned();
    let mut expected = [vec![], vec![]];
    for (n, client) in place.clients().iter().enumerate() {
        for ((shard, name), expected) in [(5, "a"), (6, "b")].into_iter().zip(&mut expected) {
            let user = 2000 * n as i64 + shard;
            let photos = client.start_with(user, &[title.clone(), "second".into()]).photos();
            assert_eq!(photos.len(), 2);
            for photo in photos {
                assert_eq!((photo.server.as_str(), photo.user, photo.id >> 10 & 8191), (name, user, shard));
                expected.push((photo.id, photo.user, photo.title));
            }
        }
    }
    assert_eq!(expected[0][0].2, title);
    assert_eq!(expected[0], photos_on(&place.a, 5));
    assert_eq!(expected[1], photos_on(&place.b, 6));
}

/// Three clients use a shard at once; their connections are terminated, and then the shard moves.
#[test]
fn clients_follow_a_shard_that_moves() {
    let place = Place::start();
    // So that they do not end before the move.
    place
        .a
        .connect()
        .batch_execute(
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END $$;
             CREATE TRIGGER wait BEFORE INSERT ON insta5.photos FOR EACH ROW EXECUTE FUNCTION wait()",
        )
        .unwrap();
    // psql is started six times for each photo.
    let photos = |client: &Program| {
        if client.language == Language::Psql { length(25, 250) } else { length(1000, 10_000) }
    };
    let start = |(n, client): (usize, &Program)| client.start(2000 * n as i64 + 5, photos(client));
    let mut running: Vec<Running> = place.clients().iter().enumerate().map(start).collect();
    let some = |running: &mut Vec<Running>| -> Vec<Vec<Photo>> {
        running.iter_mut().map(|client| (0..5).map(|_| client.next()).collect()).collect()
    };
    let first = some(&mut running);
    place.disconnect("postgres");
    let second = some(&mut running);
    place.close();
    place.carry();
    thread::sleep(Duration::from_millis(300)); // so that the clients retry
    place.switch();

    let mut all = vec![];
    for ((client, first), second) in running.into_iter().zip(first).zip(second) {
        let language = client.language;
        let printed: Vec<Photo> = first.into_iter().chain(second).chain(client.photos()).collect();
        let titles: Vec<usize> = printed.iter().map(|photo| photo.title.parse().unwrap()).collect();
        assert_eq!(titles, (0..titles.len()).collect::<Vec<_>>(), "{language:?}: each photo once");
        assert!(printed.is_sorted_by(|one, next| one.id < next.id), "{language:?}: ids grow");
        let moved = printed.iter().position(|photo| photo.server == "b").expect("photos on b");
        assert!(printed[moved..].iter().all(|photo| photo.server == "b"), "{language:?}: there and not back");
        println!("{language:?}: {moved} photos on a, {} on b", printed.len() - moved);
        assert!(moved >= 10);
        all.extend(printed.into_iter().map(|photo| (photo.id, photo.user, photo.title)));
    }
    all.sort();
    assert_eq!(all, photos_on(&place.b, 5), "what was printed is what there is");
}

/// The transaction is committed, but the client only sees that its connection is lost: a COMMIT that waits for a
/// missing standby is terminated.
#[test]
fn clients_do_not_repeat_a_commit_whose_result_was_lost() {
    let place = Place::start();
    let clients = place.clients();
    let mut admin = place.a.connect();
    admin.batch_execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'").unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").unwrap();
    place.a.wait_until("SELECT current_setting('synchronous_standby_names') = 'nobody'");
    let mut running = clients.map(|client| client.start(5, 1));
    // Terminates sessions that have inserted a row. The others, which have only generated an id, continue.
    let inserted = "wait_event = 'SyncRep' AND pid IN (SELECT pid FROM pg_locks WHERE relation = 'insta5.photos'::regclass)";
    let cut_off = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {inserted}");
    let let_go = format!(
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
         WHERE wait_event = 'SyncRep' AND query_start < clock_timestamp() - interval '0.1 s' AND NOT ({inserted})"
    );
    let mut were_cut_off = 0;
    place.a.wait_for("the end of the clients", || {
        were_cut_off += admin.query(&cut_off, &[]).unwrap().len();
        admin.query(&let_go, &[]).unwrap();
        running.iter_mut().all(|client| client.process.try_wait().unwrap().is_some())
    });
    let mut printed: Vec<i64> = running.into_iter().map(|client| client.photos()[0].id).collect();
    printed.sort();
    println!("{were_cut_off} sessions cut off after their COMMIT");
    assert!(were_cut_off >= 3);
    assert_eq!(printed, photos_on(&place.a, 5).iter().map(|photo| photo.0).collect::<Vec<_>>());
}

#[test]
fn clients_cache_and_refresh_the_map() {
    let place = Place::start();
    let copies = place.clients().into_iter().filter(|client| client.language != Language::Psql);
    let mut running: Vec<Running> = copies.map(|client| client.start(5, 40_000)).collect();
    let print_for = |running: &mut Vec<Running>, time: Duration| {
        let end = Instant::now() + time;
        while Instant::now() < end {
            for client in running.iter_mut() {
                assert_eq!(client.next().server, "a");
            }
        }
    };
    print_for(&mut running, Duration::from_millis(100));
    // The map becomes unavailable, and the clients continue.
    place.a.connect().batch_execute("ALTER DATABASE map ALLOW_CONNECTIONS false").unwrap();
    place.disconnect("map");
    print_for(&mut running, FRESH + Duration::from_secs(1));
    place.a.connect().batch_execute("ALTER DATABASE map ALLOW_CONNECTIONS true").unwrap();
    // The clients are not told that the placement of the shard has changed, to the same server under another name.
    let rename =
        "INSERT INTO shard_map.servers SELECT 'c', conninfo FROM shard_map.servers WHERE server = 'a';
        UPDATE shard_map.shards SET server = 'c' WHERE server = 'a'";
    place.map().batch_execute(rename).unwrap();
    let switched = Instant::now();
    for client in &mut running {
        while client.next().server == "a" {
            assert!(
                switched.elapsed() < FRESH + Duration::from_secs(30),
                "{:?} has not heard",
                client.language
            );
        }
    }
}

#[test]
fn clients_find_a_server_at_its_new_address() {
    let place = Place::start();
    let set = |conninfo: &str| {
        place
            .map()
            .execute("UPDATE shard_map.servers SET conninfo = $1 WHERE server = 'a'", &[&conninfo])
            .unwrap()
    };
    set("host=/nowhere user=postgres dbname=postgres");
    let running = place.clients().map(|client| client.start(5, 1));
    thread::sleep(Duration::from_millis(700));
    set(&conninfo(&place.a, "postgres"));
    for client in running {
        assert_eq!(client.photos()[0].server, "a");
    }
}

#[test]
fn clients_report_why_they_fail() {
    let place = Place::start();
    place.close();
    let clients = place.clients();
    in_parallel(clients.len(), |n| {
        let started = Instant::now();
        let (photos, status, errors) = clients[n].start(5, 1).finish();
        let (took, language) = (started.elapsed(), clients[n].language);
        assert!(photos.is_empty() && !status.success());
        assert!(errors.contains("shard 5 is moving or has moved"), "{language:?}: {errors}");
        assert!(took > PATIENCE, "{language:?}: {took:?}");
    });
    // Clients do not retry after permanent errors.
    place.b.connect().batch_execute("DROP TABLE insta6.photos").unwrap();
    for client in clients {
        let started = Instant::now();
        let (_, status, errors) = client.start(6, 1).finish();
        assert!(!status.success() && errors.contains("insta6.photos"), "{:?}: {errors}", client.language);
        assert!(started.elapsed() < PATIENCE);
    }
}

/// The page shows parts of the actual clients.
#[test]
fn page_shows_the_actual_clients() {
    for (language, name) in [("python", "route.py"), ("rust", "route.rs")] {
        let client = trimmed(&std::fs::read_to_string(example(name)).unwrap());
        let shown = blocks(PAGE, language);
        assert!(!shown.is_empty());
        for block in shown {
            assert!(client.contains(&trimmed(block)), "not in {name}:\n{block}");
        }
    }
}

fn trimmed(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.trim())).collect()
}

/// Writers change placements at random; some take their time, some roll back. A reader that queries the rows with a
/// version above the highest one it has seen misses no change.
#[test]
fn readers_of_the_map_miss_no_change() {
    let place = Place::with_a_map();
    place
        .map()
        .batch_execute(
            "INSERT INTO shard_map.servers VALUES ('0', ''), ('1', ''), ('2', '');
             INSERT INTO shard_map.shards (shard, server) SELECT n, '0' FROM generate_series(0, 99) AS n",
        )
        .unwrap();
    let end = Instant::now() + Duration::from_millis(length(2_000, 60_000));
    let mut random = random("map");
    let seeds: [u64; 4] = std::array::from_fn(|_| random.u64(..));
    let write = |n: usize| {
        let mut random = fastrand::Rng::with_seed(seeds[n]);
        let mut client = place.map();
        let mut changes = 0;
        while Instant::now() < end {
            let mut transaction = client.transaction().unwrap();
            let (shard, server) = (random.i32(0..100), random.i32(0..3).to_string());
            let change = "UPDATE shard_map.shards SET server = $1 WHERE shard = $2";
            transaction.execute(change, &[&server, &shard]).unwrap();
            thread::sleep(Duration::from_micros(random.u64(0..2000)));
            if random.u8(..) < 200 {
                transaction.commit().unwrap();
                changes += 1;
            }
        }
        changes
    };
    let is_over = AtomicBool::new(false);
    let read = || {
        let mut client = place.map();
        let (mut copy, mut seen, mut reads) = (vec![String::new(); 100], 0_i64, 0);
        loop {
            let is_last = is_over.load(Ordering::SeqCst);
            let newer =
                "SELECT shard, server, version FROM shard_map.shards WHERE version > $1 ORDER BY version";
            for row in client.query(newer, &[&seen]).unwrap() {
                let (shard, version): (i32, i64) = (row.get(0), row.get(2));
                assert!(version > seen, "{version} twice");
                copy[shard as usize] = row.get(1);
                seen = version;
            }
            reads += 1;
            if is_last {
                return (copy, seen, reads);
            }
        }
    };
    let (changes, (copy, seen, reads)) = thread::scope(|scope| {
        let reader = scope.spawn(read);
        let changes: i64 = in_parallel(4, write).iter().sum();
        is_over.store(true, Ordering::SeqCst);
        (changes, reader.join().unwrap())
    });
    let truth = "SELECT server FROM shard_map.shards ORDER BY shard";
    assert_eq!(copy, rows(&mut place.map(), truth));
    println!("{changes} changes, up to version {seen}, in {reads} reads");
    assert!(changes > 100 && seen == 100 + changes && reads > 100);
    assert_eq!(one::<i64>(&mut place.map(), "SELECT version FROM shard_map.last"), seen);
}

/// Runs the page's SQL, and checks the plans that it shows.
#[test]
fn servers_page_examples_run() {
    let place = Place::with_a_map();
    let available = "SELECT count(*) > 0 FROM pg_available_extensions WHERE name = 'postgres_fdw'";
    if !one::<bool>(&mut place.a.connect(), available) {
        println!("skipped: this server has no postgres_fdw");
        return;
    }
    for server in [&place.a, &place.b] {
        server.connect().batch_execute("CREATE DATABASE app").unwrap();
    }
    let folder = |server: &Server| server.path().display().to_string();
    let page = PAGE.replace("a.example.net", &folder(&place.a)).replace("b.example.net", &folder(&place.b));
    let app = |server: &Server| server.connect_to("app");
    run_page(&page, 15, &mut [("map", place.map()), ("a", app(&place.a)), ("b", app(&place.b))]);

    // The block for psql.
    let script = place.a.path().join("by_hand.sql");
    std::fs::write(&script, blocks(&page, "psql")[0]).unwrap();
    let said = place
        .a
        .run("psql", &["-X", "-v", "ON_ERROR_STOP=1", "-A", "-d", "app", "-f", script.to_str().unwrap()]);
    assert!(said.contains("id_shard\n1341\n(1 row)"), "{said}");

    // The plans.
    let shown = blocks(&page, "text");
    let (mut a, mut b) = (app(&place.a), app(&place.b));
    const NEWEST: &str = "SELECT * FROM everywhere.photos ORDER BY id DESC LIMIT 50";
    let explain = format!("EXPLAIN (VERBOSE, COSTS OFF) {NEWEST}");
    assert!(page.contains(&format!("{explain};\n")), "not on the page: {explain}");
    let plan = rows(&mut a, &explain);
    let text = trimmed(&plan.join("\n"));
    assert!(shown.iter().any(|&block| trimmed(block) == text), "not on the page:\n{text}");
    let (_, remote) = plan.iter().find_map(|line| line.split_once("Remote SQL: ")).unwrap();
    let plan = rows(&mut b, &format!("EXPLAIN (COSTS OFF) DECLARE newest CURSOR FOR {remote}"));
    assert_eq!(plan.iter().filter(|line| line.contains("Index Scan Backward using photos_pkey")).count(), 2);

    // A condition with `now()` fetches the whole table.
    let with_now = "SELECT title FROM b.photos WHERE id_between(id, now() - interval '1 day', now())";
    let explain = format!("EXPLAIN (VERBOSE, COSTS OFF) {with_now}");
    assert!(page.contains(&format!("{explain};\n")), "not on the page: {explain}");
    let plan = rows(&mut a, &explain).join("\n");
    assert!(plan.ends_with("Remote SQL: SELECT id, title FROM here.photos"), "{plan}");

    // The result.
    let mut truth: Vec<String> = vec![];
    for (client, shards) in [(&mut a, [5, 6]), (&mut b, [7, 1341])] {
        for shard in shards {
            truth.extend(rows(client, &format!("SELECT * FROM insta{shard}.photos")));
        }
    }
    truth.sort_by_key(|row| -row.split(' ').next().unwrap().parse::<i64>().unwrap());
    truth.truncate(50);
    assert_eq!(rows(&mut a, NEWEST), truth);

    // The rows that the query read on `b`. The statistics of a session are complete when it has ended.
    drop((a, b));
    let mut b = app(&place.b);
    let mut rows_read = || {
        let others = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = 'app' AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
        place.b.wait_for("the end of the other sessions", || one::<i64>(&mut b, others) == 0);
        one::<i64>(&mut b, "SELECT sum(idx_tup_fetch + seq_tup_read)::bigint FROM pg_stat_user_tables")
    };
    let before = rows_read();
    rows(&mut app(&place.a), NEWEST);
    let read = rows_read() - before;
    println!("{read} rows read on the other server for the newest 50");
    assert!((100..=102).contains(&read)); // the fetched rows, and one row read ahead in each index
}

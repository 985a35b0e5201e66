//! The clients of docs/run/servers.md, docs/examples/route.*, run unchanged.

use crate::clients::require;
use instagram_id_live::*;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The minimum time for which clients retry while a shard moves, and the time for which they cache
/// the map.
const PATIENCE: Duration = Duration::from_secs(5);
const FRESH: Duration = Duration::from_secs(2);

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

fn clients(place: &Place) -> [Program<'_>; 3] {
    require(
        "psycopg",
        "PYTHONPATH=$CACHE/clients/python python3 -c 'import psycopg'",
        "scripts/setup.sh clients",
    );
    LazyLock::force(&COMPILED); // before the first client starts
    LANGUAGES.map(|language| Program { language, place })
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

/// The Rust client, in the folder next to this test's program. `cargo test` compiles it only if it
/// builds all targets.
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

#[test]
fn clients_route_by_user_and_by_id() {
    let place = Place::start();
    let title = "it's, \"a\" $title \\ of :'words'  ".to_owned();
    let mut expected = [vec![], vec![]];
    for (n, client) in clients(&place).iter().enumerate() {
        for ((shard, name), expected) in [(5, "a"), (6, "b")].into_iter().zip(&mut expected) {
            let user = 2000 * n as i64 + shard;
            let photos = client.start_with(user, &[title.clone(), "second".into()]).photos();
            assert_eq!(photos.len(), 2);
            for photo in photos {
                assert_eq!(
                    (photo.server.as_str(), photo.user, photo.id >> 10 & 8191),
                    (name, user, shard)
                );
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
    run(&mut place.a.connect(), "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END $$;
             CREATE TRIGGER wait BEFORE INSERT ON insta5.photos FOR EACH ROW EXECUTE FUNCTION wait()");
    // psql is started six times for each photo.
    let photos = |client: &Program| {
        if client.language == Language::Psql { length(25, 250) } else { length(1000, 10_000) }
    };
    let start = |(n, client): (usize, &Program)| client.start(2000 * n as i64 + 5, photos(client));
    let mut running: Vec<Running> = clients(&place).iter().enumerate().map(start).collect();
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
        assert!(
            printed[moved..].iter().all(|photo| photo.server == "b"),
            "{language:?}: there and not back"
        );
        println!("{language:?}: {moved} photos on a, {} on b", printed.len() - moved);
        assert!(moved >= 10);
        all.extend(printed.into_iter().map(|photo| (photo.id, photo.user, photo.title)));
    }
    all.sort();
    assert_eq!(all, photos_on(&place.b, 5), "what was printed is what there is");
}

/// The transaction is committed, but the client only sees that its connection is lost: a COMMIT
/// that waits for a missing standby is terminated.
#[test]
fn clients_do_not_repeat_a_commit_whose_result_was_lost() {
    let place = Place::start();
    let clients = clients(&place);
    let mut admin = place.a.connect();
    run(&mut admin, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    run(&mut admin, "SELECT pg_reload_conf()");
    place.a.wait_until("SELECT current_setting('synchronous_standby_names') = 'nobody'");
    let mut running = clients.map(|client| client.start(5, 1));
    // Terminates sessions that have inserted a row. The others, which have only generated an id,
    // continue.
    let inserted = "wait_event = 'SyncRep' AND pid IN (SELECT pid FROM pg_locks WHERE relation = 'insta5.photos'::regclass)";
    let cut_off =
        format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {inserted}");
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

/// A role that can insert has taken the ids that the clients get next. Each client reports this.
#[test]
fn clients_report_an_id_that_another_row_has() {
    let place = Place::start();
    for client in clients(&place) {
        run(
            &mut place.a.connect(),
            "INSERT INTO insta5.photos
             SELECT make_id(now() + n * interval '1 ms', 5, (id_seq(last) + 1) & 1023), 666, 'taken'
             FROM next_id(5) AS last, generate_series(0, 60000) AS n",
        );
        let (photos, status, errors) = client.start(5, 1).finish();
        assert!(photos.is_empty() && !status.success(), "{:?}: {photos:?}", client.language);
        assert!(errors.contains("photos_pkey"), "{:?}: {errors}", client.language);
    }
}

#[test]
fn clients_cache_and_refresh_the_map() {
    let place = Place::start();
    let copies = clients(&place).into_iter().filter(|client| client.language != Language::Psql);
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
    run(&mut place.a.connect(), "ALTER DATABASE map ALLOW_CONNECTIONS false");
    place.disconnect("map");
    print_for(&mut running, FRESH + Duration::from_secs(1));
    run(&mut place.a.connect(), "ALTER DATABASE map ALLOW_CONNECTIONS true");
    // The clients are not told that the placement of the shard has changed, to the same server
    // under another name.
    let rename =
        "INSERT INTO shard_map.servers SELECT 'c', conninfo FROM shard_map.servers WHERE server = 'a';
        UPDATE shard_map.shards SET server = 'c' WHERE server = 'a'";
    run(&mut place.map(), rename);
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
    let running = clients(&place).map(|client| client.start(5, 1));
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
    let clients = clients(&place);
    in_parallel(clients.len(), |n| {
        let started = Instant::now();
        let (photos, status, errors) = clients[n].start(5, 1).finish();
        let (took, language) = (started.elapsed(), clients[n].language);
        assert!(photos.is_empty() && !status.success());
        assert!(errors.contains("shard 5 is moving or has moved"), "{language:?}: {errors}");
        assert!(took > PATIENCE, "{language:?}: {took:?}");
    });
    // Clients do not retry after permanent errors.
    run(&mut place.b.connect(), "DROP TABLE insta6.photos");
    for client in clients {
        let started = Instant::now();
        let (_, status, errors) = client.start(6, 1).finish();
        assert!(
            !status.success() && errors.contains("insta6.photos"),
            "{:?}: {errors}",
            client.language
        );
        assert!(started.elapsed() < PATIENCE);
    }
}

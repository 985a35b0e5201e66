//! Ids after a failover to a standby, when the primary was killed, and after a point-in-time
//! recovery of a base backup.
//!
//! Every id there is above all that clients had received before:
//!
//! - With synchronous replication this holds at any state of the sequence, also ahead of the clock:
//!   a transaction that has received an id commits only when the standby has the WAL record that
//!   covers the id, even if the transaction has only read it. Nothing that was acknowledged is
//!   lost. (If that wait is cancelled, PostgreSQL only warns: the transaction is committed, and the
//!   session considers the record replicated from then on.)
//! - With asynchronous replication the last moments may not have reached the standby. Their rows
//!   are lost, as PostgreSQL documents. Ids are still not repeated, since the new primary continues
//!   with the clock, provided that its clock is not behind the old primary's and that the sequence
//!   was not ahead of the clock. If it was ahead (the clock was set back, or another failover or a
//!   crash under full load was less than a second ago), ids that the standby has not received may
//!   be repeated.
//! - After a point-in-time recovery the ids are above all that were committed before the target;
//!   and above those after it, which the recovery discards, under the same two conditions.

use instagram_id_live::*;
use postgres::Client;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

const SESSIONS: usize = 6;

/// Any connected server is a synchronous standby. `local` commits without one, before it exists.
const SYNCHRONOUS: (&str, &str) = ("synchronous_standby_names", "*");
const ALONE: &str = "SET synchronous_commit = local";
/// A standby that has lost its primary reconnects at once.
const IMPATIENT: (&str, &str) = ("wal_retrieve_retry_interval", "50ms");

/// Creates shard 5 with a table, without waiting for a standby.
fn settle(server: &Server, is_ahead: bool) {
    let mut client = server.connect();
    run(&mut client, ALONE);
    setup_photos(&mut client);
    one::<i64>(&mut client, "SELECT next_id(5)");
    if is_ahead {
        set_an_hour_ahead(&mut client, "insta5.table_id_seq");
        // The record that setval writes covers only its own value; this call writes one, and does
        // not wait for a standby.
        one::<i64>(&mut client, "SELECT next_id(5)");
    }
}

/// The ids of rows whose commit was acknowledged.
type Acknowledged = Arc<Mutex<Vec<i64>>>;

/// Ids that are only read, and rows with ids by default, in each way that applications use.
fn work(rows: &Acknowledged) -> Vec<Work> {
    let makes_rows = |work: Work| -> Work {
        let rows = rows.clone();
        Box::new(move |client, received| {
            let before = received.ids.len();
            work(client, received)?;
            rows.lock().unwrap().extend(&received.ids[before..]);
            Ok(())
        })
    };
    vec![
        query("SELECT next_id(5)"),
        makes_rows(query("INSERT INTO insta5.photos (batch) VALUES (1) RETURNING id")),
        query("SELECT next_ids(5, 50)"),
        makes_rows(copy("insta5.photos", 200)),
        query("SELECT insta5.next_id()"),
        makes_rows(query(
            "BEGIN; INSERT INTO insta5.photos (batch) VALUES (2) RETURNING id;
             INSERT INTO insta5.photos (batch) SELECT 3 FROM generate_series(1, 50) RETURNING id; COMMIT",
        )),
    ]
}

/// How many of these rows are missing on the server.
fn missing(server: &Server, rows: &[i64]) -> i64 {
    let query = "SELECT count(*) FROM (SELECT unnest($1::bigint[]) EXCEPT SELECT id FROM insta5.photos) AS missing";
    server.connect().query_one(query, &[&rows]).unwrap().get(0)
}

/// A standby of this server that streams from it.
fn standby_of(primary: &Server) -> Server {
    let standby = Server::start_standby_of(primary);
    primary.wait_until("SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'");
    standby
}

fn promote(standby: &Server) {
    assert!(one::<bool>(&mut standby.connect(), "SELECT pg_promote()"), "{}", standby.log());
}

/// Repeatedly kills the primary under load and promotes its standby, each time after the standby
/// was disconnected for a moment. The sessions continue on the current primary; one journal records
/// what they received from all of them.
fn fail_over(scenario: &str, settings: &[(&str, &str)], is_ahead: bool, failovers: usize) {
    let is_synchronous = settings.contains(&SYNCHRONOUS);
    let clock = match is_ahead {
        true => Clock::Set,
        // One second, and a little more for each failover before that lead is used up.
        false => Clock::Within { behind: 0, ahead: 1000 + 50 * failovers as i64 },
    };
    let mut journal = Journal::new(scenario, clock);
    let rows = Acknowledged::default();
    let primary = RwLock::new(Server::start(settings));
    settle(&primary.read().unwrap(), is_ahead);
    let a_while = || thread::sleep(Duration::from_millis(300));
    let during = || {
        let mut standby = standby_of(&primary.read().unwrap());
        for _ in 0..failovers {
            a_while();
            if !is_synchronous {
                // Ids of the lead that the last failover has left may be lost with the last
                // moments: see above.
                primary
                    .read()
                    .unwrap()
                    .wait_until("SELECT NOT ahead > '0' FROM id_shards WHERE shard = 5");
            }
            // Commits from here on do not reach the standby: there are none if commits wait for it,
            // or else this row.
            cut_off(&standby, &primary.read().unwrap());
            if !is_synchronous {
                let mut row = Received::default();
                let insert = "INSERT INTO insta5.photos (batch) VALUES (4) RETURNING id";
                row.run(&mut primary.read().unwrap().connect(), insert).unwrap();
                rows.lock().unwrap().extend(&row.ids);
                journal.add([row]);
            }
            thread::sleep(Duration::from_millis(100));
            primary.read().unwrap().crash();
            promote(&standby);
            *primary.write().unwrap() = standby;
            // Asynchronous sessions continue alone; synchronous ones wait for the next standby.
            standby = standby_of(&primary.read().unwrap());
        }
        a_while();
        standby
    };
    let connect = || primary.read().unwrap().try_connect();
    let (received, outcome) = under_load(connect, SESSIONS, &work(&rows), || {
        let outcome = catch_unwind(AssertUnwindSafe(during));
        if outcome.is_err() {
            // Otherwise synchronous sessions would wait forever for the standby that the panic has
            // stopped.
            let primary = primary.read().unwrap();
            if primary.is_running() {
                primary.stop_at_once();
            }
        }
        outcome
    });
    let _standby = outcome.unwrap_or_else(|panic| resume_unwind(panic));
    journal.faults = failovers;
    journal.add(received);
    journal.check();
    let rows = rows.lock().unwrap();
    let lost = missing(&primary.read().unwrap(), &rows);
    println!("    {lost} of {} acknowledged rows lost", rows.len());
    assert!(rows.len() > 100 * failovers, "only {} rows", rows.len());
    assert_eq!(lost > 0, !is_synchronous, "{scenario}: {lost} acknowledged rows lost");
}

/// Here no guarantee depends on the clock. Commits wait until the standby has applied them; a
/// session that only reads an id waits until the standby has the WAL, from which it continues.
#[test]
fn synchronous_failover_ahead_of_the_clock_repeats_no_ids() {
    let failovers = length(1, 15);
    let settings = [SYNCHRONOUS, IMPATIENT, ("synchronous_commit", "remote_apply")];
    fail_over("failover, synchronous, remote_apply, an hour ahead", &settings, true, failovers);
}

#[test]
fn asynchronous_failover_repeats_no_ids() {
    let failovers = length(2, 15);
    fail_over("failover, asynchronous", &[IMPATIENT], false, failovers);
}

/// A primary whose synchronous standby can be disconnected. Ahead of the clock, so that the clock
/// cannot hide a loss.
struct Pair {
    primary: Server,
    standby: Server,
    /// The connection string of the primary for the standby.
    conninfo: String,
}

/// The sessions of a primary whose disconnected standby lacks the last WAL record of the shard,
/// which an open transaction has written.
struct Sessions {
    /// The session of the open transaction.
    writer: Client,
    /// A session that has not seen the record.
    other: Client,
}

impl Pair {
    fn start() -> Pair {
        let primary = Server::start(&[
            SYNCHRONOUS,
            IMPATIENT,
            ("autovacuum", "off"),
            ("max_prepared_transactions", "2"),
        ]);
        settle(&primary, true);
        let hasty =
            "CREATE FUNCTION hasty() RETURNS bigint LANGUAGE plpgsql SET synchronous_commit = local
            AS 'BEGIN RETURN next_id(5); END'";
        run(&mut primary.connect(), &format!("{ALONE}; {hasty}"));
        let standby = standby_of(&primary);
        let conninfo = one(&mut standby.connect(), "SHOW primary_conninfo");
        Pair { primary, standby, conninfo }
    }

    /// Disconnects the standby, which then lacks a record.
    fn disconnect(&self) -> Sessions {
        let (mut writer, mut other) = (self.primary.connect(), self.primary.connect());
        one::<i64>(&mut other, "SELECT next_id(5)");
        cut_off(&self.standby, &self.primary);
        let end_of_wal = "SELECT pg_current_wal_insert_lsn()::text";
        let before: String = one(&mut other, end_of_wal);
        run(&mut writer, "BEGIN; SELECT count(next_id(5)) FROM generate_series(1, 60000)");
        assert_ne!(
            one::<String>(&mut other, end_of_wal),
            before,
            "a record, by a transaction that stays open"
        );
        Sessions { writer, other }
    }

    /// Runs `work` in a session, checks that it waits for the standby, and connects that again.
    fn check_waits<T: Send>(
        &self,
        what: &str,
        session: &mut Client,
        work: impl FnOnce(&mut Client) -> T + Send,
    ) -> T {
        let pid: i32 = one(session, "SELECT pg_backend_pid()");
        thread::scope(|scope| {
            let work = scope.spawn(|| work(session));
            let waits = waits_for_standby(&self.primary, pid, || work.is_finished());
            set_primary(&self.standby, &self.conninfo);
            let result = work.join().unwrap();
            assert!(waits, "{what}: the standby lacks the record");
            result
        })
    }
}

/// Disconnects a standby from its primary.
fn cut_off(standby: &Server, primary: &Server) {
    set_primary(standby, "");
    primary.wait_until("SELECT count(*) = 0 FROM pg_stat_replication");
}

fn set_primary(standby: &Server, conninfo: &str) {
    let set = format!("ALTER SYSTEM SET primary_conninfo = '{}'", conninfo.replace('\'', "''"));
    run(&mut standby.connect(), &set);
    one::<bool>(&mut standby.connect(), "SELECT pg_reload_conf()");
}

/// Waits until a session waits for a standby or has finished; returns whether it waits.
fn waits_for_standby(primary: &Server, pid: i32, is_over: impl Fn() -> bool) -> bool {
    let query = format!(
        "SELECT coalesce(wait_event = 'SyncRep', false) FROM pg_stat_activity WHERE pid = {pid}"
    );
    let mut watch = primary.connect();
    let mut waits = false;
    primary.wait_for("a session waits for a standby, or for nothing", || {
        waits = one(&mut watch, &query);
        waits || is_over()
    });
    waits
}

/// A session whose ids depend on a record that another transaction has written and not committed.
struct Reader {
    scenario: &'static str,
    /// Whether the transaction is rolled back first and its own session reads then.
    is_rolled_back: bool,
    /// Work of the session before, after which it must still not consider the record replicated.
    first: fn(&Server, &mut Client),
    reads: &'static str,
}

const READ: Reader = Reader {
    scenario: "an id read beside an open transaction",
    is_rolled_back: false,
    first: |_, _| {},
    reads: "SELECT next_id(5)",
};

const READERS: [Reader; 9] = [
    READ,
    Reader {
        scenario: "an id read in a function that does not wait",
        reads: "SELECT hasty()",
        ..READ
    },
    Reader {
        scenario: "an id read where only the commit waits",
        reads: "BEGIN; SET LOCAL synchronous_commit = off; SELECT next_id(5); SET LOCAL synchronous_commit = on; COMMIT",
        ..READ
    },
    Reader { scenario: "an id read after a rollback", is_rolled_back: true, ..READ },
    Reader {
        scenario: "a last id told beside an open transaction",
        reads: "SELECT advance_shard(5, make_id(now(), 5, 0))",
        ..READ
    },
    Reader {
        scenario: "an id read after a transaction that does not wait",
        first: |_, client| {
            // One by one: several statements in one query are one transaction.
            for statement in [ALONE, "SELECT hasty()", "RESET synchronous_commit"] {
                run(client, statement);
            }
        },
        ..READ
    },
    Reader {
        scenario: "an id read after a transaction that waits for no more than the disk in between",
        first: |_, client| {
            run(client, "BEGIN; SELECT next_id(5); SET LOCAL synchronous_commit = local; COMMIT");
        },
        ..READ
    },
    Reader {
        scenario: "an id read after a transaction that is prepared without waiting",
        first: |_, client| {
            run(
                client,
                "BEGIN; SELECT next_id(5); SET LOCAL synchronous_commit = local; PREPARE TRANSACTION 'hasty'",
            );
        },
        ..READ
    },
    Reader {
        scenario: "an id read after standbys have become synchronous",
        first: |primary, client| {
            set_synchronous(client, "");
            one::<i64>(client, "SELECT next_id(5)");
            set_synchronous(client, SYNCHRONOUS.1);
            wait_until_commits_wait(primary);
        },
        ..READ
    },
];

/// Sets the standbys that commits wait for, and waits until this session uses the setting.
fn set_synchronous(client: &mut Client, standbys: &str) {
    run(client, &format!("ALTER SYSTEM SET {} = '{standbys}'", SYNCHRONOUS.0));
    run(client, "SELECT pg_reload_conf()");
    let deadline = Instant::now() + Duration::from_secs(30);
    while one::<String>(client, &format!("SHOW {}", SYNCHRONOUS.0)) != standbys {
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until commits wait for the disconnected standby. That takes effect when the checkpointer
/// has read the setting, which may be later than the session has.
fn wait_until_commits_wait(primary: &Server) {
    let deadline = Instant::now() + Duration::from_secs(30);
    let waits = || {
        let mut client = primary.connect();
        let pid: i32 = one(&mut client, "SELECT pg_backend_pid()");
        thread::scope(|scope| {
            let commit =
                scope.spawn(|| client.batch_execute("CREATE TABLE probe (); DROP TABLE probe"));
            let waits = waits_for_standby(primary, pid, || commit.is_finished());
            if waits {
                one::<bool>(&mut primary.connect(), &format!("SELECT pg_cancel_backend({pid})"));
            }
            commit.join().unwrap().unwrap();
            waits
        })
    };
    while !waits() {
        assert!(Instant::now() < deadline);
    }
}

/// A transaction writes a WAL record and does not commit; the values that the record covers then
/// serve a transaction that only reads. With a synchronous standby that transaction gets its result
/// only when the standby has the record, as for a commit, and not while the standby is
/// disconnected.
#[test]
fn ids_only_read_reach_a_synchronous_standby() {
    let pair = Pair::start();
    let mut received = Received::default();
    for Reader { scenario, is_rolled_back, first, reads } in READERS {
        let Sessions { mut writer, mut other } = pair.disconnect();
        let reader = if is_rolled_back {
            run(&mut writer, "ROLLBACK");
            &mut writer
        } else {
            &mut other
        };
        first(&pair.primary, reader);
        let read = |reader: &mut Client| received.run(reader, reads);
        pair.check_waits(scenario, reader, read).unwrap();
        pair.primary
            .wait_until("SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'");
    }
    pair.primary.crash();
    promote(&pair.standby);
    let mut client = pair.standby.connect();
    run(&mut client, ALONE);
    received.run(&mut client, "SELECT next_id(5)").unwrap();
    let mut journal = Journal::new("failover, ids only read", Clock::Set);
    journal.faults = 1;
    journal.add([received]);
    journal.check();
}

/// A standby refuses to generate ids or change shards; functions that only read work.
#[test]
fn standby_refuses_until_it_is_promoted() {
    let primary = Server::start(&[]);
    let mut client = primary.connect();
    setup(&mut client);
    run(&mut client, "CREATE SCHEMA insta6; CREATE UNLOGGED SEQUENCE insta6.table_id_seq; SELECT create_shard(6, if_not_exists => true);
             SELECT next_id(6);
             CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), batch bigint)");
    let standby = Server::start_standby_of(&primary);
    let last =
        *column(&mut client, "SELECT next_id(5) FROM generate_series(1, 5000)").last().unwrap();
    let position: String = one(&mut client, "SELECT pg_current_wal_insert_lsn()::text");
    run(&mut client, "CREATE TABLE flush ()");
    let mut replica = standby.connect();
    standby.wait_until(&format!("SELECT pg_last_wal_replay_lsn() >= '{position}'"));
    let (state, message, hint) = error_of(&mut replica, "SELECT next_id(5)");
    assert_eq!(
        (state.as_str(), message.as_str(), hint.as_str()),
        (
            "25006",
            "cannot change sequence insta5.table_id_seq in a read-only transaction\nThis server is a standby.",
            "Generate ids on the primary."
        )
    );
    for refused in [
        "SELECT next_ids(5, 10)",
        "SELECT insta5.next_id()",
        "SELECT next_id(5, 'insta5.table_id_seq')",
        "SELECT advance_shard(5, make_id(now(), 5, 0))",
        "INSERT INTO insta5.photos DEFAULT VALUES",
        "COPY insta5.photos (batch) FROM '/dev/null'",
    ] {
        assert_eq!(error_of(&mut replica, refused).0, "25006", "{refused}");
    }
    // The view works, and shows that a standby generates no ids. An unlogged sequence has no file
    // on a standby.
    let seen = replica.query("SELECT shard, last_id FROM id_shards", &[]).unwrap();
    let seen: Vec<(i32, Option<i64>)> = seen.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!((seen.len(), seen[0].0, seen[1]), (2, 5, (6, None)));
    assert!(seen[0].1 >= Some(last));
    let state = "SELECT concat_ws(' ', can_generate, reason) FROM id_shards WHERE shard = 5";
    assert_eq!(texts(&mut client, state), ["t"]);
    assert_eq!(texts(&mut replica, state), ["f this server is a standby"]);
    primary.crash();
    assert!(one::<bool>(&mut replica, "SELECT pg_promote()"));
    assert_eq!(texts(&mut replica, state), ["t"]);
    let next: i64 = one(&mut replica, "SELECT next_id(5)");
    assert!(next > last, "{next} on the new primary, {last} on the old one");
}

/// The target of the recovery of a base backup.
struct Target {
    name: &'static str,
    setting: &'static str,
    /// A query that marks the moment on the primary, and returns its value for the setting.
    mark: &'static str,
}

const TARGETS: [Target; 2] = [
    Target {
        name: "a restore point",
        setting: "recovery_target_name",
        mark: "SELECT 'here' FROM pg_create_restore_point('here')",
    },
    Target {
        name: "a time",
        setting: "recovery_target_time",
        mark: "SELECT clock_timestamp()::text",
    },
];

/// Recovers base backups to targets at which the primary was under load. At each target a
/// transaction is open that has written the record which covers the ids that were read before.
#[expect(clippy::too_many_lines, reason = "one failover, step by step")]
fn recover(is_ahead: bool) {
    let archive =
        [("archive_mode", "on"), ("archive_command", "mkdir -p ../archive && cp %p ../archive/%f")];
    let primary = Server::start(&archive);
    settle(&primary, is_ahead);
    let where_is_it = if is_ahead { "an hour ahead" } else { "with the clock" };
    let targets = length(&TARGETS[!is_ahead as usize..][..1], &TARGETS);
    for &Target { name, setting, mark } in targets {
        let backup = Server::back_up(&primary);
        let rows = Acknowledged::default();
        let load = || {
            let a_while = || thread::sleep(Duration::from_millis(length(300, 3000)));
            under_load(|| primary.try_connect(), SESSIONS, &work(&rows), a_while).0
        };
        let (mut open, mut beside) = (primary.connect(), primary.connect());
        // Otherwise it would write its own record later.
        one::<i64>(&mut beside, "SELECT next_id(5)");
        let mut before = load();
        run(&mut open, "BEGIN; SELECT count(next_id(5)) FROM generate_series(1, 60000)");
        let mut reader = Received::default();
        reader.run(&mut beside, "SELECT next_id(5)").unwrap();
        before.push(reader);
        let rows_before = rows.lock().unwrap().len();
        let target: String = one(&mut primary.connect(), mark);
        let mut after = load();
        let mut further = Received::default();
        further.run(&mut primary.connect(), "SELECT next_ids(5, 100000)").unwrap();
        after.push(further);
        run(&mut open, "COMMIT");
        let segment: String =
            one(&mut primary.connect(), "SELECT pg_walfile_name(pg_switch_wal())");
        primary.wait_until(&format!(
            "SELECT coalesce(last_archived_wal >= '{segment}', false) FROM pg_stat_archiver"
        ));

        let restore = format!("cp {}/archive/%f %p", primary.path().display());
        backup.recover(&[("restore_command", &restore), (setting, &target)]);
        let lost = missing(&backup, &rows.lock().unwrap()[..rows_before]);
        assert_eq!(lost, 0, "{name}: {lost} rows from before the moment lost");
        let taken_back = missing(&backup, &rows.lock().unwrap()[rows_before..]);
        assert_eq!(
            taken_back,
            (rows.lock().unwrap().len() - rows_before) as i64,
            "{name}: not stopped there"
        );
        let (recovered, ()) = under_load(
            || backup.try_connect(),
            SESSIONS,
            &work(&rows),
            || {
                thread::sleep(Duration::from_millis(300));
            },
        );
        let clock = if is_ahead { Clock::Set } else { Clock::Within { behind: 0, ahead: 1050 } };
        let mut journal = Journal::new(format!("recovery to {name}, {where_is_it}"), clock);
        journal.faults = 1;
        journal.add(before);
        if is_ahead {
            // The recovered server cannot know of ids generated after the target, and the clock
            // does not show them either.
            let known = journal.largest();
            let smallest = recovered.iter().flat_map(|session| &session.ids).min().unwrap();
            let largest = after.iter().flat_map(|session| &session.ids).max().unwrap();
            assert!(
                known < *smallest,
                "{name}: {smallest} after the recovery, {known} before the moment"
            );
            assert!(smallest < largest, "{name}: the recovered server knows of {largest}");
        } else {
            journal.add(after);
        }
        journal.add(recovered);
        journal.check();
    }
}

#[test]
fn point_in_time_recovery_repeats_no_ids() {
    recover(false);
}

#[test]
fn point_in_time_recovery_ahead_of_the_clock_repeats_no_ids() {
    recover(true);
}

/// The copy of a Citus node that another node has closed is closed on the synchronous standby, too,
/// before the other node gets the answer. Otherwise both would be open after a failover of this
/// node.
#[test]
fn closed_copy_reaches_a_synchronous_standby() {
    let pair = Pair::start();
    let mut sessions = pair.disconnect();
    let close = "SELECT _close_sequence('insta5.table_id_seq', 1, 1)";
    pair.check_waits("close", &mut sessions.other, |other| run(other, close));
}

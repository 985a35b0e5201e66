//! Ids keep increasing after failed writes and fsyncs. `disk.c` describes the faults.

use instagram_id_live::DiskFault::*;
use instagram_id_live::*;
use postgres::error::SqlState;
use postgres::{Client, Error};
use std::thread;
use std::time::Duration;

const SESSIONS: usize = 6;

/// With small buffers, sessions write pages of tables themselves, and checkpoints are frequent.
/// Each WAL segment is new, so it is written and synced before it is used. The WAL writer sleeps
/// long, so sessions flush WAL themselves.
const SETTINGS: [(&str, &str); 5] = [
    ("shared_buffers", "1MB"),
    ("max_wal_size", "32MB"),
    ("wal_recycle", "off"),
    ("checkpoint_timeout", "30s"),
    ("wal_writer_delay", "10s"),
];

/// Writes a WAL record of the sequence, and no commit waits for it. In the meantime other sessions
/// use the values that it covers.
const ROLLED_BACK: &str = "BEGIN; SELECT advance_shard(5, next_id(5) + (60::bigint << 23)); SELECT pg_sleep(0.02); ROLLBACK";

/// The faults that stop the server.
const PANICS: [DiskFault; 4] = [WriteWal, SyncWal, SyncData, SyncWal];

/// The same work, which continues after an error of the disk.
fn despite_errors(work: Vec<Work>) -> Vec<Work> {
    let despite_errors = |work: Work| -> Work {
        Box::new(move |client, received| match work(client, received) {
            Err(error) if is_of_the_disk(&error) => client.batch_execute("ROLLBACK"),
            outcome => outcome,
        })
    };
    work.into_iter().map(despite_errors).collect()
}

fn is_of_the_disk(error: &Error) -> bool {
    error.code().is_some_and(|code| [SqlState::DISK_FULL, SqlState::IO_ERROR].contains(code))
}

fn connect(server: &Server) -> Result<Client, Error> {
    loop {
        match server.try_connect() {
            Err(error) if is_of_the_disk(&error) => thread::sleep(Duration::from_millis(5)),
            outcome => return outcome,
        }
    }
}

/// Runs sessions while the disk fails repeatedly. In each round some writes to tables, indexes and
/// sequences fail, which raises errors. Then another call fails, which stops the server. The server
/// recovers on a disk that works. Returns the ids. The sequence is an hour ahead of the clock.
/// Otherwise the clock would hide a loss.
fn fail_under_load(scenario: &str, server: &Server, work: Vec<Work>, rounds: usize) -> Vec<i64> {
    one::<i64>(&mut server.connect(), "SELECT next_id(5)");
    set_an_hour_ahead(&mut server.connect(), "insta5.table_id_seq");
    let mut random = random(scenario);
    let disk = server.disk();
    disk.set_seed(random.u64(..));
    let (sessions, ()) = under_load(
        || connect(server),
        SESSIONS,
        &despite_errors(work),
        || {
            for fault in PANICS.into_iter().cycle().take(rounds) {
                let before = server.log().len();
                disk.set_rate(WriteData, 40_000);
                thread::sleep(Duration::from_millis(random.u64(20..400)));
                if fault == SyncData {
                    // Otherwise few checkpoints reach their fsyncs.
                    disk.set_rate(WriteData, 0);
                }
                disk.set_rate(fault, 500_000);
                server.wait_for("a failure that stops the server", || {
                    // Only a checkpoint syncs data files. In the other rounds there is none: it
                    // flushes WAL, and would hide a missing flush of a session.
                    if fault == SyncData {
                        let _ = server
                            .try_connect()
                            .and_then(|mut client| client.batch_execute("CHECKPOINT"));
                    }
                    server.has_stopped()
                });
                disk.repair();
                let log = server.log().split_off(before);
                assert!(
                    log.lines().any(is_panic_of_the_disk),
                    "stopped for another reason:\n{log}"
                );
                server.launch();
            }
        },
    );
    let mut journal = Journal::new(scenario, Clock::Set);
    journal.faults = DiskFault::ALL.iter().map(|&fault| disk.failures(fault) as usize).sum();
    let ids = sessions.iter().flat_map(|session| session.ids.clone()).collect();
    journal.add(sessions);
    let figures = journal.check();
    let panics = server.log().lines().filter(|line| is_panic_of_the_disk(line)).count();
    for fault in DiskFault::ALL {
        println!("    {fault:?}: {} failures", disk.failures(fault));
    }
    println!(
        "    {} writes were torn, {} fsyncs lost WAL, {panics} PANICs",
        disk.torn(),
        disk.lost()
    );
    for fault in PANICS {
        assert!(disk.failures(fault) > 0, "no {fault:?} has failed");
    }
    assert!(figures.ids > 100 * rounds, "only {} ids", figures.ids);
    ids
}

/// No id is repeated or out of order, and every row that a client received exists.
#[test]
fn a_failing_disk_under_inserts_loses_and_repeats_nothing() {
    let server = Server::start_with_a_faulty_disk(&SETTINGS);
    setup_photos(&mut server.connect());
    let rounds = length(4, 100);
    let work = inserts().into_iter().chain([unrecorded(ROLLED_BACK)]).collect();
    let acknowledged = fail_under_load("a failing disk under inserts", &server, work, rounds);
    assert!(server.disk().failures(WriteData) > 0, "no write of a table has failed");
    check_no_row_is_lost(&mut server.connect(), &acknowledged);
}

/// Most transactions only call next_id: they write no WAL, and use values that another transaction
/// has logged.
#[test]
fn a_failing_disk_under_calls_repeats_no_ids() {
    let server = Server::start_with_a_faulty_disk(&SETTINGS);
    setup(&mut server.connect());
    let work = calls().into_iter().chain([unrecorded(ROLLED_BACK)]).collect();
    fail_under_load("a failing disk under calls", &server, work, length(4, 100));
}

//! Whether ids are unique and in order where a clock or a server fails: in turns of two sessions,
//! after crashes, and when a clock that was set back gives the same times again.

use crate::contestants::{self, Contestant, Id};
use crate::rivals::{self, Rival};
use crate::rounds::Rounds;
use instagram_id_live::Server;
use postgres::Client;
use std::collections::HashSet;
use std::time::Instant;

/// Ids that two sessions generate in turn, one at a time.
pub const TURNS: usize = 10_000;
pub const CRASHES: usize = 5;
/// Ids generated before and after each crash, one a transaction.
pub const ALONE: usize = 1_000;
/// Ids generated before and after the clock is set back, in one statement.
pub const IN_BULK: usize = 200_000;

/// Ids that were generated after others.
#[derive(Default)]
pub struct Later {
    pub ids: usize,
    /// How many had been generated before.
    pub repeated: usize,
    /// How many are lower than the greatest id before.
    pub lower: usize,
}

impl Later {
    fn add(&mut self, earlier: &[Id], later: &[Id]) {
        let greatest = earlier.iter().max();
        let known: HashSet<u128> = earlier.iter().map(|id| id.0).collect();
        self.ids += later.len();
        self.repeated += later.iter().filter(|id| known.contains(&id.0)).count();
        self.lower += later.iter().filter(|id| Some(id) < greatest.as_ref()).count();
    }
}

pub struct Order {
    pub in_turns: Later,
    pub after_crashes: Later,
    /// In a session that had generated ids before the clock was set back.
    pub same_session: Later,
    pub new_session: Later,
    pub after_restart: Later,
}

/// One round on a server of its own, whose clock can be set.
pub fn of(
    settings: &[(&str, &str)],
    contestants: &[Contestant],
    rivals: &[Rival],
) -> Rounds<Contestant, Order> {
    let server = Server::start_with_a_clock_of_its_own(settings);
    contestants::set_up(&mut server.connect(), rivals);
    Rounds::of("order and failures", 1, contestants, |contestant| {
        let in_turns = in_turns(&server, contestant);
        let after_crashes = after_crashes(&server, contestant, rivals);
        let [same_session, new_session, after_restart] = times_again(&server, contestant, rivals);
        Order { in_turns, after_crashes, same_session, new_session, after_restart }
    })
}

fn in_turns(server: &Server, contestant: Contestant) -> Later {
    let mut sessions = [server.connect(), server.connect()];
    let statement = format!("SELECT {}", contestant.received(5));
    let statements = sessions.each_mut().map(|client| client.prepare(&statement).unwrap());
    let ids: Vec<Id> = (0..TURNS)
        .map(|turn| sessions[turn % 2].query_one(&statements[turn % 2], &[]).unwrap().get(0))
        .collect();
    let mut later = Later::default();
    for pair in ids.windows(2) {
        later.add(&pair[..1], &pair[1..]);
    }
    later
}

fn after_crashes(server: &Server, contestant: Contestant, rivals: &[Rival]) -> Later {
    let mut later = Later::default();
    let mut earlier = alone(&mut server.connect(), contestant);
    for _ in 0..CRASHES {
        server.crash();
        start(server, rivals);
        let after = alone(&mut server.connect(), contestant);
        later.add(&earlier, &after);
        earlier.extend(after);
    }
    later
}

/// Generates ids, sets the clock back to where it began, and generates ids again: in the same
/// session, in a new one, and after a restart.
fn times_again(server: &Server, contestant: Contestant, rivals: &[Rival]) -> [Later; 3] {
    let mut client = server.connect();
    let began = Instant::now();
    let set_back = || server.set_clock(-began.elapsed().as_secs_f64());
    let mut earlier = in_bulk(&mut client, contestant);
    let mut compared = |after: Vec<Id>| {
        let mut later = Later::default();
        later.add(&earlier, &after);
        earlier.extend(after);
        later
    };
    set_back();
    let same_session = compared(in_bulk(&mut client, contestant));
    set_back();
    let new_session = compared(in_bulk(&mut server.connect(), contestant));
    server.stop();
    start(server, rivals);
    set_back();
    let after_restart = compared(in_bulk(&mut server.connect(), contestant));
    server.set_clock(0.0);
    [same_session, new_session, after_restart]
}

fn start(server: &Server, rivals: &[Rival]) {
    server.launch();
    rivals::set_node(&mut server.connect(), rivals);
}

fn alone(client: &mut Client, contestant: Contestant) -> Vec<Id> {
    let statement = client.prepare(&format!("SELECT {}", contestant.received(5))).unwrap();
    (0..ALONE).map(|_| client.query_one(&statement, &[]).unwrap().get(0)).collect()
}

fn in_bulk(client: &mut Client, contestant: Contestant) -> Vec<Id> {
    let statement =
        format!("SELECT array_agg({}) FROM generate_series(1, {IN_BULK})", contestant.received(5));
    client.query_one(&statement, &[]).unwrap().get(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_and_lower_ids_are_seen() {
        let ids = |ids: &[u128]| ids.iter().map(|id| Id(*id)).collect::<Vec<Id>>();
        let mut later = Later::default();
        later.add(&ids(&[3, 5]), &ids(&[3, 4, 5, 6]));
        assert_eq!((later.ids, later.repeated, later.lower), (4, 2, 2));
    }
}

//! Runs a model in the checker, and describes the result.

use stateright::{Checker, HasDiscoveries, Model};
use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Instant;

/// The limits of an exploration, by the time that it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// Seconds.
    Small,
    /// Many minutes.
    Large,
}

/// A model of a protocol.
pub trait Protocol:
    Model<
        State: Clone + Debug + Eq + Hash + Send + Sync,
        Action: Display + Clone + PartialEq + Send + Sync,
    > + Send
    + Sync
    + Sized
    + 'static
{
    /// A fault that can be built into the protocol.
    type Fault: Copy + Debug + Send + Sync + 'static;

    /// The scenarios to explore, each with the states in which it begins.
    fn scenarios(size: Size, fault: Option<Self::Fault>) -> Vec<Self>;

    /// All faults, by the property that each of them violates.
    fn faults() -> &'static [(&'static str, &'static [Self::Fault])];
}

/// Explores every state of a protocol's scenarios.
///
/// # Panics
///
/// If a history violates a property.
pub fn properties_hold<P: Protocol>() {
    let started = Instant::now();
    let size = if std::env::var("MODELS").is_ok_and(|size| size == "large") {
        Size::Large
    } else {
        Size::Small
    };
    let (mut states, mut depth) = (0, 0);
    for scenario in P::scenarios(size, None) {
        let checker =
            scenario.checker().threads(cores()).finish_when(HasDiscoveries::Any).spawn_bfs().join();
        if let Some((property, path)) = checker.discoveries().into_iter().next() {
            let steps: Vec<String> = path.into_actions().iter().map(ToString::to_string).collect();
            panic!("\"{property}\" is violated:\n  {}", steps.join("\n  "));
        }
        states += checker.unique_state_count();
        depth = depth.max(checker.max_depth());
    }
    println!("{states} states, depth {depth}, {:.1} s", started.elapsed().as_secs_f64());
}

/// Each fault makes a history possible that violates its property. Prints these histories.
///
/// # Panics
///
/// If there is none for a fault.
pub fn faults_are_found<P: Protocol>() {
    let faults = P::faults()
        .iter()
        .flat_map(|(property, faults)| faults.iter().map(|fault| (*property, *fault)));
    let left = Mutex::new(faults);
    std::thread::scope(|scope| {
        for _ in 0..cores() {
            scope.spawn(|| {
                loop {
                    let Some((property, fault)) = left.lock().unwrap().next() else { break };
                    println!("{}", history_of::<P>(property, fault));
                }
            });
        }
    });
}

fn history_of<P: Protocol>(property: &'static str, fault: P::Fault) -> String {
    // Most scenarios have no such history. So the first states of each come before all states of
    // one.
    let mut searches = [10_000, 100_000, usize::MAX].into_iter().flat_map(|states| {
        P::scenarios(Size::Small, Some(fault)).into_iter().map(move |scenario| (states, scenario))
    });
    let found = searches.find_map(|(states, scenario)| {
        let finish = HasDiscoveries::AnyOf(BTreeSet::from([property]));
        let checker = scenario.checker().finish_when(finish).target_state_count(states);
        checker.spawn_bfs().join().discovery(property)
    });
    let Some(path) = found else { panic!("{fault:?}: no history violates \"{property}\"") };
    let mut history = format!("{fault:?} violates \"{property}\":");
    for action in path.into_actions() {
        history += &format!("\n  {action}");
    }
    history
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

//! Runs a model in the checker, and describes the result.

use stateright::{Checker, HasDiscoveries, Model};
use std::fmt::{self, Debug, Display};
use std::hash::Hash;
use std::time::{Duration, Instant};

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
    Model<State: Clone + Debug + Eq + Hash + Send + Sync, Action: Display + Clone + PartialEq + Send + Sync>
    + Send
    + Sync
    + Sized
    + 'static
{
    /// A fault that can be built into the protocol. The checker must find it.
    type Fault: Copy + Debug + 'static;
    /// The title of its section on the page of traces.
    const NAME: &'static str;

    /// The scenarios to explore, each with the states in which it begins.
    fn scenarios(size: Size, fault: Option<Self::Fault>) -> Vec<Self>;

    /// The faults, each with a description.
    fn faults() -> &'static [(Self::Fault, &'static str)];
}

/// The result of a complete exploration.
pub struct Explored {
    pub states: usize,
    /// The greatest depth that the breadth-first search has reached.
    pub depth: usize,
    pub time: Duration,
}

impl Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} states, depth {}, {:.1} s", self.states, self.depth, self.time.as_secs_f64())
    }
}

/// A history that violates a property.
pub struct Counterexample {
    pub property: &'static str,
    pub steps: Vec<String>,
}

/// Explores every state of a protocol's scenarios.
///
/// # Panics
///
/// If a history violates a property.
pub fn explore<P: Protocol>(size: Size) -> Explored {
    let started = Instant::now();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (mut states, mut depth) = (0, 0);
    for scenario in P::scenarios(size, None) {
        let checker = scenario.checker().threads(cores).finish_when(HasDiscoveries::Any).spawn_bfs().join();
        if let Some((property, path)) = checker.discoveries().into_iter().next() {
            let steps: Vec<String> = path.into_actions().iter().map(ToString::to_string).collect();
            panic!("{}: \"{property}\" is violated:\n  {}", P::NAME, steps.join("\n  "));
        }
        states += checker.unique_state_count();
        depth = depth.max(checker.max_depth());
    }
    Explored { states, depth, time: started.elapsed() }
}

/// The shortest history that violates a property, if there is one. The choice among several is deterministic.
pub fn shortest_counterexample<P: Protocol>(fault: P::Fault) -> Option<Counterexample> {
    let mut shortest = None;
    let mut depth_limit = usize::MAX;
    for i in 0..P::scenarios(Size::Small, Some(fault)).len() {
        loop {
            let scenario = P::scenarios(Size::Small, Some(fault)).swap_remove(i);
            let checker = scenario.checker().threads(1).finish_when(HasDiscoveries::Any);
            let checker = checker.target_max_depth(depth_limit).spawn_bfs().join();
            // The checker explores a block of states at a time, and keeps the last violation in it. So search again for
            // a shorter one until there is none.
            let found =
                checker.discoveries().into_iter().map(|(property, path)| (property, path.into_actions()));
            let found = found.min_by_key(|(property, actions)| (actions.len(), *property));
            let Some((property, actions)) = found else { break };
            // A state after n steps has depth n + 1. The checker does not explore states at the limit.
            depth_limit = actions.len() + 1;
            let steps = actions.iter().map(ToString::to_string).collect();
            shortest = Some(Counterexample { property, steps });
        }
    }
    shortest
}

/// The result of repeating a history.
pub struct Repeated {
    pub violated: Vec<&'static str>,
    /// How many of the steps are possible, one after the other, in the scenario in which most are.
    pub possible: usize,
}

/// Repeats a history in each scenario.
pub fn repeat<P: Protocol>(fault: Option<P::Fault>, steps: &[&str]) -> Repeated {
    let mut repeated = Repeated { violated: vec![], possible: 0 };
    for scenario in P::scenarios(Size::Small, fault) {
        let mut states = scenario.init_states();
        for (n, step) in steps.iter().enumerate() {
            // Several actions may have the same text.
            let follow = |state: P::State| {
                let mut actions = vec![];
                scenario.actions(&state, &mut actions);
                actions.retain(|action| action.to_string() == *step);
                let next: Vec<_> =
                    actions.into_iter().filter_map(|action| scenario.next_state(&state, action)).collect();
                next
            };
            states = states.into_iter().flat_map(follow).collect();
            if !states.is_empty() {
                repeated.possible = repeated.possible.max(n + 1);
            }
        }
        let mut properties = scenario.properties();
        properties.retain(|property| states.iter().any(|state| !(property.condition)(&scenario, state)));
        repeated.violated.extend(properties.into_iter().map(|property| property.name));
    }
    repeated
}

//! The page docs/inside/traces.md: for each fault of each protocol, the shortest history that violates a property.

use crate::checker::{Counterexample, Protocol, repeat, shortest_counterexample};
use std::fmt::Write;

pub const INTRODUCTION: &str = "\
# Traces

Each section names a fault that was built into a model of a protocol. The trace is the shortest history that violates a
property. [how_we_know.md](how_we_know.md) describes the models.

This page is generated: `WRITE_PAGE=1 make check T=every_fault_is_found` writes it. `make check` repeats each trace.
";

/// The section of a protocol, with the shortest traces.
///
/// # Panics
///
/// If a fault violates no property.
pub fn search<P: Protocol>() -> String {
    let mut section = format!("\n## {}\n", P::NAME);
    for (fault, description) in P::faults() {
        let found = shortest_counterexample::<P>(*fault);
        let Some(Counterexample { property, steps }) = found else {
            panic!("{}: no history violates a property with the fault {fault:?}: {description}", P::NAME)
        };
        writeln!(section, "\n### {}\n\nViolated: {property}.\n", heading(description)).unwrap();
        for (i, step) in steps.iter().enumerate() {
            writeln!(section, "{}. {step}", i + 1).unwrap();
        }
    }
    section
}

/// The description as a heading: with a capital first letter.
fn heading(description: &str) -> String {
    let (first, rest) = description.split_at(1);
    first.to_uppercase() + rest
}

/// Repeats the traces of a protocol on the page.
///
/// # Panics
///
/// If a fault has no trace there, or its trace does not violate the property.
pub fn check<P: Protocol>(page: &str) {
    for (fault, description) in P::faults() {
        let named = format!("{}, fault {fault:?} ({description})", P::NAME);
        let section = page.split_once(&format!("\n### {}\n", heading(description)));
        let (_, after) = section.unwrap_or_else(|| panic!("{named}: docs/inside/traces.md has no trace"));
        let lines: Vec<&str> = after.lines().take_while(|line| !line.starts_with('#')).collect();
        let steps: Vec<&str> = lines.iter().filter_map(|line| Some(line.split_once(". ")?.1)).collect();
        let property = lines.iter().find_map(|line| line.strip_prefix("Violated: ")?.strip_suffix('.'));
        let property = property.unwrap_or_else(|| panic!("{named}: docs/inside/traces.md names no property"));
        let repeated = repeat::<P>(Some(*fault), &steps);
        if let Some(step) = steps.get(repeated.possible) {
            panic!("{named}: step {} of docs/inside/traces.md is not possible: {step}", repeated.possible + 1);
        }
        assert!(
            repeated.violated.contains(&property),
            "{named}: the trace in docs/inside/traces.md does not violate \"{property}\", but {:?}",
            repeated.violated
        );
        let without = repeat::<P>(None, &steps).violated;
        assert!(without.is_empty(), "{named}: the trace violates {without:?} without the fault as well");
    }
}

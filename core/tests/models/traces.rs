//! The page docs/traces.md: for each fault of each protocol, the shortest history that violates a property.

use crate::checker::{Counterexample, Protocol, shortest_counterexample, violated_by};
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
        let Some(Counterexample { property, steps }) = found else { panic!("not found: {description}") };
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
        let (_, after) = page.split_once(&format!("\n### {}\n", heading(description))).unwrap_or_default();
        let lines: Vec<&str> = after.lines().take_while(|line| !line.starts_with('#')).collect();
        let steps: Vec<&str> = lines.iter().filter_map(|line| Some(line.split_once(". ")?.1)).collect();
        let violated = violated_by::<P>(Some(*fault), &steps);
        assert!(
            violated.iter().any(|property| lines.contains(&&*format!("Violated: {property}."))),
            "the trace of \"{description}\" in docs/traces.md violates {violated:?}"
        );
        assert_eq!(violated_by::<P>(None, &steps), [""; 0], "without the fault: {description}");
    }
}

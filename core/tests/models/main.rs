//! Models of the protocols. A checker explores every interleaving of the sessions, nodes and commands, with a crash or
//! a lost message between any two steps.
//!
//! - [`sequence`]: sessions that generate ids from one page, with WAL, crashes and standbys
//! - [`handover`]: the nodes of a Citus cluster, which take a sequence over from each other
//! - [`moving`]: the command that moves a shard to another server
//!
//! The models make their decisions with the functions of [`instagram_id_core`] that the extension and the command call.
//! They add locks, messages, WAL and faults.

mod checker;
mod handover;
mod moving;
mod sequence;
mod traces;

use checker::{Protocol, Size, explore};
use std::fs;

/// Explores every state of a protocol.
fn properties_hold<P: Protocol>() {
    let size = if is_thorough() { Size::Large } else { Size::Small };
    println!("{}: {}", P::NAME, explore::<P>(size));
}

/// Whether to explore for many minutes, as `scripts/torture.sh models` does.
fn is_thorough() -> bool {
    std::env::var("MODELS").is_ok_and(|size| size == "large")
}

#[test]
fn sequence() {
    properties_hold::<sequence::Sequence>();
}

#[test]
fn handover() {
    properties_hold::<handover::Handover>();
}

#[test]
fn moving() {
    properties_hold::<moving::Moving>();
}

/// Each known fault violates a property, as its trace on the page shows. `WRITE_PAGE=1` searches for the shortest
/// traces again, and writes the page. `MODELS=large` compares them with the page.
#[test]
fn every_fault_is_found() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/inside/traces.md");
    let must_write = std::env::var_os("WRITE_PAGE").is_some();
    let found = fs::read_to_string(page).unwrap_or_default();
    if !must_write && !is_thorough() {
        traces::check::<sequence::Sequence>(&found);
        traces::check::<handover::Handover>(&found);
        traces::check::<moving::Moving>(&found);
        return;
    }
    let searched = [
        traces::INTRODUCTION.to_owned(),
        traces::search::<sequence::Sequence>(),
        traces::search::<handover::Handover>(),
        traces::search::<moving::Moving>(),
    ]
    .concat();
    if must_write {
        fs::write(page, searched).unwrap();
    } else {
        assert_eq!(found, searched, "docs/inside/traces.md does not have the shortest traces");
    }
}

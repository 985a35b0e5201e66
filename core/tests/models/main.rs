//! Models of the protocols. A checker explores every interleaving of the sessions, nodes and
//! commands, with a crash or a lost message between any two steps.
//!
//! - [`sequence`]: sessions that generate ids from one page, with WAL, crashes and standbys
//! - [`takeover`]: the nodes of a Citus cluster, which take a sequence over from each other
//! - [`moving`]: the command that moves a shard to another server
//! - [`portable`]: calls of the portable edition, and the library that takes over
//!
//! The models make their decisions with the functions of [`instagram_id_core`] that the extension
//! and the command call. They add locks, messages, WAL and faults.

mod checker;
mod moving;
mod portable;
mod sequence;
mod takeover;

use checker::{faults_are_found, properties_hold};

#[test]
fn sequence() {
    properties_hold::<sequence::Sequence>();
}

#[test]
fn takeover() {
    properties_hold::<takeover::Takeover>();
}

#[test]
fn moving() {
    properties_hold::<moving::Moving>();
}

#[test]
fn portable() {
    properties_hold::<portable::Portable>();
}

#[test]
fn faults_of_sequence() {
    faults_are_found::<sequence::Sequence>();
}

#[test]
fn faults_of_takeover() {
    faults_are_found::<takeover::Takeover>();
}

#[test]
fn faults_of_moving() {
    faults_are_found::<moving::Moving>();
}

#[test]
fn faults_of_portable() {
    faults_are_found::<portable::Portable>();
}

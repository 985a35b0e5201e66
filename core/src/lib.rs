//! The parts of `instagram_id` that know nothing of PostgreSQL: they build and are tested in seconds.
//!
//! - [`layout`]: the bits of an id
//! - [`epoch`]: time, as PostgreSQL counts it and as ids do
//! - [`tick`]: the rule that makes a sequence a logical clock
//! - [`fleet`]: a model of a server that follows the rule, for property tests and the fuzzer
//! - [`shortcode`]: an id in digits of 64, as links carry it
//! - [`original`]: what a PL/pgSQL function after the published design says of its ids

pub mod epoch;
pub mod fleet;
pub mod layout;
pub mod original;
pub mod shortcode;
pub mod tick;

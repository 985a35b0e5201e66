//! The parts of `instagram_id` that do not depend on PostgreSQL. They build and run their tests in
//! seconds.
//!
//! - [`layout`]: the bits of an id
//! - [`epoch`]: PostgreSQL's time and the time in ids
//! - [`hlc`]: the hybrid logical clock that generates ids
//! - [`durable`]: when the WAL that ids depend on must be flushed
//! - [`copy`]: how one of several copies of a sequence is opened, and the others closed
//! - [`model`]: a model of a server with such a sequence, for property tests and the fuzzer
//! - [`moving`]: which step of moving a shard comes next
//! - [`shortcode`]: an id as a short code in base 64, as in links
//! - [`version`]: which of two versions of the extension is newer
//! - [`plpgsql`]: reads shard, sequence and epoch from the body of the published PL/pgSQL function

pub mod copy;
pub mod durable;
pub mod epoch;
pub mod hlc;
pub mod layout;
pub mod model;
pub mod moving;
pub mod plpgsql;
pub mod shortcode;
pub mod version;

//! Tests on real servers, one module per topic. Each test starts its own servers, so tests run in
//! parallel. They need a PostgreSQL and nothing else: no modules of contrib, no other programs. The
//! tests that need more are in the folders beside tests/live, a program for each thing that they
//! need.

mod adopt;
mod backfill;
mod clock;
mod copy;
mod crash;
mod disk_faults;
mod docs;
mod dump_restore;
mod errors;
mod failover;
mod fleet;
mod leaks;
mod load;
mod many;
mod memory;
mod moving;
mod moving_faults;
mod moving_losses;
mod moving_refusals;
mod moving_trust;
mod new_tables;
mod oracle;
mod partitions;
mod portable;
mod replicated_sequences;
mod replication;
mod script;
mod servers;
mod sessions;
mod take_over;
mod takeover;
mod takeover_misuse;
mod two_primaries;
mod unread;
mod values;
mod vectors;
mod wait;

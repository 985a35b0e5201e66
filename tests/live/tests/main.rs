//! Tests on real servers, a module for each topic. Each test starts servers of its own, so they run side by side.

mod adopt;
mod backfill;
mod citus;
mod clients;
mod clock;
mod crash;
mod docs;
mod dump_restore;
mod failover;
mod handover;
mod handover_misuse;
mod leaks;
mod load;
mod many;
mod moving;
mod oracle;
mod partitions;
mod replicated_sequences;
mod replication;
mod servers;
mod sessions;
mod tidy;
mod upgrade;
mod values;
mod wait;

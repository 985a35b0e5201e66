//! Tests on real servers, one module per topic. Each test starts its own servers, so tests run in parallel.

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

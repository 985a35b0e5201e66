//! The SQL functions, one file per topic, each with its `COMMENT`s.

mod backfill;
mod decode;
mod explain;
mod former_names;
mod handover;
mod id_shards;
mod next_id;
mod partitions;
mod recover;
mod shards;
mod take_over;
mod triggers;

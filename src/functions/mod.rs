//! The SQL functions, one file per topic. The `COMMENT` of each, in sql/instagram_id--1.0.0.sql,
//! gives its purpose; the comments here add what its SQL does not show.

mod backfill;
mod convert_defaults;
mod copy;
mod decode;
mod explain;
mod id_shards;
mod new_tables;
mod next_id;
mod next_id_trigger;
mod partitions;
mod recover;
mod shards;
mod take_over;
mod takeover_steps;

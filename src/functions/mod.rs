//! The SQL functions, one file per topic. What each is for stands in its `COMMENT`, in sql/instagram_id--1.0.0.sql; the
//! comments here add what its SQL does not show.

mod backfill;
mod decode;
mod explain;
mod handover;
mod id_shards;
mod next_id;
mod partitions;
mod recover;
mod shards;
mod take_over;
mod triggers;

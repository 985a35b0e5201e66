//! The extension with packages of others: PgBouncer, pg_partman and TimescaleDB, which
//! `scripts/setup.sh partners` fetches if this release of Debian has them, and pg_tle.

mod partition_managers;
mod pg_tle;
mod pgbouncer;

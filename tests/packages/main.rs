//! The extension with packages of others: PgBouncer, pg_partman and TimescaleDB. `scripts/setup.sh
//! partners` fetches those that this release of Debian has.

mod partition_managers;
mod pgbouncer;

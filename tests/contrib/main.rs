//! Tests that need PostgreSQL's own modules: those of contrib, and XML. Debian's package postgresql
//! has them. If one is missing, the statement that needs it fails.

mod foreign;
mod monitoring;
mod pages;
mod pins;

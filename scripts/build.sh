#!/usr/bin/env bash
# build.sh PG_CONFIG DIR: builds the release for this PostgreSQL, and lays its files out below DIR as they are to
# be installed.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
pg_config=$(command -v "$1") || fail "there is no $1; name the PostgreSQL to build for with PG_CONFIG=/path/to/pg_config"
major=$(major_of "$pg_config")
case $major in 15 | 16 | 17 | 18) ;; *) fail "$pg_config is of PostgreSQL ${major:-unknown}; 15 to 18 are supported" ;; esac
[ -f "$("$pg_config" --includedir-server)/postgres.h" ] ||
    fail "the server headers of PostgreSQL $major are missing; Debian has them in postgresql-server-dev-$major"
scripts/setup.sh build
# pgrx wants to know the PostgreSQL that it builds for; give this build a list of its own.
export PGRX_HOME=$ROOT/target/pgrx/$major
write_pgrx_config "$pg_config"
rm -f "$2$("$pg_config" --sharedir)"/extension/instagram_id* # scripts of another version
with_progress "Building for PostgreSQL $major" cargo pgrx package --pg-config "$pg_config" \
    --no-default-features --features "pg$major" --out-dir "$2"

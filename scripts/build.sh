#!/usr/bin/env bash
# build.sh PG_CONFIG DIR: builds the release for this PostgreSQL, and puts its files below DIR at their installation
# paths.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
pg_config=$(command -v "$1") || fail "there is no $1; name the PostgreSQL to build for with PG_CONFIG=/path/to/pg_config"
major=$(major_of "$pg_config")
case $major in
    15 | 16 | 17 | 18 | 19) ;;
    *) fail "$pg_config is of PostgreSQL ${major:-unknown}; 15 to 19 are supported" ;;
esac
[ -f "$("$pg_config" --includedir-server)/postgres.h" ] ||
    fail "the server headers of PostgreSQL $major are missing; Debian has them in postgresql-server-dev-$major"
MANIFEST_DIR=$(manifest_dir_of "$major")
export MANIFEST_DIR
. scripts/lib.sh # again, for the cargo-pgrx of this manifest
needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$MANIFEST_DIR/Cargo.toml")
command -v rustc >/dev/null || fail "a Rust toolchain is needed: rustc is not in PATH"
rustc=$(rustc --version | cut -d ' ' -f 2)
[ "$(printf '%s\n' "$needed" "$rustc" | sort -V | head -n 1)" = "$needed" ] ||
    fail "Rust $needed or later is needed for PostgreSQL $major; this is $rustc"
scripts/setup.sh build
build_for "$pg_config"
rm -f "$2$("$pg_config" --sharedir)"/extension/instagram_id* # remove scripts of other versions
mkdir -p "$2"
out=$(cd "$2" && pwd)
if [ "$MANIFEST_DIR" != . ]; then export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$ROOT/target}/$MANIFEST_DIR; fi
cd "$MANIFEST_DIR"
with_progress "Building for PostgreSQL $major" cargo pgrx package --pg-config "$pg_config" \
    --no-default-features --features "pg$major" --out-dir "$out"

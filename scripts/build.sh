#!/usr/bin/env bash
# build.sh PG_CONFIG FILE [PROFILE]: builds the extension's library for this PostgreSQL, as FILE, with
# this profile of cargo, by default release.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
pg_config=$(command -v "$1") || fail "there is no $1; name the PostgreSQL to build for with PG_CONFIG=/path/to/pg_config"
profile=${3:-release}
major=$(major_of "$pg_config")
manifest=$(manifest_of "$major")
[ -n "$manifest" ] || fail "$pg_config is of PostgreSQL ${major:-unknown}; these are supported: $(majors)"
target=${CARGO_TARGET_DIR:-target}
if [ "$manifest" != Cargo.toml ]; then target+=/$(dirname "$manifest"); fi
[ -f "$("$pg_config" --includedir-server)/postgres.h" ] ||
    fail "the server headers of PostgreSQL $major are missing; Debian has them in postgresql-server-dev-$major"
needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$manifest")
command -v rustc >/dev/null || fail "a Rust toolchain is needed: rustc is not in PATH"
rustc=$(rustc --version | cut -d ' ' -f 2)
[ "$(printf '%s\n' "$needed" "$rustc" | sort -V | head -n 1)" = "$needed" ] ||
    fail "Rust $needed or later is needed for PostgreSQL $major; this is $rustc"
scripts/setup.sh build
build_for "$pg_config"
with_progress "Building for PostgreSQL $major" cargo build --profile "$profile" --manifest-path "$manifest" --target-dir "$target" \
    --no-default-features --features "pg$major"
install -D -m 755 "$target/${profile/dev/debug}/libinstagram_id.so" "$2"

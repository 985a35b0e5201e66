#!/usr/bin/env bash
# build.sh PG_CONFIG DIR: builds the release for this PostgreSQL, and lays its files out below DIR as they are to
# be installed.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
pg_config=$(command -v "$1")
major=$(major_of "$pg_config")
scripts/setup.sh tools
# pgrx wants to know the PostgreSQL that it builds for; give this build a list of its own.
export PGRX_HOME=$ROOT/target/pgrx/$major
mkdir -p "$PGRX_HOME"
config=$(printf '[configs]\npg%s = "%s"' "$major" "$pg_config")
if [ "$config" != "$(cat "$PGRX_HOME/config.toml" 2>/dev/null)" ]; then echo "$config" >"$PGRX_HOME/config.toml"; fi
with_progress "Building for PostgreSQL $major" cargo pgrx package --pg-config "$pg_config" \
    --no-default-features --features "pg$major" --out-dir "$2"

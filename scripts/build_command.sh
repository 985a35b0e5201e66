#!/usr/bin/env bash
# build_command.sh DIR: builds the command instagram_id_shards, and puts it and its manual pages
# into DIR.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
scripts/setup.sh command
mkdir -p "$1"
with_progress "Building instagram_id_shards" cargo build --profile command -p instagram_id_shards
cp "${CARGO_TARGET_DIR:-target}/command/instagram_id_shards" "$1/instagram_id_shards.new"
"$1/instagram_id_shards.new" man "$1"
mv "$1/instagram_id_shards.new" "$1/instagram_id_shards"

#!/usr/bin/env bash
# check_archive.sh [PG_CONFIG]: installs the PGXN archive of the last commit with `pgxn install`,
# below a temporary folder. By default for Debian's PostgreSQL.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
scripts/setup.sh server
scripts/setup.sh archive
find_servers
pg_config=${1:-${pg_config_of[$(debian_major)]}}
folder=$(mktemp -d "${TMPDIR:-/tmp}/instagram_id.XXXXXX")
trap 'rm -rf "$folder"' EXIT
rm -f target/dist/*.zip
REPOSITORY=https://example.org/someone/instagram_id scripts/dist.sh
# pgxn passes PG_CONFIG to make, and the environment has the rest.
export DESTDIR=$folder/installed CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$ROOT/target}
with_progress "pgxn install" pgxn install --nosudo --pg_config "$pg_config" target/dist/instagram_id-*.zip
for file in "$("$pg_config" --pkglibdir)/instagram_id.so" "$("$pg_config" --bindir)/instagram_id_shards" \
    "$("$pg_config" --sharedir)/extension/instagram_id--$(version_of_extension).sql"; do
    [ -f "$DESTDIR$file" ] || fail "pgxn has not installed $file"
done
say "pgxn installs the archive"

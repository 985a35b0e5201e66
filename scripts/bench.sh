#!/usr/bin/env bash
# Compares the extension with other ways to generate ids in PostgreSQL, and writes the figures into docs/inside/benchmarks.md
# and the plot beside it. Takes about a quarter of an hour, on a machine that is otherwise idle.
#
#   MAJORS=15 bench.sh     on this major instead of 18
#   ROUNDS=3 ROWS=500000   with fewer rounds and rows
#   PAGE=FILE              writes into this copy of the page instead, in a folder of its own
#   RIVALS=/path/to/checkouts   writes the commits of other extensions into the page. Those that the server has
#                          installed are measured; nothing here installs them
#   bench.sh --goals       only the measurements that are not on the page, printed: on Debian's PostgreSQL, some minutes
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
if [ "${1:-}" = --goals ]; then
    scripts/setup.sh server
    page=--goals major=${MAJORS:-$(debian_major)}
else
    scripts/setup.sh servers
    page=${PAGE:-docs/inside/benchmarks.md} major=${MAJORS:-18}
    [ -z "${RIVALS:-}" ] || [ -d "$RIVALS" ] || fail "RIVALS=$RIVALS: there is no such folder"
fi
find_servers
require_servers "$major"
export PG_CONFIG=${pg_config_of[$major]}
with_progress "Building the benchmark" cargo build --release -p instagram_id_bench
make --no-print-directory install PG_CONFIG="$PG_CONFIG"
say "Measuring on $("$PG_CONFIG" --version)"
"${CARGO_TARGET_DIR:-target}/release/instagram_id_bench" "$page"
[ "$page" = --goals ] || say "The figures are in $page"

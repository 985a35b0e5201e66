#!/usr/bin/env bash
# Compares the extension with other ways to generate ids in PostgreSQL, and writes the figures into
# docs/inside/benchmarks.md and the plot beside it. Takes about twenty minutes, on a machine
# that is otherwise idle. It measures Debian's PostgreSQL 18, in the folder of
# scripts/debian_folder.sh, because how a server was built decides what some ids cost.
#
#   MAJORS=15 bench.sh     on this major instead of 18, which must be set up on this machine
#   ROUNDS=3 ROWS=500000   with fewer rounds and rows
#   PAGE=FILE              writes into this copy of the page instead, in a folder of its own
#   RIVALS=/path/to/checkouts   writes the commits of other extensions into the page; with PostgreSQL 18, this is a path in
#                          the Debian folder. Those that the server has installed are measured; nothing here installs them
#   bench.sh --goals       only the measurements that are not on the page, printed: on Debian's PostgreSQL, some minutes
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

# measure PAGE|--goals MAJOR
measure() {
    find_servers
    require_servers "$2"
    export PG_CONFIG=${pg_config_of[$2]}
    with_progress "Building the benchmark" cargo build --release -p instagram_id_bench
    make --no-print-directory install PG_CONFIG="$PG_CONFIG"
    say "Measuring on $("$PG_CONFIG" --version)"
    "${CARGO_TARGET_DIR:-target}/release/instagram_id_bench" "$1"
}

page=${PAGE:-docs/inside/benchmarks.md} exchange=target/bench
case ${1:-} in
    --goals)
        scripts/setup.sh server
        measure --goals "${MAJORS:-$(debian_major)}"
        exit ;;
    --here) # in the folder
        scripts/setup.sh server
        measure "$exchange/page.md" 18
        exit ;;
esac
if [ -n "${MAJORS:-}" ]; then
    scripts/setup.sh servers
    [ -z "${RIVALS:-}" ] || [ -d "$RIVALS" ] || fail "RIVALS=$RIVALS: there is no such folder"
    measure "$page" "$MAJORS"
else
    # The folder sees this project read-only, so the page is written beside it.
    outside=$CACHE/debian/sid/$exchange
    as_root mkdir -p "$outside"
    as_root cp "$page" "$outside/page.md"
    PASS="ROUNDS ROWS IDS RIVALS" scripts/debian_folder.sh sid scripts/bench.sh --here
    cp "$outside/page.md" "$page"
    cp "$outside/benchmarks.svg" "$(dirname "$page")/"
fi
say "The figures are in $page"

#!/usr/bin/env bash
# Compares the extension with other ways to generate ids in PostgreSQL, and writes the figures into docs/inside/benchmarks.md
# and the plots beside it. Takes about a quarter of an hour for each PostgreSQL, on a machine that is otherwise idle.
#
#   MAJORS=18 bench.sh     on these majors, which must have their two marks in the page; 15 and 18 by default
#   LONG=1                 more loads, more rows, and the goals that have no table in the page
#   ROUNDS=3 ROWS=500000   with fewer rounds and rows
#   PAGE=FILE              writes into this page instead, which must be in a folder of its own
#   BASELINE_REV=COMMIT    also measures the extension of this commit, and prints how the main figures differ
#   RIVALS=/path/to/checkouts   writes the commits of other extensions into the page. Those that the servers have
#                          installed are measured; nothing here installs them
#   bench.sh --goals       only the measurements that have no table there, printed: on Debian's PostgreSQL, some minutes
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
target=${CARGO_TARGET_DIR:-target}
if [ "${1:-}" = --goals ]; then
    scripts/setup.sh server
    page=--goals majors=${MAJORS:-$(debian_major)}
else
    scripts/setup.sh servers
    page=${PAGE:-docs/inside/benchmarks.md} majors=${MAJORS:-15 18}
    [ -z "${RIVALS:-}" ] || [ -d "$RIVALS" ] || fail "RIVALS=$RIVALS: there is no such folder"
fi

# measure PG_CONFIG PAGE
measure() { PG_CONFIG=$1 "$target/release/instagram_id_bench" "$2"; }

# measure_baseline MAJOR: measures the extension of the commit BASELINE_REV on a copy of the page, and sets BASELINE to the
# file of its figures.
measure_baseline() {
    local work=$PWD/target/baseline pg_config=${pg_config_of[$1]}
    rm -rf "$work/source" "$work/page"
    mkdir -p "$work/source" "$work/page"
    git archive "$BASELINE_REV" | tar -x -C "$work/source"
    CARGO_TARGET_DIR=$work/build make --no-print-directory -C "$work/source" install PG_CONFIG="$pg_config"
    cp "$page" "$work/page/benchmarks.md"
    say "Measuring $BASELINE_REV on $("$pg_config" --version)"
    (unset BASELINE && FIGURES=$work/figures.tsv measure "$pg_config" "$work/page/benchmarks.md")
    export BASELINE=$work/figures.tsv
}

find_servers
require_servers $majors
with_progress "Building the benchmark" cargo build --release -p instagram_id_bench
for major in $majors; do
    pg_config=${pg_config_of[$major]}
    if [ "$page" != --goals ] && [ -n "${BASELINE_REV:-}" ]; then measure_baseline "$major"; fi
    make --no-print-directory install PG_CONFIG="$pg_config"
    say "Measuring on $("$pg_config" --version)"
    measure "$pg_config" "$page"
done
[ "$page" = --goals ] || say "The figures are in $page"

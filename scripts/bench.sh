#!/usr/bin/env bash
# Compares the extension with other ways to generate ids in PostgreSQL, and writes the figures into docs/benchmarks.md
# and the plots beside it. Takes about half an hour for each PostgreSQL, on a machine that is otherwise idle.
#
#   MAJORS=18 bench.sh     on these majors, which must have their two marks in the page; 15 and 18 by default
#   ROUNDS=3 ROWS=500000   with fewer rounds and rows
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
    page=docs/benchmarks.md majors=${MAJORS:-15 18}
fi
find_servers
require_servers $majors
for major in $majors; do
    pg_config=${pg_config_of[$major]}
    make --no-print-directory install PG_CONFIG="$pg_config"
    with_progress "Building the benchmark" cargo build --release -p instagram_id_bench
    say "Measuring on $("$pg_config" --version)"
    PG_CONFIG=$pg_config "$target/release/instagram_id_bench" "$page"
done
[ "$page" = --goals ] || say "The figures are in $page"

#!/usr/bin/env bash
# Measures the extension side by side with what else makes ids in PostgreSQL, and writes the figures into
# docs/benchmarks.md and the plots beside it. Takes half an hour or so for each PostgreSQL, on a machine that has nothing
# else to do.
#
#   MAJORS=18 bench.sh     on these PostgreSQL, which must have their two marks in the page; 15 and 18 by default
#   ROUNDS=3 ROWS=500000   with fewer rounds and rows
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
scripts/setup.sh servers
declare -A set_up
for pg_config in $(scripts/servers.sh); do set_up[$(major_of "$pg_config")]=$pg_config; done
for major in ${MAJORS:-15 18}; do
    pg_config=${set_up[$major]:-}
    [ -n "$pg_config" ] || fail "PostgreSQL $major is not set up; there are: ${!set_up[*]}"
    make --no-print-directory install PG_CONFIG="$pg_config"
    with_progress "Building the benchmark" cargo build --release -p instagram_id_bench
    say "Measuring on $("$pg_config" --version)"
    PG_CONFIG=$pg_config target/release/instagram_id_bench docs/benchmarks.md
done
say "The figures are in docs/benchmarks.md"

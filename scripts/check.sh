#!/usr/bin/env bash
# The quick check while you work: format, clippy, the tests that need no server, then the regression and isolation tests
# on one PostgreSQL.
#
#   check.sh              all of it
#   T=errors check.sh     only the tests with this in their file or name, including those on live servers
#   MAJORS=18 check.sh    on this major, which must be set up, instead of Debian's
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
use_scratch
started=$SECONDS
scripts/setup.sh server
scripts/setup.sh nextest
find_servers
major=${MAJORS:-$(debian_major)}
require_servers "$major"
export PG_CONFIG=${pg_config_of[$major]}
build_for "$PG_CONFIG"

if [ -z "${T:-}" ]; then
    say "Format and lint"
    cargo fmt --all --check
    cargo clippy --quiet --workspace --all-targets --no-default-features \
        --features "instagram_id/pg$major,instagram_id/pg_test" -- -D warnings
    say "Tests that need no server"
    unit_tests "$major"
    make --no-print-directory install PG_CONFIG="$PG_CONFIG" >/dev/null
    say "Regression and isolation tests"
    sql_tests "$PG_CONFIG"
    say "All is well, after $((SECONDS - started)) s"
    exit
fi

# Test names as pg_regress takes them, separated by spaces.
named() {
    local file
    for file in "$1"/*"$T"*"$2"; do
        if [ -f "$file" ]; then basename "$file" "$2"; fi
    done | tr '\n' ' '
}
regress=$(named tests/regress/sql .sql)
isolation=$(named tests/isolation/specs .spec)
make --no-print-directory install PG_CONFIG="$PG_CONFIG" >/dev/null
if [ -n "$regress$isolation" ]; then sql_tests "$PG_CONFIG" "$regress" "$isolation"; fi
# Tests inside a server have names that begin with pg_; `make test` runs them.
found=fail
if [ -n "$regress$isolation" ]; then found=pass; fi
cargo nextest run --workspace --no-default-features --features "instagram_id/pg$major" --no-tests="$found" \
    -E "test($T) - test(/::pg_[^:]*\$/)"

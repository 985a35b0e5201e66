#!/usr/bin/env bash
# The quick check while you work: format, clippy, the tests that need no server, then on one
# PostgreSQL the regression and isolation tests, and those live tests that a small change can break
# and that take seconds.
#
#   check.sh              all of it
#   T=errors check.sh     only the tests with this in their file or name, including all on live servers
#   MAJORS=18 check.sh    on this major, which must be set up, instead of Debian's
#   ACCEPT=1 check.sh     takes over the output of the regression and isolation tests as what is expected
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
    cargo clippy --quiet $(workspace "$major") --all-targets -- -D warnings
    say "Tests that need no server"
    unit_tests "$major"
    install_for_tests "$PG_CONFIG" >/dev/null
    say "Regression and isolation tests, and the quick ones of the live tests"
    status=0
    quick_live_tests "$major" >"$SCRATCH/live.log" 2>&1 &
    live=$!
    sql_tests "$PG_CONFIG" || status=$?
    finish "$SCRATCH/live.log" "$live" || status=$?
    [ "$status" = 0 ] || fail "tests have failed, after $((SECONDS - started)) s"
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
# Tests inside a server have names that begin with pg_; `make test` runs them.
filter="(test($T) - test(/::pg_[^:]*\$/)) & $(applies "$major")"
read -ra tests <<<"$(workspace "$major")"
on_server=$(cargo nextest list "${tests[@]}" -E "$filter & package(instagram_id_live) & kind(test) - binary(tidy)" 2>"$SCRATCH/list.log") ||
    { cat "$SCRATCH/list.log" >&2; exit 1; }
if [ -n "$regress$isolation$on_server" ]; then install_for_tests "$PG_CONFIG" >/dev/null; fi
if [ -n "$regress$isolation" ]; then sql_tests "$PG_CONFIG" "$regress" "$isolation"; fi
found=fail
if [ -n "$regress$isolation" ]; then found=pass; fi
cargo nextest run "${tests[@]}" --no-tests="$found" -E "$filter"

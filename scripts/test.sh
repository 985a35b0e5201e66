#!/usr/bin/env bash
# Runs every test on every PostgreSQL that is set up: unit and property tests, tests inside a server, regression
# tests, and tests on live servers.
#
#   MAJORS="15 18" test.sh   only these, all of which must be there
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
trap stop_server EXIT
scripts/setup.sh servers

declare -A set_up
for pg_config in $(scripts/servers.sh); do set_up[$(major_of "$pg_config")]=$pg_config; done
majors=${MAJORS:-$(printf '%s\n' "${!set_up[@]}" | sort -n | tr '\n' ' ')}
for major in $majors; do
    [ -n "${set_up[$major]:-}" ] || fail "PostgreSQL $major is not set up; there are: ${!set_up[*]}"
done
say "Testing on PostgreSQL $majors"

# Those of the crate, with and without a server. pgrx starts the server, as the user postgres where this is root.
crate_tests() {
    local major=$1 data status=0 runas=()
    data=$(mktemp -d "${TMPDIR:-/tmp}/instagram_id.XXXXXX")
    if [ "$(id -u)" = 0 ]; then
        chown postgres "$data"
        runas=(--runas postgres)
    fi
    USER=$(id -un) cargo pgrx test "pg$major" "${runas[@]}" --pgdata "$data/data" || status=$?
    rm -rf "$data"
    return $status
}

# tests/regress, by pg_regress.
regression_tests() {
    local pg_config=$1 status=0
    start_server "$pg_config"
    make --no-print-directory installcheck PG_CONFIG="$pg_config" PG_REGRESS="$(pg_regress_for "$pg_config")" || status=$?
    stop_server
    return $status
}

for major in $majors; do
    say "PostgreSQL $major: $("${set_up[$major]}" --version)"
    crate_tests "$major"
    # After these tests, which install a library of their own; and on all before the tests that need two.
    make --no-print-directory install PG_CONFIG="${set_up[$major]}"
done
newest=$(printf '%s\n' $majors | sort -n | tail -n 1)
for major in $majors; do
    pg_config=${set_up[$major]}
    say "PostgreSQL $major, live"
    regression_tests "$pg_config"
    # The one that dumps are restored to, where it is a newer one.
    newer=${set_up[$newest]}
    if [ "$major" = "$newest" ]; then newer=; fi
    # One at a time: they measure.
    PG_CONFIG=$pg_config NEWER_PG_CONFIG=$newer cargo test -p instagram_id_live -- --nocapture --test-threads=1
done
say "All tests passed on PostgreSQL $majors"

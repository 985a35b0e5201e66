#!/usr/bin/env bash
# Runs every test on every PostgreSQL that is set up: unit and property tests, tests inside a server, regression and
# isolation tests, and tests on live servers.
#
#   MAJORS="15 18" test.sh           only these, all of which must be there
#   SERVERS=/path/to/pg_config ...   on these PostgreSQL, into which it installs the extension; say an assertion-enabled one
#   BRIEF="16 17" test.sh            on these of the majors only what may differ between majors
#   JOBS=4 test.sh                   so many live tests side by side, where they do not measure (3)
#   TORTURE=1 test.sh                at length
#   SEED=123 test.sh                 with the random choices of the scenario that has printed this
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
# What the tests with a record of ids have done: a line each, by scenario.
FIGURES=$(mktemp)
export FIGURES
pgdata=
trap 'stop_server; rm -rf "$FIGURES" "$pgdata"' EXIT
trap 'exit 1' HUP INT TERM
scripts/setup.sh servers

find_servers
majors=${MAJORS:-$(printf '%s\n' "${!pg_config_of[@]}" | sort -n | tr '\n' ' ')}
require_servers $majors
say "Testing on PostgreSQL $majors"

# Those of the crate, with and without a server. pgrx starts the server, as the user postgres where this is root.
crate_tests() {
    local major=$1 status=0 runas=()
    pgdata=$(mktemp -d "${TMPDIR:-/tmp}/instagram_id.XXXXXX")
    if [ "$(id -u)" = 0 ]; then
        chown postgres "$pgdata"
        runas=(--runas postgres)
    fi
    USER=$(id -un) cargo pgrx test "pg$major" "${runas[@]}" --pgdata "$pgdata/data" || status=$?
    rm -rf "$pgdata"
    return $status
}

# tests/regress and tests/isolation, by pg_regress and pg_isolation_regress.
regression_tests() {
    local pg_config=$1 regress isolation status=0
    regress=$(tester_for "$pg_config" regress/pg_regress)
    isolation=$(tester_for "$pg_config" isolation/pg_isolation_regress)
    start_server "$pg_config"
    make --no-print-directory installcheck PG_CONFIG="$pg_config" PG_REGRESS="$regress" \
        PG_ISOLATION_REGRESS="$isolation" || status=$?
    stop_server
    return $status
}

is_brief() { case " ${BRIEF:-} " in *" $1 "*) true ;; *) false ;; esac; }

# Tests that hold a time or a rate against another one of the same run: one at a time.
measuring="backfill clock limit load many ranges wait"
# What depends on how a major lays out pages, WAL and catalogs.
differing="crash handover_misuse traces upgrade"

# live_tests JOBS NAME...: these of tests/live, so many side by side. Each has servers of its own.
live_tests() {
    local jobs=$1 tests=()
    shift
    for name in "$@"; do tests+=(--test "$name"); done
    cargo test -p instagram_id_live "${tests[@]}" -- --show-output --test-threads="$jobs"
}

functional=()
for file in tests/live/tests/*.rs; do
    name=$(basename "$file" .rs)
    case " $measuring " in *" $name "*) ;; *) functional+=("$name") ;; esac
done

for major in $majors; do
    say "PostgreSQL $major: $("${pg_config_of[$major]}" --version)"
    is_brief "$major" || crate_tests "$major"
    # After these tests, which install a library of their own; and on all before the tests that need two.
    make --no-print-directory install PG_CONFIG="${pg_config_of[$major]}"
done
cargo test -p instagram_id_bench
cargo test -p instagram_id_live --lib --examples
newest=$(printf '%s\n' $majors | sort -n | tail -n 1)
for major in $majors; do
    export PG_CONFIG=${pg_config_of[$major]}
    say "PostgreSQL $major, live"
    regression_tests "$PG_CONFIG"
    # The one that dumps are restored to, where it is a newer one.
    export NEWER_PG_CONFIG=${pg_config_of[$newest]}
    if [ "$major" = "$newest" ]; then NEWER_PG_CONFIG=; fi
    printf 'PostgreSQL %s\n' "$major" >>"$FIGURES"
    if is_brief "$major"; then
        live_tests "${JOBS:-3}" $differing
    else
        live_tests "${JOBS:-3}" "${functional[@]}"
        live_tests 1 $measuring
    fi
done
say "What was made and done by the tests that keep a record of every id received"
awk -F '\t' '
    NF == 1 { print "    " $1; next }
    { printf "    %11d ids, %5d sessions, %6d faults: %s\n", $2, $3, $4, $1; ids += $2; sessions += $3; faults += $4 }
    END { printf "    %11d ids, %5d sessions, %6d faults in all, 0 duplicates, 0 out of order\n", ids, sessions, faults }
' "$FIGURES"
say "All tests passed on PostgreSQL $majors"

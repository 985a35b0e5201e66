#!/usr/bin/env bash
# Runs the tests on PostgreSQL: unit and property tests, tests inside a server, regression and isolation tests, and the
# tests on live servers. It does not measure performance; `make bench` does.
#
#   test.sh                          on Debian's PostgreSQL
#   test.sh --all                    on every PostgreSQL that this machine has, and in folders with other releases of Debian
#   MAJORS="15 18" test.sh           on these majors, which must be set up
#   SERVERS=/path/to/pg_config ...   on these PostgreSQL, such as one with assertions; the extension is installed into them
#   BRIEF="16 17" test.sh            on these of the majors, only tests that may differ between majors
#   JOBS=6 test.sh                   with this many live tests in parallel (default: twice the number of cores)
#   TORTURE=1 test.sh                with longer tests
#   SEED=123 test.sh                 with the random choices of the scenario that printed this
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
use_scratch
# The figures of the tests that keep a record of ids: a line each, by scenario.
export FIGURES=$SCRATCH/figures
# The duration of each part: a line each.
TIMES=$SCRATCH/times

if [ "${1:-}" = --all ]; then
    MAJORS=$(majors "" "" "$HERE") scripts/test.sh
    scripts/test_other_debian.sh
    exit
fi
if [ -z "${MAJORS:-}" ]; then
    scripts/setup.sh server
    scripts/setup.sh clients
    scripts/setup.sh partman
    find_servers
    majors=$(debian_major)
    if [ -n "${SERVERS:-}" ]; then majors=$(printf '%s\n' "${!pg_config_of[@]}" | sort -n | tr '\n' ' '); fi
else
    scripts/setup.sh servers
    find_servers
    majors=$MAJORS
fi
require_servers $majors
say "Testing on PostgreSQL $majors"
scripts/setup.sh nextest

# timed WHAT COMMAND...: runs a command and records its duration.
timed() {
    local what=$1 began=$SECONDS
    shift
    say "$what"
    "$@"
    printf '    %5d s  %s\n' $((SECONDS - began)) "$what" >>"$TIMES"
}

# The crate's tests: those without a server, and those inside one, which pgrx starts, as the user postgres if this is
# root.
crate_tests() {
    local major=$1 runas=() pgdata
    pgdata=$(mktemp -d "$SCRATCH/pgdata.XXXXXX")
    if [ "$(id -u)" = 0 ]; then
        chown postgres "$pgdata"
        runas=(--runas postgres)
    fi
    scripts/setup.sh pgrx
    build_for "${pg_config_of[$major]}"
    USER=$(id -un) cargo pgrx test "pg$major" "${runas[@]}" --pgdata "$pgdata/data"
}

is_brief() { case " ${BRIEF:-} " in *" $1 "*) true ;; *) false ;; esac; }

# The live tests, in parallel; each has servers of its own.
live_tests() {
    local filter='all()'
    if is_brief "$1"; then filter="test(/^($DIFFERING)::/)"; fi
    cargo nextest run -p instagram_id_live --test live --test-threads="${JOBS:-$((2 * $(nproc)))}" -E "$filter"
}

newest=$(printf '%s\n' $majors | sort -n | tail -n 1)
for major in $majors; do
    make --no-print-directory PG_CONFIG="${pg_config_of[$major]}" >"$SCRATCH/build.log" 2>&1 &
    build=$!
    # Before the release is installed, because these tests install their own library.
    if ! is_brief "$major"; then timed "PostgreSQL $major: tests of the crate" crate_tests "$major"; fi
    timed "PostgreSQL $major: the rest of the build" finish "$SCRATCH/build.log" "$build"
    make --no-print-directory install PG_CONFIG="${pg_config_of[$major]}"
done
no_server_tests() {
    cargo nextest run -p instagram_id_core -p instagram_id_bench -p instagram_id_live --lib --bins --examples --test models --test vectors
    # As it was built to be installed.
    cargo nextest run --cargo-profile command -p instagram_id_shards
}
timed "Tests that need no server" no_server_tests
for major in $majors; do
    export PG_CONFIG=${pg_config_of[$major]}
    timed "PostgreSQL $major: regression and isolation tests" sql_tests "$PG_CONFIG"
    # The newest major, into which dumps are restored; empty if this major is the newest.
    export NEWER_PG_CONFIG=${pg_config_of[$newest]}
    if [ "$major" = "$newest" ]; then NEWER_PG_CONFIG=; fi
    printf 'PostgreSQL %s\n' "$major" >>"$FIGURES"
    timed "PostgreSQL $major: tests on live servers" live_tests "$major"
done
say "What was made and done by the tests that keep a record of every id received"
awk -F '\t' '
    NF == 1 { print "    " $1; next }
    { printf "    %11d ids, %5d sessions, %6d faults: %s\n", $2, $3, $4, $1; ids += $2; sessions += $3; faults += $4 }
    END { printf "    %11d ids, %5d sessions, %6d faults in all, 0 duplicates, 0 out of order\n", ids, sessions, faults }
' "$FIGURES"
say "What it took"
cat "$TIMES"
say "All tests passed on PostgreSQL $majors, after $SECONDS s"

#!/usr/bin/env bash
# Runs the tests on PostgreSQL: unit and property tests, tests inside a server, regression and isolation tests, and the
# tests on live servers. None of them measures: `make bench` does.
#
#   test.sh                          on Debian's PostgreSQL
#   MAJORS="15 18" test.sh           on these, all of which must be there
#   SERVERS=/path/to/pg_config ...   on these PostgreSQL, into which it installs the extension; say an assertion-enabled one
#   BRIEF="16 17" test.sh            on these of the majors only what may differ between majors
#   JOBS=6 test.sh                   so many live tests side by side (twice as many as there are cores)
#   TORTURE=1 test.sh                at length
#   SEED=123 test.sh                 with the random choices of the scenario that has printed this
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
use_scratch
# What the tests with a record of ids have done: a line each, by scenario.
export FIGURES=$SCRATCH/figures
# What each part took: a line each.
TIMES=$SCRATCH/times

if [ -z "${MAJORS:-}" ]; then
    scripts/setup.sh server
    scripts/setup.sh clients
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
# The tests of the crate come first and leave a core idle half of the time, so what the others need is built beside them.
scripts/setup.sh nextest >"$SCRATCH/nextest.log" 2>&1 &
nextest=$!

# timed WHAT COMMAND...: notes how long it takes.
timed() {
    local what=$1 began=$SECONDS
    shift
    say "$what"
    "$@"
    printf '    %5d s  %s\n' $((SECONDS - began)) "$what" >>"$TIMES"
}

# Those of the crate inside a server, which pgrx starts, as the user postgres where this is root.
crate_tests() {
    local major=$1 runas=() pgdata
    pgdata=$(mktemp -d "$SCRATCH/pgdata.XXXXXX")
    if [ "$(id -u)" = 0 ]; then
        chown postgres "$pgdata"
        runas=(--runas postgres)
    fi
    build_for "${pg_config_of[$major]}"
    USER=$(id -un) cargo pgrx test "pg$major" "${runas[@]}" --pgdata "$pgdata/data"
}

is_brief() { case " ${BRIEF:-} " in *" $1 "*) true ;; *) false ;; esac; }

# The live tests, side by side; each has servers of its own.
live_tests() {
    local filter='all()'
    if is_brief "$1"; then filter="test(/^($DIFFERING)::/)"; fi
    cargo nextest run -p instagram_id_live --test live --test-threads="${JOBS:-$((2 * $(nproc)))}" -E "$filter"
}

# finish LOG PID: waits for a command whose output is in this log, and shows that.
finish() {
    local status=0
    wait "$2" || status=$?
    cat "$1"
    return "$status"
}

newest=$(printf '%s\n' $majors | sort -n | tail -n 1)
for major in $majors; do
    make --no-print-directory PG_CONFIG="${pg_config_of[$major]}" >"$SCRATCH/build.log" 2>&1 &
    build=$!
    # Before the release is installed, since these tests install a library of their own.
    if ! is_brief "$major"; then timed "PostgreSQL $major: tests of the crate" crate_tests "$major"; fi
    timed "PostgreSQL $major: the rest of the build" finish "$SCRATCH/build.log" "$build"
    make --no-print-directory install PG_CONFIG="${pg_config_of[$major]}"
done
timed "The rest of the installation of cargo-nextest" finish "$SCRATCH/nextest.log" "$nextest"
timed "Tests that need no server" \
    cargo nextest run -p instagram_id_core -p instagram_id_bench -p instagram_id_live --lib --bins --examples
for major in $majors; do
    export PG_CONFIG=${pg_config_of[$major]}
    timed "PostgreSQL $major: regression and isolation tests" sql_tests "$PG_CONFIG"
    # The one that dumps are restored to, where it is a newer one.
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

#!/usr/bin/env bash
# Runs the tests on PostgreSQL: unit and property tests, tests inside a server, regression and
# isolation tests, and the tests on live servers. It does not measure performance; `make bench`
# does.
#
#   test.sh                          on Debian's PostgreSQL
#   test.sh clients packages         only these of the programs that need more than a PostgreSQL (scripts/lib.sh, NEEDS)
#   test.sh --all                    on every PostgreSQL that this machine has, and in folders with other releases of Debian
#   MAJORS="15 18" test.sh           on these majors, which must be set up
#   SERVERS=/path/to/pg_config ...   on these PostgreSQL, such as one with assertions; the extension is installed into them
#   BRIEF="16 17" test.sh            on these of the majors, only tests that may differ between majors
#   SHARED=1 test.sh                 the other live tests each on one of the other majors, which share them
#   PROGRAMS="contrib clients" ...   also these programs; by default contrib
#   JOBS=6 test.sh                   with this many live tests in parallel (default: three times the number of cores)
#   RELEASE=1 test.sh                with the release build; otherwise the dev profile
#   TORTURE=1 test.sh                the same, with longer tests
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
only=$*
programs=${only:-${PROGRAMS-contrib}}
case " $programs " in *" clients "*) scripts/setup.sh clients ;; esac
if [ -z "${MAJORS:-}" ]; then
    scripts/setup.sh server
    find_servers
    majors=$(debian_major)
    if [ -n "${SERVERS:-}" ]; then majors=$(printf '%s\n' "${!pg_config_of[@]}" | sort -n | tr '\n' ' '); fi
else
    scripts/setup.sh servers
    find_servers
    majors=$MAJORS
fi
case " $programs " in *" packages "*) scripts/setup.sh partners ;; esac
require_servers $majors
case "$only $majors" in *majors*' '[0-9]*' '[0-9]*) ;; *majors*) fail "set MAJORS to several majors that are set up, as MAJORS='15 18'" ;; esac
say "Testing on PostgreSQL $majors"
scripts/setup.sh nextest
# The caller counts the results if it names a file for them.
own_results=
if [ -z "${RESULTS:-}" ]; then
    own_results=1
    export RESULTS=$SCRATCH/results
    : >"$RESULTS"
fi

# timed WHAT COMMAND...: runs a command and records its duration. tested WHAT COMMAND...: also
# counts the results of tests, and goes on if some fail.
timed() {
    local what=$1 began=$SECONDS
    shift
    say "$what"
    "$@"
    printf '    %5d s  %s\n' $((SECONDS - began)) "$what" >>"$TIMES"
}
tested() { timed "$1" counted "$@"; }

# The tests of the crates' libraries: those without a server, and those inside one, which pgrx-tests
# starts, as the user postgres if this is root. They have names that begin with pg_, and call a
# function of this name without pg_ in the schema tests. The extension is installed, so pgrx-tests has
# nothing to install, which it would do with cargo-pgrx. In a subshell, whose trap installs the
# extension's own script again, even if the tests are interrupted.
crate_tests() (
    local major=$1 pg_config=${pg_config_of[$1]} pgdata extension options
    if [ "$(manifest_of "$major")" != Cargo.toml ]; then not_tested "the crate's tests on PostgreSQL $major" "pgrx-tests is for other majors"; return; fi
    read -ra options <<<"$(workspace "$major") --lib"
    pgdata=$(mktemp -d "$SCRATCH/pgdata.XXXXXX")
    local harness=(env CARGO_PGRX=true CARGO_PGRX_TEST_PGDATA="$pgdata/data" USER="$(id -un)")
    if [ "$(id -u)" = 0 ]; then
        chown postgres "$pgdata"
        harness+=(CARGO_PGRX_TEST_RUNAS=postgres)
    fi
    restore() { install -m 644 instagram_id.control sql/instagram_id--*.sql "$extension/"; }
    scripts/setup.sh harness && build_for "$pg_config" || exit
    extension=$("$pg_config" --sharedir)/extension
    trap restore EXIT
    restore &&
        cargo test "${options[@]}" -- --list | sed -n "1i CREATE SCHEMA tests;
            s/.*::pg_\([^:]*\): test\$/CREATE FUNCTION tests.\1() RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', '\1_wrapper';/p" \
            >>"$extension/instagram_id--$(version_of_extension).sql" &&
        "${harness[@]}" cargo test "${options[@]}"
)

is_brief() { case " ${BRIEF:-} " in *" $1 "*) true ;; *) false ;; esac; }

# nextest_run PROGRAM FILTER OPTION...: runs these tests of a program, in parallel; each has servers
# of its own.
nextest_run() {
    cargo nextest run $(workspace "${majors%% *}") --test "$1" --test-threads="${JOBS:-$((3 * $(nproc)))}" -E "$2" --no-tests=pass "${@:3}"
}

# The live tests that may differ between majors, as a filter.
differing="test(/(^|::)($DIFFERING|since_[0-9]+|until_[0-9]+)::/)"

# Whether each of the other live tests runs on one of the majors that are not brief.
is_shared() { [ -n "${SHARED:-}" ] && [ -z "$only" ]; }

# share_of MAJOR: which of these tests this major runs, as an option of nextest.
share_of() {
    local major place=0 count=0
    for major in $majors; do
        if is_brief "$major"; then continue; fi
        count=$((count + 1))
        if [ "$major" = "$1" ]; then place=$count; fi
    done
    echo "--partition=hash:$place/$count"
}

# Whether this is Debian's PostgreSQL, in its private copy.
is_debians() { [ "${pg_config_of[$1]}" = "$CACHE/pg$1/usr/lib/postgresql/$1/bin/pg_config" ]; }

# filter_for PROGRAM MAJOR: the tests of a program that this PostgreSQL can run, as a filter;
# nothing if it can run none. Debian's PostgreSQL has what these programs need, or Debian has a
# package for it: there, nothing is left out.
filter_for() {
    local program=$1 major=$2 pg_config=${pg_config_of[$2]} filter
    filter=$(applies "$major")
    case $program in
        live) if is_brief "$major" || is_shared; then filter="$differing & $filter"; fi ;;
        # They test client libraries, which do the same with each major.
        clients) [ -n "$only" ] || [ "$major" = "${majors%% *}" ] || return 0 ;;
        contrib) is_debians "$major" || has_extension "$pg_config" pgcrypto || return 0 ;;
        majors)
            [ -n "$NEWER_PG_CONFIG" ] || return 0
            # A pg_upgrade that is older than the server fails on any table.
            if grep -q pg_attver "$("$pg_config" --bindir)/postgres" &&
                ! grep -q pg_attver "$("$NEWER_PG_CONFIG" --bindir)/postgres"; then
                filter+=" - test(pg_upgrade_keeps_the_state)"
            fi ;;
        packages)
            has_extension "$pg_config" timescaledb || filter+=" - test(timescaledb)"
            is_debians "$major" || has_extension "$pg_config" pg_partman || filter+=" - test(pg_partman)"
            has_extension "$pg_config" pg_tle || filter+=" - test(pg_tle)" ;;
    esac
    case $program in live) ;; *) if is_brief "$major"; then return 0; fi ;; esac
    echo "$filter"
}

newest=$(printf '%s\n' $majors | sort -n | tail -n 1)
for major in $majors; do
    timed "PostgreSQL $major: the build" install_for_tests "${pg_config_of[$major]}"
    if [ -z "$only" ] && ! is_brief "$major"; then tested "PostgreSQL $major: tests of the crate" crate_tests "$major"; fi
    install_release "${pg_config_of[$major]}"
done
no_server_tests() {
    cargo nextest run $(workspace "${majors%% *}") --bins --examples --test bodies --test models --test specification --test vectors \
        --test tidy
}
if [ -z "$only" ]; then tested "Tests that need no server" no_server_tests; fi
for major in $majors; do
    export PG_CONFIG=${pg_config_of[$major]}
    # The newest major, into which dumps are restored; empty if this major is the newest.
    export NEWER_PG_CONFIG=${pg_config_of[$newest]}
    if [ "$major" = "$newest" ]; then NEWER_PG_CONFIG=; fi
    printf 'PostgreSQL %s\n' "$major" >>"$FIGURES"
    # Beside the others, because most of the time they wait.
    sql=
    if [ -z "$only" ]; then
        # A process group of its own, so that kill_jobs also ends its servers.
        set -m
        {
            trap 'exit 1' TERM
            tested "PostgreSQL $major: regression and isolation tests" sql_tests "$PG_CONFIG"
            tested "PostgreSQL $major: regression tests on the portable edition" portable_tests "$PG_CONFIG"
        } >"$SCRATCH/sql.log" 2>&1 </dev/null &
        sql=$!
        set +m
    fi
    for program in ${only:-live $programs}; do
        filter=$(filter_for "$program" "$major")
        if [ -n "$filter" ]; then tested "PostgreSQL $major: the tests of $program" nextest_run "$program" "$filter"; fi
    done
    if is_shared && ! is_brief "$major"; then
        tested "PostgreSQL $major: its share of the other live tests" \
            nextest_run live "not $differing" "$(share_of "$major")"
    fi
    if [ -n "$sql" ]; then finish "$SCRATCH/sql.log" "$sql"; fi
done
say "What was made and done by the tests that keep a record of every id received"
awk -F '\t' '
    NF == 1 { print "    " $1; next }
    { printf "    %11d ids, %5d sessions, %6d faults: %s\n", $2, $3, $4, $1; ids += $2; sessions += $3; faults += $4 }
    END { printf "    %11d ids, %5d sessions, %6d faults in all, 0 duplicates, 0 out of order\n", ids, sessions, faults }
' "$FIGURES"
say "What it took"
cat "$TIMES"
say "The tests took $SECONDS s, on PostgreSQL $majors"
if [ -n "$own_results" ]; then closing ${only:-tidy live $ON_REQUEST}; fi

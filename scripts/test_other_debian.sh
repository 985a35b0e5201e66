#!/usr/bin/env bash
# test_other_debian.sh [MAJOR...]: runs tests on these PostgreSQL majors of other Debian releases,
# by default on all of them (scripts/majors): the regression tests, also of the portable edition, the
# isolation tests, and the live tests that may differ between majors. Each major runs in a folder
# that debian_folder.sh sets up.
#
#   LIVE="crash leaks" test_other_debian.sh 17      with these of the live tests
#   COMMAND="make demo" test_other_debian.sh 19      this command instead, in the folder
#
# If such a folder cannot be set up, it prints that, adds the skipped tests to the file in
# NOT_TESTED, and exits with 0.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

# Inside the folder, as root: on its only PostgreSQL.
test_here() {
    local major=$1
    use_scratch
    scripts/setup.sh server
    find_servers
    require_servers "$major"
    export PG_CONFIG=${pg_config_of[$major]}
    # All checkouts of the project are built at the same path here. Cargo and make compare times, so
    # they would keep the build of another checkout if it is newer than the files of this one.
    rm -rf target/package
    find target -path '*/.fingerprint/instagram_id*' -prune -exec rm -rf {} +
    install_for_tests "$PG_CONFIG"
    install_release "$PG_CONFIG"
    say "PostgreSQL $major: $("$PG_CONFIG" --version)"
    sql_tests "$PG_CONFIG"
    portable_tests "$PG_CONFIG"
    local skipped=() tests=() name
    for name in $LIVE; do tests+=("$name::"); done
    tests+=("::since_" "::until_")
    for name in $(of_other_majors "$major" | tr '|' ' '); do skipped+=(--skip "$name::"); done
    # The packages that this Debian has.
    for name in pg_partman timescaledb pg_tle; do
        if ! has_extension "$PG_CONFIG" "$name"; then skipped+=(--skip "$name"); fi
    done
    cargo test --locked $(workspace "$major") --test live --test packages -- --test-threads="${JOBS:-$((3 * $(nproc)))}" \
        "${skipped[@]}" "${tests[@]}"
}

export LIVE=${LIVE-${DIFFERING//|/ }}
if [ "${1:-}" = --here ]; then
    test_here "$2"
    exit
fi

own_results=
if [ -z "${RESULTS:-}" ]; then
    own_results=1
    RESULTS=$(mktemp)
    export RESULTS
    trap 'rm -f "$RESULTS"' EXIT
fi
for major in ${*:-$(majors "" "" "$ELSEWHERE")}; do
    suite=$(suite_of "$major")
    started=$SECONDS
    command=(scripts/test_other_debian.sh --here "$major")
    if [ -n "${COMMAND:-}" ]; then command=(bash -c "$COMMAND"); fi
    in_folder() {
        local status=0
        PASS="LIVE JOBS SEED TORTURE CI" scripts/debian_folder.sh "$suite" "${command[@]}" || status=$?
        [ "$status" != 77 ] || not_tested "PostgreSQL $major" "there is no Debian $suite in a folder"
        [ "$status" = 0 ] || [ "$status" = 77 ]
    }
    counted "PostgreSQL $major on Debian $suite" in_folder
    say "PostgreSQL $major on Debian $suite: $((SECONDS - started)) s"
done
if [ -n "$own_results" ]; then closing; fi

#!/usr/bin/env bash
# test_other_debian.sh [MAJOR...]: tests on the PostgreSQL majors that come from another Debian release, 17 and 19 unless named:
# regression and isolation tests, and the live tests of what may differ between majors. Each in a folder that debian_folder.sh
# makes.
#
#   LIVE="crash traces" test_other_debian.sh 17      with these of the live tests
#   COMMAND="make demo" test_other_debian.sh 19      this command instead, in the folder
#
# Where such a folder cannot be made, it says so and ends well, and adds what it has left out to the file that NOT_TESTED
# names.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"

# In the folder, as root: on the only PostgreSQL that is there.
test_here() {
    local major=$1
    use_scratch
    MANIFEST_DIR=$(manifest_dir_of "$major") scripts/setup.sh server
    find_servers
    require_servers "$major"
    export PG_CONFIG=${pg_config_of[$major]}
    make --no-print-directory install PG_CONFIG="$PG_CONFIG"
    say "PostgreSQL $major: $("$PG_CONFIG" --version)"
    sql_tests "$PG_CONFIG"
    local tests=() name
    for name in $LIVE; do tests+=("$name::"); done
    cargo test --locked -p instagram_id_live --test live -- --test-threads="${JOBS:-$((2 * $(nproc)))}" "${tests[@]}"
}

export LIVE=${LIVE-${DIFFERING//|/ }}
if [ "${1:-}" = --here ]; then
    test_here "$2"
    exit
fi

skipped=()
for major in ${*:-17 19}; do
    case $major in
        17) suite=trixie ;;
        19) suite=sid ;;
        *) fail "no other Debian is known for PostgreSQL $major" ;;
    esac
    started=$SECONDS status=0
    command=(scripts/test_other_debian.sh --here "$major")
    if [ -n "${COMMAND:-}" ]; then command=(bash -c "$COMMAND"); fi
    PASS="LIVE JOBS SEED TORTURE CI" scripts/debian_folder.sh "$suite" "${command[@]}" || status=$?
    case $status in
        0) say "PostgreSQL $major on Debian $suite: passed in $((SECONDS - started)) s" ;;
        77) skipped+=("$major") ;;
        *) fail "PostgreSQL $major on Debian $suite: failed" ;;
    esac
done
if [ ${#skipped[@]} -gt 0 ]; then
    say "NOT TESTED: PostgreSQL ${skipped[*]}"
    if [ -n "${NOT_TESTED:-}" ]; then echo "PostgreSQL ${skipped[*]}" >>"$NOT_TESTED"; fi
fi

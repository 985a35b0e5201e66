#!/usr/bin/env bash
# Long tests, for use before a release. They take hours on a machine that is otherwise idle.
#
#   torture.sh                    all of these
#   torture.sh long goals         long scenarios on 15 and 18 (MAJORS), and the goals on ten times the rows
#   torture.sh models             the models of the protocols, with greater limits
#   torture.sh assertions         all tests on a PostgreSQL with assertions
#   torture.sh valgrind           the regression tests under valgrind
#   torture.sh sqlsmith           ten minutes of random SQL (SQLSMITH_SECONDS)
#   torture.sh packages           the Debian packages for 15 and 17, the PGXN archive, the image for CloudNativePG,
#                                 and a build without network
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
export NEXTEST_PROFILE=long
for part in ${*:-models long assertions valgrind sqlsmith packages goals}; do
    started=$SECONDS
    case $part in
        long) MAJORS=${MAJORS:-15 18} TORTURE=1 scripts/test.sh ;;
        models)
            scripts/setup.sh nextest
            MODELS=large cargo nextest run -p instagram_id_core --test models --no-capture ;;
        assertions)
            scripts/assertions.sh
            SERVERS=$CACHE/assertions/bin/pg_config scripts/test.sh ;;
        valgrind) scripts/valgrind.sh ;;
        sqlsmith) scripts/sqlsmith.sh ;;
        packages)
            scripts/check_package.sh 15 17
            scripts/check_archive.sh
            scripts/setup.sh servers
            find_servers
            if [ -n "${pg_config_of[18]:-}" ]; then
                scripts/image_tree.sh --check "${pg_config_of[18]}"
            else
                say "NOT TESTED: the image for CloudNativePG: PostgreSQL 18 is not set up"
            fi ;;
        goals) TORTURE=1 scripts/bench.sh --goals ;;
        *) fail "there is no part $part" ;;
    esac
    say "Torture, $part: done in $(((SECONDS - started) / 60)) minutes"
done

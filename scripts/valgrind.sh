#!/usr/bin/env bash
# Runs the regression tests once on an assertion-enabled PostgreSQL (assertions.sh) under valgrind's
# memcheck, which follows every backend. Fails if a test fails, or if a backend reads or writes
# memory that it must not use, or depends on an uninitialized value. PostgreSQL's suppressions cover
# its own such accesses. An error without this extension in its stack can still be the extension's:
# an uninitialized result is noticed only when PostgreSQL prints it.
#
#   REGRESS="codec errors" valgrind.sh    only these of tests/regress
#   ISOLATION="waits adopt" valgrind.sh   also these of tests/isolation
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
postmaster=
trap 'stop_valgrind; stop_server' EXIT
trap 'exit 1' HUP INT TERM

# Memcheck watches all processes of the server and writes a log for each, with PostgreSQL's own
# suppressions.
start_valgrind() {
    as_server_user "$SERVER_BIN/pg_ctl" -D "$SERVER_DIR/data" -m fast -w stop >/dev/null
    as_server_user mkdir "$SERVER_DIR/valgrind"
    as_server_user tee -a "$SERVER_DIR/data/postgresql.conf" >/dev/null <<-CONF
	authentication_timeout = 10min
	fsync = off
	CONF
    as_server_user sh -c 'echo $$ >"$1/valgrind.pid"; shift; exec "$@"' sh "$SERVER_DIR" \
        valgrind --quiet --trace-children=yes --leak-check=no --num-callers=40 --track-origins="${ORIGINS:-no}" \
        --error-limit=no --error-markers=BEGIN,END --suppressions="$suppressions" \
        --log-file="$SERVER_DIR/valgrind/%p.log" \
        "$SERVER_BIN/postgres" -D "$SERVER_DIR/data" >"$SERVER_DIR/server.log" 2>&1 </dev/null &
    postmaster=$!
    until [ "$(sed -n 8p "$SERVER_DIR/data/postmaster.pid" 2>/dev/null | tr -d ' ')" = ready ]; do
        kill -0 "$postmaster" 2>/dev/null || { cat "$SERVER_DIR/server.log" >&2; fail "the server under valgrind does not start"; }
        sleep 0.5
    done
}

# A fast shutdown, so that each backend exits normally.
stop_valgrind() {
    [ -n "$postmaster" ] || return 0
    as_server_user sh -c 'kill -INT "$(cat "$1/valgrind.pid")"' sh "$SERVER_DIR" 2>/dev/null || true
    wait "$postmaster" || true
    postmaster=
}

# Prints the errors in these logs, each after a line "of the extension" or "of PostgreSQL".
errors() {
    cat "$@" | awk '
        / BEGIN$/ { text = ""; ours = 0; inside = 1; next }
        / END$/ && inside { print (ours ? "of the extension" : "of PostgreSQL"); print text; inside = 0; next }
        inside { text = text $0 "\n"; if (/instagram_id\.so|\.rs:[0-9]+\)/) ours = 1 }'
}

scripts/assertions.sh
pg_config=$CACHE/assertions/bin/pg_config
suppressions=$CACHE/assertions/valgrind.supp
make --no-print-directory install PG_CONFIG="$pg_config"
start_server "$pg_config"
start_valgrind
tests=(REGRESS="${REGRESS:-$(cd tests/regress/sql && printf '%s\n' *.sql | sed 's/\.sql$//' | tr '\n' ' ')}" ISOLATION="${ISOLATION:-}")
status=0
make --no-print-directory installcheck PG_CONFIG="$pg_config" "${tests[@]}" || status=$?
stop_valgrind
shopt -s nullglob
logs=("$SERVER_DIR"/valgrind/*.log)
[ ${#logs[@]} -gt 5 ] || fail "valgrind has followed ${#logs[@]} processes; it must have been every backend"
found=$(errors "${logs[@]}")
ours=$(grep -cx 'of the extension' <<<"$found" || true)
others=$(grep -cx 'of PostgreSQL' <<<"$found" || true)
[ -z "$found" ] || head -n 300 <<<"$found" >&2
say "valgrind has followed ${#logs[@]} processes: $ours errors with the extension in the stack, $others others"
[ "$status" = 0 ] || fail "tests fail under valgrind"
[ $((ours + others)) = 0 ] || fail "valgrind has found errors"

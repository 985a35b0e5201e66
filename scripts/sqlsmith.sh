#!/usr/bin/env bash
# Runs random statements (sqlsmith) against a server with shards, while other sessions generate ids.
# One role owns some of the shards, and another one only has privileges on them. The statements call
# all functions of the extension, with values of all kinds, in all parts of a statement. sqlsmith
# rolls each statement back. Neither role is a superuser, so no statement can access files or run
# programs.
#
# Fails if a process of the server crashes, if a Rust panic or a failed assertion is in the log, if
# the extension raises an internal error (SQLSTATE XX...), or if an id is repeated or out of order.
# Most errors are expected, because sqlsmith passes arguments that the functions refuse.
#
#   SQLSMITH_SECONDS=60 sqlsmith.sh   runs for one minute instead of ten
#   SEED=123 sqlsmith.sh              repeats the statements of the run that has printed this seed; their values can differ
#   SERVERS=/path/to/pg_config ...    uses this PostgreSQL, such as one with assertions
#   PLANT=file.sql sqlsmith.sh        runs this file in the database first, to test that the check fails
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
use_scratch
trap 'stop_sqlsmith; kill_jobs; stop_server; rm -rf "$SCRATCH"' EXIT
seconds=${SQLSMITH_SECONDS:-600}
seed=${SEED:-$((RANDOM * 32768 + RANDOM))}

scripts/setup.sh sqlsmith
[ -n "${SERVERS:-}" ] || scripts/setup.sh server
pg_config=$(scripts/servers.sh | head -n 1)
[ -n "$pg_config" ] || fail "no PostgreSQL 15 or later is set up"
make --no-print-directory -s install PG_CONFIG="$pg_config"
say "Random SQL on $("$pg_config" --version) for $seconds s: SEED=$seed"

# The JSON log lists every error with its SQLSTATE, source location and statement. server.log in the
# same folder contains the lines that a process writes to stderr, such as failed assertions. JIT
# compilation is off: it takes longer than the statements, and does not stop at sqlsmith's timeout
# of a second.
start_server "$pg_config"
as_server_user "$SERVER_BIN/pg_ctl" -D "$SERVER_DIR/data" -m fast -w stop >/dev/null
as_server_user tee -a "$SERVER_DIR/data/postgresql.conf" >/dev/null <<-CONF
	fsync = off
	jit = off
	logging_collector = on
	log_destination = 'jsonlog'
	log_directory = '$SERVER_DIR/log'
	log_filename = 'server.log'
	log_rotation_size = 0
	log_rotation_age = 0
	log_error_verbosity = verbose
	track_functions = all
CONF
as_server_user "$SERVER_BIN/pg_ctl" -D "$SERVER_DIR/data" -l "$SERVER_DIR/start.log" -w start >/dev/null
psql() { "$SERVER_BIN/psql" -X -q -At -v ON_ERROR_STOP=1 -d smith "$@"; }
"$SERVER_BIN/createdb" smith
psql -f tests/sqlsmith/setup.sql
if [ -n "${PLANT:-}" ]; then psql -f "$PLANT"; fi

# Matches a call of a function of the extension or of a shard.
OURS='(public|calls|insta[0-9]+|photos_eu)\.[a-z_0-9]+\('

# run_sqlsmith ROLE: runs sqlsmith for half of the time, and records the calls in the statements
# that it prints. timeout interrupts sqlsmith, which then prints its report.
run_sqlsmith() {
    local status=0
    as_server_user sh -c 'echo $$ >"$1/sqlsmith.pid"; shift; exec timeout -s INT "$@"' sh "$SERVER_DIR" \
        $((seconds / 2)) sqlsmith --target="user=$1 dbname=smith" --exclude-catalog --seed="$seed" --verbose \
        --dump-all-queries 2>"$SCRATCH/$1.log" |
        awk -v ours="$OURS" '
            BEGIN { RS = ";\n" }
            $0 ~ ours { n++ }
            { while (match($0, ours)) { print substr($0, RSTART, RLENGTH - 1); $0 = substr($0, RSTART + RLENGTH) } }
            END { print n + 0 }' >"$SCRATCH/$1.mentions" || status=$?
    rm -f "$SERVER_DIR/sqlsmith.pid"
    [ "$status" = 124 ] || { cat "$SCRATCH/$1.log"; return 1; }
}

# Without its server it would try to connect until its time is over.
stop_sqlsmith() {
    if [ -f "${SERVER_DIR:-}/sqlsmith.pid" ]; then as_server_user kill "$(cat "$SERVER_DIR/sqlsmith.pid")" 2>/dev/null || true; fi
}

# The other sessions. Their rate is limited, so that sqlsmith can run many statements.
"$SERVER_BIN/pgbench" -n -c 2 -R 40 -T $((seconds + 2)) --max-tries=0 -f tests/sqlsmith/load.sql smith \
    >"$SCRATCH/pgbench.log" 2>&1 &
load=$!
for role in sqlsmith_owner sqlsmith_user; do
    with_progress "Statements of $role" run_sqlsmith "$role"
    # The last report of sqlsmith: the number of statements, and each error message with its count.
    awk -v mentions="$(tail -n 1 "$SCRATCH/$role.mentions")" '
        /^queries: / { n = $2; errors = 0 }
        /^[0-9]+\tERROR: / { errors += $1 }
        END {
            printf "    %d statements, %d of them errors; ", n, errors
            printf "%d name functions of the extension or of a shard\n", mentions
            exit n == 0
        }' "$SCRATCH/$role.log" || fail "$role has run no statement"
done

faults=0
fault() { printf 'error: %s\n' "$*" >&2; faults=$((faults + 1)); }

# Crashes and panics. The postmaster logs a process that a signal has terminated. The process itself
# logs a failed assertion.
crashes=$(grep -ahE 'terminated by signal|"error_severity":"PANIC"|TRAP:|panicked at' "$SERVER_DIR"/log/* || true)
if [ -n "$crashes" ]; then
    cut -c 1-1000 <<<"$crashes" | head -n 20 >&2
    fault "the server has crashed, or Rust code has panicked"
fi
wait "$load" || { tail -n 20 "$SCRATCH/pgbench.log" >&2; fault "a session that generates ids has failed"; }

waited=0
until "$SERVER_BIN/pg_isready" -q; do
    [ $((waited += 1)) -lt 60 ] || fail "the server is not running"
    sleep 1
done
psql -v log="$SERVER_DIR/log/server.json" -f tests/sqlsmith/log.sql

# Counts the calls that returned, from the server's statistics, and the errors that Rust code has
# raised.
say "The functions of the extension and of the shards"
psql -c "
    SELECT format('    %s calls returned, %s raised an error', sum(calls) - (SELECT count(*) FROM smith.issued),
        (SELECT count(*) FROM smith.log WHERE file_name LIKE '%.rs' AND error_severity = 'ERROR'))
    FROM pg_stat_user_functions JOIN smith.functions ON oid = funcid WHERE schemaname <> 'calls'" -c "
    SELECT '    returned: ' || string_agg(format('%s %s', funcname, calls), ', ' ORDER BY calls DESC)
    FROM (SELECT funcname, sum(calls) AS calls FROM pg_stat_user_functions
          WHERE funcid IN (SELECT oid FROM smith.functions) AND schemaname = 'public' GROUP BY 1) AS f WHERE calls > 0" -c "
    SELECT '    raised: ' || string_agg(format('%s %s', state_code, n), ', ' ORDER BY n DESC)
    FROM (SELECT state_code, count(*) AS n FROM smith.log
          WHERE file_name LIKE '%.rs' AND error_severity = 'ERROR' GROUP BY 1) AS errors"

awk -F . 'NF == 2 { n[$2]++ } END { for (name in n) print name, n[name] }' "$SCRATCH"/sqlsmith_*.mentions |
    sort -k 2 -rn >"$SCRATCH/mentions"
psql -c "
    SELECT format('    %s × %s', n, left(message, 100))
    FROM (SELECT count(*) AS n, regexp_replace(message, '\d+|\".*\"', '...', 'g') AS message FROM smith.log
          WHERE error_severity = 'ERROR' AND \"user\" LIKE 'sqlsmith_%' GROUP BY 2 ORDER BY 1 DESC LIMIT 12) AS errors"
psql -c "SELECT DISTINCT proname FROM smith.functions
         WHERE pronamespace = 'public'::regnamespace AND prorettype <> 'trigger'::regtype" | sort |
    join -v 1 - <(cut -d ' ' -f 1 "$SCRATCH/mentions" | sort) | paste -s -d ' ' |
    sed 's/^./    named in no statement, only by views: &/'
echo "    named in statements: $(paste -s -d , "$SCRATCH/mentions" | sed 's/,/, /g')"

# sqlsmith also finds internal errors of PostgreSQL. If PostgreSQL's code raised an error, the
# script runs the statement again, and PostgreSQL logs the stack of the error. The error is the
# extension's if its library is in the stack. If the error does not occur again, it is the
# extension's if the statement calls one of its functions.
stderr_log=$SERVER_DIR/log/server.log
psql -c "ALTER SYSTEM SET log_destination = 'stderr'" -c "SELECT pg_reload_conf()" >/dev/null
for number in $(psql -c "SELECT number FROM smith.internal WHERE is_ours IS NULL ORDER BY number"); do
    role=$(psql -c "SELECT role FROM smith.internal WHERE number = $number")
    psql -c "SELECT format('ALTER ROLE %s SET backtrace_functions = %L', role, func_name) FROM smith.internal
             WHERE number = $number" | psql
    before=$(stat -c %s "$stderr_log")
    stack=
    for _ in $(seq 50); do # because the statement selects random values
        psql -c "SELECT format('BEGIN; SET statement_timeout = ''1s''; %s; ROLLBACK', statement) FROM smith.internal
                 WHERE number = $number" | psql -U "$role" >/dev/null 2>&1 || true
        stack=$(tail -c +$((before + 1)) "$stderr_log" | sed -n '/BACKTRACE:/,/LOCATION:/p')
        [ -z "$stack" ] || break
    done
    case $stack in
        *instagram_id.so*) is_ours=true because='its library is in the stack' ;;
        ?*) is_ours=false because='its library is not in the stack' ;;
        *) is_ours="statement ~ '$OURS'" because='does not occur again' ;;
    esac
    psql -c "UPDATE smith.internal SET is_ours = $is_ours, because = '$because' WHERE number = $number"
done
psql -c "SELECT format('    PostgreSQL''s own internal errors: %s × %s (%s, %s)', count(*), min(message), location, because)
         FROM smith.internal WHERE NOT is_ours GROUP BY location, because ORDER BY count(*) DESC"
if [ "$(psql -c "SELECT count(*) FROM smith.internal WHERE is_ours")" != 0 ]; then
    psql -c "SELECT format(E'%s: %s (%s, %s)\n%s\n%s\n', state_code, message, location, because, context, statement)
             FROM (SELECT DISTINCT ON (location, because) * FROM smith.internal WHERE is_ours) AS one" >&2
    fault "the extension has raised an internal error"
fi

psql -f tests/sqlsmith/check.sql || fault "ids are wrong, or a shard no longer works"
[ "$faults" = 0 ] || fail "SEED=$seed SQLSMITH_SECONDS=$seconds $0 repeats the statements"
say "Random SQL: no crash, no internal error of the extension, no id repeated"

# Functions for the scripts, which source this file under `set -euo pipefail`.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# The extension's version, from Cargo.toml.
version_of_extension() { sed -n 's/^version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml" | head -n 1; }

# majors [MANIFEST] [TESTS] [SERVER]: the majors in the file of that name with these in their row,
# each a pattern, in one line.
majors() {
    awk -v manifest="^(${1:-.*})\$" -v tests="^(${2:-.*})\$" -v server="^(${3:-.*})\$" \
        '/^[0-9]/ && $2 ~ manifest && $3 ~ tests && $4 ~ server { print $1 }' "$ROOT/scripts/majors" | paste -s -d ' '
}
# The servers of these are on this machine; those of the others are in folders.
HERE='debian|wheel'
ELSEWHERE='trixie|sid'

# The manifest that builds for this major, and the source of its server. Empty for a major that is
# not supported.
manifest_of() { field_of_major "$1" 2; }
suite_of() { field_of_major "$1" 4; }
field_of_major() { awk -v major="$1" -v field="$2" '$1 == major { print $field }' "$ROOT/scripts/majors"; }

# All that the scripts fetch or set up. It can be removed, which costs only the time to do it again.
if [ -n "${INSTAGRAM_ID_CACHE:-}" ]; then
    CACHE=$INSTAGRAM_ID_CACHE
elif [ "$(id -u)" = 0 ]; then
    CACHE=/var/cache/instagram_id # the user postgres must be able to read it
else
    CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/instagram_id
fi
# The programs that the scripts build come before those of the user in PATH.
export PATH=$CACHE/cargo/bin:$PATH

# Bold only on a terminal.
if [ -t 1 ]; then ARROW=$'\033[1m==>\033[0m'; else ARROW='==>'; fi
say() { printf '%s %s\n' "$ARROW" "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# not_tested NAME REASON: prints that this is not tested, and adds it to the file in NOT_TESTED.
not_tested() {
    say "NOT TESTED: $1: $2"
    if [ -n "${NOT_TESTED:-}" ]; then echo "$1" >>"$NOT_TESTED"; fi
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        fail "this needs root: $*"
    fi
}

# Commands in a folder with another Debian have mounts and processes of their own, which end with
# them.
alone=(unshare --mount --pid --fork --kill-child)

# Whether a bare Debian can be set up in a folder: that takes mounts and devices. Asks for a
# password here, if at all, and not below a progress line.
can_make_debian() {
    as_root true && as_root "${alone[@]}" sh -c '
        probe=$(mktemp -d) && mknod "$probe/null" c 1 3 && : >"$probe/null" && mount -t tmpfs tmpfs "$probe" && umount "$probe"
        status=$?; rm -rf "$probe"; exit $status' 2>/dev/null
}

# bare_debian SUITE FOLDER: sets up a bare Debian of this release in the folder.
bare_debian() {
    [ -x /usr/sbin/debootstrap ] || "$ROOT/scripts/setup.sh" debian
    with_progress "Fetching a bare Debian $1" as_root "${alone[@]}" /usr/sbin/debootstrap --variant=minbase "$1" "$2"
}

# A PostgreSQL server refuses to run as root. If root runs the scripts, it runs as the user
# postgres.
as_server_user() {
    if [ "$(id -u)" = 0 ]; then (cd / && exec runuser -u postgres -- "$@"); else "$@"; fi
}

# with_progress WHAT COMMAND...: runs a long command. Shows the elapsed time and the last line of
# its output, and prints the output if it fails.
with_progress() {
    local what=$1 log pid started=$SECONDS status=0 shown=0 last
    shift
    log=$(mktemp)
    "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.2
        if [ -t 1 ]; then
            last=$(tail -n 1 "$log" | tr -d '\r\033' | cut -c 1-50)
            printf '\r\033[K%s %s ... %d s  %s' "$ARROW" "$what" $((SECONDS - started)) "$last"
        elif [ $((SECONDS - started - shown)) -ge 20 ]; then
            shown=$((SECONDS - started))
            echo "    $what ... $shown s"
        fi
    done
    wait "$pid" || status=$?
    if [ -t 1 ]; then printf '\r\033[K'; fi
    if [ "$status" = 0 ]; then
        say "$what: done in $((SECONDS - started)) s"
    else
        say "$what: failed"
        tail -n 80 "$log" >&2
    fi
    rm -f "$log"
    return "$status"
}

# build_for PG_CONFIG: makes cargo build for this PostgreSQL. pgrx generates its bindings again if
# it has another path than before. So the path is that of the private copy, which is the same for
# all checkouts, if there is one.
build_for() {
    local pg_config=$1 copy
    copy=$CACHE/pg$(major_of "$pg_config")$("$pg_config" --bindir)
    if cmp -s "$("$pg_config" --bindir)/postgres" "$copy/postgres"; then pg_config=$copy/pg_config; fi
    export PGRX_PG_CONFIG_PATH=$pg_config
}

# The major version of the PostgreSQL with this pg_config.
major_of() { "$1" --version | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p'; }

# Finds the PostgreSQL installations that are set up: sets the array pg_config_of, by major.
find_servers() {
    local pg_config
    declare -gA pg_config_of=()
    for pg_config in $("$ROOT/scripts/servers.sh"); do pg_config_of[$(major_of "$pg_config")]=$pg_config; done
}

# Ends the script unless these majors are set up.
require_servers() {
    local major
    for major in "$@"; do
        [ -n "${pg_config_of[$major]:-}" ] ||
            fail "PostgreSQL $major is not set up; there are: ${!pg_config_of[*]}"
    done
}

# tester_for PG_CONFIG regress/pg_regress, or isolation/pg_isolation_regress: a test driver that
# works for this PostgreSQL. If its own is missing or broken, that of another one, because the
# drivers are only clients.
tester_for() {
    local candidate
    for candidate in "$("$1" --pkglibdir)/pgxs/src/test/$2" /usr/lib/postgresql/*/lib/pgxs/src/test/"$2"; do
        if "$candidate" --version >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    fail "there is no ${2##*/} that runs; Debian has it in its postgresql-client packages"
}

# The newest major whose server is installed from Debian's packages.
debian_major() {
    local bin
    for bin in /usr/lib/postgresql/*/bin/postgres; do
        if [ -x "$bin" ]; then basename "$(dirname "$(dirname "$bin")")"; fi
    done | sort -n | tail -n 1
}

# use_scratch: sets up a folder for files of the tests. When the script ends, the folder is removed
# and background jobs are stopped. The folder is in memory if there is room, where the tests take a
# quarter of the time. The tests kill servers but not the machine, so they need no disk.
use_scratch() {
    local base=${TMPDIR:-/tmp} shm memory
    shm=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)
    memory=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)
    if [ -z "${TMPDIR:-}" ] && [ "${shm:-0}" -gt 8000000 ] && [ "${memory:-0}" -gt 12000000 ]; then base=/dev/shm; fi
    SCRATCH=$(mktemp -d "$base/instagram_id.XXXXXX")
    trap 'kill_jobs; rm -rf "$SCRATCH"' EXIT
    trap 'exit 1' HUP INT TERM
    chmod 1777 "$SCRATCH"
    export TMPDIR=$SCRATCH
}

# --- tests
# ---------------------------------------------------------------------------------------------------

# The needs of a test decide in which program of tests/live/Cargo.toml it is: `tidy` needs no
# server, `live` a PostgreSQL and nothing else. These need more, and run where the caller asks for
# them:
declare -A NEEDS=(
    [contrib]="the modules of contrib and XML, as Debian's PostgreSQL has them"
    [clients]="Python, Node.js, PHP, Java, Go and Ruby: make test-clients"
    [packages]="PgBouncer, pg_partman and TimescaleDB: make test-packages"
    [majors]="a newer PostgreSQL: MAJORS='15 18' make test-majors"
    [citus]="a PostgreSQL with Citus: SERVERS=/path/to/pg_config make test-citus"
)
ON_REQUEST="contrib clients packages majors citus"

# The tests that depend on a major's layout of pages, WAL and catalogs, on how it plans, runs
# functions in SQL, writes files and replicates, or on what Debian has for it, as a part of a pattern.
DIFFERING='copy|crash|disk_faults|fleet|leaks|partition_managers|portable|replicated_sequences|take_over|takeover_misuse|two_primaries'

# The live tests that a change of a function, a page, a message or the catalog can break, and that
# take seconds.
QUICK='binary(tidy) + binary(contrib) + test(/^(script|docs|values|vectors|wait)::/)
    + test(/^(servers::misuse_of_the_map_is_explained|sessions::parallel_worker_refuses)$/)'

# of_other_majors MAJOR: the modules of tests for other majors than this one, as a part of a
# pattern: since_16|since_17...
of_other_majors() {
    local major others=none
    for major in $(majors); do
        if [ "$major" -gt "$1" ]; then others+="|since_$major"; fi
        if [ "$major" -lt "$1" ]; then others+="|until_$major"; fi
    done
    echo "$others"
}

# applies MAJOR: the tests that this major has, as a filter of nextest.
applies() { echo "not test(/(^|::)($(of_other_majors "$1"))::/)"; }

# has_extension PG_CONFIG NAME: whether this PostgreSQL has the files of an extension.
has_extension() { [ -f "$("$1" --sharedir)/extension/$2.control" ]; }

# workspace MAJOR: the packages and features of each build for tests, as options of cargo. With those of
# other packages it would build the dependencies again, since their features would be others. A major
# with a manifest of its own builds its library with that.
workspace() {
    if [ "$(manifest_of "$1")" = Cargo.toml ]; then
        echo "--workspace --exclude instagram_id_pg19 --no-default-features --features instagram_id/pg$1,instagram_id/pg_test"
    else
        echo "-p instagram_id_core -p instagram_id_live -p instagram_id_shards"
    fi
}

# install_for_tests PG_CONFIG: builds the extension and the command, and installs them. Tests use the
# dev profile, which checks the preconditions of unsafe code.
install_for_tests() {
    local pg_config=$1 major built=${CARGO_TARGET_DIR:-target}/debug
    local make=(make --no-print-directory PG_CONFIG="$pg_config")
    major=$(major_of "$pg_config")
    "$ROOT/scripts/setup.sh" command
    build_for "$pg_config"
    if [ "$(manifest_of "$major")" = Cargo.toml ]; then
        # With an example, cargo builds the dependencies with the features that tests need.
        with_progress "Building for PostgreSQL $major" \
            cargo build --locked $(workspace "$major") --lib --bin instagram_id_shards --examples &&
            "${make[@]}" install-extension library="$built/libinstagram_id.so" -o "$built/libinstagram_id.so"
    else
        "${make[@]}" install-extension PROFILE=dev &&
            with_progress "Building instagram_id_shards" cargo build --locked $(workspace "$major") --bin instagram_id_shards
    fi && install -m 755 "$built/instagram_id_shards" "$("$pg_config" --bindir)/"
}

# install_release PG_CONFIG: installs what users install, for long tests and those of a release.
install_release() {
    if [ -n "${TORTURE:-}${RELEASE:-}" ]; then make --no-print-directory install PG_CONFIG="$1"; fi
}

# quick_live_tests MAJOR: runs the quick ones, with few random calls. PG_CONFIG names the
# PostgreSQL.
quick_live_tests() {
    local contrib=
    if has_extension "$PG_CONFIG" pgcrypto; then contrib="--test contrib"; fi
    QUICK=1 cargo nextest run $(workspace "$1") --test tidy --test live $contrib \
        -E "($QUICK) & $(applies "$1")" --status-level fail
}

# unit_tests MAJOR: runs all tests that need no server, after build_for. Tests of the crate that
# need a server have names that begin with pg_. The models take as long as all others. So they run
# here only if the code that they check has uncommitted changes.
unit_tests() {
    local models=
    git diff --quiet HEAD -- core 2>/dev/null || models='--test models'
    cargo nextest run $(workspace "$1") --lib --bins --examples --test bodies $models --test specification --test vectors \
        -E 'not test(/::pg_[^:]*$/)' --status-level fail
}

# finish LOG PID: waits for a command whose output is in this log, and prints the log.
finish() {
    local status=0
    wait "$2" || status=$?
    cat "$1"
    return "$status"
}

# sql_tests PG_CONFIG [REGRESS ISOLATION]: runs tests/regress with pg_regress and, at the same time,
# tests/isolation with pg_isolation_regress, each on its own server; all of them, or those named.
# All run in four parts of each kind at the same time, because most of the time they wait.
sql_tests() {
    local pg_config=$1 status=0 dir pids=() n
    dir=$(mktemp -d)
    beside() {
        on_a_server "$pg_config" "$@" >"$dir/${#pids[@]}" 2>&1 &
        pids+=($!)
    }
    if [ $# = 1 ] && [ -z "${ACCEPT:-}" ]; then
        for n in 0 1 2 3; do
            beside isolation "isolation_$n" ISOLATION="$(fourth "$n" tests/isolation/specs/*.spec)"
            beside regress "regress_$n" REGRESS="$(fourth "$n" tests/regress/sql/*.sql)"
        done
    else
        if [ $# = 1 ] || [ -n "$3" ]; then beside isolation isolation ${3:+ISOLATION="$3"}; fi
        if [ $# = 1 ] || [ -n "$2" ]; then beside regress regress ${2:+REGRESS="$2"}; fi
    fi
    for n in "${!pids[@]}"; do finish "$dir/$n" "${pids[$n]}" || status=$?; done
    rm -rf "$dir"
    return "$status"
}

# fourth 0|1|2|3 FILE...: the names of every fourth test.
fourth() {
    local n=$1
    shift
    printf '%s\n' "$@" | sed 's|.*/||; s|\..*||; /^helpers$/d' | awk -v n="$n" 'NR % 4 == n' | tr '\n' ' '
}

# The files of tests/regress that apply to the portable edition.
PORTABLE_TESTS="codec shortcode generator errors own_epoch shards"

# portable_tests PG_CONFIG: runs these files on the portable edition. The lines that differ from the
# expected outputs must be those of tests/regress/portable.diff: functions and options that it
# lacks, and hints that name them. ACCEPT=1 writes that file.
portable_tests() (
    local pg_config=$1 out=target/portable test
    trap stop_server EXIT
    start_server "$pg_config"
    rm -rf "$out"
    mkdir -p "$out/sql" "$out/expected"
    cp tests/regress/prelude.sql "$out"
    for test in $PORTABLE_TESTS; do
        # next_ids() of the library returns its rows one by one. Decoding is slower. Hints name the
        # schema.
        for file in "sql/$test.sql" "expected/$test.out"; do
            sed 's/next_ids(1, 2000000000)/next_ids(1, 20000)/; s/generate_series(0, 999999)/generate_series(0, 999999, 100)/
                s/\([Uu]se\|with\) SELECT \([a-z]*_shard(\)/\1 SELECT ids.\2/; s/^SELECT next_id(3);/SELECT next_id(3) > 0;/; s/^EXPLAIN (COSTS OFF) SELECT \* FROM secrets/--/
                s/^SELECT locktype, mode FROM pg_locks WHERE pid = pg_backend_pid()$/& AND false/' "tests/regress/$file" >"$out/$file"
        done
    done
    "$SERVER_BIN/psql" --no-psqlrc --quiet -d postgres -c "CREATE DATABASE portable TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'" \
        -c "ALTER DATABASE portable SET search_path = public, ids"
    "$SERVER_BIN/psql" --no-psqlrc --quiet -v ON_ERROR_STOP=1 -d portable -f portable/instagram_id.sql
    # Its report counts each file that differs as failed.
    "$(tester_for "$pg_config" regress/pg_regress)" --inputdir="$out" --outputdir="$out" --bindir="$SERVER_BIN" --use-existing \
        --dbname=portable $PORTABLE_TESTS >"$out/report" 2>&1 || true
    # PostgreSQL 19 says otherwise what to do about a function that does not exist.
    (cd "$out" && diff -U0 expected results | sed '/^diff /d; /^@@ /d; s/^\(--- \|+++ \)[a-z]*\/\([^\t]*\).*/\1\2/
        s/^\(+42883|.* does not exist|\).*/\1/') >"$out/portable.diff" || true
    if [ -n "${ACCEPT:-}" ]; then cp "$out/portable.diff" tests/regress/portable.diff; fi
    diff -u tests/regress/portable.diff "$out/portable.diff" || { cat "$out/report"; return 1; }
    echo "All $(wc -w <<<"$PORTABLE_TESTS") tests passed: $PORTABLE_TESTS"
)

# on_a_server PG_CONFIG regress|isolation OUTPUT [MAKE'S ARGUMENTS...]: starts a server and runs these
# tests on it, with their output in target/OUTPUT.
on_a_server() (
    local pg_config=$1 kind=$2 output=target/$3 tester left
    shift 3
    tester=$(tester_for "$pg_config" "$kind/pg_${kind/isolation/isolation_regress}")
    trap stop_server EXIT
    start_server "$pg_config"
    rm -rf "$output"
    if [ -n "${ACCEPT:-}" ]; then add_expected "$kind"; fi
    if ! make --no-print-directory "installcheck-$kind" PG_CONFIG="$pg_config" OUTPUT="$output" \
        "PG_$(printf %s "${kind/isolation/isolation_regress}" | tr '[:lower:]' '[:upper:]')=$tester" "$@"; then
        cat "$output/regression.diffs"
        [ -n "${ACCEPT:-}" ] || exit 1
    fi
    if [ -n "${ACCEPT:-}" ]; then accept "$kind"; fi
    # A server on which somebody runs `make installcheck` is as before, except for the database.
    left=$("$SERVER_BIN/psql" -X -A -t -d postgres -c "
        SELECT 'role ' || rolname FROM pg_roles WHERE rolname !~ '^(pg_|postgres$)'
        UNION ALL SELECT 'database ' || datname FROM pg_database
        WHERE datname NOT IN ('postgres', 'template0', 'template1', '${kind/regress/contrib}_regression')")
    [ -z "$left" ] || fail "the tests of $kind leave behind: $left"
)

# add_expected regress|isolation: an empty file for each test without an expected output, without
# which no test runs.
add_expected() {
    local file name
    for file in "tests/$1"/{sql,specs}/*; do
        name=${file##*/}
        if [ -f "$file" ] && [ ! -e "tests/$1/expected/${name%.*}.out" ]; then : >"tests/$1/expected/${name%.*}.out"; fi
    done
}

# accept regress|isolation: takes over the output of the tests that have run, unless a server has
# crashed.
accept() {
    local result expected
    for result in "target/$1/results"/*.out; do
        expected=tests/$1/expected/${result##*/}
        cmp -s "$result" "$expected" && continue
        ! grep -q 'server closed the connection\|connection to server was lost' "$result" ||
            fail "$expected is not changed: the server has crashed"
        cp "$result" "$expected"
        say "Accepted: $expected"
    done
    find "tests/$1/expected" -name '*.out' -empty -delete # of tests that have not run
}

# counted WHAT COMMAND...: runs tests, and adds what their output says to the file in RESULTS: how
# many passed, which failed, and which of the programs of tests/live ran. It goes on if some fail;
# `closing` does not. Two can end at the same time, and awk writes in parts.
counted() {
    local what=$1 log status=0
    shift
    log=$(mktemp)
    "$@" 2>&1 | tee "$log" || status=$?
    flock "$RESULTS" awk -v what="$what" -v status="$status" '
        BEGIN { OFS = "\t" }
        function fail(name) { if (!(name in failed)) { failed[name]; print "failed", name, what } }
        # nextest
        / (PASS|FAIL|TIMEOUT|ABORT|SIG[A-Z]+|LEAK) \[/ {
            name = $NF
            program = $(NF - 1)
            sub(/^instagram_id_live::/, "", program)
            print "ran", program " " name
            if (!/ (PASS|LEAK) \[/) fail(program " " name)
        }
        match($0, /[0-9]+ passed/) && /tests? run: / { passed += substr($0, RSTART, RLENGTH) + 0 }
        # cargo test
        / Running / && match($0, /deps\/[a-z_]+/) { program = substr($0, RSTART + 5, RLENGTH - 5) }
        /^test .* \.\.\. ok/ { print "ran", program " " $2 }
        /^test .* \.\.\. FAILED/ { print "ran", program " " $2; fail($2) }
        /^test result: / && match($0, /[0-9]+ passed/) { passed += substr($0, RSTART, RLENGTH) + 0 }
        # pg_regress and pg_isolation_regress
        /^not ok / { fail($4 == "+" || $4 == "-" ? $5 : $4) }
        # The spec with the helpers runs on each server of the isolation tests, and counts once.
        /^(test|ok [0-9]+ +-) helpers / { if (helpers++) passed-- }
        match($0, /^(# | )*All [0-9]+ tests passed/) { match($0, /[0-9]+/); passed += substr($0, RSTART, RLENGTH) }
        match($0, /^(# | )*[0-9]+ of [0-9]+ tests failed/) {
            match($0, /[0-9]+ of [0-9]+/)
            split(substr($0, RSTART, RLENGTH), of, " of ")
            passed += of[2] - of[1]
        }
        END {
            print "passed", passed + 0, what
            for (name in failed) exit
            if (status != 0) print "failed", what " (exit status " status ")", what
        }' "$log" >>"$RESULTS"
    rm -f "$log"
}

# closing PROGRAM...: prints what passed, what failed, and by name which tests of these programs of
# tests/live have not run, and why. The last line counts it. Fails if a test has failed, or, if the
# majors share the tests, has run on none of them without a reason.
closing() {
    local program tests
    tests=$(mktemp)
    for program in "$@"; do
        cargo nextest list -p instagram_id_live --test "$program" 2>/dev/null |
            awk -v program="$program" -v needs="${NEEDS[$program]:-}" '
                BEGIN { OFS = "\t" }
                { name = $NF }
                name ~ /:$/ { next }
                match(name, /since_[0-9]+/) { print program " " name, "PostgreSQL " substr(name, RSTART + 6, 2) " or later"; next }
                match(name, /until_[0-9]+/) { print program " " name, "PostgreSQL " substr(name, RSTART + 6, 2) " or earlier"; next }
                name ~ /timescaledb/ { print program " " name, "TimescaleDB, which Debian has from 13 on"; next }
                name ~ /pg_tle/ { print program " " name, "pg_tle, built from github.com/aws/pg_tle for the server"; next }
                name ~ /pg_upgrade/ { print program " " name, "a newer PostgreSQL whose pg_upgrade is not older than the server"; next }
                { print program " " name, needs == "" ? "not asked for" : needs }' >>"$tests"
    done
    awk -F '\t' -v shared="${SHARED:-}" '
        FNR == NR && $1 == "ran" { ran[$2]; next }
        FNR == NR && $1 == "passed" { passed += $2; lines = lines sprintf("    %6d  %s\n", $2, $3); next }
        FNR == NR && $1 == "failed" { failures++; failed = failed "    " $2 " (" $3 ")\n"; next }
        FNR == NR { next }
        !($1 in ran) && shared && $2 == "not asked for" { failures++; failed = failed "    " $1 " (ran on no major)\n"; next }
        !($1 in ran) { skipped++; if (!($2 in names)) reasons[++count] = $2; names[$2] = names[$2] " " $1 ";" }
        END {
            print "==> Passed"
            printf "%s", lines
            for (n = 1; n <= count; n++) {
                list = names[reasons[n]]
                sub(/;$/, "", list)
                print "==> Did not run, because of what they need: " reasons[n]
                print "   " list
            }
            if (failures) printf "==> Failed\n%s", failed
            printf "%d passed, %d failed, %d skipped\n", passed, failures, skipped
            exit failures > 0
        }' "$RESULTS" "$tests"
}

# Stops the background jobs of this script, and all processes of those with a group of their own.
kill_jobs() {
    local pid pids
    pids=$(jobs -p)
    for pid in $pids; do kill -- "-$pid" 2>/dev/null || kill "$pid" 2>/dev/null || true; done
    if [ -n "$pids" ]; then wait; fi
}

# --- a throw-away server
# -------------------------------------------------------------------------------------

# start_server PG_CONFIG: starts a new cluster in a temporary folder, which listens only on a socket
# in that folder. EXTRA_CONF has further settings. Sets SERVER_BIN and SERVER_DIR, exports PGHOST,
# PGPORT and PGUSER.
start_server() {
    SERVER_BIN=$("$1" --bindir)
    SERVER_DIR=$(mktemp -d "${TMPDIR:-/tmp}/instagram_id.XXXXXX")
    chmod 755 "$SERVER_DIR"
    if [ "$(id -u)" = 0 ]; then chown postgres "$SERVER_DIR"; fi
    as_server_user "$SERVER_BIN/initdb" -D "$SERVER_DIR/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 \
        --no-sync >"$SERVER_DIR/initdb.log" 2>&1 || { cat "$SERVER_DIR/initdb.log" >&2; return 1; }
    as_server_user tee -a "$SERVER_DIR/data/postgresql.conf" >/dev/null <<-CONF
	listen_addresses = ''
	unix_socket_directories = '$SERVER_DIR'
	port = 5432
	max_prepared_transactions = 5
	${EXTRA_CONF:-}
	CONF
    as_server_user "$SERVER_BIN/pg_ctl" -D "$SERVER_DIR/data" -l "$SERVER_DIR/server.log" -w start \
        >/dev/null || { cat "$SERVER_DIR/server.log" >&2; return 1; }
    export PGHOST=$SERVER_DIR PGPORT=5432 PGUSER=postgres
}

# Stops the server, by its process id, and removes its folder. Does nothing if there is no server.
stop_server() {
    [ -n "${SERVER_DIR:-}" ] || return 0
    if [ -f "$SERVER_DIR/data/postmaster.pid" ]; then
        as_server_user "$SERVER_BIN/pg_ctl" -D "$SERVER_DIR/data" -m immediate -w stop >/dev/null || true
    fi
    rm -rf "$SERVER_DIR"
    SERVER_DIR=
}

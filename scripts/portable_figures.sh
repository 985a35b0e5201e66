#!/usr/bin/env bash
# Measures the portable edition beside Instagram's function and the library, in turn on one server:
# the figures of docs/run/portable.md. TMPDIR=/tmp portable_figures.sh [MAJOR], with /tmp on a disk
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
use_scratch
find_servers
PG_CONFIG=${pg_config_of[${1:-$(debian_major)}]}
trap 'stop_server; rm -rf "$SCRATCH"' EXIT
EXTRA_CONF="autovacuum = off" start_server "$PG_CONFIG"
sql() { "$SERVER_BIN/psql" --no-psqlrc -qAt -v ON_ERROR_STOP=1 "$@"; }
for database in original portable library; do sql -d postgres -c "CREATE DATABASE $database"; done
sql -d portable -f portable/instagram_id.sql -c "SELECT ids.create_shard(5)" >/dev/null
sql -d library -c "CREATE EXTENSION instagram_id; SELECT create_shard(5)" >/dev/null
sql -d original <<'SQL'
CREATE SCHEMA insta5;
CREATE SEQUENCE insta5.table_id_seq;
CREATE FUNCTION insta5.next_id(OUT result bigint) LANGUAGE plpgsql AS $$
DECLARE
    our_epoch bigint := 1314220021721;
    seq_id bigint;
    now_millis bigint;
    shard_id int := 5;
BEGIN
    SELECT nextval('insta5.table_id_seq') % 1024 INTO seq_id;
    SELECT FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) INTO now_millis;
    result := (now_millis - our_epoch) << 23;
    result := result | (shard_id << 10);
    result := result | (seq_id);
END $$;
SQL
# The CPU time of the backend for 20,000 calls in microseconds a call, less that of the same scan
# without them.
cpu() {
    sql -d "$1" <<SQL
CREATE FUNCTION pg_temp.used() RETURNS numeric LANGUAGE sql AS \$\$ SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::numeric \$\$;
SELECT count($2) FROM generate_series(1, 2000) \\gset
SELECT pg_temp.used() AS a \\gset
SELECT count($2) FROM generate_series(1, 20000) AS g \\gset
SELECT pg_temp.used() AS b \\gset
SELECT count(clock_timestamp()) FROM generate_series(1, 20000) AS g \\gset
SELECT round((2 * :b - :a - pg_temp.used()) / 20000 / 1000, 2);
SQL
}
for round in 1 2 3 4 5 6 7 8 9; do
    for way in "original insta5.next_id()" "portable insta5.next_id()" "library insta5.next_id()" "original gen_random_uuid()"; do
        echo "$way $(cpu ${way%% *} "${way#* }")"
    done
done | sort -k1,2 -k3n | awk '{ way = $1 " " $2; values[way] = values[way] " " $3; count[way]++ }
    END { for (way in values) { split(values[way], v, " "); printf "%-28s median %s us CPU a call, least %s\n", way, v[int((count[way] + 1) / 2)], v[1] } }'
echo "SELECT count(insta5.next_id()) FROM generate_series(1, 1000)" >"$SCRATCH/calls.sql"
echo "SELECT count(*) FROM ids.next_ids(5, 10000)" >"$SCRATCH/batch.sql"
echo "INSERT INTO insta5.photos (title) VALUES ('hello')" >"$SCRATCH/insert.sql"
for database in original portable library; do
    sql -d "$database" -c "CREATE TABLE insta5.photos (id bigint PRIMARY KEY DEFAULT insta5.next_id(), title text)"
done
switches() { sed -n 's/^ctxt //p' /proc/stat; }
for round in 1 2 3; do
    for sessions in 1 2 4; do
        for run in "original calls 1000" "portable calls 1000" "portable batch 10000"; do
            set -- $run
            before=$(switches)
            tps=$("$SERVER_BIN/pgbench" -n -c "$sessions" -j 2 -T 3 -f "$SCRATCH/$2.sql" -d "$1" 2>/dev/null | sed -n 's/^tps = \([0-9.]*\).*/\1/p')
            awk "BEGIN { rate = $tps * $3
                printf \"$1, $2, $sessions sessions: %d ids a second, %.2f context switches an id\n\", rate, ($(switches) - $before) / rate / 3 }"
        done
    done
    for sessions in 1 8 32; do
        for database in original portable library; do
            tps=$("$SERVER_BIN/pgbench" -n -c "$sessions" -j 2 -T 3 -f "$SCRATCH/insert.sql" -d "$database" 2>/dev/null | sed -n 's/^tps = \([0-9]*\).*/\1/p')
            echo "$database, a row a transaction, $sessions sessions: $tps transactions a second"
        done
    done
done | sort
uptime

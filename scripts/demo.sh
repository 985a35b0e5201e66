#!/usr/bin/env bash
# Shows the extension at work: four shards on a temporary server, eight clients that insert for some seconds, and the
# result. First installs and builds what is missing.
#
#   DEMO_SECONDS=10 demo.sh   insert for longer
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
trap stop_server EXIT
trap 'exit 1' HUP INT TERM
seconds=${DEMO_SECONDS:-5}
clients=8

scripts/setup.sh server
pg_config=$(scripts/servers.sh | tail -n 1)
[ -n "$pg_config" ] || fail "no PostgreSQL 15 or later is set up"
make --no-print-directory -s install PG_CONFIG="$pg_config"

say "Starting $("$pg_config" --version) in a temporary folder"
start_server "$pg_config"
psql() { "$SERVER_BIN/psql" -X -q -P pager=off -d demo "$@"; }
"$SERVER_BIN/createdb" demo

say "Creating the extension, four shards, and a table of photos in each"
psql <<'SQL'
CREATE EXTENSION instagram_id;
SELECT create_shard(n) FROM generate_series(1, 4) AS n \g /dev/null
SELECT format('CREATE TABLE insta%s.photos (id bigint PRIMARY KEY DEFAULT insta%1$s.next_id(), title text)', n)
FROM generate_series(1, 4) AS n \gexec
CREATE VIEW photos AS
    SELECT 1 AS shard, * FROM insta1.photos UNION ALL SELECT 2, * FROM insta2.photos
    UNION ALL SELECT 3, * FROM insta3.photos UNION ALL SELECT 4, * FROM insta4.photos;
SQL

say "Inserting from $clients clients for $seconds seconds: single rows, and now and then a thousand at once"
cat >"$SERVER_DIR/one.sql" <<'SQL'
\set shard random(1, 4)
INSERT INTO insta:shard.photos (title) VALUES ('photo of client :client_id');
SQL
cat >"$SERVER_DIR/many.sql" <<'SQL'
\set shard random(1, 4)
INSERT INTO insta:shard.photos (title) SELECT 'photo ' || n || ' of client :client_id' FROM generate_series(1, 1000) AS n;
SQL
"$SERVER_BIN/pgbench" -n -c "$clients" -j 2 -T "$seconds" -P 1 -f "$SERVER_DIR/one.sql@99" -f "$SERVER_DIR/many.sql@1" \
    demo 2>&1 >"$SERVER_DIR/pgbench.log" |
    sed -u -n 's/^progress: \([0-9.]*\) s, \([0-9.]*\) tps.*/    \1 s: \2 statements a second/p'

echo
say "A few of the ids, decoded by SQL"
psql -c "SELECT id, id_time(id), id_shard(id), id_seq(id), title FROM photos ORDER BY id DESC LIMIT 8"
say "All of them"
psql -x -c "
    SELECT to_char(count(*), 'FM999,999,999') AS \"ids made\",
           to_char(count(*) / $seconds.0, 'FM999,999,999') AS \"ids a second\",
           count(*) - count(DISTINCT id) AS \"duplicates\",
           count(*) FILTER (WHERE id_shard(id) <> shard) AS \"ids of a wrong shard\"
    FROM photos"
say "The shards, as the database sees them"
psql -c "SELECT shard, schema, last_id, last_time, ahead, ends_at FROM id_shards"
say "A million ids of one shard in one statement; the format's limit is 1,024 a millisecond"
psql -x -c "
    SELECT to_char(count(*), 'FM999,999,999') AS \"ids made\",
           max(id_time(id)) - min(id_time(id)) AS \"in\",
           count(*) - count(DISTINCT id) AS \"duplicates\"
    FROM (SELECT next_id(1) AS id FROM generate_series(1, 1000000)) AS million"

say "To look around, in another terminal while this one waits:"
echo
echo "    $SERVER_BIN/psql -h $SERVER_DIR -U postgres demo"
echo
if [ -t 0 ]; then
    read -r -p "Press Enter to stop the server and remove it. " || true
else
    echo "(It would wait here; with no terminal to wait at, the server stops now and is removed.)"
fi

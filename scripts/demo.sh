#!/usr/bin/env bash
# Shows the extension at work on a temporary server, in half a minute. Eight clients insert rows,
# first with ids of a plain expression, which repeat, and then with ids of the extension. First
# installs and builds what is missing.
#
#   DEMO_SECONDS=10 demo.sh   insert for longer
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
trap stop_server EXIT
trap 'exit 1' HUP INT TERM
seconds=${DEMO_SECONDS:-3}
clients=8

scripts/setup.sh server
pg_config=$(scripts/servers.sh | tail -n 1)
[ -n "$pg_config" ] || fail "no PostgreSQL 15 or later is set up"
# The build of `make test`, which then has little left to build.
install_for_tests "$pg_config"

# Colors only on a terminal: with this variable of psql, queries add them to their results.
if [ -t 1 ]; then escape=$'\033'; else escape=; fi
psql() { "$SERVER_BIN/psql" -X -q -P pager=off -v escape="$escape" -d demo "$@"; }

say "Starting $("$pg_config" --version) in a temporary folder"
start_server "$pg_config"
"$SERVER_BIN/createdb" demo

say "Two tables: the default of one is an SQL expression, that of the other insta5.next_id()"
psql --echo-queries <<'SQL'
CREATE SEQUENCE ids;
CREATE TABLE plain (client int, id bigint DEFAULT
    ((date_part('epoch', clock_timestamp()) * 1000)::bigint - 1314220021721) << 23 | 5 << 10 | nextval('ids') % 1024);

CREATE EXTENSION instagram_id;
SELECT create_shard(5);
CREATE TABLE insta5.photos (client int, id bigint DEFAULT insta5.next_id());
SQL

# load TABLE: each client inserts 400 rows in a statement, again and again.
load() {
    say "Inserting into $1 from $clients clients for $seconds seconds"
    echo "INSERT INTO $1 (client) SELECT :client_id + 1 FROM generate_series(1, 400)" >"$SERVER_DIR/load.sql"
    "$SERVER_BIN/pgbench" -n -M prepared -c "$clients" -j 2 -T "$seconds" -f "$SERVER_DIR/load.sql" demo >"$SERVER_DIR/pgbench.log" 2>&1 ||
        { cat "$SERVER_DIR/pgbench.log" >&2; exit 1; }
}
load plain
load insta5.photos

echo
say "How many ids were repeated"
psql -At <<'SQL'
SELECT format('    %s%s ids', rpad(source, 24), to_char(ids, '9,999,999,999'))
    || CASE WHEN :'escape' <> '' THEN :'escape' || CASE WHEN repeated > 0 THEN '[1;31m' ELSE '[1;32m' END ELSE '' END
    || format('%s repeated', to_char(repeated, '999,999,990')) || CASE WHEN :'escape' <> '' THEN :'escape' || '[0m' ELSE '' END
FROM (SELECT 'the clock and nextval', count(*), count(*) - count(DISTINCT id) FROM plain
      UNION ALL SELECT 'insta5.next_id()', count(*), count(*) - count(DISTINCT id) FROM insta5.photos) AS counts(source, ids, repeated)
ORDER BY source DESC;
SQL

echo
say "One millisecond: its 1,024 ids, each with the number of the client that received it"
psql -At <<'SQL'
CREATE TEMP TABLE millisecond AS
SELECT id_seq(id) AS seq, client, id FROM insta5.photos WHERE id >> 23 = (
    SELECT id >> 23 FROM insta5.photos GROUP BY id >> 23 ORDER BY count(DISTINCT client) DESC, count(*) DESC LIMIT 1);
SELECT '    ' || string_agg(CASE WHEN client IS NULL THEN '.' WHEN :'escape' = '' THEN client::text
                            ELSE :'escape' || '[1;3' || client % 7 + 1 || 'm' || client || :'escape' || '[0m' END, '' ORDER BY seq)
FROM generate_series(0, 1023) AS seq LEFT JOIN millisecond USING (seq)
GROUP BY seq / 128 ORDER BY seq / 128;
SELECT format(E'\n    %s: %s ids of %s clients', id_time(min(id)), count(*), count(DISTINCT client)) FROM millisecond;
SQL

echo
say "An id, decoded: SELECT * FROM id_explain(...)"
psql -c "SELECT * FROM id_explain((SELECT max(id) FROM insta5.photos))"
say "The shard: SELECT ... FROM id_shards"
psql -c "SELECT shard, schema, last_id, last_time, ends_at, can_generate FROM id_shards"

say "To look around, in another terminal while this one waits:"
echo
echo "    $SERVER_BIN/psql -h $SERVER_DIR -U postgres demo"
echo
if [ -t 0 ]; then
    read -r -p "Press Enter to stop the server and remove it. " || true
else
    echo "(It would wait here; with no terminal to wait at, the server stops now and is removed.)"
fi

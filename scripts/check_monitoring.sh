#!/usr/bin/env bash
# Tries the files of monitoring/ with the real tools: starts a PostgreSQL, sql_exporter and
# Prometheus, and checks what Prometheus has. The tools are unpacked from Debian's packages into the
# cache; they are not installed, so no service is started. All servers listen on loopback or a
# socket, at free ports, and are stopped at the end.
#
#   check_monitoring.sh             on Debian's PostgreSQL
#   MAJORS=18 check_monitoring.sh   on this major, which must be set up and have libxml
#
# Grafana is in no package registry that the scripts use. So Prometheus evaluates the expressions of
# the dashboard.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
started=$SECONDS
use_scratch
trap 'stop_server; kill_jobs; rm -rf "$SCRATCH"' EXIT
scripts/setup.sh server
scripts/setup.sh monitoring
tools=$CACHE/monitoring/usr
find_servers
major=${MAJORS:-$(debian_major)}
require_servers "$major"
make --no-print-directory -s install PG_CONFIG="${pg_config_of[$major]}"

say "Checking the rules"
promtool=$tools/bin/promtool
"$promtool" check config monitoring/prometheus.yml
(cd monitoring && "$promtool" test rules prometheus.rules.test.yml)

say "Starting $("${pg_config_of[$major]}" --version), sql_exporter and Prometheus"
start_server "${pg_config_of[$major]}"
psql() { "$SERVER_BIN/psql" -X -q -v ON_ERROR_STOP=1 "$@"; }
psql -d postgres -c 'ALTER SYSTEM SET fsync = off' -c 'SELECT pg_reload_conf()' >/dev/null
for database in app second old other; do "$SERVER_BIN/createdb" "$database"; done
psql -d app <<'SQL'
CREATE ROLE watcher LOGIN;
GRANT pg_monitor TO watcher;
CREATE SCHEMA ids;
GRANT USAGE ON SCHEMA ids TO watcher;
CREATE EXTENSION instagram_id SCHEMA ids;
SELECT ids.create_shard(n) FROM generate_series(1, 8) AS n \g /dev/null
SELECT ids.create_shard(9, schema => E'Ümläut "\1\uFFFF" <&> ''') \g /dev/null
SELECT ids.next_id(n) FROM generate_series(1, 9) AS n \g /dev/null
SQL
psql -d second -c 'CREATE EXTENSION instagram_id' -c 'SELECT create_shard(1), next_id(1)' >/dev/null
# An extension that was not updated, whose view does not belong to a superuser, so that there are no
# metrics of its shards.
psql -d old -c 'CREATE EXTENSION instagram_id' -c 'SELECT create_shard(1)' >/dev/null \
    -c "UPDATE pg_extension SET extversion = '0.9.0' WHERE extname = 'instagram_id'" \
    -c 'CREATE ROLE another' -c 'ALTER VIEW id_shards OWNER TO another'

read -r prometheus sql_exporter < <(python3 -c '
import socket
sockets = [socket.socket() for _ in range(2)]
for s in sockets: s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in sockets))')

# The files as they are, but for the addresses, and with seconds in place of the minutes.
connection() { echo "      - postgres://watcher@/$1?host=$PGHOST&sslmode=disable"; }
awk -v connections="$(connection app; connection second; connection old; connection other)" '
    /^      - postgres:/ { print connections; next }
    { sub(/interval: 30s/, "interval: 2s"); print }' monitoring/sql_exporter.yml >"$SCRATCH/jobs.yml"
sed -e "s/localhost:9237/127.0.0.1:$sql_exporter/" \
    -e 's/scrape_interval: 30s/scrape_interval: 3s/; s/evaluation_interval: 30s/evaluation_interval: 1s/' \
    monitoring/prometheus.yml >"$SCRATCH/prometheus.yml"
sed 's/ for: .*/ for: 1s/; s/\[5m\]/[7s]/' monitoring/prometheus.rules.yml >"$SCRATCH/prometheus.rules.yml"

"$tools/bin/prometheus-sql-exporter" -web.listen-address "127.0.0.1:$sql_exporter" -config.file "$SCRATCH/jobs.yml" \
    >"$SCRATCH/sql_exporter.log" 2>&1 &
"$tools/bin/prometheus" --web.listen-address="127.0.0.1:$prometheus" --config.file="$SCRATCH/prometheus.yml" \
    --storage.tsdb.path="$SCRATCH/prometheus" --log.level=warn >"$SCRATCH/prometheus.log" 2>&1 &

PSQL=$SERVER_BIN/psql python3 tests/monitoring/check.py "http://127.0.0.1:$prometheus" || {
    tail -n 20 "$SCRATCH"/*.log >&2
    exit 1
}
say "All is well, after $((SECONDS - started)) s"

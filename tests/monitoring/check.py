"""Checks what a Prometheus has of the shards of a test server. scripts/check_monitoring.sh starts the servers and runs it.

Two of the tools cannot be fetched: pgwatch, and the sql_exporter that reads collector files. Each is emulated here: the
file is read, its queries are run, and the result is served as that tool would. So their names, labels and SQL are checked,
but not that the tool itself reads the file.
"""

import http.server
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

import yaml

PROMETHEUS, COLLECTOR_PORT, PGWATCH_PORT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
DATABASES = ["app", "second", "old", "other"]
EPOCH, LIFE, END = 1314220021.721, 2**40 / 1000, 2413731649.497
ODD_SCHEMA = "Ümläut \"?\" <&> '"
# The job of each exporter, and whether its role has privileges on the sequences.
JOBS = ["postgres_exporter", "prometheus-sql-exporter", "sql_exporter", "pgwatch"]
checks = 0
failures = []  # of the emulated exporters


def check(holds, what):
    global checks
    checks += 1
    if not holds:
        sys.exit(f"error: {what}")


# --- the test server ---


def psql(sql, database="app", role="postgres"):
    command = [os.environ["PSQL"], "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", role, "-d", database]
    done = subprocess.run(command, input=sql, capture_output=True, text=True)
    check(done.returncode == 0, f"{sql}: {done.stderr}")
    return done.stdout.strip()


def select(queries, database):
    """The rows of each query, as dictionaries. A float is a number, or the text NaN."""
    script = "".join(f"SELECT coalesce(jsonb_agg(r), '[]') FROM (\n{sql}\n) AS r;\n" for sql in queries)
    return [json.loads(rows) for rows in psql(script, database, "watcher").splitlines()]


# --- the emulated exporters ---


def series(name, labels, value):
    escaped = (str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for text in labels.values())
    listed = ",".join(f'{label}="{text}"' for label, text in zip(labels, escaped))
    return f"{name}{{{listed}}} {float(value)}\n"


def read(file, required, optional=()):
    with open(f"monitoring/{file}") as text:
        content = yaml.safe_load(text)
    check(set(required) <= set(content) <= {*required, *optional}, f"{file}: {list(content)}")
    return content


def collector_series(collector):
    names = [query["query_name"] for query in collector["queries"]]
    for database in DATABASES:
        rows = dict(zip(names, select([query["query"] for query in collector["queries"]], database)))
        for metric in collector["metrics"]:
            for row in rows[metric["query_ref"]]:
                labels = {label: row[label] for label in metric["key_labels"]}
                (value,) = metric["values"]
                yield series(metric["metric_name"], labels, row[value])


def pgwatch_series(metrics):
    for database in DATABASES:
        results = select([metric["sqls"][15] for metric in metrics.values()], database)
        for name, row in ((name, row) for name, rows in zip(metrics, results) for row in rows):
            tags = {tag[4:]: text for tag, text in row.items() if tag.startswith("tag_") and text != ""}
            check(abs(row["epoch_ns"] / 1e9 - time.time()) < 60, f"{name}: epoch_ns is {row['epoch_ns']}")
            for column, value in row.items():
                if not column.startswith("tag_") and column != "epoch_ns" and value != "NaN":
                    yield series(f"pgwatch_{name}_{column}", {**tags, "dbname": database}, value)


def serve(port, collect):
    """Collects every two seconds, and serves the last result."""
    last = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.end_headers()
            self.wfile.write(last["answer"].encode())

        def log_message(self, *_):
            pass

    def run():
        while True:
            try:
                last["answer"] = "".join(collect())
            except BaseException as error:
                failures.append(error)
                raise
            if "server" not in last:
                last["server"] = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
                threading.Thread(target=last["server"].serve_forever, daemon=True).start()
            time.sleep(2)

    threading.Thread(target=run, daemon=True).start()


def start_emulated():
    collector = read("sql_exporter.collector.yml", ["collector_name", "metrics", "queries"], ["min_interval"])
    for metric in collector["metrics"]:
        check(set(metric) == {"metric_name", "type", "help", "key_labels", "values", "query_ref"}, metric)
        check(metric["type"] == "gauge", metric)
    pgwatch = read("pgwatch.yml", ["metrics", "presets"])
    for name, metric in pgwatch["metrics"].items():
        check(set(metric) == {"description", "sqls", "gauges"} and list(metric["sqls"]) == [15], name)
    (preset,) = pgwatch["presets"].values()
    check(list(preset["metrics"]) == list(pgwatch["metrics"]), "the preset has all metrics")
    serve(COLLECTOR_PORT, lambda: collector_series(collector))
    serve(PGWATCH_PORT, lambda: pgwatch_series(pgwatch["metrics"]))


# --- Prometheus ---


def api(path, **parameters):
    url = f"{PROMETHEUS}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)["data"]


def query(expression, **parameters):
    """The labels and the value of each series."""
    return [(one["metric"], float(one["value"][1])) for one in api("query", query=expression, **parameters)["result"]]


def until(what, ask, is_right, seconds=60):
    """Waits until the answer is right."""
    end = time.time() + seconds
    while True:
        check(not failures, f"an emulated exporter: {failures}")
        try:
            answer = ask()
        except OSError as error:
            answer = error
        else:
            if is_right(answer):
                return check(True, what)
        if time.time() > end:
            sys.exit(f"error: {what}; after {seconds} s there is {answer}")
        time.sleep(0.3)


def by(label, expression):
    return {labels.get(label, ""): value for labels, value in query(expression)}


def becomes(expression, expected, label="datname"):
    """Waits until the series have these values, by this label. A value is a number or a range."""

    def fits(value, wanted):
        low, high = wanted if isinstance(wanted, tuple) else (wanted, wanted)
        return math.isnan(value) if math.isnan(low) else low <= value <= high

    def is_right(found):
        return set(found) == set(expected) and all(fits(found[key], wanted) for key, wanted in expected.items())

    until(f"{expression} becomes {expected}", lambda: by(label, expression), is_right)


def alerts(job):
    return {
        (alert["labels"]["alertname"], alert["labels"]["datname"], alert["labels"].get("reason", "")): alert["annotations"]
        for alert in api("alerts")["alerts"]
        if alert["state"] == "firing" and alert["labels"]["job"] == job
    }


def fires(job, expected):
    until(f"the alerts of {job} become {expected}", lambda: sorted(alerts(job)), lambda found: found == sorted(expected))


start_emulated()
until("Prometheus answers", lambda: api("targets"), lambda _: True)
for job in JOBS:
    becomes(f'up{{job="{job}"}}', {job: 1}, "job")

print("    a healthy server")
old = [("InstagramIdExtensionOutdated", "old", ""), ("InstagramIdMetricsMissing", "old", "")]
for job in JOBS:
    of = f'job="{job}"'
    psql("SELECT ids.next_id(n) FROM generate_series(1, 9) AS n")
    psql("SELECT next_id(1)", "second")
    for name, app, second in [
        ("defined", 9, 1),
        ("doubled", 0, 0),
        ("unlogged", 0, 0),
        ("ahead", 0, 0),
        ("active", 9, 1),
        ("without_last_id", 0, 0),
        ("ends_min_timestamp_seconds", END, END),
    ]:
        becomes(f"instagram_id_shards_{name}{{{of}}}", {"app": app, "second": second})
    for name in ["ahead_max_seconds", "last_id_max_timestamp_seconds", "last_id_min_timestamp_seconds"]:
        now = (0, 2) if name.startswith("ahead") else (time.time() - 120, time.time() + 60)
        becomes(f"instagram_id_shards_{name}{{{of}}}", {"app": now, "second": now})
    becomes(f"instagram_id_reason_shards{{{of}}}", {"app": 9, "second": 1})
    becomes(f"instagram_id_sessions_waiting{{{of}}}", {"app": 0, "second": 0, "old": 0})
    becomes(f"instagram_id_version_extension_outdated{{{of}}}", {"app": 0, "second": 0, "old": 1})
    becomes(f"instagram_id_version_library_differs{{{of}}}", {"app": 0, "second": 0, "old": 0})
    used = ((time.time() - EPOCH) / LIFE - 1e-6, (time.time() - EPOCH) / LIFE + 1e-6)
    becomes(f"instagram_id_shards_life_used_max_ratio{{{of}}}", {"app": used, "second": used})
    shards = [f"insta{n}" for n in range(1, 9)] + [ODD_SCHEMA]
    per_shard = f'{{{of},datname="app"}}'
    becomes(f"instagram_id_shard_life_used_ratio{per_shard}", {name: used for name in shards}, "schema")
    becomes(f"instagram_id_shard_status_can_generate{per_shard}", {name: 1 for name in shards}, "schema")
    becomes(f"instagram_id_shard_ahead_seconds{per_shard}", {name: (0, 2) for name in shards}, "schema")
    fires(job, old)

print("    the bounds of ids per second")
time.sleep(8)  # until each exporter has the ids above
began = time.time()
made = 0
for _ in range(20):
    psql("SELECT ids.next_id(8) FROM generate_series(1, 50)")
    made += 50
    time.sleep(0.2)
time.sleep(8)
window = f"[{int(time.time() - began) + 4}s]"
for job in JOBS:
    of = f'{{job="{job}",datname="app"}}'
    ask = lambda expression: by("shard", expression)
    last = f"instagram_id_shard_last_id_timestamp_seconds{of}{window}"
    lower = ask(f"changes({last})")
    upper = ask(f"1024000 * (max_over_time({last}) - min_over_time({last})) + 1023")
    check(1 <= lower["8"] <= made <= upper["8"], f"{job}: {lower['8']} <= {made} <= {upper['8']}")
    check(lower["7"] == 0 and upper["7"] == 1023, f"{job}: an idle shard has {lower['7']} and {upper['7']}")

print("    a server with everything that an alert is for")
psql(
    r"""
    SELECT setval('insta1.table_id_seq', last_value + 3600 * 1000 * 1024::bigint) FROM insta1.table_id_seq;
    SELECT format('ALTER SEQUENCE insta2.table_id_seq MAXVALUE %s', last_value) FROM insta2.table_id_seq \gexec
    DROP FUNCTION insta3.id_time(bigint);
    CREATE SCHEMA another;
    SELECT replace(pg_get_functiondef('insta4.shard_4'::regproc), 'insta4.shard_4', 'another.shard_4') \gexec
    ALTER SEQUENCE insta5.table_id_seq SET UNLOGGED;
    SET search_path = ids;
    SELECT create_shard(20, epoch => now() - interval '33 years');
    """
)
psql(
    "CREATE OR REPLACE FUNCTION instagram_id_version() RETURNS text LANGUAGE sql AS $$SELECT '0.9.0'$$;",
    "second",
)
# After setval a session waits until the clock has moved on. At most moments at least one of these is waiting.
psql("".join(f"CREATE SEQUENCE waits{n};" for n in range(6)))
busy = [
    f"SELECT count(ids.next_id(7, 'waits{n}') + setval('waits{n}', 1)) FROM (SELECT generate_series(1, 1000000000)) AS s"
    for n in range(6)
]
busy = [subprocess.Popen([os.environ["PSQL"], "-X", "-q", "-d", "app", "-c", sql], stderr=subprocess.DEVNULL) for sql in busy]
try:
    of_shards = "SELECT reason FROM ids.id_shards WHERE NOT can_generate"
    reasons = set(psql(of_shards).splitlines())
    (missing,) = (reason for reason in reasons if "insta3.id_time" in reason)
    (incomplete,) = (reason for reason in reasons if "another." in reason)
    check(reasons == {"closed by a move", missing, incomplete}, reasons)
    for job in JOBS:
        of = f'job="{job}"'
        for name, app in [("defined", 11), ("doubled", 1), ("unlogged", 1), ("ahead", 1)]:
            becomes(f'instagram_id_shards_{name}{{{of},datname="app"}}', {"app": app})
        an_hour = (3500, 3600)
        becomes(f'instagram_id_shards_ahead_max_seconds{{{of},datname="app"}}', {"app": an_hour})
        becomes(f'instagram_id_shard_ahead_seconds{{{of},datname="app"}} > 2', {"1": an_hour}, "shard")
        becomes(f'instagram_id_reason_shards{{{of},datname="app",reason!=""}}', {r: 1 for r in reasons}, "reason")
        cannot = {"insta2": 0, "insta3": 0, "another": 0}
        becomes(f'instagram_id_shard_status_can_generate{{{of},datname="app"}} == 0', cannot, "schema")
        becomes(f'instagram_id_sessions_waiting{{{of},datname="app"}} > bool 0', {"app": 1})
        to_alert = reasons - {"closed by a move"}
        expected = old + [("InstagramIdShardCannotGenerate", "app", reason) for reason in to_alert]
        names = ["ShardDoubled", "SequenceUnlogged", "EndOfIds", "SessionsWait", "ShardAhead"]
        expected += [(f"InstagramId{name}", "app", "") for name in names]
        fires(job, expected + [("InstagramIdLibraryDiffers", "second", "")])
        found = alerts(job)
        described = found["InstagramIdShardAhead", "app", ""]["description"]
        check(re.search(r"Shard 1 \(insta1\): 59m \d+s\.", described), described)
        described = found["InstagramIdShardCannotGenerate", "app", missing]["description"]
        check("Shard 3 (insta3)." in described, described)

    print("    the dashboard")
    with open("monitoring/grafana.dashboard.json") as text:
        dashboard = json.load(text)
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    for variable in variables.values():
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"]).groups()
            found = by(label, re.sub(r"\$\w+", ".*", metric))
            check(found and "" not in found, f"{variable['definition']}: {found}")
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    check(len(expressions) >= 18, f"{len(expressions)} expressions")
    for expression in expressions:
        used = set(re.findall(r"\$(\w+)", expression))
        check(used <= set(variables), f"{expression} uses {used}")
        found = query(re.sub(r"\$\w+", ".*", expression))
        check(found, f"the dashboard's expression has no series: {expression}")
    print(f"    {len(expressions)} expressions have series")
finally:
    psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%setval%' AND pid <> pg_backend_pid()")
    for session in busy:
        session.wait()

print("    a server that was put right")
psql(
    r"""
    SELECT setval('insta1.table_id_seq', last_value - 3600 * 1000 * 1024::bigint) FROM insta1.table_id_seq;
    ALTER SEQUENCE insta2.table_id_seq MAXVALUE 9223372036854775807;
    SELECT ids.create_shard(3, if_not_exists => true);
    DROP SCHEMA another, insta20 CASCADE;
    ALTER SEQUENCE insta5.table_id_seq SET LOGGED;
    """
)
psql("DROP EXTENSION instagram_id CASCADE", "second")
for job in JOBS:
    fires(job, old)
    becomes(f'instagram_id_reason_shards{{job="{job}"}}', {"app": 9})
print(f"    {checks} checks")

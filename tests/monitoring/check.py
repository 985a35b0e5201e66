"""Checks what a Prometheus has of the shards of a test server. scripts/check_monitoring.sh starts the servers and runs it."""

import json
import math
import os
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request

PROMETHEUS = sys.argv[1]
EPOCH, LIFE, END = 1314220021.721, 2**40 / 1000, 2413731649.497
ODD_SCHEMA = "\\x" + "Ümläut \"\x01\uffff\" <&> '".encode().hex()  # XML in a database that is not UTF-8 can only have ASCII
checks = 0


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


def alerts():
    return {
        (alert["labels"]["alertname"], alert["labels"]["datname"], alert["labels"].get("reason", "")): alert["annotations"]
        for alert in api("alerts")["alerts"]
        if alert["state"] == "firing"
    }


def fires(expected):
    until(f"the alerts become {expected}", lambda: sorted(alerts()), lambda found: found == sorted(expected))


until("Prometheus answers", lambda: api("targets"), lambda _: True)
becomes("up", {"sql_exporter": 1}, "job")

print("    a healthy server")
old = [("InstagramIdExtensionOutdated", "old", ""), ("InstagramIdMetricsMissing", "old", "")]
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
    becomes(f"instagram_id_shards_{name}", {"app": app, "second": second})
for name in ["ahead_max_seconds", "last_id_max_timestamp_seconds", "last_id_min_timestamp_seconds"]:
    now = (0, 2) if name.startswith("ahead") else (time.time() - 120, time.time() + 60)
    becomes(f"instagram_id_shards_{name}", {"app": now, "second": now})
becomes(f"instagram_id_reason_shards", {"app": 9, "second": 1})
becomes(f"instagram_id_sessions_waiting", {"app": 0, "second": 0, "old": 0})
becomes(f"instagram_id_version_extension_outdated", {"app": 0, "second": 0, "old": 1})
becomes(f"instagram_id_version_library_differs", {"app": 0, "second": 0, "old": 0})
used = ((time.time() - EPOCH) / LIFE - 1e-6, (time.time() - EPOCH) / LIFE + 1e-6)
becomes(f"instagram_id_shards_life_used_max_ratio", {"app": used, "second": used})
shards = [f"insta{n}" for n in range(1, 9)] + [ODD_SCHEMA]
per_shard = '{datname="app"}'
becomes(f"instagram_id_shard_life_used_ratio{per_shard}", {name: used for name in shards}, "schema")
becomes(f"instagram_id_shard_status_can_generate{per_shard}", {name: 1 for name in shards}, "schema")
becomes(f"instagram_id_shard_ahead_seconds{per_shard}", {name: (0, 2) for name in shards}, "schema")
fires(old)

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
ask = lambda expression: by("shard", expression)
last = f"instagram_id_shard_last_id_timestamp_seconds{{datname=\"app\"}}{window}"
lower = ask(f"changes({last})")
upper = ask(f"1024000 * (max_over_time({last}) - min_over_time({last})) + 1023")
check(1 <= lower["8"] <= made <= upper["8"], f"{lower['8']} <= {made} <= {upper['8']}")
check(lower["7"] == 0 and upper["7"] == 1023, f"an idle shard has {lower['7']} and {upper['7']}")

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
    SELECT create_shard(20, epoch => now() - interval '30 years');
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
    for name, app in [("defined", 11), ("doubled", 1), ("unlogged", 1), ("ahead", 1)]:
        becomes(f'instagram_id_shards_{name}{{datname="app"}}', {"app": app})
    an_hour = (3500, 3600)
    becomes(f'instagram_id_shards_ahead_max_seconds{{datname="app"}}', {"app": an_hour})
    becomes(f'instagram_id_shard_ahead_seconds{{datname="app"}} > 2', {"1": an_hour}, "shard")
    becomes(f'instagram_id_reason_shards{{datname="app",reason!=""}}', {r: 1 for r in reasons}, "reason")
    cannot = {"insta2": 0, "insta3": 0, "another": 0}
    becomes(f'instagram_id_shard_status_can_generate{{datname="app"}} == 0', cannot, "schema")
    becomes(f'instagram_id_sessions_waiting{{datname="app"}} > bool 0', {"app": 1})
    to_alert = reasons - {"closed by a move"}
    expected = old + [("InstagramIdShardClosed", "app", "closed by a move")]
    expected += [("InstagramIdShardCannotGenerate", "app", reason) for reason in to_alert]
    names = ["ShardDoubled", "SequenceUnlogged", "EndOfIds", "SessionsWait", "ShardAhead", "ShardFarAhead"]
    expected += [(f"InstagramId{name}", "app", "") for name in names]
    fires(expected + [("InstagramIdLibraryDiffers", "second", "")])
    found = alerts()
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
fires(old)
becomes(f'instagram_id_reason_shards', {"app": 9})

print("    schemas of other letters that define one shard")
for schema in ['"é"', '"è"']:
    definition = "pg_get_functiondef('insta4.shard_4'::regproc)"
    psql(f"CREATE SCHEMA {schema}; SELECT replace({definition}, 'insta4.shard_4', '{schema}.shard_4') \\gexec")
becomes('instagram_id_shards_doubled', {"app": 2})
becomes('instagram_id_shard_status_can_generate{shard="4"}', {"insta4": 1, "\\xc3a9": 0, "\\xc3a8": 0}, "schema")
print(f"    {checks} checks")

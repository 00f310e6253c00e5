"""Uses python3-influxdb as people do, with and without gzip and MessagePack.

Usage: client.py HOST PORT. The last line printed is the counts.
"""

import sys

from influxdb import InfluxDBClient
from influxdb.exceptions import InfluxDBClientError, InfluxDBServerError

passed = failed = 0


def check(name, got, want):
    global passed, failed
    if got == want:
        passed += 1
    else:
        failed += 1
        print("%s: got %r, want %r" % (name, got, want))


def refused(name, f, status):
    try:
        f()
    except (InfluxDBClientError, InfluxDBServerError) as e:
        check(name, e.code, status)
    else:
        check(name, "no error", status)


for gzip in (False, True):
    for headers in (None, {"Accept": "application/json"}):
        c = InfluxDBClient(sys.argv[1], int(sys.argv[2]), gzip=gzip, headers=headers, database="py")
        kind = "gzip %s, %s: " % (gzip, headers)
        check(kind + "version", c.ping()[0], "1")
        c.create_database("py")
        check(kind + "databases", {"name": "py"} in c.get_list_database(), True)
        points = [
            {"measurement": "m", "tags": {"host": "h%d" % (i % 2), "odd": "a b,c=d"},
             "time": 1500000000 + i, "fields": {"f": i / 4, "i": i, "s": 'say "x\\y"', "b": i % 2 == 0, "large": 2**62 + i}}
            for i in range(100)]
        check(kind + "write", c.write_points(points, time_precision="s", batch_size=30), True)
        check(kind + "write lines", c.write_points(["n v=1 1500000000", "n v=2 1500000001"], time_precision="s", protocol="line"), True)
        rows = list(c.query("SELECT * FROM m", epoch="s").get_points())
        check(kind + "rows", len(rows), 100)
        check(kind + "row", rows[99], {"time": 1500000099, "host": "h1", "odd": "a b,c=d", "f": 24.75, "i": 99, "s": 'say "x\\y"',
                                       "b": False, "large": 2**62 + 99})
        check(kind + "group", sorted((k[1]["host"], next(v)["sum"]) for k, v in c.query("SELECT sum(i) FROM m GROUP BY host").items()),
              [("h0", 2450), ("h1", 2500)])
        check(kind + "chunks", sum(len(list(r.get_points())) for r in c.query("SELECT i FROM m", chunked=True, chunk_size=7)), 100)
        check(kind + "parameters", len(list(c.query("SELECT i FROM m WHERE i >= $from AND host = $host", bind_params={"from": 90, "host": "h1"}).get_points())), 5)
        check(kind + "statements", [len(list(r.get_points())) for r in c.query("SELECT i FROM m LIMIT 1; SELECT v FROM n")], [1, 2])
        check(kind + "measurements", c.get_list_measurements(), [{"name": "m"}, {"name": "n"}])
        check(kind + "series", c.get_list_series(measurement="m"), ["m,host=h0,odd=a\\ b\\,c\\=d", "m,host=h1,odd=a\\ b\\,c\\=d"])
        c.create_retention_policy("week", "7d", 1, database="py", default=False, shard_duration="1d")
        check(kind + "policies", [p["name"] for p in c.get_list_retention_policies("py")], ["autogen", "week"])
        c.alter_retention_policy("week", database="py", duration="14d")
        check(kind + "policy", c.get_list_retention_policies("py")[1]["duration"], "336h0m0s")
        c.drop_retention_policy("week", "py")
        c.create_user("u", "p")
        c.grant_privilege("read", "py", "u")
        check(kind + "grants", c.get_list_privileges("u"), [{"database": "py", "privilege": "READ"}])
        check(kind + "users", c.get_list_users(), [{"user": "u", "admin": False}])
        c.drop_user("u")
        c.create_continuous_query("cq", "SELECT mean(f) INTO avg FROM m GROUP BY time(1h)", "py")
        check(kind + "continuous queries", [q["name"] for db in c.get_list_continuous_queries() for q in db.get("py", [])], ["cq"])
        c.drop_continuous_query("cq", "py")
        c.delete_series(measurement="m", tags={"host": "h0"}, database="py")
        check(kind + "after the delete", len(list(c.query("SELECT i FROM m").get_points())), 50)
        refused(kind + "parse error", lambda: c.query("SELEC"), 400)
        refused(kind + "type conflict", lambda: c.write_points([{"measurement": "m", "time": 1500000001, "fields": {"i": "x"}}], time_precision="s"), 400)
        refused(kind + "no database", lambda: c.write_points([{"measurement": "m", "fields": {"i": 1}}], database="nosuch"), 404)
        c.drop_measurement("m")
        c.drop_database("py")
        check(kind + "dropped", {"name": "py"} in c.get_list_database(), False)

print("%d passed, %d failed" % (passed, failed))

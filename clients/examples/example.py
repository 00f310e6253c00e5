import sys
from influxdb import InfluxDBClient

host, port = sys.argv[1].removeprefix("http://").split(":")
c = InfluxDBClient(host, int(port), database="demo")  # username=, password=, ssl=True
c.write_points([{"measurement": "weather", "tags": {"city": "oslo"}, "fields": {"temperature": -3.5}}])
for (_, tags), rows in c.query("SELECT last(temperature) FROM weather GROUP BY city").items():
    print(tags["city"], next(rows)["last"])

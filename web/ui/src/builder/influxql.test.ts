import { expect, test } from "vitest";
import { type Built, nothing, operators, read, write } from "./influxql";

const cpu: Built = { ...nothing, measurement: "cpu", field: "usage_user" };

test.each<[Built, string]>([
  [cpu, "SELECT usage_user FROM cpu WHERE $timeFilter"],
  [{ ...cpu, call: "mean", by: ["host", "time"], fill: "none" }, 'SELECT mean(usage_user) FROM cpu WHERE $timeFilter GROUP BY time($interval), host, "time" fill(none)'],
  [{ ...cpu, call: "percentile", argument: "95", every: "" }, "SELECT percentile(usage_user, 95) FROM cpu WHERE $timeFilter"],
  [{ ...cpu, call: "max", then: "derivative", thenArgument: "1s", every: "10m" }, "SELECT derivative(max(usage_user), 1s) FROM cpu WHERE $timeFilter GROUP BY time(10m)"],
  [{ ...cpu, policy: "a.b", filters: [{ tag: "host", operator: "=", value: "it's" }, { tag: "path", operator: "=~", value: "^/var/" }] }, `SELECT usage_user FROM "a.b".cpu WHERE host = 'it\\'s' AND path =~ /^\\/var\\// AND $timeFilter`],
  [{ ...cpu, measurement: 'a"b\\', field: "select" }, 'SELECT "select" FROM "a\\"b\\\\" WHERE $timeFilter'],
])("%j", (b, text) => {
  expect(write(b)).toBe(text);
  expect(read(text)).toEqual(b);
});

test.each([
  "SELECT mean(usage_user), max(usage_user) FROM cpu WHERE $timeFilter",
  "SELECT mean(usage_user) FROM cpu",
  "SELECT mean(usage_user) FROM cpu WHERE time > now() - 1h",
  "SELECT mean(usage_user) FROM cpu WHERE $timeFilter OR host = 'a'",
  "SELECT mean(usage_user) FROM cpu WHERE host = 'a'",
  "SELECT mean(usage_user) FROM cpu WHERE $timeFilter LIMIT 1",
  "SELECT mean(usage_user) FROM cpu WHERE $timeFilter; DROP DATABASE d",
  "SELECT mean(usage_user) INTO x FROM cpu WHERE $timeFilter",
  "SELECT usage_user + 1 FROM cpu WHERE $timeFilter",
  "SELECT mean(*) FROM cpu WHERE $timeFilter",
  "SELECT usage_user FROM cpu WHERE $timeFilter GROUP BY time(1m)",
  "SELECT usage_user FROM cpu WHERE 'a' = host AND $timeFilter",
  "SELECT usage_user FROM cpu, mem WHERE $timeFilter",
  "SELECT usage_user FROM cpu WHERE $timeFilter -- why",
  "SELECT usage_user FROM cpu WHERE usage_user = 5 AND $timeFilter",
  "SHOW MEASUREMENTS",
  "DROP MEASUREMENT cpu",
  "SELECT",
  "",
])("does not show %s", (text) => expect(read(text)).toBeNull());

test("reads simple edits", () => {
  expect(read("select MEAN(\"usage_user\")\n  from cpu\n  where $timeFilter and host='a'\n  group by host,time( 5m )")).toEqual({ ...cpu, call: "mean", every: "5m", by: ["host"], filters: [{ tag: "host", operator: "=", value: "a" }] });
});

// What the builder writes it reads back, whatever the names and values have in them.
test("reads back what it wrote", () => {
  const signs = ["a", "Z", "0", "_", '"', "'", "\\", "/", "\n", " ", ",", ".", ";", "$", "(", ")", "é", "--", "AND", "n", "世"];
  let seed = 7;
  const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
  const text = () => Array.from({ length: 1 + random(6) }, () => signs[random(signs.length)]).join("");
  for (let i = 0; i < 500; i++) {
    const b: Built = {
      policy: random(2) === 0 ? "" : text(), measurement: text(), field: text(), call: "mean", argument: "", then: "", thenArgument: "", every: "", fill: "",
      filters: Array.from({ length: random(3) }, () => ({ tag: text(), operator: operators[random(2)]!, value: text() })),
      by: Array.from({ length: random(3) }, text),
    };
    b.filters = b.filters.filter((f) => f.tag.toLowerCase() !== "time");
    expect(read(write(b))).toEqual(b);
    // A regular expression changes once, to a form that stays.
    const regex = { ...b, filters: [{ tag: "t", operator: "=~" as const, value: text() }] };
    const again = read(write(regex));
    expect(again).not.toBeNull();
    expect(write(again!)).toBe(write(regex));
  }
});

import { expect, test } from "vitest";
import { operators } from "./influxql";
import { type BuiltProm, nothingProm, readProm, writeProm } from "./promql";

const cpu: BuiltProm = { ...nothingProm, metric: "cpu_usage_user" };

test.each<[BuiltProm, string]>([
  [cpu, "cpu_usage_user"],
  [{ ...cpu, filters: [{ tag: "host", operator: "=~", value: "a|b\\." }] }, 'cpu_usage_user{host=~"a|b\\\\."}'],
  [{ ...cpu, call: "rate", aggregate: "sum", by: ["host", "dc"] }, "sum by (host, dc) (rate(cpu_usage_user[5m]))"],
  [{ ...cpu, aggregate: "avg" }, "avg(cpu_usage_user)"],
  [{ ...cpu, metric: "a b", call: "rate", range: "$interval", filters: [{ tag: "my.tag", operator: "!=", value: '"x"' }] }, 'rate({"a b", "my.tag"!="\\"x\\""}[$interval])'],
])("%j", (b, text) => {
  expect(writeProm(b)).toBe(text);
  expect(readProm(text)).toEqual(b);
});

test("reads simple edits", () => {
  expect(readProm("sum(rate(cpu_usage_user{ host = \"a\", }[1m])) by (host)\n")).toEqual({ ...cpu, call: "rate", range: "1m", aggregate: "sum", by: ["host"], filters: [{ tag: "host", operator: "=", value: "a" }] });
});

test.each(["a + b", "topk(3, a)", "a offset 5m", "sum without (host) (a)", "rate(a)", "histogram_quantile(0.9, a)", '{host="a"}', "a > 1", "a[5m]", "a # why", "sum by (host) (a) by (dc)", "1", ""])("does not show %s", (text) => expect(readProm(text)).toBeNull());

test("reads back what it wrote", () => {
  const signs = ["a", "Z", "0", "_", ":", '"', "'", "\\", "/", "\n", " ", ",", "}", "{", "$", "(", "é", "#", "by", "sum", "世"];
  let seed = 11;
  const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
  const text = () => Array.from({ length: 1 + random(6) }, () => signs[random(signs.length)]).join("");
  for (let i = 0; i < 500; i++) {
    const aggregate = random(2) === 0 ? "sum" : "";
    const b: BuiltProm = {
      metric: text(), call: random(2) === 0 ? "rate" : "", range: "5m", aggregate, by: aggregate === "" ? [] : Array.from({ length: random(3) }, text),
      filters: Array.from({ length: random(3) }, () => ({ tag: text(), operator: operators[random(4)]!, value: text() })),
    };
    expect(readProm(writeProm(b))).toEqual(b);
  }
});

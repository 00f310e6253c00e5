import { expect, test } from "vitest";
import { wantedAt } from "./promql";

test.each([
  ["", { kind: "metric" }, ""],
  ["rate(cpu_us", { kind: "metric" }, "cpu_us"],
  ["cpu{", { kind: "label", metric: "cpu" }, ""],
  ['cpu{a="b",ho', { kind: "label", metric: "cpu" }, "ho"],
  ['cpu{host="a', { kind: "value", metric: "cpu", label: "host" }, "a"],
  ['{__name__=~"c', { kind: "value", metric: "", label: "__name__" }, "c"],
  ["cpu{host=", { kind: "none" }, ""],
  ["rate(cpu[5", { kind: "none" }, "5"],
  ["sum by (", { kind: "label", metric: "" }, ""],
  ['sum(cpu{host="a"}) + di', { kind: "metric" }, "di"],
] as const)("%s", (text, wanted, word) => {
  const found = wantedAt(text);
  expect([found.wanted, text.slice(found.from)]).toEqual([wanted, word]);
});

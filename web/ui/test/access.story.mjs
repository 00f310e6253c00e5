// What shows data, for everybody.

import { test } from "node:test";
import { everyOne } from "./access.mjs";
import { day, write } from "./browser.mjs";

const explore = (params) => `#/explore?${new URLSearchParams({ db: "demo", from: day.from, to: day.to, ...params })}`;
const cpu = "SELECT mean(usage_user) FROM cpu WHERE host =~ /./ AND $timeFilter GROUP BY time($interval), host fill(none)";

test("the data has long names", async () => {
  await write(`cpu,host=ash,path=${"/a/long/path".repeat(12)} usage_user=1 1767571200000000000`, "demo");
});

everyOne({
  "Explore without a query": [explore({}), (page) => page.getByText("What do you want to see?").waitFor()],
  "a plot": [explore({ q: cpu }), (page) => page.getByRole("img", { name: "Plot of 3 series" }).waitFor()],
  "a table": [explore({ q: "SELECT * FROM cpu", view: "table" }), (page) => page.getByText("rows 1 to 100").waitFor()],
  "an error": [explore({ q: "SELECT" }), (page) => page.getByRole("alert").waitFor()],
  PromQL: [explore({ lang: "promql", q: 'sum by (host) (rate(cpu_usage_user{dc="north"}[5m]))' }), (page) => page.getByRole("img", { name: "Plot of 3 series" }).waitFor()],
  Schema: ["#/schema?db=demo", async (page) => {
    await page.locator("summary", { hasText: "cpu" }).click();
    await page.getByText("about 4 series").waitFor();
  }],
  Cardinality: ["#/cardinality?db=demo", (page) => page.getByRole("table", { name: "Series by measurement" }).waitFor()],
  numbers: [explore({ q: "SELECT last(usage_user) FROM cpu GROUP BY host" }), (page) => page.getByText("3 rows in").waitFor()],
  "the raw answer": [explore({ q: "SHOW MEASUREMENTS", view: "raw" }), (page) => page.locator(".raw").waitFor()],
  "a plan": [explore({ q: `EXPLAIN ANALYZE ${cpu}` }), (page) => page.getByText("rows in").waitFor()],
  "what changes something": [explore({ q: "DROP MEASUREMENT nothing" }), (page) => page.getByText("This changes something").waitFor()],
});

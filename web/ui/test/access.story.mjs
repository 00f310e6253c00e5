// What shows data, for everybody: axe-core finds nothing of moderate weight or more, in both themes, and a phone
// shows each view without a scroll to the side.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { day, open, write } from "./browser.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const explore = (params) => `#/explore?${new URLSearchParams({ db: "demo", from: day.from, to: day.to, ...params })}`;
const cpu = "SELECT mean(usage_user) FROM cpu WHERE host =~ /./ AND $timeFilter GROUP BY time($interval), host fill(none)";

/** The views: where they are, and what is there when they are complete. */
const views = {
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
};

/** Fails if axe finds something of moderate weight or more, or if the page is wider than its window. */
async function check(page) {
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `the page is ${await page.evaluate(() => document.documentElement.scrollWidth)} wide`);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const grave = violations.filter((v) => v.impact !== "minor").map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => `${n.html} ${n.any.map((c) => c.message)}`).slice(0, 3).join("\n")}`);
  assert.deepEqual(grave, [], JSON.stringify(await page.evaluate(() => [matchMedia("(prefers-color-scheme: dark)").matches, innerWidth])) + grave.join("\n"));
}

test("the data has long names", async () => {
  await write(`cpu,host=ash,path=${"/a/long/path".repeat(12)} usage_user=1 1767571200000000000`, "demo");
});

for (const [name, [place, complete]] of Object.entries(views)) {
  test(name, async () => {
    const page = await open(place);
    await complete(page);
    await page.evaluate(axe);
    await check(page);
    await page.emulateMedia({ colorScheme: "dark" });
    await check(page);
    await page.setViewportSize({ width: 390, height: 800 });
    await check(page);
    await page.done();
  });
}

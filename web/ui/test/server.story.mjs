// Server: how it does.

import assert from "node:assert/strict";
import { test } from "node:test";
import { open, picture, query, server } from "./browser.mjs";

test("health, figures, disk, settings", async () => {
  const page = await open("#/server");
  await page.getByText("ready for queries and writes").waitFor();
  await page.getByRole("table", { name: "By database" }).getByRole("cell", { name: "demo" }).waitFor();
  await page.getByText("No damage is known").waitFor();
  await page.getByRole("img", { name: "heap in use" }).waitFor(); // after two samples and that of now
  await picture(page, "server");
  await page.locator("summary", { hasText: "httpd" }).click();
  await page.getByRole("row", { name: /bind-address 127\.0\.0\.1/ }).waitFor();
  await page.done();
});

test("a node that does not answer is told at the top", async () => {
  const page = await open("#/server");
  const nodes = [
    ["a-1", "n1", "10.0.0.1:8088", "leader", true, true, 7, 0.02, "1", ""],
    ["b-1", "n2", "10.0.0.2:8088", "follower", true, false, null, null, null, "not reachable at 10.0.0.2:8088"],
  ];
  await page.getByText("ready for queries and writes").waitFor();
  assert.equal(await page.getByRole("status").getAttribute("class"), "good");
  await page.route(/\/query\?/, (route) =>
    /q=SHOW\+SERVERS/.test(route.request().postData())
      ? route.fulfill({ json: { results: [
          { statement_id: 0, series: [{ name: "data_nodes", columns: ["id", "name", "tcp_addr", "role", "voter", "reachable", "applied", "lag", "version", "problem"], values: nodes }] },
          { statement_id: 1, series: [{ name: "cluster", columns: ["problems"], values: [["n2: not reachable at 10.0.0.2:8088"]] }] },
        ] } })
      : route.continue(),
  );
  await page.reload();
  await page.getByText("n2: not reachable at 10.0.0.2:8088").waitFor();
  assert.equal(await page.getByRole("status").getAttribute("class"), "error");
  const row = page.getByRole("row", { name: /n2/ });
  assert.deepEqual(await row.locator(".bad").allTextContents(), ["n2", "no", "not reachable at 10.0.0.2:8088"]);
  assert.deepEqual((await row.getByRole("cell").allTextContents()).slice(6, 9), ["not known", "not known", "not known"]); // and no lag of 0
  assert.equal(await page.getByRole("cell", { name: "n2", exact: true }).count(), 1);
  await page.done();
});

test("the plots begin before the page was opened", async () => {
  const page = await open("#/server");
  const end = Date.now();
  const times = Array.from({ length: 361 }, (_, i) => end - (360 - i) * 10_000);
  await page.route(/\/api\/figures$/, (route) =>
    route.fulfill({ json: { times, figures: { points_written_total: times.map((_, i) => 50 * i), requests_total: times, queries_total: times, queries_running: times.map(() => 1), heap_bytes: times.map(() => 2 ** 20) } } }),
  );
  await page.reload();
  const plot = page.getByRole("img", { name: "points written per second" });
  await plot.waitFor();
  await plot.hover({ position: { x: 90, y: 60 } });
  await page.locator(".tip", { hasText: "5" }).first().waitFor(); // 50 points in ten seconds, at the beginning of the hour
  await page.done();
});

test("what queries of the last hour have cost", async () => {
  for (let i = 0; i < 3; i++) await query(`SELECT mean(usage_user) FROM cpu WHERE time >= ${1767571200000 + i}ms AND time <= 1767574800000ms GROUP BY host`, "demo");
  await fetch(`${server}query?${new URLSearchParams({ db: "demo", q: "SELECT nosuch(usage_user) FROM cpu" })}`);
  const page = await open("#/server", { viewport: { width: 1440, height: 900 } });
  const row = page.getByRole("row", { name: /SELECT mean\(usage_user\) FROM cpu WHERE time >= \? AND time <= \? GROUP BY host/ });
  await row.waitFor();
  assert.deepEqual((await row.getByRole("cell").allTextContents()).slice(3, 4), ["3"]);
  await page.getByRole("row", { name: /nosuch/ }).waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false);
  await row.getByRole("link", { name: "Open" }).click();
  await page.getByRole("textbox", { name: "Query" }).getByText("$timeFilter").first().waitFor(); // and not the history, which is folded
  await page.done();
});

test("a running query can be killed", async () => {
  const controller = new AbortController();
  // A query that would take for ever: windows of a nanosecond.
  const long = fetch(`${server}query?${new URLSearchParams({ db: "demo", q: "SELECT count(usage_user) FROM cpu WHERE time >= 0 GROUP BY time(1ms) fill(0)" })}`, { signal: controller.signal }).then((a) => a.text()).catch(() => "");
  const page = await open("#/server", { viewport: { width: 1440, height: 900 } });
  const row = page.getByRole("row", { name: /count\(usage_user\)/ }).filter({ has: page.getByRole("button", { name: "Kill" }) });
  await row.waitFor();
  const { x, width } = await row.getByRole("button", { name: "Kill" }).boundingBox();
  assert.ok(x >= 0 && x + width <= 1440, `Kill is at ${x}`);
  await row.getByRole("button", { name: "Kill" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Kill" }).click();
  await row.waitFor({ state: "detached" });
  controller.abort();
  await long;
  assert.ok(true);
  await page.done();
});

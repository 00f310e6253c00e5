// Server: how it does.

import assert from "node:assert/strict";
import { test } from "node:test";
import { open, picture, server } from "./browser.mjs";

test("health, figures, disk, settings", async () => {
  const page = await open("#/server");
  await page.getByText("ready for queries and writes").waitFor();
  await page.getByRole("table", { name: "By database" }).getByRole("cell", { name: "demo" }).waitFor();
  await page.getByText("No damage is known").waitFor();
  await page.getByRole("img", { name: "heap in use" }).waitFor(); // after three samples
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
      ? route.fulfill({ json: { results: [{ statement_id: 0, series: [{ name: "data_nodes", columns: ["id", "name", "tcp_addr", "role", "voter", "reachable", "applied", "lag", "version", "problem"], values: nodes }] }] } })
      : route.continue(),
  );
  await page.reload();
  await page.getByText("n2: not reachable at 10.0.0.2:8088").waitFor();
  assert.equal(await page.getByRole("status").getAttribute("class"), "error");
  assert.equal(await page.getByRole("cell", { name: "n2", exact: true }).count(), 1);
  await page.done();
});

test("a running query can be killed", async () => {
  const controller = new AbortController();
  // A query that would take for ever: windows of a nanosecond.
  const long = fetch(`${server}query?${new URLSearchParams({ db: "demo", q: "SELECT count(usage_user) FROM cpu WHERE time >= 0 GROUP BY time(1ms) fill(0)" })}`, { signal: controller.signal }).then((a) => a.text()).catch(() => "");
  const page = await open("#/server");
  const row = page.getByRole("row", { name: /count\(usage_user\)/ });
  await row.waitFor();
  await row.getByRole("button", { name: "Kill" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Kill" }).click();
  await row.waitFor({ state: "detached" });
  controller.abort();
  await long;
  assert.ok(true);
  await page.done();
});

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

// Explore: ask, plot, zoom, table, mistakes, links.

import assert from "node:assert/strict";
import { test } from "node:test";
import { day, open, picture } from "./browser.mjs";

const link = (params) => `#/explore?${new URLSearchParams({ db: "demo", from: day.from, to: day.to, ...params })}`;
const cpu = "SELECT mean(usage_user) FROM cpu WHERE $timeFilter GROUP BY time($interval), host";

test("a link holds the query, and the plot shows its series", async () => {
  const page = await open(link({ q: cpu }));
  await page.getByText(/rows in/).waitFor();
  await page.getByRole("img", { name: "Plot of 3 series" }).waitFor();
  for (const host of ["ash", "birch", "cedar"]) assert.equal(await page.locator(".u-legend").getByText(`cpu.mean host=${host}`).count(), 1);
  await picture(page, "explore");
  await page.done();
});

test("the cursor reads values, and dragging chooses a range", async () => {
  const page = await open(link({ q: cpu }));
  const plot = page.locator(".u-over");
  await plot.waitFor();
  const box = await plot.boundingBox();
  await page.mouse.move(box.x + box.width / 3, box.y + box.height / 2);
  assert.match(await page.locator(".u-legend .u-value").nth(1).textContent(), /^[\d.]+$/);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2, { steps: 5 });
  await page.mouse.up();
  await page.waitForURL(/from=2026-01-05T0[78]/);
  assert.match(page.url(), /to=2026-01-05T1[12]/);
  await page.done();
});

test("typing runs a query, with names completed", async () => {
  const page = await open(link({ q: "" }));
  const editor = page.getByRole("textbox", { name: "Query" });
  await editor.click();
  await page.keyboard.type("SELECT usage_u");
  await page.getByRole("option", { name: "usage_user" }).waitFor();
  await page.waitForTimeout(100); // the editor takes Enter a moment after it shows the list
  await page.keyboard.press("Enter");
  await page.keyboard.type(" FROM cpu WHERE host = '");
  await page.getByRole("option", { name: "birch" }).waitFor();
  await page.keyboard.type("birch' AND $timeFilter");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("img", { name: "Plot of 1 series" }).waitFor();
  await page.done();
});

test("a mistake is underlined", async () => {
  const page = await open(link({ q: "SELECT mean(usage_user) FORM cpu" }));
  await page.getByRole("alert").getByText("found FORM, expected FROM").waitFor();
  assert.equal(await page.locator(".cm-lintRange-error").textContent(), "FORM");
  await page.done();
});

test("text that is no number is a table", async () => {
  const page = await open(link({ q: "SHOW MEASUREMENTS" }));
  await page.getByRole("cell", { name: "disk" }).waitFor();
  await page.done();
});

test("a phone shows it without a scroll to the side", async () => {
  const page = await open(link({ q: cpu }), { viewport: { width: 360, height: 640 } });
  await page.getByRole("img", { name: "Plot of 3 series" }).waitFor();
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 360));
  await page.done();
});

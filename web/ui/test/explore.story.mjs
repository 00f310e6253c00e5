// Explore: ask, plot, zoom, table, mistakes, links.

import assert from "node:assert/strict";
import { test } from "node:test";
import { day, open, picture, query, write } from "./browser.mjs";

const link = (params) => `#/explore?${new URLSearchParams({ db: "demo", from: day.from, to: day.to, ...params })}`;
const cpu = "SELECT mean(usage_user) FROM cpu WHERE $timeFilter GROUP BY time($interval), host";

/** Presses a button and returns the file that it saves. */
async function saved(page, button) {
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: button }).click()]);
  const chunks = [];
  for await (const chunk of await file.createReadStream()) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

test("a link holds the query, and the plot shows its series", async () => {
  const page = await open(link({ q: cpu }));
  await page.getByText(/rows in/).waitFor();
  await page.getByRole("img", { name: "Plot of 3 series" }).waitFor();
  for (const host of ["ash", "birch", "cedar"]) assert.equal(await page.getByRole("row", { name: new RegExp(`cpu.mean host=${host} [\\d.]+ % [\\d.]+ % [\\d.]+ % [\\d.]+ %`) }).count(), 1);
  await picture(page, "explore");
  await page.done();
});

test("the cursor reads values, and dragging chooses a range", async () => {
  const page = await open(link({ q: cpu }));
  const plot = page.locator(".u-over");
  await plot.waitFor();
  const box = await plot.boundingBox();
  await page.mouse.move(box.x + box.width / 3, box.y + box.height / 2);
  assert.match(await page.locator(".tip").textContent(), /^2026-01-05 0\d:\d\d:00Z( cpu\.mean host=\w+ [\d.]+ %){3}$/);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2, { steps: 5 });
  await page.mouse.up();
  await page.waitForURL(/from=2026-01-05T0[78]/);
  assert.match(page.url(), /to=2026-01-05T1[12]/);
  await page.mouse.dblclick(box.x + box.width / 2, box.y + box.height / 2);
  await page.waitForURL(/from=2026-01-05T00%3A00%3A00Z/);
  await page.goBack();
  await page.waitForURL(/from=2026-01-05T00%3A00%3A00Z/);
  await page.getByRole("button", { name: "Later" }).click();
  await page.waitForURL(/from=2026-01-05T12%3A00/);
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

test("an answer without rows says why", async () => {
  const page = await open(link({ q: "SELECT usage_user FROM cpuu WHERE $timeFilter" }));
  await page.getByText(/did you mean "?cpu"?/).waitFor();
  await page.goto(page.url().replace(/#.*/, "") + link({ q: 'SELECT usage_user FROM cpu WHERE host = "ash"' }));
  await page.getByText(/single quotes/).waitFor();
  await page.done();
});

test("text that is no number is a table", async () => {
  const page = await open(link({ q: "SHOW MEASUREMENTS" }));
  await page.getByRole("cell", { name: "disk" }).waitFor();
  await page.done();
});

test("a phone shows it without a scroll to the side", async () => {
  const page = await open(link({ q: cpu }), { viewport: { width: 360, height: 640 }, colorScheme: "dark" });
  await page.getByRole("img", { name: "Plot of 3 series" }).waitFor();
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 360));
  await picture(page, "phone");
  await page.done();
});

test("the builder opens on a phone without covering the plot", async () => {
  const page = await open(link({ q: "SELECT mean(usage_user) FROM cpu WHERE $timeFilter GROUP BY time($interval), host fill(none)" }), { viewport: { width: 390, height: 800 } });
  const plot = page.getByRole("img", { name: "Plot of 3 series" });
  await plot.waitFor();
  const closed = (await plot.boundingBox()).y;
  assert.equal(await page.getByPlaceholder("choose or type").isVisible(), false);
  await page.getByText("Builder", { exact: true }).click();
  await page.getByPlaceholder("choose or type").waitFor();
  await picture(page, "phone-builder");
  const box = await plot.boundingBox();
  assert.ok(box.y - closed < 130, `it takes ${box.y - closed} px`);
  assert.ok(800 - box.y > 150, `${800 - box.y} px of the plot are in sight`);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 390));
  await page.done();
});

test("a reload in another view keeps the query", async () => {
  const page = await open(link({ q: cpu }));
  await page.getByRole("img", { name: "Plot of 3 series" }).waitFor();
  await page.getByRole("link", { name: "Server" }).click();
  await page.getByText("ready for queries and writes").waitFor();
  await page.reload();
  await page.getByText("ready for queries and writes").waitFor();
  await page.getByRole("link", { name: "Explore" }).click();
  await page.getByRole("img", { name: "Plot of 3 series" }).waitFor();
  await page.done();
});

test("PromQL, with labels completed", async () => {
  const page = await open(link({ lang: "promql", q: "" }));
  await page.getByRole("textbox", { name: "Query" }).click();
  await page.keyboard.type("cpu_usage_us");
  await page.getByRole("option", { name: "cpu_usage_user" }).waitFor();
  await page.waitForTimeout(100);
  await page.keyboard.press("Enter");
  await page.keyboard.type('{host="');
  await page.getByRole("option", { name: "cedar" }).waitFor();
  await page.keyboard.type('cedar"}');
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("img", { name: "Plot of 1 series" }).waitFor();
  await page.getByRole("textbox", { name: "Query" }).press("End");
  await page.keyboard.type(" +");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("alert").getByText("parse error").waitFor();
  await page.done();
});

test("the history brings queries back, and saved ones stay", async () => {
  const page = await open(link({ q: cpu }));
  await page.getByText(/rows in/).waitFor();
  await page.getByText("Saved queries and history").click();
  await page.getByLabel("Save this query as").fill("user time");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.goto(page.url().replace(/#.*/, "") + link({ q: "SHOW MEASUREMENTS" }));
  await page.getByRole("cell", { name: "disk" }).waitFor();
  await page.reload();
  await page.getByText("Saved queries and history").click();
  await page.getByRole("button", { name: /^user time:/ }).click();
  await page.getByRole("textbox", { name: "Query" }).getByText("usage_user").waitFor();
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByRole("img", { name: "Plot of 3 series" }).waitFor();
  await page.done();
});

test("a table is sorted and paged, and a file has the answer", async () => {
  const page = await open(link({ q: "SELECT usage_user FROM cpu WHERE host = 'ash'", view: "table" }));
  await page.getByText("rows 1 to 100 of 1,380").waitFor();
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByText("rows 101 to 200 of 1,380").waitFor();
  await page.getByRole("button", { name: "usage_user" }).click();
  await page.getByRole("columnheader", { name: "usage_user ▴" }).waitFor();
  const lines = (await saved(page, "Download CSV")).trimEnd().split("\r\n");
  assert.equal(lines[0], "name,time,usage_user");
  assert.equal(lines.length, 1381);
  assert.match(lines[1], /^cpu,2026-01-05T00:00:00Z,[\d.]+$/);
  await page.done();
});

test("files bring back what was asked", async () => {
  await query("CREATE DATABASE source");
  await query("CREATE DATABASE copy");
  await write('m,h=a,rack=1 i=9007199254740993i,f=1,s="a,b",ok=true 1767571200123456789\nm,h=b,rack=1 f=2 1767571200123456789\nm,h=c i=3i 1767571200123456790', "source");
  const page = await open(`#/explore?${new URLSearchParams({ db: "source", q: "SELECT * FROM m" })}`);
  await page.getByText("3 rows in").waitFor();
  await write(await saved(page, "Download line protocol"), "copy");
  for (const q of ["SELECT * FROM m GROUP BY *", "SHOW FIELD KEYS", "SHOW SERIES"]) assert.deepEqual(await query(q, "copy"), await query(q, "source"));
  await page.goto(page.url().replace(/#.*/, "") + `#/explore?${new URLSearchParams({ db: "source", q: "SELECT i FROM m GROUP BY h; SELECT f FROM m" })}`);
  await page.getByText("4 rows in").waitFor();
  assert.equal(
    await saved(page, "Download CSV"),
    ["name,h,time,i,f", "m,a,2026-01-05T00:00:00.123456789Z,9007199254740993,", "m,c,2026-01-05T00:00:00.12345679Z,3,", "m,,2026-01-05T00:00:00.123456789Z,,1", "m,,2026-01-05T00:00:00.123456789Z,,2", ""].join("\r\n"),
  );
  await page.goto(page.url().replace(/#.*/, "") + `#/explore?${new URLSearchParams({ db: "source", q: "SELECT f FROM m LIMIT 1" })}`);
  await page.getByText("1 rows in").waitFor();
  await page.getByRole("button", { name: "Download line protocol" }).click();
  await page.getByRole("alert").getByText("write GROUP BY *").waitFor();
  await page.goto(page.url().replace(/#.*/, "") + `#/explore?${new URLSearchParams({ db: "source", lang: "promql", q: "m_f", from: "2026-01-05T00:00:00Z", to: "2026-01-05T00:04:00Z" })}`);
  await page.getByRole("img", { name: "Plot of 2 series" }).waitFor();
  assert.match(await saved(page, "Download line protocol"), /^m_f,h=a,rack=1 value=1 17675712\d\d000000000$/m);
  await page.done();
});

test("how the server ran a query is a tree", async () => {
  const page = await open(link({ q: cpu }));
  await page.getByText("How the server runs this").click();
  await page.locator("summary", { hasText: /^operators$/ }).waitFor();
  await page.getByText(/^planning_time/).waitFor();
  await page.done();
});

test("a thousand series of a million points", async () => {
  const start = Date.parse(day.from);
  for (let block = 0; block < 10; block++) {
    const lines = [];
    for (let s = 0; s < 1000; s++) for (let i = 0; i < 100; i++) lines.push(`wide,s=${s} v=${(s + i) % 97} ${start + (block * 100 + i) * 60_000}000000`);
    await write(lines.join("\n"), "demo");
  }
  const page = await open(link({ q: "SELECT mean(v) FROM wide WHERE $timeFilter GROUP BY time(20m), s fill(none)" }));
  await page.getByRole("img", { name: "Plot of 30 series" }).waitFor({ timeout: 60_000 });
  await page.getByText("30 of 1,000 series, those with the greatest max").waitFor();
  const plot = page.locator(".u-over");
  const box = await plot.boundingBox();
  // The cursor moves over the plot; no movement may hold up the page.
  await page.evaluate(() => {
    globalThis.longest = 0;
    let last = performance.now();
    const tick = (now) => {
      globalThis.longest = Math.max(globalThis.longest, now - last);
      last = now;
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  });
  for (let i = 1; i <= 20; i++) await page.mouse.move(box.x + (box.width * i) / 21, box.y + box.height / 2);
  assert.match(await page.locator(".tip").textContent(), /and 22 more$/);
  console.log(`the longest frame took ${Math.round(await page.evaluate(() => globalThis.longest))} ms`);
  // Of a million rows those are read that can be shown.
  await page.goto(page.url().replace(/#.*/, "") + link({ q: "SELECT * FROM wide", view: "table" }));
  await page.getByText("These are the first 100,000 rows of more.").waitFor();
  await page.getByRole("button", { name: "Read more" }).click();
  await page.getByText("These are the first 400,000 rows of more.").waitFor({ timeout: 60_000 });
  await page.done();
});

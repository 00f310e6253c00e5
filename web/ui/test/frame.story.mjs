// The frame of the page: first paint, the answer to programs, keyboard, theme.

import assert from "node:assert/strict";
import { test } from "node:test";
import { open, query, server, write } from "./browser.mjs";

test("a browser gets the page", async () => {
  const page = await open();
  await page.getByRole("link", { name: "Explore" }).waitFor();
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  console.log(`first paint after ${Math.round(paint)} ms`);
  assert.equal(await page.title(), "Explore · tsdbd");
  await page.done();
});

test("a program gets a few lines of text", async () => {
  const answer = await fetch(server);
  assert.match(await answer.text(), /time-series database/);
  assert.match(answer.headers.get("content-type"), /^text\/plain/);
});

test("the keyboard reaches the content first", async () => {
  const page = await open();
  await page.getByRole("link", { name: "Explore" }).waitFor();
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent.trim()), "Skip to the content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await page.done();
});

test("dark and light", async () => {
  const page = await open();
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.getByRole("button", { name: "Auto" }).click();
  assert.equal(await back(), "rgb(243, 245, 249)");
  await page.getByRole("button", { name: "Light" }).click();
  assert.equal(await back(), "rgb(11, 16, 22)");
  await page.reload();
  await page.getByRole("button", { name: "Dark" }).waitFor();
  assert.equal(await back(), "rgb(11, 16, 22)");
  await page.done();
});

test("the top bar is in the link of every view", async () => {
  await query("CREATE DATABASE second");
  const page = await open("#/explore?db=demo&q=SHOW+MEASUREMENTS");
  await page.getByLabel("Range", { exact: true }).selectOption("6h");
  await page.getByLabel("Zone").selectOption("Asia/Tokyo");
  await page.getByLabel("Refresh").selectOption("60 s");
  for (const view of ["Schema", "Cardinality", "Server", "Admin", "Write", "Explore"]) {
    await page.getByRole("link", { name: view, exact: true }).click();
    await page.waitForURL(/db=demo&from=now-6h&refresh=60&zone=Asia%2FTokyo/);
  }
  await page.getByRole("cell", { name: "disk" }).waitFor(); // its query is there again
  // Views show what they use.
  await page.getByRole("link", { name: "Server", exact: true }).click();
  await page.getByLabel("Zone").waitFor();
  assert.equal(await page.getByLabel("Database").count() + (await page.getByLabel("Range", { exact: true }).count()), 0);
  await page.getByRole("link", { name: "Schema", exact: true }).click();
  await page.getByLabel("Database").selectOption("second");
  await page.getByText("No measurement yet").waitFor();
  await page.reload();
  await page.getByText("No measurement yet").waitFor();
  await page.getByRole("link", { name: "Explore", exact: true }).click();
  await page.waitForURL(/db=second&from=now-6h&refresh=60&zone=Asia%2FTokyo/);
  assert.equal(await page.getByLabel("Range", { exact: true }).inputValue(), "6h");
  // A zone of a link is that of the link alone.
  await page.goto(`${page.url().replace(/#.*/, "")}#/explore?zone=Europe%2FParis`);
  await page.getByRole("option", { name: "Europe/Paris", selected: true }).waitFor({ state: "attached" });
  await page.goto(`${page.url().replace(/#.*/, "")}#/explore?zone=No%2FWhere`);
  await page.getByRole("option", { name: "Asia/Tokyo", selected: true }).waitFor({ state: "attached" });
  await query("DROP DATABASE second");
  await page.done();
});

test("three zones on the days when their clocks change", async () => {
  await query("CREATE DATABASE clocks");
  // The night of 29 March in Berlin, 8 March in New York, and 5 April in Lord Howe (half an hour back).
  for (const [zone, lines, rows, text, first] of [
    ["Europe/Berlin", "2026-03-29T00:30:00Z 2026-03-29T01:30:00Z", ["2026-03-29T01:30:00.000+01:00", "2026-03-29T03:30:00.000+02:00"], "2026-03-29 03:00", "2026-03-29T03:30:00.000+02:00"],
    ["America/New_York", "2026-03-08T06:30:00Z 2026-03-08T07:30:00Z", ["2026-03-08T01:30:00.000-05:00", "2026-03-08T03:30:00.000-04:00"], "2026-03-08 03:00", "2026-03-08T03:30:00.000-04:00"],
    ["Australia/Lord_Howe", "2026-04-04T14:40:00Z 2026-04-04T15:40:00Z", ["2026-04-05T01:40:00.000+11:00", "2026-04-05T02:10:00.000+10:30"], "2026-04-05 02:05", "2026-04-05T02:10:00.000+10:30"],
  ]) {
    await write(lines.split(" ").map((at) => `t,zone=${zone.replace("/", "-")} v=1 ${Date.parse(at)}000000`).join("\n"), "clocks");
    const q = `SELECT v FROM t WHERE zone = '${zone.replace("/", "-")}' AND $timeFilter`;
    const page = await open(`#/explore?${new URLSearchParams({ db: "clocks", q, view: "table", zone, from: "2026-03-01", to: "2026-05-01" })}`);
    for (const row of rows) await page.getByRole("cell", { name: row }).waitFor();
    await page.getByLabel("From", { exact: true }).fill(text);
    await page.getByLabel("From", { exact: true }).blur();
    await page.getByText("1 rows in").waitFor();
    await page.getByRole("cell", { name: first }).waitFor();
    await page.done();
  }
  await query("DROP DATABASE clocks");
});

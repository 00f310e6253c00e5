// How quick a large board is, and that the page gives back the memory that it used.

import assert from "node:assert/strict";
import { test } from "node:test";
import { link, make, panel } from "./boards.mjs";
import { day, open, query, server, write } from "./browser.mjs";

const hosts = 50;
const most = 12; // panels

test("the data: fifty hosts with a value for each panel every two minutes", async () => {
  await query("CREATE DATABASE fleet");
  const begin = Date.parse(day.from);
  for (let h = 0; h < hosts; h++) {
    const fields = (i) => Array.from({ length: most }, (_, p) => `f${p}=${(50 + 40 * Math.sin(i / 90 + h + p) + ((i * (h + p)) % 7)).toFixed(1)}`);
    await write(Array.from({ length: 24 * 30 }, (_, i) => `load,host=host${h} ${fields(i)} ${begin + i * 120_000}000000`).join("\n"), "fleet");
  }
});

/** Makes a board of so many panels. */
function board(panels) {
  return make("fleet", `Board of ${panels}`, {
    version: 1,
    range: { from: day.from, to: day.to },
    panels: Array.from({ length: panels }, (_, p) => panel(p + 1, `P${p}`, `SELECT mean(f${p}) FROM load WHERE $timeFilter GROUP BY time($interval), host`, { grid: { x: 3 * (p % 4), y: 4 * Math.floor(p / 4), w: 3, h: 4 } })),
  });
}

/** Opens a board. It returns the ms of processor time that the longest task of the page took, and all of them, until all plots are painted. */
async function opened(page, id, panels) {
  await page.goto("about:blank");
  const session = await page.context().newCDPSession(page);
  const events = [];
  session.on("Tracing.dataCollected", ({ value }) => events.push(...value));
  await session.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: ["toplevel"] } });
  const begin = Date.now();
  await page.goto(server + link({ db: "fleet", board: id, ...day }), { waitUntil: "commit" });
  await page.waitForFunction((panels) => document.querySelectorAll(".board .plot canvas").length === panels, panels);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const painted = Date.now() - begin;
  const ended = new Promise((done) => session.once("Tracing.tracingComplete", done));
  await session.send("Tracing.end");
  await ended;
  await session.detach();
  const mains = new Set(events.filter((e) => e.name === "thread_name" && e.args.name === "CrRendererMain").map((e) => `${e.pid} ${e.tid}`));
  const tasks = events.filter((e) => mains.has(`${e.pid} ${e.tid}`) && e.name === "ThreadControllerImpl::RunTask" && e.tdur !== undefined).map((e) => e.tdur / 1000);
  assert.ok(tasks.length > 20, `${tasks.length} tasks of ${events.length} events`);
  return { painted, longest: Math.max(...tasks), sum: tasks.reduce((a, b) => a + b) };
}

test("twelve panels of fifty series over a day are there at once, and the page reacts meanwhile", async (t) => {
  const page = await open("", { viewport: { width: 1600, height: 1000 } });
  const id = await board(most);
  const least = { painted: Infinity, longest: Infinity, sum: Infinity };
  for (let i = 0; i < 3; i++) {
    const seen = await opened(page, id, most);
    for (const what of Object.keys(least)) least[what] = Math.min(least[what], seen[what]);
  }
  t.diagnostic(`painted after ${least.painted} ms; of the processor: longest task ${least.longest.toFixed(0)} ms, all tasks ${least.sum.toFixed(0)} ms`);
  // Processor time does not count what others do on this machine. The aim is 100 ms for a task and 1,000 ms
  // for the picture; a machine that is busy is slower also by the same measure.
  assert.ok(least.longest < 250, `a task of ${least.longest} ms`);
  assert.ok(least.sum < 3000, `${least.sum} ms until the picture`);
  await page.done();
});

/** Returns the bytes of the heap after all that is not needed is gone. */
async function heap(session) {
  for (let i = 0; i < 3; i++) await session.send("HeapProfiler.collectGarbage");
  return (await session.send("Runtime.getHeapUsage")).usedSize;
}

/** Holds that the heap does not grow while something is done often. */
async function steady(t, page, act) {
  const session = await page.context().newCDPSession(page);
  for (let i = 0; i < 10; i++) await act(i); // what is loaded once, and what is kept, up to its bound
  const before = await heap(session);
  for (let i = 10; i < 60; i++) await act(i);
  const grown = (await heap(session)) - before;
  t.diagnostic(`${(before / 2 ** 20).toFixed(1)} MiB before, ${(grown / 1024).toFixed(0)} KiB more after 50 times`);
  assert.ok(grown < 4 * 2 ** 20, `the heap has grown by ${grown} bytes`);
}

test("fifty queries of Explore leave nothing behind", async (t) => {
  const page = await open(`#/explore?${new URLSearchParams({ db: "fleet", ...day })}`);
  const editor = page.getByRole("textbox", { name: "Query" });
  await editor.waitFor();
  await steady(t, page, async (i) => {
    await editor.press("Control+a");
    await editor.press("Delete");
    await page.keyboard.insertText(`SELECT mean(f${i % most}) AS m${i} FROM load WHERE $timeFilter GROUP BY time(5m), host`);
    await editor.press("Escape");
    await editor.press("Control+Enter");
    await page.getByText(`load.m${i}`).first().waitFor();
  });
  await page.done();
});

test("a board that asks fifty times leaves nothing behind", async (t) => {
  const page = await open(link({ db: "fleet", board: await board(4), ...day }));
  await page.getByRole("img", { name: "Plot of 50 series" }).nth(3).waitFor();
  await steady(t, page, async (i) => {
    const answer = page.waitForResponse((r) => /\/query/.test(r.url()) && /f3/.test(decodeURIComponent(r.request().postData() ?? "")));
    const from = new Date(Date.parse(day.from) + i * 60_000).toISOString();
    await page.evaluate((from) => (location.hash = location.hash.replace(/from=[^&]*/, `from=${encodeURIComponent(from)}`)), from);
    await answer;
    await page.locator(".board [aria-busy=true]").first().waitFor({ state: "detached" });
  });
  await page.done();
});

test("views that are opened fifty times leave nothing behind", async (t) => {
  const page = await open(`#/explore?${new URLSearchParams({ db: "fleet", q: "SELECT mean(f1) FROM load WHERE $timeFilter GROUP BY time(1h), host", ...day })}`);
  await steady(t, page, async (i) => {
    const [view, there] = [["Server", "ready for queries and writes"], ["Schema", "load"], ["Boards", "Board of 4"], ["Explore", "rows in"]][i % 4];
    await page.getByRole("link", { name: view, exact: true }).click();
    await page.getByText(there).first().waitFor();
  });
  await page.done();
});

// Boards: panels on a grid, variables, and what is kept on the server.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { link, make, panel } from "./boards.mjs";
import { day, open, picture, server } from "./browser.mjs";

const range = { from: day.from, to: day.to };
const cpu = "SELECT mean(usage_user) FROM cpu WHERE $timeFilter AND host =~ $host GROUP BY time($interval), host";
const variables = [{ name: "host", lang: "influxql", query: "SHOW TAG VALUES FROM cpu WITH KEY = host", multi: true, all: true, value: [] }];
const plot = (page, title, n) => page.getByRole("article", { name: title }).getByRole("img", { name: `Plot of ${n} series` });
const menu = async (page, title, item) => {
  await page.getByLabel(`Menu of ${title}`, { exact: true }).click();
  await page.getByRole("article", { name: title, exact: true }).getByText(item, { exact: true }).click();
};
const editor = (page, i) => page.getByRole("textbox", { name: `Query ${i}` });
async function type(page, i, text) {
  await editor(page, i).press("Control+a");
  await editor(page, i).press("Delete");
  await page.keyboard.insertText(text);
  await editor(page, i).press("Escape");
}

test("a board is made, saved, and read again", async () => {
  const page = await open(link({ db: "demo", ...range }));
  await page.getByRole("button", { name: "New board" }).click();
  await page.getByRole("button", { name: "Variables" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Add a variable" }).click();
  await dialog.getByLabel("Name").fill("host");
  await dialog.getByLabel("Values").fill("SHOW TAG VALUES FROM cpu WITH KEY = host");
  await dialog.getByRole("button", { name: "Done" }).click();
  await page.getByRole("button", { name: "Add a panel" }).click();
  await page.getByLabel("Title").fill("CPU");
  await type(page, 1, cpu);
  await page.getByRole("button", { name: "Add a query" }).click();
  await page.getByRole("group", { name: "Language of query 2" }).getByRole("button", { name: "PromQL" }).click();
  await type(page, 2, 'max(cpu_usage_system{host=~"$host"})');
  await editor(page, 2).press("Control+Enter");
  await plot(page, "CPU", 4).waitFor();
  await page.getByRole("button", { name: "Done" }).click();
  await plot(page, "CPU", 4).waitFor();
  await page.getByText("not saved").waitFor();
  await page.getByText("host: all").click();
  await page.getByRole("checkbox", { name: "birch" }).check();
  await plot(page, "CPU", 2).waitFor();
  await page.getByRole("checkbox", { name: "cedar" }).check();
  await plot(page, "CPU", 3).waitFor();
  await page.getByText("host: birch, cedar").click();
  await page.getByRole("button", { name: "Save as…" }).click();
  await dialog.getByLabel("Name").fill("My <b>board</b>");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByText("edition 1").waitFor();
  await page.reload();
  await plot(page, "CPU", 3).waitFor();
  await page.getByText("host: birch, cedar").waitFor();
  await page.getByRole("heading", { name: "My <b>board</b>" }).waitFor(); // a name is text
  await picture(page, "board");
  await page.getByRole("link", { name: "All boards" }).click();
  await page.getByRole("cell", { name: "demo" }).waitFor();
  await page.getByRole("button", { name: "Delete My <b>board</b>" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByText("There are none yet.").waitFor();
  await page.done();
});

test("panels are moved, sized, duplicated and deleted", async () => {
  const page = await open(link({ db: "demo", ...range }));
  const id = await make("demo", "Grid", { version: 1, range, refresh: 0, variables: [], panels: [panel(1, "A", ""), panel(2, "B", "", { grid: { x: 6, y: 0, w: 6, h: 4 } }), panel(3, "C", "", { grid: { x: 0, y: 4, w: 12, h: 3 } })] });
  await page.goto(page.url().replace(/#.*/, link({ db: "demo", board: id })));
  const titles = () => page.locator(".panel .title").allTextContents();
  const box = (title) => page.getByRole("article", { name: title }).boundingBox();
  await page.getByRole("article", { name: "C" }).waitFor();
  assert.deepEqual(await titles(), ["A", "B", "C"]);
  await page.getByRole("button", { name: "C", exact: true }).press("ArrowUp"); // by keys
  assert.deepEqual(await titles(), ["C", "A", "B"]);
  await page.keyboard.press("Shift+ArrowLeft");
  await page.keyboard.press("Shift+ArrowDown");
  await page.keyboard.press("ArrowDown");
  assert.deepEqual(await titles(), ["A", "B", "C"]);
  const before = [await box("A"), await box("B"), await box("C")];
  assert.ok(before[2].width < before[0].width + before[1].width - 50 && before[2].height > 250);
  const drag = async (from, to) => {
    await page.mouse.move(...from);
    await page.mouse.down();
    await page.mouse.move(...to, { steps: 8 });
    await page.mouse.up();
  };
  await drag([before[0].x + 40, before[0].y + 14], [before[1].x + 40, before[1].y + 14]); // by the pointer
  assert.deepEqual(await titles(), ["A", "B", "C"]);
  assert.ok((await box("A")).x > before[0].x + 100 && (await box("B")).y > before[1].y + 100);
  const a = await box("A");
  await drag([a.x + a.width - 5, a.y + a.height - 5], [a.x + a.width - 5, a.y + a.height + 140]);
  assert.ok((await box("A")).height > a.height + 100);
  await menu(page, "A", "Duplicate");
  await page.getByRole("article", { name: "A (copy)" }).waitFor();
  await menu(page, "B", "Delete");
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByRole("article", { name: "B", exact: true }).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Rename" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("Grid 2");
  await page.getByRole("dialog").getByRole("button", { name: "Rename" }).click();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("edition 2").waitFor();
  const left = await titles();
  await page.reload();
  await page.getByRole("heading", { name: "Grid 2" }).waitFor();
  assert.deepEqual(await titles(), left);
  await page.setViewportSize({ width: 390, height: 800 }); // a phone has one column, and no scroll to the side
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 390));
  const xs = await page.locator(".cell").evaluateAll((all) => all.map((e) => e.getBoundingClientRect().x));
  assert.equal(new Set(xs).size, 1);
  await page.done();
});

test("a second editor is asked", async () => {
  const page = await open(link({ db: "demo", ...range }));
  const id = await make("demo", "Shared", { version: 1, panels: [panel(1, "A", "")] });
  await page.goto(page.url().replace(/#.*/, link({ db: "demo", board: id })));
  await page.getByText("edition 1").waitFor();
  const other = await open(link({ db: "demo", board: id }));
  await menu(other, "A", "Duplicate");
  await other.getByRole("button", { name: "Save", exact: true }).click();
  await other.getByText("edition 2").waitFor();
  await menu(page, "A", "Edit");
  await page.getByLabel("Title").fill("Mine");
  await page.getByRole("button", { name: "Done" }).click();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Somebody has saved edition 2 meanwhile" });
  assert.match(await dialog.getByRole("link", { name: "Look at edition 2" }).getAttribute("href"), new RegExp(`board=${id}`));
  await dialog.getByRole("button", { name: "Keep mine as a copy" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { name: "Shared (copy)" }).waitFor();
  await page.goto(page.url().replace(/#.*/, link({ db: "demo", board: id })));
  await page.getByRole("article", { name: "A (copy)" }).waitFor(); // the other edition is whole
  await menu(other, "A (copy)", "Duplicate");
  await menu(page, "A", "Duplicate");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("edition 3").waitFor();
  await other.getByRole("button", { name: "Save", exact: true }).click();
  await other.getByRole("button", { name: "Overwrite it with mine" }).click();
  await other.getByText("edition 4").waitFor();
  await other.done();
  await page.done();
});

test("what is not saved is not lost without a word", async () => {
  const page = await open(link({ db: "demo", ...range }));
  const id = await make("demo", "Work", { version: 1, panels: [panel(1, "A", "")] });
  await page.goto(page.url().replace(/#.*/, link({ db: "demo", board: id })));
  await menu(page, "A", "Duplicate");
  await page.getByRole("link", { name: "Server" }).click(); // another view keeps it
  await page.getByRole("link", { name: "Boards" }).click();
  await page.getByRole("article", { name: "A (copy)" }).waitFor();
  await page.getByRole("link", { name: "All boards" }).click();
  await page.getByRole("link", { name: "Go on" }).click();
  await page.getByRole("article", { name: "A (copy)" }).waitFor();
  await page.goto(page.url().replace(/#.*/, link({ db: "demo", builtin: "telegraf" }))); // another board asks
  await page.getByRole("dialog", { name: "Discard the changes of Work?" }).getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("article", { name: "A (copy)" }).waitFor();
  const asked = page.waitForEvent("dialog"); // so does the browser
  void page.reload().catch(() => undefined);
  await (await asked).accept();
  await page.getByText("edition 1").waitFor();
  assert.equal(await page.getByRole("article").count(), 1);
  await page.done();
});

test("what is changed while a save runs stays unsaved, and another board takes no edition of it", async () => {
  const id = await make("demo", "Slow", { version: 1, range, panels: [panel(1, "A", "")] });
  const page = await open(link({ db: "demo", board: id }));
  await page.getByRole("article", { name: "A" }).waitFor();
  let go;
  const asked = () => page.route(/\/api\/boards\//, async (route) => {
    if (route.request().method() === "PUT") await new Promise((done) => (go = done));
    await route.continue();
  });
  await asked();
  const save = page.getByRole("button", { name: "Save", exact: true });
  await menu(page, "A", "Duplicate");
  await save.click();
  await page.getByRole("button", { name: "Saving…" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Saving…" }).isDisabled(), true); // a second save would meet the first
  await menu(page, "A (copy)", "Duplicate");
  go();
  await save.waitFor();
  await page.getByText("not saved").waitFor();
  assert.equal(await page.getByRole("article").count(), 3);
  await save.click();
  await page.getByRole("button", { name: "Saving…" }).waitFor();
  go();
  await page.getByText("edition 3").waitFor();
  assert.equal((await (await fetch(`${server}api/boards/${id}?db=demo`)).json()).board.panels.length, 3);

  // The answer to a save comes when another board is shown.
  const other = await make("demo", "Other", { version: 1, range, panels: [panel(1, "B", "")] });
  await save.click();
  await page.getByRole("button", { name: "Saving…" }).waitFor();
  await page.evaluate((to) => (location.hash = to), link({ db: "demo", board: other }));
  await page.getByRole("article", { name: "B" }).waitFor();
  const answer = page.waitForResponse((r) => r.request().method() === "PUT");
  go();
  await answer;
  await page.waitForTimeout(200);
  await page.getByText("edition 1").waitFor();
  assert.match(page.url(), new RegExp(`board=${other}(&|$)`));
  await page.done();
});

test("a dashboard of Grafana that tsdbd board import has read is a board of the page", async () => {
  const dir = mkdtempSync(join(tmpdir(), "tsdbd-ui-"));
  const file = join(dir, "dashboard.json");
  const target = { refId: "A", measurement: "cpu", select: [[{ type: "field", params: ["usage_user"] }, { type: "mean", params: [] }]], groupBy: [{ type: "time", params: ["$__interval"] }, { type: "tag", params: ["host"] }, { type: "fill", params: ["none"] }], tags: [{ key: "host", operator: "=~", value: "/^$host$/" }] };
  writeFileSync(file, JSON.stringify({
    title: "Of Grafana", schemaVersion: 39, time: { from: day.from, to: day.to },
    templating: { list: [{ name: "host", type: "query", query: "SHOW TAG VALUES FROM cpu WITH KEY = host", multi: true, includeAll: true, current: { value: ["$__all"] } }] },
    panels: [
      { type: "timeseries", title: "By form", gridPos: { x: 0, y: 0, w: 12, h: 8 }, targets: [target] },
      { type: "stat", title: "By text", fieldConfig: { defaults: { unit: "none" } }, gridPos: { x: 12, y: 0, w: 12, h: 8 }, targets: [{ refId: "A", rawQuery: true, query: 'SELECT max("used") FROM "disk" WHERE ("host" =~ /^$host$/) AND $timeFilter' }] },
      { type: "timeseries", title: "PromQL", gridPos: { x: 0, y: 8, w: 12, h: 8 }, targets: [{ refId: "A", expr: 'cpu_usage_system{host=~"$host"}' }] },
    ],
  }));
  const run = spawnSync(process.env.TSDBD_BINARY, ["board", "import", "-host", server, "-db", "demo", file], { encoding: "utf8" });
  rmSync(dir, { recursive: true });
  assert.equal(run.status, 0, run.stderr);
  const id = /^created board (\d+) Of Grafana, edition 1\n$/.exec(run.stdout)[1];
  const page = await open(link({ db: "demo", board: id }));
  await plot(page, "By form", 3).waitFor();
  await plot(page, "PromQL", 3).waitFor();
  await page.getByRole("article", { name: "By text" }).getByText("5317").waitFor();
  await page.getByText("host: all").click();
  await page.getByRole("checkbox", { name: "birch" }).check();
  await plot(page, "By form", 1).waitFor();
  await plot(page, "PromQL", 1).waitFor();
  await page.done();
});

test("JSON out and in, and bad files are refused", async () => {
  const page = await open(link({ db: "demo", ...range }));
  const board = { version: 1, range, refresh: 0, variables, panels: [panel(1, "<img src=x onerror=alert(1)>", cpu), panel(2, "Notes", "", { kind: "text", text: "<script>alert(1)</script>\n\nhttp://evil.example", queries: [] })] };
  const id = await make("demo", "Out", board);
  await page.goto(page.url().replace(/#.*/, link({ db: "demo", board: id })));
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download JSON" }).click();
  const file = JSON.parse(readFileSync(await (await saved).path(), "utf8"));
  assert.equal(file.name, "Out");
  assert.equal(file.board.panels[0].queries[0].text, cpu);
  await page.goto(page.url().replace(/#.*/, link({ db: "demo" })));
  const give = (text) => page.locator("input[type=file]").setInputFiles({ name: "a.json", mimeType: "application/json", buffer: Buffer.from(text) });
  for (const [text, why] of [["{", "is no board"], ['{"version":2}', "version 2"], ['{"version":1,"panels":[{"id":1,"kind":"html"}]}', "panels[0].kind"], [`"${"x".repeat(1_100_000)}"`, "more than 1 MiB"]]) {
    await give(text);
    await page.getByRole("alert").getByText(why).waitFor();
  }
  await give(JSON.stringify(file));
  await page.getByText("new", { exact: true }).waitFor();
  await plot(page, "<img src=x onerror=alert(1)>", 3).waitFor(); // text is shown as text
  await page.getByText("<script>alert(1)</script>").waitFor();
  assert.equal(await page.locator("article img[src], article script, article a[href^=http]").count(), 0);
  await page.done();
});

test("a link shows one panel alone, and the menu makes a picture", async () => {
  const page = await open(link({ db: "demo", ...range }));
  const id = await make("demo", "Alone", { version: 1, range, variables, panels: [panel(1, "A", cpu), panel(2, "Now", "SELECT last(usage_user) FROM cpu GROUP BY host", { kind: "number", grid: { x: 6, y: 0, w: 6, h: 4 } })] });
  await page.goto(page.url().replace(/#.*/, link({ db: "demo", board: id, vars: '{"host":["ash"]}', ...range })));
  await plot(page, "A", 1).waitFor();
  await page.getByRole("article", { name: "A" }).click({ button: "right", position: { x: 200, y: 100 } });
  const saved = page.waitForEvent("download");
  await page.getByRole("article", { name: "A" }).getByText("Save as picture").click();
  const png = readFileSync(await (await saved).path());
  assert.deepEqual([...png.subarray(1, 4)], [..."PNG"].map((c) => c.charCodeAt(0)));
  assert.ok(png.length > 5000);
  await menu(page, "A", "Show alone");
  await page.waitForURL(/panel=1/);
  await page.reload();
  await plot(page, "A", 1).waitFor(); // with the range and the values
  assert.equal(await page.getByRole("article").count(), 1);
  await menu(page, "A", "Explore");
  await page.waitForURL(/#\/explore/);
  await page.getByRole("img", { name: "Plot of 1 series" }).waitFor();
  await page.getByRole("button", { name: "Add to board" }).click();
  await page.getByText("Choose the board that gets the panel").waitFor();
  await page.getByRole("link", { name: "Alone" }).click();
  await page.getByText("not saved").waitFor();
  await page.getByRole("article").nth(2).waitFor();
  await page.done();
});

test("four panels ask at a time, those out of sight wait, and all only read", async () => {
  const page = await open(link({ db: "demo", ...range }));
  const panels = Array.from({ length: 24 }, (_, i) => panel(i + 1, `P${i + 1}`, `SELECT mean(usage_user) AS u${i} FROM cpu WHERE $timeFilter GROUP BY time($interval), host`, { grid: { x: 6 * (i % 2), y: 4 * Math.floor(i / 2), w: 6, h: 4 } }));
  panels[0].queries[0].text = "DROP MEASUREMENT cpu";
  const id = await make("demo", "Many", { version: 1, range, panels });
  let [now, most, asked] = [0, 0, 0];
  await page.route(/\/query\?/, async (route) => {
    if (!/usage_user|DROP/.test(decodeURIComponent(route.request().postData()))) return route.continue();
    most = Math.max(most, ++now);
    asked++;
    assert.equal(new URL(route.request().url()).searchParams.get("read_only"), "true");
    await new Promise((done) => setTimeout(done, 50));
    now--;
    await route.continue();
  });
  await page.goto(page.url().replace(/#.*/, link({ db: "demo", board: id, ...range })));
  await plot(page, "P4", 3).waitFor();
  await page.getByRole("article", { name: "P1", exact: true }).getByRole("alert").getByText("DROP MEASUREMENT").waitFor();
  await page.waitForTimeout(300);
  assert.ok(asked < 16 && most <= 4, `${asked} asked, ${most} at a time`);
  const first = asked;
  await page.getByRole("article", { name: "P24" }).scrollIntoViewIfNeeded();
  await plot(page, "P24", 3).waitFor();
  assert.ok(asked > first && most <= 4, `${asked} asked, ${most} at a time`);
  await page.done();
});

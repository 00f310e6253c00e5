// Boards, for everybody.

import { test } from "node:test";
import { everyOne, everywhere } from "./access.mjs";
import { link, make, panel } from "./boards.mjs";
import { day, open } from "./browser.mjs";

const cpu = "SELECT mean(usage_user) FROM cpu WHERE host =~ $host AND $timeFilter GROUP BY time($interval), host fill(none)";

const cell = (x, y) => ({ grid: { x, y, w: 6, h: 4 } });
const board = {
  version: 1, range: { from: day.from, to: day.to }, refresh: 0,
  variables: [{ name: "host", lang: "influxql", query: "SHOW TAG VALUES FROM cpu WITH KEY = host", multi: true, all: true, value: [] }],
  panels: [
    panel(1, "CPU", cpu, cell(0, 0)),
    panel(2, "Now", "SELECT last(usage_user) FROM cpu GROUP BY host", { kind: "number", ...cell(6, 0) }),
    panel(3, "Rows", "SELECT * FROM cpu LIMIT 20", { kind: "table", ...cell(0, 4) }),
    panel(4, "Notes", "", { kind: "text", text: "one\n\ntwo", queries: [], ...cell(6, 4) }),
    panel(5, "Wrong", "SELECT", cell(0, 8)),
  ],
};

everyOne({
  "a built-in board": [link({ db: "demo", builtin: "telegraf", from: day.from, to: day.to }), (page) => page.getByRole("article").first().waitFor()],
});

/** What a board shows: itself, the menu of a panel, and its dialogs. */
const states = {
  "as it is": () => undefined,
  "a menu": (page) => page.getByLabel("Menu of CPU").click(),
  "the values of a variable": (page) => page.getByText("host: all").click(),
  "a panel alone": async (page) => {
    await page.getByLabel("Menu of CPU").click();
    await page.getByRole("article", { name: "CPU" }).getByText("Show alone").click();
    await page.getByRole("button", { name: "Whole board" }).waitFor();
  },
  "the editor of a panel": async (page) => {
    await page.getByLabel("Menu of CPU").click();
    await page.getByRole("article", { name: "CPU" }).getByText("Edit").click();
    await page.getByLabel("Title").waitFor();
  },
  "its variables": async (page) => {
    await page.getByRole("button", { name: "Variables" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Add a variable" }).click();
  },
  "its name": (page) => page.getByRole("button", { name: "Save as…" }).click(),
};
for (const [name, begin] of Object.entries(states)) {
  test(`a board: ${name}`, async () => {
    const id = await make("demo", "Seen", board);
    const page = await open(link({ db: "demo", board: id, from: day.from, to: day.to }));
    await page.getByRole("article", { name: "CPU" }).getByRole("img", { name: "Plot of 3 series" }).waitFor();
    await begin(page);
    await everywhere(page);
  });
}

test("the list", async () => {
  const page = await open(link({ db: "demo" }));
  await page.getByRole("cell", { name: "Seen" }).first().waitFor();
  await everywhere(page);
});

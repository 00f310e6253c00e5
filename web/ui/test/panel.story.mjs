// The panel: what an answer is shown as, its legend, its axes, and the time zone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { day, open, picture } from "./browser.mjs";

const link = (params) => `#/explore?${new URLSearchParams({ db: "demo", from: day.from, to: day.to, ...params })}`;
const cpu = "SELECT mean(usage_user) FROM cpu WHERE $timeFilter GROUP BY time($interval), host";

test("one row a series is numbers", async () => {
  const page = await open(link({ q: "SELECT mean(usage_user) FROM cpu GROUP BY host" }));
  const tiles = page.locator(".tiles");
  await tiles.waitFor();
  assert.match(await tiles.textContent(), /^(cpu\.mean host=(ash|birch|cedar)[\d.]+ %){3}$/);
  assert.equal(await page.locator(".plot").count(), 0);
  await page.done();
});

test("rows outside of the range are plotted where they are", async () => {
  const page = await open(link({ q: "SELECT usage_user FROM cpu WHERE host = 'ash'", from: "now-1h", to: "now" }));
  await page.getByText("The answer has no rows in the chosen range.").waitFor();
  await page.getByRole("img", { name: "Plot of 1 series" }).waitFor();
  await page.done();
});

test("a click shows one series alone, with Ctrl more, and figures choose the order", async () => {
  const page = await open(link({ q: cpu }));
  await page.getByRole("img", { name: "Plot of 3 series" }).waitFor();
  const button = (host) => page.getByRole("button", { name: `cpu.mean host=${host}` });
  await button("ash").click();
  await page.getByRole("img", { name: "Plot of 1 series" }).waitFor();
  await button("cedar").click({ modifiers: ["Control"] });
  await page.getByRole("img", { name: "Plot of 2 series" }).waitFor();
  assert.equal(await button("birch").getAttribute("aria-pressed"), "false");
  await page.getByRole("button", { name: "Run" }).click(); // what is chosen stays
  await page.getByText(/rows in/).waitFor();
  await page.getByRole("img", { name: "Plot of 2 series" }).waitFor();
  await button("cedar").click();
  await button("cedar").click();
  await page.getByRole("img", { name: "Plot of 3 series" }).waitFor();
  await page.getByRole("button", { name: "min", exact: true }).click();
  await page.waitForURL(/by=min/);
  const least = await page.locator(".legend td:nth-child(3)").allTextContents();
  assert.deepEqual(least, least.toSorted((a, b) => parseFloat(b) - parseFloat(a)));
  await page.done();
});

for (const style of ["bars", "stacked", "points"]) {
  test(`${style} in both themes, with a unit and a scale`, async () => {
    for (const colorScheme of ["light", "dark"]) {
      const page = await open(link({ q: cpu, style, unit: "SI", low: "0", high: "500" }), { colorScheme });
      await page.getByRole("img", { name: "Plot of 3 series" }).waitFor();
      await picture(page, `${style}-${colorScheme}`);
      await page.getByLabel("Scale").selectOption("log");
      await page.waitForURL(/scale=log/);
      await page.getByLabel("Axis from").fill("");
      await page.getByLabel("Axis from").blur();
      await page.getByRole("img", { name: "Plot of 3 series" }).waitFor();
      await picture(page, `${style}-${colorScheme}-log`);
      await page.done();
    }
  });
}

test("one time zone for the plot, the table and the range", async () => {
  for (const [zone, first] of [["UTC", "2026-01-05T00:00:00.000Z"], ["Europe/Berlin", "2026-01-05T01:00:00.000+01:00"], ["Asia/Katmandu", "2026-01-05T05:45:00.000+05:45"]]) {
    const page = await open(link({ q: "SELECT usage_user FROM cpu WHERE $timeFilter AND host = 'ash'", view: "table" }), { timezoneId: "America/New_York" });
    await page.getByLabel("Zone").selectOption(zone);
    await page.getByRole("cell", { name: first }).waitFor();
    await page.getByLabel("From", { exact: true }).fill("2026-01-05 06:00");
    await page.getByLabel("From", { exact: true }).blur();
    await page.getByRole("cell", { name: /^2026-01-05T06:00:00.000/ }).waitFor();
    await page.reload();
    await page.getByRole("cell", { name: /^2026-01-05T06:00:00.000/ }).waitFor(); // the choice stays
    await page.done();
  }
});

test("a query survives a look at another page", async () => {
  const page = await open(link({ q: cpu }));
  await page.getByRole("img", { name: "Plot of 3 series" }).waitFor();
  await page.getByRole("link", { name: "Server" }).click();
  await page.getByText("points written per second").waitFor({ state: "attached" }).catch(() => undefined);
  await page.getByRole("link", { name: "Explore" }).click();
  await page.getByRole("img", { name: "Plot of 3 series" }).waitFor();
  assert.equal(await page.getByLabel("Database").inputValue(), "demo");
  await page.done();
});

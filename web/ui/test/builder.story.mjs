// The builder: controls that write a query, and follow what the user writes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { day, open, picture, query, write } from "./browser.mjs";

const link = (params) => `#/explore?${new URLSearchParams({ db: "demo", from: day.from, to: day.to, ...params })}`;
const asked = (page) => new URLSearchParams(page.url().replace(/.*\?/, "")).get("q");
const editor = (page) => page.getByRole("textbox", { name: "Query" });

/** Waits until the page asks for a text. */
async function asks(page, text) {
  await page.waitForURL((url) => new URLSearchParams(url.href.replace(/.*\?/, "")).get("q") === text).catch(() => assert.equal(asked(page), text));
}

test("measurement, field, function, filter, groups, window, fill", async () => {
  const page = await open(link({}));
  await page.getByRole("combobox", { name: "Measurement" }).fill("cpu");
  await page.getByRole("combobox", { name: "Measurement" }).blur();
  await asks(page, "SELECT mean(usage_system) FROM cpu WHERE $timeFilter GROUP BY time($interval)");
  await page.getByRole("img", { name: "Plot of 1 series" }).waitFor();
  await page.getByLabel("Field").selectOption("usage_user");
  await page.getByLabel("Function").selectOption("percentile");
  await asks(page, "SELECT percentile(usage_user, 95) FROM cpu WHERE $timeFilter GROUP BY time($interval)");
  await page.getByLabel("Function").selectOption("max");
  await page.getByLabel("Add a filter").selectOption("host");
  await page.getByLabel("How host is compared").selectOption("=~");
  await page.getByLabel("Value of host").fill("^(ash|birch)$");
  await page.getByLabel("Value of host").blur();
  await page.getByLabel("Group by").selectOption("host");
  await page.getByLabel("Window").selectOption("1h");
  await page.getByLabel("Fill").selectOption("none");
  await asks(page, "SELECT max(usage_user) FROM cpu WHERE host =~ /^(ash|birch)$/ AND $timeFilter GROUP BY time(1h), host fill(none)");
  await page.getByRole("img", { name: "Plot of 2 series" }).waitFor();
  await page.getByLabel(/^then/).selectOption("derivative");
  await asks(page, "SELECT derivative(max(usage_user)) FROM cpu WHERE host =~ /^(ash|birch)$/ AND $timeFilter GROUP BY time(1h), host fill(none)");
  await page.getByRole("button", { name: "Remove the filter of host" }).click();
  await page.getByRole("button", { name: "Do not group by host" }).click();
  await asks(page, "SELECT derivative(max(usage_user)) FROM cpu WHERE $timeFilter GROUP BY time(1h) fill(none)");
  await page.getByRole("img", { name: "Plot of 1 series" }).waitFor();
  await page.getByLabel("Function").selectOption("");
  await asks(page, "SELECT usage_user FROM cpu WHERE $timeFilter");
  await page.done();
});

test("the controls follow the text, and leave alone what they cannot show", async () => {
  const page = await open(link({ q: "SELECT mean(usage_user) FROM cpu WHERE $timeFilter GROUP BY time($interval)" }));
  await page.getByLabel("Function").waitFor();
  await editor(page).press("Control+a");
  await editor(page).press("Delete");
  await page.keyboard.insertText("select min(usage_system) from cpu where $timeFilter and dc = 'north' group by time(30m), dc");
  await page.getByRole("button", { name: "Do not group by dc" }).waitFor();
  assert.equal(await page.getByLabel("Function").inputValue(), "min");
  assert.equal(await page.getByLabel("Field").inputValue(), "usage_system");
  assert.equal(await page.getByLabel("Value of dc").inputValue(), "north");
  assert.equal(await page.getByLabel("Window").inputValue(), "30m");
  const own = "SELECT mean(usage_user) + 1 FROM cpu WHERE $timeFilter GROUP BY time($interval), ";
  await editor(page).press("Control+a");
  await editor(page).press("Delete");
  await page.keyboard.insertText(own);
  await page.getByText("The builder cannot show this query").waitFor();
  await asks(page, own);
  // A click on a name beside the editor writes it at the cursor.
  await page.locator("summary", { hasText: /^cpu$/ }).click();
  await page.locator("summary", { hasText: /^host tag$/ }).click();
  await page.getByRole("button", { name: "Group by host" }).click();
  await asks(page, `${own}host`);
  await page.getByRole("button", { name: "Begin a new one" }).click();
  await page.getByRole("combobox", { name: "Measurement" }).waitFor();
  await page.done();
});

test("the schema beside the editor adds to the query", async () => {
  const page = await open(link({}));
  await page.getByLabel("Search measurements").fill("DIS");
  await page.locator("summary", { hasText: /^cpu$/ }).waitFor({ state: "detached" });
  await page.locator("summary", { hasText: /^disk$/ }).click();
  await page.getByRole("button", { name: "used", exact: true }).click();
  await asks(page, "SELECT mean(used) FROM disk WHERE $timeFilter GROUP BY time($interval)");
  await page.locator("summary", { hasText: /^host tag$/ }).click();
  await page.getByRole("button", { name: "cedar" }).click();
  await page.getByRole("button", { name: "birch" }).click();
  await asks(page, "SELECT mean(used) FROM disk WHERE host = 'birch' AND $timeFilter GROUP BY time($interval)");
  // A text has no mean.
  await page.getByRole("button", { name: "state", exact: true }).click();
  await asks(page, "SELECT last(state) FROM disk WHERE host = 'birch' AND $timeFilter GROUP BY time($interval)");
  await page.done();
});

test("names with signs reach the server as they are", async () => {
  await query("CREATE DATABASE signs");
  await write('od\\,d\\ "m,ta\\ g\'=it\'s\\ "a/b" fi\\ "e\\,ld\'=1 1767571200000000000', "signs");
  const page = await open(link({ db: "signs" }));
  await page.locator("summary", { hasText: 'od,d "m' }).click();
  await page.getByRole("button", { name: 'fi "e,ld\'', exact: true }).click();
  await page.getByRole("img", { name: "Plot of 1 series" }).waitFor();
  await page.locator("summary", { hasText: "ta g'" }).click();
  await page.getByRole("button", { name: "Group by ta g'" }).click();
  await page.getByRole("button", { name: 'it\'s "a/b"', exact: true }).click();
  await page.getByText('ta g\'=it\'s "a/b"').waitFor();
  await page.getByRole("img", { name: "Plot of 1 series" }).waitFor();
  await page.getByLabel("How ta g' is compared").selectOption("=~");
  await page.getByLabel("Value of ta g'").fill('^it.s "a/b"$');
  await page.getByLabel("Value of ta g'").blur();
  await page.waitForURL(/%5Eit.s/);
  await page.getByText(/rows in/).waitFor();
  await page.getByRole("img", { name: "Plot of 1 series" }).waitFor();
  await page.done();
});

test("PromQL", async () => {
  const page = await open(link({ lang: "promql" }));
  await page.getByRole("combobox", { name: "Metric" }).fill("cpu_usage_user");
  await page.getByRole("combobox", { name: "Metric" }).blur();
  await asks(page, "cpu_usage_user");
  await page.getByRole("img", { name: "Plot of 3 series" }).waitFor();
  await page.getByLabel("Function").selectOption("avg_over_time");
  await page.getByLabel("Aggregate").selectOption("max");
  await page.getByLabel("Group by").selectOption("host");
  await page.getByLabel("Add a filter").selectOption("host");
  await page.getByLabel("How host is compared").selectOption("!=");
  await page.getByLabel("Value of host").fill("ash");
  await page.getByLabel("Value of host").blur();
  await asks(page, 'max by (host) (avg_over_time(cpu_usage_user{host!="ash"}[5m]))');
  await page.getByRole("img", { name: "Plot of 2 series" }).waitFor();
  await page.locator("summary", { hasText: /^cpu_usage_user$/ }).click();
  await page.locator("summary", { hasText: /^dc tag$/ }).click();
  await page.getByRole("button", { name: "Group by dc" }).click();
  await asks(page, 'max by (host, dc) (avg_over_time(cpu_usage_user{host!="ash"}[5m]))');
  await picture(page, "builder");
  await page.done();
});

// Schema and Cardinality: find out what a database has.

import assert from "node:assert/strict";
import { test } from "node:test";
import { golden, open, picture, write } from "./browser.mjs";

test("the tree goes down to the values of a tag, and a click makes a query", async () => {
  const page = await open("#/schema?db=demo");
  await page.getByText("keeps for ever, a shard each 168h0m0s, default").waitFor();
  await page.locator("summary", { hasText: "cpu" }).click();
  await page.getByText("about 3 series").waitFor();
  await page.locator("summary", { hasText: "host" }).click();
  await page.getByText("3 values").waitFor();
  await picture(page, "schema");
  await golden(page, "schema");
  await page.getByRole("link", { name: "birch" }).click();
  await page.getByRole("textbox", { name: "Query" }).getByText("SELECT mean").waitFor();
  assert.match(decodeURIComponent(page.url()), /"host"\+=\+'birch'\+AND\+\$timeFilter/);
  await page.done();
});

test("a filter finds a measurement among many, with signs in its name", async () => {
  await write(Array.from({ length: 300 }, (_, i) => `many${String(i).padStart(3, "0")} v=1`).join("\n") + "\nodd/(name v=1", "demo");
  const page = await open("#/schema?db=demo");
  await page.getByText("The first 200 are shown").waitFor();
  await page.getByLabel("Filter").fill("MANY299");
  await page.locator("summary", { hasText: "many299" }).waitFor();
  assert.equal(await page.locator("summary").count(), 1);
  await page.getByLabel("Filter").fill("/(");
  await page.locator("summary", { hasText: "odd/(name" }).waitFor();
  await page.done();
});

test("cardinality says where the series come from", async () => {
  const page = await open("#/cardinality?db=demo");
  await page.getByRole("table", { name: "Series by measurement" }).getByRole("cell", { name: "cpu" }).waitFor();
  await picture(page, "cardinality");
  await page.getByRole("link", { name: "cpu" }).click();
  await page.getByRole("button", { name: "cpu ✕" }).waitFor();
  await page.getByRole("table", { name: "Series by tag and value" }).getByRole("cell", { name: "host=ash" }).waitFor();
  await page.getByRole("button", { name: /Count the series/ }).click();
  await page.getByRole("img", { name: /Series with rows/ }).waitFor();
  await page.done();
});

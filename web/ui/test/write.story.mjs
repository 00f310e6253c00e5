// Write: points by hand.

import assert from "node:assert/strict";
import { test } from "node:test";
import { golden, open, picture, query } from "./browser.mjs";

test("line protocol, with an error that names the line", async () => {
  const page = await open("#/write");
  await page.getByRole("textbox", { name: "Points" }).fill("byhand,k=a v=1 1\nbyhand v= 2\nbyhand,k=a v=3 3\n");
  await page.getByRole("button", { name: "Write" }).click();
  await page.getByRole("alert").getByText(/^line 2: .*byhand v= 2$/).waitFor();
  assert.equal((await query("SELECT count(v) FROM byhand", "demo"))[0].values[0][1], 2);
  await page.done();
});

test("CSV, with its columns mapped", async () => {
  const page = await open("#/write");
  await page.getByRole("button", { name: "CSV" }).click();
  await page.getByRole("textbox", { name: "Points" }).fill("time,city,temp,note\n2026-01-05T00:00:00Z,Oslo,-3.5,cold\n2026-01-05T01:00:00Z,Oslo,-4,\nnever,Oslo,1,\n");
  await page.getByLabel("Measurement").fill("weather");
  await page.getByLabel("Column note").selectOption("field");
  await page.getByText('row 4: "never" is not a time').waitFor();
  await picture(page, "write");
  await golden(page, "write");
  await page.getByRole("button", { name: "Write 2 points" }).click();
  await page.getByText("All 2 lines are written.").waitFor();
  const [series] = await query("SELECT * FROM weather", "demo");
  assert.deepEqual(series.columns, ["time", "city", "note", "temp"]);
  assert.deepEqual(series.values, [["2026-01-05T00:00:00Z", "Oslo", "cold", -3.5], ["2026-01-05T01:00:00Z", "Oslo", null, -4]]);
  await page.done();
});

// What changes and watches the server, for everybody.

import { test } from "node:test";
import { everyOne, everywhere } from "./access.mjs";
import { open, ownServer, query } from "./browser.mjs";
import { logIn, withUsers } from "./users.mjs";

test("there is something in each list", async () => {
  await query("CREATE CONTINUOUS QUERY cq_one ON demo BEGIN SELECT mean(usage_user) INTO cpu_mean FROM cpu GROUP BY time(1h) END");
  await query("CREATE RETENTION POLICY hours ON demo DURATION INF REPLICATION 1");
  await query("CREATE DOWNSAMPLE ON demo FROM autogen INTO hours EVERY 1h AS mean");
  await query(`CREATE SUBSCRIPTION sub_one ON demo.autogen DESTINATIONS ALL 'http://127.0.0.1:1/${"long".repeat(30)}'`);
  await query("CREATE USER somebody WITH PASSWORD 'secret'");
});

everyOne({
  Server: ["#/server", async (page) => {
    await page.getByText("No damage is known").waitFor();
    await page.getByRole("img", { name: "heap in use" }).waitFor();
    await page.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = true)));
  }],
  "Server, queries": ["#/server", async (page) => {
    await page.getByText("ready for queries and writes").waitFor();
    await page.getByRole("heading", { name: /queries/i }).first().waitFor();
  }],
  Connect: ["#/connect", (page) => page.getByRole("heading").nth(1).waitFor()],
  "Write, lines": ["#/write", async (page) => {
    await page.getByRole("textbox", { name: "Points" }).fill("byhand v= 2\n");
    await page.getByRole("button", { name: "Write" }).click();
    await page.getByRole("alert").waitFor();
  }],
  "Write, CSV": ["#/write", async (page) => {
    await page.getByRole("button", { name: "CSV" }).click();
    await page.getByRole("textbox", { name: "Points" }).fill("time,city,temp\n2026-01-05T00:00:00Z,Oslo,-3.5\nnever,Oslo,1\n");
    await page.getByText('row 3: "never" is not a time').waitFor();
  }],
  "Admin, databases": ["#/admin?db=demo", (page) => page.getByRole("region", { name: /Retention policies/ }).getByRole("cell", { name: "autogen", exact: true }).waitFor()],
  "Admin, a dialog": ["#/admin?db=demo", async (page) => {
    await page.getByRole("button", { name: "Drop database demo" }).click();
    await page.getByRole("dialog").waitFor();
  }],
  "Admin, users": ["#/admin?part=users", (page) => page.getByRole("button", { name: "Create user" }).waitFor()],
  "Admin, downsamples": ["#/admin?part=downsamples&db=demo", (page) => page.getByRole("cell", { name: "hours" }).first().waitFor()],
  "Admin, continuous queries": ["#/admin?part=continuous+queries&db=demo", (page) => page.getByText("cq_one").first().waitFor()],
  "Admin, subscriptions": ["#/admin?part=subscriptions&db=demo", (page) => page.getByText("sub_one").first().waitFor()],
  "Admin, deletes": ["#/admin?part=deletes&db=demo", async (page) => {
    await page.getByLabel("Measurement").fill("cpu");
    await page.getByRole("button", { name: "Preview" }).click();
    await page.getByText("autogen").first().waitFor();
  }],
});

test("a login", async (t) => {
  const origin = await withUsers(t);
  const page = await open("", { origin });
  await logIn(page, "ann", "wrong");
  await page.getByRole("alert").waitFor();
  await everywhere(page);
});

test("the form for the first administrator", async (t) => {
  const page = await open("", { origin: await ownServer(t, { TSDBD_HTTP_AUTH_ENABLED: "true" }) });
  await page.getByRole("dialog", { name: "Create the administrator" }).waitFor();
  await everywhere(page);
});

// Admin: databases, policies, users, copies, deletes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { agree, golden, open, picture, query, write } from "./browser.mjs";

const values = async (q, db) => (await query(q, db)).flatMap((s) => s.values ?? []);

test("a database is created, gets a policy, and goes", async () => {
  const page = await open("#/admin");
  await page.getByLabel("Name", { exact: true }).first().fill('odd "name"');
  await page.getByRole("button", { name: "Create database" }).click();
  await page.getByRole("cell", { name: 'odd "name"', exact: true }).waitFor();
  await page.getByRole("combobox", { name: /^Database/ }).selectOption('odd "name"');
  const policies = page.getByRole("region", { name: /Retention policies/ });
  await policies.getByLabel("Name", { exact: true }).fill("month");
  await policies.getByLabel("Duration", { exact: true }).fill("30d");
  await policies.getByRole("button", { name: "Create policy" }).click();
  await policies.getByRole("cell", { name: "720h0m0s" }).waitFor();
  await picture(page, "admin");
  await policies.getByRole("button", { name: "Drop policy month" }).click();
  await agree(page, "month", "Drop policy");
  await policies.getByRole("cell", { name: "month", exact: true }).waitFor({ state: "detached" });
  await page.getByRole("button", { name: 'Drop database odd "name"' }).click();
  await page.getByRole("dialog").getByText('DROP DATABASE "odd \\"name\\""').waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  assert.ok((await values("SHOW DATABASES")).flat().includes('odd "name"'));
  await page.getByRole("button", { name: 'Drop database odd "name"' }).click();
  await agree(page, 'odd "name"', "Drop database");
  await page.getByRole("cell", { name: 'odd "name"', exact: true }).waitFor({ state: "detached" });
  assert.ok(!(await values("SHOW DATABASES")).flat().includes('odd "name"'));
  await page.done();
});

test("a delete shows first what would go", async () => {
  const page = await open("#/admin?part=deletes");
  await page.getByLabel("Measurement").fill("cpu");
  await page.getByLabel("Where").fill("host = 'ash' AND time < '2026-01-05T01:00:00Z'");
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByRole("row", { name: "autogen cpu 1 120" }).waitFor();
  await golden(page, "delete-preview");
  assert.deepEqual((await values("SELECT count(usage_user) FROM cpu WHERE host = 'ash'", "demo"))[0][1], 1380);
  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete points" }).click();
  await page.getByText("The points are deleted.").waitFor();
  await golden(page, "deleted");
  assert.deepEqual((await values("SELECT count(usage_user) FROM cpu WHERE host = 'ash'", "demo"))[0][1], 1320);
  await page.done();
});

test("a delete is about the database of the address, and all of its policies", async () => {
  await query("CREATE DATABASE factory");
  await query("CREATE RETENTION POLICY long ON factory DURATION INF REPLICATION 1");
  await write("cpu,host=x v=1,w=2 1767571200000000000", "factory");
  await write("cpu,host=y v=1,w=2 1767571200000000000\ncpu,host=y v=3 1767571260000000000", "factory");
  await query('SELECT * INTO "long".cpu FROM cpu GROUP BY *', "factory");
  const page = await open("#/admin?db=factory");
  await page.getByRole("button", { name: "Deletes" }).click();
  await page.waitForURL(/part=deletes/);
  assert.match(page.url(), /db=factory/);
  await page.getByRole("option", { name: "factory", selected: true }).waitFor({ state: "attached" });
  // An empty form asks and deletes nothing.
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByRole("alert").getByText("Name a measurement").waitFor();
  assert.equal(await page.getByRole("button", { name: "Delete…" }).count(), 0);
  await page.getByLabel("Where").fill("host = 'y'");
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByRole("row", { name: "autogen cpu 1 3" }).waitFor();
  await page.getByRole("row", { name: "long cpu 1 3" }).waitFor();
  // Another database has no preview yet.
  await page.getByLabel("Database").selectOption("demo");
  await page.waitForURL(/db=demo/);
  assert.equal(await page.getByRole("button", { name: "Delete…" }).count(), 0);
  await page.getByLabel("Database").selectOption("factory");
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByRole("dialog").getByText("Database factory.").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Delete points" }).click();
  await page.getByText("The points are deleted.").waitFor();
  for (const policy of ["autogen", "long"]) assert.deepEqual(await values(`SELECT v FROM "${policy}".cpu WHERE host = 'y'`, "factory"), []);
  await page.getByLabel("Where").fill("host = 'y'");
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByText("No point would go, of any policy.").waitFor();
  await query("DROP DATABASE factory");
  await page.done();
});

test("a mistake in a delete deletes nothing", async () => {
  const page = await open("#/admin?part=deletes");
  await page.getByLabel("Where").fill("host = ");
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByRole("alert").waitFor();
  assert.equal(await page.getByRole("button", { name: "Delete…" }).count(), 0);
  await page.done();
});

test("continuous queries and subscriptions", async () => {
  const page = await open("#/admin?part=continuous+queries");
  await page.getByLabel("Name", { exact: true }).fill("hourly");
  await page.getByRole("textbox", { name: "Query" }).fill('SELECT mean(usage_user) INTO "cpu_hourly" FROM "cpu" GROUP BY time(1h), *');
  await page.getByRole("button", { name: "Create continuous query" }).click();
  await page.getByRole("cell", { name: "hourly", exact: true }).waitFor();
  await page.getByRole("button", { name: "Drop", exact: true }).click();
  await agree(page, "hourly", "Drop continuous query");
  await page.getByText("None.").waitFor();
  await page.getByRole("button", { name: "Subscriptions" }).click();
  await page.getByLabel("Name", { exact: true }).fill("copy");
  await page.getByLabel("Destinations").fill("http://127.0.0.1:1");
  await page.getByRole("button", { name: "Create subscription" }).click();
  await page.getByRole("cell", { name: "http://127.0.0.1:1" }).waitFor();
  await page.done();
});

test("a downsample is created, shows how far it is, and goes", async () => {
  await query("CREATE RETENTION POLICY hours ON demo DURATION INF REPLICATION 1");
  const page = await open("#/admin?part=downsamples");
  await page.getByLabel("From policy").fill("autogen");
  await page.getByLabel("Into policy").fill("hours");
  await page.getByLabel("Every").fill("1h");
  await page.getByLabel("Where").fill("host = 'ash'");
  await page.getByRole("button", { name: "Create downsample" }).click();
  await page.getByRole("row", { name: /demo autogen hours CREATE DOWNSAMPLE ON demo FROM autogen INTO hours EVERY 1h AS mean, min, max, count WHERE host = 'ash' .* \d+[a-z]+ \d+ \d+ % .*B / }).waitFor();
  await page.getByRole("button", { name: "Drop", exact: true }).click();
  await page.getByRole("dialog").getByText("Its rows stay.").waitFor();
  await agree(page, "hours", "Drop downsample");
  await page.getByText("None.").waitFor();
  await query("DROP RETENTION POLICY hours ON demo");
  await page.done();
});

test("users and grants", async () => {
  const page = await open("#/admin?part=users");
  await page.getByLabel("User", { exact: true }).fill("ann");
  await page.getByLabel("Password", { exact: true }).fill("secret's");
  await page.getByRole("button", { name: "Create user" }).click();
  await page.getByRole("cell", { name: "ann", exact: true }).waitFor();
  await page.getByRole("button", { name: "Grants" }).click();
  const grants = page.getByRole("region", { name: "Grants of ann" });
  await grants.getByLabel("Privilege").selectOption("READ");
  await grants.getByRole("button", { name: "Grant", exact: true }).click();
  await grants.getByRole("cell", { name: "READ", exact: true }).waitFor();
  assert.deepEqual(await values("SHOW GRANTS FOR ann"), [["demo", "READ"]]);
  await page.getByRole("button", { name: "Drop user ann" }).click();
  await agree(page, "ann", "Drop user");
  await page.getByRole("cell", { name: "ann", exact: true }).waitFor({ state: "detached" });
  assert.deepEqual(await values("SHOW USERS"), []);
  await page.done();
});

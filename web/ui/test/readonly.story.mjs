// What the page runs by itself changes nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { agree, open, query, write } from "./browser.mjs";
import { logIn, withUsers } from "./users.mjs";

const link = (params) => `#/explore?${new URLSearchParams(params)}`;
const editor = (page) => page.getByRole("textbox", { name: "Query" });
const notRun = (page, text) => page.getByText("it runs only when you press Run").getByText(text, { exact: true });

/** Makes the databases stage and production with a point of the measurement orders. */
async function begin() {
  for (const db of ["stage", "production"]) {
    await query(`CREATE DATABASE ${db}`);
    await write("orders,shop=a v=1 1000000000", db);
  }
}

/** Fails unless both databases have what begin made, and nothing else was made. */
async function untouched() {
  const databases = (await query("SHOW DATABASES"))[0].values.flat().sort();
  assert.deepEqual(databases, ["demo", "production", "stage"]);
  assert.deepEqual((await query("SHOW USERS"))[0].values ?? [], []);
  for (const db of ["stage", "production"]) {
    assert.deepEqual(await query("SHOW SERIES", db), [{ columns: ["key"], values: [["orders,shop=a"]] }]);
    assert.equal((await query("SELECT v FROM orders", db)).length, 1);
    assert.deepEqual((await query("SHOW RETENTION POLICIES", db))[0].values.map((row) => row.slice(0, 2)), [["autogen", "0s"]]);
  }
}

/** Types a query without running it. */
async function type(page, text) {
  await editor(page).press("Control+a");
  await editor(page).press("Delete");
  await page.keyboard.insertText(text);
  await editor(page).press("Escape"); // the list of completions
}

test("another database, range, policy or language runs no change", async () => {
  await begin();
  const page = await open(link({ db: "stage" }));
  await page.getByRole("option", { name: "production" }).waitFor({ state: "attached" });
  await type(page, "DROP MEASUREMENT orders");
  await page.getByLabel("Database").selectOption("production");
  await notRun(page, "DROP MEASUREMENT orders").waitFor();
  await untouched();
  await type(page, "DROP DATABASE stage");
  await page.getByLabel("Range", { exact: true }).selectOption("6h");
  await notRun(page, "DROP DATABASE stage").waitFor();
  await type(page, "DELETE FROM orders");
  await page.getByLabel("Policy").selectOption("autogen");
  await notRun(page, "DELETE FROM orders").waitFor();
  await page.getByRole("button", { name: "PromQL" }).click();
  await page.getByRole("alert").getByText("parse error").waitFor();
  await page.getByRole("button", { name: "InfluxQL" }).click();
  await notRun(page, "DELETE FROM orders").waitFor();
  await untouched();
  await page.done();
});

test("a link runs no change, nor do F5 and Back", async () => {
  await begin();
  const page = await open(link({ db: "stage", q: "SHOW MEASUREMENTS" }));
  await page.getByRole("cell", { name: "orders" }).waitFor();
  const root = page.url().replace(/#.*/, "");
  for (const q of [
    "DROP DATABASE production", "DELETE FROM orders", "DROP SERIES FROM orders", "ALTER RETENTION POLICY autogen ON stage DURATION 1d",
    "ALTER MEASUREMENT orders RENAME TO o", "UPDATE orders SET shop = 'b'", "SELECT v INTO copy FROM orders", "CREATE DATABASE mine",
    "CREATE USER root WITH PASSWORD 'x' WITH ALL PRIVILEGES", "GRANT ALL PRIVILEGES ON stage TO u", "KILL QUERY 1", "EXPLAIN SELECT v INTO copy FROM orders",
  ]) {
    await page.goto(root + link({ db: "stage", q }));
    await notRun(page, q.replace("'x'", "[REDACTED]")).waitFor();
  }
  // One statement that changes something, and the harmless ones do not run either.
  await page.goto(root + link({ db: "stage", q: "SHOW MEASUREMENTS; DROP MEASUREMENT orders" }));
  await notRun(page, "DROP MEASUREMENT orders").waitFor();
  assert.equal(await page.getByRole("cell", { name: "orders" }).count(), 0);
  await page.reload();
  await notRun(page, "DROP MEASUREMENT orders").waitFor();
  await page.goto(root + link({ db: "stage", q: "SHOW SERIES" }));
  await page.getByRole("cell", { name: "orders,shop=a" }).waitFor();
  await page.goBack();
  await notRun(page, "DROP MEASUREMENT orders").waitFor();
  await untouched();
  await page.done();
});

test("a query of the history and a saved one run no change", async () => {
  await begin();
  const page = await open(link({ db: "production" }));
  await type(page, "DROP MEASUREMENT nothing");
  await page.getByRole("button", { name: "Run" }).click();
  await agree(page, "nothing", "Run");
  await page.getByText("0 rows in").waitFor();
  await write("nothing v=1 1000000000", "production"); // now the statement would drop something
  await page.getByText("Saved queries and history").click();
  await page.getByLabel("Save this query as").fill("cleanup");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByLabel("Database").selectOption("stage");
  await notRun(page, "DROP MEASUREMENT nothing").waitFor();
  for (const name of [/^DROP MEASUREMENT nothing/, /^cleanup:/]) {
    await page.getByLabel("Database").selectOption("stage");
    const refused = page.waitForResponse((r) => /query\?.*db=production/.test(r.url()) && r.status() === 400);
    await page.getByRole("button", { name }).click();
    await refused;
    await notRun(page, "DROP MEASUREMENT nothing").waitFor();
  }
  assert.equal((await query("SELECT v FROM nothing", "production")).length, 1);
  await query("DROP MEASUREMENT nothing", "production");
  await untouched();
  await page.done();
});

test("the timer only reads", async () => {
  await begin();
  const page = await open(link({ db: "stage" }));
  await page.clock.install();
  const sent = [];
  page.on("request", (r) => r.url().includes("/query?") && sent.push(new URL(r.url()).searchParams.get("read_only")));
  await type(page, "DELETE FROM orders");
  await page.getByLabel("Refresh").selectOption("5 s");
  for (let i = 0; i < 3; i++) {
    const asked = page.waitForResponse((r) => r.url().includes("/query?"));
    await page.clock.fastForward(5000);
    assert.equal((await asked).status(), 400);
    await notRun(page, "DELETE FROM orders").waitFor();
  }
  assert.ok(sent.length >= 3 && sent.every((flag) => flag === "true"), String(sent));
  await untouched();
  await page.done();
});

test("a login runs no change", async (t) => {
  const origin = await withUsers(t);
  const page = await open(link({ db: "mine", q: "DROP DATABASE mine" }), { origin });
  await page.getByRole("dialog", { name: "Log in" }).waitFor();
  await logIn(page, "root", "rootpw");
  await notRun(page, "DROP DATABASE mine").waitFor();
  const answer = await fetch(`${origin}query?q=SHOW+DATABASES`, { headers: { Authorization: `Basic ${btoa("root:rootpw")}` } });
  assert.match(await answer.text(), /"mine"/);
  await page.done();
});

test("Run changes, and asks first if it destroys", async () => {
  await begin();
  const page = await open(link({ db: "stage" }));
  await page.getByRole("option", { name: "production" }).waitFor({ state: "attached" });
  const dialog = page.getByRole("dialog");
  await type(page, "SHOW MEASUREMENTS; DROP MEASUREMENT orders");
  await page.getByRole("button", { name: "Run" }).click();
  await dialog.getByRole("heading", { name: "Run this on database stage?" }).waitFor();
  await dialog.getByText("DROP MEASUREMENT orders").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await notRun(page, "DROP MEASUREMENT orders").waitFor();
  await untouched();
  await editor(page).press("Control+Enter");
  await dialog.getByRole("heading", { name: "Run this on database stage?" }).waitFor();
  // Back takes the question back.
  await page.evaluate(() => (location.hash = "#/explore?db=production&q=SHOW+SERIES"));
  await page.getByRole("cell", { name: "orders,shop=a" }).waitFor();
  assert.equal(await dialog.count(), 0);
  await untouched();
  await type(page, "DROP MEASUREMENT orders");
  await page.getByRole("button", { name: "Run" }).click();
  await dialog.getByRole("heading", { name: "Run this on database production?" }).waitFor();
  await agree(page, "orders", "Run");
  await page.getByText("0 rows in").waitFor();
  assert.deepEqual(await query("SHOW MEASUREMENTS", "production"), []);
  assert.equal((await query("SELECT v FROM orders", "stage")).length, 1);
  await type(page, "DROP DATABASE stage; DROP DATABASE production");
  await editor(page).press("Control+Enter");
  await dialog.getByRole("heading", { name: "Run this on the databases stage, production?" }).waitFor();
  await agree(page, "stage, production", "Run");
  await dialog.waitFor({ state: "detached" });
  await page.getByText("0 rows in").waitFor();
  // What only adds something needs no question. A password stays in the editor, and out of the address.
  await type(page, "CREATE DATABASE stage");
  await editor(page).press("Control+Enter");
  await page.getByText("0 rows in").waitFor();
  await type(page, "CREATE USER ann WITH PASSWORD 'secret'");
  await editor(page).press("Control+Enter");
  await page.getByText("0 rows in").waitFor();
  assert.deepEqual((await query("SHOW USERS"))[0].values, [["ann", false]]);
  assert.doesNotMatch(page.url(), /secret/);
  assert.deepEqual((await query("SHOW DATABASES"))[0].values.flat(), ["demo", "stage"]);
  await page.done();
});

test("the top bar, other views, Back, and F5 run no change", async () => {
  await query("DROP USER ann");
  await query("DROP DATABASE stage");
  await begin();
  const page = await open(link({ db: "stage", q: "DELETE FROM orders", refresh: "5" }));
  const sent = [];
  page.on("request", (r) => /\/(query|write)\?/.test(r.url()) && sent.push(new URL(r.url()).searchParams.get("read_only")));
  await notRun(page, "DELETE FROM orders").waitFor();
  await page.getByRole("button", { name: "Later" }).click();
  await page.getByLabel("Zone").selectOption("Asia/Tokyo");
  await page.getByRole("button", { name: "Ask again" }).click();
  await page.getByLabel("From", { exact: true }).fill("2026-01-05");
  await page.getByLabel("From", { exact: true }).blur();
  for (const view of ["Schema", "Cardinality", "Server", "Admin", "Write"]) {
    await page.getByRole("link", { name: view, exact: true }).click();
    await page.waitForURL(/from=2026-01-05&.*refresh=5&zone=Asia/);
    await page.goBack();
    await notRun(page, "DELETE FROM orders").waitFor();
  }
  await page.getByRole("link", { name: "Schema" }).click();
  await page.getByLabel("Database").selectOption("production");
  await page.getByRole("link", { name: "Explore" }).click();
  await notRun(page, "DELETE FROM orders").waitFor();
  await page.reload();
  await notRun(page, "DELETE FROM orders").waitFor();
  assert.match(page.url(), /db=production/);
  assert.ok(sent.length > 10 && sent.every((flag) => flag === "true"), String(sent));
  await untouched();
  await page.done();
});

// Login: a server that asks for users, and a page below a prefix of a proxy.

import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { test } from "node:test";
import { open, server } from "./browser.mjs";
import { logIn, withUsers } from "./users.mjs";

test("a login, rights, and what stays in the browser", async (t) => {
  const origin = await withUsers(t);
  const page = await open("", { origin });
  await page.getByRole("dialog", { name: "Log in" }).waitFor();
  await logIn(page, "ann", "wrong");
  await page.getByRole("alert").getByText("authorization failed").waitFor();
  await logIn(page, "ann", "annpw");
  await page.getByRole("button", { name: "ann · Log out" }).waitFor();
  await page.getByRole("option", { name: "mine", exact: true, selected: true }).waitFor({ state: "attached" });
  const options = await page.getByLabel("Database").locator("option").allTextContents();
  assert.deepEqual(options, ["mine"]);
  await page.getByRole("link", { name: "Server" }).click();
  await page.getByRole("heading", { name: "Queries of the last hour" }).waitFor(); // the own ones
  assert.deepEqual(await page.context().cookies(), []);
  assert.equal(await page.evaluate(() => JSON.stringify(localStorage).includes("annpw")), false);
  await page.getByRole("button", { name: "ann · Log out" }).click();
  await page.getByRole("dialog", { name: "Log in" }).waitFor();
  await page.done();
});

test("below a prefix of a proxy", async (t) => {
  const to = new URL(server);
  const proxy = createServer((req, res) => {
    if (!req.url.startsWith("/metrics-db/")) return res.writeHead(404).end();
    const out = request({ host: to.hostname, port: to.port, method: req.method, path: req.url.slice("/metrics-db".length), headers: req.headers }, (a) => {
      res.writeHead(a.statusCode, a.headers);
      a.pipe(res);
    });
    req.pipe(out);
    return undefined;
  });
  await new Promise((done) => proxy.listen(0, "127.0.0.1", done));
  t.after(() => proxy.close());
  const page = await open("#/explore?db=demo&q=SHOW+MEASUREMENTS", { origin: `http://127.0.0.1:${proxy.address().port}/metrics-db/` });
  await page.getByRole("cell", { name: "disk" }).waitFor();
  await page.done();
});

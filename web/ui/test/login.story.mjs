// Login: a server that asks for users, and a page below a prefix of a proxy.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { open, server } from "./browser.mjs";

/** Starts a server of its own with logins, and an administrator and a reader. */
async function withUsers(t) {
  const dir = mkdtempSync(join(tmpdir(), "tsdbd-ui-"));
  const port = await new Promise((done) => {
    const s = createServer().listen(0, "127.0.0.1", () => {
      const { port } = s.address();
      s.close(() => done(port));
    });
  });
  const child = spawn(process.env.TSDBD_BINARY, ["-data", dir, "-http", `127.0.0.1:${port}`], { stdio: "ignore", env: { ...process.env, TSDBD_HTTP_AUTH_ENABLED: "true" } });
  t.after(async () => {
    child.kill();
    await new Promise((done) => child.once("exit", done));
    rmSync(dir, { recursive: true });
  });
  const origin = `http://127.0.0.1:${port}/`;
  for (let i = 0; ; i++) {
    const up = await fetch(`${origin}ping`).then((a) => a.ok, () => false);
    if (up) break;
    assert.ok(i < 200, "the server does not start");
    await new Promise((done) => setTimeout(done, 100));
  }
  const run = (q, login) => fetch(`${origin}query`, { method: "POST", body: new URLSearchParams({ q }), headers: login ? { Authorization: `Basic ${btoa(login)}` } : {} });
  assert.equal((await run("CREATE USER root WITH PASSWORD 'rootpw' WITH ALL PRIVILEGES")).status, 200);
  for (const q of ["CREATE DATABASE mine", "CREATE DATABASE other", "CREATE USER ann WITH PASSWORD 'annpw'", "GRANT READ ON mine TO ann"]) assert.equal((await run(q, "root:rootpw")).status, 200);
  return origin;
}

async function logIn(page, user, password) {
  await page.getByLabel("User", { exact: true }).fill(user);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByRole("button", { name: "Log in", exact: true }).click();
}

test("a login, rights, and what stays in the browser", async (t) => {
  const origin = await withUsers(t);
  const page = await open("", { origin });
  await page.getByRole("dialog", { name: "Log in" }).waitFor();
  await logIn(page, "ann", "wrong");
  await page.getByRole("alert").getByText("authorization failed").waitFor();
  await logIn(page, "ann", "annpw");
  await page.getByRole("button", { name: "ann · Log out" }).waitFor();
  await page.getByRole("option", { name: "mine" }).waitFor({ state: "attached" });
  const options = await page.getByLabel("Database").locator("option").allTextContents();
  assert.deepEqual(options, ["none", "mine"]);
  await page.getByRole("link", { name: "Server" }).click();
  await page.getByText("Only an administrator sees this page.").waitFor();
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

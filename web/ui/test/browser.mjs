// What the stories share: the browser, the server, and golden pictures.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import { chromium } from "playwright-core";

/** The address of the server under test, with a slash at its end. */
export const server = process.env.TSDBD_URL.replace(/\/?$/, "/");

/** The range of the data in the database demo. */
export const day = { from: "2026-01-05T00:00:00Z", to: "2026-01-06T00:00:00Z" };

/** Names that lead to this machine in the browser: of others, and of a server in a private network. */
export const names = { evil: "evil.example", lan: "tsdb.lan", address: "192.168.77.7" };

let browser;
before(async () => {
  const rules = Object.values(names).map((name) => `MAP ${name} 127.0.0.1`);
  browser = await chromium.launch({ executablePath: process.env.TSDBD_BROWSER, args: ["--no-sandbox", "--disable-gpu", `--host-resolver-rules=${rules}`] });
});
after(() => browser?.close());

/** Opens a tab in a browser of its own. */
export async function tab(options = {}) {
  const context = await browser.newContext(options);
  return context.newPage();
}

/** Returns a port of this machine that nobody listens on. */
export async function freePort() {
  return new Promise((done) => {
    const s = createServer().listen(0, "127.0.0.1", () => {
      const { port } = s.address();
      s.close(() => done(port));
    });
  });
}

/** Waits until a URL answers. */
export async function answers(url) {
  for (let i = 0; ; i++) {
    if (await fetch(url).then((a) => a.ok, () => false)) return;
    assert.ok(i < 200, `${url} does not answer`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

/** Runs a program in a directory of its own until the test t ends. */
export function run(t, program, args, env = {}) {
  const dir = mkdtempSync(join(tmpdir(), "tsdbd-ui-"));
  const child = spawn(program, args(dir), { stdio: "ignore", env: { ...process.env, ...env } });
  t.after(async () => {
    child.kill();
    if (child.exitCode === null) await new Promise((done) => child.once("exit", done));
    rmSync(dir, { recursive: true });
  });
}

/** Starts a server with settings of its own. It returns its address. */
export async function ownServer(t, env) {
  const port = await freePort();
  run(t, process.env.TSDBD_BINARY, (dir) => ["-data", dir, "-http", `127.0.0.1:${port}`], env);
  const origin = `http://127.0.0.1:${port}/`;
  await answers(`${origin}ping`);
  return origin;
}

/**
 * Opens a place of the page, such as "#/explore", in a browser of its own. Whatever
 * the page writes to the console as an error, and each request to another origin,
 * fails the story in done(). Statuses are no faults, nor is a header that a browser takes
 * only over https.
 */
export async function open(place = "", options = {}) {
  const page = await tab({ viewport: { width: 1280, height: 800 }, timezoneId: "UTC", locale: "en-US", colorScheme: "light", reducedMotion: "reduce", ...options });
  const faults = [];
  page.on("console", (m) => m.type() === "error" && !/status of 4\d\d|Opener-Policy header has been ignored/.test(m.text()) && faults.push(m.text()));
  page.on("pageerror", (e) => faults.push(String(e)));
  page.on("request", (r) => !r.url().startsWith(options.origin ?? server) && !/^(data|blob):/.test(r.url()) && faults.push(`asks ${r.url()}`));
  await page.goto((options.origin ?? server) + place);
  page.done = async () => {
    await page.context().close();
    assert.deepEqual(faults, []);
  };
  return page;
}

/** Runs a statement at the server, not in the page. */
export async function query(q, db = "") {
  const answer = await fetch(`${server}query?${new URLSearchParams({ db })}`, { method: "POST", body: new URLSearchParams({ q }) });
  const { results } = await answer.json();
  assert.equal(results[0].error, undefined);
  return results[0].series ?? [];
}

/** Writes line protocol at the server, not in the page. */
export async function write(lines, db) {
  const answer = await fetch(`${server}write?${new URLSearchParams({ db })}`, { method: "POST", body: lines });
  assert.equal(answer.status, 204, await answer.text());
}

/** Types the name of what goes into the dialog, and agrees. */
export async function agree(page, name, button) {
  const dialog = page.getByRole("dialog");
  assert.equal(await dialog.getByRole("button", { name: button, exact: true }).isDisabled(), true);
  await dialog.getByLabel("Name of what goes").fill(name.slice(0, -1));
  assert.equal(await dialog.getByRole("button", { name: button, exact: true }).isDisabled(), true);
  await dialog.getByLabel("Name of what goes").fill(name);
  await dialog.getByRole("button", { name: button, exact: true }).click();
}

/** Takes a picture of the page for the documents if TSDBD_PICTURES names a directory. */
export async function picture(page, name) {
  const dir = process.env.TSDBD_PICTURES;
  if (dir === undefined) return;
  mkdirSync(dir, { recursive: true });
  await page.screenshot({ path: join(dir, `${name}.png`) });
}

/**
 * Compares what a screen reader finds in the page with a golden file: roles, names and
 * states, which do not depend on fonts as pixels do. TSDBD_UPDATE writes the file.
 */
export async function golden(page, name) {
  const path = join(import.meta.dirname, "golden", `${name}.yaml`);
  const seen = `${await page.locator("body").ariaSnapshot()}\n`;
  if (process.env.TSDBD_UPDATE !== undefined) {
    mkdirSync(join(import.meta.dirname, "golden"), { recursive: true });
    writeFileSync(path, seen);
  }
  assert.equal(seen, readFileSync(path, "utf8"));
}

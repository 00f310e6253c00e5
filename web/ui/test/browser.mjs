// What the stories share: the browser, the server, and golden pictures.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before } from "node:test";
import { chromium } from "playwright-core";

/** The address of the server under test, with a slash at its end. */
export const server = process.env.TSDBD_URL.replace(/\/?$/, "/");

/** The range of the data in the database demo. */
export const day = { from: "2026-01-05T00:00:00Z", to: "2026-01-06T00:00:00Z" };

let browser;
before(async () => {
  browser = await chromium.launch({ executablePath: process.env.TSDBD_BROWSER, args: ["--no-sandbox", "--disable-gpu"] });
});
after(() => browser?.close());

/**
 * Opens a place of the page, such as "#/explore", in a browser of its own. Whatever
 * the page writes to the console as an error, and each request to another origin,
 * fails the story in close().
 */
export async function open(place = "", options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, timezoneId: "UTC", locale: "en-US", colorScheme: "light", reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  const faults = [];
  page.on("console", (m) => m.type() === "error" && !/status of 4\d\d/.test(m.text()) && faults.push(m.text()));
  page.on("pageerror", (e) => faults.push(String(e)));
  page.on("request", (r) => !r.url().startsWith(options.origin ?? server) && !/^(data|blob):/.test(r.url()) && faults.push(`asks ${r.url()}`));
  await page.goto((options.origin ?? server) + place);
  page.done = async () => {
    await context.close();
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

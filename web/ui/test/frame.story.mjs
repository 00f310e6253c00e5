// The frame of the page: first paint, the answer to programs, keyboard, theme.

import assert from "node:assert/strict";
import { test } from "node:test";
import { open, server } from "./browser.mjs";

test("a browser gets the page", async () => {
  const page = await open();
  await page.getByRole("link", { name: "Explore" }).waitFor();
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  console.log(`first paint after ${Math.round(paint)} ms`);
  assert.equal(await page.title(), "Explore · tsdbd");
  await page.done();
});

test("a program gets a few lines of text", async () => {
  const answer = await fetch(server);
  assert.match(await answer.text(), /time-series database/);
  assert.match(answer.headers.get("content-type"), /^text\/plain/);
});

test("the keyboard reaches the content first", async () => {
  const page = await open();
  await page.getByRole("link", { name: "Explore" }).waitFor();
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent.trim()), "Skip to the content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await page.done();
});

test("dark and light", async () => {
  const page = await open();
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.getByRole("button", { name: "Auto" }).click();
  assert.equal(await back(), "rgb(243, 245, 249)");
  await page.getByRole("button", { name: "Light" }).click();
  assert.equal(await back(), "rgb(11, 16, 22)");
  await page.reload();
  await page.getByRole("button", { name: "Dark" }).waitFor();
  assert.equal(await back(), "rgb(11, 16, 22)");
  await page.done();
});

// What a person with another sense or a small screen needs: axe-core finds nothing of moderate weight or more, in
// both themes, and a phone shows each view without a scroll to the side.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { open } from "./browser.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Fails if axe finds something of moderate weight or more, or if the page is wider than its window. */
async function check(page) {
  const wide = await page.evaluate(() => {
    if (document.documentElement.scrollWidth <= innerWidth) return "";
    const beyond = [...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll, .bar, .raw"));
    return `the page is ${document.documentElement.scrollWidth} wide: ${beyond.slice(0, 3).map((e) => e.outerHTML.slice(0, 200)).join("\n")}`;
  });
  assert.equal(wide, "");
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const grave = violations.filter((v) => v.impact !== "minor").map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => `${n.html} ${n.any.map((c) => c.message)}`).slice(0, 3).join("\n")}`);
  assert.deepEqual(grave, [], JSON.stringify(await page.evaluate(() => [matchMedia("(prefers-color-scheme: dark)").matches, innerWidth])) + grave.join("\n"));
}

/** Checks a page in both themes, and on a phone. */
export async function everywhere(page) {
  await page.evaluate(axe);
  await check(page);
  await page.emulateMedia({ colorScheme: "dark" });
  await check(page);
  await page.setViewportSize({ width: 390, height: 800 });
  await check(page);
  await page.done();
}

/** Checks views: where they are, and what is there when they are complete. */
export function everyOne(views) {
  for (const [name, [place, complete]] of Object.entries(views)) {
    test(name, async () => {
      const page = await open(place);
      await complete(page);
      await everywhere(page);
    });
  }
}

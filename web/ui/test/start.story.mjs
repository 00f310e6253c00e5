// First steps: an empty server, a server with logins and no administrator, and links of
// other programs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { open, ownServer, picture } from "./browser.mjs";
import { logIn, withUsers } from "./users.mjs";

test("an empty server says how to connect, with its address, and notices the first points", async (t) => {
  const origin = await ownServer(t, {});
  const address = origin.replace(/\/$/, "");
  const page = await open("", { origin, permissions: ["clipboard-read", "clipboard-write"] });
  await page.getByRole("heading", { name: "Connect", level: 2 }).waitFor();
  await page.getByText("No database yet").waitFor();
  await picture(page, "connect");
  for (const [name, line] of [["Telegraf", `urls = ["${address}"]`], ["Prometheus", `- url: ${address}/api/v1/write`], ["curl", `curl '${address}/write?db=demo' --data-binary 'weather,city=oslo temperature=-3.5'`]]) {
    await page.getByRole("button", { name: `Copy ${name}` }).click();
    await page.getByRole("button", { name: `Copied ${name}` }).waitFor();
    const text = await page.evaluate(() => navigator.clipboard.readText());
    assert.ok(text.includes(line), text);
  }
  // What curl does.
  assert.equal((await fetch(`${origin}query`, { method: "POST", body: new URLSearchParams({ q: "CREATE DATABASE demo" }) })).status, 200);
  assert.equal((await fetch(`${origin}write?db=demo`, { method: "POST", body: "weather,city=oslo temperature=-3.5" })).status, 204);
  // The view that was asked for comes, with the schema beside the editor.
  await page.getByText("weather").first().waitFor();
  await page.done();
});

test("a server with logins and no administrator: a form makes one, and logs in", async (t) => {
  const origin = await ownServer(t, { TSDBD_HTTP_AUTH_ENABLED: "true" });
  const page = await open("#/server", { origin });
  const form = page.getByRole("dialog", { name: "Create the administrator" });
  await form.waitFor();
  await form.getByLabel("User").fill("ro'ot \"1\"");
  await form.getByLabel("Password", { exact: true }).fill("it's \\ secret");
  await form.getByLabel("Password again").fill("other");
  await form.getByRole("button", { name: "Create the administrator" }).click();
  await form.getByText("The passwords differ.").waitFor();
  await form.getByLabel("Password again").fill("it's \\ secret");
  await form.getByRole("button", { name: "Create the administrator" }).click();
  await page.getByRole("button", { name: /ro'ot "1" · Log out/ }).waitFor();
  await page.getByText("ready for queries and writes").waitFor();
  await page.getByRole("link", { name: "Admin" }).waitFor();
  // Nothing else was allowed before, and the form is gone for good.
  await page.getByRole("button", { name: /Log out/ }).click();
  await page.getByRole("dialog", { name: "Log in" }).waitFor();
  await page.done();
});

test("what a user may not do is not shown", async (t) => {
  const origin = await withUsers(t);
  const links = async (page) => page.getByRole("navigation", { name: "Pages" }).getByRole("link").allTextContents();
  const page = await open("#/server", { origin });
  await logIn(page, "ann", "annpw");
  await page.getByRole("heading", { name: "Queries of the last hour" }).waitFor();
  for (const name of ["Admin", "Write"]) assert.ok(!(await links(page)).includes(name), name);
  assert.equal(await page.getByRole("button", { name: "Kill" }).count(), 0);
  assert.equal(await page.getByRole("heading", { name: "Settings in force" }).count(), 0);
  // A link that leads there shows nothing to do either.
  await page.goto(`${origin}#/admin`);
  await page.getByText("The user ann may not use this view.").waitFor();
  assert.equal(await page.getByRole("button", { name: /Drop|Create/ }).count(), 0);
  await page.getByRole("button", { name: /Log out/ }).click();
  await logIn(page, "root", "rootpw");
  await page.getByRole("button", { name: "Drop database mine" }).waitFor();
  for (const name of ["Admin", "Write"]) assert.ok((await links(page)).includes(name), name);
  await page.done();
});

test("links of Prometheus and vmalert lead to Explore with their query", async () => {
  for (const link of ["graph?g0.expr=cpu_usage_user%7Bhost%3D%22ash%22%7D&g0.range_input=2h&g0.tab=0&db=demo", "vmui/#/?g0.expr=cpu_usage_user%7Bhost%3D%22ash%22%7D&g0.range_input=2h&db=demo"]) {
    const page = await open(link);
    await page.getByRole("textbox", { name: /PromQL|Query/ }).filter({ hasText: 'cpu_usage_user{host="ash"}' }).waitFor();
    assert.ok(await page.getByText("PromQL").first().isVisible());
    await page.done();
  }
  for (const link of ["ui", "ui/", "vmui", "graph"]) {
    const page = await open(link);
    await page.getByRole("link", { name: "Explore" }).waitFor();
    assert.match(page.url(), /^http:\/\/127\.0\.0\.1:\d+\/(#.*)?$/);
    await page.done();
  }
});

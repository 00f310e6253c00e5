// A server that asks for logins.

import assert from "node:assert/strict";
import { ownServer } from "./browser.mjs";

/** Starts a server of its own with logins, and an administrator and a reader. */
export async function withUsers(t) {
  const origin = await ownServer(t, { TSDBD_HTTP_AUTH_ENABLED: "true" });
  const run = (q, login) => fetch(`${origin}query`, { method: "POST", body: new URLSearchParams({ q }), headers: login ? { Authorization: `Basic ${btoa(login)}` } : {} });
  assert.equal((await run("CREATE USER root WITH PASSWORD 'rootpw' WITH ALL PRIVILEGES")).status, 200);
  for (const q of ["CREATE DATABASE mine", "CREATE DATABASE other", "CREATE USER ann WITH PASSWORD 'annpw'", "GRANT READ ON mine TO ann"]) assert.equal((await run(q, "root:rootpw")).status, 200);
  return origin;
}

/** Fills in the form of the login. */
export async function logIn(page, user, password) {
  await page.getByLabel("User", { exact: true }).fill(user);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByRole("button", { name: "Log in", exact: true }).click();
}

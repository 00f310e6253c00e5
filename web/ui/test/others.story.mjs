// Pages of others: what they let a browser send to the server changes nothing, and the page
// of the server works behind nginx.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { answers, freePort, names, open, ownServer, query, run, server, tab } from "./browser.mjs";

const { port } = new URL(server);

/** Opens a page of somebody else, at an origin of its own. */
async function stranger(t, host) {
  const site = createServer((_, res) => res.writeHead(200, { "Content-Type": "text/html" }).end("<title>a page of others</title>"));
  await new Promise((done) => site.listen(0, "127.0.0.1", done));
  t.after(() => site.close());
  const page = await tab();
  await page.goto(`http://${host}:${site.address().port}/`);
  return page;
}

/** Shows an image of an address, and waits until the browser has an answer, which it hides: it is no image. */
async function image(page, url) {
  const ended = page.waitForEvent("requestfailed", (r) => r.url() === url);
  await page.evaluate((src) => document.body.append(Object.assign(new Image(), { src })), url);
  assert.equal((await ended).failure().errorText, "net::ERR_BLOCKED_BY_ORB");
}

/** Sends a form to an address, as a page can without a script. */
async function form(page, url, fields, type = "application/x-www-form-urlencoded") {
  const answer = page.waitForResponse(url);
  await page.evaluate(
    ([action, fields, enctype]) => {
      const frame = Object.assign(document.createElement("iframe"), { name: `f${Math.random()}` });
      const form = Object.assign(document.createElement("form"), { method: "POST", target: frame.name, action, enctype });
      for (const [name, value] of Object.entries(fields)) form.append(Object.assign(document.createElement("input"), { name, value }));
      document.body.append(frame, form);
      form.submit();
    },
    [url, fields, type],
  );
  return (await answer).status();
}

/** Sends a request from a script of the page. null: the browser does not show the answer. */
async function script(page, url, init = {}) {
  return page.evaluate(([url, init]) => fetch(url, init.form ? { ...init, method: "POST", body: new URLSearchParams(init.form) } : init).then(async (a) => (a.type === "opaque" ? null : [a.status, await a.text()]), (e) => String(e)), [url, init]);
}

/** Holds that the database of the stories is there, and nothing that a page made. */
async function unharmed() {
  const databases = (await query("SHOW DATABASES"))[0].values.flat();
  assert.ok(databases.includes("demo") && !databases.includes("evil"), databases.join());
  const measurements = (await query("SHOW MEASUREMENTS", "demo"))[0].values.flat();
  assert.ok(measurements.includes("cpu") && !measurements.includes("evil"), measurements.join());
}

test("a page of another origin changes nothing", async (t) => {
  for (const host of [names.evil, "127.0.0.1"]) {
    const page = await stranger(t, host);
    // The machine itself, a name and an address of a private network: a browser sends
    // Sec-Fetch-Site only to the first.
    for (const target of ["127.0.0.1", names.lan, names.address]) {
      const to = `http://${target}:${port}/`;
      await image(page, `${to}query?q=DROP+DATABASE+demo`);
      await image(page, `${to}query?db=demo&q=SELECT+*+INTO+evil+FROM+cpu`);
      assert.equal(await form(page, `${to}query`, { q: "DROP DATABASE demo" }), 403);
      assert.equal(await form(page, `${to}query?from=plain&q=CREATE+DATABASE+evil`, {}, "text/plain"), 403);
      assert.equal(await form(page, `${to}write?db=demo`, { "evil v": "1" }, "text/plain"), 403);
      const hidden = page.waitForResponse(`${to}api/v2/delete?bucket=demo`);
      await script(page, `${to}api/v2/delete?bucket=demo`, { method: "POST", mode: "no-cors", referrerPolicy: "no-referrer", body: '{"start":"1970-01-01T00:00:00Z","stop":"2100-01-01T00:00:00Z"}' });
      assert.equal((await hidden).status(), 403);
      await unharmed();
    }
    await page.context().close();
  }
});

test("a page whose name was pointed to the server", async (t) => {
  const page = await tab();
  await page.goto(`http://${names.evil}:${port}/health`); // now it has the origin of the server
  for (const init of [{}, { referrerPolicy: "no-referrer" }]) {
    for (const [path, more] of [["query", { form: { q: "DROP DATABASE demo" } }], ["query?q=DROP+DATABASE+demo", {}], ["write?db=demo", { method: "POST", body: "evil v=1" }], ["api/v2/buckets/demo%2Fautogen", { method: "DELETE" }]]) {
      const [status, text] = await script(page, `/${path}`, { ...init, ...more });
      assert.equal(status, 403, `${path}: ${text}`);
      assert.match(text, /http\.allowed-(hosts|origins).*proxy_set_header Host/);
    }
    await unharmed();
  }
  await page.context().close();

  // It reads nothing where the names of the server are listed.
  const listed = await ownServer(t, { TSDBD_HTTP_ALLOWED_HOSTS: "tsdb.example.org" });
  const reader = await tab();
  await reader.goto(`http://${names.evil}:${new URL(listed).port}/health`);
  for (const path of ["query?q=SHOW+DATABASES", "metrics", "debug/vars"]) {
    const [status, text] = await script(reader, `/${path}`, { referrerPolicy: "no-referrer" });
    assert.equal(status, 403, text);
  }
  await reader.context().close();
});

test("behind nginx below a prefix", async (t) => {
  if (spawnSync("nginx", ["-v"]).error !== undefined) return t.skip("there is no nginx (apt-get install nginx)");
  const block = /```nginx\n([^]*?)```/.exec(readFileSync(join(import.meta.dirname, "../../../docs/explorer.md"), "utf8"))[1].replace("127.0.0.1:8086", new URL(server).host);
  const front = await freePort();
  run(t, "nginx", (dir) => {
    const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${dir}/${name};`).join("\n");
    writeFileSync(
      join(dir, "nginx.conf"),
      `daemon off; master_process off; pid ${dir}/pid; error_log stderr; events {}
       http { access_log off; ${paths} server { listen 127.0.0.1:${front}; ${block}
       location /rewritten/ { proxy_pass ${server}; } } }`,
    );
    return ["-p", dir, "-c", join(dir, "nginx.conf")];
  });
  await answers(`http://127.0.0.1:${front}/tsdbd/ping`);
  for (const host of ["127.0.0.1", names.lan]) {
    const page = await open("#/explore?db=demo&q=SHOW+MEASUREMENTS", { origin: `http://${host}:${front}/tsdbd/` });
    await page.getByRole("cell", { name: "disk" }).waitFor();
    for (const q of ["CREATE DATABASE behind", "DROP DATABASE behind"]) assert.equal((await script(page, "query", { form: { q } }))[0], 200, q);
    assert.equal((await script(page, "write?db=demo", { method: "POST", body: "proxied v=1" }))[0], 204);
    await page.done();
    // A page of others is refused there too.
    const evil = await stranger(t, names.evil);
    assert.equal(await form(evil, `http://${host}:${front}/tsdbd/query`, { q: "DROP DATABASE demo" }), 403);
    await image(evil, `http://${host}:${front}/tsdbd/query?q=DROP+DATABASE+demo`);
    await evil.context().close();
  }
  // Without the line that passes Host on, plain http to a name says what is wrong.
  const page = await tab();
  await page.goto(`http://${names.lan}:${front}/rewritten/health`);
  const [status, text] = await script(page, "/rewritten/query", { form: { q: "CREATE DATABASE behind" } });
  assert.equal(status, 403);
  assert.match(text, /http\.allowed-origins.*proxy_set_header Host \$http_host;/);
  assert.equal((await script(page, "/rewritten/query", { form: { q: "SHOW DATABASES" } }))[0], 200);
  await page.context().close();
  await unharmed();
  return undefined;
});

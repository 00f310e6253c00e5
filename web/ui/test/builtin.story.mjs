// The built-in boards: each query of them has rows, on data of the shape that they are for.

import assert from "node:assert/strict";
import { test } from "node:test";
import { link } from "./boards.mjs";
import { answers, freePort, open, ownServer, picture, query, run, server, write } from "./browser.mjs";

/** Opens a built-in board, and fails unless each query of each panel has rows. */
async function full(db, builtin, { origin = server, from = "now-10m" } = {}) {
  const page = await open(link({ db, builtin, from }), { origin });
  const empty = [];
  page.on("response", async (r) => {
    if (!/\/query\?.*chunked|query_range/.test(r.url())) return; // those of the panels
    const text = await r.text().catch(() => '"series":'); // taken back
    if (!/"series":|"values":/.test(text)) empty.push(`${decodeURIComponent(r.request().postData())}: ${text}`);
  });
  const panels = page.getByRole("article");
  await panels.first().waitFor();
  for (const panel of await panels.all()) {
    await panel.scrollIntoViewIfNeeded();
    await panel.locator(".plot, .tiles").first().waitFor({ timeout: 10_000 }).catch(() => undefined);
    const name = await panel.getAttribute("aria-label");
    assert.equal(await panel.locator(".error, .message, .faint").count(), 0, `${name}: ${await panel.innerText()}`);
    assert.ok((await panel.locator(".plot, .tiles").count()) > 0, `${name}: ${await panel.innerText()}`);
  }
  assert.deepEqual(empty, []);
  await page.evaluate(() => scrollTo(0, 0));
  await picture(page, `board-${builtin}`);
  await page.done();
}

/** Times of the last minutes, in ns, the oldest first. */
const times = () => Array.from({ length: 40 }, (_, i) => `${Date.now() - (40 - i) * 15_000}000000`);

test("a host by Telegraf", async () => {
  await query("CREATE DATABASE telegraf");
  const lines = times().flatMap((t, i) =>
    ["ash", "birch"].flatMap((host) => [
      `cpu,cpu=cpu-total,host=${host} usage_user=${10 + i},usage_system=5,usage_idle=${80 - i},usage_iowait=1 ${t}`,
      `mem,host=${host} used=${1e9 + i}i,available=${3e9 - i}i,cached=5000i,buffered=400i,used_percent=${25 + i / 10} ${t}`,
      `disk,host=${host},path=/,device=sda1,fstype=ext4,mode=rw used_percent=${40 + i / 10},inodes_used=${100 + i}i,inodes_total=1000i ${t}`,
      `diskio,host=${host},name=sda read_bytes=${i * 4096}i,write_bytes=${i * 8192}i,io_time=${i * 20}i ${t}`,
      `net,host=${host},interface=eth0 bytes_recv=${i * 1000}i,bytes_sent=${i * 500}i,err_in=${i}i,err_out=0i,drop_in=0i,drop_out=0i ${t}`,
      `system,host=${host} load1=${1 + i / 40},load5=0.8,load15=0.5,n_cpus=4i ${t}`,
      `system,host=${host} uptime=${5000 + 15 * i}i ${t}`,
    ]),
  );
  await write(lines.join("\n"), "telegraf");
  await full("telegraf", "telegraf");
});

test("a host by node_exporter", async () => {
  await query("CREATE DATABASE node");
  const lines = times().flatMap((t, i) => {
    const line = (name, value, labels = "") => `${name},instance=ash:9100,job=node${labels} value=${value} ${t}`;
    return [
      ...["idle", "user", "system"].map((mode, m) => line("node_cpu_seconds_total", i * (12 - 4 * m), `,cpu=0,mode=${mode}`)),
      line("node_load1", 1 + i / 40), line("node_load5", 0.8), line("node_load15", 0.5), line("node_boot_time_seconds", 1.7e9),
      line("node_memory_MemTotal_bytes", 4e9), line("node_memory_MemAvailable_bytes", 3e9 - i * 1e6),
      ...[["avail_bytes", 6e9 - i], ["size_bytes", 1e10], ["files_free", 5e5 - i], ["files", 1e6]].map(([name, v]) => line(`node_filesystem_${name}`, v, ",device=/dev/sda1,fstype=ext4,mountpoint=/")),
      ...["read_bytes", "written_bytes", "io_time_seconds"].map((name) => line(`node_disk_${name}_total`, i * 3, ",device=sda")),
      ...["receive_bytes", "transmit_bytes", "receive_errs", "transmit_errs", "receive_drop"].map((name) => line(`node_network_${name}_total`, i * 100, ",device=eth0")),
    ];
  });
  await write(lines.join("\n"), "node");
  await full("node", "node");
});

test("the server by its own figures", async (t) => {
  const origin = await ownServer(t, { TSDBD_MONITOR_STORE_ENABLED: "true", TSDBD_MONITOR_STORE_INTERVAL: "1s" });
  await fetch(`${origin}query`, { method: "POST", body: new URLSearchParams({ q: "CREATE DATABASE d" }) });
  for (let i = 0; i < 8; i++) {
    await fetch(`${origin}write?db=d`, { method: "POST", body: `m v=${i}` });
    await new Promise((done) => setTimeout(done, 700));
  }
  await full("_internal", "tsdbd", { origin, from: "now-30s" });
});

test("a cluster by what its nodes have under /metrics", async (t) => {
  const [port, peer] = [await freePort(), await freePort()];
  run(t, process.env.TSDBD_BINARY, (dir) => ["-data", dir, "-http", `127.0.0.1:${port}`, "-cluster-node", "n1", "-cluster-bind", `127.0.0.1:${peer}`, "-cluster-join", `n1=127.0.0.1:${peer}`], { TSDBD_CLUSTER_SECRET: "a secret of the story that is long enough" });
  const origin = `http://127.0.0.1:${port}/`;
  await answers(`${origin}ping`);
  const ask = (path, body) => fetch(origin + path, { method: "POST", body });
  for (let i = 0; (await (await ask("query", new URLSearchParams({ q: "CREATE DATABASE d" }))).text()).includes("error") && i < 50; i++) await new Promise((done) => setTimeout(done, 200));
  await ask("write?db=d", "m v=1");
  const scraped = (await (await fetch(`${origin}metrics`)).text()).split("\n").filter((line) => /^(tsdbd|process)_/.test(line));
  const lines = times().flatMap((at) =>
    scraped.map((line) => {
      const [, name, labels = "", value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
      const tags = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].filter(([, , v]) => v !== "").map(([, k, v]) => `,${k}=${v.replace(/[,= ]/g, "\\$&")}`);
      return `${name},instance=n1${tags.join("")} value=${Number(value)} ${at}`;
    }),
  );
  await query("CREATE DATABASE scraped");
  await write(lines.join("\n"), "scraped");
  await full("scraped", "cluster");
});

// How the server does: health, load, disk, queries, damage, settings, and nodes.

import { urlOf } from "../api/client";
import { select, type Series } from "../api/influxql";
import { isAdmin, rights } from "../api/rights";
import { ErrorBox } from "../parts/error";
import { Grid } from "../parts/grid";
import { useLoad } from "../parts/load";
import { Plot } from "../parts/plot";
import { bytes, count, goDuration } from "../parts/units";
import { frameOf, loadFigures } from "./figures";
import { loadCluster, Nodes } from "./nodes";
import { Queries } from "./queries";
import { databases, shards, total, type Sample } from "./stats";

const every = 5000;

export function Server() {
  if (rights.value === null) return <section><Health problems={[]} /></section>; // they are not known yet
  return (
    <section>
      {isAdmin() ? <Whole /> : <Queries />}
    </section>
  );
}

function Whole() {
  const stats = useLoad((signal) => select("SHOW STATS", { signal }), [], every);
  const cluster = useLoad(loadCluster, [], every);
  const { members = null, problems = [] } = cluster.data ?? {};
  const lost = stats.error ?? cluster.error;
  return (
    <>
      <Health problems={problems} />
      {lost !== null && <ErrorBox error={lost} />}
      {members !== null && <Nodes members={members} />}
      {stats.data !== null && <Load sample={stats.data} />}
      <Plots />
      <Queries />
      {stats.data !== null && <Disk sample={stats.data} />}
      <Diagnostics />
    </>
  );
}

function Health({ problems }: { problems: string[] }) {
  const health = useLoad(
    async (signal) => {
      // A server that is not ready answers with 503 and says why.
      const answer = await fetch(urlOf("health"), { signal, credentials: "omit", cache: "no-store" });
      return (await answer.json()) as { status: string; message: string };
    },
    [],
    every,
  );
  if (health.error !== null) return <ErrorBox error={health.error} />;
  const { status, message } = health.data ?? { status: "", message: "…" };
  return (
    <>
      <p class={status === "fail" || problems.length > 0 ? "error" : "good"} role="status">
        {message}
      </p>
      {problems.map((p) => <p key={p} class="error">{p}</p>)}
    </>
  );
}

function Load({ sample }: { sample: Sample }) {
  const tiles: [string, string][] = [
    ["heap", bytes(total(sample, "runtime", "HeapInUse"))],
    ["on disk", bytes(total(sample, "shard", "diskBytes"))],
    ["log", bytes(total(sample, "tsm1_wal", "currentSegmentDiskBytes") + total(sample, "tsm1_wal", "oldSegmentsDiskBytes"))],
    ["series", count(total(sample, "database", "numSeries"))],
    ["merges running", count(total(sample, "tsm1_engine", "tsmFullCompactionsActive"))],
    ["queries running", count(total(sample, "queryExecutor", "queriesActive"))],
    ["goroutines", count(total(sample, "runtime", "NumGoroutine"))],
  ];
  return (
    <dl class="tiles">
      {tiles.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

const plots: [string, string, (n: number) => string][] = [
  ["points written per second", "points_written_total", count],
  ["requests per second", "requests_total", count],
  ["queries per second", "queries_total", count],
  ["queries running", "queries_running", count],
  ["heap in use", "heap_bytes", bytes],
];

function Plots() {
  const figures = useLoad(loadFigures, [], every);
  if (figures.error !== null) return <ErrorBox error={figures.error} />;
  if (figures.data === null) return null;
  const data = figures.data;
  if (data.times.length < 3) return <p class="faint">The plots begin with the next figures, in a few seconds.</p>;
  return (
    <>
      <div class="columns">
        {plots.map(([name, figure, unit]) => (
          <figure key={name}>
            <figcaption>{name}</figcaption>
            <Plot frames={[frameOf(data, name, figure)]} height={140} label={name} unit={unit} />
          </figure>
        ))}
      </div>
      <p class="faint">The server keeps the figures of an hour in memory. With monitor.store-enabled the database _internal keeps them for longer.</p>
    </>
  );
}

function Disk({ sample }: { sample: Sample }) {
  const all = shards(sample);
  return (
    <>
      <h2>Disk</h2>
      <div class="columns">
        <Grid
          caption="By database"
          columns={["database", "shards", "files", "on disk", "in memory"]}
          rows={databases(all).map((d) => [d.db, d.shards, d.files, d.disk, d.memory])}
          show={(value, i) => (i >= 3 ? bytes(Number(value)) : value)}
        />
        <Grid
          caption="By shard"
          columns={["shard", "database", "policy", "files", "on disk", "in memory"]}
          rows={all.map((s) => [s.id, s.db, s.rp, s.files, s.disk, s.memory])}
          show={(value, i) => (i >= 4 ? bytes(Number(value)) : value)}
          pageSize={20}
        />
      </div>
    </>
  );
}

function Diagnostics() {
  const found = useLoad((signal) => select("SHOW DIAGNOSTICS", { signal }), [], 12 * every);
  if (found.error !== null) return <ErrorBox error={found.error} />;
  const all = found.data ?? [];
  const of = (name: string) => all.find((s) => s.name === name);
  const system = of("system");
  const damage = of("damage");
  const settings = all.filter((s) => s.name?.startsWith("config"));
  const value = (s: Series | undefined, column: string) => String(s?.values?.[0]?.[s.columns.indexOf(column)] ?? "");
  const damaged = Number(value(damage, "damagedFiles")) + Number(value(damage, "quarantinedFiles")) + Number(value(damage, "logSpans"));
  return (
    <>
      <h2>Damage</h2>
      {damaged === 0 ? <p class="good">No damage is known, and nothing is in quarantine.</p> : <Pairs series={damage!} />}
      <h2>Program</h2>
      <p>
        tsdbd {value(of("build"), "Version")} {value(of("build"), "Commit")}, up for {goDuration(value(system, "uptime"))}, process {value(system, "PID")} on {value(of("network"), "hostname")},{" "}
        {value(of("runtime"), "version")} {value(of("runtime"), "GOOS")}/{value(of("runtime"), "GOARCH")}
      </p>
      <h2>Settings in force</h2>
      {settings.map((s) => (
        <details key={s.name}>
          <summary>{s.name!.replace(/^config-?/, "") || "general"}</summary>
          <Pairs series={s} />
        </details>
      ))}
    </>
  );
}

/** Shows a series of one row as names and values. */
function Pairs({ series }: { series: Series }) {
  return (
    <table class="texts">
      <tbody>
        {series.columns.map((name, i) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>{String(series.values?.[0]?.[i] ?? "")}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

// How the server does: health, load, disk, queries, damage, settings, and nodes.

import { useRef } from "preact/hooks";
import { ApiError, urlOf } from "../api/client";
import { query, select, type Series } from "../api/influxql";
import { confirm } from "../parts/confirm";
import { ErrorBox } from "../parts/error";
import { Grid } from "../parts/grid";
import { useLoad } from "../parts/load";
import { Plot } from "../parts/plot";
import { bytes, count, goDuration } from "../parts/units";
import { databases, history, shards, total, type Sample } from "./stats";

const every = 5000;
const kept = 360; // half an hour

export function Server() {
  const samples = useRef<Sample[]>([]);
  const stats = useLoad(
    async (signal) => {
      const series = await select("SHOW STATS", { signal });
      samples.current = [...samples.current, { at: Date.now(), series }].slice(-kept);
      return samples.current;
    },
    [],
    every,
  );
  const nodes = useLoad((signal) => select("SHOW SERVERS", { signal }), [], every);
  const [members] = nodes.data ?? [];
  if (stats.error instanceof ApiError && stats.error.status === 403) return <p>Only an administrator sees this page.</p>;
  return (
    <section>
      <Health problems={members === undefined ? [] : problemsOf(members)} />
      {stats.error !== null && <ErrorBox error={stats.error} />}
      {stats.data !== null && <Load samples={stats.data} />}
      <Queries />
      {stats.data !== null && <Disk sample={stats.data.at(-1)!} />}
      {members !== undefined && <Nodes members={members} />}
      <Diagnostics />
    </section>
  );
}

/** What is wrong with the nodes of a cluster, as the table of SHOW SERVERS has it. */
function problemsOf(members: Series): string[] {
  const [name, problem] = [members.columns.indexOf("name"), members.columns.indexOf("problem")];
  return (members.values ?? []).filter((row) => row[problem] !== "").map((row) => `${row[name]}: ${row[problem]}`);
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

function Load({ samples }: { samples: Sample[] }) {
  const now = samples.at(-1)!;
  const tiles: [string, string][] = [
    ["heap", bytes(total(now, "runtime", "HeapInUse"))],
    ["on disk", bytes(total(now, "shard", "diskBytes"))],
    ["log", bytes(total(now, "tsm1_wal", "currentSegmentDiskBytes") + total(now, "tsm1_wal", "oldSegmentsDiskBytes"))],
    ["series", count(total(now, "database", "numSeries"))],
    ["merges running", count(total(now, "tsm1_engine", "tsmFullCompactionsActive"))],
    ["queries running", count(total(now, "queryExecutor", "queriesActive"))],
    ["goroutines", count(total(now, "runtime", "NumGoroutine"))],
  ];
  const plots: [string, string, string, boolean, (n: number) => string][] = [
    ["points written per second", "httpd", "pointsWrittenOK", true, count],
    ["requests per second", "httpd", "req", true, count],
    ["queries per second", "queryExecutor", "queriesExecuted", true, count],
    ["heap in use", "runtime", "HeapInUse", false, bytes],
  ];
  return (
    <>
      <dl class="tiles">
        {tiles.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <div class="columns">
        {samples.length < 3 && <p class="faint">The plots begin with the next figures, in a few seconds.</p>}
        {samples.length >= 3 && plots.map(([name, module, figure, rate, unit]) => (
          <figure key={name}>
            <figcaption>{name}</figcaption>
            <Plot frames={[history(samples, name, module, figure, rate)]} height={140} label={name} unit={unit} />
          </figure>
        ))}
      </div>
      <p class="faint">The plots begin when this page is opened. With monitor.store-enabled the database _internal keeps these figures.</p>
    </>
  );
}

function Queries() {
  const running = useLoad((signal) => select("SHOW QUERIES", { signal }), [], every);
  const series = running.data?.[0];
  const rows = (series?.values ?? []).filter((row) => !/^SHOW (QUERIES|STATS|SERVERS|DIAGNOSTICS)/.test(String(row[1]))); // not those of this page
  const kill = async (id: string, text: string) => {
    if (!(await confirm("Kill this query?", text, "Kill"))) return;
    await query(`KILL QUERY ${id}`, { changes: true });
    running.reload();
  };
  return (
    <>
      <h2>Running queries</h2>
      {running.error !== null && <ErrorBox error={running.error} />}
      {rows.length === 0 && <p class="faint">None.</p>}
      {rows.length > 0 && series !== undefined && (
        <Grid
          caption=""
          columns={[...series.columns, ""]}
          rows={rows.map((row) => [...row, ""])}
          show={(value, i, row) => (i < series.columns.length ? String(value ?? "") : <button type="button" class="danger" onClick={() => void kill(String(row[0]), String(row[1]))}>Kill</button>)}
        />
      )}
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

function Nodes({ members }: { members: Series }) {
  return (
    <>
      <h2>Nodes of the cluster</h2>
      <Grid caption="As the node that answers sees them" columns={members.columns} rows={members.values ?? []} />
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
    <table>
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

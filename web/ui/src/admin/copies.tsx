// What writes copies: downsamples, continuous queries and subscriptions.

import { identifier, literal, select } from "../api/influxql";
import type { Cell } from "../parts/rows";
import { bytes } from "../parts/units";
import { change, takeAway } from "./run";
import { fieldsOf, Section } from "./section";

/** The rows of all databases, each with its database before it. */
async function byDatabase(statement: string, signal: AbortSignal): Promise<Cell[][]> {
  return (await select(statement, { signal })).flatMap((s) => (s.values ?? []).map((row) => [s.name ?? "", ...row.map((v) => (Array.isArray(v) ? v.join(", ") : v))]));
}

/** What the page shows of a downsample: the heading, the column of SHOW DOWNSAMPLES, and how its values are shown. */
const downsample: [string, string, ((v: number) => string)?][] = [
  ["from", "from"],
  ["into", "into"],
  ["definition", "statement"],
  ["complete until", "complete_until"],
  ["behind", "behind"],
  ["waiting", "waiting"],
  ["back-filled", "backfilled", (v) => `${Math.floor(100 * v)} %`],
  ["rows", "rows"],
  ["on disk", "bytes", bytes],
  ["held", "held"],
  ["failing", "failing"],
  ["error", "error"],
];

export function Downsamples({ databases }: { databases: string[] }) {
  return (
    <Section
      title="Downsamples"
      columns={["database", ...downsample.map(([heading]) => heading)]}
      load={async (signal) =>
        (await select("SHOW DOWNSAMPLES", { signal })).flatMap((s) =>
          (s.values ?? []).map((row) => [
            s.name ?? "",
            ...downsample.map(([, name, show]) => {
              const value = row[s.columns.indexOf(name)] ?? null;
              return show === undefined || value === null ? value : show(Number(value));
            }),
          ]),
        )
      }
      actions={([db, from, into], act) => (
        <button type="button" class="danger" onClick={() => act(() => takeAway("Drop downsample?", `DROP DOWNSAMPLE ON ${identifier(String(db))} FROM ${identifier(String(from))} INTO ${identifier(String(into))}`, "", "Its rows stay."))}>Drop</button>
      )}
      form={(act) => (
        <form
          class="bar"
          onSubmit={(e) => {
            const f = fieldsOf(e);
            const where = f.where === "" ? "" : ` WHERE ${f.where}`;
            act(() => change(`CREATE DOWNSAMPLE ON ${identifier(f.db!)} FROM ${identifier(f.from!)} INTO ${identifier(f.into!)} EVERY ${f.every} AS ${f.functions}${where}`));
          }}
        >
          <label>Database <select name="db">{databases.map((db) => <option key={db}>{db}</option>)}</select></label>
          <label>From policy <input name="from" required size={10} /></label>
          <label>Into policy <input name="into" required size={10} /></label>
          <label>Every <input name="every" required size={6} placeholder="1h" title="such as 1h, 1mo or 1d tz('Europe/Berlin')" /></label>
          <label>Functions <input name="functions" required size={24} value="mean, min, max, count" /></label>
          <label>Where <input name="where" size={20} placeholder="all rows" /></label>
          <button type="submit">Create downsample</button>
        </form>
      )}
    />
  );
}

export function Continuous({ databases }: { databases: string[] }) {
  return (
    <Section
      title="Continuous queries"
      columns={["database", "name", "query"]}
      load={(signal) => byDatabase("SHOW CONTINUOUS QUERIES", signal)}
      actions={([db, name], act) => (
        <button type="button" class="danger" onClick={() => act(() => takeAway("Drop continuous query?", `DROP CONTINUOUS QUERY ${identifier(String(name))} ON ${identifier(String(db))}`))}>Drop</button>
      )}
      form={(act) => (
        <form
          onSubmit={(e) => {
            const f = fieldsOf(e);
            const resample = f.every === "" && f.for === "" ? "" : ` RESAMPLE${f.every === "" ? "" : ` EVERY ${f.every}`}${f.for === "" ? "" : ` FOR ${f.for}`}`;
            act(() => change(`CREATE CONTINUOUS QUERY ${identifier(f.name!)} ON ${identifier(f.db!)}${resample} BEGIN ${f.query} END`));
          }}
        >
          <div class="bar">
            <label>Database <select name="db">{databases.map((db) => <option key={db}>{db}</option>)}</select></label>
            <label>Name <input name="name" required /></label>
            <label>Every <input name="every" size={6} /></label>
            <label>For <input name="for" size={6} /></label>
          </div>
          <textarea name="query" class="code" aria-label="Query" rows={3} required placeholder='SELECT mean(v) INTO "hourly" FROM "m" GROUP BY time(1h), *' />
          <button type="submit">Create continuous query</button>
        </form>
      )}
    />
  );
}

export function Subscriptions({ databases }: { databases: string[] }) {
  return (
    <Section
      title="Subscriptions"
      columns={["database", "policy", "name", "mode", "destinations"]}
      load={(signal) => byDatabase("SHOW SUBSCRIPTIONS", signal)}
      actions={([db, rp, name], act) => (
        <button type="button" class="danger" onClick={() => act(() => takeAway("Drop subscription?", `DROP SUBSCRIPTION ${identifier(String(name))} ON ${identifier(String(db))}.${identifier(String(rp))}`))}>Drop</button>
      )}
      form={(act) => (
        <form
          class="bar"
          onSubmit={(e) => {
            const f = fieldsOf(e);
            const destinations = f.destinations!.split(/[\s,]+/).filter((d) => d !== "").map(literal).join(", ");
            act(() => change(`CREATE SUBSCRIPTION ${identifier(f.name!)} ON ${identifier(f.db!)}.${identifier(f.rp!)} DESTINATIONS ${f.mode} ${destinations}`));
          }}
        >
          <label>Database <select name="db">{databases.map((db) => <option key={db}>{db}</option>)}</select></label>
          <label>Policy <input name="rp" required value="autogen" size={10} /></label>
          <label>Name <input name="name" required /></label>
          <label>Mode <select name="mode"><option>ALL</option><option>ANY</option></select></label>
          <label>Destinations <input name="destinations" required size={40} placeholder="http://host:8086, udp://host:8089" /></label>
          <button type="submit">Create subscription</button>
        </form>
      )}
    />
  );
}

// Where the series of a database come from, and how their number grows.

import { useState } from "preact/hooks";
import { request } from "../api/client";
import type { Frame } from "../explore/frame";
import { top } from "../frame/top";
import { go, linkTo, place } from "../location";
import { ErrorBox } from "../parts/error";
import { Grid } from "../parts/grid";
import { useLoad } from "../parts/load";
import { Plot } from "../parts/plot";
import { count } from "../parts/units";

interface Count {
  name: string;
  value: number;
}

interface Status {
  totalSeries: number;
  totalLabelValuePairs: number;
  seriesCountByMetricName: Count[];
  seriesCountByLabelName: Count[];
  seriesCountByLabelValuePair: Count[];
  labelValueCountByLabelName: Count[];
}

async function status(params: Record<string, string>, signal: AbortSignal): Promise<Status> {
  const answer = await request("api/v1/status/tsdb", { params, signal });
  return ((await answer.json()) as { data: Status }).data;
}

export function Cardinality() {
  const { db } = top.value;
  const measurement = place.value.params.get("measurement") ?? "";
  return (
    <section>
      <div class="bar">
        {measurement !== "" && (
          <button type="button" onClick={() => go("cardinality", { db })}>
            {measurement} ✕
          </button>
        )}
      </div>
      {db !== "" && <Counts key={`${db} ${measurement}`} db={db} measurement={measurement} />}
      {db !== "" && <Growth key={`growth ${db} ${measurement}`} db={db} measurement={measurement} />}
    </section>
  );
}

function Counts({ db, measurement }: { db: string; measurement: string }) {
  const [top, setTop] = useState(20);
  const found = useLoad((signal) => status({ db, match: measurement, topN: String(top) }, signal), [top]);
  if (found.error !== null) return <ErrorBox error={found.error} />;
  if (found.data === null) return <p class="faint">Counting…</p>;
  const s = found.data;
  const rows = (counts: Count[]) => counts.map((c) => [c.name, c.value, s.totalSeries > 0 ? Math.round((c.value / s.totalSeries) * 1000) / 10 : 0]);
  return (
    <>
      <p>
        <strong>{count(s.totalSeries)}</strong> series, <strong>{count(s.totalLabelValuePairs)}</strong> pairs of tag and value.
      </p>
      <label class="bar">
        Show the first{" "}
        <select value={String(top)} onChange={(e) => setTop(Number(e.currentTarget.value))}>
          {[10, 20, 100, 1000].map((n) => <option key={n}>{n}</option>)}
        </select>
      </label>
      <div class="columns">
        {measurement === "" && (
          <Grid
            caption="Series by measurement"
            columns={["measurement", "series", "%"]}
            rows={rows(s.seriesCountByMetricName)}
            show={(value, i) => (i === 0 ? <a href={linkTo("cardinality", { db, measurement: String(value) })}>{value}</a> : value)}
          />
        )}
        <Grid caption="Values by tag" columns={["tag", "values"]} rows={s.labelValueCountByLabelName.map((c) => [c.name, c.value])} />
        <Grid caption="Series by tag" columns={["tag", "series", "%"]} rows={rows(s.seriesCountByLabelName)} />
        <Grid caption="Series by tag and value" columns={["tag=value", "series", "%"]} rows={rows(s.seriesCountByLabelValuePair)} />
      </div>
    </>
  );
}

const days = 14;

/** The series that had rows on each of the last days. */
function Growth({ db, measurement }: { db: string; measurement: string }) {
  const [wanted, setWanted] = useState(false);
  const found = useLoad<Frame | null>(
    async (signal) => {
      if (!wanted) return null;
      const times = new Float64Array(days);
      const values = new Float64Array(days);
      const today = Math.floor(Date.now() / 86_400_000) * 86_400_000;
      for (let i = 0; i < days; i++) {
        times[i] = today - (days - 1 - i) * 86_400_000;
        values[i] = (await status({ db, match: measurement, topN: "1", date: new Date(times[i]!).toISOString().slice(0, 10) }, signal)).totalSeries;
      }
      return { name: "series", labels: {}, times, values };
    },
    [wanted],
  );
  return (
    <>
      <h2>Growth</h2>
      {!wanted && <button type="button" onClick={() => setWanted(true)}>Count the series of each of the last {days} days</button>}
      {wanted && found.busy && <p class="faint">Counting…</p>}
      {found.error !== null && <ErrorBox error={found.error} />}
      {found.data !== null && <Plot frames={[found.data]} style="bars" height={220} label={`Series with rows on each of the last ${days} days`} />}
    </>
  );
}

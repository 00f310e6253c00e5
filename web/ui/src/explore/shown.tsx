// An answer in the view that the user has chosen.

import { useEffect, useMemo, useState } from "preact/hooks";
import { query, type Series } from "../api/influxql";
import { Branch } from "../parts/branch";
import { ErrorBox } from "../parts/error";
import { Grid } from "../parts/grid";
import { useLoad } from "../parts/load";
import type { Cell } from "../parts/rows";
import { unitOf, withUnit } from "../parts/units";
import { textOf } from "../parts/zone";
import { firstStatement } from "./context";
import { csvOf, download, linesOf } from "./download";
import { type Frame, type Measure, overTime, summaryOf, title } from "./frame";
import type { PlotOptions } from "./options";
import { Panel } from "./panel";
import { type Step, treeOf } from "./plan";
import type { Answer } from "./run";
import { change, settings, zoomIn, zoomOut } from "./state";

/** Shows an answer. What has no numbers over time is a table in place of a plot. */
export function Shown({ answer, onMore }: { answer: Answer; onMore: () => void }) {
  const { view } = settings.value;
  const plotted = view === "plot" && overTime(answer.frames);
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.key === "Escape" && !(e.target as Element).closest("input, select, textarea, dialog, .cm-editor")) zoomOut();
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, []);
  const plan = answer.results.flatMap((r) => r.series ?? []).find((s) => s.columns[0]?.startsWith("EXPLAIN ANALYZE"));
  return (
    <>
      {answer.messages.map((m, i) => <p key={i} class="message">{m.text}</p>)}
      {answer.results.map((r) => r.error !== undefined && <ErrorBox key={r.statement_id} error={new Error(r.error)} />)}
      {answer.more && (
        <p class="message">
          These are the first {answer.rows.toLocaleString("en")} rows of more. <button type="button" onClick={onMore}>Read more</button>
        </p>
      )}
      {answer.rows === 0 && answer.results.every((r) => r.error === undefined) && <p class="message">The answer has no rows.</p>}
      {view === "raw" && <pre class="raw" tabIndex={0}>{answer.raw.length >= 1_000_000 ? answer.raw.slice(0, 1_000_000) + "\n… cut after 1 MB" : answer.raw}</pre>}
      {view !== "raw" && plan !== undefined && <Tree steps={treeOf((plan.values ?? []).map((row) => String(row[0])))} />}
      {plotted && <Panel frames={answer.frames} asked={answer.range} sent={answer.sent} options={settings.value} onOptions={change} onRange={zoomIn} onOut={zoomOut} />}
      {view === "plot" && !plotted && answer.frames.length > 0 && answer.frames.length <= apart && answer.frames.every((f) => f.values.length === 1) && (
        <Numbers frames={answer.frames} sent={answer.sent} by="last" unit={settings.value.unit} />
      )}
      {view !== "raw" && !plotted && plan === undefined && answer.results.map((r) => r.series !== undefined && <Tables key={r.statement_id} series={r.series} />)}
      {answer.rows > 0 && !answer.changed && <Downloads key={answer.sent} answer={answer} />}
      {answer.lang === "influxql" && answer.frames.length > 0 && /^\s*select\b/i.test(answer.sent) && (
        <div class="analysis">
          <Branch key={answer.sent} label="How the server runs this">{() => <Analyzed answer={answer} />}</Branch>
        </div>
      )}
    </>
  );
}

/** A number for each series. */
export function Numbers({ frames, sent, by, unit: chosen }: { frames: Frame[]; sent: string; by: Measure; unit: PlotOptions["unit"] }) {
  const unit = withUnit(chosen === "auto" ? unitOf(frames.map((f) => f.name), sent) : chosen);
  return (
    <dl class="tiles">
      {frames.map((f, i) => {
        const value = summaryOf(f)[by];
        return (
          <div key={i}>
            <dt>{title(f)}</dt>
            <dd class="big">{Number.isNaN(value) ? "–" : unit(value)}</dd>
          </div>
        );
      })}
    </dl>
  );
}

/** The answer as files. */
function Downloads({ answer }: { answer: Answer }) {
  const [error, setError] = useState<Error | null>(null);
  const save = (name: string, file: Promise<Blob>) => {
    setError(null);
    file.then((blob) => download(name, blob), setError);
  };
  return (
    <>
      <div class="bar">
        <button type="button" onClick={() => save("answer.csv", csvOf(answer))}>Download CSV</button>
        {answer.frames.length > 0 && <button type="button" onClick={() => save("answer.lp", linesOf(answer))}>Download line protocol</button>}
      </div>
      {error !== null && <ErrorBox error={error} />}
    </>
  );
}

/** How many series have a table of their own; more are one table with a column for each tag. */
const apart = 12;

export function Tables({ series }: { series: Series[] }) {
  if (series.length <= apart) return <>{series.map((s, i) => <Grid key={i} caption={caption(s)} columns={s.columns} rows={s.values ?? []} show={shown(s.columns)} />)}</>;
  return <Joined series={series} />;
}

/** Many series as one table. */
function Joined({ series }: { series: Series[] }) {
  const { columns, rows } = useMemo(() => {
    const tags = [...new Set(series.flatMap((s) => Object.keys(s.tags ?? {})))];
    const names = [...new Set(series.flatMap((s) => s.columns))];
    const rows = series.flatMap((s) => {
      const at = names.map((name) => s.columns.indexOf(name));
      const head: Cell[] = [s.name ?? "", ...tags.map((t) => s.tags?.[t] ?? null)];
      return (s.values ?? []).map((row) => [...head, ...at.map((i) => (i < 0 ? null : row[i]!))]);
    });
    return { columns: ["name", ...tags, ...names], rows };
  }, [series]);
  return <Grid caption={`${series.length} series`} columns={columns} rows={rows} show={shown(columns)} />;
}

function caption(s: Series): string {
  return [s.name ?? "", ...Object.entries(s.tags ?? {}).map(([key, value]) => `${key}=${value}`)].join(" ");
}

/** Shows the times of a table as texts of the chosen zone. */
function shown(columns: string[]): (value: Cell, column: number) => string {
  const time = columns.indexOf("time");
  return (value, column) => (column === time && typeof value === "number" ? textOf(value) : value === null ? "" : String(value));
}

/** How the server ran a statement. */
function Analyzed({ answer }: { answer: Answer }) {
  const found = useLoad(async (signal) => {
    const [result] = await query(`EXPLAIN ANALYZE ${firstStatement(answer.sent)}`, { ...answer.place, signal });
    if (result?.error !== undefined) throw new Error(result.error);
    return treeOf((result?.series ?? []).flatMap((s) => (s.values ?? []).map((row) => String(row[0]))));
  }, [answer.sent]);
  if (found.error !== null) return <ErrorBox error={found.error} />;
  if (found.data === null) return <p class="faint">Running…</p>;
  return <Tree steps={found.data} />;
}

function Tree({ steps }: { steps: Step[] }) {
  return (
    <ul class="tree">
      {steps.map((step, i) => (
        <li key={i}>
          {step.children.length === 0 ? (
            step.text
          ) : (
            <details open>
              <summary>{step.text}</summary>
              <Tree steps={step.children} />
            </details>
          )}
        </li>
      ))}
    </ul>
  );
}

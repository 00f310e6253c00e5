import type { Result, Series, Value } from "../api/influxql";
import { ErrorBox } from "./error";

/** Shows the answer to one statement as tables. */
export function ResultTable({ result }: { result: Result }) {
  return (
    <>
      {result.messages?.map((m, i) => <p key={i} class="message">{m.text}</p>)}
      {result.error !== undefined && <ErrorBox error={new Error(result.error)} />}
      {result.series?.map((series, i) => <SeriesTable key={i} series={series} />)}
      {result.series === undefined && result.error === undefined && <p class="message">No rows.</p>}
    </>
  );
}

function SeriesTable({ series }: { series: Series }) {
  const tags = Object.entries(series.tags ?? {}).map(([key, value]) => `${key}=${value}`);
  return (
    <div class="scroll">
      <table>
        <caption>{[series.name ?? "", ...tags].join(" ")}</caption>
        <thead>
          <tr>{series.columns.map((name) => <th key={name} scope="col">{name}</th>)}</tr>
        </thead>
        <tbody>
          {(series.values ?? []).map((row, i) => (
            <tr key={i}>{row.map((value, k) => <td key={k} class={typeof value === "number" ? "number" : undefined}>{show(value)}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function show(value: Value): string {
  return value === null ? "" : String(value);
}

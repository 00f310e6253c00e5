// Answers as files: CSV and line protocol.

import type { Result, Value } from "../api/influxql";

/** Writes results as CSV (RFC 4180), with a column for each tag. Times are texts. */
export function toCSV(results: Result[]): string {
  const lines: string[] = [];
  for (const series of results.flatMap((r) => r.series ?? [])) {
    const tags = Object.keys(series.tags ?? {});
    lines.push(["name", ...tags, ...series.columns].map(cell).join(","));
    for (const row of series.values ?? []) {
      lines.push([series.name ?? "", ...tags.map((t) => series.tags![t]!), ...row.map((v, i) => (series.columns[i] === "time" ? time(v) : v))].map(cell).join(","));
    }
  }
  return lines.join("\r\n") + "\r\n";
}

function cell(value: Value): string {
  const text = value === null ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

function time(value: Value): Value {
  return typeof value === "number" ? new Date(value).toISOString() : value;
}

/**
 * Writes results as line protocol with times in ms. Tags are those that the answer is
 * grouped by; all other columns are fields. Series without a name or a time have no
 * lines.
 */
export function toLineProtocol(results: Result[]): string {
  const lines: string[] = [];
  for (const series of results.flatMap((r) => r.series ?? [])) {
    const at = series.columns.indexOf("time");
    if (at < 0 || series.name === undefined) continue;
    const tags = Object.entries(series.tags ?? {}).filter(([, value]) => value !== "").map(([key, value]) => `,${escape(key)}=${escape(value)}`);
    const key = series.name.replace(/[, ]/g, "\\$&") + tags.join("");
    for (const row of series.values ?? []) {
      const fields = series.columns.flatMap((name, i) => (i === at || row[i] === null ? [] : [`${escape(name)}=${field(row[i]!)}`]));
      if (fields.length > 0) lines.push(`${key} ${fields.join(",")} ${row[at]}`);
    }
  }
  return lines.join("\n") + "\n";
}

function escape(name: string): string {
  return name.replace(/[,= ]/g, "\\$&");
}

function field(value: Exclude<Value, null>): string {
  return typeof value === "string" ? `"${value.replace(/["\\]/g, "\\$&")}"` : String(value);
}

/** Hands a text to the user as a file. */
export function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

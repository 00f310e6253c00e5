// Answers as files: CSV and line protocol.

import { request } from "../api/client";
import { query, type Result, type Value } from "../api/influxql";
import type { Answer } from "./run";

/**
 * Returns an answer as CSV. The server is asked once more: the plot has times in ms, and
 * a file has them as they are.
 */
export async function csvOf(answer: Answer): Promise<Blob> {
  const results = answer.lang === "promql" ? answer.results : await query(answer.sent, answer.place);
  return new Blob([toCSV(results)], { type: "text/csv" });
}

/** Returns an answer as line protocol. The server writes that of InfluxQL: it knows the types and the tags. */
export async function linesOf(answer: Answer): Promise<Blob> {
  if (answer.lang === "promql") return new Blob([toLineProtocol(answer.results)], { type: "text/plain" });
  const file = await request("query", {
    params: { ...answer.place, read_only: "true", chunked: "true" },
    form: { q: answer.sent },
    headers: { Accept: "application/line-protocol" },
  });
  return file.blob();
}

/**
 * Writes results as one table of CSV (RFC 4180): the name, a column for each tag, and
 * the columns of all series. Times are texts.
 */
export function toCSV(results: Result[]): string {
  const all = results.flatMap((r) => r.series ?? []);
  const tags = [...new Set(all.flatMap((s) => Object.keys(s.tags ?? {})))];
  const columns = [...new Set(all.flatMap((s) => s.columns))];
  const lines = [["name", ...tags, ...columns].map(cell).join(",")];
  for (const series of all) {
    const at = columns.map((name) => series.columns.indexOf(name));
    const head = [series.name ?? "", ...tags.map((t) => series.tags?.[t] ?? "")];
    for (const row of series.values ?? []) {
      lines.push([...head, ...at.map((i) => (i < 0 ? null : series.columns[i] === "time" ? time(row[i]!) : row[i]!))].map(cell).join(","));
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
 * Writes results of PromQL as line protocol: times in ms become ns. Labels are tags.
 * Series without a name have no lines.
 */
export function toLineProtocol(results: Result[]): string {
  const lines: string[] = [];
  for (const series of results.flatMap((r) => r.series ?? [])) {
    const at = series.columns.indexOf("time");
    if (at < 0 || !series.name) continue;
    const tags = Object.entries(series.tags ?? {}).filter(([, value]) => value !== "").map(([key, value]) => `,${escape(key)}=${escape(value)}`);
    const key = series.name.replace(/[, ]/g, "\\$&") + tags.join("");
    for (const row of series.values ?? []) {
      const fields = series.columns.flatMap((name, i) => (i === at || row[i] === null ? [] : [`${escape(name)}=${row[i]}`]));
      if (fields.length > 0) lines.push(`${key} ${fields.join(",")} ${BigInt(Math.round(Number(row[at]))) * 1_000_000n}`);
    }
  }
  return lines.join("\n") + "\n";
}

function escape(name: string): string {
  return name.replace(/[,= ]/g, "\\$&");
}

/** Hands a file to the user. */
export function download(name: string, file: Blob): void {
  const url = URL.createObjectURL(file);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// Runs what Explore asks.

import { request } from "../api/client";
import { queryRaw, type Message, type Result } from "../api/influxql";
import { fill, intervalOf, rangeOf, type Range } from "./range";
import { framesOf, framesOfPromQL, type Frame, type PromData } from "./frame";
import type { Settings } from "./state";

/** The answer to what Explore asked. */
export interface Answer {
  range: Range;
  frames: Frame[];
  results: Result[]; // of InfluxQL; for PromQL a table of the frames
  messages: Message[];
  raw: string; // the answer as it came
  /** What was sent, and for how long the page waited. */
  sent: string;
  took: number; // ms
  rows: number;
}

/** Asks the server. pixels is the width of the plot, which chooses $interval. */
export async function run(s: Settings, pixels: number, signal: AbortSignal): Promise<Answer> {
  const range = rangeOf(s.from, s.to);
  const interval = intervalOf(range, pixels);
  const begin = performance.now();
  const answer = s.lang === "influxql" ? await runInfluxQL(s, range, interval, signal) : await runPromQL(s, range, interval, signal);
  const rows = answer.results.reduce((sum, r) => sum + (r.series ?? []).reduce((n, series) => n + (series.values?.length ?? 0), 0), 0);
  return { ...answer, range, took: performance.now() - begin, rows };
}

type Part = Pick<Answer, "frames" | "results" | "messages" | "sent" | "raw">;

async function runInfluxQL(s: Settings, range: Range, interval: number, signal: AbortSignal): Promise<Part> {
  const sent = fill(s.text, range, interval);
  const { results, raw } = await queryRaw(sent, { db: s.db, rp: s.rp, epoch: "ms", signal });
  return { sent, raw, results, frames: framesOf(results), messages: results.flatMap((r) => r.messages ?? []) };
}

async function runPromQL(s: Settings, range: Range, interval: number, signal: AbortSignal): Promise<Part> {
  const sent = fill(s.text, range, interval);
  const step = Math.max(interval, 1000) / 1000;
  const answer = await request("api/v1/query_range", {
    form: { query: sent, start: String(range.from / 1000), end: String(range.to / 1000), step: String(step), db: s.db, rp: s.rp },
    signal,
  });
  const raw = await answer.text();
  const { data, warnings = [], infos = [] } = JSON.parse(raw) as { data: PromData; warnings?: string[]; infos?: string[] };
  const frames = framesOfPromQL(data);
  const results: Result[] = [
    { statement_id: 0, series: frames.map((f) => ({ name: f.name, tags: f.labels, columns: ["time", "value"], values: Array.from(f.times, (t, i) => [t, Number.isNaN(f.values[i]) ? null : f.values[i]!]) })) },
  ];
  return { sent, raw, frames, results, messages: [...warnings.map((text) => ({ level: "warning", text })), ...infos.map((text) => ({ level: "info", text }))] };
}

// What a plot shows: series of numbers over time, from InfluxQL and from PromQL.

import type { Result, Series } from "../api/influxql";
import type { Range } from "./range";

/** A series of numbers. A value that is NaN is a gap. */
export interface Frame {
  name: string;
  labels: Record<string, string>;
  times: Float64Array; // ms since the epoch, ascending
  values: Float64Array;
}

/** Returns the name of a frame with its labels, as a legend shows it. */
export function title(frame: Frame): string {
  const labels = Object.entries(frame.labels).filter(([, value]) => value !== "").map(([key, value]) => `${key}=${value}`);
  return labels.length === 0 ? frame.name : `${frame.name} ${labels.join(" ")}`;
}

/** What a legend says of the values of a frame; NaN if there are none. */
export type Summary = Record<Measure, number>;
export const measures = ["last", "min", "mean", "max"] as const;
export type Measure = (typeof measures)[number];

export function summaryOf(frame: Frame): Summary {
  let [last, min, max, sum, n] = [NaN, Infinity, -Infinity, 0, 0];
  for (const value of frame.values) {
    if (!Number.isFinite(value)) continue;
    last = value;
    min = Math.min(min, value);
    max = Math.max(max, value);
    sum += value;
    n++;
  }
  return n === 0 ? { last: NaN, min: NaN, mean: NaN, max: NaN } : { last, min, mean: sum / n, max };
}

/** Returns the places of summaries, from the greatest measure to the least, and those without one. */
export function ranked(summaries: Summary[], by: Measure): number[] {
  const value = (i: number) => (Number.isNaN(summaries[i]![by]) ? -Infinity : summaries[i]![by]);
  return summaries.map((_, i) => i).sort((a, b) => (value(a) === value(b) ? a - b : value(b) - value(a)));
}

/** Whether some frame has values at two times: only then is there something to plot. */
export function overTime(frames: Frame[]): boolean {
  return frames.some((f) => f.times.length > 1 && f.times[0] !== f.times[f.times.length - 1]);
}

/** Returns the range to plot: the one that was asked for, or that of the frames if they have no time in it. */
export function plotted(frames: Frame[], asked: Range): Range {
  let [from, to] = [Infinity, -Infinity];
  for (const { times } of frames) {
    if (times.some((t) => t >= asked.from && t <= asked.to)) return asked;
    from = Math.min(from, times[0] ?? Infinity);
    to = Math.max(to, times[times.length - 1] ?? -Infinity);
  }
  return from <= to ? { from, to } : asked;
}

/** Turns results whose times are in ms into frames: one for each series and column of numbers. */
export function framesOf(results: Result[]): Frame[] {
  const frames: Frame[] = [];
  for (const result of results) for (const series of result.series ?? []) frames.push(...framesOfSeries(series));
  return frames;
}

function framesOfSeries(series: Series): Frame[] {
  const rows = series.values ?? [];
  const time = series.columns.indexOf("time");
  if (time < 0 || rows.length === 0 || typeof rows[0]![time] !== "number") return [];
  // A descending answer is turned round: plots go from left to right.
  const last = rows.length - 1;
  const back = Number(rows[0]![time]) > Number(rows[last]![time]);
  const frames: Frame[] = [];
  series.columns.forEach((column, c) => {
    if (c === time || !rows.some((row) => typeof row[c] === "number" || typeof row[c] === "boolean")) return;
    const times = new Float64Array(rows.length);
    const values = new Float64Array(rows.length);
    for (let i = 0; i <= last; i++) {
      const row = rows[back ? last - i : i]!;
      const value = row[c];
      times[i] = row[time] as number;
      values[i] = typeof value === "number" ? value : typeof value === "boolean" ? Number(value) : NaN;
    }
    frames.push({ name: series.name === undefined ? column : `${series.name}.${column}`, labels: series.tags ?? {}, times, values });
  });
  return frames;
}

/** An answer of /api/v1/query or /api/v1/query_range. */
export interface PromData {
  resultType: "matrix" | "vector" | "scalar" | "string";
  result: unknown;
}

type Sample = [number, string];

/** Turns an answer of PromQL into frames. */
export function framesOfPromQL(data: PromData): Frame[] {
  if (data.resultType === "scalar" || data.resultType === "string") return [promFrame({}, [data.result as Sample])];
  const result = data.result as { metric: Record<string, string>; values?: Sample[]; value?: Sample }[];
  return result.filter((s) => s.values !== undefined || s.value !== undefined).map((s) => promFrame(s.metric, s.values ?? [s.value!]));
}

function promFrame({ __name__: name = "", ...labels }: Record<string, string>, samples: Sample[]): Frame {
  return { name, labels, times: Float64Array.from(samples, ([t]) => t * 1000), values: Float64Array.from(samples, ([, v]) => number(v)) };
}

function number(text: string): number {
  return text === "+Inf" ? Infinity : text === "-Inf" ? -Infinity : Number(text);
}

/**
 * Joins frames by time, as a plot needs them: one list of times, and for each frame
 * its values at these times. undefined is a time that the frame does not have, null
 * a gap.
 */
export function join(frames: Frame[]): { times: Float64Array; columns: (number | null | undefined)[][] } {
  const first = frames[0]?.times ?? new Float64Array();
  const equal = frames.every((f) => f.times.length === first.length && (f.times === first || f.times.every((t, i) => t === first[i])));
  const times = equal ? first : Float64Array.from(new Set(frames.flatMap((f) => Array.from(f.times)))).sort();
  const columns = frames.map((f) => {
    if (equal) return Array.from(f.values, gap);
    const column = new Array<number | null | undefined>(times.length).fill(undefined);
    let at = 0;
    f.times.forEach((t, i) => {
      while (times[at]! < t) at++;
      column[at] = gap(f.values[i]!);
    });
    return column;
  });
  return { times, columns };
}

function gap(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

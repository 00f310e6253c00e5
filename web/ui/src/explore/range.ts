// Time ranges: texts such as now-1h or 2026-01-05T00:00:00Z, and what a statement
// gets for the placeholders $timeFilter and $interval.

import { timeIn } from "../parts/zone";

const units: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** The start and the end of a range, in ms since the epoch. */
export interface Range {
  from: number;
  to: number;
}

/** Returns the time of a text in ms. It throws if the text is not a time. */
export function timeOf(text: string, now: number): number {
  const relative = /^now(?:\s*([-+])\s*(\d+)(ms|[smhdw]))?$/.exec(text.trim());
  if (relative !== null) {
    const [, sign, count, unit] = relative;
    if (sign === undefined) return now;
    return now + (sign === "-" ? -1 : 1) * Number(count) * units[unit!]!;
  }
  if (/^-?\d{1,16}$/.test(text.trim())) return Number(text);
  const absolute = timeIn(text);
  if (Number.isNaN(absolute)) throw new Error(`"${text}" is not a time. Examples: now-6h, 2026-01-05, 2026-01-05T12:30:00Z`);
  return absolute;
}

/** Returns the range of two texts. It throws if the end is not after the start. */
export function rangeOf(from: string, to: string, now = Date.now()): Range {
  const range = { from: timeOf(from, now), to: timeOf(to, now) };
  if (range.to <= range.from) throw new Error(`the range ends at ${to}, which is not after its start ${from}`);
  return range;
}

const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 10_800_000, 21_600_000, 43_200_000, 86_400_000, 172_800_000, 604_800_000, 2_592_000_000];

/** Returns a round window in ms that gives a plot about a value for every other pixel. */
export function intervalOf(range: Range, pixels: number): number {
  const least = (range.to - range.from) / Math.max(50, pixels / 2);
  return steps.find((s) => s >= least) ?? Math.ceil(least / 86_400_000) * 86_400_000;
}

/** Writes a duration as InfluxQL and PromQL do. */
export function durationText(ms: number): string {
  for (const unit of ["w", "d", "h", "m", "s"]) if (ms % units[unit]! === 0 && ms > 0) return `${ms / units[unit]!}${unit}`;
  return `${ms}ms`;
}

/** Puts the range into a statement. */
export function fill(text: string, range: Range, interval: number): string {
  return text
    .replace(/\$timeFilter\b/g, `time >= ${range.from}ms AND time <= ${range.to}ms`)
    .replace(/\$(?:__)?interval\b/g, durationText(interval));
}

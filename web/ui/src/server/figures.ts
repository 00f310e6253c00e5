// The figures of the last hour, which the server keeps.

import { request } from "../api/client";
import type { Frame } from "../explore/frame";

export interface Figures {
  times: number[]; // ms
  figures: Record<string, number[]>;
}

/** Asks for the figures. */
export async function loadFigures(signal: AbortSignal): Promise<Figures> {
  return (await (await request("api/figures", { signal })).json()) as Figures;
}

/** Returns a figure over time; of a count since the start, how much it grew in a second. */
export function frameOf({ times, figures }: Figures, name: string, figure: string): Frame {
  const values = figures[figure] ?? [];
  if (!figure.endsWith("_total")) return { name, labels: {}, times: Float64Array.from(times), values: Float64Array.from(values) };
  const rates = values.slice(1).map((v, i) => (v - values[i]!) / Math.max(0.001, (times[i + 1]! - times[i]!) / 1000));
  return { name, labels: {}, times: Float64Array.from(times.slice(1)), values: Float64Array.from(rates) };
}

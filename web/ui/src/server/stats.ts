// The figures of the server, from SHOW STATS, and what they were since the page is open.

import type { Series } from "../api/influxql";
import type { Frame } from "../explore/frame";

/** The figures at one moment. */
export interface Sample {
  at: number; // ms
  series: Series[];
}

/** Returns the sum of a figure over all series of a module. */
export function total(sample: Sample, module: string, figure: string): number {
  let sum = 0;
  for (const s of sample.series) {
    const i = s.name === module ? s.columns.indexOf(figure) : -1;
    if (i >= 0) sum += Number(s.values?.[0]?.[i] ?? 0);
  }
  return sum;
}

/** Returns a figure over time. With perSecond it is the rate between two samples. */
export function history(samples: Sample[], name: string, module: string, figure: string, perSecond: boolean): Frame {
  const values = samples.map((s) => total(s, module, figure));
  const times = samples.map((s) => s.at);
  if (!perSecond) return { name, labels: {}, times: Float64Array.from(times), values: Float64Array.from(values) };
  // A restart of the server begins the count again.
  const rates = values.slice(1).map((v, i) => Math.max(0, v - values[i]!) / ((times[i + 1]! - times[i]!) / 1000));
  return { name, labels: {}, times: Float64Array.from(times.slice(1)), values: Float64Array.from(rates) };
}

/** A shard: what it holds and where. */
export interface Shard {
  id: string;
  db: string;
  rp: string;
  disk: number;
  memory: number;
  files: number;
}

/** Returns the shards of a sample, the largest first. */
export function shards(sample: Sample): Shard[] {
  const found = new Map<string, Shard>();
  for (const s of sample.series) {
    if (s.tags?.id === undefined) continue;
    const { id, database: db = "", retentionPolicy: rp = "" } = s.tags;
    const shard = found.get(id) ?? { id, db, rp, disk: 0, memory: 0, files: 0 };
    found.set(id, shard);
    const value = (figure: string) => Number(s.values?.[0]?.[s.columns.indexOf(figure)] ?? 0);
    if (s.name === "shard") shard.disk = value("diskBytes");
    if (s.name === "tsm1_cache") shard.memory = value("memBytes");
    if (s.name === "tsm1_filestore") shard.files = value("numFiles");
  }
  return [...found.values()].toSorted((a, b) => b.disk - a.disk);
}

/** Adds up what the shards of each database take. */
export function databases(of: Shard[]): { db: string; shards: number; disk: number; memory: number; files: number }[] {
  const sums = new Map<string, { db: string; shards: number; disk: number; memory: number; files: number }>();
  for (const s of of) {
    const sum = sums.get(s.db) ?? { db: s.db, shards: 0, disk: 0, memory: 0, files: 0 };
    sums.set(s.db, { db: s.db, shards: sum.shards + 1, disk: sum.disk + s.disk, memory: sum.memory + s.memory, files: sum.files + s.files });
  }
  return [...sums.values()].toSorted((a, b) => b.disk - a.disk);
}

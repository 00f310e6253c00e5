// The figures of the server at one moment, from SHOW STATS.

import type { Series } from "../api/influxql";

export type Sample = Series[];

/** Returns the sum of a figure over all series of a module. */
export function total(sample: Sample, module: string, figure: string): number {
  let sum = 0;
  for (const s of sample) {
    const i = s.name === module ? s.columns.indexOf(figure) : -1;
    if (i >= 0) sum += Number(s.values?.[0]?.[i] ?? 0);
  }
  return sum;
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
  for (const s of sample) {
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

import { expect, test } from "vitest";
import { databases, shards, total, type Sample } from "./stats";

const sample: Sample = [
  { name: "shard", tags: { database: "a", id: "1", retentionPolicy: "r" }, columns: ["diskBytes"], values: [[100]] },
  { name: "tsm1_cache", tags: { database: "a", id: "1", retentionPolicy: "r" }, columns: ["memBytes"], values: [[7]] },
  { name: "tsm1_filestore", tags: { database: "a", id: "1", retentionPolicy: "r" }, columns: ["diskBytes", "numFiles"], values: [[100, 2]] },
  { name: "shard", tags: { database: "a", id: "2", retentionPolicy: "r" }, columns: ["diskBytes"], values: [[300]] },
  { name: "shard", tags: { database: "b", id: "3", retentionPolicy: "r" }, columns: ["diskBytes"], values: [[50]] },
];

test("figures", () => {
  expect(total(sample, "shard", "diskBytes")).toBe(450);
  expect(total(sample, "nosuch", "x")).toBe(0);
});

test("shards and databases", () => {
  const all = shards(sample);
  expect(all.map((s) => [s.id, s.disk, s.memory, s.files])).toEqual([["2", 300, 0, 0], ["1", 100, 7, 2], ["3", 50, 0, 0]]);
  expect(databases(all)).toEqual([{ db: "a", shards: 2, disk: 400, memory: 7, files: 2 }, { db: "b", shards: 1, disk: 50, memory: 0, files: 0 }]);
});

import { expect, test } from "vitest";
import { treeOf } from "./plan";

test("a tree of lines", () => {
  expect(treeOf([".", "└── select", "    ├── series: 1", "    ├── operators", "    │   └── fold: 43µs", "    │       └── 1 shard", "    └── storage", "        └── shard 1"])).toEqual([
    {
      text: "select",
      children: [
        { text: "series: 1", children: [] },
        { text: "operators", children: [{ text: "fold: 43µs", children: [{ text: "1 shard", children: [] }] }] },
        { text: "storage", children: [{ text: "shard 1", children: [] }] },
      ],
    },
  ]);
  expect(treeOf([])).toEqual([]);
});

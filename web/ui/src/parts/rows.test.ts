import { expect, test } from "vitest";
import { compareValues, pageOf } from "./rows";

test("order of cells", () => {
  expect(["b", null, "a10", "a9"].toSorted(compareValues)).toEqual([null, "a9", "a10", "b"]);
  expect([10, 9, null, -1].toSorted(compareValues)).toEqual([null, -1, 9, 10]);
});

test("pages", () => {
  const rows = [1, 2, 3, 4, 5];
  expect(pageOf(rows, 1, 2)).toEqual({ rows: [3, 4], first: 2, page: 1, pages: 3 });
  expect(pageOf(rows, 9, 2)).toEqual({ rows: [5], first: 4, page: 2, pages: 3 });
  expect(pageOf([], 0, 2)).toEqual({ rows: [], first: 0, page: 0, pages: 1 });
});

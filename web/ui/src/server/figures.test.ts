import { expect, test } from "vitest";
import { frameOf } from "./figures";

test("a figure, and the rate of a count", () => {
  const figures = { times: [0, 10_000, 20_000, 20_500], figures: { heap_bytes: [1, 2, 3, 4], requests_total: [5, 5, 25, 30] } };
  const heap = frameOf(figures, "heap", "heap_bytes");
  expect([[...heap.times], [...heap.values]]).toEqual([[0, 10_000, 20_000, 20_500], [1, 2, 3, 4]]);
  const rate = frameOf(figures, "requests", "requests_total");
  expect([[...rate.times], [...rate.values]]).toEqual([[10_000, 20_000, 20_500], [0, 2, 10]]);
  expect(frameOf(figures, "none", "nosuch").values.length).toBe(0);
});

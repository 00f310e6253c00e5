import { expect, test } from "vitest";
import { framesOf, framesOfPromQL, join, overTime, plotted, ranked, summaryOf, title } from "./frame";

test("a frame for each series and column of numbers", () => {
  const frames = framesOf([
    {
      statement_id: 0,
      series: [
        { name: "cpu", tags: { host: "a", dc: "" }, columns: ["time", "user", "state", "on"], values: [[1, 1.5, "ok", true], [2, null, "ok", false]] },
        { name: "cpu", tags: { host: "b" }, columns: ["time", "user"], values: [[2, 7], [1, 6]] },
        { columns: ["name"], values: [["demo"]] },
      ],
    },
  ]);
  expect(frames.map((f) => [title(f), [...f.times], [...f.values]])).toEqual([
    ["cpu.user host=a", [1, 2], [1.5, NaN]],
    ["cpu.on host=a", [1, 2], [1, 0]],
    ["cpu.user host=b", [1, 2], [6, 7]],
  ]);
});

test("frames of PromQL", () => {
  const [frame] = framesOfPromQL({ resultType: "matrix", result: [{ metric: { __name__: "up", job: "x" }, values: [[1.5, "1"], [2, "NaN"], [3, "+Inf"]] }] });
  expect([title(frame!), [...frame!.times], [...frame!.values]]).toEqual(["up job=x", [1500, 2000, 3000], [1, NaN, Infinity]]);
  expect(framesOfPromQL({ resultType: "scalar", result: [1, "2"] })[0]!.values[0]).toBe(2);
  expect(framesOfPromQL({ resultType: "vector", result: [{ metric: {}, value: [1, "3"] }] })[0]!.values[0]).toBe(3);
});

test("frames are joined by time", () => {
  const f = (times: number[], values: number[]) => ({ name: "", labels: {}, times: Float64Array.from(times), values: Float64Array.from(values) });
  expect(join([f([1, 2], [1, NaN]), f([1, 2], [3, 4])])).toEqual({ times: Float64Array.of(1, 2), columns: [[1, null], [3, 4]] });
  expect(join([f([1, 3], [1, 2]), f([2, 3], [3, Infinity])])).toEqual({ times: Float64Array.of(1, 2, 3), columns: [[1, undefined, 2], [undefined, 3, null]] });
  expect(join([])).toEqual({ times: new Float64Array(), columns: [] });
});

test("a legend has figures of each frame, and the greatest come first", () => {
  const f = (...values: number[]) => ({ name: "", labels: {}, times: Float64Array.from(values, (_, i) => i), values: Float64Array.from(values) });
  const summaries = [f(1, NaN, 3), f(), f(9, 2, Infinity), f(-5, -1)].map(summaryOf);
  expect(summaries).toEqual([
    { last: 3, min: 1, mean: 2, max: 3 },
    { last: NaN, min: NaN, mean: NaN, max: NaN },
    { last: 2, min: 2, mean: 5.5, max: 9 },
    { last: -1, min: -5, mean: -3, max: -1 },
  ]);
  expect([ranked(summaries, "last"), ranked(summaries, "max")]).toEqual([[0, 2, 3, 1], [2, 0, 3, 1]]);
});

test("what has no values over time is no plot, and what lies elsewhere is plotted there", () => {
  const f = (...times: number[]) => ({ name: "", labels: {}, times: Float64Array.from(times), values: Float64Array.from(times) });
  expect([[], [f(5)], [f(5, 5)], [f(5), f(1, 2)]].map(overTime)).toEqual([false, false, false, true]);
  const asked = { from: 10, to: 20 };
  expect([plotted([f(1, 2), f(3, 15)], asked), plotted([f(1, 2), f(30)], asked), plotted([f()], asked)]).toEqual([asked, { from: 1, to: 30 }, asked]);
});

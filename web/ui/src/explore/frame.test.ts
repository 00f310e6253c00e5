import { expect, test } from "vitest";
import { framesOf, framesOfPromQL, join, title } from "./frame";

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

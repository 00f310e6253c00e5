import { expect, test } from "vitest";
import { refusalsOf } from "./refusal";

test("refused lines have numbers", () => {
  const lines = ["m v=1", "m v=", "m v=2", "m v=", "x"];
  expect(refusalsOf("unable to parse 'm v=': missing field value\nunable to parse 'm v=': missing field value\nunable to parse 'x': missing fields", lines, 11)).toEqual([
    { line: 12, text: "missing field value: m v=" },
    { line: 14, text: "missing field value: m v=" },
    { line: 15, text: "missing fields: x" },
  ]);
  expect(refusalsOf("partial write: field type conflict", lines, 1)).toEqual([{ line: 0, text: "partial write: field type conflict" }]);
});

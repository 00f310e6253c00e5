import { expect, test } from "vitest";
import { guess, parseCSV, toLines, type Role } from "./csv";

test("cells of CSV", () => {
  expect(parseCSV('a,b\r\n1,"x ""y"", z"\n\n2,"two\nlines"')).toEqual([["a", "b"], ["1", 'x "y", z'], ["2", "two\nlines"]]);
  expect(parseCSV("a;b\n1,5;2\n")).toEqual([["a", "b"], ["1,5", "2"]]);
  expect(parseCSV("")).toEqual([]);
});

test("roles of columns", () => {
  const rows = [["2026-01-05", "a", "1.5", "true", ""]];
  expect(guess(["time", "host", "v", "on", "note"], rows)).toEqual(["time", "tag", "field", "field", "tag"]);
});

test("lines and refused rows", () => {
  const header = ["time", "host", "v", "note"];
  const roles: Role[] = ["time", "tag", "field", "field"];
  const { lines, refused } = toLines(header, [["2026-01-05T00:00:00.5Z", "a b", "1", 'x"y'], ["1767571200", "", "", "z"], ["never", "a", "1", ""], ["1", "a", "", ""], ["1", "a", "2", "", "more"]], { measurement: "m n", roles });
  expect(lines).toEqual(['m\\ n,host=a\\ b v=1,note="x\\"y" 1767571200500000000', 'm\\ n note="z" 1767571200000000000']);
  expect(refused).toEqual([{ row: 4, reason: '"never" is not a time' }, { row: 5, reason: "no field has a value" }, { row: 6, reason: "5 cells, but 4 columns" }]);
  expect(toLines(["v"], [["1"]], { measurement: "", roles: ["field"] }).refused).toEqual([{ row: 2, reason: "no measurement" }]);
});

import { expect, test } from "vitest";
import { identifier, literal, parse } from "./influxql";

test("integers that a number cannot hold stay exact", () => {
  const f = (values: string) => parse(`{"results":[{"statement_id":0,"series":[{"columns":["v"],"values":[[${values}]]}]}]}`).results[0]!.series![0]!.values![0];
  expect(f("1,-1.5,null,true")).toEqual([1, -1.5, null, true]);
  expect(f('9223372036854775807,-9223372036854775808,1e300,"9223372036854775807, x"')).toEqual(["9223372036854775807", "-9223372036854775808", 1e300, "9223372036854775807, x"]);
  expect(f("9007199254740991,12345678901234567.25")).toEqual([9007199254740991, 12345678901234567.25]);
});

test("quotes", () => {
  expect(identifier('a "b" \\ c')).toBe('"a \\"b\\" \\\\ c"');
  expect(literal("it's")).toBe("'it\\'s'");
});

import { expect, test } from "vitest";
import { linesOf } from "./lines";

test("a line ends where no value is open", () => {
  for (const lines of [
    ["m v=1 1", "m v=2 2"],
    ['m text="a\nb",v=1 1', "m v=2 2"],
    ['m text="a\\"\n" 1', "m v=2 2"],
    ['m,host=a\\ b" v=1', 'm,host=" v=2'],
    ["# it's \"open", "m v=1"],
    ["", "m v=1", ""],
  ])
    expect(linesOf(lines.join("\n"))).toEqual(lines);
});

test("a value that nothing closes takes no other line with it", () => {
  expect(linesOf('m text="a\nm v=1')).toEqual(['m text="a', "m v=1"]);
});

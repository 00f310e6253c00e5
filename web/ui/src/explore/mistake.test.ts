import { expect, test } from "vitest";
import { mistakeOf } from "./mistake";

test("the place of a mistake", () => {
  const f = (text: string, message: string) => {
    const m = mistakeOf(text, message);
    return m === null ? null : text.slice(m.from, m.to);
  };
  expect(f("SELECT FROM cpu", "error parsing query: found FROM, expected identifier at line 1, char 8")).toBe("FROM");
  expect(f("SELECT a\nFORM cpu", "found FORM, expected FROM at line 2, char 1")).toBe("FORM");
  expect(f("SELECT a", "found EOF, expected FROM at line 1, char 10")).toBe("a");
  expect(f("rate(x[5m]", 'invalid parameter "query": 1:11: parse error: unclosed left parenthesis')).toBe("]");
  expect(f("SELECT a FROM b", "database not found: x")).toBe(null);
  expect(f("x", "at line 9, char 1")).toBe(null);
});

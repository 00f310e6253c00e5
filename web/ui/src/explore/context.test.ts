import { expect, test } from "vitest";
import { contextAt, firstStatement, sourceOf, type Wanted } from "./context";

// The bar is the cursor.
function at(text: string) {
  const pos = text.indexOf("|");
  const c = contextAt(text.replace("|", ""), pos);
  return { wanted: c.wanted, typed: text.slice(c.from, pos), source: c.source };
}

const cases: [string, Wanted, string, string][] = [
  ["|", { kind: "keyword" }, "", ""],
  ["SEL|", { kind: "keyword" }, "SEL", ""],
  ["SELECT | FROM cpu", { kind: "column" }, "", "cpu"],
  ["SELECT mean(us|) FROM cpu", { kind: "column" }, "us", "cpu"],
  ['SELECT "us|', { kind: "column" }, '"us', ""],
  ['SELECT "user" |', { kind: "keyword" }, "", ""],
  ["SELECT a, | FROM cpu", { kind: "column" }, "", "cpu"],
  ["SELECT a FROM |", { kind: "source" }, "", ""],
  ['SELECT a FROM db.autogen."c|', { kind: "source" }, '"c', "db.autogen."],
  ["SELECT a FROM cpu |", { kind: "keyword" }, "", "cpu"],
  ["SELECT a FROM cpu WHERE |", { kind: "tag" }, "", "cpu"],
  ["SELECT a FROM cpu WHERE ho|", { kind: "tag" }, "ho", "cpu"],
  ['SELECT a FROM cpu WHERE "host" = |', { kind: "value", tag: "host" }, "", "cpu"],
  ["SELECT a FROM cpu WHERE host = 'a|", { kind: "value", tag: "host" }, "'a", "cpu"],
  ["SELECT a FROM cpu WHERE host = 'a' AND |", { kind: "tag" }, "", "cpu"],
  ["SELECT a FROM cpu GROUP BY time(1m), |", { kind: "tag" }, "", "cpu"],
  ["SHOW TAG KEYS ON |", { kind: "database" }, "", ""],
  ["SHOW TAG VALUES FROM | WITH KEY = host", { kind: "source" }, "", ""],
  ["SELECT a FROM b; SELECT | FROM c", { kind: "column" }, "", "c"],
  ["SELECT a FROM b; SEL|", { kind: "keyword" }, "SEL", ""],
  ["DROP MEASUREMENT |", { kind: "source" }, "", ""],
];

test.each(cases)("%s", (text, wanted, typed, source) => expect(at(text)).toEqual({ wanted, typed, source }));

test("the source of a statement", () => {
  expect(sourceOf('SELECT * FROM "a b"."r".cpu WHERE x = 1')).toBe('"a b"."r".cpu');
  expect(sourceOf("SELECT * FROM (SELECT a FROM b)")).toBe("");
  expect(sourceOf("SHOW DATABASES; SELECT a FROM b")).toBe("");
});

test("the first statement ends at a semicolon between words", () => {
  expect(firstStatement("SELECT 1; DROP x")).toBe("SELECT 1");
  for (const text of ["SELECT a FROM m", `SELECT "a;b" FROM m WHERE t = ';' AND h =~ /a;b\\/;/`, "SELECT a -- x; y\nFROM m", "SELECT a /* ; */ FROM m"]) {
    expect(firstStatement(text)).toBe(text);
    expect(firstStatement(`${text};DROP x`)).toBe(text);
  }
});

import { expect, test } from "vitest";
import { chosenOf, filled, type Values } from "./variables";

const values: Values = { host: ["a", "b"], one: ["a"], all: [], n: ["10"], w: ["5m"], evil: [`a' OR '1'='1`], quote: [`a"; DROP DATABASE x --`], slash: ["a/ OR /b\\"], dots: ["a.b|c"], line: ["a\nb"] };
const ql = (text: string) => filled("influxql", text, values);
const prom = (text: string) => filled("promql", text, values);

test.each([
  ["WHERE host =~ $host", "WHERE host =~ /^(a|b)$/"],
  ["WHERE host =~ $one", "WHERE host =~ /^(a)$/"],
  ["WHERE host !~ ${all}", "WHERE host !~ /^.*$/"],
  ["WHERE host =~ /^$host$/", "WHERE host =~ /^(a|b)$/"],
  ["WHERE host =~ /^x-${one}_$/", "WHERE host =~ /^x-a_$/"],
  ["WHERE host = $one", "WHERE host = 'a'"],
  ["WHERE host = '$one' AND d = \"$one\"", "WHERE host = 'a' AND d = \"a\""],
  ["SELECT mean($one) FROM $host GROUP BY $one, time($w)", 'SELECT mean("a") FROM /^(a|b)$/ GROUP BY "a", time(5m)'],
  ["x > $n LIMIT $n", "x > 10 LIMIT 10"],
  ["SELECT a / $n, b/2 FROM /$one/", "SELECT a / 10, b/2 FROM /a/"],
  ["-- $host\nSELECT /* $host */ 1", "-- $host\nSELECT /* $host */ 1"],
  ["$timeFilter $interval $hosts $1 'a$'", "$timeFilter $interval $hosts $1 'a$'"],
])("InfluxQL %s", (text, want) => expect(ql(text)).toBe(want));

// A value of any text stays within its quotes.
test.each([
  ["host = $evil", `host = 'a\\' OR \\'1\\'=\\'1'`],
  ["host = '$evil'", `host = 'a\\' OR \\'1\\'=\\'1'`],
  ["FROM $quote", `FROM "a\\"; DROP DATABASE x --"`],
  [`FROM "$quote"`, `FROM "a\\"; DROP DATABASE x --"`],
  ["host =~ $slash", "host =~ /^(a\\/ OR \\/b\\\\)$/"],
  ["host =~ /$slash/", "host =~ /a\\/ OR \\/b\\\\/"],
  ["host =~ /$dots/", "host =~ /a\\.b\\|c/"],
  ["host =~ $line AND h = $line", "host =~ /^(a\\nb)$/ AND h = 'a\\nb'"],
])("InfluxQL cannot be left: %s", (text, want) => expect(ql(text)).toBe(want));

test.each([
  ['up{h=~"$host"}', 'up{h=~"(a|b)"}'],
  ['up{h=~"$all",j="$one"}', 'up{h=~".*",j="a"}'],
  ["up{h=~$host,j!=$one}", 'up{h=~"(a|b)",j!="a"}'],
  ["sum(rate($one[$w]))", "sum(rate(a[5m]))"],
  ["topk($n, up) # $host", "topk(10, up) # $host"],
  ['label_replace(up, "a", "$1", "b", "(.*)")', 'label_replace(up, "a", "$1", "b", "(.*)")'],
  ['up{h="$quote"}', 'up{h="a\\"; DROP DATABASE x --"}'],
  ["up{h='$evil'}", "up{h='a\\' OR \\'1\\'=\\'1'}"],
  ['up{h=~"$dots"}', 'up{h=~"a\\\\.b\\\\|c"}'],
  ['up{h=~"$slash"}', 'up{h=~"a/ OR /b\\\\\\\\"}'],
  ["up{h=`$one`}", "up{h=`a`}"],
  ["up{h=$line}", 'up{h="a\\nb"}'],
])("PromQL %s", (text, want) => expect(prom(text)).toBe(want));

test.each([
  ["influxql", "host = $host", "$host has 2 values"],
  ["influxql", "host = '$all'", "$all has all values"],
  ["influxql", "LIMIT $one", "is no number"],
  ["promql", 'up{h="$host"}', "$host has 2 values"],
  ["promql", "$evil", "can stand only in quotes"],
  ["promql", "up{h=`${tick}`}", "backtick"],
] as const)("%s %s is refused", (lang, text, want) => expect(() => filled(lang, text, { ...values, tick: ["a`b"] })).toThrow(want));

test("what is chosen", () => {
  const v = { name: "v", lang: "influxql", query: "", multi: false, all: false, value: [] } as const;
  expect(chosenOf({ ...v, value: [] }, [], ["a", "b"])).toEqual(["a"]);
  expect(chosenOf({ ...v, value: [] }, ["b", "a"], ["a", "b"])).toEqual(["b"]);
  expect(chosenOf({ ...v, value: [], all: true, multi: true }, [], ["a", "b"])).toEqual([]);
  expect(chosenOf({ ...v, value: [], multi: true }, ["x", "a"], ["a", "b"])).toEqual(["x", "a"]);
});

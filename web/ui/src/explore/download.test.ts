import { expect, test } from "vitest";
import { toCSV, toLineProtocol } from "./download";

const results = [
  { statement_id: 0, series: [{ name: "c pu", tags: { host: "a,b", dc: "" }, columns: ["time", "v", "s"], values: [["2026-01-05T00:00:00.123456789Z", 1.5, 'x"y'], [2000, null, null]] }] },
  { statement_id: 1, series: [{ name: "mem", tags: { rack: "1" }, columns: ["time", "free", "v"], values: [[3000, "9223372036854775807", true]] }, { columns: ["name"], values: [["demo"]] }] },
];

test("CSV is one table", () => {
  expect(toCSV(results)).toBe(
    ['name,host,dc,rack,time,v,s,free,name', 'c pu,"a,b",,,2026-01-05T00:00:00.123456789Z,1.5,"x""y",,', 'c pu,"a,b",,,1970-01-01T00:00:02.000Z,,,,', "mem,,,1,1970-01-01T00:00:03.000Z,true,,9223372036854775807,", ",,,,,,,,demo", ""].join("\r\n"),
  );
});

test("line protocol of PromQL", () => {
  const series = [{ name: "c pu", tags: { host: "a,b", dc: "" }, columns: ["time", "value"], values: [[1767571200000, 1.5], [1767571260000.0002, null], [-1, 2]] }, { name: "", columns: ["time", "value"], values: [[1, 1]] }];
  expect(toLineProtocol([{ statement_id: 0, series }])).toBe("c\\ pu,host=a\\,b value=1.5 1767571200000000000\nc\\ pu,host=a\\,b value=2 -1000000\n");
});

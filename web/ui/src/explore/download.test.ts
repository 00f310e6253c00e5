import { expect, test } from "vitest";
import { toCSV, toLineProtocol } from "./download";

const results = [
  { statement_id: 0, series: [{ name: "c pu", tags: { host: "a,b", dc: "" }, columns: ["time", "v", "s"], values: [[1000, 1.5, 'x"y'], [2000, null, null], [3000, null, "z"]] }] },
  { statement_id: 1, series: [{ columns: ["name"], values: [["demo"]] }] },
];

test("CSV", () => {
  expect(toCSV(results)).toBe('name,host,dc,time,v,s\r\nc pu,"a,b",,1970-01-01T00:00:01.000Z,1.5,"x""y"\r\nc pu,"a,b",,1970-01-01T00:00:02.000Z,,\r\nc pu,"a,b",,1970-01-01T00:00:03.000Z,,z\r\nname,name\r\n,demo\r\n');
});

test("line protocol", () => {
  expect(toLineProtocol(results)).toBe('c\\ pu,host=a\\,b v=1.5,s="x\\"y" 1000\nc\\ pu,host=a\\,b s="z" 3000\n');
});

import { afterEach, expect, test, vi } from "vitest";
import { identifier, literal, parse, pick, queryRows } from "./influxql";

afterEach(() => vi.unstubAllGlobals());

/** Lets the server answer with a text, in pieces of some bytes. It returns how many pieces were taken. */
function answers(text: string, size: number): () => number {
  const bytes = new TextEncoder().encode(text);
  let taken = 0;
  vi.stubGlobal("location", { href: "http://127.0.0.1/" });
  vi.stubGlobal("fetch", () => {
    const pull = (c: ReadableStreamDefaultController) => {
      const at = taken++ * size;
      if (at >= bytes.length) c.close();
      else c.enqueue(bytes.slice(at, at + size));
    };
    return Promise.resolve(new Response(new ReadableStream({ pull }, { highWaterMark: 0 })));
  });
  return () => taken;
}

const chunks = [
  { results: [{ statement_id: 0, series: [{ name: "m", tags: { t: "ü" }, columns: ["time", "v"], values: [[1, 1], [2, 2]], partial: true }], partial: true }] },
  { results: [{ statement_id: 0, series: [{ name: "m", tags: { t: "ü" }, columns: ["time", "v"], values: [[3, 3]] }], partial: true }] },
  { results: [{ statement_id: 0, series: [{ name: "m", tags: { t: "b" }, columns: ["time", "v"], values: [[1, 9]] }], messages: [{ level: "info", text: "hint" }] }] },
  { results: [{ statement_id: 1, error: "no such thing" }] },
];
const text = chunks.map((c) => JSON.stringify(c) + "\n").join("");

test("an answer in parts becomes one, wherever it is cut", async () => {
  for (const size of [1, 7, 100, 10_000]) {
    answers(text, size);
    const { results, raw, rows, more } = await queryRows("q", 100);
    expect([raw, rows, more]).toEqual([text, 4, false]);
    expect(results).toEqual([
      {
        statement_id: 0,
        messages: [{ level: "info", text: "hint" }],
        series: [
          { name: "m", tags: { t: "ü" }, columns: ["time", "v"], values: [[1, 1], [2, 2], [3, 3]] },
          { name: "m", tags: { t: "b" }, columns: ["time", "v"], values: [[1, 9]] },
        ],
      },
      { statement_id: 1, error: "no such thing" },
    ]);
  }
});

test("no more of an answer is read than is shown", async () => {
  const taken = answers(text + text.repeat(1000), 10);
  const { results, rows, more } = await queryRows("q", 2);
  expect([rows, more, results[0]!.series![0]!.values!.length]).toEqual([2, true, 2]);
  expect(taken()).toBeLessThan(text.length / 5);
});

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

test("columns are found by name, wherever the server has them", () => {
  const policy = { columns: ["name", "duration", "futureWriteLimit", "default"], values: [["raw", "0s", "1h0m0s", true]] };
  const plain = { columns: ["default", "name"], values: [[false, "hourly"]] };
  expect(pick([policy, plain, { columns: ["name"] }], "name", "default", "duration")).toEqual([
    ["raw", true, "0s"],
    ["hourly", false, null],
  ]);
});

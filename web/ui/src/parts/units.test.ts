import { expect, test } from "vitest";
import { bytes, count, goDuration, unitOf, withUnit } from "./units";

test("bytes", () => expect([0, 1023, 1536, 50 * 2 ** 20, 3 * 2 ** 40].map(bytes)).toEqual(["0 B", "1023 B", "1.50 KiB", "50.0 MiB", "3.00 TiB"]));
test("counts", () => expect([0, 3.14159, 12345.6, 1234567, 2e9].map(count)).toEqual(["0", "3.1", "12,346", "1.23 M", "2.00 G"]));
test("durations of Go", () => expect(["3.975121066s", "26h3m0.5s", "100h1m0s", "12m3s", "250.1ms"].map(goDuration)).toEqual(["3s", "26h 3m", "4d 4h", "12m 3s", "250ms"]));
test("units of an axis", () => {
  expect([0, 999, 12300, -2.5e6, 0.0042, 1e13].map(withUnit("SI"))).toEqual(["0", "999", "12.3 k", "-2.5 M", "4.2 m", "10 T"]);
  expect([0, 0.0031, 90, 7500, 2e5].map(withUnit("seconds"))).toEqual(["0 s", "3.1 ms", "1.5 min", "2.08 h", "2.31 d"]);
  expect([12.5, 100].map(withUnit("percent"))).toEqual(["12.5 %", "100 %"]);
  expect([1e6, 1e-5, 12345.678].map(withUnit("none"))).toEqual(["1e6", "1e-5", "12345.7"]);
  expect([8, 9000].map(withUnit("bits"))).toEqual(["8 bit", "9 kbit"]);
  expect(withUnit("per second")(1500)).toBe("1.5 k/s");
});
test("the unit follows from names or from the query", () => {
  expect(unitOf(["mem.used", "mem.free"], "")).toBe("bytes");
  expect(unitOf(["cpu.usage_user"], "")).toBe("percent");
  expect(unitOf(["cpu.mean"], "SELECT mean(usage_user) FROM cpu")).toBe("percent");
  expect(unitOf(["x"], "avg(request_duration_seconds_sum)")).toBe("SI");
  expect(unitOf(["m.v", "mem.free"], "SELECT * FROM m")).toBe("SI");
});

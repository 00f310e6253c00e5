import { expect, test } from "vitest";
import { durationText, fill, intervalOf, rangeOf, timeOf } from "./range";

const now = Date.UTC(2026, 0, 5, 12);

test("texts of times", () => {
  expect(timeOf("now", now)).toBe(now);
  expect(timeOf("now-90m", now)).toBe(now - 5_400_000);
  expect(timeOf(" now + 1d ", now)).toBe(now + 86_400_000);
  expect(timeOf("2026-01-05T00:00:00Z", now)).toBe(Date.UTC(2026, 0, 5));
  expect(timeOf("2026-01-05 00:00:00Z", now)).toBe(Date.UTC(2026, 0, 5));
  expect(timeOf("1767571200000", now)).toBe(Date.UTC(2026, 0, 5));
  for (const bad of ["", "yesterday", "now-1y", "now-", "2026-13-01"]) expect(() => timeOf(bad, now)).toThrow("is not a time");
});

test("a range has a length", () => {
  expect(rangeOf("now-1h", "now", now)).toEqual({ from: now - 3_600_000, to: now });
  expect(() => rangeOf("now", "now-1h", now)).toThrow("not after its start");
});

test("windows are round", () => {
  const f = (hours: number, pixels: number) => durationText(intervalOf({ from: 0, to: hours * 3_600_000 }, pixels));
  expect([f(1, 1200), f(24, 1200), f(24 * 30, 1200), f(24 * 3650, 1200), f(0.001, 1200), f(1, 10)]).toEqual(["10s", "5m", "2h", "1w", "10ms", "2m"]);
});

test("placeholders", () => {
  expect(fill("SELECT mean(v) FROM m WHERE $timeFilter GROUP BY time($interval), time($__interval)", { from: 1000, to: 2000 }, 60_000)).toBe(
    "SELECT mean(v) FROM m WHERE time >= 1000ms AND time <= 2000ms GROUP BY time(1m), time(1m)",
  );
  expect(fill("$timeFilters $intervals", { from: 0, to: 1 }, 1)).toBe("$timeFilters $intervals");
});

import { expect, test } from "vitest";
import { textOf, timeIn } from "./zone";

test("texts of times in a zone", () => {
  const t = Date.UTC(2026, 2, 29, 0, 30, 5, 7);
  expect(textOf(t, "UTC")).toBe("2026-03-29T00:30:05.007Z");
  expect(textOf(t, "Europe/Berlin")).toBe("2026-03-29T01:30:05.007+01:00");
  expect(textOf(t + 3_600_000, "Europe/Berlin")).toBe("2026-03-29T03:30:05.007+02:00");
  expect(textOf(t, "America/St_Johns")).toBe("2026-03-28T22:00:05.007-02:30");
  expect(textOf(-1, "Asia/Kathmandu")).toBe("1970-01-01T05:29:59.999+05:30");
});

test("a text without an offset is read in the zone", () => {
  expect(timeIn("2026-01-05", "America/New_York")).toBe(Date.UTC(2026, 0, 5, 5));
  expect(timeIn("2026-01-05 00:00", "America/New_York")).toBe(Date.UTC(2026, 0, 5, 5));
  expect(timeIn("2026-07-05T00:00:00.5", "Europe/Berlin")).toBe(Date.UTC(2026, 6, 4, 22, 0, 0, 500));
  expect(timeIn("2026-07-05T00:00:00Z", "Europe/Berlin")).toBe(Date.UTC(2026, 6, 5));
  expect(timeIn("2026-07-05 00:00+02:00", "UTC")).toBe(Date.UTC(2026, 6, 4, 22));
  for (const bad of ["", "yesterday", "2026-13-01", "2026-01-05 25:00"]) expect(timeIn(bad, "UTC")).toBeNaN();
});

test("every hour of the days on which clocks are moved comes back", () => {
  for (const zone of ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]) {
    for (const day of [Date.UTC(2026, 2, 8), Date.UTC(2026, 2, 29), Date.UTC(2026, 3, 5), Date.UTC(2026, 9, 4), Date.UTC(2026, 9, 25), Date.UTC(2026, 10, 1)]) {
      for (let h = -24; h < 48; h++) {
        const t = day + h * 3_600_000;
        const text = textOf(t, zone);
        expect(timeIn(text, "UTC")).toBe(t);
        const wall = text.slice(0, -6);
        expect(textOf(timeIn(wall, zone), zone).slice(0, -6)).toBe(wall); // of an hour that comes twice it is one
      }
    }
  }
});

import { expect, test } from "vitest";
import { bytes, count, goDuration } from "./units";

test("bytes", () => expect([0, 1023, 1536, 50 * 2 ** 20, 3 * 2 ** 40].map(bytes)).toEqual(["0 B", "1023 B", "1.50 KiB", "50.0 MiB", "3.00 TiB"]));
test("counts", () => expect([0, 3.14159, 12345.6, 1234567, 2e9].map(count)).toEqual(["0", "3.1", "12,346", "1.23 M", "2.00 G"]));
test("durations of Go", () => expect(["3.975121066s", "26h3m0.5s", "100h1m0s", "12m3s", "250.1ms"].map(goDuration)).toEqual(["3s", "26h 3m", "4d 4h", "12m 3s", "250ms"]));

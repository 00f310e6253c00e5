import { expect, test } from "vitest";
import { editable, ofThisPage } from "./past";

test("the range of a past query becomes that of the page", () => {
  expect(editable("SELECT v FROM m WHERE a = 'b' AND time >= ? and time <= ? GROUP BY time(1m)")).toBe("SELECT v FROM m WHERE a = 'b' AND $timeFilter GROUP BY time(1m)");
  expect(editable("SELECT v FROM m WHERE time > '?' AND time < '?'; SELECT w FROM m WHERE time>=? AND time<?")).toBe("SELECT v FROM m WHERE $timeFilter; SELECT w FROM m WHERE $timeFilter");
  expect(editable("SELECT v FROM m WHERE time > now() - 1h")).toBe("SELECT v FROM m WHERE time > now() - 1h");
  expect(editable("SELECT v FROM m WHERE time > ?")).toBe("SELECT v FROM m WHERE time > ?");
});

test("what the page itself asks", () => {
  expect(["SHOW STATS", "show queries", "SHOW SERVERS; SHOW DIAGNOSTICS", "SHOW SERIES", "SELECT 'SHOW STATS'"].map(ofThisPage)).toEqual([true, true, true, false, false]);
});

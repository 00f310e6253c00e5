import { expect, test } from "vitest";
import { droppedBy } from "./dropped";

test.each([
  ["DROP DATABASE stage", "stage"],
  ['drop database "odd \\"name\\""', 'odd "name"'],
  ["DROP MEASUREMENT orders", "orders"],
  ['DROP RETENTION POLICY "a b" ON d', "a b"],
  ["DROP CONTINUOUS QUERY q ON d", "q"],
  ['DROP SUBSCRIPTION "s" ON "d"."rp"', "s"],
  ["DROP USER ann", "ann"],
  ["DROP SHARD 12", "12"],
  ["DROP SERIES FROM orders WHERE shop = 'a'", "orders"],
  ["DROP SERIES WHERE shop = 'a'", ""],
  ['DROP DOWNSAMPLE ON "d INTO x" FROM autogen INTO hours', "hours"],
  ["DELETE FROM orders", ""],
  ["SELECT v FROM m WHERE s = 'DROP DATABASE stage'", ""],
])("%s drops %s", (statement, name) => expect(droppedBy(statement)).toBe(name));

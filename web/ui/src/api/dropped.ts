// What a statement drops: the user types its name before the statement runs.

import { unquote } from "../explore/context";

const name = String.raw`(?:"(?:[^"\\]|\\.)*"|\w+)`;
const drop = new RegExp(
  String.raw`^\s*DROP\s+(?:DATABASE|MEASUREMENT|RETENTION\s+POLICY|CONTINUOUS\s+QUERY|SUBSCRIPTION|USER|SHARD|SERIES\s+FROM|DOWNSAMPLE\s+ON\s+${name}\s+FROM\s+${name}\s+INTO)\s+(${name})`,
  "i",
);

/** Returns the name of what a statement drops; "" if it drops nothing that has a name. */
export function droppedBy(statement: string): string {
  return unquote(drop.exec(statement)?.[1] ?? "");
}

// Order and pages of the rows of a table.

import type { Value } from "../api/influxql";

export type Cell = Value;

/** Compares two cells: null first, numbers by value, all else as text. */
export function compareValues(a: Cell, b: Cell): number {
  if (a === null || b === null) return Number(a !== null) - Number(b !== null);
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

/** Returns a page of rows. A page that is not there gives the last one. */
export function pageOf<T>(rows: T[], page: number, size: number): { rows: T[]; first: number; page: number; pages: number } {
  const pages = Math.max(1, Math.ceil(rows.length / size));
  const at = Math.min(Math.max(0, page), pages - 1);
  return { rows: rows.slice(at * size, (at + 1) * size), first: at * size, page: at, pages };
}

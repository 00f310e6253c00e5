// Short forms for the built-in boards.

import type { Language } from "../../explore/options";
import { emptyVariable, type Panel, type Variable } from "../format";

/** Puts panels beside each other, row by row, with ids in their order. */
export function rows(all: Panel[][]): Panel[] {
  let y = 0;
  let id = 1;
  return all.flatMap((row) => {
    let x = 0;
    const placed = row.map((p) => {
      const grid = { ...p.grid, x, y };
      x += p.grid.w;
      return { ...p, id: id++, grid };
    });
    y += Math.max(...row.map((p) => p.grid.h));
    return placed;
  });
}

/** A variable of which all values are chosen at first. */
export function sees(name: string, lang: Language, query: string): Variable {
  return { ...emptyVariable, name, lang, query };
}

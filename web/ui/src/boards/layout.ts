// Where panels stand on the grid.

import { columns, type Panel, type Place } from "./format";

/** Whether two places have a cell in common. */
function meet(a: Place, b: Place): boolean {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

/**
 * Moves each panel up as far as it can go, and down as far as it must to stand on no other
 * one. Panels keep their order from the top; first goes before others of the same row.
 */
export function settled(panels: Panel[], first = -1): Panel[] {
  const sorted = panels.toSorted((a, b) => a.grid.y - b.grid.y || Number(b.id === first) - Number(a.id === first) || a.grid.x - b.grid.x);
  const done: Panel[] = [];
  let end = 0; // below all panels that are done
  for (const panel of sorted) {
    const grid = { ...panel.grid, y: Math.min(panel.grid.y, end) };
    const free = (y: number) => !done.some((d) => meet({ ...grid, y }, d.grid));
    while (!free(grid.y)) grid.y++;
    while (grid.y > 0 && free(grid.y - 1)) grid.y--;
    done.push({ ...panel, grid });
    end = Math.max(end, grid.y + grid.h);
  }
  return done;
}

/** Gives a panel another place or size; the others make room. */
export function placed(panels: Panel[], id: number, to: Partial<Place>): Panel[] {
  const next = panels.map((p) => {
    if (p.id !== id) return p;
    const grid = { ...p.grid, ...to };
    grid.w = Math.max(1, Math.min(columns, grid.w));
    grid.h = Math.max(1, Math.min(50, grid.h));
    grid.x = Math.max(0, Math.min(columns - grid.w, grid.x));
    grid.y = Math.max(0, grid.y);
    return { ...p, grid };
  });
  return settled(next, id);
}

/** Adds a panel below all others. It gets an id of its own. */
export function added(panels: Panel[], panel: Panel): Panel[] {
  const id = Math.max(0, ...panels.map((p) => p.id)) + 1;
  const y = Math.max(0, ...panels.map((p) => p.grid.y + p.grid.h));
  return settled([...panels, { ...panel, id, grid: { ...panel.grid, y } }]);
}

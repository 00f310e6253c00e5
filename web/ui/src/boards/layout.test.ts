import { expect, test } from "vitest";
import { panelOf, type Panel } from "./format";
import { added, placed, settled } from "./layout";

const panel = (id: number, x: number, y: number, w: number, h: number) => panelOf({ id, grid: { x, y, w, h } });
const shown = (panels: Panel[]) => panels.map(({ id, grid: { x, y, w, h } }) => `${id}:${x},${y} ${w}x${h}`).join(" ");
const two = [panel(1, 0, 0, 6, 4), panel(2, 6, 0, 6, 4), panel(3, 0, 4, 12, 2)];

test("panels move up, and down from others", () => {
  expect(shown(settled(two))).toBe("1:0,0 6x4 2:6,0 6x4 3:0,4 12x2");
  expect(shown(settled([panel(1, 0, 9000, 6, 4), panel(2, 0, 3, 6, 4)]))).toBe("2:0,0 6x4 1:0,4 6x4");
  expect(shown(settled([panel(1, 0, 0, 6, 4), panel(2, 3, 0, 6, 4)]))).toBe("1:0,0 6x4 2:3,4 6x4");
});

test("a panel that is moved pushes others down, and stays on the grid", () => {
  expect(shown(placed(two, 3, { y: 0 }))).toBe("3:0,0 12x2 1:0,2 6x4 2:6,2 6x4");
  expect(shown(placed(two, 1, { x: 6 }))).toBe("1:6,0 6x4 2:6,4 6x4 3:0,8 12x2");
  expect(shown(placed(two, 1, { x: 99 }))).toContain("1:6,0 6x4");
  expect(shown(placed(two, 1, { x: -9, y: -9 }))).toBe(shown(two));
});

test("a panel that grows pushes others down, and has a least size", () => {
  expect(shown(placed(two, 1, { h: 6 }))).toBe("1:0,0 6x6 2:6,0 6x4 3:0,6 12x2");
  expect(shown(placed(two, 1, { w: 0, h: -1 }))).toContain("1:0,0 1x1");
  expect(shown(placed(two, 2, { w: 99 }))).toBe("2:0,0 12x4 1:0,4 6x4 3:0,8 12x2");
});

test("a panel is added below, with an id of its own", () => {
  expect(shown(added(two, panel(1, 0, 0, 3, 1)))).toBe(`${shown(two)} 4:0,6 3x1`);
  expect(shown(added([], panel(0, 0, 5, 3, 1)))).toBe("1:0,0 3x1");
});

test("no two panels ever share a cell", () => {
  let seed = 7;
  const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
  let panels: Panel[] = [];
  for (let i = 0; i < 300; i++) {
    if (panels.length < 12) panels = added(panels, panel(0, random(6), random(9), 1 + random(6), 1 + random(5)));
    const { id } = panels[random(panels.length)]!;
    panels = placed(panels, id, random(2) === 0 ? { x: random(12), y: random(20) } : { w: 1 + random(12), h: 1 + random(8) });
    const cells = panels.flatMap(({ grid: { x, y, w, h } }) => Array.from({ length: w * h }, (_, c) => `${x + (c % w)},${y + Math.floor(c / w)}`));
    expect(new Set(cells).size).toBe(cells.length);
    expect(panels.every(({ grid }) => grid.x >= 0 && grid.x + grid.w <= 12 && grid.y >= 0)).toBe(true);
  }
});

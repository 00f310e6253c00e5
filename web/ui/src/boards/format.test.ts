import { expect, test } from "vitest";
import { boardOf, emptyBoard, panelOf } from "./format";

const panel = panelOf({ id: 1, title: "CPU", queries: [{ text: "SELECT 1" }] });

test("a board is what was written", () => {
  const board = { ...emptyBoard, refresh: 10, variables: [{ name: "host", lang: "influxql" as const, query: "SHOW x", multi: true, all: false, value: ["a"] }], panels: [panel] };
  expect(boardOf(JSON.parse(JSON.stringify(board)))).toEqual(board);
  expect(boardOf({ version: 1 })).toEqual(emptyBoard);
  expect(boardOf({ version: 1, panels: [{ id: 1, extra: "<b>", title: "CPU", queries: [{ text: "SELECT 1" }] }] }).panels).toEqual([panel]);
});

test.each([
  [null, "a board is no object"],
  [[], "a board is no object"],
  [{}, "version undefined"],
  [{ version: 2 }, "version 2"],
  [{ version: 1, panels: {} }, "panels is no list"],
  [{ version: 1, panels: [{ id: 1, title: 5 }] }, "panels[0].title is no text"],
  [{ version: 1, panels: [{ id: 1 }, { id: 1 }] }, "two panels have the id 1"],
  [{ version: 1, panels: [{}] }, "or it is less than 1"],
  [{ version: 1, panels: [{ id: 1, kind: "html" }] }, 'panels[0].kind is "html", not one of plot, number, table, text'],
  [{ version: 1, panels: [{ id: 1, grid: { w: 13 } }] }, "panels[0].grid.w is no whole number from 1 to 12"],
  [{ version: 1, panels: [{ id: 1, grid: { y: 1e9 } }] }, "panels[0].grid.y"],
  [{ version: 1, panels: [{ id: 1, queries: [{ lang: "flux" }] }] }, "panels[0].queries[0].lang"],
  [{ version: 1, panels: [{ id: 1, options: { unit: "x" } }] }, "panels[0].options.unit"],
  [{ version: 1, panels: Array.from({ length: 201 }, (_, i) => ({ id: i + 1 })) }, "201 panels"],
  [{ version: 1, variables: [{ name: "a b" }] }, "no name of a variable"],
  [{ version: 1, variables: [{ name: "interval" }] }, "the page's own"],
  [{ version: 1, variables: [{ name: "a" }, { name: "a" }] }, "two variables have the name a"],
  [{ version: 1, refresh: -1 }, "refresh is no whole number"],
])("%j is no board", (json, want) => expect(() => boardOf(json)).toThrow(want));

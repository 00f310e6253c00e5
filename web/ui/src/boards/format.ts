// A board: panels on a grid, variables, a range. It is kept on the server as JSON.

import { measures } from "../explore/frame";
import { type Language, languages, type PlotOptions, plotOptions, scales, styles } from "../explore/options";
import { units } from "../parts/units";

export const kinds = ["plot", "number", "table", "text"] as const;

/** A board as the server keeps it. */
export interface Board {
  version: 1;
  range: { from: string; to: string };
  refresh: number; // s; 0: off
  variables: Variable[];
  panels: Panel[];
}

/** A query of a panel. An empty db is that of the board, an empty rp the default policy. */
export interface Query {
  lang: Language;
  db: string;
  rp: string;
  text: string;
}

/** A place on the grid, in columns and rows. */
export interface Place {
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface Panel {
  id: number;
  title: string;
  kind: (typeof kinds)[number];
  grid: Place;
  queries: Query[];
  text: string; // of a text panel
  options: PlotOptions;
}

/** A variable: a name that queries use, and the look-up of its values. */
export interface Variable {
  name: string;
  lang: Language;
  query: string;
  multi: boolean; // several values can be chosen
  all: boolean; // all values can be chosen at once
  value: string[]; // what is chosen; none: all, or else the first one
}

/** The columns of the grid. */
export const columns = 12;

/** The most panels and the most rows of one that a board may have. */
const panelsMost = 200;
const rowsMost = 50;

export const emptyBoard: Board = { version: 1, range: { from: "now-1h", to: "now" }, refresh: 0, variables: [], panels: [] };

export const emptyVariable: Variable = { name: "", lang: "influxql", query: "", multi: true, all: true, value: [] };

/** What of a panel has to be said; the rest is as usual. */
type Sketch = Partial<Omit<Panel, "options" | "queries">> & { options?: Partial<PlotOptions>; queries?: Partial<Query>[] };

/** Returns a panel with what is not given as usual. */
export function panelOf({ options, queries = [], ...rest }: Sketch): Panel {
  return {
    id: 0, title: "", kind: "plot", text: "", ...rest,
    grid: { x: 0, y: 0, w: 6, h: 5, ...rest.grid },
    queries: queries.map((q) => ({ lang: "influxql", db: "", rp: "", text: "", ...q })),
    options: { ...plotOptions, ...options },
  };
}

/** Reads a board of JSON. It throws if something has not the form of a board, and says what. */
export function boardOf(json: unknown): Board {
  const board = record(json, "a board");
  if (board.version !== 1) throw new Error(`the board has version ${JSON.stringify(board.version)}, this page reads version 1`);
  const range = record(board.range ?? emptyBoard.range, "range");
  const panels = list(board.panels, "panels").map((p, i) => readPanel(p, `panels[${i}]`));
  if (panels.length > panelsMost) throw new Error(`the board has ${panels.length} panels, ${panelsMost} at most can be shown`);
  const taken = new Set<number>();
  for (const p of panels) {
    if (p.id < 1 || taken.has(p.id)) throw new Error(`two panels have the id ${p.id}, or it is less than 1`);
    taken.add(p.id);
  }
  const variables = list(board.variables, "variables").map((v, i) => readVariable(v, `variables[${i}]`));
  const names = variables.map((v) => v.name);
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice !== undefined) throw new Error(`two variables have the name ${twice}`);
  return {
    version: 1,
    range: { from: text(range.from, "range.from", "now-1h"), to: text(range.to, "range.to", "now") },
    refresh: whole(board.refresh, "refresh", 0, 3600, 0),
    variables,
    panels,
  };
}

function readPanel(json: unknown, at: string): Panel {
  const p = record(json, at);
  const grid = record(p.grid ?? {}, `${at}.grid`);
  const options = record(p.options ?? {}, `${at}.options`);
  const w = whole(grid.w, `${at}.grid.w`, 1, columns, 6);
  return {
    id: whole(p.id, `${at}.id`, 1, 1e9, 0),
    title: text(p.title, `${at}.title`),
    kind: oneOf(p.kind, `${at}.kind`, kinds, "plot"),
    grid: {
      x: Math.min(whole(grid.x, `${at}.grid.x`, 0, columns - 1, 0), columns - w),
      y: whole(grid.y, `${at}.grid.y`, 0, panelsMost * rowsMost, 0),
      w,
      h: whole(grid.h, `${at}.grid.h`, 1, rowsMost, 5),
    },
    queries: list(p.queries, `${at}.queries`).map((json, i) => {
      const q = record(json, `${at}.queries[${i}]`);
      return { lang: oneOf(q.lang, `${at}.queries[${i}].lang`, languages, "influxql"), db: text(q.db, `${at}.queries[${i}].db`), rp: text(q.rp, `${at}.queries[${i}].rp`), text: text(q.text, `${at}.queries[${i}].text`) };
    }),
    text: text(p.text, `${at}.text`),
    options: {
      style: oneOf(options.style, `${at}.options.style`, styles, plotOptions.style),
      by: oneOf(options.by, `${at}.options.by`, measures, plotOptions.by),
      unit: oneOf(options.unit, `${at}.options.unit`, ["auto", ...units], plotOptions.unit),
      scale: oneOf(options.scale, `${at}.options.scale`, scales, plotOptions.scale),
      low: text(options.low, `${at}.options.low`),
      high: text(options.high, `${at}.options.high`),
    },
  };
}

function readVariable(json: unknown, at: string): Variable {
  const v = record(json, at);
  const name = text(v.name, `${at}.name`);
  const wrong = nameMistake(name);
  if (wrong !== "") throw new Error(`${at}.name: ${wrong}`);
  return {
    name,
    lang: oneOf(v.lang, `${at}.lang`, languages, "influxql"),
    query: text(v.query, `${at}.query`),
    multi: flag(v.multi, `${at}.multi`),
    all: flag(v.all, `${at}.all`),
    value: list(v.value, `${at}.value`).map((value, i) => text(value, `${at}.value[${i}]`)),
  };
}

/** Says what is wrong with the name of a variable, or nothing. */
export function nameMistake(name: string): string {
  if (!/^[A-Za-z_]\w*$/.test(name)) return `"${name}" is no name of a variable: a letter, then letters, digits and _`;
  if (["timeFilter", "interval", "__interval"].includes(name)) return `$${name} is the page's own`;
  return "";
}

function record(json: unknown, at: string): Record<string, unknown> {
  if (typeof json !== "object" || json === null || Array.isArray(json)) throw new Error(`${at} is no object`);
  return json as Record<string, unknown>;
}

function list(json: unknown, at: string): unknown[] {
  if (json !== undefined && !Array.isArray(json)) throw new Error(`${at} is no list`);
  return json ?? [];
}

function text(json: unknown, at: string, otherwise = ""): string {
  if (json !== undefined && typeof json !== "string") throw new Error(`${at} is no text`);
  return json ?? otherwise;
}

function flag(json: unknown, at: string): boolean {
  if (json !== undefined && typeof json !== "boolean") throw new Error(`${at} is neither true nor false`);
  return json ?? false;
}

function whole(json: unknown, at: string, least: number, most: number, otherwise: number): number {
  if (json === undefined) return otherwise;
  if (typeof json !== "number" || !Number.isInteger(json) || json < least || json > most) throw new Error(`${at} is no whole number from ${least} to ${most}`);
  return json;
}

function oneOf<T extends string>(json: unknown, at: string, known: readonly T[], otherwise: T): T {
  if (json === undefined) return otherwise;
  const found = known.find((k) => k === json);
  if (found === undefined) throw new Error(`${at} is ${JSON.stringify(json)}, not one of ${known.join(", ")}`);
  return found;
}

// The board that is shown. Changes to it stay in the page until they are saved.

import { computed, effect, signal } from "@preact/signals";
import { userName } from "../api/client";
import { setTop, top } from "../frame/top";
import { go, linkTo, place } from "../location";
import { type Board, boardOf, emptyBoard, type Panel, type Variable } from "./format";
import { builtin } from "./builtin";
import { readBoard } from "./kept";
import { chosenOf, type Values } from "./variables";

/** A board that is shown. */
export interface Open {
  /** What its link says: the database that keeps it and its id there, the name of a built-in board, or none of these. */
  home: string;
  id: string;
  builtin: string;
  name: string;
  edition: number;
  board: Board;
  /** What the server has, to tell whether something is unsaved. */
  saved: string;
  /** Counts the boards that were shown. */
  serial: number;
}

export const open = signal<Open | null>(null);

let user = userName.peek();
effect(() => {
  // Another user does not see what the one before had open.
  if (user !== "" && userName.value !== user) open.value = null;
  user = userName.value;
});

/** The panel that is edited; null: none. */
export const editing = signal<number | null>(null);

/** The values that look-ups of variables found, or why they failed. */
export const found = signal<Record<string, string[] | Error>>({});

const content = (o: Pick<Open, "name" | "board">) => JSON.stringify([o.name, o.board]);

/** Whether the board that is shown has changes that are not saved. */
export const unsaved = computed(() => open.value !== null && content(open.value) !== open.value.saved);

/** Shows a board as it is on the server, or a new one. */
export function show(o: Omit<Open, "saved" | "serial">): void {
  open.value = { ...o, saved: content(o), serial: (open.value?.serial ?? 0) + 1 };
  editing.value = null;
  found.value = {};
  const { params } = place.value;
  if (!params.has("db") && o.home !== "") setTop({ db: o.home });
  if (!["set", "from", "to", "refresh"].some((name) => params.has(name))) setTop({ ...o.board.range, refresh: o.board.refresh });
  look({}, true);
}

/** Reads the board of a link. */
export async function load(home: string, id: string, name: string, signal: AbortSignal): Promise<Omit<Open, "saved" | "serial">> {
  if (id !== "") return { home, id, builtin: "", ...(await readBoard(home, id, signal)) };
  const known = builtin.find((b) => b.id === name);
  if (name !== "" && known === undefined) throw new Error(`there is no built-in board ${name}`);
  return { home: "", id: "", builtin: name, name: known?.name ?? "New board", edition: 0, board: known === undefined ? emptyBoard : boardOf(known.board) };
}

/** What the link says of the view beside the top bar: chosen values, and a panel that is shown alone. */
export const view = computed(() => {
  const { params } = place.value;
  return { chosen: choicesOf(params.get("vars")), panel: Number(params.get("panel")) || 0 };
});

/** Reads choices from a link. What has not their form is left out. */
function choicesOf(text: string | null): Values {
  try {
    const all = JSON.parse(text ?? "{}") as Record<string, unknown>;
    return Object.fromEntries(Object.entries(all).flatMap(([name, list]) => (Array.isArray(list) ? [[name, list.map(String)]] : [])));
  } catch {
    return {};
  }
}

/** Returns the parameters of the link to the board that is shown, with some of its view changed. */
export function paramsWith(some: Partial<{ chosen: Values; panel: number }> = {}): Record<string, string> {
  const o = open.value!;
  const { chosen, panel } = { ...view.value, ...some };
  return {
    in: o.home,
    board: o.id,
    builtin: o.builtin,
    new: o.id === "" && o.builtin === "" ? "1" : "",
    set: "1", // the range is that of the link, not that of the board
    vars: Object.keys(chosen).length === 0 ? "" : JSON.stringify(chosen),
    panel: panel === 0 ? "" : String(panel),
  };
}

/** Changes the view and the link. */
export function look(some: Parameters<typeof paramsWith>[0], replace = false): void {
  go("boards", paramsWith(some), replace);
}

/** Returns the link to a panel alone, with the range and the values as they are. */
export function linkOf(panel: number): string {
  return linkTo("boards", paramsWith({ panel }));
}

/** Changes the board that is shown. */
export function edit(some: Partial<Board>): void {
  open.value = { ...open.value!, board: { ...open.value!.board, ...some } };
}

/** Changes a panel of it. */
export function editPanel(id: number, some: Partial<Panel>): void {
  edit({ panels: open.value!.board.panels.map((p) => (p.id === id ? { ...p, ...some } : p)) });
}

/** Takes what was saved for before as the board that is shown. Changes since then stay unsaved. */
export function saved(to: { home: string; id: string; edition: number; name: string; board: Board }, before: Open): void {
  const o = open.value;
  if (o?.serial !== before.serial) return; // another board is shown by now
  const name = o.name === before.name ? to.name : o.name;
  const board = o.board === before.board ? to.board : o.board;
  open.value = { ...o, home: to.home, id: to.id, builtin: "", edition: to.edition, name, board, saved: content(to) };
  look({}, true);
}

/** Returns the board as it is seen: with the range, the refresh and the values that are chosen. */
export function asSeen(): Board {
  const { board } = open.value!;
  const { from, to, refresh } = top.value;
  const { chosen } = view.value;
  return { ...board, range: { from, to }, refresh, variables: board.variables.map((v) => ({ ...v, value: chosen[v.name] ?? v.value })) };
}

/** What a variable has: the choice of this page, or that of the board. */
export function choiceOf(v: Variable): string[] {
  const values = found.value[v.name];
  return chosenOf(v, view.value.chosen[v.name] ?? v.value, Array.isArray(values) ? values : []);
}

/** The values of all variables; null until those that are needed are found, or an Error without them. */
export const values = computed<Values | Error | null>(() => {
  const all: Values = {};
  for (const v of open.value?.board.variables ?? []) {
    const choice = choiceOf(v);
    if (choice.length === 0 && !v.all) {
      const values = found.value[v.name];
      if (values === undefined) return null;
      return values instanceof Error ? values : new Error(`the variable ${v.name} has no values`);
    }
    all[v.name] = choice;
  }
  return all;
});

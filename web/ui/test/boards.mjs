// Boards at the server, not in the page.

import assert from "node:assert/strict";
import { server } from "./browser.mjs";

/** Returns the link to a board. */
export const link = (params) => `#/boards?${new URLSearchParams(params.board === undefined ? params : { in: params.db, ...params })}`;

/** Saves a board, and returns its id. */
export async function make(db, name, board) {
  const answer = await fetch(`${server}api/boards?db=${db}`, { method: "POST", body: JSON.stringify({ name, board }) });
  const made = await answer.json();
  assert.equal(answer.status, 201, JSON.stringify(made));
  return made.id;
}

/** A panel with a query. */
export const panel = (id, title, text, some = {}) => ({ id, title, kind: "plot", grid: { x: 0, y: 0, w: 6, h: 4 }, queries: [{ lang: "influxql", db: "", rp: "", text }], ...some });

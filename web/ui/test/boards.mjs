// Boards at the server, not in the page.

import assert from "node:assert/strict";
import { open as openPage, server } from "./browser.mjs";

/** Returns the link to a board. */
export const link = (params) => `#/boards?${new URLSearchParams(params.board === undefined ? params : { in: params.db, ...params })}`;

/** What the stand-in has. */
const kept = new Map();
let next = 1;

async function answer(route) {
  const r = route.request();
  const url = new URL(r.url());
  const id = /boards\/(.+)$/.exec(url.pathname)?.[1];
  const body = r.postData() === null ? null : JSON.parse(r.postData());
  const db = url.searchParams.get("db");
  const said = ({ id, name, edition }) => ({ id, name, edition });
  if (id === undefined && r.method() === "GET") return route.fulfill({ json: { boards: [...kept.values()].filter((b) => b.db === db).map((b) => ({ ...said(b), bytes: JSON.stringify(b.board).length, changed: "2026-01-05T12:00:00Z" })) } });
  if (id === undefined) {
    const b = { id: String(next++), db, name: body.name, edition: 1, board: body.board };
    kept.set(b.id, b);
    return route.fulfill({ status: 201, json: said(b) });
  }
  const b = kept.get(id);
  if (b === undefined || b.db !== db) return route.fulfill({ status: 404, json: { error: "board not found" } });
  if (r.method() === "GET") return route.fulfill({ json: { ...said(b), board: b.board } });
  if (Number(body?.edition ?? url.searchParams.get("edition")) !== b.edition) return route.fulfill({ status: 409, json: { error: "somebody has saved it", edition: b.edition } });
  if (r.method() === "DELETE") {
    kept.delete(id);
    return route.fulfill({ status: 204 });
  }
  Object.assign(b, { name: body.name, board: body.board, edition: b.edition + 1 });
  return route.fulfill({ json: said(b) });
}

/** Opens a place of the page. */
export async function open(place, options) {
  const page = await openPage("", options);
  await page.route(/\/api\/boards/, answer);
  await page.goto((options?.origin ?? server) + place);
  return page;
}

/** Saves a board, and returns its id. */
export async function make(page, db, name, board) {
  const answer = await page.evaluate(([url, body]) => fetch(url, { method: "POST", body, headers: { "Content-Type": "application/json" } }).then(async (a) => ({ status: a.status, body: await a.json() })), [`${server}api/boards?db=${db}`, JSON.stringify({ name, board })]);
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  return answer.body.id;
}

/** A panel with a query. */
export const panel = (id, title, text, some = {}) => ({ id, title, kind: "plot", grid: { x: 0, y: 0, w: 6, h: 4 }, queries: [{ lang: "influxql", db: "", rp: "", text }], ...some });

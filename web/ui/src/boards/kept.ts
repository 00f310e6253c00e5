// Boards on the server.

import { ApiError, request } from "../api/client";
import { type Board, boardOf } from "./format";

/** A board in the list of a database. */
export interface Kept {
  id: string;
  name: string;
  edition: number;
  bytes: number;
  changed: string; // RFC 3339
}

/** Somebody has saved a board since it was read. */
export class Newer extends Error {
  constructor(
    text: string,
    readonly edition: number,
  ) {
    super(text);
  }
}

const at = (id: string) => `api/boards/${encodeURIComponent(id)}`;

/** Lists the boards of a database. */
export async function listBoards(db: string, signal?: AbortSignal): Promise<Kept[]> {
  return ((await (await request("api/boards", { params: { db }, signal })).json()) as { boards: Kept[] }).boards;
}

/** Reads a board. It throws if it has a form that this page does not know. */
export async function readBoard(db: string, id: string, signal?: AbortSignal): Promise<{ name: string; edition: number; board: Board }> {
  const { name, edition, board } = (await (await request(at(id), { params: { db }, signal })).json()) as { name: string; edition: number; board: unknown };
  return { name, edition, board: boardOf(board) };
}

/** Saves a board that the server does not have. It returns its id. */
export async function createBoard(db: string, name: string, board: Board): Promise<{ id: string; edition: number }> {
  return (await (await send("POST", "api/boards", { db }, { name, board })).json()) as { id: string; edition: number };
}

/** Saves a board. It throws Newer unless edition is the newest one. */
export async function saveBoard(db: string, id: string, name: string, edition: number, board: Board): Promise<number> {
  return ((await (await send("PUT", at(id), { db }, { name, edition, board })).json()) as { edition: number }).edition;
}

/** Deletes a board. It throws Newer unless edition is the newest one. */
export async function dropBoard(db: string, id: string, edition: number): Promise<void> {
  await send("DELETE", at(id), { db, edition: String(edition) });
}

async function send(method: string, path: string, params: Record<string, string>, body?: unknown): Promise<Response> {
  try {
    return await request(path, { method, params, body: body === undefined ? undefined : JSON.stringify(body), headers: body === undefined ? {} : { "Content-Type": "application/json" } });
  } catch (e) {
    if (e instanceof ApiError && e.status === 409) throw new Newer(e.message, Number((e.document as { edition?: number } | undefined)?.edition ?? 0));
    throw e;
  }
}

/** Reads a file with a board: what the page has written, or a board alone. */
export function boardOfFile(text: string): { name: string; board: Board } {
  const file = JSON.parse(text) as { name?: unknown; board?: unknown };
  if (typeof file === "object" && file !== null && file.board !== undefined) return { name: typeof file.name === "string" ? file.name : "", board: boardOf(file.board) };
  return { name: "", board: boardOf(file) };
}

// Runs what Explore asks.

import { request } from "../api/client";
import { droppedBy } from "../api/dropped";
import { type Change, queryRows, refusedIn, type Message, type Result } from "../api/influxql";
import { confirm } from "../parts/confirm";
import { fill, intervalOf, rangeOf, type Range } from "./range";
import { framesOf, framesOfPromQL, type Frame, type PromData } from "./frame";
import type { Language } from "./options";

/** A query, its range, and where it is asked. */
export interface Asked {
  lang: Language;
  text: string;
  db: string;
  rp: string;
  from: string;
  to: string;
}

/** The answer to what Explore asked. */
export interface Answer {
  range: Range;
  frames: Frame[];
  results: Result[]; // of InfluxQL; for PromQL a table of the frames
  messages: Message[];
  raw: string; // the answer as it came
  /** What was sent, in which language and to which place. */
  sent: string;
  lang: Language;
  place: { db: string; rp: string };
  /** The statements changed something: to send them again would do it again. */
  changed: boolean;
  /** For how long the page waited. */
  took: number; // ms
  rows: number;
  /** The answer has more rows. */
  more: boolean;
}

/** How many rows of an answer are read at first. */
export const rowsMost = 100_000;

/** Statements that were not run, because they change something. */
export class NotRun extends Error {
  constructor(changes: Change[]) {
    super(changes.map((c) => c.statement).join("; "));
  }
}

/**
 * Asks the server. pixels is the width of the plot, which chooses $interval. What
 * changes something runs only if the user has asked by hand, and what destroys
 * something only if the user agrees once more. The server says which statements these
 * are. At most so many rows are read, and those that come along with the last of them.
 */
export async function run(s: Asked, pixels: number, byHand: boolean, most: number, signal: AbortSignal): Promise<Answer> {
  const range = rangeOf(s.from, s.to);
  const interval = intervalOf(range, pixels);
  const begin = performance.now();
  const answer = s.lang === "influxql" ? await runInfluxQL(s, range, interval, byHand, most, signal) : await runPromQL(s, range, interval, signal);
  return { ...answer, range, lang: s.lang, place: { db: s.db, rp: s.rp }, took: performance.now() - begin };
}

type Part = Pick<Answer, "frames" | "results" | "messages" | "sent" | "raw" | "changed" | "rows" | "more">;

async function runInfluxQL(s: Asked, range: Range, interval: number, byHand: boolean, most: number, signal: AbortSignal): Promise<Part> {
  const sent = fill(s.text, range, interval);
  const options = { db: s.db, rp: s.rp, epoch: "ms", hints: true, signal } as const;
  let changed = false;
  const { results, ...read } = await queryRows(sent, most, options).catch(async (e: unknown) => {
    const changes = refusedIn(e);
    if (changes.length === 0) throw e;
    if (!byHand || !(await agreed(changes, signal))) throw new NotRun(changes);
    changed = true;
    return queryRows(sent, most, { ...options, changes: true });
  });
  return { sent, ...read, changed, results, frames: framesOf(results), messages: results.flatMap((r) => r.messages ?? []) };
}

/** Asks whether statements that destroy something are meant. */
async function agreed(changes: Change[], signal: AbortSignal): Promise<boolean> {
  const destroying = changes.filter((c) => c.destroys);
  if (destroying.length === 0) return true;
  const databases = [...new Set(destroying.map((c) => c.database).filter((db) => db !== ""))];
  const where = databases.length === 0 ? "" : ` on ${databases.length === 1 ? "database" : "the databases"} ${databases.join(", ")}`;
  // The name of what is dropped is typed: of a DROP without a name that of the database.
  const names = [...new Set(destroying.filter((c) => /^\s*drop\b/i.test(c.statement)).map((c) => droppedBy(c.statement) || c.database))];
  const lines = changes.map((c) => (databases.length > 1 && c.database !== "" ? `${c.database}: ${c.statement}` : c.statement));
  return confirm(`Run this${where}?`, `It removes or alters what is there. Nothing brings that back but a backup.\n\n${lines.join("\n")}`, "Run", names.join(", "), signal);
}

async function runPromQL(s: Asked, range: Range, interval: number, signal: AbortSignal): Promise<Part> {
  const sent = fill(s.text, range, interval);
  const step = Math.max(interval, 1000) / 1000;
  const answer = await request("api/v1/query_range", {
    form: { query: sent, start: String(range.from / 1000), end: String(range.to / 1000), step: String(step), db: s.db, rp: s.rp },
    signal,
  });
  const raw = await answer.text();
  const { data, warnings = [], infos = [] } = JSON.parse(raw) as { data: PromData; warnings?: string[]; infos?: string[] };
  const frames = framesOfPromQL(data);
  const results: Result[] = [
    { statement_id: 0, series: frames.map((f) => ({ name: f.name, tags: f.labels, columns: ["time", "value"], values: Array.from(f.times, (t, i) => [t, Number.isNaN(f.values[i]) ? null : f.values[i]!]) })) },
  ];
  const rows = frames.reduce((n, f) => n + f.times.length, 0);
  return { sent, raw, rows, more: false, changed: false, frames, results, messages: [...warnings.map((text) => ({ level: "warning", text })), ...infos.map((text) => ({ level: "info", text }))] };
}

// Statements of InfluxQL and their answers.

import { ApiError, request } from "./client";

/** A value of an answer. Integers outside of ±2^53 are texts, to lose no digit. */
export type Value = string | number | boolean | null;

export interface Series {
  name?: string;
  tags?: Record<string, string>;
  columns: string[];
  values?: Value[][];
  partial?: boolean;
}

export interface Message {
  level: string;
  text: string;
}

/** The answer to one statement. */
export interface Result {
  statement_id: number;
  series?: Series[];
  messages?: Message[];
  error?: string;
  partial?: boolean;
}

export interface QueryOptions {
  db?: string;
  rp?: string;
  /** The unit of times; absent: text of RFC 3339. */
  epoch?: "ns" | "u" | "ms" | "s" | "m" | "h";
  /** The user has asked for what the statements change. Absent: the server refuses such statements. */
  changes?: boolean;
  /** Asks for messages that say why an answer has no rows. */
  hints?: boolean;
  signal?: AbortSignal;
}

/** A statement that the server refused, because it changes something. */
export interface Change {
  statement: string;
  database: string; // "" if it is about none
  destroys: boolean; // removes or alters what is there
}

/** Returns what the server refused because it changes something; nothing if the error is another one. */
export function refusedIn(error: unknown): Change[] {
  return (error instanceof ApiError && (error.document as { refused?: Change[] } | undefined)?.refused) || [];
}

/** The error of a statement. */
export class QueryError extends Error {}

/** Runs statements and returns their results. A result may have an error. */
export async function query(text: string, options: QueryOptions = {}): Promise<Result[]> {
  return (await queryRaw(text, options)).results;
}

/** Runs statements and returns their results, and the answer as it came. */
export async function queryRaw(text: string, options: QueryOptions = {}): Promise<{ results: Result[]; raw: string }> {
  const answer = await request("query", {
    params: { db: options.db ?? "", rp: options.rp ?? "", epoch: options.epoch ?? "", read_only: String(options.changes !== true), hints: options.hints === true ? "true" : "" },
    form: { q: text },
    signal: options.signal,
  });
  const raw = await answer.text();
  return { results: parse(raw).results, raw };
}

/** Runs one statement and returns its series. It throws its error. */
export async function select(text: string, options: QueryOptions = {}): Promise<Series[]> {
  const [result] = await query(text, options);
  if (result?.error !== undefined) throw new QueryError(result.error);
  return result?.series ?? [];
}

/** Runs one statement and returns a column of all series of its answer. */
export async function column(text: string, name: string, options: QueryOptions = {}): Promise<string[]> {
  const values: string[] = [];
  for (const series of await select(text, options)) {
    const i = series.columns.indexOf(name);
    for (const row of series.values ?? []) if (i >= 0 && row[i] !== null) values.push(String(row[i]));
  }
  return values;
}

/** Parses an answer. Integers that a number cannot hold become texts. */
export function parse(text: string): { results: Result[] } {
  // Few answers have such integers; the others are parsed without a look at each value.
  if (!/[[,]-?\d{16,}[,\]]/.test(text)) return JSON.parse(text) as { results: Result[] };
  const quoted = text.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g, (found) => (/^-?\d{16,}$/.test(found) && !Number.isSafeInteger(Number(found)) ? `"${found}"` : found));
  return JSON.parse(quoted) as { results: Result[] };
}

/** Quotes a name. */
export function identifier(name: string): string {
  return `"${name.replace(/\\/g, "\\\\").replace(/"/g, '\\"').replace(/\n/g, "\\n")}"`;
}

/** Quotes a text. */
export function literal(text: string): string {
  return `'${text.replace(/\\/g, "\\\\").replace(/'/g, "\\'").replace(/\n/g, "\\n")}'`;
}

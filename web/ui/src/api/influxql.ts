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
  return parse(await (await send(text, options, false)).text()).results;
}

/** The results of statements, and the answer as it came, of which a long one is cut. */
export interface Read {
  results: Result[];
  raw: string;
  rows: number;
  /** There are more rows. */
  more: boolean;
}

/** How many characters of an answer are kept as they came. */
const rawMost = 1_000_000;

/** Runs statements, and reads at least so many rows of the answer as it comes, or all. */
export async function queryRows(text: string, most: number, options: QueryOptions = {}): Promise<Read> {
  const answer = await send(text, options, true);
  const read: Read = { results: [], raw: "", rows: 0, more: false };
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; !read.more; ) {
    const { value, done } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : lines.pop()!;
    for (const line of lines) {
      if (line.trim() === "") continue;
      read.more = read.rows >= most;
      if (read.more) break;
      if (read.raw.length < rawMost) read.raw += (line + "\n").slice(0, rawMost - read.raw.length);
      for (const part of parse(line).results) read.rows += join(read.results, part);
    }
    if (done) break;
  }
  if (read.more) await reader.cancel();
  return read;
}

/** Adds a part of an answer to its results. It returns how many rows the part has. */
function join(results: Result[], part: Result): number {
  let result = results.find((r) => r.statement_id === part.statement_id);
  if (result === undefined) results.push((result = { statement_id: part.statement_id }));
  if (part.error !== undefined) result.error = part.error;
  if (part.messages !== undefined) result.messages = [...(result.messages ?? []), ...part.messages];
  let rows = 0;
  for (const series of part.series ?? []) {
    rows += series.values?.length ?? 0;
    const last = result.series?.at(-1);
    if (last?.partial === true) {
      last.partial = series.partial; // a part that is not the last one of its series
      for (const row of series.values ?? []) last.values!.push(row);
    } else {
      (result.series ??= []).push(series);
    }
  }
  return rows;
}

function send(text: string, options: QueryOptions, chunked: boolean): Promise<Response> {
  return request("query", {
    params: {
      db: options.db ?? "",
      rp: options.rp ?? "",
      epoch: options.epoch ?? "",
      read_only: String(options.changes !== true),
      hints: options.hints === true ? "true" : "",
      chunked: chunked ? "true" : "",
    },
    form: { q: text },
    signal: options.signal,
  });
}

/** Runs one statement and returns its series. It throws its error. */
export async function select(text: string, options: QueryOptions = {}): Promise<Series[]> {
  const [result] = await query(text, options);
  if (result?.error !== undefined) throw new QueryError(result.error);
  return result?.series ?? [];
}

/** Runs one statement and returns a column of all series of its answer. */
export async function column(text: string, name: string, options: QueryOptions = {}): Promise<string[]> {
  return pick(await select(text, options), name)
    .flat()
    .filter((value) => value !== null)
    .map(String);
}

/** Returns the rows of an answer with these columns alone. Where a column stands differs from answer to answer. */
export function pick(answer: Series[], ...names: string[]): Value[][] {
  return answer.flatMap((series) => {
    const places = names.map((name) => series.columns.indexOf(name));
    return (series.values ?? []).map((row) => places.map((i) => row[i] ?? null));
  });
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

/** Returns a regular expression that finds a text, in small and capital letters. */
export function containing(text: string): string {
  return `/(?i)${text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")}/`;
}

// Statements of InfluxQL and their answers.

import { request } from "./client";

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
  signal?: AbortSignal;
}

/** The error of a statement. */
export class QueryError extends Error {}

/** Runs statements and returns their results. A result may have an error. */
export async function query(text: string, options: QueryOptions = {}): Promise<Result[]> {
  const answer = await request("query", {
    params: { db: options.db ?? "", rp: options.rp ?? "", epoch: options.epoch ?? "" },
    form: { q: text },
    signal: options.signal,
  });
  return parse(await answer.text()).results;
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
  return JSON.parse(text, exact) as { results: Result[] };
}

function exact(this: unknown, _key: string, value: unknown, context?: { source?: string }): unknown {
  if (typeof value === "number" && !Number.isSafeInteger(value) && context?.source !== undefined && /^-?\d+$/.test(context.source)) return context.source;
  return value;
}

/** Quotes a name. */
export function identifier(name: string): string {
  return `"${name.replace(/\\/g, "\\\\").replace(/"/g, '\\"').replace(/\n/g, "\\n")}"`;
}

/** Quotes a text. */
export function literal(text: string): string {
  return `'${text.replace(/\\/g, "\\\\").replace(/'/g, "\\'").replace(/\n/g, "\\n")}'`;
}

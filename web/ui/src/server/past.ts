// What the queries of the last hour have cost.

import { request } from "../api/client";

/** The queries of a shape: their text has ? where they have a time. */
export interface Past {
  query: string;
  language: "influxql" | "promql";
  database: string;
  user: string;
  count: number;
  errors: number;
  total_seconds: number;
  worst_seconds: number;
  rows: number;
  last: string;
}

export async function loadPast(signal: AbortSignal): Promise<{ from: string; forgotten: number; queries: Past[] }> {
  return (await (await request("api/queries", { params: { since: "1h" }, signal })).json()) as { from: string; forgotten: number; queries: Past[] };
}

/** Whether a query is one of those that this page asks all the time. */
export function ofThisPage(text: string): boolean {
  return /^SHOW (QUERIES|STATS|SERVERS|DIAGNOSTICS)\b/i.test(text);
}

/** Returns a text for the editor: a range of time is that of the page. */
export function editable(text: string): string {
  return text.replace(/\btime\s*>=?\s*'?\?'?\s+and\s+time\s*<=?\s*'?\?'?/gi, "$timeFilter");
}

// What a panel asks, and its answer.

import type { Message, Series } from "../api/influxql";
import { type Frame, summaryOf } from "../explore/frame";
import { type Range, rangeOf } from "../explore/range";
import { type Answer, rowsMost, run } from "../explore/run";
import type { Query } from "./format";
import { panelTurns } from "./queue";
import { filled, type Values } from "./variables";

/** The answers to all queries of a panel. */
export interface Answers {
  range: Range;
  frames: Frame[];
  tables: Series[];
  messages: Message[];
  errors: Error[];
  /** What was sent. */
  sent: string;
}

/** Asks the queries of a panel, when it is its turn. They change nothing: the server refuses what would. */
export async function ask(queries: Query[], db: string, values: Values, from: string, to: string, pixels: number, signal: AbortSignal): Promise<Answers> {
  return panelTurns(signal, async () => {
    const range = rangeOf(from, to);
    const asked = queries.filter((q) => q.text.trim() !== "");
    const settled = await Promise.allSettled(
      asked.map(async (q) => run({ lang: q.lang, text: filled(q.lang, q.text, values), db: q.db || db, rp: q.rp, from: String(range.from), to: String(range.to) }, pixels, false, rowsMost, signal)),
    );
    signal.throwIfAborted();
    const answers = settled.flatMap((s) => (s.status === "fulfilled" ? [s.value] : []));
    return {
      range,
      frames: answers.flatMap((a) => a.frames),
      tables: answers.flatMap(tablesOf),
      messages: answers.flatMap((a) => [...a.messages, ...(a.more ? [{ level: "warning", text: `These are the first ${a.rows.toLocaleString("en")} rows of more.` }] : [])]),
      errors: [...settled.flatMap((s) => (s.status === "rejected" ? [s.reason as Error] : [])), ...answers.flatMap((a) => a.results.flatMap((r) => (r.error === undefined ? [] : [new Error(r.error)])))],
      sent: answers.map((a) => a.sent).join("\n"),
    };
  });
}

/** An answer as tables: of PromQL the last value of each series. */
function tablesOf(a: Answer): Series[] {
  if (a.lang === "influxql") return a.results.flatMap((r) => r.series ?? []);
  const labels = [...new Set(a.frames.flatMap((f) => Object.keys(f.labels)))];
  const rows = a.frames.map((f) => [f.name, ...labels.map((l) => f.labels[l] ?? null), summaryOf(f).last]);
  return rows.length === 0 ? [] : [{ columns: ["metric", ...labels, "value"], values: rows }];
}

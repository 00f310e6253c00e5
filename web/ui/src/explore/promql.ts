// PromQL in the editor: colours, and completion of metrics, labels and values.

import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { StreamLanguage, type StreamParser } from "@codemirror/language";
import { request } from "../api/client";
import { cached, limit } from "./lookup";

const functions =
  "abs absent absent_over_time acos acosh asin asinh atan atanh avg_over_time ceil changes clamp clamp_max clamp_min cos cosh count_over_time day_of_month day_of_week day_of_year days_in_month deg delta deriv exp first_over_time floor histogram_avg histogram_count histogram_fraction histogram_quantile histogram_stddev histogram_stdvar histogram_sum hour idelta increase irate label_join label_replace last_over_time ln log10 log2 max_over_time min_over_time minute month pi predict_linear present_over_time quantile_over_time rad rate resets round scalar sgn sin sinh sort sort_desc sqrt stddev_over_time stdvar_over_time sum_over_time tan tanh time timestamp vector year".split(" ");
const aggregations = "sum avg min max count group stddev stdvar topk bottomk quantile count_values limitk limit_ratio".split(" ");
const keywords = "by without on ignoring group_left group_right and or unless offset bool start end atan2".split(" ");

const words = new Map<string, string>([...functions.map((w) => [w, "function"] as const), ...aggregations.map((w) => [w, "function"] as const), ...keywords.map((w) => [w, "keyword"] as const)]);

const parser: StreamParser<unknown> = {
  name: "promql",
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^#.*/)) return "comment";
    if (stream.match(/^"(?:[^"\\]|\\.)*"?/) || stream.match(/^'(?:[^'\\]|\\.)*'?/) || stream.match(/^`[^`]*`?/)) return "string";
    if (stream.match(/^\$\w+/)) return "macroName";
    if (stream.match(/^\d+(?:ms|[smhdwy])(?:\d+(?:ms|[smhdwy]))*\b/) || stream.match(/^(?:0x[\da-f]+|\d+\.?\d*(?:e[-+]?\d+)?|\.\d+)/i)) return "number";
    if (stream.match(/^[A-Za-z_:][\w:]*/)) return words.get(stream.current()) ?? "variableName";
    const c = stream.next();
    return c !== null && c !== undefined && "=!~<>+-*/%^@".includes(c) ? "operator" : "punctuation";
  },
  languageData: { commentTokens: { line: "#" }, closeBrackets: { brackets: ["(", "[", "{", '"'] } },
};

export const promql = StreamLanguage.define(parser);

/** What the cursor asks for. */
export type Wanted = { kind: "metric" } | { kind: "label"; metric: string } | { kind: "value"; metric: string; label: string } | { kind: "none" };

/** Returns what the cursor at the end of a text asks for, and where its word begins. */
export function wantedAt(before: string): { wanted: Wanted; from: number } {
  const word = /[\w:$]*$/.exec(before)![0];
  const from = before.length - word.length;
  const open = before.lastIndexOf("{");
  if (open > before.lastIndexOf("}")) {
    const inside = before.slice(open + 1);
    const metric = /([A-Za-z_:][\w:]*)\s*$/.exec(before.slice(0, open))?.[1] ?? "";
    const value = /([A-Za-z_]\w*)\s*(?:=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*)$/.exec(inside);
    if (value !== null) return { wanted: { kind: "value", metric, label: value[1]! }, from: before.length - value[2]!.length + 1 };
    if (/(?:=~|!~|!=|=)\s*$/.test(inside)) return { wanted: { kind: "none" }, from };
    return { wanted: { kind: "label", metric }, from };
  }
  if (/\[[^\]]*$/.test(before)) return { wanted: { kind: "none" }, from };
  const grouping = /\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*$/.test(before);
  return { wanted: grouping ? { kind: "label", metric: "" } : { kind: "metric" }, from };
}

/** Asks for names of metrics, labels or values, of the series that match. */
export async function names(path: string, db: string, rp: string, match: string): Promise<string[]> {
  const params = { db, rp, limit: String(limit), "match[]": match };
  return cached(`promql ${path} ${JSON.stringify(params)}`, async () => ((await (await request(path, { params })).json()) as { data: string[] }).data);
}

/** Completes PromQL for a database. */
export async function completePromQL(db: string, rp: string, context: CompletionContext): Promise<CompletionResult | null> {
  const { wanted, from } = wantedAt(context.state.doc.sliceString(0, context.pos));
  if (from === context.pos && !context.explicit && wanted.kind === "metric") return null;
  const result = (options: Completion[]): CompletionResult | null => (options.length === 0 ? null : { from, options, validFor: /^[\w:$.-]*$/ });
  switch (wanted.kind) {
    case "metric":
      return result([
        ...(await names("api/v1/label/__name__/values", db, rp, "")).map((label) => ({ label, type: "class", detail: "metric", apply: /^[A-Za-z_:][\w:]*$/.test(label) ? label : `{${JSON.stringify(label)}}` })),
        ...[...functions, ...aggregations].map((label) => ({ label, type: "function", apply: `${label}(` })),
        ...keywords.map((label) => ({ label, type: "keyword" })),
      ]);
    case "label":
      return result((await names("api/v1/labels", db, rp, wanted.metric)).filter((label) => label !== "__name__").map((label) => ({ label, type: "property" })));
    case "value":
      return result((await names(`api/v1/label/${encodeURIComponent(wanted.label)}/values`, db, rp, wanted.metric)).map((label) => ({ label, type: "text", apply: JSON.stringify(label).slice(1, -1) })));
    case "none":
      return null;
  }
}

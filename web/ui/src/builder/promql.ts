// A query of PromQL as the builder has it: written as text, and read back from texts of this form.

import { overRanges } from "../explore/words";
import { type Filter, operators } from "./influxql";

export interface BuiltProm {
  metric: string;
  filters: Filter[];
  call: string; // a function over ranges; "": the samples as they are
  range: string; // of call
  aggregate: string; // "": each series for itself
  by: string[];
}

export const nothingProm: BuiltProm = { metric: "", filters: [], call: "", range: "5m", aggregate: "", by: [] };

/** The aggregations that need nothing but series. */
export const aggregates = ["sum", "avg", "min", "max", "count", "stddev", "stdvar", "group"];

const plainMetric = /^[A-Za-z_:][\w:]*$/;
const plainLabel = /^[A-Za-z_]\w*$/;
const labelOf = (name: string) => (plainLabel.test(name) ? name : JSON.stringify(name));

/** Writes a query. */
export function writeProm(b: BuiltProm): string {
  const plain = plainMetric.test(b.metric);
  const inside = [...(plain ? [] : [JSON.stringify(b.metric)]), ...b.filters.map((f) => `${labelOf(f.tag)}${f.operator}${JSON.stringify(f.value)}`)].join(", ");
  let text = `${plain ? b.metric : ""}${inside === "" ? "" : `{${inside}}`}`;
  if (b.call !== "") text = `${b.call}(${text}[${b.range}])`;
  if (b.aggregate !== "") text = `${b.aggregate}${b.by.length > 0 ? ` by (${b.by.map(labelOf).join(", ")}) ` : ""}(${text})`;
  return text;
}

const token = /\s*(?:("(?:[^"\\\n]|\\.)*")|([A-Za-z_:][\w:]*)|(\$\w+|\d\w*)|(=~|!~|!=|=|[(){}[\],]))/y;

/** Reads a query; null if the builder cannot show it. */
export function readProm(text: string): BuiltProm | null {
  const tokens: { kind: "text" | "word" | "value" | "sign"; text: string }[] = [];
  const end = text.trimEnd().length;
  for (token.lastIndex = 0; token.lastIndex < end; ) {
    const m = token.exec(text);
    if (m === null) return null;
    const [, quoted, word, value, sign] = m;
    if (quoted !== undefined) {
      try {
        tokens.push({ kind: "text", text: JSON.parse(quoted) as string });
      } catch {
        return null; // an escape that the builder does not write
      }
    } else tokens.push(word !== undefined ? { kind: "word", text: word } : value !== undefined ? { kind: "value", text: value } : { kind: "sign", text: sign! });
  }
  let at = 0;
  const no = (): never => {
    throw new SyntaxError();
  };
  const is = (kind: string, t?: string) => tokens[at]?.kind === kind && (t === undefined || tokens[at]!.text === t);
  const take = (kind: string, t?: string): string => (is(kind, t) ? tokens[at++]!.text : no());
  const maybe = (kind: string, t?: string) => is(kind, t) && at++ >= 0;
  const label = () => (is("text") ? take("text") : plainLabel.test(tokens[at]?.text ?? "") ? take("word") : no());
  const b: BuiltProm = { ...nothingProm, filters: [], by: [] };
  const by = () => {
    if (!maybe("word", "by")) return;
    take("sign", "(");
    while (!is("sign", ")")) {
      b.by.push(label());
      if (!maybe("sign", ",")) break;
    }
    take("sign", ")");
  };
  const opens = (names: string[]) => is("word") && names.includes(tokens[at]!.text) && (tokens[at + 1]?.text === "(" || tokens[at + 1]?.text === "by");
  try {
    const aggregated = opens(aggregates);
    if (aggregated) {
      b.aggregate = take("word");
      by();
      take("sign", "(");
    }
    const called = opens(overRanges);
    if (called) {
      b.call = take("word");
      take("sign", "(");
    }
    if (is("word")) b.metric = take("word");
    if (maybe("sign", "{")) {
      while (!is("sign", "}")) {
        if (is("text") && tokens[at + 1]?.kind === "sign" && /^[,}]$/.test(tokens[at + 1]!.text) && b.metric === "") b.metric = take("text");
        else {
          const tag = label();
          const sign = take("sign");
          const operator = operators.find((o) => o === sign) ?? no();
          b.filters.push({ tag, operator, value: take("text") });
        }
        if (!maybe("sign", ",")) break;
      }
      take("sign", "}");
    }
    if (b.metric === "") return null;
    if (called) {
      take("sign", "[");
      b.range = take("value");
      take("sign", "]");
      take("sign", ")");
    }
    if (aggregated) {
      take("sign", ")");
      if (b.by.length === 0) by();
    }
    return at < tokens.length ? null : b;
  } catch (e) {
    if (e instanceof SyntaxError) return null;
    throw e;
  }
}

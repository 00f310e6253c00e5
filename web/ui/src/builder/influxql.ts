// A query of InfluxQL as the builder has it: written as text, and read back from texts of this form.

import { identifier, literal } from "../api/influxql";
import { keywords } from "../explore/words";

export const operators = ["=", "!=", "=~", "!~"] as const;

/** What rows must have in a tag. */
export interface Filter {
  tag: string;
  operator: (typeof operators)[number];
  value: string; // of =~ and !~ a regular expression
}

export interface Built {
  policy: string; // "": that of the request
  measurement: string;
  field: string;
  call: string; // "": the rows as they are
  argument: string;
  /** A function over the values of call. */
  then: string;
  thenArgument: string;
  filters: Filter[];
  /** The windows of call; "": none, one value for all. */
  every: string;
  by: string[];
  fill: string; // "": what the server does without it
}

export const nothing: Built = { policy: "", measurement: "", field: "", call: "", argument: "", then: "", thenArgument: "", filters: [], every: "$interval", by: [], fill: "" };

const reserved = new Set(keywords.map((k) => k.toLowerCase()));

/** Writes a name, with quotes where it needs them. */
export function nameOf(name: string): string {
  return /^[A-Za-z_]\w*$/.test(name) && !reserved.has(name.toLowerCase()) ? name : identifier(name);
}

/** Writes a regular expression. A slash needs a backslash; a backslash at the end would take the slash behind it. */
function regexOf(text: string): string {
  const body = text.replace(/\\([^]?)|\/|\n/g, (found, after: string | undefined) => (found === "/" ? "\\/" : found === "\n" ? "\\n" : after === "" ? "\\\\" : after === "\n" ? "\\n" : found));
  return `/${body}/`;
}

/** Writes a query. */
export function write(b: Built): string {
  const call = (name: string, of: string, argument: string) => (name === "" ? of : `${name}(${of}${argument === "" ? "" : `, ${argument}`})`);
  const shown = call(b.then, call(b.call, nameOf(b.field), b.argument), b.thenArgument);
  const where = b.filters.map((f) => `${nameOf(f.tag)} ${f.operator} ${f.operator.endsWith("~") ? regexOf(f.value) : literal(f.value)} AND `).join("");
  const groups = [...(b.call === "" || b.every === "" ? [] : [`time(${b.every})`]), ...b.by.map(nameOf)];
  return [
    `SELECT ${shown} FROM ${b.policy === "" ? "" : `${nameOf(b.policy)}.`}${nameOf(b.measurement)} WHERE ${where}$timeFilter`,
    groups.length > 0 ? ` GROUP BY ${groups.join(", ")}` : "",
    b.fill === "" ? "" : ` fill(${b.fill})`,
  ].join("");
}

type Kind = "name" | "word" | "text" | "regex" | "macro" | "value" | "sign";

interface Token {
  kind: Kind;
  text: string; // without quotes
}

const parts: [Kind, RegExp][] = [
  ["name", /"((?:[^"\\\n]|\\.)*)"/y],
  ["text", /'((?:[^'\\\n]|\\.)*)'/y],
  ["macro", /(\$\w+)/y],
  ["value", /(-?\d[\w.]*)/y],
  ["word", /([A-Za-z_]\w*)/y],
  ["sign", /(=~|!~|!=|=|[(),.])/y],
];
const regex = /\/((?:[^/\\\n]|\\.)+)\//y;

/** Splits a text into tokens; null if it has something that the builder never writes. */
function tokensOf(text: string): Token[] | null {
  const tokens: Token[] = [];
  for (let at = 0; ; ) {
    while (/\s/.test(text[at] ?? "")) at++;
    if (at === text.length) return tokens;
    const before = tokens.at(-1)?.text ?? "";
    const found = (before === "=~" || before === "!~" ? [["regex", regex] as [Kind, RegExp]] : parts).find(([, e]) => ((e.lastIndex = at), e.test(text)));
    if (found === undefined) return null;
    const [kind, e] = found;
    e.lastIndex = at;
    const inside = e.exec(text)![1]!;
    at = e.lastIndex;
    const plain = kind === "name" || kind === "text" ? inside.replace(/\\(.)/g, (_, c: string) => (c === "n" ? "\n" : c)) : kind === "regex" ? inside.replace(/\\(.)/g, (pair, c: string) => (c === "/" ? "/" : pair)) : inside;
    tokens.push({ kind, text: plain });
  }
}

/** Reads a query; null if the builder cannot show it. */
export function read(text: string): Built | null {
  const tokens = tokensOf(text);
  if (tokens === null) return null;
  let at = 0;
  const no = (): never => {
    throw new SyntaxError();
  };
  const is = (kind: Kind, word?: string) => tokens[at]?.kind === kind && (word === undefined || tokens[at]!.text.toUpperCase() === word);
  const take = (kind: Kind, word?: string): string => (is(kind, word) ? tokens[at++]!.text : no());
  const maybe = (kind: Kind, word?: string) => is(kind, word) && at++ >= 0;
  const name = () => (is("name") ? take("name") : is("word") && !reserved.has(tokens[at]!.text.toLowerCase()) ? take("word") : no());
  const list = (item: () => void) => {
    do item();
    while (maybe("sign", ","));
  };
  /** name, or call(name, argument), or call(call(name, argument), argument). */
  const shown = (): { calls: [string, string][]; field: string } => {
    if (!is("word") || tokens[at + 1]?.text !== "(" || tokens[at + 1]?.kind !== "sign") return { calls: [], field: name() };
    const call = take("word").toLowerCase();
    take("sign", "(");
    const inner = shown();
    const argument = maybe("sign", ",") ? take("value") : "";
    take("sign", ")");
    return { calls: [...inner.calls, [call, argument]], field: inner.field };
  };
  try {
    const b: Built = { ...nothing, filters: [], by: [], every: "" };
    take("word", "SELECT");
    const { calls, field } = shown();
    if (calls.length > 2) return null;
    b.field = field;
    [b.call = "", b.argument = ""] = calls[0] ?? [];
    [b.then = "", b.thenArgument = ""] = calls[1] ?? [];
    take("word", "FROM");
    b.measurement = name();
    if (maybe("sign", ".")) [b.policy, b.measurement] = [b.measurement, name()];
    take("word", "WHERE");
    let timed = false;
    do {
      if (maybe("macro", "$TIMEFILTER")) {
        if (timed) return null;
        timed = true;
        continue;
      }
      const tag = name();
      if (tag.toLowerCase() === "time") return null;
      const sign = take("sign");
      const operator = operators.find((o) => o === sign) ?? no();
      b.filters.push({ tag, operator, value: operator.endsWith("~") ? take("regex") : take("text") });
    } while (maybe("word", "AND"));
    if (!timed) return null;
    if (maybe("word", "GROUP")) {
      take("word", "BY");
      list(() => {
        if (!maybe("word", "TIME")) return void b.by.push(name());
        take("sign", "(");
        if (b.every !== "") no();
        b.every = is("macro") ? take("macro") : take("value");
        take("sign", ")");
      });
    }
    if (maybe("word", "FILL")) {
      take("sign", "(");
      b.fill = is("value") ? take("value") : take("word").toLowerCase();
      take("sign", ")");
    }
    if (at < tokens.length || (b.call === "" && (b.every !== "" || b.fill !== ""))) return null;
    // Windows come back when a function is chosen.
    return b.call === "" ? { ...b, every: nothing.every } : b;
  } catch (e) {
    if (e instanceof SyntaxError) return null;
    throw e;
  }
}

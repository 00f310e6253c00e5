// Variables in queries. A value stands only where the language expects a name, a text or a
// regular expression, and quoted for that, so that no value can become a part of the query.

import { request } from "../api/client";
import { identifier, literal, select } from "../api/influxql";
import type { Variable } from "./format";

/** The chosen values of each variable. None: all. */
export type Values = Record<string, string[]>;

/** A token of InfluxQL that matters here, and whether a regular expression may follow it. */
const influxTokens = /(?<comment>--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|(?<text>'(?:[^'\\]|\\[\s\S])*'?)|(?<name>"(?:[^"\\]|\\[\s\S])*"?)|(?<variable>\$(?:\w+|\{\w+\}))|(?<word>[A-Za-z_][\w.]*)|(?<operator>=~|!~|!=|<>|<=|>=|[-+*/=<>,();:.])|(?<space>\s+)|[\s\S]/y;
const promTokens = /(?<comment>#[^\n]*)|(?<text>"(?:[^"\\]|\\[\s\S])*"?|'(?:[^'\\]|\\[\s\S])*'?|`[^`]*`?)|(?<variable>\$(?:\w+|\{\w+\}))|(?<operator>=~|!~|!=|=)|(?<space>\s+)|[\s\S]/y;
const pattern = /\/(?:[^/\\\n]|\\[\s\S])+\/?/y; // a regular expression of InfluxQL

/** Puts the values of variables into a query. It throws where a value cannot stand. */
export function filled(lang: Variable["lang"], text: string, values: Values): string {
  return lang === "influxql" ? filledInfluxQL(text, values) : filledPromQL(text, values);
}

function filledInfluxQL(text: string, values: Values): string {
  let out = "";
  let before = ""; // the token before, in small letters
  let called = ""; // the one before that
  for (let at = 0; at < text.length; ) {
    pattern.lastIndex = influxTokens.lastIndex = at;
    const regex = text[at] === "/" && !/^\/[*]/.test(text.slice(at, at + 2)) && /^(=~|!~|,|\(|from|by|select|key|measurement|)$/.test(before) ? pattern.exec(text) : null;
    const found = regex ?? influxTokens.exec(text)!;
    const token = found[0];
    at += token.length;
    const group = found.groups ?? {};
    if (regex !== null) out += inside(token, values, (_, chosen) => slashes(either(chosen)));
    else if (group.text !== undefined) out += inside(token, values, (name, chosen) => literal(only(name, chosen)).slice(1, -1));
    else if (group.name !== undefined) out += inside(token, values, (name, chosen) => identifier(only(name, chosen)).slice(1, -1));
    else if (group.variable !== undefined) out += inside(token, values, (name, chosen) => bareInfluxQL(name, chosen, before, called));
    else out += token;
    if (group.space === undefined && group.comment === undefined) [called, before] = [before, token.toLowerCase()];
  }
  return out;
}

/** A variable that stands by itself: what the tokens before it want. */
function bareInfluxQL(name: string, chosen: string[], before: string, called: string): string {
  if (before === "=~" || before === "!~") return `/^${slashes(either(chosen, true))}$/`;
  if (["=", "!=", "<>"].includes(before)) return literal(only(name, chosen));
  if (/^(limit|offset|slimit|soffset|[-+*/<>]|<=|>=)$/.test(before) || (before === "(" && called === "time")) return amount(name, only(name, chosen));
  return chosen.length === 1 ? identifier(chosen[0]!) : `/^${slashes(either(chosen, true))}$/`;
}

/** A value that stands where a number or a duration does. */
function amount(name: string, value: string): string {
  if (/^\d+(\.\d+)?(ns|u|ms|[smhdw])?$/.test(value)) return value;
  throw new Error(`the value ${JSON.stringify(value)} of $${name} is no number or duration`);
}

function filledPromQL(text: string, values: Values): string {
  let out = "";
  let before = "";
  for (let at = 0; at < text.length; ) {
    promTokens.lastIndex = at;
    const found = promTokens.exec(text)!;
    const token = found[0];
    at += token.length;
    const group = found.groups!;
    const matches = before === "=~" || before === "!~";
    const value = (name: string, chosen: string[]) => (matches ? either(chosen) : only(name, chosen));
    if (group.text !== undefined) out += inside(token, values, (name, chosen) => escaped(name, value(name, chosen), token[0]!));
    else if (group.variable !== undefined) out += inside(token, values, (name, chosen) => (/^(=~|!~|=|!=)$/.test(before) ? `"${escaped(name, value(name, chosen), '"')}"` : word(name, only(name, chosen))));
    else out += token;
    if (group.space === undefined && group.comment === undefined) before = token;
  }
  return out;
}

/** Puts values into a token. Variables that the board does not have stay. */
function inside(token: string, values: Values, put: (name: string, chosen: string[]) => string): string {
  return token.replace(/\$(?:(\w+)|\{(\w+)\})/g, (found, plain?: string, braced?: string) => {
    const name = plain ?? braced!;
    return Object.hasOwn(values, name) ? put(name, values[name]!) : found;
  });
}

/** The value of a variable that stands where there is room for one. */
function only(name: string, chosen: string[]): string {
  if (chosen.length === 1) return chosen[0]!;
  throw new Error(`$${name} has ${chosen.length === 0 ? "all" : chosen.length} values: it can stand only behind =~ or !~, or in a regular expression`);
}

/** A regular expression for the values. */
function either(chosen: string[], group = false): string {
  if (chosen.length === 0) return ".*";
  const all = chosen.map((value) => value.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&").replace(/\n/g, "\\n").replace(/\r/g, "\\r"));
  return all.length === 1 && !group ? all[0]! : `(${all.join("|")})`;
}

function slashes(regex: string): string {
  return regex.replace(/\//g, "\\/");
}

/** Escapes a value for a text of PromQL. */
function escaped(name: string, value: string, quote: string): string {
  if (quote !== "`") return value.replace(/\\/g, "\\\\").replaceAll(quote, `\\${quote}`).replace(/\n/g, "\\n").replace(/\r/g, "\\r");
  if (value.includes("`")) throw new Error(`$${name} has a value with a backtick, which cannot stand between backticks`);
  return value;
}

/** A value that stands in PromQL by itself: a name, a number or a duration. */
function word(name: string, value: string): string {
  if (/^[A-Za-z_:][\w:]*$/.test(value) || /^\d+(\.\d+)?(ms|[smhdwy])?$/.test(value)) return value;
  throw new Error(`the value ${JSON.stringify(value)} of $${name} is no name, number or duration: it can stand only in quotes`);
}

/** How many values a look-up keeps. */
export const valuesMost = 5000;

/** Looks up the values of a variable, of which the query is filled already. */
export async function lookUp(lang: Variable["lang"], query: string, db: string, signal: AbortSignal): Promise<string[]> {
  if (query.trim() === "") return [];
  if (lang === "promql") {
    const found = /^\s*label_values\(\s*(?:([\s\S]+),\s*)?([A-Za-z_]\w*)\s*\)\s*$/.exec(query);
    if (found === null) throw new Error("a variable of PromQL is looked up as label_values(metric, label) or label_values(label)");
    const params: Record<string, string> = { db, limit: String(valuesMost) };
    if (found[1] !== undefined) params["match[]"] = found[1].trim();
    const answer = await request(`api/v1/label/${found[2]!}/values`, { params, signal });
    return ((await answer.json()) as { data: string[] }).data;
  }
  const values = new Set<string>();
  for (const series of await select(query, { db, signal })) {
    const at = ["value", "name"].map((name) => series.columns.indexOf(name)).find((i) => i >= 0) ?? series.columns.findIndex((name) => name !== "time");
    for (const row of series.values ?? []) if (at >= 0 && row[at] !== null && values.size < valuesMost) values.add(String(row[at]));
  }
  return [...values].toSorted((a, b) => a.localeCompare(b, "en", { numeric: true }));
}

/** Returns what is chosen of the values that a variable has: at least one, unless all are. */
export function chosenOf(variable: Variable, chosen: string[], found: string[]): string[] {
  const some = variable.multi ? chosen : chosen.slice(0, 1);
  return some.length > 0 || variable.all ? some : found.slice(0, 1);
}

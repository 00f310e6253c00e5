// Completion of InfluxQL: names come from the server by bounded look-ups.

import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { column, identifier, literal, select } from "../api/influxql";
import { nameOf } from "../builder/influxql";
import { contextAt } from "./context";
import { cached, limit } from "./lookup";
import { functions, keywords } from "./words";

const lookUp = (db: string, statement: string, name: string) => cached(`${db} ${statement} ${name}`, () => column(statement, name, { db }));

const words = (list: string[], type: string): Completion[] => list.map((label) => ({ label, type }));

/** Names as a statement has them: quoted where they must be, or where a quote was typed. */
function names(list: string[], type: string, typed: string, detail?: string): Completion[] {
  return list.map((label) => ({ label, type, detail, apply: typed.startsWith('"') ? identifier(label) : nameOf(label) }));
}

/** Completes InfluxQL for a database. */
export async function complete(db: string, context: CompletionContext): Promise<CompletionResult | null> {
  const text = context.state.doc.toString();
  const { wanted, from, source } = contextAt(text, context.pos);
  if (from === context.pos && !context.explicit && !/[\s.(,]$/.test(text.slice(0, context.pos))) return null;
  const typed = text.slice(from, context.pos);
  // The part of the word after its quote is matched; the quote is replaced.
  const result = (options: Completion[]): CompletionResult | null =>
    options.length === 0 ? null : { from, options, filter: true, validFor: /^["']?[^"']*$/ };
  const on = source === "" ? "" : ` FROM ${source}`;
  switch (wanted.kind) {
    case "keyword":
      return result([...words(keywords, "keyword"), ...words(["$timeFilter", "$interval"], "variable")]);
    case "database":
      return result(names(await lookUp("", "SHOW DATABASES", "name"), "namespace", typed));
    case "source":
      return result([
        ...names(await lookUp(db, `SHOW MEASUREMENTS LIMIT ${limit}`, "name"), "class", typed, "measurement"),
        ...names(db === "" ? [] : await lookUp(db, `SHOW RETENTION POLICIES ON ${identifier(db)}`, "name"), "namespace", typed, "policy"),
      ]);
    case "column":
      return result([
        ...names(await lookUp(db, `SHOW FIELD KEYS${on} LIMIT ${limit}`, "fieldKey"), "property", typed, "field"),
        ...(typed.startsWith('"') ? [] : functions.map((label) => ({ label, type: "function", apply: `${label}(` }))),
      ]);
    case "tag":
      return result([
        ...names(await lookUp(db, `SHOW TAG KEYS${on} LIMIT ${limit}`, "tagKey"), "property", typed, "tag"),
        ...names(await lookUp(db, `SHOW FIELD KEYS${on} LIMIT ${limit}`, "fieldKey"), "property", typed, "field"),
        ...(typed.startsWith('"') ? [] : words(["$timeFilter", "time", "time($interval)", "fill(", "AND", "OR", "LIMIT"], "keyword")),
      ]);
    case "value": {
      const values = await cached(`${db} ${on} ${wanted.tag}`, () => tagValues(db, on, wanted.tag));
      return result(values.map((label) => ({ label: `'${label}'`, displayLabel: label, type: "text", apply: literal(label) })));
    }
  }
}

async function tagValues(db: string, on: string, tag: string): Promise<string[]> {
  const series = await select(`SHOW TAG VALUES${on} WITH KEY = ${identifier(tag)} LIMIT ${limit}`, { db });
  return [...new Set(series.flatMap((s) => (s.values ?? []).map((row) => String(row[1]))))];
}

// What the words around the cursor ask for: the input of completion.

/** What may stand at the cursor. */
export type Wanted =
  | { kind: "keyword" }
  | { kind: "database" }
  | { kind: "source" } // a measurement, or a policy or database before a dot
  | { kind: "column" } // a field, or a function
  | { kind: "tag" } // a tag, time, or a field
  | { kind: "value"; tag: string };

export interface Context {
  wanted: Wanted;
  /** Where the word that is being typed begins, its quote included. */
  from: number;
  /** The measurement of the statement, with what comes before its dots; "" if unknown. */
  source: string;
}

interface Token {
  text: string;
  at: number;
}

const token = /--[^\n]*|'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|\$?[A-Za-z_]\w*|\d[\w.]*|=~|!~|!=|<=|>=|<>|[^\s]/g;

/** Returns the first statement of a text. A semicolon in a quoted name, a text, a regular expression or a comment ends none. */
export function firstStatement(text: string): string {
  const part = /--[^\n]*|\/\*[^]*?\*\/|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[=!]~\s*\/(?:[^/\\]|\\.)*\/|;/g;
  for (const m of text.matchAll(part)) if (m[0] === ";") return text.slice(0, m.index);
  return text;
}

/** Returns what the cursor at pos of a text asks for. */
export function contextAt(text: string, pos: number): Context {
  const start = text.lastIndexOf(";", pos - 1) + 1;
  const tokens: Token[] = [];
  for (const m of text.slice(start, pos).matchAll(token)) tokens.push({ text: m[0], at: start + m.index });
  const last = tokens.at(-1);
  // The word at the cursor is being typed, unless a space or a sign ends it.
  const typing = last !== undefined && last.at + last.text.length === pos && /^["'\w$]/.test(last.text) && !closed(last.text);
  const done = typing ? tokens.slice(0, -1) : tokens;
  return { wanted: wantedAfter(done.map((t) => t.text)), from: typing ? last.at : pos, source: sourceOf(text.slice(start)) };
}

function closed(text: string): boolean {
  return text.length > 1 && (text[0] === '"' || text[0] === "'") && text.at(-1) === text[0];
}

const clauses = new Set(["SELECT", "FROM", "WHERE", "BY", "ON", "INTO", "WITH", "LIMIT", "FILL", "ORDER", "GROUP", "SHOW", "MEASUREMENT"]);
const compare = new Set(["=", "!=", "<>", "=~", "!~", "<", ">", "<=", ">="]);

function wantedAfter(words: string[]): Wanted {
  const last = words.at(-1);
  if (last === undefined) return { kind: "keyword" };
  if (compare.has(last) && words.length > 1) return { kind: "value", tag: unquote(words.at(-2)!) };
  const clause = words.findLast((w) => clauses.has(w.toUpperCase()))?.toUpperCase();
  const opens = last === "(" || last === "," || clauses.has(last.toUpperCase()) || /^(and|or|not)$/i.test(last) || "+-*/%".includes(last);
  switch (clause) {
    case "SELECT":
      return opens ? { kind: "column" } : { kind: "keyword" };
    case "FROM":
    case "INTO":
    case "MEASUREMENT":
      return opens || last === "." ? { kind: "source" } : { kind: "keyword" };
    case "WHERE":
    case "BY":
      return opens ? { kind: "tag" } : { kind: "keyword" };
    case "ON":
      return opens ? { kind: "database" } : { kind: "keyword" };
    default:
      return { kind: "keyword" };
  }
}

const name = String.raw`(?:"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*)`;
const from = new RegExp(String.raw`\bFROM\s+((?:${name})?(?:\.(?:${name})?)*)`, "i");

/** Returns the source of a statement as it is written, or "". */
export function sourceOf(statement: string): string {
  const source = from.exec(statement.split(";", 1)[0]!)?.[1] ?? "";
  return clauses.has(source.toUpperCase()) ? "" : source;
}

/** Takes the quotes off a name. */
export function unquote(text: string): string {
  return text.startsWith('"') ? text.replace(/^"|"$/g, "").replace(/\\(.)/g, "$1") : text;
}

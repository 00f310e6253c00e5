// CSV into line protocol: which column is what, and the lines.

/** What a column becomes. */
export type Role = "time" | "tag" | "field" | "measurement" | "skip";

export interface Mapping {
  measurement: string; // of rows without a column for it
  roles: Role[];
}

/** Splits CSV into rows of cells (RFC 4180; also with ; or a tab between them). */
export function parseCSV(text: string): string[][] {
  const first = text.slice(0, text.search(/\r?\n|$/));
  const comma = [",", ";", "\t"].reduce((best, c) => (first.split(c).length > first.split(best).length ? c : best), ",");
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i]!;
    if (quoted) {
      if (c !== '"') cell += c;
      else if (text[i + 1] === '"') cell += text[++i];
      else quoted = false;
    } else if (c === '"' && cell === "") quoted = true;
    else if (c === comma) {
      row.push(cell);
      cell = "";
    } else if (c === "\n" || c === "\r") {
      if (c === "\r" && text[i + 1] === "\n") i++;
      row.push(cell);
      if (row.length > 1 || row[0] !== "") rows.push(row);
      row = [];
      cell = "";
    } else cell += c;
  }
  row.push(cell);
  if (row.length > 1 || row[0] !== "") rows.push(row);
  return rows;
}

/** Guesses the roles of columns from their names and the first rows. */
export function guess(header: string[], rows: string[][]): Role[] {
  let timed = false;
  return header.map((name, i) => {
    const values = rows.slice(0, 50).map((r) => r[i] ?? "").filter((v) => v !== "");
    if (!timed && /^_?(time|timestamp|date|datetime|ts)$/i.test(name.trim())) {
      timed = true;
      return "time";
    }
    if (/^_?(measurement|name)$/i.test(name.trim())) return "measurement";
    return values.length > 0 && values.every((v) => typed(v) !== null) ? "field" : "tag";
  });
}

/** Returns the lines of the rows, and the rows that have none with the reason. Rows count from 2: the header is 1. */
export function toLines(header: string[], rows: string[][], mapping: Mapping): { lines: string[]; refused: { row: number; reason: string }[] } {
  const lines: string[] = [];
  const refused: { row: number; reason: string }[] = [];
  rows.forEach((cells, n) => {
    let measurement = mapping.measurement;
    let time = "";
    const tags: string[] = [];
    const fields: string[] = [];
    let reason = cells.length > header.length ? `${cells.length} cells, but ${header.length} columns` : "";
    header.forEach((name, i) => {
      const value = cells[i] ?? "";
      if (value === "") return;
      switch (mapping.roles[i]) {
        case "measurement":
          measurement = value;
          break;
        case "time":
          time = nanoseconds(value) ?? "";
          if (time === "") reason ||= `"${value}" is not a time`;
          break;
        case "tag":
          tags.push(`${escape(name)}=${escape(value)}`);
          break;
        case "field":
          fields.push(`${escape(name)}=${typed(value) ?? `"${value.replace(/["\\]/g, "\\$&")}"`}`);
      }
    });
    if (measurement === "") reason ||= "no measurement";
    if (fields.length === 0) reason ||= "no field has a value";
    if (reason !== "") refused.push({ row: n + 2, reason });
    else lines.push(`${[measurement.replace(/[, ]/g, "\\$&"), ...tags].join(",")} ${fields.join(",")}${time === "" ? "" : ` ${time}`}`);
  });
  return { lines, refused };
}

function escape(name: string): string {
  return name.replace(/[,= ]/g, "\\$&");
}

/** Returns a number or a boolean as line protocol, null for text. Numbers are floats: the rows of a column differ. */
function typed(value: string): string | null {
  if (/^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$/.test(value)) return value.replace(/^\+/, "");
  return /^(true|false)$/i.test(value) ? value.toLowerCase() : null;
}

/** Returns a time in ns: a text of ISO 8601, or a number of s, ms, µs or ns by its size. */
function nanoseconds(value: string): string | null {
  if (/^-?\d+$/.test(value)) {
    const digits = value.replace("-", "").length;
    return value + "0".repeat(digits <= 11 ? 9 : digits <= 14 ? 6 : digits <= 17 ? 3 : 0);
  }
  const fraction = /^(.*:\d\d)\.(\d{1,9})(.*)$/.exec(value);
  const ms = Date.parse((fraction === null ? value : fraction[1]! + fraction[3]!).trim().replace(" ", "T"));
  if (Number.isNaN(ms)) return null;
  return (BigInt(ms) * 1_000_000n + BigInt((fraction?.[2] ?? "0").padEnd(9, "0"))).toString();
}

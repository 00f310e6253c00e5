// Lines of line protocol.

/**
 * Cuts a text into lines of line protocol. A line break in a quoted value of a field is
 * part of its line. A value that nothing closes has no line break.
 */
export function linesOf(text: string): string[] {
  const lines: string[] = [];
  let parts: string[] = []; // of a line with an open value
  for (const part of text.split("\n")) {
    const closes = parts.length > 0 ? oddQuotes(part) : !oddQuotes(fieldsOf(part));
    parts.push(part);
    if (!closes) continue;
    lines.push(parts.join("\n"));
    parts = [];
  }
  return [...lines, ...parts];
}

/** Returns what is behind the first space that no backslash escapes: fields begin there. */
function fieldsOf(line: string): string {
  if (!line.includes('"') || line.startsWith("#")) return "";
  const series = /^\s*(?:[^ \\]|\\[^])+ /.exec(line);
  return series === null ? "" : line.slice(series[0].length);
}

function oddQuotes(text: string): boolean {
  return text.replace(/\\[^]/g, "").split('"').length % 2 === 0;
}

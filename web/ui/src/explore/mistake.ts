// The place of a mistake in a query, from the text of the server's error.

export interface Mistake {
  from: number;
  to: number;
  message: string;
}

/** Returns the place that an error names, or null. */
export function mistakeOf(text: string, message: string): Mistake | null {
  // InfluxQL: "... at line 1, char 8"; PromQL: "1:8: parse error: ...".
  const place = /at line (\d+), char (\d+)/.exec(message) ?? /(?:^|[^\d])(\d+):(\d+): parse error/.exec(message);
  if (place === null) return null;
  const lines = text.split("\n");
  const line = Number(place[1]) - 1;
  if (line >= lines.length) return null;
  const start = lines.slice(0, line).reduce((sum, l) => sum + l.length + 1, 0);
  const from = Math.min(start + Number(place[2]) - 1, text.length);
  const word = /^(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|\w+|\S)/.exec(text.slice(from));
  if (word !== null) return { from, to: from + word[0].length, message };
  return { from: Math.max(0, from - 1), to: from, message };
}

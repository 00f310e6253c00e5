// Which lines of a write the server has refused.

/** A refused line, or a refusal that names none. */
export interface Refusal {
  line: number; // from 1; 0: no line
  text: string;
}

/** Finds the lines that the server's error quotes among those that were sent, of which the first has the number first. */
export function refusalsOf(error: string, lines: string[], first: number): Refusal[] {
  const found: Refusal[] = [];
  let from = 0;
  for (const part of error.split(/\n(?=unable to parse ')/)) {
    const quoted = /unable to parse '((?:.|\n)*?)': ?((?:.|\n)*)$/.exec(part);
    const at = quoted === null ? -1 : lines.indexOf(quoted[1]!, from);
    if (quoted === null || at < 0) {
      found.push({ line: 0, text: part });
      continue;
    }
    from = at + 1; // equal lines are refused in their order
    found.push({ line: first + at, text: `${quoted[2]}: ${quoted[1]}` });
  }
  return found;
}

// InfluxQL in the editor: colours.

import { StreamLanguage, type StreamParser } from "@codemirror/language";
import { functions, keywords } from "./words";

const words = new Map<string, string>([...keywords.map((w) => [w.toLowerCase(), "keyword"] as const), ...functions.map((w) => [w, "function"] as const)]);

const parser: StreamParser<{ regexMayFollow: boolean }> = {
  name: "influxql",
  startState: () => ({ regexMayFollow: false }),
  token(stream, state) {
    if (stream.eatSpace()) return null;
    const regex = state.regexMayFollow;
    state.regexMayFollow = false;
    if (stream.match(/^--.*/) || stream.match(/^\/\*.*?(\*\/|$)/)) return "comment";
    if (stream.match(/^'(?:[^'\\]|\\.)*'?/)) return "string";
    if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return "variableName";
    if (stream.match(/^=~|^!~/)) {
      state.regexMayFollow = true;
      return "operator";
    }
    if (regex && stream.match(/^\/(?:[^/\\]|\\.)+\/?/)) return "regexp";
    if (stream.match(/^\$\w+/)) return "macroName";
    if (stream.match(/^\d+(?:ns|[uµ]s?|ms|[smhdw])+\b/) || stream.match(/^(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?/)) return "number";
    if (stream.match(/^[A-Za-z_]\w*/)) {
      const word = stream.current().toLowerCase();
      state.regexMayFollow = word === "from" || word === "by" || word === "select";
      const kind = words.get(word);
      if (kind === "function") return stream.match(/^\s*\(/, false) ? "function" : "variableName";
      return kind ?? "variableName";
    }
    const c = stream.next();
    state.regexMayFollow = c === ",";
    return c !== null && c !== undefined && "<>=!+-*/%&|^".includes(c) ? "operator" : "punctuation";
  },
  languageData: { commentTokens: { line: "--", block: { open: "/*", close: "*/" } }, closeBrackets: { brackets: ["(", "'", '"'] } },
  tokenTable: {},
};

export const influxql = StreamLanguage.define(parser);

// InfluxQL in the editor: colours.

import { StreamLanguage, type StreamParser } from "@codemirror/language";

export const keywords =
  "ALL ALTER ANALYZE AND ANY AS ASC BEGIN BY CARDINALITY CONTINUOUS CREATE DATABASE DATABASES DEFAULT DELETE DESC DESTINATIONS DIAGNOSTICS DISTINCT DOWNSAMPLE DOWNSAMPLES DROP DURATION END EVERY EXACT EXPLAIN FIELD FOR FROM FUTURE GRANT GRANTS GROUP GROUPS IN INF INTO KEY KEYS KILL LIMIT MEASUREMENT MEASUREMENTS NAME OFFSET ON OR ORDER PASSWORD PAST POLICIES POLICY PRIVILEGES QUERIES QUERY READ RENAME REPLICATION RESAMPLE RETENTION REVOKE SELECT SERIES SERVERS SET SHARD SHARDS SHOW SLIMIT SOFFSET STATS SUBSCRIPTION SUBSCRIPTIONS TAG TO UPDATE USER USERS VALUES WHERE WITH WRITE fill time tz true false".split(
    " ",
  );

export const functions =
  "abs acos asin atan atan2 bottom ceil chande_momentum_oscillator cos count cumulative_sum derivative difference distinct double_exponential_moving_average elapsed exp exponential_moving_average first floor histogram holt_winters holt_winters_with_fit integral kaufmans_adaptive_moving_average kaufmans_efficiency_ratio last ln log log10 log2 max mean median min mode moving_average non_negative_derivative non_negative_difference percentile pow relative_strength_index round sample sin spread sqrt stddev sum tan top triple_exponential_derivative triple_exponential_moving_average".split(
    " ",
  );

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

// Links of the pages of Prometheus and VictoriaMetrics, as alerts have them.

import type { Place } from "../location";

/** Returns the place in Explore that a link means; a link of this page as it is. */
export function fromOthers(place: Place): Place {
  const { params } = place;
  const text = params.get("g0.expr");
  if (text === null) return place;
  const to = new URLSearchParams({ lang: "promql", q: text });
  const db = params.get("db");
  if (db !== null) to.set("db", db);
  if (params.get("g0.tab") === "1") to.set("view", "table");
  const length = durationOf(params.get("g0.range_input") ?? "");
  const end = endOf(params.get("g0.end_input") ?? "");
  if (!Number.isNaN(end)) {
    to.set("from", new Date(end - (length || 3_600_000)).toISOString());
    to.set("to", new Date(end).toISOString());
  } else if (length > 0) {
    to.set("from", `now-${length % 1000 === 0 ? `${length / 1000}s` : `${length}ms`}`);
  }
  return { page: "explore", params: to };
}

/** Returns the ms of a duration of Prometheus, such as 1h or 1d12h; 0: it is none. */
function durationOf(text: string): number {
  const units: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000, y: 31_536_000_000 };
  if (!/^(\d+(ms|[smhdwy]))+$/.test(text)) return 0;
  return [...text.matchAll(/(\d+)(ms|[smhdwy])/g)].reduce((sum, [, n, unit]) => sum + Number(n) * units[unit!]!, 0);
}

/** Returns the time in ms of the end of a range: seconds, or a time in UTC; NaN: it is none. */
function endOf(text: string): number {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1000;
  return Date.parse(/^\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(text) ? `${text.replace(" ", "T")}Z` : text);
}

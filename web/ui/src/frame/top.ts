// What the top bar holds for all views: the database, the policy, the range, how often to
// ask again, and the time zone. All of it is in the link, and stays when the user goes to
// another view, back, loads the page again, or logs in.
//
// How a view uses it:
//   - It reads top.value, and asks the server again when a field that it uses has changed:
//     useEffect(() => …, [top.value.db, top.value.from, top.value.to]). The object is a new
//     one with each change of the link.
//   - It asks again when the timer or the button of the bar says so:
//     useEffect(() => …, [tick.value]).
//   - rangeOf(from, to) of explore/range.ts makes numbers of the range, at the time it is called.
//   - It changes something with setTop, a range that the user drags out with zoomIn.
//   - Times are written and read in zone.value of parts/zone.ts.
//   - Its line in app.tsx names what it uses. The bar shows nothing else.

import { computed, effect, signal } from "@preact/signals";
import { rangeOf } from "../explore/range";
import { go, place } from "../location";
import { takeZone } from "../parts/zone";

export interface Top {
  db: string;
  rp: string; // "": the default one
  from: string;
  to: string;
  refresh: number; // s; 0: off
}

export const topDefaults: Top = { db: "", rp: "", from: "now-1h", to: "now", refresh: 0 };

/** What the bar holds. */
export const top = computed(() => topOf(place.value.params));

/** Reads a link. What is missing has its default. */
export function topOf(params: URLSearchParams): Top {
  return {
    db: params.get("db") ?? topDefaults.db,
    rp: params.get("rp") ?? topDefaults.rp,
    from: params.get("from") ?? topDefaults.from,
    to: params.get("to") ?? topDefaults.to,
    refresh: Math.max(0, Math.min(3600, Number(params.get("refresh")) || 0)),
  };
}

/** Returns the parameters of a link, empty where they are the defaults. */
export function topParams(some: Partial<Top>): Record<string, string> {
  return Object.fromEntries(Object.entries(some).map(([name, value]) => [name, value === topDefaults[name as keyof Top] ? "" : String(value)]));
}

/** Changes what the bar holds, and the link. With step, Back undoes it. */
export function setTop(some: Partial<Top>, step = false): void {
  setShared(topParams(some), step);
}

/** Chooses the time zone, for this browser and in the link. */
export function setZone(name: string): void {
  takeZone(name, true);
  setShared({ zone: name }, false);
}

function setShared(params: Record<string, string>, step: boolean): void {
  const { page, params: present } = place.value;
  const all = { ...Object.fromEntries(present), ...params };
  if (params.db !== undefined && params.rp === undefined && params.db !== present.get("db")) all.rp = "";
  go(page, all, !step);
}

effect(() => takeZone(place.value.params.get("zone") ?? "", false));

/** Counts how often the timer or the user asked for new answers. */
export const tick = signal(0);

const every = computed(() => top.value.refresh);
effect(() => {
  if (every.value === 0) return undefined;
  const timer = setInterval(() => document.visibilityState === "visible" && tick.value++, every.value * 1000);
  return () => clearInterval(timer);
});

/** The ranges from which the user has zoomed in. */
const wider: { from: string; to: string }[] = [];

/** Shows a part of the range. The step back of the browser undoes it, and zoomOut. */
export function zoomIn(from: string, to: string): void {
  wider.push({ from: top.value.from, to: top.value.to });
  setTop({ from, to }, true);
}

/** Shows the range again from which the user has zoomed in. */
export function zoomOut(): void {
  const range = wider.pop();
  if (range !== undefined) setTop(range);
}

/** Moves the range by a part of its length, to earlier times if it is negative. */
export function shift(part: number): void {
  const { from, to } = rangeOf(top.value.from, top.value.to);
  const by = (to - from) * part;
  setTop({ from: new Date(from + by).toISOString(), to: new Date(to + by).toISOString() });
}

// The time zone in which the page shows and reads times: of the browser, or another one.

import { signal } from "@preact/signals";

const key = "tsdbd-zone";
const store = typeof document === "undefined" ? undefined : localStorage; // tests have none
const own = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The name of the zone. */
export const zone = signal(stored());

function stored(): string {
  const name = store?.getItem(key) ?? "";
  return known(name) ? name : own;
}

function known(name: string): boolean {
  try {
    return name !== "" && Intl.DateTimeFormat("en", { timeZone: name }) !== undefined;
  } catch {
    return false;
  }
}

/** Shows times in a zone: that of a link, or that of this browser if the name is none. With keep this browser keeps it. */
export function takeZone(name: string, keep: boolean): void {
  zone.value = known(name) ? name : stored();
  if (!keep) return;
  if (name === own) store?.removeItem(key);
  else store?.setItem(key, name);
}

/** Returns the zones that the browser knows: its own and UTC first. */
export function zones(): string[] {
  return [...new Set([own, "UTC", zone.value, ...Intl.supportedValuesOf("timeZone")])];
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** Returns what the clock of a zone shows at a time, as ms since the epoch of a clock of UTC that shows the same. */
function clock(ms: number, name: string): number {
  let format = formats.get(name);
  if (format === undefined) {
    format = new Intl.DateTimeFormat("en", { timeZone: name, hourCycle: "h23", era: "short", year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" });
    formats.set(name, format);
  }
  const part = Object.fromEntries(format.formatToParts(ms).map((p) => [p.type, p.value]));
  const shown = new Date(0);
  shown.setUTCFullYear(part.era === "BC" ? 1 - Number(part.year) : Number(part.year), Number(part.month) - 1, Number(part.day));
  shown.setUTCHours(Number(part.hour), Number(part.minute), Number(part.second), ((ms % 1000) + 1000) % 1000);
  return shown.getTime();
}

/** Writes a time of a zone as RFC 3339. */
export function textOf(ms: number, name = zone.value): string {
  if (name === "UTC") return new Date(ms).toISOString();
  const shown = clock(ms, name);
  const minutes = Math.round((shown - ms) / 60_000);
  const two = (n: number) => String(n).padStart(2, "0");
  return `${new Date(shown).toISOString().slice(0, -1)}${minutes < 0 ? "-" : "+"}${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
}

/**
 * Returns the time in ms at which the clock of a zone shows a text such as 2026-01-05 12:30.
 * A text with an offset or Z stands for itself. NaN: it is no time. A time that the clock
 * skips is the one at which it is moved forward by as much.
 */
export function timeIn(text: string, name = zone.value): number {
  const iso = text.trim().replace(" ", "T");
  const date = /^\d{4,6}(-\d\d(-\d\d)?)?$/.test(iso);
  if (!date && /(z|[-+]\d\d:?\d\d)$/i.test(iso)) return Date.parse(iso);
  const shown = Date.parse(date ? iso : `${iso}Z`);
  if (Number.isNaN(shown)) return NaN;
  const near = shown - (clock(shown, name) - shown);
  return shown - (clock(near, name) - near);
}

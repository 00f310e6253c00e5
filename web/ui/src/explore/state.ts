// What Explore asks and how it shows the answer. All of it is in the link.

import { signal } from "@preact/signals";
import { go, place } from "../location";
import { units } from "../parts/units";
import { measures } from "./frame";
import type { Range } from "./range";

export const languages = ["influxql", "promql"] as const;
export const views = ["plot", "table", "raw"] as const;
export const styles = ["lines", "points", "bars", "stacked"] as const;
export const scales = ["linear", "log"] as const;

export interface Settings {
  db: string;
  rp: string;
  lang: (typeof languages)[number];
  text: string;
  from: string;
  to: string;
  refresh: number; // s; 0: off
  view: (typeof views)[number];
  style: (typeof styles)[number];
  by: (typeof measures)[number]; // chooses the series that are drawn first
  unit: "auto" | (typeof units)[number];
  scale: (typeof scales)[number];
  low: string; // bounds of the vertical axis; "": those of the data
  high: string;
}

export const defaults: Settings = { db: "", rp: "", lang: "influxql", text: "", from: "now-1h", to: "now", refresh: 0, view: "plot", style: "lines", by: "max", unit: "auto", scale: "linear", low: "", high: "" };

export const settings = signal<Settings>(settingsOf(place.value.params));

/** Counts the changes of the text that were not typed: the editor takes the new text. */
export const revision = signal(0);

/** Takes all settings, as of a link. */
export function load(all: Settings): void {
  settings.value = all;
  revision.value++;
}

/** Changes some settings, and the link. */
export function change(some: Partial<Settings>): void {
  settings.value = { ...settings.value, ...some };
  go("explore", paramsOf(settings.value), true);
}

/** The ranges from which the user has zoomed in. */
const wider: { from: string; to: string }[] = [];

/** Shows a part of the range. The step back of the browser undoes it, and zoomOut. */
export function zoomIn(from: string, to: string): void {
  wider.push({ from: settings.value.from, to: settings.value.to });
  settings.value = { ...settings.value, from, to };
  go("explore", paramsOf(settings.value));
}

/** Shows the range again from which the user has zoomed in. */
export function zoomOut(): void {
  const range = wider.pop();
  if (range !== undefined) change(range);
}

/** Moves the range by a part of its length, to earlier times if it is negative. */
export function shift(part: number, { from, to }: Range): void {
  const by = (to - from) * part;
  change({ from: new Date(from + by).toISOString(), to: new Date(to + by).toISOString() });
}

/** Reads settings from a link. What is missing or unknown has its default. */
export function settingsOf(params: URLSearchParams): Settings {
  const one = <T extends string>(name: string, known: readonly T[], otherwise: T): T => known.find((k) => k === params.get(name)) ?? otherwise;
  return {
    db: params.get("db") ?? defaults.db,
    rp: params.get("rp") ?? defaults.rp,
    lang: one("lang", languages, defaults.lang),
    text: params.get("q") ?? defaults.text,
    from: params.get("from") ?? defaults.from,
    to: params.get("to") ?? defaults.to,
    refresh: Math.max(0, Math.min(3600, Number(params.get("refresh")) || 0)),
    view: one("view", views, defaults.view),
    style: one("style", styles, defaults.style),
    by: one("by", measures, defaults.by),
    unit: one("unit", ["auto", ...units], defaults.unit),
    scale: one("scale", scales, defaults.scale),
    low: params.get("low") ?? "",
    high: params.get("high") ?? "",
  };
}

/** Whether a text has a password, which neither a link nor the history may hold. */
export function secret(text: string): boolean {
  return /\bpassword\b/i.test(text);
}

/** Returns the parameters of a link. Defaults and texts with a password are left out. */
export function paramsOf(s: Settings): Record<string, string> {
  const params: Record<string, string> = {};
  for (const [key, value] of Object.entries(s)) if (value !== defaults[key as keyof Settings] && !(key === "text" && secret(s.text))) params[key === "text" ? "q" : key] = String(value);
  return params;
}

// What Explore asks and how it shows the answer. All of it is in the link.

import { computed, signal } from "@preact/signals";
import { top, topDefaults, topOf, topParams } from "../frame/top";
import { go, place } from "../location";
import { units } from "../parts/units";
import { measures } from "./frame";
import { type Language, languages, type PlotOptions, plotOptions, scales, styles } from "./options";

export const views = ["plot", "table", "raw"] as const;

export interface Settings extends PlotOptions {
  db: string;
  rp: string;
  lang: Language;
  text: string;
  from: string;
  to: string;
  refresh: number; // s; 0: off
  view: (typeof views)[number];
}

export const defaults: Settings = { ...topDefaults, lang: "influxql", text: "", view: "plot", ...plotOptions };

export { zoomIn, zoomOut } from "../frame/top";

/** What Explore has of its own; the top bar has the others. A text with a password is here alone. */
const own = signal(settingsOf(place.value.params));

export const settings = computed<Settings>(() => ({ ...own.value, ...top.value }));

/** Counts the changes of the text that were not typed: the editor takes the new text. */
export const revision = signal(0);

/** Takes all settings, as of a link, and goes there. */
export function load(all: Settings): void {
  own.value = { ...defaults, ...all }; // an old one of the history may lack some
  revision.value++;
  go("explore", paramsOf(own.value), true);
}

/** Changes some settings, and the link. */
export function change(some: Partial<Settings>): void {
  own.value = { ...settings.value, ...some };
  go("explore", paramsOf(own.value), true);
}

/** Reads settings from a link. What is missing or unknown has its default. */
export function settingsOf(params: URLSearchParams): Settings {
  const one = <T extends string>(name: string, known: readonly T[], otherwise: T): T => known.find((k) => k === params.get(name)) ?? otherwise;
  return {
    ...topOf(params),
    lang: one("lang", languages, defaults.lang),
    text: params.get("q") ?? defaults.text,
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

/** Returns the parameters of a link, empty where they are the defaults. A text with a password is left out. */
export function paramsOf(s: Settings): Record<string, string> {
  const { db, rp, from, to, refresh, text, ...others } = s;
  const params = topParams({ db, rp, from, to, refresh });
  params.q = secret(text) ? "" : text;
  for (const [key, value] of Object.entries(others)) params[key] = value === defaults[key as keyof Settings] ? "" : String(value);
  return params;
}

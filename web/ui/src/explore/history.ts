// Queries that ran, and those that the user saved: kept in this browser.

import { signal } from "@preact/signals";
import { secret, type Settings } from "./state";

/** A query of the past, or a saved one. */
export interface Kept {
  name: string; // of a saved one
  at: number; // ms
  settings: Settings;
}

const length = 100;

function stored(key: string): Kept[] {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "[]") as Kept[];
  } catch {
    return [];
  }
}

export const past = signal<Kept[]>(stored("tsdbd-history"));
export const saved = signal<Kept[]>(stored("tsdbd-saved"));

/** Remembers a query that ran, unless it has a password. The same text again moves to the front. */
export function remember(settings: Settings): void {
  if (secret(settings.text)) return;
  past.value = [{ name: "", at: Date.now(), settings }, ...past.value.filter((k) => k.settings.text !== settings.text || k.settings.db !== settings.db || k.settings.lang !== settings.lang)].slice(0, length);
  localStorage.setItem("tsdbd-history", JSON.stringify(past.value));
}

/** Saves a query under a name, in place of one that has the name. */
export function save(name: string, settings: Settings): void {
  keep([...saved.value.filter((k) => k.name !== name), { name, at: Date.now(), settings }]);
}

/** Forgets a saved query. */
export function forget(name: string): void {
  keep(saved.value.filter((k) => k.name !== name));
}

/** Forgets all queries of the past. */
export function forgetPast(): void {
  past.value = [];
  localStorage.removeItem("tsdbd-history");
}

function keep(list: Kept[]): void {
  saved.value = list.toSorted((a, b) => a.name.localeCompare(b.name, "en"));
  localStorage.setItem("tsdbd-saved", JSON.stringify(saved.value));
}

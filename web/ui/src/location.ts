// The place in the page: all that a link holds. It is the part of the URL behind #,
// such as #/explore?q=SHOW+DATABASES, so that the page works below any prefix.

import { effect, signal } from "@preact/signals";
import { fromOthers } from "./start/links";

export interface Place {
  page: string;
  params: URLSearchParams;
}

/** The parameters that all views share (frame/top.ts reads them). A link has those of the present place, unless it is given others. */
export const shared: readonly string[] = ["db", "rp", "from", "to", "refresh", "zone"];

export const place = signal<Place>(parsePlace(location.hash));

/** The part of the URL that place is made of. */
let taken = location.hash;

addEventListener("hashchange", () => {
  taken = location.hash;
  place.value = parsePlace(taken);
});

/** The last parameters of each view. The tab keeps them, so that they survive a reload in another view. */
const key = "tsdbd-views";
const last = new Map<string, URLSearchParams>(Object.entries(keptViews()).map(([page, params]) => [page, new URLSearchParams(params)]));
effect(() => {
  last.set(place.value.page, place.value.params);
  globalThis.sessionStorage?.setItem(key, JSON.stringify(Object.fromEntries([...last].map(([page, params]) => [page, String(params)]))));
});

/** Reads what the tab has kept. Tests have no browser. */
function keptViews(): Record<string, string> {
  try {
    return JSON.parse(globalThis.sessionStorage?.getItem(key) ?? "{}") as Record<string, string>;
  } catch {
    return {};
  }
}

/** Reads the part of a URL behind #. */
export function parsePlace(hash: string): Place {
  const [page = "", params = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return fromOthers({ page, params: new URLSearchParams(params) });
}

/** Returns the link to a view. Empty parameters are left out, shared ones too. */
export function linkTo(page: string, params: Record<string, string> = {}): string {
  const present = place.peek().params;
  const all: Record<string, string> = {};
  for (const name of shared) all[name] = present.get(name) ?? "";
  // A policy is one of a database.
  if (params.db !== undefined && params.db !== all.db) all.rp = "";
  const kept = new URLSearchParams(Object.entries({ ...all, ...params }).filter(([, value]) => value !== ""));
  return `#/${page}${kept.size > 0 ? `?${kept}` : ""}`;
}

/** Returns the link to a view as the user has left it, with the shared parameters of the present place. */
export function linkBack(page: string): string {
  return linkTo(page, Object.fromEntries([...(last.get(page) ?? [])].filter(([name]) => !shared.includes(name))));
}

/**
 * Goes to a view. With replace, the step back passes over the present place. A link that the user has
 * opened meanwhile, and whose event is yet to come, is not replaced.
 */
export function go(page: string, params: Record<string, string> = {}, replace = false): void {
  if (replace && location.hash !== taken) return;
  const link = linkTo(page, params);
  if (replace) history.replaceState(null, "", link);
  else history.pushState(null, "", link);
  taken = location.hash;
  place.value = parsePlace(link);
}

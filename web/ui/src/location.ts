// The place in the page: all that a link holds. It is the part of the URL behind #,
// such as #/explore?q=SHOW+DATABASES, so that the page works below any prefix.

import { signal } from "@preact/signals";

export interface Place {
  page: string;
  params: URLSearchParams;
}

export const place = signal<Place>(parsePlace(location.hash));

addEventListener("hashchange", () => (place.value = parsePlace(location.hash)));

/** Reads the part of a URL behind #. */
export function parsePlace(hash: string): Place {
  const [page = "", params = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { page, params: new URLSearchParams(params) };
}

/** Returns the link to a page. Empty parameters are left out. */
export function linkTo(page: string, params: Record<string, string> = {}): string {
  const kept = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== ""));
  return `#/${page}${kept.size > 0 ? `?${kept}` : ""}`;
}

/** Goes to a page. With replace, the step back passes over the present place. */
export function go(page: string, params: Record<string, string> = {}, replace = false): void {
  const link = linkTo(page, params);
  if (replace) history.replaceState(null, "", link);
  else history.pushState(null, "", link);
  place.value = parsePlace(link);
}

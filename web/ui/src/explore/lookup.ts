// Look-ups for completion. They are bounded, and kept for a minute.

import { userName } from "../api/client";

/** How many names a look-up asks for. */
export const limit = 500;

const kept = new Map<string, { at: number; value: Promise<string[]> }>();

/** Runs a look-up, or returns what it found less than a minute ago. A failed one finds nothing. */
export function cached(what: string, look: () => Promise<string[]>): Promise<string[]> {
  const key = `${userName.value} ${what}`; // users see different names
  const known = kept.get(key);
  if (known !== undefined && Date.now() - known.at < 60_000) return known.value;
  const value = look().catch(() => {
    kept.delete(key);
    return [];
  });
  kept.set(key, { at: Date.now(), value });
  return value;
}

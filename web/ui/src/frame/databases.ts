// The databases that the user may see.

import { batch, signal } from "@preact/signals";
import { column } from "../api/influxql";
import { setTop, top } from "./top";

/** Their names; null: not known yet. */
export const databases = signal<string[] | null>(null);

/** Asks for the names. If no database is chosen, or the chosen one was dropped, it chooses the first one. */
export async function loadDatabases(dropped = ""): Promise<void> {
  let names: string[];
  try {
    names = await column("SHOW DATABASES", "name");
  } catch {
    databases.value = null; // the view says why
    return;
  }
  batch(() => {
    databases.value = names;
    const first = names.find((name) => name !== "_internal") ?? "";
    if (top.value.db === "" ? first !== "" : top.value.db === dropped) setTop({ db: first });
  });
}

// Runs statements that change something, after the user has agreed.

import { droppedBy } from "../api/dropped";
import { query } from "../api/influxql";
import { confirm } from "../parts/confirm";

/** Runs one statement and throws its error. */
export async function change(statement: string, db = ""): Promise<void> {
  const [result] = await query(statement, { db, changes: true });
  if (result?.error !== undefined) throw new Error(result.error);
}

/** Asks, then runs a statement that takes something away. It returns whether it ran. */
export async function takeAway(title: string, statement: string, db = "", details = ""): Promise<boolean> {
  if (!(await confirm(title, details === "" ? statement : `${details}\n\n${statement}`, title.replace(/\?$/, ""), droppedBy(statement)))) return false;
  await change(statement, db);
  return true;
}

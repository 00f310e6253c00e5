// What the user may do, as the server says it: the page shows nothing else.

import { effect, signal } from "@preact/signals";
import { login, request, userName } from "./client";

export interface Rights {
  /** The server requires logins. */
  logins: boolean;
  user: string;
  admin: boolean;
  /** READ, WRITE or ALL PRIVILEGES by database. An administrator has all without them. */
  databases: Record<string, string>;
}

/** The rights of the user; null: not known yet, and nothing is allowed. */
export const rights = signal<Rights | null>(null);

effect(() => {
  if (login.value === null || login.value.user !== rights.peek()?.user) rights.value = null; // those of another user
});

/** Asks for the rights. Without an answer those that are known stay; the view says what is wrong. */
export async function loadRights(): Promise<void> {
  const user = userName.peek();
  try {
    const found = (await (await request("api/rights")).json()) as Rights;
    if (userName.peek() === user) rights.value = found;
  } catch {
    // A login is needed, or the server does not answer.
  }
}

/** Whether the user is an administrator, or logins are off. */
export function isAdmin(): boolean {
  return rights.value?.admin === true;
}

/** Whether the user may write to a database; "": to any. */
export function mayWrite(db = ""): boolean {
  return isAdmin() || Object.entries(rights.value?.databases ?? {}).some(([name, privilege]) => (db === "" || name === db) && privilege !== "READ");
}

/** Returns the databases that the user may read, as far as they are granted. */
export function readable(): string[] {
  return Object.entries(rights.value?.databases ?? {}).flatMap(([name, privilege]) => (privilege === "WRITE" ? [] : [name]));
}

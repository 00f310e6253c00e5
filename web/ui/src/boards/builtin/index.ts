// The boards that the page has.

import type { Board } from "../format";
import { cluster } from "./cluster";
import { node } from "./node";
import { telegraf } from "./telegraf";
import { tsdbd } from "./tsdbd";

export interface Builtin {
  /** Its name in links. */
  id: string;
  name: string;
  /** What has to be in the database. */
  about: string;
  board: Board;
}

export const builtin: Builtin[] = [telegraf, node, tsdbd, cluster];

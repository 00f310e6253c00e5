import { signal } from "@preact/signals";
import type { Panel } from "./format";

/** A panel that waits for the choice of its board. */
export const adding = signal<Panel | null>(null);

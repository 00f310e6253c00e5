// How a query is written, and how its answer is drawn.

import type { Unit } from "../parts/units";
import type { Measure } from "./frame";

export const languages = ["influxql", "promql"] as const;
export const styles = ["lines", "points", "bars", "stacked"] as const;
export const scales = ["linear", "log"] as const;

export type Language = (typeof languages)[number];

/** How a plot is drawn. */
export interface PlotOptions {
  style: (typeof styles)[number];
  by: Measure; // chooses the series that are drawn first
  unit: "auto" | Unit;
  scale: (typeof scales)[number];
  low: string; // bounds of the vertical axis; "": those of the data
  high: string;
}

export const plotOptions: PlotOptions = { style: "lines", by: "max", unit: "auto", scale: "linear", low: "", high: "" };

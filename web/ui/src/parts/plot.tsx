// A plot of numbers over time.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { type Frame, join, title } from "../explore/frame";
import { theme } from "../theme";
import { colourOf, dashOf } from "./colours";
import { withUnit } from "./units";
import { textOf, zone } from "./zone";

export interface PlotProps {
  frames: Frame[];
  /** The place of each frame among all of the answer, which chooses its colour. */
  places?: number[];
  style?: "lines" | "points" | "bars" | "stacked";
  /** The range that the plot shows, in ms; absent: that of the data. */
  range?: { from: number; to: number };
  height?: number;
  /** Called when the user drags over a range. */
  onRange?: (from: number, to: number) => void;
  /** Called on a double click. */
  onOut?: () => void;
  label: string;
  /** Writes values. */
  unit?: (value: number) => string;
  log?: boolean;
  /** The bounds of the vertical axis; absent: those of the data. */
  low?: number;
  high?: number;
  /** The frame that stands out; null: none does. */
  focus?: number | null;
}

/** How many series the text at the cursor names. */
const named = 8;

export function Plot(props: PlotProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const { frames, style = "lines", height = 320, range, label, log = false, low, high, unit = withUnit("none"), focus = null } = props;
  const places = props.places ?? frames.map((_, i) => i);
  const on = useRef(props);
  on.current = props;
  useEffect(() => {
    const element = box.current!;
    const css = getComputedStyle(element);
    const axis = { stroke: css.color, grid: { stroke: css.borderTopColor, width: 1 }, ticks: { stroke: css.borderTopColor, width: 1 } };
    const { times, columns } = join(frames);
    const filled = style === "stacked" || style === "bars"; // these stand on each other
    const shown = filled ? stack(columns) : columns;
    const few = frames.length <= 30;
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    const options: uPlot.Options = {
      width: Math.max(200, element.clientWidth),
      height,
      ms: 1,
      tzDate: (ms) => uPlot.tzDate(new Date(ms), zone.value),
      legend: { show: false },
      cursor: { drag: { x: true, y: false }, points: { show: few } },
      // To fade the other series, all are drawn again.
      focus: { alpha: few ? 0.25 : 1 },
      scales: {
        x: range === undefined ? { time: true } : { time: true, min: range.from, max: range.to },
        y: { distr: log ? 3 : 1, range: (_u, min, max) => bounds(min, max, { zero: filled && !log, log, low, high }) },
      },
      axes: [{ ...axis, values: clock, space: 70, label: zone.value, labelSize: 18, labelFont: "12px system-ui" }, { ...axis, size: 80, values: (_u, splits) => splits.map((v) => (v === null ? "" : unit(v))) }],
      hooks: {
        init: [(u) => void u.over.append(tip)],
        setCursor: [(u) => tell(u, tip, frames, places, columns, shown, unit)],
        setSelect: [
          (u) => {
            if (u.select.width > 3) on.current.onRange?.(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
          },
        ],
      },
      series: [
        {},
        ...frames.map((frame, i): uPlot.Series => {
          const colour = colourOf(places[i]!);
          return {
            label: title(frame),
            stroke: colour,
            dash: dashOf(places[i]!),
            width: 1.5,
            spanGaps: false,
            fill: style === "bars" ? colour : filled ? `${colour}99` : undefined,
            paths: style === "bars" ? uPlot.paths.bars!({ size: [0.7, 60] }) : style === "points" ? () => null : undefined,
            points: style === "points" ? { show: true, size: 4, fill: colour } : few ? undefined : { show: false },
          };
        }),
      ],
    };
    if (filled) {
      // They are drawn from the top: a bar covers the one that it stands on, an area ends there.
      options.series = [options.series[0]!, ...options.series.slice(1).reverse()];
      if (style === "stacked") options.bands = frames.slice(1).map((_, i) => ({ series: [i + 1, i + 2] }));
    }
    const data = [times as unknown as number[], ...(filled ? shown.toReversed() : shown)] as uPlot.AlignedData;
    const u = (plot.current = new uPlot(options, data, element));
    // uPlot itself takes a double click to show all data again.
    const out = (e: MouseEvent) => {
      e.stopImmediatePropagation();
      on.current.onOut?.();
    };
    u.over.addEventListener("dblclick", out, { capture: true });
    const watch = new ResizeObserver(() => u.setSize({ width: Math.max(200, element.clientWidth), height }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      u.destroy();
      plot.current = null;
    };
  }, [frames, places.join(), style, height, range?.from, range?.to, log, low, high, unit, theme.value, zone.value]);
  useEffect(() => {
    const u = plot.current;
    if (u === null || frames.length > 30) return;
    const at = focus === null ? null : (style === "stacked" || style === "bars" ? frames.length - 1 - focus : focus) + 1;
    u.setSeries(at, { focus: true });
  }, [focus]);
  return <div ref={box} class="plot" role="img" aria-label={label} />;
}

/** Returns the bounds of the vertical axis for values from min to max. */
function bounds(min: number | null, max: number | null, { zero, log, low, high }: { zero: boolean; log: boolean; low?: number; high?: number }): [number, number] {
  if (min === null || max === null) [min, max] = log ? [1, 10] : [0, 1];
  if (zero) [min, max] = [Math.min(0, min), Math.max(0, max)];
  if (log && min <= 0) [min, max] = max > 0 ? [max / 1000, max] : [1, 10]; // a logarithm has no place for 0
  if (log) {
    const [least, most] = [low !== undefined && low > 0 ? low : 10 ** Math.floor(Math.log10(min)), high !== undefined && high > 0 ? high : 10 ** Math.ceil(Math.log10(max))];
    return [least, most > least ? most : least * 10];
  }
  const room = max > min ? (max - min) * 0.06 : Math.abs(max) || 1;
  const [least, most] = [low ?? (zero && min === 0 ? 0 : min - room), high ?? (zero && max === 0 ? 0 : max + room)];
  return [least, most > least ? most : least + 1];
}

type Column = (number | null | undefined)[];

/** Writes the time and the values at the cursor, the nearest first. */
function tell(u: uPlot, tip: HTMLElement, frames: Frame[], places: number[], columns: Column[], shown: Column[], unit: (value: number) => string): void {
  const { idx, left = -1, top = -1 } = u.cursor;
  if (idx === null || idx === undefined || left < 0) {
    tip.hidden = true;
    return;
  }
  const at = columns.flatMap((column, i) => {
    const value = column[idx];
    return typeof value === "number" ? [{ i, value, far: Math.abs(u.valToPos(shown[i]![idx]!, "y") - top) }] : [];
  });
  at.sort((a, b) => a.far - b.far);
  const rows = at.slice(0, named).map(({ i, value }) => {
    const row = document.createElement("div");
    const mark = document.createElement("span");
    mark.className = "mark";
    mark.style.background = colourOf(places[i]!);
    const number = document.createElement("b");
    number.textContent = unit(value);
    row.append(mark, ` ${title(frames[i]!)} `, number);
    return row;
  });
  const time = document.createElement("div");
  time.textContent = textOf(u.data[0][idx]!).replace("T", " ").replace(".000", "");
  tip.replaceChildren(time, ...rows);
  if (at.length > named) tip.append(`and ${at.length - named} more`);
  tip.hidden = at.length === 0;
  const right = left > u.over.clientWidth / 2;
  tip.style.left = right ? "" : `${left + 14}px`;
  tip.style.right = right ? `${u.over.clientWidth - left + 14}px` : "";
  tip.style.top = `${Math.max(0, Math.min(top, u.over.clientHeight - tip.offsetHeight))}px`;
}

/** The texts of the time axis, in 24 hours, for each distance of ticks. */
const clock: uPlot.Axis.Values = [
  [365 * 86_400_000, "{YYYY}", null, null, null, null, null, null, 1],
  [28 * 86_400_000, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [86_400_000, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [3_600_000, "{HH}:{mm}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
  [60_000, "{HH}:{mm}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
  [1000, "{HH}:{mm}:{ss}", "\n{D} {MMM} {YYYY}", null, "\n{D} {MMM}", null, null, null, 1],
  [1, "{ss}.{fff}", "\n{D} {MMM} {HH}:{mm}", null, null, null, "\n{HH}:{mm}", null, 1],
];

/** Adds each column to those before it. */
function stack(columns: Column[]): Column[] {
  const sum: number[] = [];
  return columns.map((column) => column.map((value, i) => (value === null || value === undefined ? value : (sum[i] = (sum[i] ?? 0) + value))));
}

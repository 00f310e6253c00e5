// A plot of numbers over time.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { type Frame, join, title } from "../explore/frame";
import { theme } from "../theme";

export interface PlotProps {
  frames: Frame[];
  style?: "lines" | "points" | "bars" | "stacked";
  /** The range that the plot shows, in ms; absent: that of the data. */
  range?: { from: number; to: number };
  height?: number;
  /** Called when the user drags over a range. */
  onRange?: (from: number, to: number) => void;
  label: string;
  /** Writes the values of the vertical axis. */
  unit?: (value: number) => string;
  /** Whether a legend is below the plot; absent: if there are few series. */
  legend?: boolean;
}

/** Returns the colour of a series: hues far from each other. */
export function colourOf(i: number): string {
  return `hsl(${(212 + i * 137.508) % 360} 62% ${matchMedia("(prefers-color-scheme: dark)").matches !== (theme.value === "system") ? 46 : 56}%)`;
}

export function Plot(props: PlotProps) {
  const box = useRef<HTMLDivElement>(null);
  const near = useRef<HTMLDivElement>(null); // names the series next to the cursor
  const { frames, style = "lines", height = 320, range, label } = props;
  const onRange = useRef(props.onRange);
  onRange.current = props.onRange;
  useEffect(() => {
    const element = box.current!;
    const css = getComputedStyle(element);
    const axis = { stroke: css.color, grid: { stroke: css.borderTopColor, width: 1 }, ticks: { stroke: css.borderTopColor, width: 1 } };
    const { times, columns } = join(frames);
    const shown = style === "stacked" ? stack(columns) : columns;
    const few = frames.length <= 24;
    const legend = props.legend ?? few;
    const options: uPlot.Options = {
      width: Math.max(200, element.clientWidth),
      height,
      ms: 1,
      legend: { show: legend },
      cursor: { drag: { x: true, y: false }, focus: { prox: 24 }, points: { show: few } },
      // To fade the other series, all are drawn again.
      focus: { alpha: few ? 0.3 : 1 },
      scales: range === undefined ? { x: { time: true } } : { x: { time: true, min: range.from, max: range.to } },
      axes: [{ ...axis, values: clock, space: 70 }, { ...axis, size: 70, values: (_u, splits) => splits.map(props.unit ?? short) }],
      hooks: {
        setSeries: [
          (_u, i) => {
            near.current!.textContent = i === null || i === 0 ? "" : title(frames[i - 1]!);
          },
        ],
        setSelect: [
          (u) => {
            if (u.select.width > 3) onRange.current?.(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
          },
        ],
      },
      series: [
        { value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" },
        ...frames.map((frame, i): uPlot.Series => {
          const colour = colourOf(i);
          return {
            label: title(frame),
            stroke: colour,
            width: 1.25,
            spanGaps: false,
            value: (_u, _v, _s, index) => (index === null ? "" : text(columns[i]![index])),
            fill: style === "stacked" || style === "bars" ? colour.replace(")", " / 0.35)") : undefined,
            paths: style === "bars" ? uPlot.paths.bars!({ size: [0.7, 60] }) : style === "points" ? () => null : undefined,
            points: style === "points" ? { show: true, size: 4, fill: colour } : few ? undefined : { show: false },
          };
        }),
      ],
    };
    const u = new uPlot(options, [times as unknown as number[], ...shown] as uPlot.AlignedData, element);
    const watch = new ResizeObserver(() => u.setSize({ width: Math.max(200, element.clientWidth), height }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      u.destroy();
    };
  }, [frames, style, height, range?.from, range?.to, theme.value]);
  return (
    <>
      <div ref={box} class="plot" role="img" aria-label={label} />
      <div ref={near} class="near faint" />
    </>
  );
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
function stack(columns: (number | null | undefined)[][]): (number | null | undefined)[][] {
  const sum: number[] = [];
  return columns.map((column) => column.map((value, i) => (value === null || value === undefined ? value : (sum[i] = (sum[i] ?? 0) + value))));
}

/** A number of an axis: short, without a loss that matters there. */
function short(value: number): string {
  return Math.abs(value) >= 1e6 || (value !== 0 && Math.abs(value) < 1e-4) ? value.toExponential(1).replace("e+", "e") : String(Number(value.toPrecision(6)));
}

function text(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : String(Number(value.toPrecision(7)));
}

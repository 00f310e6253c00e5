// A plot of an answer with its legend: the series that matter first, and which of them are drawn.

import { useMemo, useState } from "preact/hooks";
import { Legend } from "../parts/legend";
import { Plot } from "../parts/plot";
import { unitOf, withUnit } from "../parts/units";
import { type Frame, plotted, ranked, summaryOf } from "./frame";
import type { PlotOptions } from "./options";
import type { Range } from "./range";

export interface PanelProps {
  frames: Frame[];
  /** The range that was asked for. */
  asked: Range;
  /** What was sent. What the user has chosen stays as long as it is the same. */
  sent: string;
  options: PlotOptions;
  onOptions: (some: Partial<PlotOptions>) => void;
  /** Called when the user drags over a range. */
  onRange: (from: string, to: string) => void;
  /** Called on a double click. */
  onOut: () => void;
  height?: number;
  /** How many series are drawn at first. */
  most?: number;
  /** How many series the legend lists at first; absent: all that are drawn. */
  legendRows?: number;
}

export function Panel({ frames, asked, sent, options, onOptions, onRange, onOut, height, most = 30, legendRows = Infinity }: PanelProps) {
  const { style, by, unit: chosenUnit, scale, low, high } = options;
  const [all, setAll] = useState("");
  const [opened, setOpened] = useState("");
  const [chosen, setChosen] = useState<{ of: string; places: Set<number> }>({ of: "", places: new Set() });
  const [focus, setFocus] = useState<number | null>(null);
  const summaries = useMemo(() => frames.map(summaryOf), [frames]);
  const listed = useMemo(() => {
    const order = ranked(summaries, by);
    return all === sent ? order : order.slice(0, most);
  }, [summaries, by, all, sent]);
  // What is chosen stays when the same query is asked again.
  const only = chosen.of === sent ? chosen.places : new Set<number>();
  const places = useMemo(() => listed.filter((i) => only.size === 0 || only.has(i)), [listed, chosen, sent]);
  const drawn = useMemo(() => places.map((i) => frames[i]!), [places, frames]);
  const range = useMemo(() => plotted(frames, asked), [frames, asked.from, asked.to]);
  const unitName = chosenUnit === "auto" ? unitOf(frames.map((f) => f.name), sent) : chosenUnit;
  const unit = useMemo(() => withUnit(unitName), [unitName]);
  const choose = (i: number, others: boolean) => {
    const next = new Set(others ? only : []);
    if (only.has(i) && (others || only.size === 1)) next.delete(i);
    else next.add(i);
    setChosen({ of: sent, places: next });
  };
  const number = (text: string) => (text.trim() === "" || Number.isNaN(Number(text)) ? undefined : Number(text));
  return (
    <>
      {range !== asked && <p class="message">The answer has no rows in the chosen range. The plot shows the range of the answer.</p>}
      <Plot
        frames={drawn}
        places={places}
        style={style}
        range={range}
        height={height}
        onRange={(from, to) => onRange(new Date(from).toISOString(), new Date(to).toISOString())}
        onOut={onOut}
        label={`Plot of ${drawn.length} series`}
        unit={unit}
        log={scale === "log"}
        low={number(low)}
        high={number(high)}
        focus={focus === null || !places.includes(focus) ? null : places.indexOf(focus)}
      />
      {frames.length > most && (
        <p class="bar">
          <span>{all === sent ? `All ${frames.length.toLocaleString("en")} series` : `${most} of ${frames.length.toLocaleString("en")} series, those with the greatest ${by}`}</span>
          <button type="button" onClick={() => setAll(all === sent ? "" : sent)}>{all === sent ? `Show ${most}` : `Show all ${frames.length.toLocaleString("en")}`}</button>
        </p>
      )}
      <Legend frames={frames} summaries={summaries} listed={opened === sent ? listed : listed.slice(0, legendRows)} drawn={(i) => only.size === 0 || only.has(i)} by={by} onBy={(m) => onOptions({ by: m })} onChoose={choose} onHover={setFocus} unit={unit} />
      {opened !== sent && listed.length > legendRows && <button type="button" class="quiet" onClick={() => setOpened(sent)}>{listed.length - legendRows} more in the legend</button>}
    </>
  );
}

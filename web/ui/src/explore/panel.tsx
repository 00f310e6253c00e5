// A plot of an answer with its legend: the series that matter first, and which of them are drawn.

import { useEffect, useMemo, useState } from "preact/hooks";
import { Legend } from "../parts/legend";
import { Plot } from "../parts/plot";
import { unitOf, withUnit } from "../parts/units";
import { plotted, ranked, summaryOf } from "./frame";
import type { Answer } from "./run";
import { change, settings, zoomIn, zoomOut } from "./state";

/** How many series are drawn at first. */
const most = 30;

export function Panel({ answer }: { answer: Answer }) {
  const { style, by, unit: chosenUnit, scale, low, high } = settings.value;
  const { frames, range: asked, sent } = answer;
  const [all, setAll] = useState("");
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
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.key === "Escape" && !(e.target as Element).closest("input, select, textarea, dialog, .cm-editor")) zoomOut();
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, []);
  const number = (text: string) => (text.trim() === "" || Number.isNaN(Number(text)) ? undefined : Number(text));
  return (
    <>
      {range !== asked && <p class="message">The answer has no rows in the chosen range. The plot shows the range of the answer.</p>}
      <Plot
        frames={drawn}
        places={places}
        style={style}
        range={range}
        onRange={(from, to) => zoomIn(new Date(from).toISOString(), new Date(to).toISOString())}
        onOut={zoomOut}
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
      <Legend frames={frames} summaries={summaries} listed={listed} drawn={(i) => only.size === 0 || only.has(i)} by={by} onBy={(m) => change({ by: m })} onChoose={choose} onHover={setFocus} unit={unit} />
    </>
  );
}

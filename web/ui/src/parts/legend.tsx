// The legend of a plot: a table of its series with their figures.

import { type Frame, type Measure, measures, type Summary, title } from "../explore/frame";
import { colourOf } from "./colours";

export interface LegendProps {
  frames: Frame[];
  summaries: Summary[];
  /** The frames that are listed, in their order. */
  listed: number[];
  /** Whether a frame is drawn. */
  drawn: (i: number) => boolean;
  by: Measure;
  onBy: (by: Measure) => void;
  /** Called when a frame is chosen: alone, or with others. */
  onChoose: (i: number, others: boolean) => void;
  onHover: (i: number | null) => void;
  unit: (value: number) => string;
}

export function Legend({ frames, summaries, listed, drawn, by, onBy, onChoose, onHover, unit }: LegendProps) {
  return (
    <div class="legend">
      <table>
        <caption class="hidden">Series of the plot</caption>
        <thead>
          <tr>
            <th scope="col">Series</th>
            {measures.map((m) => (
              <th key={m} scope="col" class="number" aria-sort={m === by ? "descending" : "none"}>
                <button type="button" class="sort" onClick={() => onBy(m)}>{m}{m === by ? " ▾" : ""}</button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody onMouseLeave={() => onHover(null)}>
          {listed.map((i) => (
            <tr key={i} class={drawn(i) ? undefined : "off"} onMouseEnter={() => onHover(i)}>
              <td>
                <button type="button" class="quiet" aria-pressed={drawn(i)} title="Click: this one alone. Ctrl and click: with others." onClick={(e) => onChoose(i, e.ctrlKey || e.metaKey || e.shiftKey)}>
                  <span class="mark" ref={(mark) => { if (mark !== null) mark.style.background = colourOf(i); }} /> {title(frames[i]!)}
                </button>
              </td>
              {measures.map((m) => <td key={m} class="number">{Number.isNaN(summaries[i]![m]) ? "" : unit(summaries[i]![m])}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

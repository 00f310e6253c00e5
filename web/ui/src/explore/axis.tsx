// How a plot is drawn: its style, the unit of its values, and the vertical axis.

import { units } from "../parts/units";
import { type PlotOptions, scales, styles } from "./options";

export function Axis({ options: s, onChange: change }: { options: PlotOptions; onChange: (some: Partial<PlotOptions>) => void }) {
  return (
    <>
      <select aria-label="Style of the plot" value={s.style} onChange={(e) => change({ style: e.currentTarget.value as typeof s.style })}>
        {styles.map((style) => <option key={style}>{style}</option>)}
      </select>
      <select aria-label="Unit" value={s.unit} onChange={(e) => change({ unit: e.currentTarget.value as typeof s.unit })}>
        <option value="auto">unit: auto</option>
        {units.map((unit) => <option key={unit}>{unit}</option>)}
      </select>
      <select aria-label="Scale" value={s.scale} onChange={(e) => change({ scale: e.currentTarget.value as typeof s.scale })}>
        {scales.map((scale) => <option key={scale}>{scale}</option>)}
      </select>
      <label>Axis from <input size={5} inputMode="decimal" value={s.low} onChange={(e) => change({ low: e.currentTarget.value.trim() })} /></label>
      <label>to <input size={5} inputMode="decimal" value={s.high} onChange={(e) => change({ high: e.currentTarget.value.trim() })} /></label>
    </>
  );
}

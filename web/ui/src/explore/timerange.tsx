// The time range of Explore: quick choices, two texts, and how often to ask again.

import { useState } from "preact/hooks";
import { zone, zones } from "../parts/zone";
import { rangeOf } from "./range";
import { change, settings, shift } from "./state";

const quick = ["5m", "15m", "1h", "6h", "24h", "7d", "30d", "365d"];

export function TimeRange() {
  const { from, to, refresh } = settings.value;
  const [draft, setDraft] = useState<{ from: string; to: string } | null>(null);
  const [error, setError] = useState("");
  const apply = (f: string, t: string) => {
    try {
      rangeOf(f, t);
      change({ from: f, to: t });
      setDraft(null);
      setError("");
    } catch (e) {
      setError((e as Error).message);
    }
  };
  const shown = draft ?? { from, to };
  const preset = to === "now" && from.startsWith("now-") ? from.slice(4) : "";
  return (
    <fieldset class="bar plain">
      <legend class="hidden">Time range</legend>
      <select aria-label="Range" value={quick.includes(preset) ? preset : ""} onChange={(e) => e.currentTarget.value !== "" && apply(`now-${e.currentTarget.value}`, "now")}>
        <option value="">own range</option>
        {quick.map((q) => <option key={q} value={q}>last {q}</option>)}
      </select>
      <button type="button" aria-label="Earlier" title="Earlier by half of the range" onClick={() => shift(-0.5, rangeOf(from, to))}>◀</button>
      <button type="button" aria-label="Later" title="Later by half of the range" onClick={() => shift(0.5, rangeOf(from, to))}>▶</button>
      <label>
        From <input size={20} value={shown.from} onInput={(e) => setDraft({ ...shown, from: e.currentTarget.value })} onChange={() => draft && apply(shown.from, shown.to)} />
      </label>
      <label>
        to <input size={20} value={shown.to} onInput={(e) => setDraft({ ...shown, to: e.currentTarget.value })} onChange={() => draft && apply(shown.from, shown.to)} />
      </label>
      <label>
        Zone{" "}
        <select class="zone" value={zone.value} onChange={(e) => (zone.value = e.currentTarget.value)}>
          {zones().map((name) => <option key={name}>{name}</option>)}
        </select>
      </label>
      <label>
        Refresh{" "}
        <select value={String(refresh)} onChange={(e) => change({ refresh: Number(e.currentTarget.value) })}>
          {[0, 5, 10, 30, 60, 300].map((s) => <option key={s} value={String(s)}>{s === 0 ? "off" : `${s} s`}</option>)}
        </select>
      </label>
      {error !== "" && <span class="error" role="alert">{error}</span>}
    </fieldset>
  );
}

// The top bar: what all views share.

import { useEffect, useState } from "preact/hooks";
import { userName } from "../api/client";
import { column, identifier } from "../api/influxql";
import { rangeOf } from "../explore/range";
import { useLoad } from "../parts/load";
import { zone, zones } from "../parts/zone";
import { databases, loadDatabases } from "./databases";
import { setTop, setZone, shift, tick, top } from "./top";

/** The parts of the bar. A view names those that it uses. */
export type Part = "database" | "policy" | "range" | "refresh" | "zone";

export function TopBar({ parts }: { parts: readonly Part[] }) {
  const { db, refresh } = top.value;
  const uses = (part: Part) => parts.includes(part);
  useEffect(() => void loadDatabases(), [userName.value]);
  if (parts.length === 0) return null;
  const names = databases.value ?? [];
  return (
    <div class="topbar" role="group" aria-label="What is shown">
      {uses("database") && (
        <label class="pill">
          <span>Database</span>
          <select value={db} onChange={(e) => setTop({ db: e.currentTarget.value })}>
            {(names.includes(db) ? names : [db, ...names]).map((name) => <option key={name} value={name}>{name || "none"}</option>)}
          </select>
        </label>
      )}
      {uses("policy") && <Policy key={db} />}
      {uses("range") && <Range />}
      {uses("zone") && (
        <label class="pill">
          <span>Zone</span>
          <select class="zone" value={zone.value} onChange={(e) => setZone(e.currentTarget.value)}>
            {zones().map((name) => <option key={name}>{name}</option>)}
          </select>
        </label>
      )}
      {uses("refresh") && (
        <span class="joined">
          <label class="pill">
            <span>Refresh</span>
            <select value={String(refresh)} onChange={(e) => setTop({ refresh: Number(e.currentTarget.value) })}>
              {[...new Set([0, 5, 10, 30, 60, 300, refresh])].map((s) => <option key={s} value={String(s)}>{s === 0 ? "off" : `${s} s`}</option>)}
            </select>
          </label>
          <button type="button" aria-label="Ask again" title="Ask again now" onClick={() => tick.value++}>↻</button>
        </span>
      )}
    </div>
  );
}

function Policy() {
  const { db, rp } = top.value;
  const policies = useLoad(async (signal) => (db === "" ? [] : column(`SHOW RETENTION POLICIES ON ${identifier(db)}`, "name", { signal })), [db]);
  return (
    <label class="pill">
      <span>Policy</span>
      <select value={rp} onChange={(e) => setTop({ rp: e.currentTarget.value })}>
        {[...new Set(["", ...(policies.data ?? []), rp])].map((name) => <option key={name} value={name}>{name || "default"}</option>)}
      </select>
    </label>
  );
}

const quick = ["5m", "15m", "1h", "6h", "24h", "7d", "30d", "365d"];

function Range() {
  const { from, to } = top.value;
  const [draft, setDraft] = useState<{ from: string; to: string } | null>(null);
  const [own, setOwn] = useState(false);
  const [error, setError] = useState("");
  const apply = (f: string, t: string) => {
    try {
      rangeOf(f, t);
      setTop({ from: f, to: t });
      setDraft(null);
      setError("");
    } catch (e) {
      setError((e as Error).message);
    }
  };
  const shown = draft ?? { from, to };
  const preset = to === "now" && from.startsWith("now-") && quick.includes(from.slice(4)) ? from.slice(4) : "";
  const texts = own || preset === "";
  return (
    <>
      <span class="joined" role="group" aria-label="Time range">
        <button type="button" aria-label="Earlier" title="Earlier by half of the range" onClick={() => shift(-0.5)}>◀</button>
        <label class="pill">
          <select
            aria-label="Range"
            value={texts ? "" : preset}
            onChange={(e) => {
              setOwn(e.currentTarget.value === "");
              if (e.currentTarget.value !== "") apply(`now-${e.currentTarget.value}`, "now");
            }}
          >
            {quick.map((q) => <option key={q} value={q}>last {q}</option>)}
            <option value="">from … to</option>
          </select>
        </label>
        <button type="button" aria-label="Later" title="Later by half of the range" onClick={() => shift(0.5)}>▶</button>
      </span>
      {texts && (
        <span class="joined">
          <label class="pill">
            <span>From</span>
            <input size={17} value={shown.from} onInput={(e) => setDraft({ ...shown, from: e.currentTarget.value })} onChange={() => draft && apply(shown.from, shown.to)} />
          </label>
          <label class="pill">
            <span>to</span>
            <input size={17} value={shown.to} onInput={(e) => setDraft({ ...shown, to: e.currentTarget.value })} onChange={() => draft && apply(shown.from, shown.to)} />
          </label>
        </span>
      )}
      {error !== "" && <span class="error" role="alert">{error}</span>}
    </>
  );
}

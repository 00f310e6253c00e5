// Deletes points, after a count of what would go.

import { useEffect, useState } from "preact/hooks";
import { column, identifier, select } from "../api/influxql";
import { ErrorBox } from "../parts/error";
import { takeAway } from "./run";

interface Preview {
  db: string;
  statement: string;
  rows: { policy: string; measurement: string; series: number; values: number }[];
}

export function Deletes({ db }: { db: string }) {
  const [measurement, setMeasurement] = useState("");
  const [where, setWhere] = useState("");
  const [looked, setPreview] = useState<Preview | null>(null);
  const preview = looked?.db === db ? looked : null; // that of another database is of no use
  const [error, setError] = useState<Error | null>(null);
  const [done, setDone] = useState("");
  useEffect(() => {
    setError(null);
    setDone("");
  }, [db]);
  const source = measurement.trim() === "" ? "/.*/" : identifier(measurement.trim());
  const condition = where.trim() === "" ? "" : ` WHERE ${where.trim()}`;
  const statement = `DELETE FROM ${source}${condition}`;
  const edit = (set: (text: string) => void) => (e: { currentTarget: { value: string } }) => {
    set(e.currentTarget.value);
    setPreview(null);
    setDone("");
  };
  const look = async () => {
    setError(null);
    setDone("");
    setPreview(null);
    try {
      if (measurement.trim() === "" && condition === "") throw new Error("Name a measurement, or a condition, or both. To delete everything, drop the database.");
      setPreview({ db, statement, rows: await counts(db, source, condition) });
    } catch (e) {
      setError(e as Error);
    }
  };
  const remove = async () => {
    setError(null);
    try {
      if (await takeAway("Delete points?", preview!.statement, preview!.db, `Database ${preview!.db}. Nothing brings the points back but a backup.`)) {
        setDone("The points are deleted.");
        setPreview(null);
      }
    } catch (e) {
      setError(e as Error);
    }
  };
  return (
    <section aria-label="Deletes">
      <h2>Delete points of {db}</h2>
      <form class="bar" onSubmit={(e) => { e.preventDefault(); void look(); }}>
        <label>Measurement <input value={measurement} onInput={edit(setMeasurement)} placeholder="all" /></label>
        <label>Where <input value={where} onInput={edit(setWhere)} size={50} placeholder="host = 'a' AND time < '2026-01-01'" /></label>
        <button type="submit" class="primary">Preview</button>
      </form>
      <p class="faint">Points are chosen by tags and time. All policies of the database are searched.</p>
      {error !== null && <ErrorBox error={error} />}
      {done !== "" && <p class="good" role="status">{done}</p>}
      {preview !== null && (
        <>
          <pre class="raw">{preview.statement}</pre>
          {preview.rows.length === 0 ? (
            <p role="status">No point would go, of any policy.</p>
          ) : (
            <table class="texts">
              <caption>What would go</caption>
              <thead><tr><th scope="col">policy</th><th scope="col">measurement</th><th scope="col">series</th><th scope="col">values</th></tr></thead>
              <tbody>
                {preview.rows.map((r) => (
                  <tr key={`${r.policy} ${r.measurement}`}><td>{r.policy}</td><td>{r.measurement}</td><td class="number">{r.series.toLocaleString("en")}</td><td class="number">{r.values.toLocaleString("en")}</td></tr>
                ))}
              </tbody>
            </table>
          )}
          {preview.rows.length > 0 && <button type="button" class="danger" onClick={() => void remove()}>Delete…</button>}
        </>
      )}
    </section>
  );
}

/** Counts the series and the values that a delete would take, in each policy. */
async function counts(db: string, source: string, condition: string): Promise<Preview["rows"]> {
  const rows: Preview["rows"] = [];
  for (const policy of await column(`SHOW RETENTION POLICIES ON ${identifier(db)}`, "name")) {
    const found = new Map<string, Preview["rows"][number]>();
    for (const s of await select(`SELECT count(*) FROM ${identifier(policy)}.${source}${condition} GROUP BY *`, { db })) {
      const row = found.get(s.name ?? "") ?? { policy, measurement: s.name ?? "", series: 0, values: 0 };
      found.set(row.measurement, row);
      row.series++;
      for (const value of s.values?.[0]?.slice(1) ?? []) row.values += Number(value ?? 0);
    }
    rows.push(...found.values());
  }
  return rows;
}

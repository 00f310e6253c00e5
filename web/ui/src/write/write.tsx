// Writes points by hand: line protocol or CSV, from the clipboard or a file.

import { useMemo, useState } from "preact/hooks";
import { request } from "../api/client";
import { databases } from "../frame/databases";
import { top } from "../frame/top";
import { linkTo } from "../location";
import { Empty } from "../parts/empty";
import { ErrorBox } from "../parts/error";
import { linesOf } from "./lines";
import { guess, parseCSV, toLines, type Role } from "./csv";
import { refusalsOf, type Refusal } from "./refusal";

/** How many lines a request has. */
const batch = 5000;
const roles: Role[] = ["time", "tag", "field", "measurement", "skip"];

interface Outcome {
  written: number;
  refused: Refusal[];
}

export function Write() {
  const { db, rp } = top.value;
  const [format, setFormat] = useState<"line" | "csv">("line");
  const [precision, setPrecision] = useState("ns");
  const [text, setText] = useState("");
  const [measurement, setMeasurement] = useState("");
  const [chosen, setChosen] = useState<Record<number, Role>>({});
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);

  const csv = useMemo(() => (format === "csv" ? parseCSV(text) : []), [text, format]);
  const [header = [], ...rows] = csv;
  const mapped = useMemo(() => guess(header, rows).map((role, i) => chosen[i] ?? role), [csv, chosen]);
  const converted = useMemo(() => (format === "csv" ? toLines(header, rows, { measurement, roles: mapped }) : null), [csv, mapped, measurement]);

  const send = async () => {
    setBusy(true);
    setError(null);
    setOutcome(null);
    try {
      const lines = converted?.lines ?? linesOf(text);
      setOutcome(await write(lines, { db, rp, precision: format === "csv" ? "ns" : precision }));
    } catch (e) {
      setError(e as Error);
    }
    setBusy(false);
  };
  const take = async (file: File | undefined) => {
    if (file === undefined) return;
    if (file.size > 100 << 20) return setError(new Error(`${file.name} is larger than 100 MiB; use tsdbd import`));
    setText(await file.text());
    if (/\.csv$/i.test(file.name)) setFormat("csv");
  };

  if (databases.value?.length === 0) return <Empty title="There is no database yet"><a class="button primary" href={linkTo("admin")}>Create one</a></Empty>;
  return (
    <section class="card">
      <h2>Write points</h2>
      <div class="bar">
        <span class="tabs" role="group" aria-label="Format">
          <button type="button" aria-pressed={format === "line"} onClick={() => setFormat("line")}>Line protocol</button>
          <button type="button" aria-pressed={format === "csv"} onClick={() => setFormat("csv")}>CSV</button>
        </span>
        {format === "line" && (
          <label>
            Times in{" "}
            <select value={precision} onChange={(e) => setPrecision(e.currentTarget.value)}>
              {["ns", "u", "ms", "s", "m", "h"].map((p) => <option key={p}>{p}</option>)}
            </select>
          </label>
        )}
        <label>
          File <input type="file" accept=".txt,.lp,.csv,.tsv,text/*" onChange={(e) => void take(e.currentTarget.files?.[0])} />
        </label>
      </div>
      <textarea class="code" aria-label="Points" rows={10} value={text} onInput={(e) => setText(e.currentTarget.value)} placeholder={format === "line" ? "cpu,host=a usage=12.5 1767571200000000000" : "time,host,usage\n2026-01-05T00:00:00Z,a,12.5"} />
      {format === "csv" && header.length > 0 && (
        <fieldset class="plain">
          <legend>Columns</legend>
          <label>Measurement <input value={measurement} onInput={(e) => setMeasurement(e.currentTarget.value)} /></label>
          <table>
            <tbody>
              {header.map((name, i) => (
                <tr key={i}>
                  <th scope="row">{name}</th>
                  <td>
                    <select aria-label={`Column ${name}`} value={mapped[i]} onChange={(e) => setChosen({ ...chosen, [i]: e.currentTarget.value as Role })}>
                      {roles.map((role) => <option key={role}>{role}</option>)}
                    </select>
                  </td>
                  <td class="faint">{rows.slice(0, 3).map((r) => r[i]).join(", ")}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {converted!.lines.length > 0 && <pre class="raw">{converted!.lines.slice(0, 3).join("\n")}</pre>}
          {converted!.refused.slice(0, 20).map((r) => <p key={r.row} class="message">row {r.row}: {r.reason}</p>)}
          {converted!.refused.length > 20 && <p class="message">and {converted!.refused.length - 20} more rows</p>}
        </fieldset>
      )}
      <div class="bar">
        <button type="button" class="primary" disabled={busy || text.trim() === "" || db === ""} onClick={() => void send()}>
          {converted === null ? "Write" : `Write ${converted.lines.length.toLocaleString("en")} points`}
        </button>
        {outcome !== null && <span class={outcome.refused.length === 0 ? "good" : ""} role="status">{outcome.refused.length === 0 ? `All ${outcome.written.toLocaleString("en")} lines are written.` : "Some lines are not written:"}</span>}
      </div>
      {error !== null && <ErrorBox error={error} />}
      {outcome?.refused.slice(0, 100).map((r, i) => <ErrorBox key={i} error={new Error(r.line === 0 ? r.text : `line ${r.line}: ${r.text}`)} />)}
      {outcome !== null && outcome.refused.length > 100 && <p class="message">and {outcome.refused.length - 100} more</p>}
    </section>
  );
}

/** Writes lines in batches. The server keeps the good lines of a batch and names the others. */
async function write(lines: string[], params: Record<string, string>): Promise<Outcome> {
  const outcome: Outcome = { written: 0, refused: [] };
  for (let i = 0; i < lines.length; i += batch) {
    const part = lines.slice(i, i + batch);
    try {
      await request("write", { method: "POST", params, body: part.join("\n") });
      outcome.written += part.filter((line) => line.trim() !== "" && !line.startsWith("#")).length;
    } catch (e) {
      if (e instanceof TypeError) throw e;
      outcome.refused.push(...refusalsOf((e as Error).message, part, i + 1));
    }
  }
  return outcome;
}

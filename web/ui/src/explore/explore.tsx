// Ask by hand: a statement, and its answer as a table.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { column, query, type Result } from "../api/influxql";
import { go, place } from "../location";
import { ErrorBox } from "../parts/error";
import { ResultTable } from "../parts/result";

export function Explore() {
  const params = place.value.params;
  const db = useSignal(params.get("db") ?? "");
  const text = useSignal(params.get("q") ?? "SHOW DATABASES");
  const databases = useSignal<string[]>([]);
  const results = useSignal<Result[]>([]);
  const error = useSignal<Error | null>(null);
  const busy = useSignal(false);

  const run = async () => {
    go("explore", { db: db.value, q: text.value }, true);
    busy.value = true;
    error.value = null;
    try {
      results.value = await query(text.value, { db: db.value });
    } catch (e) {
      results.value = [];
      error.value = e as Error;
    }
    busy.value = false;
  };
  useEffect(() => {
    column("SHOW DATABASES", "name").then((names) => (databases.value = names), () => undefined);
    void run();
  }, []);

  return (
    <section>
      <form class="bar" onSubmit={(e) => { e.preventDefault(); void run(); }}>
        <label>
          Database{" "}
          <select value={db.value} onChange={(e) => (db.value = e.currentTarget.value)}>
            <option value="">none</option>
            {databases.value.map((name) => <option key={name}>{name}</option>)}
          </select>
        </label>
        <button type="submit" class="primary" disabled={busy.value}>Run</button>
      </form>
      <textarea class="code" aria-label="Statement" rows={4} value={text.value} onInput={(e) => (text.value = e.currentTarget.value)} />
      {error.value !== null && <ErrorBox error={error.value} />}
      {results.value.map((result) => <ResultTable key={result.statement_id} result={result} />)}
    </section>
  );
}

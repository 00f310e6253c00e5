// The queries that run, and what those of the last hour have cost.

import { useState } from "preact/hooks";
import { query, select } from "../api/influxql";
import { isAdmin, readable } from "../api/rights";
import { linkTo } from "../location";
import { confirm } from "../parts/confirm";
import { ErrorBox } from "../parts/error";
import { Grid } from "../parts/grid";
import { useLoad } from "../parts/load";
import { count, goDuration, withUnit } from "../parts/units";
import { textOf } from "../parts/zone";
import { editable, loadPast, ofThisPage } from "./past";

const seconds = withUnit("seconds");

export function Queries() {
  return (
    <>
      <Running />
      <PastQueries />
    </>
  );
}

function Running() {
  const [failed, setFailed] = useState<Error | null>(null);
  const admin = isAdmin();
  const [db] = readable();
  // Who is no administrator sees the own queries, and needs a right for that.
  const running = useLoad(async (signal) => (admin || db !== undefined ? select("SHOW QUERIES", { signal, db: admin ? "" : db! }) : []), [admin, db], 5000);
  const series = running.data?.[0];
  const at = (row: unknown[], column: string) => String(row[series!.columns.indexOf(column)] ?? "");
  const rows = series === undefined ? [] : (series.values ?? []).filter((row) => !ofThisPage(at(row, "query")));
  const kill = async (id: string, text: string) => {
    if (!(await confirm("Kill this query?", text, "Kill"))) return;
    setFailed(null);
    try {
      await query(`KILL QUERY ${id}`, { changes: true });
    } catch (e) {
      setFailed(e as Error);
    }
    running.reload();
  };
  return (
    <>
      <h2>Running queries</h2>
      {running.error !== null && <ErrorBox error={running.error} />}
      {failed !== null && <ErrorBox error={failed} />}
      {rows.length === 0 && <p class="faint">None.</p>}
      {rows.length > 0 && (
        <Grid
          caption=""
          columns={[...(admin ? [""] : []), "for", "query", "database", "user", "status"]}
          rows={rows.map((row) => [...(admin ? [at(row, "qid")] : []), at(row, "duration"), at(row, "query"), at(row, "database"), at(row, "user"), at(row, "status")])}
          show={(value, i, row) => {
            const text = String(value ?? "");
            switch (i + (admin ? 0 : 1)) {
              case 0:
                return <button type="button" class="danger" onClick={() => void kill(text, String(row[2]))}>Kill</button>;
              case 1:
                return goDuration(text);
              case 2:
                return <code class="query">{text}</code>;
              default:
                return text;
            }
          }}
        />
      )}
    </>
  );
}

function PastQueries() {
  const past = useLoad(loadPast, [], 15_000);
  const queries = (past.data?.queries ?? []).filter((q) => !ofThisPage(q.query));
  return (
    <>
      <h2>Queries of the last hour</h2>
      {past.error !== null && <ErrorBox error={past.error} />}
      {past.data !== null && (
        <p class="faint">
          Since {textOf(Date.parse(past.data.from)).replace("T", " ").slice(0, 16)}. A ? stands for the times of a query, so all refreshes of a panel are one row.
          {past.data.forgotten > 0 && ` There were too many: ${count(past.data.forgotten)} that took the least are left out.`}
        </p>
      )}
      {past.data !== null && queries.length === 0 && <p class="faint">None.</p>}
      {queries.length > 0 && (
        <Grid
          caption=""
          columns={["", "query", "total", "count", "mean", "worst", "rows", "errors", "last", "database", "user"]}
          rows={queries.map((q, i) => [i, q.query, q.total_seconds, q.count, q.total_seconds / q.count, q.worst_seconds, q.rows, q.errors, q.last, q.database, q.user])}
          pageSize={20}
          show={(value, i) => {
            switch (i) {
              case 0: {
                const q = queries[Number(value)]!;
                return <a class="button" href={linkTo("explore", { db: q.database, lang: q.language === "promql" ? q.language : "", q: editable(q.query) })} title="Open in Explore">Open</a>;
              }
              case 1:
                return <code class="query">{String(value)}</code>;
              case 2:
              case 4:
              case 5:
                return seconds(Number(value));
              case 3:
              case 6:
                return count(Number(value));
              case 7:
                return Number(value) > 0 ? <span class="bad">{count(Number(value))}</span> : "0";
              case 8:
                return textOf(Date.parse(String(value))).slice(11, 19);
              default:
                return String(value ?? "");
            }
          }}
        />
      )}
    </>
  );
}

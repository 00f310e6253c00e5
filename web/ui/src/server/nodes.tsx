// The nodes of the cluster, with what is wrong.

import { query, type Series } from "../api/influxql";
import { Grid } from "../parts/grid";

/** The cluster, as the node that answers sees it. */
export interface Cluster {
  members: Series | null; // null: the server is alone
  /** What is wrong, as one text. */
  problems: string[];
}

/** Asks for the nodes. */
export async function loadCluster(signal: AbortSignal): Promise<Cluster> {
  const [servers, diagnostics] = await query("SHOW SERVERS; SHOW DIAGNOSTICS FOR 'cluster'", { signal });
  const members = servers?.series?.[0] ?? null;
  if (members === null) return { members, problems: [] };
  const cluster = diagnostics?.series?.[0];
  const all = String(cluster?.values?.[0]?.[cluster.columns.indexOf("problems")] ?? "");
  return { members, problems: all === "" ? [] : [all] };
}

export function Nodes({ members }: { members: Series }) {
  const of = (name: string) => members.columns.indexOf(name);
  const [reachable, lag, problem] = [of("reachable"), of("lag"), of("problem")];
  return (
    <>
      <h2>Nodes of the cluster</h2>
      <Grid
        caption="As the node that answers sees them"
        columns={members.columns}
        rows={members.values ?? []}
        show={(value, i, row) => {
          const text = i === lag && value !== null ? `${value} s` : value === null ? "not known" : value === true ? "yes" : value === false ? "no" : String(value);
          const bad = i === problem || (i === reachable && value !== true) || (members.columns[i] === "name" && row[problem] !== "");
          return bad ? <strong class="bad">{text}</strong> : text;
        }}
      />
    </>
  );
}

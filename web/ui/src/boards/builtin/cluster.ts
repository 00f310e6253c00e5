import { emptyBoard, type Panel, panelOf } from "../format";
import type { Builtin } from "./index";
import { rows, sees } from "./rows";

const of = (metric: string) => `${metric}{instance=~"$instance"}`;
const plot = (title: string, options: Partial<Panel["options"]>, ...texts: string[]) => panelOf({ title, options: { low: "0", ...options }, queries: texts.map((text) => ({ lang: "promql", text })) });
const number = (title: string, unit: Panel["options"]["unit"], text: string) => panelOf({ title, kind: "number", grid: { x: 0, y: 0, w: 4, h: 2 }, options: { by: "last", unit }, queries: [{ lang: "promql", text }] });

/** The nodes of a cluster by the metrics that each of them has. */
export const cluster: Builtin = {
  id: "cluster",
  name: "tsdbd cluster",
  about: "scraped /metrics of all nodes of a cluster",
  board: {
    ...emptyBoard,
    refresh: 10,
    variables: [sees("instance", "promql", "label_values(tsdbd_cluster_members, instance)")],
    panels: rows([
      [
        number("Leaders (one is right)", "none", `sum(${of("tsdbd_cluster_leader")})`),
        number("Members", "none", of("tsdbd_cluster_members")),
        number("Behind the leader", "seconds", `max(${of("tsdbd_cluster_lag_seconds")})`),
      ],
      [
        plot("Who leads", {}, of("tsdbd_cluster_leader")),
        plot("Behind the leader", { unit: "seconds" }, of("tsdbd_cluster_lag_seconds")),
      ],
      [
        plot("Elections won, in 5 minutes", {}, `increase(${of("tsdbd_cluster_elections_total")}[5m])`),
        plot("Requests passed on to the leader, per second", {}, `rate(${of("tsdbd_cluster_forwarded_requests_total")}[5m])`),
      ],
      [
        plot("Points written, per second", {}, `rate(${of("tsdbd_store_points_written_total")}[5m])`),
        plot("Log of the cluster", { unit: "bytes" }, of("tsdbd_cluster_log_bytes")),
      ],
      [
        plot("Requests, per second", {}, `sum by (instance, code) (rate(${of("tsdbd_http_requests_total")}[5m]))`),
        plot("Time of requests, 99 %", { unit: "seconds" }, `histogram_quantile(0.99, sum by (le, instance) (rate(${of("tsdbd_http_request_duration_seconds_bucket")}[5m])))`),
      ],
      [
        plot("Memory", { unit: "bytes" }, of("tsdbd_memory_live_bytes"), of("process_resident_memory_bytes")),
        plot("CPU", {}, `rate(${of("process_cpu_seconds_total")}[5m])`),
      ],
      [
        plot("Data copied from another node, per second", { unit: "bytes" }, `rate(${of("tsdbd_cluster_transfer_bytes_total")}[5m])`),
        plot("Damaged files", {}, of("tsdbd_shard_quarantined_files"), of("tsdbd_cluster_damaged_parts")),
      ],
    ]),
  },
};

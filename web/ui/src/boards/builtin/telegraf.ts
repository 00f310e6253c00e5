import { emptyBoard, panelOf } from "../format";
import type { Builtin } from "./index";
import { rows, sees } from "./rows";

// Windows without rows are left out: an agent may send less often than $interval.
const windows = "WHERE $timeFilter AND host =~ $host GROUP BY time($interval), host fill(none)";
const ql = (text: string) => ({ text });

/** A host by Telegraf's inputs cpu, mem, disk, diskio, net and system. */
export const telegraf: Builtin = {
  id: "telegraf",
  name: "Host (Telegraf)",
  about: "Telegraf's inputs cpu, mem, disk, diskio, net and system",
  board: {
    ...emptyBoard,
    refresh: 10,
    variables: [sees("host", "influxql", "SHOW TAG VALUES FROM system WITH KEY = host")],
    panels: rows([
      [
        panelOf({ title: "Load", kind: "number", grid: { x: 0, y: 0, w: 4, h: 2 }, options: { by: "last" }, queries: [ql("SELECT last(load1) FROM system WHERE $timeFilter AND host =~ $host GROUP BY host")] }),
        panelOf({ title: "Up for", kind: "number", grid: { x: 0, y: 0, w: 4, h: 2 }, options: { by: "last", unit: "seconds" }, queries: [ql("SELECT last(uptime) FROM system WHERE $timeFilter AND host =~ $host GROUP BY host")] }),
        panelOf({ title: "Memory used", kind: "number", grid: { x: 0, y: 0, w: 4, h: 2 }, options: { by: "last", unit: "percent" }, queries: [ql("SELECT last(used_percent) FROM mem WHERE $timeFilter AND host =~ $host GROUP BY host")] }),
      ],
      [
        panelOf({ title: "CPU busy", options: { unit: "percent", low: "0" }, queries: [ql("SELECT 100 - mean(usage_idle) FROM cpu WHERE $timeFilter AND host =~ $host AND cpu = 'cpu-total' GROUP BY time($interval), host fill(none)")] }),
        panelOf({ title: "CPU by use", options: { unit: "percent", low: "0" }, queries: [ql(`SELECT mean(usage_user) AS "user", mean(usage_system) AS "system", mean(usage_iowait) AS "iowait" FROM cpu WHERE $timeFilter AND host =~ $host AND cpu = 'cpu-total' GROUP BY time($interval), host fill(none)`)] }),
      ],
      [
        panelOf({ title: "Load", options: { low: "0" }, queries: [ql(`SELECT mean(load1) AS "load1", mean(load5) AS "load5", mean(load15) AS "load15" FROM system ${windows}`)] }),
        panelOf({ title: "Memory", options: { unit: "bytes", low: "0" }, queries: [ql(`SELECT mean(used) AS "used", mean(cached) AS "cached", mean(buffered) AS "buffered", mean(available) AS "available" FROM mem ${windows}`)] }),
      ],
      [
        panelOf({ title: "Disk used", options: { unit: "percent", low: "0", high: "100" }, queries: [ql("SELECT mean(used_percent) FROM disk WHERE $timeFilter AND host =~ $host GROUP BY time($interval), host, path fill(none)")] }),
        panelOf({ title: "Inodes used", options: { unit: "percent", low: "0", high: "100" }, queries: [ql("SELECT 100 * mean(inodes_used) / mean(inodes_total) FROM disk WHERE $timeFilter AND host =~ $host GROUP BY time($interval), host, path fill(none)")] }),
      ],
      [
        panelOf({ title: "Disk read and written, per second", options: { unit: "bytes", low: "0" }, queries: [ql(`SELECT non_negative_derivative(max(read_bytes), 1s) AS "read", non_negative_derivative(max(write_bytes), 1s) AS "written" FROM diskio WHERE $timeFilter AND host =~ $host GROUP BY time($interval), host, "name" fill(none)`)] }),
        panelOf({ title: "Network, per second", options: { unit: "bytes", low: "0" }, queries: [ql(`SELECT non_negative_derivative(max(bytes_recv), 1s) AS "received", non_negative_derivative(max(bytes_sent), 1s) AS "sent" FROM net WHERE $timeFilter AND host =~ $host AND interface != 'all' GROUP BY time($interval), host, interface fill(none)`)] }),
      ],
      [
        panelOf({ title: "Disk busy", options: { unit: "percent", low: "0" }, queries: [ql('SELECT non_negative_derivative(max(io_time), 1s) / 10 FROM diskio WHERE $timeFilter AND host =~ $host GROUP BY time($interval), host, "name" fill(none)')] }),
        panelOf({ title: "Network errors and drops, per second", options: { low: "0" }, queries: [ql(`SELECT non_negative_derivative(max(err_in), 1s) AS "errors_in", non_negative_derivative(max(err_out), 1s) AS "errors_out", non_negative_derivative(max(drop_in), 1s) AS "drops_in", non_negative_derivative(max(drop_out), 1s) AS "drops_out" FROM net WHERE $timeFilter AND host =~ $host AND interface != 'all' GROUP BY time($interval), host, interface fill(none)`)] }),
      ],
    ]),
  },
};

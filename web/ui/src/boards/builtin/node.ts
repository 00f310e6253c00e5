import { emptyBoard, type Panel, panelOf } from "../format";
import type { Builtin } from "./index";
import { rows, sees } from "./rows";

const prom = (...texts: string[]) => texts.map((text) => ({ lang: "promql" as const, text }));
const plot = (title: string, options: Partial<Panel["options"]>, ...texts: string[]) => panelOf({ title, options: { low: "0", ...options }, queries: prom(...texts) });
const number = (title: string, unit: Panel["options"]["unit"], text: string) => panelOf({ title, kind: "number", grid: { x: 0, y: 0, w: 4, h: 2 }, options: { by: "last", unit }, queries: prom(text) });
const disks = 'instance=~"$instance",fstype!~"tmpfs|overlay|squashfs|ramfs"';

/** A host by the metrics of node_exporter. */
export const node: Builtin = {
  id: "node",
  name: "Host (node_exporter)",
  about: "metrics of node_exporter, by remote write or a scrape",
  board: {
    ...emptyBoard,
    refresh: 10,
    variables: [sees("instance", "promql", "label_values(node_load1, instance)")],
    panels: rows([
      [
        number("Load", "none", 'node_load1{instance=~"$instance"}'),
        number("Up for", "seconds", 'time() - node_boot_time_seconds{instance=~"$instance"}'),
        number("Memory available", "bytes", 'node_memory_MemAvailable_bytes{instance=~"$instance"}'),
      ],
      [
        plot("CPU busy", { unit: "percent" }, '100 - 100 * avg by (instance) (rate(node_cpu_seconds_total{instance=~"$instance",mode="idle"}[5m]))'),
        plot("CPU by mode", { unit: "percent", style: "stacked" }, '100 * avg by (mode) (rate(node_cpu_seconds_total{instance=~"$instance",mode!="idle"}[5m]))'),
      ],
      [
        plot("Load", {}, 'node_load1{instance=~"$instance"}', 'node_load5{instance=~"$instance"}', 'node_load15{instance=~"$instance"}'),
        plot("Memory used", { unit: "bytes" }, 'node_memory_MemTotal_bytes{instance=~"$instance"} - node_memory_MemAvailable_bytes{instance=~"$instance"}'),
      ],
      [
        plot("Disk used", { unit: "percent", high: "100" }, `100 - 100 * node_filesystem_avail_bytes{${disks}} / node_filesystem_size_bytes{${disks}}`),
        plot("Inodes used", { unit: "percent", high: "100" }, `100 - 100 * node_filesystem_files_free{${disks}} / node_filesystem_files{${disks}}`),
      ],
      [
        plot("Disk read and written, per second", { unit: "bytes" }, 'rate(node_disk_read_bytes_total{instance=~"$instance"}[5m])', 'rate(node_disk_written_bytes_total{instance=~"$instance"}[5m])'),
        plot("Network, per second", { unit: "bytes" }, 'rate(node_network_receive_bytes_total{instance=~"$instance",device!="lo"}[5m])', 'rate(node_network_transmit_bytes_total{instance=~"$instance",device!="lo"}[5m])'),
      ],
      [
        plot("Disk busy", { unit: "percent" }, '100 * rate(node_disk_io_time_seconds_total{instance=~"$instance"}[5m])'),
        plot("Network errors and drops, per second", {}, 'rate(node_network_receive_errs_total{instance=~"$instance"}[5m])', 'rate(node_network_transmit_errs_total{instance=~"$instance"}[5m])', 'rate(node_network_receive_drop_total{instance=~"$instance"}[5m])'),
      ],
    ]),
  },
};

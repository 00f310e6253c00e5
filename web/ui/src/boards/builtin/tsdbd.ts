import { emptyBoard, type Panel, panelOf } from "../format";
import type { Builtin } from "./index";
import { rows, sees } from "./rows";

const from = (measurement: string) => `FROM "${measurement}" WHERE $timeFilter AND hostname =~ $hostname GROUP BY time($interval), hostname fill(none)`;
const plot = (title: string, options: Partial<Panel["options"]>, ...texts: string[]) => panelOf({ title, options: { low: "0", ...options }, queries: texts.map((text) => ({ text })) });
const number = (title: string, options: Partial<Panel["options"]>, text: string) => panelOf({ title, kind: "number", grid: { x: 0, y: 0, w: 4, h: 2 }, options: { by: "last", ...options }, queries: [{ text }] });
/** A sum over the series of a measurement of their rates per second. */
const rate = (measurement: string, ...fields: [string, string][]) =>
  `SELECT ${fields.map(([field, name]) => `sum(${field}) AS "${name}"`).join(", ")} FROM (SELECT ${fields.map(([field]) => `non_negative_derivative(max(${field}), 1s) AS "${field}"`).join(", ")} FROM "${measurement}" WHERE $timeFilter AND hostname =~ $hostname GROUP BY time($interval), * fill(none)) WHERE $timeFilter GROUP BY time($interval), hostname fill(none)`;
/** A sum over the series of a measurement. */
const sum = (measurement: string, ...fields: [string, string][]) =>
  `SELECT ${fields.map(([field, name]) => `sum(${field}) AS "${name}"`).join(", ")} FROM (SELECT ${fields.map(([field]) => `mean(${field}) AS "${field}"`).join(", ")} FROM "${measurement}" WHERE $timeFilter AND hostname =~ $hostname GROUP BY time($interval), * fill(none)) WHERE $timeFilter GROUP BY time($interval), hostname fill(none)`;

/** The server by the figures that it writes to a database itself. */
export const tsdbd: Builtin = {
  id: "tsdbd",
  name: "tsdbd",
  about: "the server's own figures: choose the database _internal, which monitor.store-enabled fills",
  board: {
    ...emptyBoard,
    refresh: 10,
    variables: [sees("hostname", "influxql", "SHOW TAG VALUES FROM runtime WITH KEY = hostname")],
    panels: rows([
      [
        number("Series", {}, "SELECT sum(numSeries) FROM (SELECT last(numSeries) AS numSeries FROM \"database\" WHERE $timeFilter AND hostname =~ $hostname GROUP BY *) GROUP BY hostname"),
        number("Data on disk", { unit: "bytes" }, "SELECT sum(diskBytes) FROM (SELECT last(diskBytes) AS diskBytes FROM \"shard\" WHERE $timeFilter AND hostname =~ $hostname GROUP BY *) GROUP BY hostname"),
        number("Memory from the system", { unit: "bytes" }, "SELECT last(Sys) FROM runtime WHERE $timeFilter AND hostname =~ $hostname GROUP BY hostname"),
      ],
      [
        plot("Points written, per second", {}, rate("httpd", ["pointsWrittenOK", "written"], ["pointsWrittenDropped", "dropped"], ["pointsWrittenFail", "failed"])),
        plot("Requests, per second", {}, rate("httpd", ["queryReq", "queries"], ["writeReq", "writes"], ["clientError", "client_errors"], ["serverError", "server_errors"])),
      ],
      [
        plot("Queries under way", {}, `SELECT max(queriesActive) ${from("queryExecutor")}`),
        plot("Requests under way", {}, `SELECT max(reqActive) AS "requests", max(writeReqActive) AS "writes" ${from("httpd")}`),
      ],
      [
        plot("Heap", { unit: "bytes" }, `SELECT mean(HeapInUse) AS "in_use", mean(Sys) AS "from_the_system" ${from("runtime")}`),
        plot("Goroutines", {}, `SELECT mean(NumGoroutine) ${from("runtime")}`),
      ],
      [
        plot("Cache and log", { unit: "bytes" }, sum("tsm1_cache", ["memBytes", "cache"]), sum("tsm1_wal", ["currentSegmentDiskBytes", "log"])),
        plot("Disk", { unit: "bytes" }, sum("shard", ["diskBytes", "shards"])),
      ],
      [
        plot("Bytes of requests and answers, per second", { unit: "bytes" }, rate("httpd", ["writeReqBytes", "writes"], ["queryRespBytes", "answers"])),
        plot("Compactions and flushes, per second", {}, rate("tsm1_engine", ["cacheCompactions", "flushes"], ["tsmFullCompactions", "full_compactions"], ["tsmLevel1Compactions", "level_1_compactions"])),
      ],
    ]),
  },
};

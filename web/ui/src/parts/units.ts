// Numbers as people read them.

/** Writes bytes with a binary unit: 1536 is 1.5 KiB. */
export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  while (Math.abs(n) >= 1024 && i < units.length - 1) {
    n /= 1024;
    i++;
  }
  return `${i === 0 ? n : n.toFixed(n < 10 ? 2 : n < 100 ? 1 : 0)} ${units[i]}`;
}

/** Writes a count: 12,345 in full, from a million on 1.23 M. */
export function count(n: number): string {
  const units: [number, string][] = [[1e12, "T"], [1e9, "G"], [1e6, "M"]];
  for (const [size, unit] of units) if (Math.abs(n) >= size) return `${(n / size).toFixed(2)} ${unit}`;
  return Math.abs(n) >= 100 || Number.isInteger(n) ? Math.round(n).toLocaleString("en") : n.toFixed(1);
}

/** Writes a duration of Go, such as 3.975121066s or 26h3m0s, with two units at most. */
export function goDuration(text: string): string {
  const parts = text.match(/\d+(?:\.\d+)?(?:ns|µs|us|ms|h|m|s)/g) ?? [];
  const days = /^(\d+)h/.exec(text);
  if (days !== null && Number(days[1]) >= 48) return `${Math.floor(Number(days[1]) / 24)}d ${Number(days[1]) % 24}h`;
  return parts.slice(0, 2).map((p) => p.replace(/\.\d+/, "")).join(" ") || text;
}

/** The units of an axis. */
export const units = ["none", "SI", "bytes", "bits", "percent", "seconds", "per second"] as const;
export type Unit = (typeof units)[number];

/** A number with a factor of a thousand: 12300 is 12.3 k. */
function si(n: number): string {
  const steps: [number, string][] = [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"], [1, ""], [1e-3, " m"], [1e-6, " µ"], [1e-9, " n"]];
  const [size, name] = steps.find(([size]) => Math.abs(n) >= size) ?? [1, ""];
  return `${Number((n / size).toPrecision(4))}${name}`;
}

/** Writes seconds in the unit that people would choose: 0.0031 is 3.1 ms, 7500 is 2.08 h. */
function seconds(n: number): string {
  const steps: [number, string][] = [[86_400, "d"], [3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
  const [size, name] = steps.find(([size]) => Math.abs(n) >= size) ?? [1, "s"];
  return `${Number((n / size).toPrecision(3))} ${name}`;
}

/** A number as it is: short, without a loss that matters in a plot. */
function plain(n: number): string {
  return Math.abs(n) >= 1e6 || (n !== 0 && Math.abs(n) < 1e-4) ? n.toExponential(3).replace(/\.?0*e\+?/, "e") : String(Number(n.toPrecision(6)));
}

/** Writes a value with its unit. */
export function withUnit(unit: Unit): (n: number) => string {
  switch (unit) {
    case "SI":
      return si;
    case "bytes":
      return bytes;
    case "bits":
      return (n) => `${si(n)}${Math.abs(n) >= 1000 ? "" : " "}bit`;
    case "percent":
      return (n) => `${plain(n)} %`;
    case "seconds":
      return seconds;
    case "per second":
      return (n) => `${si(n)}/s`;
    default:
      return plain;
  }
}

/** Guesses the unit of series by their names, such as mem.used_bytes, or by the query that made them. */
export function unitOf(names: string[], query: string): Unit {
  const is = (word: RegExp, inQuery: RegExp) => (names.length > 0 && names.every((name) => word.test(name))) || inQuery.test(query);
  if (is(/percent|pct|(^|[._])usage_/i, /percent|_pct\b|\busage_/i)) return "percent";
  if (is(/bytes|(^|[._])(used|free|available|buffered|cached)$/i, /bytes/i)) return "bytes";
  if (is(/seconds|duration|latency/i, /(?<!_bucket.*)_seconds\b/i)) return "seconds";
  return "SI";
}

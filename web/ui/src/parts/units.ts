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

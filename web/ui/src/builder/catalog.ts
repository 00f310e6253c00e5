// What the builder and the list beside the editor offer: bounded look-ups, kept for a minute.

import { column, containing, identifier, select } from "../api/influxql";
import { cached } from "../explore/lookup";
import { names } from "../explore/promql";
import { writeProm } from "./promql";

/** How many names a look-up asks for. The search finds the others. */
export const most = 200;

export interface Catalog {
  /** Measurements, or metrics, with a text in their names. */
  sources(search: string): Promise<string[]>;
  /** The fields of a measurement with their types; a metric has none. */
  fields(source: string): Promise<Field[]>;
  tags(source: string): Promise<string[]>;
  values(source: string, tag: string, search: string): Promise<string[]>;
}

export interface Field {
  name: string;
  type: string;
}

/** The names of a database for InfluxQL. */
export function influxCatalog(db: string): Catalog {
  const look = (statement: string, name: string) => cached(`${db} ${statement}`, () => column(`${statement} LIMIT ${most}`, name, { db }));
  const matching = (left: string, search: string) => (search === "" ? "" : `${left} =~ ${containing(search)}`);
  return {
    sources: (search) => look(`SHOW MEASUREMENTS${matching(" WITH MEASUREMENT", search)}`, "name"),
    async fields(source) {
      const statement = `SHOW FIELD KEYS FROM ${identifier(source)} LIMIT ${most}`;
      const rows = await cached(`${db} ${statement}`, async () => (await select(statement, { db })).flatMap((s) => (s.values ?? []).map((row) => JSON.stringify(row))));
      return rows.map((row) => JSON.parse(row) as string[]).map(([name = "", type = ""]) => ({ name, type }));
    },
    tags: (source) => look(`SHOW TAG KEYS FROM ${identifier(source)}`, "tagKey"),
    values: (source, tag, search) => look(`SHOW TAG VALUES FROM ${identifier(source)} WITH KEY = ${identifier(tag)}${matching(` WHERE ${identifier(tag)}`, search)}`, "value"),
  };
}

/** The names of a database for PromQL. */
export function promCatalog(db: string, rp: string): Catalog {
  const finds = (search: string) => `(?i).*${search.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")}.*`;
  const bounded = async (found: Promise<string[]>) => (await found).slice(0, most);
  const series = (metric: string, tag = "", search = "") => writeProm({ metric, filters: search === "" ? [] : [{ tag, operator: "=~", value: finds(search) }], call: "", range: "", aggregate: "", by: [] });
  return {
    sources: (search) => bounded(names("api/v1/label/__name__/values", db, rp, search === "" ? "" : `{__name__=~${JSON.stringify(finds(search))}}`)),
    fields: async () => [],
    tags: async (metric) => (await names("api/v1/labels", db, rp, series(metric))).filter((label) => label !== "__name__"),
    values: (metric, tag, search) => bounded(names(`api/v1/label/${encodeURIComponent(tag)}/values`, db, rp, series(metric, tag, search))),
  };
}

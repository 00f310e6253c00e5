// The schema beside the editor: a click on a field, a tag or a value adds it to the query.

import { useState } from "preact/hooks";
import { literal } from "../api/influxql";
import { settings } from "../explore/state";
import { Branch } from "../parts/branch";
import { ErrorBox } from "../parts/error";
import { useLoad } from "../parts/load";
import { ofField, put } from "./builder";
import { type Catalog, influxCatalog, most, promCatalog, type Field } from "./catalog";
import { type Built, type Filter, nameOf, nothing, read, write } from "./influxql";
import { type BuiltProm, nothingProm, readProm, writeProm } from "./promql";

/** What a click does. */
interface Adds {
  field: (source: string, field: Field) => void;
  group: (source: string, tag: string) => void;
  value: (source: string, tag: string, value: string) => void;
}

/** writeText puts a text at the cursor: of a query that the builder cannot show, that is what a click does. */
export function Beside({ writeText }: { writeText: (text: string) => void }) {
  const { db, rp, lang } = settings.value;
  const [wide] = useState(innerWidth > 900);
  const [search, setSearch] = useState("");
  const catalog = lang === "influxql" ? influxCatalog(db) : promCatalog(db, rp);
  const found = useLoad(() => (db === "" ? Promise.resolve([]) : catalog.sources(search)), [db, rp, lang, search]);
  const what = lang === "influxql" ? "measurements" : "metrics";
  const adds = lang === "influxql" ? influxAdds(catalog, writeText) : promAdds(writeText);
  return (
    <details class="card beside" open={wide}>
      <summary>Schema</summary>
      <input type="search" aria-label={`Search ${what}`} placeholder={`search ${what}`} value={search} onInput={(e) => setSearch(e.currentTarget.value)} />
      {found.error !== null && <ErrorBox error={found.error} />}
      {found.data?.length === 0 && <p class="faint">No {what}{search === "" ? " yet" : " with this in their names"}.</p>}
      <ul class="tree" aria-label={`Names of ${what}`}>
        {found.data?.map((name) => <li key={`${lang} ${db} ${name}`}><Branch label={name}>{() => <Source name={name} catalog={catalog} adds={adds} />}</Branch></li>)}
      </ul>
      {found.data?.length === most && <p class="faint">The first {most}. The search finds others.</p>}
    </details>
  );
}

function influxAdds(catalog: Catalog, writeText: (text: string) => void): Adds {
  /** Changes the query if it is one of this measurement, else begins one. */
  const change = async (source: string, written: string, next: (b: Built) => Built) => {
    const { text } = settings.value;
    const present = text.trim() === "" ? nothing : read(text);
    if (present === null) return writeText(written);
    if (present.measurement === source) return put(write(next(present)));
    const [field] = await catalog.fields(source);
    if (field !== undefined) put(write(next(ofField({ ...nothing, measurement: source }, field))));
  };
  return {
    field: (source, field) => void change(source, nameOf(field.name), (b) => ofField(b, field)),
    group: (source, tag) => void change(source, nameOf(tag), (b) => ({ ...b, by: toggled(b.by, tag) })),
    value: (source, tag, value) => void change(source, `${nameOf(tag)} = ${literal(value)}`, (b) => ({ ...b, filters: filtered(b.filters, tag, value) })),
  };
}

function promAdds(writeText: (text: string) => void): Adds {
  const change = (metric: string, written: string, next: (b: BuiltProm) => BuiltProm) => {
    const { text } = settings.value;
    const present = text.trim() === "" ? nothingProm : readProm(text);
    if (present === null) writeText(written);
    else put(writeProm(next(present.metric === metric ? present : { ...nothingProm, metric })));
  };
  return {
    field: (source) => change(source, writeProm({ ...nothingProm, metric: source }), (b) => b),
    group: (source, tag) => change(source, tag, (b) => ({ ...b, aggregate: b.aggregate || "sum", by: toggled(b.by, tag) })),
    value: (source, tag, value) => change(source, `${tag}=${JSON.stringify(value)}`, (b) => ({ ...b, filters: filtered(b.filters, tag, value) })),
  };
}

function toggled(list: string[], name: string): string[] {
  return list.includes(name) ? list.filter((n) => n !== name) : [...list, name];
}

/** Adds a filter, in place of one that asks for another value of the tag. */
function filtered(filters: Filter[], tag: string, value: string): Filter[] {
  return [...filters.filter((f) => f.tag !== tag || f.operator !== "="), { tag, operator: "=", value }];
}

function Source({ name, catalog, adds }: { name: string; catalog: Catalog; adds: Adds }) {
  const found = useLoad(async () => ({ fields: await catalog.fields(name), tags: await catalog.tags(name) }), [name]);
  if (found.data === null) return <p class="faint">Loading…</p>;
  const { fields, tags } = found.data;
  return (
    <ul>
      {settings.value.lang === "promql" && <li><button type="button" class="quiet code-link" onClick={() => adds.field(name, { name: "", type: "" })}>{name}</button></li>}
      {fields.map((f) => (
        <li key={`${f.name} ${f.type}`}>
          <button type="button" class="quiet code-link" onClick={() => adds.field(name, f)}>{f.name}</button> <span class="faint">{f.type}</span>
        </li>
      ))}
      {tags.map((tag) => (
        <li key={tag}>
          <Branch label={<>{tag} <span class="faint">tag</span></>}>{() => <Tag source={name} tag={tag} catalog={catalog} adds={adds} />}</Branch>
        </li>
      ))}
    </ul>
  );
}

function Tag({ source, tag, catalog, adds }: { source: string; tag: string; catalog: Catalog; adds: Adds }) {
  const [search, setSearch] = useState("");
  const found = useLoad(() => catalog.values(source, tag, search), [source, tag, search]);
  return (
    <>
      <button type="button" onClick={() => adds.group(source, tag)}>Group by {tag}</button>
      {(search !== "" || found.data?.length === most) && <input type="search" aria-label={`Search values of ${tag}`} placeholder="search values" value={search} onInput={(e) => setSearch(e.currentTarget.value)} />}
      <ul>
        {found.data?.map((value) => <li key={value}><button type="button" class="quiet code-link" onClick={() => adds.value(source, tag, value)}>{value}</button></li>)}
      </ul>
    </>
  );
}

// The builder: controls that write the query of the editor, and show a query that they could have written.

import { useEffect, useState } from "preact/hooks";
import { type Field, influxCatalog, promCatalog, type Catalog } from "./catalog";
import { offered, type Offered, overRanges } from "../explore/words";
import { load, settings } from "../explore/state";
import { useLoad } from "../parts/load";
import { type Built, type Filter, nothing, operators, read, write } from "./influxql";
import { aggregates, type BuiltProm, nothingProm, readProm, writeProm } from "./promql";

/** Puts a query of the builder into the editor, and runs it. */
export function put(text: string): void {
  load({ ...settings.value, text });
}

export function Builder() {
  const { text, lang } = settings.value;
  const built = lang === "influxql" ? (text.trim() === "" ? nothing : read(text)) : null;
  const prom = lang === "promql" ? (text.trim() === "" ? nothingProm : readProm(text)) : null;
  // A phone has little room above the plot: the builder is closed there until it is asked for.
  const [narrow] = useState(() => matchMedia("(max-width: 700px)"));
  const [opened, setOpened] = useState(!narrow.matches);
  useEffect(() => {
    const fit = () => setOpened(!narrow.matches);
    narrow.addEventListener("change", fit);
    return () => narrow.removeEventListener("change", fit);
  }, []);
  return (
    <section class="builder" aria-label="Builder">
      <details open={opened} onToggle={(e) => setOpened(e.currentTarget.open)}>
      <summary>Builder</summary>
      {built !== null && <Influx b={built} />}
      {prom !== null && <Prom b={prom} />}
      {built === null && prom === null && (
        <p class="faint">
          The builder cannot show this query, and leaves it as it is. <button type="button" onClick={() => put("")}>Begin a new one</button>
        </p>
      )}
      </details>
    </section>
  );
}

/** Returns the query of a field, with a function that takes its type. */
export function ofField(b: Built, field: Field): Built {
  const takes = (name: string) => name === "" || offered.some((f) => f.name === name && f.takes.includes(field.type));
  const call = b.field === "" || !takes(b.call) ? (takes("mean") ? "mean" : "last") : b.call;
  const kept = call === b.call;
  return { ...b, field: field.name, call, argument: kept ? b.argument : "", then: kept && takes(b.then) ? b.then : "", thenArgument: kept && takes(b.then) ? b.thenArgument : "" };
}

function Influx({ b }: { b: Built }) {
  const { db } = settings.value;
  const catalog = influxCatalog(db);
  const found = useLoad(async () => (b.measurement === "" ? { fields: [], tags: [] } : { fields: await catalog.fields(b.measurement), tags: await catalog.tags(b.measurement) }), [db, b.measurement]);
  const { fields = [], tags = [] } = found.data ?? {};
  const type = fields.find((f) => f.name === b.field)?.type ?? "float";
  const set = (some: Partial<Built>) => put(write({ ...b, ...some }));
  const named = (name: string) => offered.find((f) => f.name === name);
  const calls = offered.filter((f) => (f.kind === "aggregate" || f.kind === "selector") && f.takes.includes(type));
  const thens = offered.filter((f) => (f.kind === "transformation" || f.kind === "indicator") && f.takes.includes("float"));
  const begin = async (measurement: string) => {
    const [field] = await catalog.fields(measurement);
    if (field !== undefined) put(write(ofField({ ...nothing, measurement }, field)));
  };
  return (
    <>
      <div class="bar">
        <Source label="Measurement" value={b.measurement} catalog={catalog} onChange={(name) => void begin(name)} />
        {b.measurement !== "" && (
          <>
            <Choice label="Field" value={b.field} of={fields.map((f) => f.name)} onChange={(name) => put(write(ofField(b, fields.find((f) => f.name === name)!)))} />
            <label class="pill">
              <span>Function</span>
              <select value={b.call} onChange={(e) => set({ call: e.currentTarget.value, argument: argumentOf(named(e.currentTarget.value)), ...(e.currentTarget.value === "" ? { then: "", thenArgument: "", fill: "" } : named(e.currentTarget.value)?.filled === true ? {} : { fill: "" }) })}>
                <option value="">none: the rows</option>
                {["aggregate", "selector"].map((kind) => <optgroup key={kind} label={`${kind}s`}>{calls.filter((f) => f.kind === kind).map((f) => <option key={f.name}>{f.name}</option>)}</optgroup>)}
                {!calls.some((f) => f.name === b.call) && b.call !== "" && <option>{b.call}</option>}
              </select>
            </label>
            {b.argument !== "" && <Text label="of" value={b.argument} onChange={(argument) => set({ argument })} />}
            {b.call !== "" && b.every !== "" && (
              <label class="pill">
                <span>then</span>
                <select value={b.then} onChange={(e) => set({ then: e.currentTarget.value, thenArgument: argumentOf(named(e.currentTarget.value)) })}>
                  <option value="">nothing</option>
                  {thens.map((f) => <option key={f.name}>{f.name}</option>)}
                  {!thens.some((f) => f.name === b.then) && b.then !== "" && <option>{b.then}</option>}
                </select>
              </label>
            )}
            {b.thenArgument !== "" && <Text label="by" value={b.thenArgument} onChange={(thenArgument) => set({ thenArgument })} />}
          </>
        )}
      </div>
      {b.measurement !== "" && (
        <div class="bar">
          <Filters source={b.measurement} tags={tags} filters={b.filters} catalog={catalog} onChange={(filters) => set({ filters })} />
          <GroupBy tags={tags} by={b.by} onChange={(by) => set({ by })} />
          {b.call !== "" && (
            <>
              <Choice label="Window" value={b.every} of={["$interval", "10s", "1m", "5m", "15m", "1h", "6h", "1d", "7d", ""]} none="all of the range" onChange={(every) => set({ every, ...(every === "" ? { fill: "", then: "", thenArgument: "" } : {}) })} />
              {b.every !== "" && named(b.call)?.filled === true && <Choice label="Fill" value={b.fill} of={["", "none", "null", "previous", "linear", "0"]} none="as it comes" onChange={(fill) => set({ fill })} />}
            </>
          )}
        </div>
      )}
    </>
  );
}

function argumentOf(f: Offered | undefined): string {
  return f === undefined || f.argument === "" ? "" : f.name === "percentile" ? "95" : "5";
}

function Prom({ b }: { b: BuiltProm }) {
  const { db, rp } = settings.value;
  const catalog = promCatalog(db, rp);
  const found = useLoad(async () => (b.metric === "" ? [] : catalog.tags(b.metric)), [db, rp, b.metric]);
  const set = (some: Partial<BuiltProm>) => put(writeProm({ ...b, ...some }));
  return (
    <>
      <div class="bar">
        <Source label="Metric" value={b.metric} catalog={catalog} onChange={(metric) => metric !== "" && put(writeProm({ ...nothingProm, metric }))} />
        {b.metric !== "" && (
          <>
            <Choice label="Function" value={b.call} of={["", ...overRanges]} none="none" onChange={(call) => set({ call })} />
            {b.call !== "" && <Choice label="over" value={b.range} of={["$interval", "1m", "5m", "15m", "1h", "1d"]} onChange={(range) => set({ range })} />}
            <Choice label="Aggregate" value={b.aggregate} of={["", ...aggregates]} none="none" onChange={(aggregate) => set({ aggregate, by: aggregate === "" ? [] : b.by })} />
          </>
        )}
      </div>
      {b.metric !== "" && (
        <div class="bar">
          <Filters source={b.metric} tags={found.data ?? []} filters={b.filters} catalog={catalog} onChange={(filters) => set({ filters })} />
          {b.aggregate !== "" && <GroupBy tags={found.data ?? []} by={b.by} onChange={(by) => set({ by })} />}
        </div>
      )}
    </>
  );
}

/** A measurement or a metric, chosen among those that have what was typed in their names. */
function Source({ label, value, catalog, onChange }: { label: string; value: string; catalog: Catalog; onChange: (name: string) => void }) {
  const { db, rp } = settings.value;
  const [typed, setTyped] = useState<string | null>(null);
  const found = useLoad(() => catalog.sources(typed ?? ""), [db, rp, label, typed]);
  const choose = (name: string) => {
    setTyped(null);
    if (name !== value) onChange(name);
  };
  return (
    <label class="pill">
      <span>{label}</span>
      <input list={`list-${label}`} size={16} value={typed ?? value} placeholder="choose or type" onInput={(e) => setTyped(e.currentTarget.value)} onChange={(e) => choose(e.currentTarget.value)} />
      <datalist id={`list-${label}`}>{found.data?.map((name) => <option key={name} value={name} />)}</datalist>
    </label>
  );
}

function Choice({ label, value, of, none = "", onChange }: { label: string; value: string; of: string[]; none?: string; onChange: (value: string) => void }) {
  return (
    <label class="pill">
      <span>{label}</span>
      <select value={value} onChange={(e) => onChange(e.currentTarget.value)}>
        {[...new Set([...of, value])].map((name) => <option key={name} value={name}>{name || none}</option>)}
      </select>
    </label>
  );
}

/** A number or a duration that a function needs. What is neither is not taken. */
function Text({ label, value, onChange }: { label: string; value: string; onChange: (value: string) => void }) {
  return (
    <label class="pill">
      <span>{label}</span>
      <input size={4} value={value} pattern="\d[\w.]*" required onChange={(e) => e.currentTarget.checkValidity() && onChange(e.currentTarget.value)} />
    </label>
  );
}

function Filters({ source, tags, filters, catalog, onChange }: { source: string; tags: string[]; filters: Filter[]; catalog: Catalog; onChange: (filters: Filter[]) => void }) {
  const [draft, setDraft] = useState<{ source: string; tag: string } | null>(null);
  const begun = draft?.source === source ? draft.tag : "";
  return (
    <>
      {filters.map((f, i) => (
        <FilterOf key={i} source={source} filter={f} catalog={catalog} onChange={(next) => onChange(next === null ? filters.toSpliced(i, 1) : filters.with(i, next))} />
      ))}
      {begun !== "" && (
        <FilterOf
          key={`new ${begun}`}
          source={source}
          filter={{ tag: begun, operator: "=", value: "" }}
          catalog={catalog}
          onChange={(next) => {
            setDraft(null);
            if (next !== null) onChange([...filters, next]);
          }}
        />
      )}
      {tags.length > 0 && (
        <select aria-label="Add a filter" value="" onChange={(e) => setDraft({ source, tag: e.currentTarget.value })}>
          <option value="">+ filter</option>
          {tags.map((tag) => <option key={tag}>{tag}</option>)}
        </select>
      )}
    </>
  );
}

function FilterOf({ source, filter, catalog, onChange }: { source: string; filter: Filter; catalog: Catalog; onChange: (filter: Filter | null) => void }) {
  const { db } = settings.value;
  const [operator, setOperator] = useState(filter.operator);
  const [typed, setTyped] = useState<string | null>(null);
  const found = useLoad(async () => (operator.endsWith("~") ? [] : catalog.values(source, filter.tag, typed ?? "")), [db, source, filter.tag, operator, typed]);
  const list = `values-${filter.tag}`;
  const choose = (value: string) => {
    setTyped(null);
    if (value !== filter.value) onChange({ ...filter, operator, value });
  };
  return (
    <span class="joined pill filter">
      <span>{filter.tag}</span>
      <select
        aria-label={`How ${filter.tag} is compared`}
        value={operator}
        onChange={(e) => {
          const chosen = operators.find((o) => o === e.currentTarget.value)!;
          setOperator(chosen);
          if (filter.value !== "") onChange({ ...filter, operator: chosen });
        }}
      >
        {operators.map((o) => <option key={o}>{o}</option>)}
      </select>
      <input aria-label={`Value of ${filter.tag}`} list={list} size={12} value={typed ?? filter.value} onInput={(e) => setTyped(e.currentTarget.value)} onChange={(e) => choose(e.currentTarget.value)} />
      <datalist id={list}>{found.data?.map((value) => <option key={value} value={value} />)}</datalist>
      <button type="button" class="quiet" aria-label={`Remove the filter of ${filter.tag}`} onClick={() => onChange(null)}>✕</button>
    </span>
  );
}

function GroupBy({ tags, by, onChange }: { tags: string[]; by: string[]; onChange: (by: string[]) => void }) {
  const others = tags.filter((tag) => !by.includes(tag));
  return (
    <>
      {by.map((tag) => (
        <span key={tag} class="pill">
          <span>by {tag}</span>
          <button type="button" class="quiet" aria-label={`Do not group by ${tag}`} onClick={() => onChange(by.filter((t) => t !== tag))}>✕</button>
        </span>
      ))}
      {others.length > 0 && (
        <select aria-label="Group by" value="" onChange={(e) => onChange([...by, e.currentTarget.value])}>
          <option value="">+ group by</option>
          {others.map((tag) => <option key={tag}>{tag}</option>)}
        </select>
      )}
    </>
  );
}

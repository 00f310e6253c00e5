// What a database has: policies, measurements, fields, tags and values, as a tree.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { column, containing, identifier, literal, pick, select } from "../api/influxql";
import { databases } from "../frame/databases";
import { top } from "../frame/top";
import { linkTo } from "../location";
import { Branch } from "../parts/branch";
import { Empty } from "../parts/empty";
import { ErrorBox } from "../parts/error";
import { useLoad } from "../parts/load";
import { count } from "../parts/units";

/** How many names a branch shows; the filter finds the others. */
const limit = 200;

export function Schema() {
  const { db } = top.value;
  return (
    <section>
      {databases.value?.length === 0 && (
        <Empty title="There is no database yet">
          <a class="button primary" href={linkTo("admin")}>Create one</a> <a class="button" href={linkTo("write")}>Write points</a>
        </Empty>
      )}
      {db !== "" && <Database key={db} db={db} />}
    </section>
  );
}

function Database({ db }: { db: string }) {
  const [filter, setFilter] = useState("");
  const policies = useLoad(
    async (signal) => pick(await select(`SHOW RETENTION POLICIES ON ${identifier(db)}`, { signal }), "name", "duration", "shardGroupDuration", "default"),
    [db],
  );
  const measurements = useLoad((signal) => column(`SHOW MEASUREMENTS ON ${identifier(db)}${filter === "" ? "" : ` WITH MEASUREMENT =~ ${containing(filter)}`} LIMIT ${limit + 1}`, "name", { signal }), [db, filter]);
  return (
    <>
      <section class="card">
      <h2>Retention policies</h2>
      {policies.error !== null && <ErrorBox error={policies.error} />}
      <ul class="tree">
        {policies.data?.map(([name, duration, group, isDefault]) => (
          <li key={String(name)}>
            <strong>{name}</strong>{" "}
            <span class="faint">
              keeps {duration === "0s" ? "for ever" : String(duration)}, a shard each {String(group)}
              {isDefault === true ? ", default" : ""}
            </span>
          </li>
        ))}
      </ul>
      </section>
      <section class="card">
      <h2>Measurements</h2>
      <label class="bar">
        Filter <input type="search" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} placeholder="part of a name" />
      </label>
      {measurements.error !== null && <ErrorBox error={measurements.error} />}
      {measurements.data?.length === 0 && <p class="faint">No measurement{filter === "" ? " yet" : " with this in its name"}.</p>}
      <ul class="tree">
        {measurements.data?.slice(0, limit).map((name) => <li key={name}><Branch label={<strong>{name}</strong>}>{() => <Measurement db={db} name={name} />}</Branch></li>)}
      </ul>
      {(measurements.data?.length ?? 0) > limit && <p class="faint">The first {limit} are shown. The filter finds others.</p>}
      </section>
    </>
  );
}

function Measurement({ db, name }: { db: string; name: string }) {
  const on = `ON ${identifier(db)} FROM ${identifier(name)}`;
  const found = useLoad(
    async (signal) => {
      const [fields, tags, series] = await Promise.all([
        select(`SHOW FIELD KEYS ${on} LIMIT ${limit}`, { signal }),
        column(`SHOW TAG KEYS ${on} LIMIT ${limit}`, "tagKey", { signal }),
        select(`SHOW SERIES CARDINALITY ${on}`, { signal }),
      ]);
      return { fields: fields.flatMap((s) => s.values ?? []), tags, series: Number(series[0]?.values?.[0]?.[0] ?? 0) };
    },
    [db, name],
  );
  if (found.error !== null) return <ErrorBox error={found.error} />;
  if (found.data === null) return <p class="faint">Loading…</p>;
  const { fields, tags, series } = found.data;
  return (
    <ul>
      <li class="faint">about {count(series)} series</li>
      <li>
        Fields
        <ul>
          {fields.map(([key, type]) => (
            <li key={`${key} ${type}`}>
              <Ask db={db} query={queryOf(name, String(key), String(type))}>{String(key)}</Ask> <span class="faint">{type}</span>
            </li>
          ))}
        </ul>
      </li>
      <li>
        Tags
        <ul>
          {tags.map((tag) => <li key={tag}><Branch label={tag}>{() => <Tag db={db} measurement={name} tag={tag} field={fields[0]} />}</Branch></li>)}
          {tags.length === 0 && <li class="faint">none</li>}
        </ul>
      </li>
    </ul>
  );
}

function Tag({ db, measurement, tag, field }: { db: string; measurement: string; tag: string; field: unknown[] | undefined }) {
  const on = `ON ${identifier(db)} FROM ${identifier(measurement)}`;
  const found = useLoad(
    async (signal) => {
      const [values, size] = await Promise.all([
        column(`SHOW TAG VALUES ${on} WITH KEY = ${identifier(tag)} LIMIT ${limit}`, "value", { signal }),
        column(`SHOW TAG VALUES EXACT CARDINALITY ${on} WITH KEY = ${identifier(tag)}`, "count", { signal }),
      ]);
      return { values, size: Number(size[0] ?? values.length) };
    },
    [db, measurement, tag],
  );
  if (found.error !== null) return <ErrorBox error={found.error} />;
  if (found.data === null) return <p class="faint">Loading…</p>;
  const { values, size } = found.data;
  return (
    <ul>
      <li class="faint">{count(size)} values{size > values.length ? `, the first ${values.length}:` : ""}</li>
      {values.map((value) => (
        <li key={value}>
          {field === undefined ? value : <Ask db={db} query={queryOf(measurement, String(field[0]), String(field[1]), `${identifier(tag)} = ${literal(value)} AND `)}>{value}</Ask>}
        </li>
      ))}
    </ul>
  );
}

/** Returns a query of a field: its mean, or the rows of what has none. */
function queryOf(measurement: string, field: string, type: string, where = ""): string {
  const from = `FROM ${identifier(measurement)} WHERE ${where}$timeFilter`;
  if (type === "string" || type === "boolean") return `SELECT ${identifier(field)} ${from} LIMIT 1000`;
  return `SELECT mean(${identifier(field)}) ${from} GROUP BY time($interval)`;
}

/** A link to a query in Explore. */
function Ask({ db, query, children }: { db: string; query: string; children: ComponentChildren }) {
  return <a href={linkTo("explore", { db, q: query })} title={query}>{children}</a>;
}

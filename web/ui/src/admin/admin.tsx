// Databases, policies, users, downsamples, continuous queries, subscriptions, and deletes.

import { column } from "../api/influxql";
import { go, place } from "../location";
import { useLoad } from "../parts/load";
import { Continuous, Downsamples, Subscriptions } from "./copies";
import { Databases, Policies } from "./databases";
import { Deletes } from "./deletes";
import { Users } from "./users";

const parts = ["databases", "users", "downsamples", "continuous queries", "subscriptions", "deletes"] as const;

export function Admin() {
  const shown = parts.find((p) => p === place.value.params.get("part")) ?? "databases";
  const databases = useLoad(() => column("SHOW DATABASES", "name"), [shown]);
  const names = databases.data ?? [];
  const db = place.value.params.get("db") ?? names[0] ?? "";
  return (
    <section>
      <div class="bar">
        <span class="tabs" role="group" aria-label="Part">
          {parts.map((p) => (
            <button key={p} type="button" aria-pressed={p === shown} onClick={() => go("admin", { part: p, db })}>
              {p[0]!.toUpperCase() + p.slice(1)}
            </button>
          ))}
        </span>
      </div>
      {shown === "databases" && (
        <>
          <Databases onChange={databases.reload} />
          {names.length > 0 && (
            <>
              <label class="bar">
                Database{" "}
                <select value={db} onChange={(e) => go("admin", { part: shown, db: e.currentTarget.value })}>
                  {names.map((name) => <option key={name}>{name}</option>)}
                </select>
              </label>
              <Policies key={db} db={db} />
            </>
          )}
        </>
      )}
      {shown === "users" && <Users databases={names} />}
      {shown === "downsamples" && <Downsamples databases={names} />}
      {shown === "continuous queries" && <Continuous databases={names} />}
      {shown === "subscriptions" && <Subscriptions databases={names} />}
      {shown === "deletes" && <Deletes db={db} databases={names} choose={(name) => go("admin", { part: shown, db: name })} />}
    </section>
  );
}


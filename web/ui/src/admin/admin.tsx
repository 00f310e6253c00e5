// Databases, policies, users, downsamples, continuous queries, subscriptions, and deletes.

import { isAdmin, mayWrite } from "../api/rights";
import { databases, loadDatabases } from "../frame/databases";
import { top } from "../frame/top";
import { go, place } from "../location";
import { Continuous, Downsamples, Subscriptions } from "./copies";
import { Databases, Policies } from "./databases";
import { Deletes } from "./deletes";
import { Users } from "./users";

const parts = ["databases", "users", "downsamples", "continuous queries", "subscriptions", "deletes"] as const;

export function Admin() {
  const allowed = isAdmin() ? parts : (["deletes"] as const); // who may write may delete rows, and no more
  const shown = allowed.find((p) => p === place.value.params.get("part")) ?? allowed[0];
  const names = databases.value ?? [];
  const { db } = top.value;
  return (
    <section>
      <div class="bar">
        <span class="tabs" role="group" aria-label="Part">
          {allowed.map((p) => (
            <button key={p} type="button" aria-pressed={p === shown} onClick={() => go("admin", { part: p, db })}>
              {p[0]!.toUpperCase() + p.slice(1)}
            </button>
          ))}
        </span>
      </div>
      {shown === "databases" && (
        <>
          <Databases onChange={loadDatabases} />
          {db !== "" && <Policies key={db} db={db} />}
        </>
      )}
      {shown === "users" && <Users databases={names} />}
      {shown === "downsamples" && <Downsamples databases={names} />}
      {shown === "continuous queries" && <Continuous databases={names} />}
      {shown === "subscriptions" && <Subscriptions databases={names} />}
      {shown === "deletes" && (mayWrite(db) ? <Deletes db={db} /> : <p>You may not delete points of {db}.</p>)}
    </section>
  );
}


import { useState } from "preact/hooks";
import { identifier, literal, select } from "../api/influxql";
import { change, takeAway } from "./run";
import { fieldsOf, Section } from "./section";

export function Users({ databases }: { databases: string[] }) {
  const [chosen, setChosen] = useState("");
  return (
    <>
      <Section
        title="Users"
        columns={["user", "administrator"]}
        load={async (signal) => (await select("SHOW USERS", { signal })).flatMap((s) => s.values ?? []).map(([user, admin]) => [user!, admin === true ? "yes" : ""])}
        actions={([user, admin], act) => {
          const name = identifier(String(user));
          return (
            <>
              <button type="button" onClick={() => setChosen(String(user))}>Grants</button>
              <button type="button" onClick={() => act(() => (admin === "yes" ? takeAway("Take all privileges away?", `REVOKE ALL PRIVILEGES FROM ${name}`) : change(`GRANT ALL PRIVILEGES TO ${name}`)))}>
                {admin === "yes" ? "Take admin away" : "Make admin"}
              </button>
              <form class="inline" onSubmit={(e) => { const f = fieldsOf(e); act(() => change(`SET PASSWORD FOR ${name} = ${literal(f.password!)}`)); }}>
                <input name="password" type="password" required autocomplete="new-password" aria-label={`New password of ${user}`} placeholder="new password" size={12} />
                <button type="submit">Set</button>
              </form>
              <button type="button" class="danger" aria-label={`Drop user ${user}`} onClick={() => act(() => takeAway("Drop user?", `DROP USER ${name}`))}>Drop</button>
            </>
          );
        }}
        form={(act) => (
          <form
            class="bar"
            onSubmit={(e) => {
              const f = fieldsOf(e);
              act(() => change(`CREATE USER ${identifier(f.user!)} WITH PASSWORD ${literal(f.password!)}${f.admin === "on" ? " WITH ALL PRIVILEGES" : ""}`));
            }}
          >
            <label>User <input name="user" required autocomplete="off" /></label>
            <label>Password <input name="password" type="password" required autocomplete="new-password" /></label>
            <label><input type="checkbox" name="admin" /> administrator</label>
            <button type="submit">Create user</button>
          </form>
        )}
      />
      {chosen !== "" && <Grants key={chosen} user={chosen} databases={databases} />}
    </>
  );
}

function Grants({ user, databases }: { user: string; databases: string[] }) {
  const name = identifier(user);
  return (
    <Section
      title={`Grants of ${user}`}
      columns={["database", "privilege"]}
      load={async (signal) => (await select(`SHOW GRANTS FOR ${name}`, { signal })).flatMap((s) => s.values ?? []).filter(([, privilege]) => privilege !== "NO PRIVILEGES")}
      actions={([db, privilege], act) => (
        <button type="button" class="danger" onClick={() => act(() => takeAway("Revoke?", `REVOKE ${privilege === "ALL PRIVILEGES" ? "ALL" : privilege} ON ${identifier(String(db))} FROM ${name}`))}>Revoke</button>
      )}
      form={(act) => (
        <form class="bar" onSubmit={(e) => { const f = fieldsOf(e); act(() => change(`GRANT ${f.privilege} ON ${identifier(f.db!)} TO ${name}`)); }}>
          <label>Database <select name="db">{databases.map((db) => <option key={db}>{db}</option>)}</select></label>
          <label>Privilege <select name="privilege"><option>READ</option><option>WRITE</option><option>ALL</option></select></label>
          <button type="submit">Grant</button>
        </form>
      )}
    />
  );
}

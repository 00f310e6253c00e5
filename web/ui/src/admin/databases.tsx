import { column, identifier, pick, select } from "../api/influxql";
import { change, takeAway } from "./run";
import { fieldsOf, Section } from "./section";

export function Databases({ onChange }: { onChange: (dropped?: string) => Promise<void> }) {
  return (
    <Section
      title="Databases"
      columns={["name"]}
      load={async (signal) => (await column("SHOW DATABASES", "name", { signal })).map((name) => [name])}
      actions={([name], act) => (
        <button
          type="button"
          class="danger"
          aria-label={`Drop database ${name}`}
          onClick={() =>
            act(async () => {
              const [series] = await select(`SHOW SERIES CARDINALITY ON ${identifier(String(name))}`);
              const n = series?.values?.[0]?.[0] ?? 0;
              if (await takeAway("Drop database?", `DROP DATABASE ${identifier(String(name))}`, "", `All points of about ${n} series go, in all policies. Nothing brings them back but a backup.`)) await onChange(String(name));
            })
          }
        >
          Drop
        </button>
      )}
      form={(act) => (
        <form
          class="bar"
          onSubmit={(e) => {
            const f = fieldsOf(e);
            act(async () => {
              await change(`CREATE DATABASE ${identifier(f.name!)}${f.duration === "" ? "" : ` WITH DURATION ${f.duration}`}`);
              await onChange();
            });
          }}
        >
          <label>Name <input name="name" required /></label>
          <label>Keep for <input name="duration" size={8} placeholder="30d" pattern="(\d+(w|d|h|m|s))+|INF|inf" title="such as 30d, 12h or INF; empty: for ever" /></label>
          <button type="submit">Create database</button>
        </form>
      )}
    />
  );
}

export function Policies({ db }: { db: string }) {
  const on = `ON ${identifier(db)}`;
  const policy = (name: unknown) => `RETENTION POLICY ${identifier(String(name))} ${on}`;
  return (
    <Section
      title={`Retention policies of ${db}`}
      columns={["name", "duration", "shard group duration", "default"]}
      deps={[db]}
      load={async (signal) => {
        const rows = pick(await select(`SHOW RETENTION POLICIES ${on}`, { signal }), "name", "duration", "shardGroupDuration", "default");
        return rows.map(([name, duration, group, isDefault]) => [name!, duration!, group!, isDefault === true ? "yes" : ""]);
      }}
      actions={([name, duration], act) => (
        <>
          <form
            class="inline"
            onSubmit={(e) => {
              const f = fieldsOf(e);
              const statement = `ALTER ${policy(name)} DURATION ${f.duration}`;
              act(() => takeAway("Change duration?", statement, "", `The policy keeps ${duration} now. With a shorter duration, older shards are dropped.`));
            }}
          >
            <input name="duration" aria-label={`New duration of ${name}`} size={6} required placeholder={String(duration)} pattern="(\d+(w|d|h|m|s))+|INF|inf" />
            <button type="submit">Change</button>
          </form>
          <button type="button" onClick={() => act(() => takeAway("Make default?", `ALTER ${policy(name)} DEFAULT`, "", "Writes and queries that name no policy use the default one."))}>Make default</button>
          <button type="button" class="danger" aria-label={`Drop policy ${name}`} onClick={() => act(() => takeAway("Drop policy?", `DROP ${policy(name)}`, "", "All points of the policy go."))}>Drop</button>
        </>
      )}
      form={(act) => (
        <form
          class="bar"
          onSubmit={(e) => {
            const f = fieldsOf(e);
            const group = f.group === "" ? "" : ` SHARD DURATION ${f.group}`;
            act(() => change(`CREATE ${policy(f.name)} DURATION ${f.duration} REPLICATION 1${group}${f.default === "on" ? " DEFAULT" : ""}`));
          }}
        >
          <label>Name <input name="name" required /></label>
          <label>Duration <input name="duration" size={8} required placeholder="30d" pattern="(\d+(w|d|h|m|s))+|INF|inf" /></label>
          <label>Shard duration <input name="group" size={8} placeholder="automatic" pattern="(\d+(w|d|h|m|s))+" /></label>
          <label><input type="checkbox" name="default" /> default</label>
          <button type="submit">Create policy</button>
        </form>
      )}
    />
  );
}

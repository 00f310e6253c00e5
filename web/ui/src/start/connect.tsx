// How points come to the server: what to copy into Telegraf, Prometheus and a shell, with the
// address of this server.

import { useState } from "preact/hooks";
import { userName } from "../api/client";
import { rights } from "../api/rights";
import { databases, loadDatabases } from "../frame/databases";
import { linkTo } from "../location";
import { useLoad } from "../parts/load";
import { copy } from "./copy";

interface Source {
  name: string;
  where: string;
  text: (address: string, user: string) => string;
}

const sources: Source[] = [
  {
    name: "Telegraf",
    where: "Write this to /etc/telegraf/telegraf.conf, and restart Telegraf. It creates the database telegraf.",
    text: (address, user) => `[[outputs.influxdb]]
  urls = ["${address}"]
  database = "telegraf"
${user === "" ? "" : `  username = "${user}"\n  password = "$TELEGRAF_PASSWORD"\n`}
[[inputs.cpu]]
[[inputs.mem]]
[[inputs.disk]]
[[inputs.net]]
`,
  },
  {
    name: "Prometheus",
    where: "Add this to prometheus.yml, and reload Prometheus. Its samples go to the database prometheus.",
    text: (address, user) => `remote_write:
- url: ${address}/api/v1/write
${user === "" ? "" : `  basic_auth:\n    username: ${JSON.stringify(user)}\n    password_file: /etc/prometheus/tsdbd-password\n`}`,
  },
  {
    name: "curl",
    where: "Create a database, write a point, and ask for it.",
    text: (address, user) => {
      const curl = `curl${user === "" ? "" : ` -u '${user.replace(/'/g, "'\\''")}'`}`;
      return `${curl} ${address}/query --data-urlencode 'q=CREATE DATABASE demo'
${curl} '${address}/write?db=demo' --data-binary 'weather,city=oslo temperature=-3.5'
${curl} '${address}/query?db=demo' --data-urlencode 'q=SELECT * FROM weather'
`;
    },
  },
];

export function Connect() {
  const [copied, setCopied] = useState("");
  const address = new URL(".", location.href).href.replace(/\/$/, "");
  const user = userName.value;
  useLoad(() => loadDatabases(), [user], 5000);
  const there = (databases.value ?? []).filter((name) => name !== "_internal");
  const own = rights.value;
  if (own !== null && !own.admin && there.length === 0 && databases.value !== null) {
    return (
      <section>
        <h2>Nothing to see yet</h2>
        <p>The user {user} may read and write no database. Ask an administrator for a right, such as:</p>
        <pre class="raw">{`GRANT READ ON "mydb" TO "${user}"`}</pre>
      </section>
    );
  }
  return (
    <section>
      <h2>Connect</h2>
      <p>
        This server is at <code>{address}</code>. Choose what sends points to it.
        {own?.logins === true && " It requires a login: use a user of its own with WRITE, not the administrator, for what runs all the time."}
      </p>
      <div class="columns">
        {sources.map(({ name, where, text }) => (
          <section key={name} aria-label={name}>
            <h3>{name}</h3>
            <p class="faint">{where}</p>
            <pre class="raw long">{text(address, user)}</pre>
            <button type="button" onClick={() => void copy(text(address, user)).then(() => setCopied(name))}>
              {copied === name ? "Copied" : "Copy"}
              <span class="hidden"> {name}</span>
            </button>
          </section>
        ))}
      </div>
      <h3>What comes next</h3>
      {there.length === 0 && <p role="status">No database yet. This page notices when the first one is there.</p>}
      {there.length > 0 && (
        <p role="status">
          There are points to look at:{" "}
          {there.slice(0, 10).map((db) => (
            <a key={db} class="button" href={linkTo("schema", { db })}>
              {db}
            </a>
          ))}
        </p>
      )}
      <ul>
        <li><a href={linkTo("schema")}>Schema</a> shows what has arrived. A click makes a query of it.</li>
        <li><a href={linkTo("explore")}>Explore</a> asks in InfluxQL and PromQL. Grafana takes this address as a data source of either kind.</li>
        <li>{own?.logins === true ? "Admin makes users and rights, and policies that say how long points are kept." : "Anyone who reaches this server may do everything. Set http.auth-enabled to require logins."}</li>
      </ul>
    </section>
  );
}

// The editors of a panel and of the variables.

import { useRef, useState } from "preact/hooks";
import { Axis } from "../explore/axis";
import { complete } from "../explore/completion";
import { measures } from "../explore/frame";
import { influxql } from "../explore/language";
import { completePromQL, promql } from "../explore/promql";
import { Dialog } from "../parts/dialog";
import { Editor } from "../parts/editor";
import { ErrorBox } from "../parts/error";
import { emptyVariable, kinds, nameMistake, type Panel, type Query, type Variable } from "./format";
import { Framed, type PanelProps } from "./panel";
import { edit, editPanel, open } from "./state";

export type EditProps = ({ part: "variables" } | ({ part: "panel"; panel: Panel } & Omit<PanelProps, "height">)) & { onClose: () => void };

export function Edit(props: EditProps) {
  return props.part === "variables" ? <EditVariables onClose={props.onClose} /> : <EditPanel {...props} />;
}

/** A panel in the works: its picture, which runs the queries when the user says so, and its form. */
function EditPanel({ panel: before, onClose, ...common }: Extract<EditProps, { part: "panel" }>) {
  const [panel, setPanel] = useState(before);
  const [ran, setRan] = useState(before.queries);
  const [tries, setTries] = useState(0);
  const keys = useRef({ next: before.queries.length, of: before.queries.map((_, i) => i) }); // of the editors
  const change = (some: Partial<Panel>) => setPanel((p) => ({ ...p, ...some }));
  const queries = (change: (all: Query[]) => Query[]) => setPanel((p) => ({ ...p, queries: change(p.queries) }));
  const set = (i: number, some: Partial<Query>) => queries((all) => all.map((q, at) => (at === i ? { ...q, ...some } : q)));
  const run = () => {
    setRan(panel.queries);
    setTries((n) => n + 1);
  };
  return (
    <div class="edit">
      <Framed {...common} panel={{ ...panel, queries: ran }} tick={common.tick + tries} height={320} />
      <div class="bar">
        <label>Title <input value={panel.title} onInput={(e) => change({ title: e.currentTarget.value })} /></label>
        <label>
          Kind{" "}
          <select value={panel.kind} onChange={(e) => { const kind = e.currentTarget.value as Panel["kind"]; change({ kind, options: { ...panel.options, by: kind === "number" ? "last" : panel.options.by } }); }}>
            {kinds.map((kind) => <option key={kind}>{kind}</option>)}
          </select>
        </label>
        {panel.kind !== "text" && panel.kind !== "table" && (
          <>
            <Axis options={panel.options} onChange={(some) => change({ options: { ...panel.options, ...some } })} />
            <label>
              {panel.kind === "number" ? "Shows" : "Order by"}{" "}
              <select value={panel.options.by} onChange={(e) => change({ options: { ...panel.options, by: e.currentTarget.value as (typeof measures)[number] } })}>
                {measures.map((m) => <option key={m}>{m}</option>)}
              </select>
            </label>
          </>
        )}
      </div>
      {panel.kind === "text" ? (
        <label>Text <textarea class="code" rows={8} value={panel.text} onInput={(e) => change({ text: e.currentTarget.value })} /></label>
      ) : (
        <>
          {panel.queries.map((q, i) => (
            <fieldset key={keys.current.of[i]} class="query">
              <legend>Query {i + 1}</legend>
              <div class="bar">
                <span class="tabs" role="group" aria-label={`Language of query ${i + 1}`}>
                  <button type="button" aria-pressed={q.lang === "influxql"} onClick={() => set(i, { lang: "influxql" })}>InfluxQL</button>
                  <button type="button" aria-pressed={q.lang === "promql"} onClick={() => set(i, { lang: "promql" })}>PromQL</button>
                </span>
                <label>Database <input size={14} placeholder={common.db} value={q.db} onInput={(e) => set(i, { db: e.currentTarget.value })} /></label>
                <label>Policy <input size={10} placeholder="default" value={q.rp} onInput={(e) => set(i, { rp: e.currentTarget.value })} /></label>
                <span class="grow" />
                <button type="button" aria-label={`Delete query ${i + 1}`} onClick={() => { keys.current.of.splice(i, 1); queries((all) => all.filter((_, at) => at !== i)); }}>Delete</button>
              </div>
              <Editor
                value={q.text}
                revision={0}
                onChange={(text) => set(i, { text })}
                onRun={run}
                language={q.lang === "promql" ? promql : influxql}
                complete={(context) => (q.lang === "promql" ? completePromQL(q.db || common.db, q.rp, context) : complete(q.db || common.db, context))}
                label={`Query ${i + 1}`}
                hint={q.lang === "promql" ? "sum by (host) (rate(requests_total[5m]))" : "SELECT mean(usage_user) FROM cpu WHERE $timeFilter GROUP BY time($interval), host"}
              />
            </fieldset>
          ))}
          <div class="bar">
            <button type="button" onClick={run} title="Ctrl+Enter">Run</button>
            <button type="button" onClick={() => { keys.current.of.push(keys.current.next++); queries((all) => [...all, { lang: "influxql", db: "", rp: "", text: "", ...all.at(-1), ...(all.length > 0 ? { text: "" } : {}) }]); }}>Add a query</button>
          </div>
        </>
      )}
      <div class="bar">
        <button type="button" class="primary" onClick={() => { editPanel(panel.id, panel); onClose(); }}>Done</button>
        <button type="button" onClick={onClose}>Cancel</button>
      </div>
    </div>
  );
}

function EditVariables({ onClose }: { onClose: () => void }) {
  const [list, setList] = useState(open.value!.board.variables);
  const [error, setError] = useState<Error | null>(null);
  const set = (i: number, some: Partial<Variable>) => setList(list.map((v, at) => (at === i ? { ...v, ...some } : v)));
  const done = () => {
    const wrong = list.map((v) => nameMistake(v.name)).find((text) => text !== "") ?? (new Set(list.map((v) => v.name)).size < list.length ? "two variables have the same name" : "");
    if (wrong !== "") return setError(new Error(wrong));
    edit({ variables: list });
    onClose();
  };
  return (
    <Dialog title="Variables" onClose={onClose}>
      <p class="faint">A query uses a variable as <code>host =~ $host</code> in InfluxQL and as <code>{'{host=~"$host"}'}</code> in PromQL. A look-up may use the variables before it.</p>
      {list.map((v, i) => (
        <fieldset key={i} class="query">
          <legend>Variable {i + 1}</legend>
          <label>Name <input value={v.name} onInput={(e) => set(i, { name: e.currentTarget.value })} /></label>
          <label>
            Language{" "}
            <select value={v.lang} onChange={(e) => set(i, { lang: e.currentTarget.value as Variable["lang"] })}>
              <option value="influxql">InfluxQL</option>
              <option value="promql">PromQL</option>
            </select>
          </label>
          <label>Values <input class="code" placeholder={v.lang === "promql" ? "label_values(up, instance)" : "SHOW TAG VALUES FROM cpu WITH KEY = host"} value={v.query} onInput={(e) => set(i, { query: e.currentTarget.value })} /></label>
          <label><input type="checkbox" checked={v.multi} onChange={(e) => set(i, { multi: e.currentTarget.checked })} /> several at once</label>
          <label><input type="checkbox" checked={v.all} onChange={(e) => set(i, { all: e.currentTarget.checked })} /> all at once</label>
          <button type="button" onClick={() => setList(list.filter((_, at) => at !== i))}>Delete</button>
        </fieldset>
      ))}
      <button type="button" onClick={() => setList([...list, emptyVariable])}>Add a variable</button>
      {error !== null && <ErrorBox error={error} />}
      <div class="bar">
        <button type="button" onClick={onClose}>Cancel</button>
        <button type="button" class="primary" onClick={done}>Done</button>
      </div>
    </Dialog>
  );
}

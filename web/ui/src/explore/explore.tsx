// Ask by hand: a query, its time range, and its answer as a plot, a table, or as it came.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Beside } from "../builder/beside";
import { Builder } from "../builder/builder";
import { adding } from "../boards/adding";
import { panelOf } from "../boards/format";
import { databases } from "../frame/databases";
import { tick } from "../frame/top";
import { go, linkTo, place } from "../location";
import { Empty } from "../parts/empty";
import { Editor } from "../parts/editor";
import { ErrorBox } from "../parts/error";
import { Axis } from "./axis";
import { complete } from "./completion";
import { remember } from "./history";
import { influxql } from "./language";
import { Memory } from "./memory";
import { type Mistake, mistakeOf } from "./mistake";
import { completePromQL, promql } from "./promql";
import { type Answer, NotRun, rowsMost, run } from "./run";
import { Shown } from "./shown";
import { change, load, paramsOf, revision, secret, settings, settingsOf, views } from "./state";

export function Explore() {
  const s = settings.value;
  const answer = useSignal<Answer | null>(null);
  const error = useSignal<Error | null>(null);
  const mistake = useSignal<Mistake | null>(null);
  const busy = useSignal(false);
  const running = useRef<AbortController | null>(null);
  const output = useRef<HTMLDivElement>(null);

  // Only what the user does to run the query counts as by hand. All else may change nothing.
  const ask = async (byHand = false, most = rowsMost) => {
    running.current?.abort();
    const { text } = settings.value;
    if (text.trim() === "") return;
    const controller = (running.current = new AbortController());
    busy.value = true;
    try {
      answer.value = await run(settings.value, output.current?.clientWidth ?? 1000, byHand, most, controller.signal);
      error.value = mistake.value = null;
      remember(settings.value);
    } catch (e) {
      if (controller.signal.aborted) return;
      error.value = e as Error;
      mistake.value = mistakeOf(text, error.value.message);
    }
    busy.value = false;
  };

  // A link that is opened while the page is shown. A link lacks a text with a password,
  // which the editor keeps.
  useEffect(() => {
    const linked = settingsOf(place.value.params);
    if (JSON.stringify(paramsOf(linked)) === JSON.stringify(paramsOf(settings.value))) return;
    load(linked);
  }, [place.value]);
  useEffect(() => () => running.current?.abort(), []);
  useEffect(() => void ask(), [s.db, s.rp, s.from, s.to, s.lang, revision.value]);
  const ticked = useRef(tick.value);
  useEffect(() => {
    if (tick.value === ticked.current) return;
    ticked.current = tick.value;
    if (!busy.value) void ask();
  }, [tick.value]);

  const writer = useRef<(text: string) => void>(() => undefined);
  const toBoard = () => {
    const { lang, db, rp, text, style, by, unit, scale, low, high } = settings.value;
    adding.value = panelOf({ kind: s.view === "table" ? "table" : "plot", queries: [{ lang, db, rp, text }], options: { style, by, unit, scale, low, high } });
    go("boards");
  };

  return (
    <section class="explore">
      <Beside writeText={(text) => writer.current(text)} />
      <div class="asked">
      <div class="card">
      <div class="bar">
        <span class="tabs" role="group" aria-label="Language">
          <button type="button" aria-pressed={s.lang === "influxql"} onClick={() => change({ lang: "influxql" })}>InfluxQL</button>
          <button type="button" aria-pressed={s.lang === "promql"} onClick={() => change({ lang: "promql" })}>PromQL</button>
        </span>
      </div>
      <Builder />
      <Editor
        value={s.text}
        revision={revision.value}
        onChange={(text) => change({ text })}
        onRun={() => void ask(true)}
        language={s.lang === "promql" ? promql : influxql}
        complete={(context) => (settings.value.lang === "promql" ? completePromQL(settings.value.db, settings.value.rp, context) : complete(settings.value.db, context))}
        mistake={mistake.value}
        label="Query"
        writer={writer}
        hint={s.lang === "promql" ? "sum by (host) (rate(requests_total[5m]))" : "SELECT mean(usage_user) FROM cpu WHERE $timeFilter GROUP BY time($interval), host"}
      />
      <div class="bar">
        <button type="button" class="primary" onClick={() => void ask(true)} title="Ctrl+Enter">Run</button>
        {busy.value && <button type="button" onClick={() => { running.current?.abort(); busy.value = false; }}>Cancel</button>}
        <span class="tabs" role="group" aria-label="View">
          {views.map((v) => <button key={v} type="button" aria-pressed={s.view === v} onClick={() => change({ view: v })}>{v[0]!.toUpperCase() + v.slice(1)}</button>)}
        </span>
        {s.text.trim() !== "" && !secret(s.text) && <button type="button" onClick={toBoard}>Add to board</button>}
        {s.view === "plot" && <Axis options={s} onChange={change} />}
        <span class="faint" role="status">
          {busy.value ? "Running…" : answer.value !== null && error.value === null ? `${answer.value.rows.toLocaleString("en")} rows in ${Math.round(answer.value.took)} ms` : ""}
        </span>
      </div>
      <Memory />
      </div>
      {error.value instanceof NotRun && (
        <p class="message" role="status">This changes something, so it runs only when you press Run: <code>{error.value.message}</code></p>
      )}
      {error.value !== null && !(error.value instanceof NotRun) && <ErrorBox error={error.value} />}
      {s.text === "" && <Begin />}
      <div ref={output} class={answer.value !== null && error.value === null ? "card" : ""}>{answer.value !== null && error.value === null && <Shown answer={answer.value} onMore={() => void ask(false, 4 * answer.value!.rows)} />}</div>
      </div>
    </section>
  );
}

/** What to do when there is no query yet. */
function Begin() {
  const { db, lang } = settings.value;
  if (databases.value?.length === 0)
    return (
      <Empty title="There is no database yet">
        <a class="button primary" href={linkTo("admin")}>Create one</a> <a class="button" href={linkTo("write")}>Write points</a>
      </Empty>
    );
  return (
    <Empty title="What do you want to see?">
      <p>Type a query, choose a field in <a href={linkTo("schema", { db })}>Schema</a>{lang === "influxql" ? ", or begin with one of these:" : "."}</p>
      {lang === "influxql" && ["SHOW DATABASES", "SHOW MEASUREMENTS", "SHOW FIELD KEYS"].map((text) => (
        <button key={text} type="button" class="code-link" onClick={() => load({ ...settings.value, text })}>{text}</button>
      ))}
    </Empty>
  );
}

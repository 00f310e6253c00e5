// A panel of a board: it asks when it is in sight, and shows the answers.

import { useEffect, useRef, useState } from "preact/hooks";
import { download } from "../explore/download";
import { type Measure, overTime, ranked, summaryOf, title as titleOf } from "../explore/frame";
import { Panel as Plotted } from "../explore/panel";
import { Numbers, Tables } from "../explore/shown";
import { zoomIn, zoomOut } from "../frame/top";
import { linkTo } from "../location";
import { colourOf } from "../parts/colours";
import { ErrorBox } from "../parts/error";
import { unitOf, withUnit } from "../parts/units";
import { type Answers, ask } from "./ask";
import type { Panel } from "./format";
import { type Line, pictureOf } from "./picture";
import { paintTurn } from "./queue";
import { linkOf } from "./state";
import { filled, type Values } from "./variables";

/** How many series of a plot are drawn at first, and how many of them the legend lists. */
const drawn = 50;
const listed = 8;

export interface PanelProps {
  panel: Panel;
  db: string;
  values: Values | Error | null;
  from: string;
  to: string;
  /** Counts the refreshes: when it grows, the panel asks again. */
  tick: number;
  height: number; // px of the content
}

/** Asks what a panel asks. While it is out of sight it waits. */
function useAnswers({ panel, db, values, from, to, tick }: PanelProps) {
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState(false);
  const [state, setState] = useState<{ answers: Answers | null; error: Error | null; busy: boolean }>({ answers: null, error: null, busy: false });
  const running = useRef<AbortController | null>(null);
  const last = useRef({ wanted: "", tick: -1 });
  useEffect(() => {
    const watch = new IntersectionObserver((entries) => setSeen(entries.at(-1)!.isIntersecting), { rootMargin: "100px" });
    watch.observe(box.current!);
    return () => {
      watch.disconnect();
      running.current?.abort();
    };
  }, []);
  const text = panel.kind === "text";
  const wanted = JSON.stringify([panel.queries, db, values, from, to]);
  useEffect(() => {
    if (text || !seen || values === null || values instanceof Error) return;
    // A refresh does not cut off an answer that is under way.
    if (last.current.wanted === wanted && (last.current.tick === tick || running.current !== null)) return;
    last.current = { wanted, tick };
    running.current?.abort();
    const controller = (running.current = new AbortController());
    setState((s) => ({ ...s, busy: true }));
    const end = (some: { answers?: Answers; error: Error | null }) => {
      if (controller.signal.aborted) return;
      running.current = null;
      setState((s) => ({ ...s, ...some, busy: false }));
    };
    ask(panel.queries, db, values, from, to, box.current!.clientWidth, controller.signal).then(
      (answers) => paintTurn().then(() => end({ answers, error: null })),
      (error: Error) => end({ error }),
    );
  }, [wanted, tick, seen, text]);
  return { box, ...state };
}

/** What a panel shows, without its frame. */
export function Content(props: PanelProps & { lines?: { current: () => Line[] } }) {
  const { panel, values, height, lines } = props;
  const { box, answers, error, busy } = useAnswers(props);
  if (lines !== undefined) lines.current = () => linesOf(panel, answers);
  return (
    <div ref={box} class="content" aria-busy={busy}>
      {panel.kind === "text" && panel.text.split(/\n\s*\n/).map((paragraph, i) => <p key={i} class="long">{paragraph}</p>)}
      {panel.kind !== "text" && (
        <>
          {values instanceof Error && <ErrorBox error={values} />}
          {error !== null && <ErrorBox error={error} />}
          {answers?.errors.map((e, i) => <ErrorBox key={i} error={e} />)}
          {answers?.messages.map((m, i) => <p key={i} class="message">{m.text}</p>)}
          {answers === null && error === null && !(values instanceof Error) && <p class="faint">{panel.queries.some((q) => q.text.trim() !== "") ? (busy ? "Running…" : "Waiting…") : "This panel has no query."}</p>}
          {answers !== null && answers.errors.length === 0 && answers.tables.length === 0 && answers.messages.length === 0 && <p class="faint">The answer has no rows.</p>}
          {answers !== null && <Shown panel={panel} answers={answers} height={height} />}
        </>
      )}
    </div>
  );
}

function Shown({ panel, answers, height }: { panel: Panel; answers: Answers; height: number }) {
  const { frames, tables, range, sent } = answers;
  const { by, unit } = panel.options;
  const [order, setOrder] = useState<Measure | null>(null); // of the legend, if the user has chosen one
  if (panel.kind === "number" || (panel.kind === "plot" && !overTime(frames) && frames.length > 0)) return <Numbers frames={frames} sent={sent} by={panel.kind === "number" ? by : "last"} unit={unit} />;
  if (panel.kind === "table" || frames.length === 0) return <Tables series={tables} />;
  const legend = 24 + 23 * Math.min(frames.length, 3); // px; the others are below the edge
  return (
    <Plotted
      frames={frames}
      asked={range}
      sent={panel.queries.map((q) => q.text).join("\n")}
      options={{ ...panel.options, by: order ?? by }}
      onOptions={(some) => some.by !== undefined && setOrder(some.by)}
      onRange={zoomIn}
      onOut={zoomOut}
      height={Math.max(110, height - legend)}
      most={drawn}
      legendRows={listed}
    />
  );
}

/** The lines of a picture: series with their figures, or rows. */
function linesOf(panel: Panel, answers: Answers | null): Line[] {
  if (panel.kind === "text") return panel.text.split("\n").map((text) => ({ text }));
  if (answers === null) return [];
  const { frames, tables, sent } = answers;
  if (panel.kind === "table" || frames.length === 0) return tables.flatMap((s) => [{ text: s.columns.join("  ") }, ...(s.values ?? []).slice(0, 40).map((row) => ({ text: row.map((v) => v ?? "").join("  ") }))]);
  const unit = withUnit(panel.options.unit === "auto" ? unitOf(frames.map((f) => f.name), sent) : panel.options.unit);
  const summaries = frames.map(summaryOf);
  return ranked(summaries, panel.options.by).slice(0, 20).map((i) => ({ text: `${titleOf(frames[i]!)}  ${figure(summaries[i]![panel.options.by], unit)}`, colour: colourOf(i) }));
}

function figure(value: number, unit: (n: number) => string): string {
  return Number.isNaN(value) ? "–" : unit(value);
}

/** A panel with its title and its menu. */
export function Framed(props: PanelProps & { onMove?: (e: PointerEvent, size: boolean) => void; onKey?: (e: KeyboardEvent) => void; onEdit?: () => void; onCopy?: () => void; onDelete?: () => void }) {
  const { panel, db, values, onMove, onKey, onEdit, onCopy, onDelete } = props;
  const element = useRef<HTMLElement>(null);
  const menu = useRef<HTMLDetailsElement>(null);
  const lines = useRef<() => Line[]>(() => []);
  const [error, setError] = useState<Error | null>(null);
  const name = panel.title || `Panel ${panel.id}`;
  const file = name.replace(/[^\w-]+/g, "-");
  const close = () => menu.current?.removeAttribute("open");
  const choose = (act: () => void) => () => {
    close();
    act();
  };
  const query = panel.queries[0];
  return (
    <article
      ref={element}
      class="panel"
      aria-label={name}
      onContextMenu={(e) => {
        if ((e.target as Element).closest("input, textarea, a")) return;
        e.preventDefault();
        menu.current!.open = true;
        menu.current!.querySelector<HTMLElement>("button, a")?.focus();
      }}
    >
      <div class="head">
        {onMove === undefined ? (
          <strong class="title">{name}</strong>
        ) : (
          <button type="button" class="title quiet" title="Drag to move. Arrows move it, with Shift they change its size." onPointerDown={(e) => onMove(e, false)} onKeyDown={onKey}>{name}</button>
        )}
        <details
          ref={menu}
          class="menu"
          onKeyDown={(e) => {
            if (e.key !== "Escape") return;
            close();
            menu.current!.querySelector("summary")!.focus();
          }}
          onFocusOut={(e) => e.relatedTarget !== null && !e.currentTarget.contains(e.relatedTarget as Node) && close()}
        >
          <summary aria-label={`Menu of ${name}`}>⋮</summary>
          <div class="items">
            {onEdit && <button type="button" onClick={choose(onEdit)}>Edit</button>}
            {onCopy && <button type="button" onClick={choose(onCopy)}>Duplicate</button>}
            <a href={linkOf(panel.id)} onClick={close}>Show alone</a>
            {query !== undefined && panel.kind !== "text" && values !== null && !(values instanceof Error) && <a href={exploreLink(query, db, values)} onClick={close}>Explore</a>}
            <button type="button" onClick={choose(() => void pictureOf(element.current!, name, lines.current()).then((blob) => download(`${file}.png`, blob), setError))}>Save as picture</button>
            {onDelete && <button type="button" onClick={choose(onDelete)}>Delete</button>}
          </div>
        </details>
      </div>
      {error !== null && <ErrorBox error={error} />}
      <Content {...props} lines={lines} />
      {onMove !== undefined && <div class="corner" onPointerDown={(e) => onMove(e, true)} />}
    </article>
  );
}

/** Returns the link to a query in Explore, with the values in it. */
function exploreLink(query: Panel["queries"][number], db: string, values: Values): string {
  let text = query.text;
  try {
    text = filled(query.lang, query.text, values);
  } catch {
    // Explore shows the query as it is.
  }
  return linkTo("explore", { db: query.db || db, rp: query.rp, lang: query.lang, q: text });
}

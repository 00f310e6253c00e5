// A board: its bar, its variables, and its panels on the grid.

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import { download } from "../explore/download";
import { databases } from "../frame/databases";
import { tick, top } from "../frame/top";
import { linkTo } from "../location";
import { confirm } from "../parts/confirm";
import { Dialog } from "../parts/dialog";
import { ErrorBox } from "../parts/error";
import { adding } from "./adding";
import { Choices } from "./choices";
import { columns, panelOf, type Panel, type Place } from "./format";
import { createBoard, Newer, saveBoard } from "./kept";
import { added, placed, settled } from "./layout";
import { Edit } from "./lazy";
import { Framed } from "./panel";
import { asSeen, edit, editing, look, open, saved, unsaved, values, view } from "./state";

/** A row of the grid and the gap below it, in px. style.css has the same. */
const row = 68;
const gap = 8;

/** The height of the content of a panel of so many rows. */
const heightOf = (rows: number) => rows * row - gap - 44;

export function BoardView() {
  const o = open.value!;
  const { db, from, to } = top.value;
  const { panel: alone } = view.value;
  const [dialog, setDialog] = useState<"" | "name" | "copy" | "variables" | Newer>("");
  const [error, setError] = useState<Error | null>(null);
  const [saving, setSaving] = useState(false);
  useEffect(() => {
    if (!unsaved.value) return;
    const ask = (e: BeforeUnloadEvent) => e.preventDefault();
    addEventListener("beforeunload", ask);
    return () => removeEventListener("beforeunload", ask);
  }, [unsaved.value]);

  useEffect(() => {
    const panel = adding.value;
    adding.value = null;
    if (panel !== null) edit({ panels: added(open.value!.board.panels, { ...panel, queries: panel.queries.map((q) => ({ ...q, db: q.db === o.home ? "" : q.db })) }) });
  }, []);

  /** Saves, and has a second editor choose what becomes of the other edition. */
  const save = async (edition = o.edition) => {
    setError(null);
    setSaving(true);
    const begun = open.value!;
    try {
      const board = asSeen();
      const next = await saveBoard(o.home, o.id, begun.name, edition, board);
      saved({ home: o.home, id: o.id, edition: next, name: begun.name, board }, begun);
      setDialog("");
    } catch (e) {
      if (e instanceof Newer) setDialog(e);
      else setError(e as Error);
    }
    setSaving(false);
  };
  const saveAs = async (home: string, name: string) => {
    const begun = open.value!;
    const board = asSeen();
    const { id, edition } = await createBoard(home, name, board);
    saved({ home, id, edition, name, board }, begun);
    setDialog("");
  };
  const common = { db, values: values.value, from, to, tick: tick.value };
  const one = alone === 0 ? undefined : o.board.panels.find((p) => p.id === alone);
  const edited = o.board.panels.find((p) => p.id === editing.value);
  return (
    <section class="board">
      <div class="bar">
        <a href={linkTo("boards")}>All boards</a>
        <h2>{o.name}</h2>
        <span class="faint" role="status">{unsaved.value ? "not saved" : o.id === "" ? (o.builtin === "" ? "new" : "built in") : `edition ${o.edition}`}</span>
        <span class="grow" />
        {alone !== 0 && <button type="button" onClick={() => look({ panel: 0 })}>Whole board</button>}
        <button type="button" onClick={() => { const board = added(o.board.panels, panelOf({ title: "", queries: [{}] })); edit({ panels: board }); editing.value = Math.max(...board.map((p) => p.id)); }}>Add a panel</button>
        <button type="button" onClick={() => setDialog("variables")}>Variables</button>
        <button type="button" onClick={() => setDialog("name")}>Rename</button>
        <button type="button" onClick={() => download(`${o.name.replace(/[^\w-]+/g, "-")}.json`, new Blob([JSON.stringify({ name: o.name, board: asSeen() }, null, 2) + "\n"], { type: "application/json" }))}>Download JSON</button>
        <button type="button" onClick={() => setDialog("copy")}>Save as…</button>
        {o.id !== "" && <button type="button" class="primary" disabled={saving} onClick={() => void save()}>{saving ? "Saving…" : "Save"}</button>}
      </div>
      <Choices />
      {error !== null && <ErrorBox error={error} />}
      {dialog === "name" && <NameDialog title="Rename the board" name={o.name} action="Rename" onClose={() => setDialog("")} onDone={async (_, name) => { open.value = { ...open.value!, name }; setDialog(""); }} />}
      {dialog === "copy" && <NameDialog title="Save as a board of its own" name={o.id === "" ? o.name : `${o.name} (copy)`} home={o.home || db} action="Save" onClose={() => setDialog("")} onDone={saveAs} />}
      {dialog === "variables" && <Edit part="variables" onClose={() => setDialog("")} />}
      {dialog instanceof Newer && (
        <Dialog title={`Somebody has saved edition ${dialog.edition} meanwhile`} onClose={() => setDialog("")}>
          <p>You began with edition {o.edition}. Nothing is lost yet: choose what becomes of both.</p>
          <div class="bar">
            <button type="button" onClick={() => setDialog("")}>Cancel</button>
            <a href={linkTo("boards", { in: o.home, board: o.id })} target="_blank" rel="noopener">Look at edition {dialog.edition}</a>
            <button type="button" onClick={() => setDialog("copy")}>Keep mine as a copy</button>
            <button type="button" class="danger" onClick={() => void save(dialog.edition)}>Overwrite it with mine</button>
          </div>
        </Dialog>
      )}
      {edited !== undefined ? (
        <Edit key={edited.id} part="panel" panel={edited} {...common} onClose={() => (editing.value = null)} />
      ) : one !== undefined ? (
        <div class="alone"><Framed panel={one} {...common} height={Math.max(300, innerHeight - 330)} onEdit={() => (editing.value = one.id)} /></div>
      ) : (
        <>
          {alone !== 0 && <p class="message">The board has no panel {alone}.</p>}
          {o.board.panels.length === 0 && <p class="faint">The board has no panels. Add one here, or with “Add to board” in <a href={linkTo("explore")}>Explore</a>.</p>}
          <Panels common={common} />
        </>
      )}
    </section>
  );
}

/** The panels on the grid, which are moved and sized by the pointer and by keys. */
function Panels({ common }: { common: { db: string; values: typeof values.value; from: string; to: string; tick: number } }) {
  const panels = settled(open.value!.board.panels);
  const grid = useRef<HTMLDivElement>(null);
  const [moved, setMoved] = useState<Panel[] | null>(null);
  const focus = useRef(0); // the panel that a key has moved keeps the focus
  useEffect(() => {
    if (focus.current !== 0) grid.current?.querySelector<HTMLElement>(`[data-panel="${focus.current}"] .title`)?.focus();
    focus.current = 0;
  });
  const pointer = (panel: Panel) => (e: PointerEvent, size: boolean) => {
    const { clientWidth } = grid.current!;
    if (e.button !== 0 || getComputedStyle(grid.current!).gridTemplateColumns.split(" ").length < columns) return;
    if (size) e.preventDefault();
    const cell = (clientWidth + gap) / columns;
    const { x, y, w, h } = panel.grid;
    let next: Panel[] | null = null;
    const move = (m: PointerEvent) => {
      const dx = Math.round((m.clientX - e.clientX) / cell);
      const dy = Math.round((m.clientY - e.clientY) / row);
      const to: Partial<Place> = size ? { w: Math.min(w + dx, columns - x), h: h + dy } : { x: x + dx, y: y + dy };
      setMoved((next = placed(panels, panel.id, to)));
    };
    const end = (keep: boolean) => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", up);
      removeEventListener("pointercancel", cancel);
      removeEventListener("keydown", key);
      setMoved(null);
      if (keep && next !== null) edit({ panels: next });
    };
    const up = () => end(true);
    const cancel = () => end(false);
    const key = (k: KeyboardEvent) => k.key === "Escape" && end(false);
    addEventListener("pointermove", move);
    addEventListener("pointerup", up);
    addEventListener("pointercancel", cancel);
    addEventListener("keydown", key);
  };
  const keys = (panel: Panel) => (e: KeyboardEvent) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
    if (step === undefined) return;
    e.preventDefault();
    const [dx, dy] = step as [number, number];
    const { x, y, w, h } = panel.grid;
    // One row down has no effect on a panel that others hold up: it changes places with the next one below.
    const below = panels.filter((p) => p.id !== panel.id && p.grid.y >= y + h && p.grid.x < x + w && x < p.grid.x + p.grid.w).map((p) => p.grid.y + p.grid.h);
    const above = panels.filter((p) => p.id !== panel.id && p.grid.y + p.grid.h <= y && p.grid.x < x + w && x < p.grid.x + p.grid.w).map((p) => p.grid.y);
    const to: Partial<Place> = e.shiftKey ? { w: w + dx, h: h + dy } : dy > 0 ? { y: Math.min(...below, y + 1000) } : dy < 0 ? { y: Math.max(...above, 0) } : { x: x + dx };
    focus.current = panel.id;
    edit({ panels: placed(panels, panel.id, to) });
  };
  const remove = async (panel: Panel) => {
    if (await confirm(`Delete the panel ${panel.title || panel.id}?`, "The board on the server keeps it until you save.", "Delete")) edit({ panels: settled(open.value!.board.panels.filter((p) => p.id !== panel.id)) });
  };
  return (
    <div ref={grid} class="panels">
      {panels.map((panel) => {
        const { x, y, w, h } = (moved?.find((m) => m.id === panel.id) ?? panel).grid;
        return (
          <div key={panel.id} data-panel={panel.id} class="cell" ref={(cell) => { for (const [name, value] of Object.entries({ x: x + 1, y: y + 1, w, h })) cell?.style.setProperty(`--${name}`, String(value)); }}>
            <Framed
              panel={panel}
              {...common}
              height={heightOf(h)}
              onMove={pointer(panel)}
              onKey={keys(panel)}
              onEdit={() => (editing.value = panel.id)}
              onCopy={() => edit({ panels: added(panels, { ...panel, title: `${panel.title} (copy)` }) })}
              onDelete={() => void remove(panel)}
            />
          </div>
        );
      })}
    </div>
  );
}

/** Asks for a name, and with home for a database. */
function NameDialog({ title, name: first, home: from, action, onClose, onDone }: { title: string; name: string; home?: string; action: string; onClose: () => void; onDone: (home: string, name: string) => Promise<void> }) {
  const [name, setName] = useState(first);
  const [home, setHome] = useState(from ?? "");
  const [error, setError] = useState<Error | null>(null);
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          setError(null);
          onDone(home, name.trim()).catch(setError);
        }}
      >
        <label>Name <input required pattern=".*\S.*" maxLength={200} value={name} onInput={(e) => setName(e.currentTarget.value)} /></label>
        {from !== undefined && (
          <label>
            Database <select required value={home} onChange={(e) => setHome(e.currentTarget.value)}>{(databases.value ?? [home]).map((one) => <option key={one}>{one}</option>)}</select>
          </label>
        )}
        {error !== null && <ErrorBox error={error instanceof ApiError && error.status === 403 ? new Error(`You may not save a board there: ${error.message}`) : error} />}
        <div class="bar">
          <button type="button" onClick={onClose}>Cancel</button>
          <button type="submit" class="primary">{action}</button>
        </div>
      </form>
    </Dialog>
  );
}

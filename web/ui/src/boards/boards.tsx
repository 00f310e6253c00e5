// Boards: the list of those that the user may see, or one of them.

import { useEffect, useState } from "preact/hooks";
import { databases } from "../frame/databases";
import { go, linkTo, place } from "../location";
import { confirm } from "../parts/confirm";
import { ErrorBox } from "../parts/error";
import { useLoad } from "../parts/load";
import { bytes } from "../parts/units";
import { textOf } from "../parts/zone";
import { adding } from "./adding";
import { BoardView } from "./board";
import { builtin } from "./builtin";
import { type Board, emptyBoard } from "./format";
import { boardOfFile, dropBoard, type Kept, listBoards } from "./kept";
import { load, open, paramsWith, show, unsaved } from "./state";

export function Boards() {
  const { params } = place.value;
  const [home, id, name] = [params.get("in") ?? "", params.get("board") ?? "", params.get("builtin") ?? ""];
  const fresh = params.has("new");
  const [error, setError] = useState<Error | null>(null);
  const o = open.value;
  const here = o !== null && o.home === home && o.id === id && o.builtin === name;
  const wanted = id !== "" || name !== "" || fresh;
  useEffect(() => {
    setError(null);
    if (!wanted || here) return;
    const controller = new AbortController();
    void (async () => {
      try {
        if (unsaved.value && !(await confirm(`Discard the changes of ${open.value!.name}?`, "They are not saved.", "Discard", "", controller.signal))) return history.back();
        const next = await load(home, id, name, controller.signal);
        if (!controller.signal.aborted) show(next);
      } catch (e) {
        if (!controller.signal.aborted) setError(e as Error);
      }
    })();
    return () => controller.abort();
  }, [home, id, name, fresh]);
  if (error !== null) return <ErrorBox error={error} />;
  if (!wanted) return <List />;
  return here ? <BoardView key={o.serial} /> : null;
}

/** The boards of a database, or why they cannot be listed. */
interface Listed {
  db: string;
  boards: Kept[];
  error: Error | null;
}

function List() {
  const [error, setError] = useState<Error | null>(null);
  const names = databases.value ?? [];
  const all = useLoad(
    async (signal): Promise<Listed[]> => Promise.all(names.map(async (db) => listBoards(db, signal).then((boards) => ({ db, boards, error: null }), (error: Error) => ({ db, boards: [], error })))),
    [names.join("\n")],
  );
  const listed = all.data ?? [];
  /** Shows a board that the server does not have. */
  const begin = async (name: string, board: Board) => {
    if (unsaved.value && !(await confirm(`Discard the changes of ${open.value!.name}?`, "They are not saved.", "Discard"))) return;
    go("boards", { new: "1" });
    show({ home: "", id: "", builtin: "", name, edition: 0, board });
  };
  const read = async (file: File | undefined) => {
    if (file === undefined) return;
    setError(null);
    try {
      if (file.size > 1 << 20) throw new Error(`it has ${bytes(file.size)}, more than 1 MiB`);
      const { name, board } = boardOfFile(await file.text());
      await begin(name || file.name.replace(/\.json$/, ""), board);
    } catch (e) {
      setError(new Error(`${file.name} is no board: ${(e as Error).message}`));
    }
  };
  const drop = async (db: string, b: Kept) => {
    if (!(await confirm(`Delete the board ${b.name} of ${db}?`, "Nothing brings it back but a backup.", "Delete"))) return;
    setError(null);
    await dropBoard(db, b.id, b.edition).catch(setError);
    if (open.value?.id === b.id && open.value.home === db) open.value = null;
    all.reload();
  };
  const kept = listed.flatMap((d) => d.boards.map((b) => ({ ...b, db: d.db })));
  const failed = listed.find((d) => d.error !== null)?.error ?? null;
  return (
    <section class="boards">
      {adding.value !== null && (
        <p class="message" role="status">
          Choose the board that gets the panel: <code>{adding.value.queries[0]?.text}</code> <button type="button" onClick={() => (adding.value = null)}>Cancel</button>
        </p>
      )}
      {unsaved.value && (
        <p class="message">
          {open.value!.name} has changes that are not saved. <a href={linkTo("boards", paramsWith())}>Go on</a>
        </p>
      )}
      <div class="bar">
        <button type="button" onClick={() => void begin("New board", emptyBoard)}>New board</button>
        <label class="button">Open a JSON file <input type="file" class="hidden" accept=".json,application/json" onChange={(e) => { void read(e.currentTarget.files?.[0]); e.currentTarget.value = ""; }} /></label>
      </div>
      {error !== null && <ErrorBox error={error} />}
      {all.error !== null && <ErrorBox error={all.error} />}
      {failed !== null && <ErrorBox error={failed} />}
      <h2>Boards</h2>
      {kept.length === 0 && all.data !== null && failed === null && <p class="faint">There are none yet. Make one, or take one of those below.</p>}
      {kept.length > 0 && (
        <div class="scroll">
          <table>
            <caption class="hidden">Boards</caption>
            <thead><tr><th scope="col">Name</th><th scope="col">Database</th><th scope="col">Changed</th><th scope="col">Edition</th><th scope="col">Size</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
            <tbody>
              {kept.map((b) => (
                <tr key={`${b.db} ${b.id}`}>
                  <td><a href={linkTo("boards", { db: b.db, in: b.db, board: b.id })}>{b.name}</a></td>
                  <td>{b.db}</td>
                  <td>{textOf(Date.parse(b.changed)).replace("T", " ").replace(/\.\d+/, "")}</td>
                  <td class="number">{b.edition}</td>
                  <td class="number">{bytes(b.bytes)}</td>
                  <td><button type="button" aria-label={`Delete ${b.name}`} onClick={() => void drop(b.db, b)}>Delete</button></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <h2>Built-in boards</h2>
      <p class="faint">They read the chosen database. Save one as a board of your own to change it.</p>
      <ul>
        {builtin.map((b) => <li key={b.id}><a href={linkTo("boards", { builtin: b.id })}>{b.name}</a> <span class="faint">{b.about}</span></li>)}
      </ul>
    </section>
  );
}

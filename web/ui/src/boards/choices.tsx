// The bar of the variables: their values are looked up, and chosen.

import { useEffect, useRef, useState } from "preact/hooks";
import { fill, intervalOf, rangeOf } from "../explore/range";
import { top } from "../frame/top";
import type { Variable } from "./format";
import { choiceOf, found, look, open, view } from "./state";
import { filled, lookUp, type Values } from "./variables";

/** How many values a list shows at once; the filter finds the others. */
const most = 200;

export function Choices() {
  const { board } = open.value!;
  const { db, from, to } = top.value;
  const { chosen } = view.value;
  const known = useRef(new Map<string, string[] | Error>());
  const wanted = JSON.stringify([db, board.variables.map(({ value, ...v }) => [v, value]), chosen]);
  useEffect(() => {
    const controller = new AbortController();
    void (async () => {
      const values: Values = {}; // of the variables before: a look-up may use them
      for (const v of board.variables) {
        const query = `${v.lang} ${v.query} ${JSON.stringify(values)} ${db}`;
        let result = known.current.get(query);
        if (result === undefined) {
          try {
            const range = rangeOf(from, to);
            result = await lookUp(v.lang, fill(filled(v.lang, v.query, values), range, intervalOf(range, 1000)), db, controller.signal);
          } catch (e) {
            result = e as Error;
          }
          if (controller.signal.aborted) return;
          if (!(result instanceof Error)) known.current.set(query, result);
        }
        found.value = { ...found.value, [v.name]: result };
        values[v.name] = choiceOf(v);
      }
    })();
    return () => controller.abort();
  }, [wanted]);
  if (board.variables.length === 0) return null;
  return (
    <div class="bar" role="group" aria-label="Variables">
      {board.variables.map((v) => <Choice key={v.name} variable={v} />)}
    </div>
  );
}

function Choice({ variable: v }: { variable: Variable }) {
  const [filter, setFilter] = useState("");
  const values = found.value[v.name];
  const list = Array.isArray(values) ? values : [];
  const choice = choiceOf(v);
  const choose = (next: string[]) => look({ chosen: { ...view.value.chosen, [v.name]: next } }, true);
  const all = [...new Set([...choice, ...list])];
  const matching = all.filter((value) => value.toLowerCase().includes(filter.toLowerCase()));
  const said = choice.length === 0 ? (v.all ? "all" : "–") : choice.length <= 3 ? choice.join(", ") : `${choice.length} values`;
  return (
    <details class="menu choice">
      <summary>{v.name}: <b>{said}</b></summary>
      <div class="items" role="group" aria-label={`Values of ${v.name}`}>
        {values instanceof Error && <p class="error">{values.message}</p>}
        {all.length > 10 && <input type="search" aria-label={`Find a value of ${v.name}`} placeholder="find" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} />}
        {v.all && <label><input type={v.multi ? "checkbox" : "radio"} checked={choice.length === 0} onChange={() => choose([])} /> all</label>}
        {matching.slice(0, most).map((value) => (
          <label key={value}>
            <input
              type={v.multi ? "checkbox" : "radio"}
              checked={choice.includes(value)}
              onChange={(e) => choose(!v.multi ? [value] : e.currentTarget.checked ? [...choice, value] : choice.filter((c) => c !== value))}
            />{" "}
            {value === "" ? "(empty)" : value}
          </label>
        ))}
        {matching.length > most && <p class="faint">and {matching.length - most} more: type a part of the name</p>}
        {all.length === 0 && !(values instanceof Error) && <p class="faint">{values === undefined ? "Looking…" : "no values"}</p>}
      </div>
    </details>
  );
}

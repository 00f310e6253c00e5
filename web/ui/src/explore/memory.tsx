// The lists of saved and past queries.

import { useState } from "preact/hooks";
import { forget, forgetPast, past, save, saved, type Kept } from "./history";
import { load, settings } from "./state";

export function Memory() {
  const [name, setName] = useState("");
  return (
    <details class="memory">
      <summary>Saved queries and history</summary>
      <form
        class="bar"
        onSubmit={(e) => {
          e.preventDefault();
          save(name.trim(), settings.value);
          setName("");
        }}
      >
        <label>Save this query as <input value={name} required onInput={(e) => setName(e.currentTarget.value)} /></label>
        <button type="submit">Save</button>
      </form>
      <List title="Saved" items={saved.value} remove={(k) => forget(k.name)} />
      <List title="History" items={past.value.slice(0, 30)} />
      {past.value.length > 0 && <button type="button" onClick={forgetPast}>Forget the history</button>}
    </details>
  );
}

function List({ title, items, remove }: { title: string; items: Kept[]; remove?: (k: Kept) => void }) {
  if (items.length === 0) return null;
  return (
    <>
      <h2>{title}</h2>
      <ul class="queries">
        {items.map((k) => (
          <li key={`${k.name} ${k.at}`}>
            <button type="button" class="quiet code" onClick={() => load({ ...k.settings })} title={new Date(k.at).toLocaleString()}>
              {k.name === "" ? "" : `${k.name}: `}
              {k.settings.text}
            </button>
            {remove && <button type="button" class="quiet" aria-label={`Forget ${k.name}`} onClick={() => remove(k)}>✕</button>}
          </li>
        ))}
      </ul>
    </>
  );
}

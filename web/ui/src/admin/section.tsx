// A part of the admin page: a list, and a form that adds to it.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { ErrorBox } from "../parts/error";
import { Grid } from "../parts/grid";
import { useLoad } from "../parts/load";
import type { Cell } from "../parts/rows";

export interface SectionProps {
  title: string;
  columns: string[];
  load: (signal: AbortSignal) => Promise<Cell[][]>;
  /** What the list depends on. */
  deps?: unknown[];
  /** The buttons of a row. */
  actions?: (row: Cell[], act: (work: () => Promise<unknown>) => void) => ComponentChildren;
  /** The form that adds a row. */
  form?: (act: (work: () => Promise<unknown>) => void) => ComponentChildren;
}

export function Section({ title, columns, load, deps = [], actions, form }: SectionProps) {
  const list = useLoad(load, deps);
  const [error, setError] = useState<Error | null>(null);
  const act = (work: () => Promise<unknown>) => {
    setError(null);
    work().then(list.reload, setError);
  };
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      {list.error !== null && <ErrorBox error={list.error} />}
      {error !== null && <ErrorBox error={error} />}
      {list.data?.length === 0 && <p class="faint">None.</p>}
      {list.data !== null && list.data.length > 0 && (
        <Grid
          caption=""
          columns={actions === undefined ? columns : [...columns, ""]}
          rows={actions === undefined ? list.data : list.data.map((row) => [...row, ""])}
          show={(value, i, row) => (i === columns.length ? actions?.(row, act) : value === null ? "" : String(value))}
          pageSize={50}
        />
      )}
      {form?.(act)}
    </section>
  );
}

/** Returns the fields of a form as texts, and empties it. */
export function fieldsOf(event: SubmitEvent): Record<string, string> {
  event.preventDefault();
  const form = event.currentTarget as HTMLFormElement;
  const fields = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()]));
  form.reset();
  return fields;
}

// A table that can be sorted and paged.

import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { compareValues, pageOf, type Cell } from "./rows";

export interface GridProps {
  caption: string;
  columns: string[];
  rows: Cell[][];
  /** Shows a cell; absent: its text. */
  show?: (value: Cell, column: number, row: Cell[]) => ComponentChildren;
  pageSize?: number;
}

export function Grid({ caption, columns, rows, show, pageSize = 100 }: GridProps) {
  const [sort, setSort] = useState<{ column: number; down: boolean } | null>(null);
  const [page, setPage] = useState(0);
  const sorted = useMemo(() => {
    if (sort === null) return rows;
    const sign = sort.down ? -1 : 1;
    return rows.toSorted((a, b) => sign * compareValues(a[sort.column] ?? null, b[sort.column] ?? null));
  }, [rows, sort]);
  const shown = pageOf(sorted, page, pageSize);
  const by = (column: number) => setSort(sort?.column !== column ? { column, down: false } : sort.down ? null : { column, down: true });
  return (
    <div class="scroll">
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {columns.map((name, i) => name === "" ? <td key={i} /> : (
              <th key={name} scope="col" aria-sort={sort?.column !== i ? "none" : sort.down ? "descending" : "ascending"}>
                <button type="button" class="sort" onClick={() => by(i)}>
                  {name}
                  {sort?.column === i ? (sort.down ? " ▾" : " ▴") : ""}
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.rows.map((row, i) => (
            <tr key={shown.first + i}>
              {row.map((value, k) => <td key={k} class={typeof value === "number" ? "number" : undefined}>{show ? show(value, k, row) : text(value)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
      {shown.pages > 1 && (
        <div class="bar">
          <button type="button" disabled={shown.page === 0} onClick={() => setPage(shown.page - 1)}>Back</button>
          <span>
            rows {shown.first + 1} to {shown.first + shown.rows.length} of {rows.length.toLocaleString("en")}
          </span>
          <button type="button" disabled={shown.page === shown.pages - 1} onClick={() => setPage(shown.page + 1)}>Next</button>
        </div>
      )}
    </div>
  );
}

/** The text of a cell. */
export function text(value: Cell): string {
  return value === null ? "" : String(value);
}

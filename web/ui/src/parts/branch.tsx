// A part that loads its content when it is opened.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

export function Branch({ label, children }: { label: ComponentChildren; children: () => ComponentChildren }) {
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{label}</summary>
      {open && children()}
    </details>
  );
}

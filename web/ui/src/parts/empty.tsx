// What a view shows when it has nothing to show: why, and the next step.

import type { ComponentChildren } from "preact";

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="card empty">
      <svg viewBox="0 0 64 32" width="96" height="48" aria-hidden="true">
        <path d="M2 26 14 12l10 10L38 4l12 18 12-8" fill="none" stroke="currentColor" stroke-width="2.5" stroke-linecap="round" stroke-linejoin="round" />
        <path d="M2 30.5h60" stroke="currentColor" stroke-width="1" opacity="0.5" />
      </svg>
      <h2>{title}</h2>
      <div>{children}</div>
    </div>
  );
}

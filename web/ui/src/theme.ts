// Light or dark: the choice of the system, or of the user.

import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const key = "tsdbd-theme";

export const theme = signal<Theme>((localStorage.getItem(key) as Theme | null) ?? "system");

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  if (theme.value === "system") localStorage.removeItem(key);
  else localStorage.setItem(key, theme.value);
});

/** Chooses the next theme. */
export function nextTheme(): void {
  theme.value = theme.value === "system" ? "light" : theme.value === "light" ? "dark" : "system";
}

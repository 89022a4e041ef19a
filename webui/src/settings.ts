/** What this browser remembers: the theme, and small preferences of the screens. Nothing here is secret. */

import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

function stored(name: string): string | null {
  try {
    return localStorage.getItem(`grass.${name}`);
  } catch {
    return null;
  }
}

/** Return a signal that this browser remembers; `accept` reads what was stored, and answers undefined for rubbish. */
export function remembered<T>(name: string, initial: T, accept: (value: unknown) => T | undefined) {
  let begin: T | undefined;
  try {
    begin = accept(JSON.parse(stored(name) ?? "null"));
  } catch {
    begin = undefined;
  }
  const value = signal<T>(begin ?? initial);
  effect(() => {
    const text = JSON.stringify(value.value);
    try {
      localStorage.setItem(`grass.${name}`, text);
    } catch {
      // A browser that stores nothing forgets the preference, and nothing else happens.
    }
  });
  return value;
}

export const theme = remembered<Theme>("theme", "system", (value) =>
  value === "light" || value === "dark" || value === "system" ? value : undefined,
);

effect(() => {
  const root = document.documentElement;
  if (theme.value === "system") delete root.dataset.theme;
  else root.dataset.theme = theme.value;
});
